#include "vendors/nvidia/hook/pocket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "hook/self.h"
#include "vendors/nvidia/hook/launch_fast.h"

#define US       1000u
#define PIECE    (100 * US) /* pocket.c: taken ahead at most */
#define KERNEL   ((CUfunction)(uintptr_t)0x7000)
#define STREAM   ((CUstream)(uintptr_t)0x9000)
#define SHARED   48u
#define EST_NS   (20 * US)
#define CREDIT   gs_limiter_credit[0].ns
#define LAUNCH() launch(KERNEL, 1024)

struct gs_engine_state gs_engine;
struct gs_self_state gs_self;
struct gs_limiter_credit gs_limiter_credit[GS_LEDGER_DEVICES];
struct gs_launch_stream gs_launch_streams[GS_LAUNCH_STREAMS];
uint32_t gs_capture_count;
_Thread_local uint32_t gs_engine_depth;
_Thread_local char gs_launch_thread;

struct gs_cost_table gs_cost_table;

#define FIRST_NS 77u

void gs_launch_first(struct gs_launch_stream *s, uint32_t dev)
{
    assert_int_equal(dev, 0);
    s->before = s->since;
    s->first_ns = FIRST_NS;
}

static struct gs_cost *cost;
static struct gs_launch_stream *stream;

/* One card, a kernel that is known, plenty of credit. */
static int ready(void **state)
{
    uint64_t key;

    (void)state;
    gs_engine.launch_epoch++;
    gs_self.n_devices = 1;
    gs_capture_count = gs_engine_depth = 0;
    CREDIT = 1000000000;
    key = gs_cost_key((uintptr_t)KERNEL, gs_cost_shape(4, 5, 6, SHARED), gs_cost_quarter(6144), 0);
    cost = gs_cost_home(key);
    *cost = (struct gs_cost){.key = key, .est_ns = EST_NS, .countdown_ns = 1000000000};
    stream = gs_launch_stream_of((uintptr_t)STREAM);
    *stream = (struct gs_launch_stream){.id = (uintptr_t)STREAM};
    assert_true(gs_pocket_open());
    gs_pocket.taken_ns = 0;
    return 0;
}

static bool launch(CUfunction f, unsigned int grid_x)
{
    return gs_nv_fast_launch_kernel(false, f, grid_x, 2, 3, 4, 5, 6, SHARED, STREAM, NULL, NULL);
}

static int64_t all_there_is(void)
{
    return CREDIT + gs_pocket.ns;
}

/* Nothing is paid twice and nothing is lost, whatever way the credit comes. */
static void test_each_launch_takes_its_cost_once(void **state)
{
    int64_t before = all_there_is();

    (void)state;
    for (int i = 1; i <= 2000; i++) {
        if (!LAUNCH())
            assert_true(gs_pocket_spend(0, EST_NS));
        assert_int_equal(before - all_there_is(), (int64_t)i * EST_NS);
        assert_true(gs_pocket.ns >= 0);
    }
}

static void test_a_launch_is_counted(void **state)
{
    (void)state;
    assert_true(gs_pocket_refill(EST_NS));
    assert_true(LAUNCH());
    assert_int_equal(cost->countdown_ns, 1000000000 - EST_NS);
    assert_int_equal(GS_LAUNCH_NS(stream->since), EST_NS);
    assert_int_equal(stream->since >> GS_LAUNCH_NS_BITS, 1);
    assert_int_equal(stream->first_ns, FIRST_NS);
    stream->first_ns++; /* the window stays open: nobody looks at the clock again */
    assert_true(gs_pocket_refill(EST_NS));
    assert_true(LAUNCH());
    assert_int_equal(stream->first_ns, FIRST_NS + 1);
    assert_int_equal(stream->since >> GS_LAUNCH_NS_BITS, 2);
}

/* What is lost when the thread ends: no more than a 64th of what it used, and never more than a
 * piece. */
static void test_pieces_grow_with_use(void **state)
{
    int64_t used = 0;

    (void)state;
    assert_true(gs_pocket_spend(0, EST_NS));
    assert_int_equal(gs_pocket.ns, 0);
    for (used = EST_NS; used < 10000 * (int64_t)EST_NS; used += EST_NS) {
        assert_true(gs_pocket.ns <= PIECE && gs_pocket.ns <= used / 64);
        assert_true(gs_pocket_spend(0, EST_NS));
    }
    while (gs_pocket.ns >= EST_NS)
        assert_true(gs_pocket_spend(0, EST_NS));
    assert_true(gs_pocket_refill(EST_NS));
    assert_int_equal(gs_pocket.ns, EST_NS + PIECE);
}

static void test_the_last_credit_is_used(void **state)
{
    (void)state;
    gs_pocket.taken_ns = 1000 * PIECE;
    CREDIT = EST_NS + 7;
    assert_true(gs_pocket_spend(0, EST_NS));
    assert_int_equal(gs_pocket.ns, 7);
    assert_int_equal(CREDIT, 0);
    assert_false(gs_pocket_spend(0, EST_NS));
    CREDIT = -5;
    assert_false(gs_pocket_spend(0, EST_NS));
    assert_int_equal(CREDIT, -5);
    assert_int_equal(gs_pocket.ns, 7);
}

static void test_recalled_credit_is_void(void **state)
{
    (void)state;
    assert_true(gs_pocket_refill(10 * EST_NS));
    assert_true(LAUNCH());
    gs_engine.launch_epoch++;
    CREDIT = 0;
    assert_false(LAUNCH());
    assert_false(gs_pocket_spend(0, EST_NS));
    assert_int_equal(gs_pocket.ns, 0);
    CREDIT = 10 * EST_NS;
    assert_true(LAUNCH());
}

static void test_no_pocket_with_several_cards_or_none(void **state)
{
    (void)state;
    gs_self.n_devices = 2;
    gs_engine.launch_epoch++;
    gs_limiter_credit[1].ns = 30 * US;
    assert_false(gs_pocket_open());
    assert_true(gs_pocket_spend(1, 30 * US));
    assert_int_equal(gs_limiter_credit[1].ns, 0);
    assert_false(gs_pocket_spend(1, 1));
    assert_false(LAUNCH());
    gs_self.n_devices = 1;
    gs_engine.launch_epoch = 0; /* not attached, as in a forked child */
    assert_false(gs_pocket_open());
    assert_false(LAUNCH());
    gs_engine.launch_epoch = 100;
}

/* What is not known by its cost, or on its stream, goes the long way. */
static void test_what_differs_is_not_known(void **state)
{
    unsigned int a[] = {1024, 2, 3, 4, 5, 6, SHARED};

    (void)state;
    assert_true(gs_pocket_refill(100 * EST_NS));
    for (unsigned int i = 0; i < 7; i++) {
        a[i] *= 2;
        assert_false(gs_nv_fast_launch_kernel(false, KERNEL, a[0], a[1], a[2], a[3], a[4], a[5],
                                              a[6], STREAM, NULL, NULL));
        a[i] /= 2;
    }
    assert_false(launch((CUfunction)(uintptr_t)0x7001, 1024));
    assert_false(
        gs_nv_fast_launch_kernel(false, KERNEL, 1024, 2, 3, 4, 5, 6, SHARED, NULL, NULL, NULL));
    assert_true(LAUNCH());
}

static void test_what_needs_a_look_goes_the_long_way(void **state)
{
    int64_t before;

    (void)state;
    assert_true(gs_pocket_refill(100 * EST_NS));
    before = gs_pocket.ns;
    gs_capture_count = 1;
    assert_false(LAUNCH());
    gs_capture_count = 0;
    gs_engine_depth = 1;
    assert_false(LAUNCH());
    gs_engine_depth = 0;
    stream->want = 1;
    assert_false(LAUNCH());
    stream->want = 0;
    stream->id++;
    assert_false(LAUNCH());
    stream->id--;
    cost->countdown_ns = EST_NS - 1; /* a sample is due */
    assert_false(LAUNCH());
    cost->countdown_ns = 1000000000;
    cost->est_ns = 0;
    assert_false(LAUNCH());
    cost->est_ns = GS_COST_LONG_NS;
    assert_false(LAUNCH());
    assert_int_equal(gs_pocket.ns, before);
    assert_int_equal(stream->since, 0);
    assert_int_equal(stream->first_ns, 0);
    cost->est_ns = EST_NS;
    assert_true(LAUNCH());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_launch_takes_its_cost_once, ready),
        cmocka_unit_test_setup(test_a_launch_is_counted, ready),
        cmocka_unit_test_setup(test_pieces_grow_with_use, ready),
        cmocka_unit_test_setup(test_the_last_credit_is_used, ready),
        cmocka_unit_test_setup(test_recalled_credit_is_void, ready),
        cmocka_unit_test_setup(test_no_pocket_with_several_cards_or_none, ready),
        cmocka_unit_test_setup(test_what_differs_is_not_known, ready),
        cmocka_unit_test_setup(test_what_needs_a_look_goes_the_long_way, ready),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
