/* HAMi's feedback: vectors A20 9 and 11 of the sheet of its wire formats, and 6.4. */

#include "monitor/feedback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define STEERED(c, p, recent)                                                                      \
    ((struct gs_feedback_container){                                                               \
        .cards = (c), .priority = (p), .is_steered = true, .recent_kernel = (recent)})

/* gpu-0 activity [0,1], priority 3: blocked, contended. */
static void blocked_by_higher(void **state)
{
    struct gs_feedback_container c[] = {STEERED(1, 1, 2), STEERED(1, 3, 0)};

    (void)state;
    gs_feedback_step(c, 2);
    assert_int_equal(c[1].recent_kernel, -1);
    assert_int_equal(c[1].utilization_switch, 1);
    assert_int_equal(c[0].recent_kernel, 1); /* counted down */
    assert_int_equal(c[0].utilization_switch, 0);
}

/* [0,0], priority 2: neither. */
static void nobody_is_active(void **state)
{
    struct gs_feedback_container c[] = {STEERED(1, 0, 1), STEERED(1, 1, 0), STEERED(1, 2, -1)};

    (void)state;
    gs_feedback_step(c, 3);
    assert_int_equal(c[0].recent_kernel, 0); /* its last launch is too long ago */
    assert_int_equal(c[2].recent_kernel, 0); /* and unblocked */
    assert_int_equal(c[2].utilization_switch, 0);
}

/* Priority 1, two active at index 1: not blocked, contended. */
static void contended_by_equals(void **state)
{
    struct gs_feedback_container c[] = {STEERED(1, 1, 2), STEERED(1, 1, 2)};

    (void)state;
    gs_feedback_step(c, 2);
    assert_int_equal(c[0].recent_kernel, 1);
    assert_int_equal(c[0].utilization_switch, 1);
    assert_int_equal(c[1].utilization_switch, 1);
}

/* One active alone, and a third that is idle: only who has a card in common counts, and two on
 * different cards are not two on one. */
static void cards_count_each(void **state)
{
    struct gs_feedback_container c[] = {STEERED(1, 1, 2), STEERED(2, 1, 2), STEERED(3, 1, 0),
                                        STEERED(4, 2, 0)};

    (void)state;
    gs_feedback_step(c, 4);
    assert_int_equal(c[0].utilization_switch, 0);
    assert_int_equal(c[1].utilization_switch, 0);
    assert_int_equal(c[2].utilization_switch, 0);
    assert_int_equal(c[3].recent_kernel, 0);
}

static void negative_priority_takes_no_part(void **state)
{
    struct gs_feedback_container c[] = {STEERED(1, -1, 2), STEERED(1, 1, 0)};

    (void)state;
    gs_feedback_step(c, 2);
    assert_int_equal(c[1].recent_kernel, 0);
    assert_int_equal(c[1].utilization_switch, 0);
}

/* Our own are told nothing by this way, but they hold others back. */
static void ours_count_and_are_left_alone(void **state)
{
    struct gs_feedback_container c[] = {
        {.cards = 1, .priority = 0, .is_active = true, .recent_kernel = 2, .utilization_switch = 0},
        STEERED(1, 1, 2),
    };

    (void)state;
    gs_feedback_step(c, 2);
    assert_int_equal(c[0].recent_kernel, 2);
    assert_int_equal(c[1].recent_kernel, -1);
    gs_feedback_step(c, 2);
    assert_int_equal(c[1].recent_kernel, -1);
    c[0].is_active = false;
    gs_feedback_step(c, 2);
    assert_int_equal(c[1].recent_kernel, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocked_by_higher),
        cmocka_unit_test(nobody_is_active),
        cmocka_unit_test(contended_by_equals),
        cmocka_unit_test(cards_count_each),
        cmocka_unit_test(negative_priority_takes_no_part),
        cmocka_unit_test(ours_count_and_are_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
