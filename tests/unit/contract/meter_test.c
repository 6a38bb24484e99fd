#include "contract/meter.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define S UINT64_C(1000000000)

static struct gs_ledger_snapshot snapshot;
static struct gs_ledger_device *device;
static int fd;

/* A file with one device; three slots of which the second is dead. */
static int setup(void **state)
{
    (void)state;
    fd = memfd_create("meter", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)gs_ledger_file_bytes(1)), 0);
    device = calloc(1, sizeof(*device));
    assert_non_null(device);
    memset(&snapshot, 0, sizeof(snapshot));
    snapshot.n_devices = 1;
    snapshot.n_slots = 3;
    snapshot.is_live[0] = snapshot.is_live[2] = 1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(device);
    (void)close(fd);
    return 0;
}

static struct gs_meter read_at(uint64_t now_ns)
{
    struct gs_meter m;

    assert_int_equal(pwrite(fd, device, sizeof(*device), (off_t)gs_ledger_file_bytes(0)),
                     sizeof(*device));
    assert_int_equal(gs_meter_read(fd, &snapshot, 0, now_ns, &m), 0);
    return m;
}

static void put(uint64_t epoch, uint64_t ns)
{
    device->history[epoch % GS_LEDGER_HISTORY] = epoch << GS_LEDGER_HISTORY_BITS | ns;
}

static void windows_end_at_the_last_full_bin(void **state)
{
    const uint64_t now = 1000 * S + 50000000;
    struct gs_meter m;

    (void)state;
    for (uint64_t epoch = 9890; epoch <= 10000; epoch++)
        put(epoch, 30000000); /* 30 % */
    m = read_at(now);
    assert_int_equal(m.used_1s_ns, 300000000);
    assert_int_equal(m.used_10s_ns, 3 * S);
    m = read_at(now + 1 * S); /* nothing since: the bin of `now` alone is in the window */
    assert_int_equal(m.used_1s_ns, 30000000);
    assert_int_equal(m.used_10s_ns, 91 * UINT64_C(30000000));
    m = read_at(now + 20 * S);
    assert_int_equal(m.used_10s_ns, 0);
}

/** Words of another round, another boot, or of nobody's are not counted; sums do not wrap. */
static void hostile_bins(void **state)
{
    (void)state;
    memset(device->history, 0xff, sizeof(device->history));
    assert_int_equal(read_at(1000 * S).used_10s_ns, 0);
    for (uint64_t epoch = 9900; epoch < 10000; epoch++)
        put(epoch, (UINT64_C(1) << GS_LEDGER_HISTORY_BITS) - 1);
    assert_true(read_at(1000 * S).used_10s_ns > 10 * S);
    assert_int_equal(read_at(0).used_1s_ns, 0);
}

/** After 155 days of uptime epochs have more bits than a word has for them. */
static void epochs_wrap(void **state)
{
    const uint64_t epoch = (UINT64_C(1) << 27) + 5;

    (void)state;
    for (uint64_t i = 1; i <= 10; i++)
        put(epoch - i, 50000000);
    assert_int_equal(read_at(epoch * GS_LEDGER_HISTORY_NS).used_1s_ns, 500000000);
}

static void waits_and_managed_memory_of_the_living(void **state)
{
    struct gs_meter m;

    (void)state;
    device->meter = (struct gs_ledger_meter){.used_ns = 7, .waits = 3, .waited_ns = 1000};
    device->use[0] = (struct gs_ledger_use){.managed_bytes = 10, .wait_since_ns = 5 * S - 100};
    device->use[1] = (struct gs_ledger_use){.managed_bytes = 100, .wait_since_ns = 1}; /* dead */
    device->use[2] = (struct gs_ledger_use){.managed_bytes = 1, .wait_since_ns = 9 * S};
    m = read_at(5 * S);
    assert_int_equal(m.managed_bytes, 11);
    assert_int_equal(m.waited_ns, 1100);
    assert_int_equal(m.waits, 3);
    assert_int_equal(m.used_ns, 7);
    device->use[2].managed_bytes = UINT64_MAX;
    assert_true(read_at(5 * S).managed_bytes == UINT64_MAX);
}

static void a_file_that_shrinks(void **state)
{
    struct gs_meter m;

    (void)state;
    assert_int_equal(ftruncate(fd, (off_t)gs_ledger_file_bytes(0) + 100), 0);
    assert_int_equal(gs_meter_read(fd, &snapshot, 0, S, &m), -EPROTO);
    assert_int_equal(gs_meter_read(-1, &snapshot, 0, S, &m), -EBADF);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(windows_end_at_the_last_full_bin),       CASE(hostile_bins),        CASE(epochs_wrap),
        CASE(waits_and_managed_memory_of_the_living), CASE(a_file_that_shrinks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
