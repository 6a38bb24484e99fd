#include "hook/gate.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "hook/self.h"
#include "slice.h"

static int setup(void **state)
{
    (void)state;
    slice_setup();
    slice_attach();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slice_teardown();
    return 0;
}

/** The byte that reaches the limit is granted, the next refused. */
static void test_exact(void **state)
{
    (void)state;
    assert_int_equal(gs_gate_reserve(0, 999, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(gs_gate_reserve(0, 2, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_reserve(0, 1, GS_CHARGE_EXTRA, "t"), 0);
    assert_int_equal(gs_gate_reserve(0, 1, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_reserve(0, 0, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(gs_gate_used(0), 1000);
    assert_int_equal(gs_gate_own(0, GS_CHARGE_HELD), 999);
    assert_int_equal(gs_gate_own(0, GS_CHARGE_EXTRA), 1);
    assert_int_equal(gs_gate_limit(0), SLICE_LIMIT);
    gs_gate_release(0, 999, GS_CHARGE_HELD);
    assert_int_equal(gs_gate_used(0), 1);
    assert_int_equal(gs_gate_reserve(0, 999, GS_CHARGE_HELD, "t"), 0);
    /* the other device has its own books */
    assert_int_equal(gs_gate_used(2), 0);
    assert_int_equal(gs_gate_reserve(2, 1000, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(gs_self.ledger->head.refusals, 2);
    assert_int_equal(gs_self.device[0].refusals, 2);
}

static void test_huge(void **state)
{
    (void)state;
    assert_int_equal(gs_gate_reserve(0, UINT64_MAX, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_reserve(0, 1001, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_reserve(0, 1000, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(gs_gate_used(0), 1000);
}

static void test_unlimited(void **state)
{
    (void)state;
    assert_true(gs_gate_limit(1) == UINT64_MAX);
    assert_int_equal(gs_gate_reserve(1, UINT64_C(1) << 40, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(gs_gate_reserve(1, UINT64_C(1) << 40, GS_CHARGE_HELD, "t"), 0);
    assert_true(gs_gate_used(1) == UINT64_C(1) << 41);
    assert_int_equal(gs_gate_reserve(1, UINT64_MAX, GS_CHARGE_HELD, "t"), 0); /* saturates */
    assert_true(gs_gate_used(1) == UINT64_MAX);
}

static void test_not_granted(void **state)
{
    (void)state;
    assert_int_equal(gs_gate_reserve(3, 1, GS_CHARGE_HELD, "t"), -ENODEV);
    assert_int_equal(gs_gate_reserve(UINT32_MAX, 1, GS_CHARGE_HELD, "t"), -ENODEV);
    assert_int_equal(gs_gate_limit(3), 0);
    assert_int_equal(gs_gate_used(3), 0);
    assert_int_equal(gs_gate_own(3, GS_CHARGE_HELD), 0);
    gs_gate_release(3, 1, GS_CHARGE_HELD);
    gs_gate_force(3, 1, GS_CHARGE_HELD);
    assert_int_equal(gs_gate_context_bytes(3), 0);
    assert_int_equal(gs_gate_physical_bytes(3), 0);
}

/** A release of more than is held saturates and is counted. */
static void test_unmatched(void **state)
{
    (void)state;
    assert_int_equal(gs_gate_reserve(0, 10, GS_CHARGE_HELD, "t"), 0);
    gs_gate_release(0, 11, GS_CHARGE_HELD);
    assert_int_equal(gs_gate_used(0), 0);
    assert_int_equal(gs_self.ledger->head.unmatched, 1);
}

static void test_force(void **state)
{
    (void)state;
    gs_gate_force(0, 1200, GS_CHARGE_EXTRA); /* the driver took it; no refusal is possible */
    assert_int_equal(gs_gate_used(0), 1200);
    assert_int_equal(gs_gate_reserve(0, 1, GS_CHARGE_HELD, "t"), -ENOMEM);
    gs_gate_release(0, 1200, GS_CHARGE_EXTRA);
    assert_int_equal(gs_gate_reserve(0, 1000, GS_CHARGE_HELD, "t"), 0);
    gs_gate_set_context_bytes(0, 77);
    gs_gate_set_physical_bytes(0, 4096);
    assert_int_equal(gs_gate_context_bytes(0), 77);
    assert_int_equal(gs_gate_physical_bytes(0), 4096);
}

static int take_600(void *arg)
{
    (void)arg;
    return gs_gate_reserve(0, 600, GS_CHARGE_HELD, "other") == 0 ? 0 : 1;
}

/** Two processes share the limit; what a dead one held is back within one attempt. */
static void test_other_process(void **state)
{
    int other = slice_start_other(take_600, NULL);

    (void)state;
    assert_int_equal(gs_gate_used(0), 600);
    assert_int_equal(gs_gate_own(0, GS_CHARGE_HELD), 0);
    assert_int_equal(gs_gate_reserve(0, 401, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_reserve(0, 400, GS_CHARGE_HELD, "t"), 0);
    slice_end(other);
    assert_int_equal(gs_gate_reserve(0, 600, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(gs_gate_used(0), 1000);
}

/** A query finds the dead as well, without an allocation having to fail first. */
static void test_query_reaps(void **state)
{
    (void)state;
    assert_int_equal(slice_in_other(take_600, NULL), 0);
    assert_int_equal(gs_gate_used(0), 0);
}

/** An announcement that a killed process left behind blocks nobody for long, below and above us. */
static void test_left_announcement(void **state)
{
    struct gs_self_state *self = &gs_self;
    int other;

    (void)state;
    other = slice_start_other(take_600, NULL);
    assert_int_equal(self->ledger->head.slot_high, 2);
    assert_int_equal(self->slot, 0);
    self->device[0].pending[1] = 900; /* killed between announcing and committing */
    slice_end(other);
    assert_int_equal(gs_gate_reserve(0, 1000, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(gs_gate_used(0), 1000);
}

/** A living process that stands still while announcing (stopped by a debugger): a refusal, in time.
 */
static void test_standing_announcement(void **state)
{
    struct gs_self_state *self = &gs_self;
    int other = slice_start_other(take_600, NULL);

    (void)state;
    self->device[0].pending[1] = 300;
    assert_int_equal(gs_gate_reserve(0, 200, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_reserve(0, 100, GS_CHARGE_HELD, "t"), 0);
    slice_end(other);
}

/** Hostile words in the ledger: sums saturate, indices are not trusted, nothing is over-granted. */
static void test_hostile(void **state)
{
    struct gs_self_state *self = &gs_self;

    (void)state;
    self->ledger->head.slot_high = UINT64_MAX;
    self->ledger->head.share_high = UINT64_MAX;
    self->ledger->head.n_devices = UINT32_MAX;
    self->device[0].held[500] = UINT64_MAX;
    self->device[0].extra[501] = UINT64_MAX;
    self->device[0].limit_bytes = UINT64_MAX;
    memset(self->ledger->share, 0xff, sizeof(self->ledger->share));
    assert_int_equal(gs_gate_reserve(0, 1, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_limit(0), SLICE_LIMIT);
    assert_int_equal(gs_gate_reserve(2, 1, GS_CHARGE_HELD, "t"), 0);
}

#define THREADS 4
#define ROUNDS  20000

static void *hammer(void *arg)
{
    uint64_t *granted = arg;

    for (int i = 0; i < ROUNDS; i++) {
        if (gs_gate_reserve(0, 400, GS_CHARGE_HELD, "t") == 0) {
            (*granted)++;
            if (gs_gate_used(0) > 1000 + 400 * THREADS) /* announcements count as used */
                *granted = UINT64_MAX / 2;
            gs_gate_release(0, 400, GS_CHARGE_HELD);
        }
    }
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t thread[THREADS];
    uint64_t granted[THREADS] = {0};

    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, hammer, &granted[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_in_range(granted[i], 1, ROUNDS);
    }
    assert_int_equal(gs_gate_used(0), 0);
    assert_int_equal(gs_self.ledger->head.unmatched, 0);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_exact),
        CASE(test_huge),
        CASE(test_unlimited),
        CASE(test_not_granted),
        CASE(test_unmatched),
        CASE(test_force),
        CASE(test_other_process),
        CASE(test_query_reaps),
        CASE(test_left_announcement),
        CASE(test_standing_announcement),
        CASE(test_hostile),
        CASE(test_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
