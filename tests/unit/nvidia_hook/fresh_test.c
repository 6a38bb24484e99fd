/* What is guessed of launches that nothing is known of. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vendors/nvidia/hook/fresh.h"

#define MS    UINT64_C(1000000)
#define START UINT64_C(5000000000)
#define MANY  100

static uint64_t now;

static int clean(void **state)
{
    (void)state;
    gs_fresh_forget();
    now = START;
    return 0;
}

/* `n` graphs of that length, one each 5 ms. */
static void launch(uint32_t n, uint64_t took_ns)
{
    for (; n > 0; n--) {
        now += 5 * MS;
        gs_fresh_learn(1, true, took_ns, now);
    }
}

static void test_nothing_is_guessed_of_the_first_ones(void **state)
{
    (void)state;
    assert_int_equal(gs_fresh_guess(1, true, now), 0);
    launch(10, MS);
    assert_int_equal(gs_fresh_guess(1, true, now), 0);
}

static void test_the_next_is_like_those_before(void **state)
{
    (void)state;
    launch(MANY, MS / 10);
    assert_in_range(gs_fresh_guess(1, true, now), MS / 10, MS / 10 + 1);
    launch(MANY, MS);
    assert_in_range(gs_fresh_guess(1, true, now), MS * 99 / 100, MS + 1);
    assert_int_equal(gs_fresh_guess(1, false, now), 0); /* kernels are something else */
    assert_int_equal(gs_fresh_guess(0, true, now), 0);  /* as is another card */
}

static void test_a_long_one_ends_it(void **state)
{
    (void)state;
    launch(MANY, MS);
    launch(1, 1000 * MS);
    assert_int_equal(gs_fresh_guess(1, true, now), 0);
    launch(10, MS);
    assert_int_equal(gs_fresh_guess(1, true, now), 0);
    launch(MANY, MS);
    assert_in_range(gs_fresh_guess(1, true, now), MS, MS + 1);
}

static void test_a_pause_ends_it(void **state)
{
    (void)state;
    launch(MANY, MS);
    assert_int_equal(gs_fresh_guess(1, true, now + 1000 * MS), 0);
    now += 1000 * MS;
    launch(10, MS);
    assert_int_equal(gs_fresh_guess(1, true, now), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_nothing_is_guessed_of_the_first_ones, clean),
        cmocka_unit_test_setup(test_the_next_is_like_those_before, clean),
        cmocka_unit_test_setup(test_a_long_one_ends_it, clean),
        cmocka_unit_test_setup(test_a_pause_ends_it, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
