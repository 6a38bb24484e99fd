#include "hook/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/env.h"
#include "hook/mirror.h"
#include "hook/self.h"
#include "slice.h"

static int setup(void **state)
{
    (void)state;
    slice_setup();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unsetenv(GS_ENV_LOG);
    slice_teardown();
    return 0;
}

static void test_wraps(void **state)
{
    struct gs_ledger_event events[GS_LEDGER_RING];
    uint64_t next;

    (void)state;
    slice_attach();
    errno = 5;
    for (uint64_t i = 0; i < GS_LEDGER_RING + 10; i++)
        gs_ring_log(GS_REASON_OVER_LIMIT, 1, "cuMemAllocAndSomeMoreThanFortyCharactersLong_v2",
                    (uint64_t[4]){i, 2, 3, 4});
    assert_int_equal(errno, 5);
    assert_int_equal(gs_ledger_read_events(gs_self.fd, 0, events, GS_LEDGER_RING, &next),
                     GS_LEDGER_RING);
    assert_int_equal(events[0].arg[0], 10);
    assert_int_equal(events[0].device, 1);
    assert_int_equal(events[0].pid, getpid());
    assert_true(events[0].time_ns > 0);
    assert_int_equal(strnlen(events[0].what, 40), 39);
    gs_ring_log(GS_REASON_UNHELD, GS_RING_NO_DEVICE, NULL, NULL);
    assert_int_equal(gs_ledger_read_events(gs_self.fd, next, events, 1, &next), 1);
    assert_int_equal(events[0].device, GS_RING_NO_DEVICE);
    assert_int_equal(events[0].what[0], '\0');
    assert_int_equal(events[0].arg[0], 0);
}

/** The debug variable may name a descriptor. */
static void test_descriptor(void **state)
{
    char number[16], text[300] = {0};
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    (void)snprintf(number, sizeof(number), "%d", ends[1]);
    assert_int_equal(setenv(GS_ENV_LOG, number, 1), 0);
    slice_attach();
    gs_ring_log(GS_REASON_OVER_LIMIT, 0, "cuMemAlloc_v2", (uint64_t[4]){1024, 0, 1000, 0});
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "cuMemAlloc_v2: asked for 1 KiB"));
    assert_int_equal(text[strlen(text) - 1], '\n');
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_log_cannot_be_written(void **state)
{
    (void)state;
    assert_int_equal(setenv(GS_ENV_LOG, "/nowhere/log", 1), 0);
    slice_attach();
    gs_ring_log(GS_REASON_UNHELD, 0, "x", NULL);
    assert_int_equal(setenv(GS_ENV_LOG, "9999", 1), 0);
    gs_ring_configure();
    gs_ring_log(GS_REASON_UNHELD, 0, "x", NULL);
}

/** Without a ledger nothing is written anywhere, and nothing breaks. */
static void test_no_ledger(void **state)
{
    (void)state;
    gs_ring_log(GS_REASON_UNHELD, 0, "x", NULL);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {CASE(test_wraps), CASE(test_descriptor),
                                       CASE(test_log_cannot_be_written), CASE(test_no_ledger)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
