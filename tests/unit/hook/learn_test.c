#include "hook/learn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "hook/gate.h"
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

static int take_turn(void *arg)
{
    (void)arg;
    return gs_learn_begin(0) == 1 ? 0 : 1;
}

static int take_turn_and_answer(void *arg)
{
    if (take_turn(arg) != 0)
        return 1;
    gs_gate_set_context_bytes(0, 70);
    gs_learn_end(0);
    return 0;
}

static void test_turn_and_answer(void **state)
{
    (void)state;
    assert_int_equal(gs_learn_begin(0), 1);
    gs_learn_end(0);
    assert_int_equal(gs_learn_begin(0), 1); /* nothing was found out */
    gs_gate_set_context_bytes(0, 70);
    gs_learn_end(0);
    assert_int_equal(gs_learn_begin(0), 0);
    assert_int_equal(gs_learn_begin(GS_LEDGER_DEVICES), 0); /* not in the grant */
    gs_learn_end(GS_LEDGER_DEVICES);
}

static void test_dead_learner(void **state)
{
    (void)state;
    slice_end(slice_start_other(take_turn, NULL));
    assert_int_equal(gs_learn_begin(0), 1);
    gs_learn_end(0);
}

/** A living one keeps its turn; ending it is its own business. */
static void test_living_learner(void **state)
{
    uint64_t *turn = &gs_self.device[0].context_turn;
    int other = slice_start_other(take_turn, NULL);

    (void)state;
    gs_learn_end(0);
    assert_int_equal(*turn >> 32, other);
    slice_end(other);
}

static void test_answer_of_another(void **state)
{
    int other = slice_start_other(take_turn_and_answer, NULL);

    (void)state;
    assert_int_equal(gs_learn_begin(0), 0);
    assert_int_equal(gs_gate_context_bytes(0), 70);
    slice_end(other);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_turn_and_answer),
        CASE(test_dead_learner),
        CASE(test_living_learner),
        CASE(test_answer_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
