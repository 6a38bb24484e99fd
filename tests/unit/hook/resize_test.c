#include "hook/resize.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/env.h"
#include "hook/attach.h"
#include "hook/gate.h"
#include "slice.h"

#define S UINT64_C(1000000000)

static int setup(void **state)
{
    (void)state;
    slice_setup();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slice_teardown();
    return 0;
}

/** A new file, renamed into place, as `gpuslice resize` does it. */
static void replace_quota(unsigned generation, const char *rest)
{
    char path[128], temp[128];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/" GS_QUOTA_FILE, slice_folder());
    (void)snprintf(temp, sizeof(temp), "%s/new", slice_folder());
    f = fopen(temp, "w");
    assert_non_null(f);
    assert_true(fprintf(f, "gpuslice-quota 1\ngeneration %u\nfail closed\n%s", generation, rest) >
                0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(rename(temp, path), 0);
}

static void announce(uint64_t generation)
{
    __atomic_store_n(&gs_self.ledger->head.quota_wanted, generation, __ATOMIC_RELEASE);
}

/** How often a reason stands in the ring. */
static int count(enum gs_reason reason)
{
    static struct gs_ledger_event events[GS_LEDGER_RING];
    uint64_t next;
    int found = 0, n = gs_ledger_read_events(gs_self.fd, 0, events, GS_LEDGER_RING, &next);

    for (int i = 0; i < n; i++)
        found += events[i].reason == reason;
    return found;
}

static void the_gate_follows_an_announced_quota(void **state)
{
    (void)state;
    slice_attach();
    assert_int_equal(gs_gate_reserve(0, 900, GS_CHARGE_HELD, "t"), 0);
    replace_quota(4, "priority 0\n"
                     "device GPU-0 memory=2000 cores=50 policy=elastic\n"
                     "device GPU-1 memory=500 cores=none policy=off\n"
                     "device GPU-2 memory=1000 cores=none policy=elastic\n");
    assert_int_equal(gs_gate_reserve(0, 900, GS_CHARGE_HELD, "t"), -ENOMEM); /* not told yet */
    announce(4);
    errno = 77;
    assert_int_equal(gs_gate_reserve(0, 1100, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(errno, 77);
    assert_int_equal(gs_gate_try(0, 1, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_limit(1), 500); /* had none */
    assert_int_equal(gs_self.core_pct[0], 50);
    assert_int_equal(gs_self.policy[0], GS_POLICY_ELASTIC);
    assert_int_equal(gs_self.priority, GS_PRIORITY_HIGH);
    assert_int_equal(gs_self.ledger->head.quota_generation, 4);
    assert_int_equal(gs_self.device[0].limit_bytes, 2000);
    assert_int_equal(gs_self.device[0].core_pct, 50);
    assert_int_equal(gs_self.region->limit_bytes[0], 2000);
    assert_int_equal(gs_self.region->sm_limit_pct[0], 50);
    assert_int_equal(gs_self.region->priority, 0);
    assert_int_equal(count(GS_REASON_RESIZED), 1);
    assert_int_equal(count(GS_REASON_RESIZED_PRIORITY), 1);
}

static void a_query_follows_as_well(void **state)
{
    (void)state;
    slice_attach();
    replace_quota(4, "device GPU-0 memory=77 cores=none policy=off\n");
    announce(4);
    assert_int_equal(gs_gate_limit(0), 77);
}

/** Bytes in use are not touched; there is just no room. */
static void below_use_nothing_is_freed(void **state)
{
    (void)state;
    slice_attach();
    assert_int_equal(gs_gate_reserve(0, 900, GS_CHARGE_HELD, "t"), 0);
    replace_quota(4, "device GPU-0 memory=500 cores=none policy=off\n"
                     "device GPU-1 memory=none cores=none policy=off\n"
                     "device GPU-2 memory=1000 cores=none policy=off\n");
    announce(4);
    assert_int_equal(gs_gate_reserve(0, 1, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_used(0), 900);
    assert_int_equal(count(GS_REASON_RESIZE_BELOW_USE), 1);
    gs_gate_release(0, 900, GS_CHARGE_HELD);
    assert_int_equal(gs_gate_reserve(0, 500, GS_CHARGE_HELD, "t"), 0);
}

static void a_device_that_is_gone_gives_nothing_new(void **state)
{
    (void)state;
    slice_attach();
    assert_int_equal(gs_gate_reserve(2, 400, GS_CHARGE_HELD, "t"), 0);
    replace_quota(4, "device GPU-0 memory=1000 cores=none policy=off\n"
                     "device GPU-9 memory=1000 cores=none policy=off\n");
    announce(4);
    assert_int_equal(gs_gate_reserve(2, 1, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_limit(2), 0);
    assert_int_equal(gs_gate_used(2), 400);
    assert_int_equal(gs_attach_device("GPU-2"), -ENODEV);
    assert_int_equal(gs_attach_device("GPU-9"), -ENODEV); /* the ledger has no place for it */
    assert_int_equal(count(GS_REASON_RESIZE_NEW_DEVICE), 1);
    assert_true(gs_self.region->limit_bytes[2] != 0); /* HAMi's word for no limit */
    replace_quota(5, "device GPU-2 memory=1000 cores=none policy=off\n");
    announce(5);
    assert_int_equal(gs_gate_reserve(2, 600, GS_CHARGE_HELD, "t"), 0);
}

static void a_bad_quota_leaves_the_old_limits(void **state)
{
    (void)state;
    slice_attach();
    replace_quota(4, "device GPU-0 memory=12zb cores=none policy=off\n");
    announce(4);
    assert_int_equal(gs_gate_limit(0), 1000);
    assert_int_equal(gs_gate_reserve(0, 1000, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(gs_gate_limit(0), 1000);
    assert_int_equal(count(GS_REASON_RESIZE_BAD), 1); /* told once, not at each call */
    assert_int_equal(gs_attach_reason(), GS_REASON_NONE);
    assert_int_equal(gs_self.ledger->head.quota_generation, 3);
    replace_quota(5, "device GPU-0 memory=2000 cores=none policy=off\n");
    announce(5);
    assert_int_equal(gs_gate_limit(0), 2000);
}

static void no_quota_leaves_the_old_limits(void **state)
{
    char path[128];

    (void)state;
    slice_attach();
    (void)snprintf(path, sizeof(path), "%s/" GS_QUOTA_FILE, slice_folder());
    assert_int_equal(unlink(path), 0);
    announce(4);
    assert_int_equal(gs_gate_limit(0), 1000);
    assert_int_equal(count(GS_REASON_RESIZE_UNREADABLE), 1);
}

/** Nobody announced anything: the file, or its whole folder, is away. */
static void a_quota_that_is_gone_is_told_of_once(void **state)
{
    char path[128], aside[128];

    (void)state;
    slice_attach();
    (void)snprintf(path, sizeof(path), "%s/" GS_QUOTA_FILE, slice_folder());
    (void)snprintf(aside, sizeof(aside), "%s.aside", slice_folder());
    gs_resize_poll(10 * S);
    assert_int_equal(unlink(path), 0);
    for (uint64_t i = 1; i <= 5; i++)
        gs_resize_poll(10 * S + i * GS_RESIZE_POLL_NS);
    assert_int_equal(count(GS_REASON_RESIZE_UNREADABLE), 1);
    assert_int_equal(gs_gate_limit(0), 1000);
    replace_quota(4, "device GPU-0 memory=2000 cores=none policy=off\n");
    gs_resize_poll(10 * S + 6 * GS_RESIZE_POLL_NS);
    assert_int_equal(gs_gate_limit(0), 2000);
    assert_int_equal(rename(slice_folder(), aside), 0);
    for (uint64_t i = 7; i <= 11; i++)
        gs_resize_poll(10 * S + i * GS_RESIZE_POLL_NS);
    assert_int_equal(rename(aside, slice_folder()), 0);
    assert_int_equal(count(GS_REASON_RESIZE_UNREADABLE), 2);
    assert_int_equal(gs_gate_limit(0), 2000);
}

/** Something that cannot be opened, whoever asks: it is told of once, not twice a second. */
static void an_unreadable_quota_is_told_of_once(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    slice_attach();
    gs_resize_poll(10 * S);
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s/" GS_QUOTA_FILE, slice_folder());
    assert_int_equal(unlink(name.sun_path), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(close(fd), 0);
    for (uint64_t i = 1; i <= 5; i++)
        gs_resize_poll(10 * S + i * GS_RESIZE_POLL_NS);
    assert_int_equal(count(GS_REASON_RESIZE_UNREADABLE), 1);
    assert_int_equal(gs_gate_limit(0), 1000);
    replace_quota(4, "device GPU-0 memory=2000 cores=none policy=off\n");
    gs_resize_poll(10 * S + 6 * GS_RESIZE_POLL_NS);
    assert_int_equal(gs_gate_limit(0), 2000);
}

/** A plugin that cannot write the ledger just renames the file. */
static void slow_paths_look_twice_a_second(void **state)
{
    (void)state;
    slice_attach();
    gs_resize_poll(10 * S); /* the first look; nothing new */
    replace_quota(4, "device GPU-0 memory=2000 cores=none policy=off\n");
    gs_resize_poll(10 * S + GS_RESIZE_POLL_NS - 1);
    assert_int_equal(gs_gate_limit(0), 1000);
    errno = 77;
    gs_resize_poll(10 * S + GS_RESIZE_POLL_NS);
    assert_int_equal(errno, 77);
    assert_int_equal(gs_gate_limit(0), 2000);
    replace_quota(5, "device GPU-0 memory=3000 cores=none policy=off\n");
    announce(5);
    gs_resize_poll(10 * S + GS_RESIZE_POLL_NS); /* announced: at once */
    assert_int_equal(gs_self.limit_bytes[0], 3000);
    replace_quota(6, "device GPU-0 memory=4000 cores=none policy=off\n");
    gs_resize_poll(1 * S); /* the clock has jumped back */
    assert_int_equal(gs_self.limit_bytes[0], 4000);
}

/** Written between our reading it and our making the ledger: nobody could announce it there. */
static void attaching_looks_again(void **state)
{
    (void)state;
    slice_attach();
    gs_self.quota.file[1]++; /* as if another file had been read */
    replace_quota(4, "device GPU-0 memory=2000 cores=none policy=off\n");
    gs_resize_attached();
    assert_int_equal(gs_self.limit_bytes[0], 2000);
}

/** What was announced before we came is what we have read. */
static void an_old_announcement_is_not_new(void **state)
{
    (void)state;
    slice_attach();
    announce(3);
    gs_attach_forget();
    slice_attach();
    assert_false(gs_resize_is_due(&gs_self));
    assert_int_equal(count(GS_REASON_RESIZED), 0);
}

static void limits_from_variables_stay(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "1000", 1), 0);
    slice_attach();
    announce(9);
    assert_int_equal(gs_gate_limit(0), 1000);
    assert_int_equal(gs_gate_reserve(0, 1000, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(count(GS_REASON_RESIZE_ENV), 1);
    gs_resize_poll(10 * S);
    assert_int_equal(count(GS_REASON_RESIZE_ENV), 1);
}

static int child_has_2000(void *arg)
{
    (void)arg;
    return gs_gate_limit(0) == 2000 && gs_gate_reserve(0, 1500, GS_CHARGE_HELD, "t") == 0 ? 0 : 1;
}

static void other_processes_follow_and_one_of_them_tells(void **state)
{
    (void)state;
    slice_attach();
    replace_quota(4, "device GPU-0 memory=2000 cores=none policy=off\n");
    announce(4);
    assert_int_equal(slice_in_other(child_has_2000, NULL), 0);
    assert_int_equal(gs_gate_limit(0), 2000);
    assert_int_equal(count(GS_REASON_RESIZED), 0); /* the newcomer read it as its first */
}

static void not_attached_is_harmless(void **state)
{
    (void)state;
    gs_resize_poll(S);
    gs_resize_now();
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_gate_follows_an_announced_quota),
        CASE(a_query_follows_as_well),
        CASE(below_use_nothing_is_freed),
        CASE(a_device_that_is_gone_gives_nothing_new),
        CASE(a_bad_quota_leaves_the_old_limits),
        CASE(no_quota_leaves_the_old_limits),
        CASE(a_quota_that_is_gone_is_told_of_once),
        CASE(an_unreadable_quota_is_told_of_once),
        CASE(slow_paths_look_twice_a_second),
        CASE(attaching_looks_again),
        CASE(an_old_announcement_is_not_new),
        CASE(limits_from_variables_stay),
        CASE(other_processes_follow_and_one_of_them_tells),
        CASE(not_attached_is_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
