#include "hook/order.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hook/limiter.h"
#include "hook/limiter_local.h"
#include "hook/self.h"
#include "hook/usage.h"
#include "slice.h"

/* The queue of a process's threads, for threads that leave it without a word. */

#define START UINT64_C(1000000000)

static int setup(void **state)
{
    (void)state;
    slice_setup();
    slice_attach();
    gs_order_leave(0, UINT32_MAX, 0); /* this thread holds nothing of the test before */
    gs_limiter_forget();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slice_teardown();
    return 0;
}

static void *enter(void *arg)
{
    *(uint32_t *)arg = gs_order_enter(0);
    return NULL;
}

/** Another thread joins the queue, and ends there. */
static uint32_t enter_elsewhere(void)
{
    pthread_t thread;
    uint32_t ticket = 0;

    assert_int_equal(pthread_create(&thread, NULL, enter, &ticket), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return ticket;
}

static void test_one_after_the_other(void **state)
{
    uint32_t ours = gs_order_enter(0), theirs = enter_elsewhere();

    (void)state;
    assert_true(gs_order_is_head(0, ours));
    assert_false(gs_order_is_head(0, theirs));
    gs_order_leave(0, ours, START);
    assert_true(gs_order_is_head(0, theirs));
    gs_order_leave(0, theirs, START);
    assert_true(gs_order_is_empty(0));
}

/** A jump out of a wait leaves the ticket: the thread's next launch has it, and nobody waits. */
static void test_a_ticket_left_is_taken_up_again(void **state)
{
    uint32_t ticket = gs_order_enter(0);

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(gs_order_enter(0), ticket);
    assert_true(gs_order_is_head(0, ticket));
    gs_order_leave(0, ticket, START);
    assert_true(gs_order_is_empty(0));
    assert_int_not_equal(gs_order_enter(0), ticket); /* it was handed on */
}

static void test_a_ticket_passed_over_is_not(void **state)
{
    uint32_t ticket = gs_order_enter(0), theirs = enter_elsewhere();

    (void)state;
    gs_order_wait(0, theirs, START, START); /* no heart has beaten since the beginning of time */
    assert_true(gs_order_is_head(0, theirs));
    assert_int_equal(gs_order_enter(0), ticket + 2);
}

/** Threads of a pool that was cancelled: one wait for all of them, not one for each. */
static void test_those_that_went_together_are_passed_over_together(void **state)
{
    uint32_t ticket;

    (void)state;
    for (int i = 0; i < 20; i++)
        (void)enter_elsewhere();
    ticket = gs_order_enter(0);
    gs_order_wait(0, ticket, START, START);
    assert_true(gs_order_is_head(0, ticket));
}

/** One among them that looks is not. */
static void test_a_waiter_among_the_gone_has_its_turn(void **state)
{
    const uint64_t later = START + GS_ORDER_DEAD_NS + 1;
    uint32_t alive, ticket;

    (void)state;
    (void)enter_elsewhere();
    (void)enter_elsewhere();
    alive = enter_elsewhere();
    (void)enter_elsewhere();
    ticket = gs_order_enter(0);
    gs_limiter_card_of(0)->beat_ns = later;
    gs_order_wait(0, alive, later, 0); /* looks, and sleeps no longer than until 0 */
    gs_limiter_card_of(0)->beat_ns = START;
    gs_order_wait(0, ticket, later, 0);
    assert_true(gs_order_is_head(0, alive));
    assert_false(gs_order_is_head(0, ticket));
}

static void test_a_ticket_of_another_card_is_not(void **state)
{
    uint32_t ticket = gs_order_enter(0);

    (void)state;
    assert_int_equal(gs_order_enter(0), ticket);
    assert_int_equal(gs_order_enter(1), 0);
    assert_int_equal(gs_order_enter(1), 0);
}

/** As in a forked child. */
static void test_the_queue_begins_anew(void **state)
{
    (void)state;
    gs_order_leave(0, gs_order_enter(0), START);
    assert_int_equal(gs_order_enter(0), 1);
    gs_limiter_forget();
    assert_int_equal(gs_order_enter(0), 0);
}

/** Another process of the slice, that waits since then and looked just now. */
static void set_mate(uint64_t wait_since_ns, uint64_t now_ns)
{
    struct gs_ledger_use *mate = &gs_self.device[0].use[gs_self.slot + 1];

    gs_self.ledger->head.slot_high = gs_self.slot + 2;
    mate->wait_since_ns = wait_since_ns;
    mate->active_ns = now_ns;
}

/** A launch that came a moment before is asleep: leaving each one to it would put all to sleep. */
static void test_what_is_at_hand_is_left_to_a_clearly_older_launch(void **state)
{
    (void)state;
    assert_false(gs_order_must_defer(0, START, 0, START));
    set_mate(START - GS_ORDER_AHEAD_NS, START);
    assert_false(gs_order_must_defer(0, START, 0, START));
    set_mate(START - GS_ORDER_AHEAD_NS - 1, START);
    assert_true(gs_order_must_defer(0, START, 0, START));
    assert_true(gs_order_must_defer(0, START, START - GS_ORDER_GRACE_NS + 1, START));
    assert_false(gs_order_must_defer(0, START, START - GS_ORDER_GRACE_NS, START)); /* its chance */
    set_mate(UINT64_MAX, START); /* anything may stand there */
    assert_false(gs_order_must_defer(0, START, 0, START));
    set_mate(1, START);
    assert_false(gs_order_must_defer(0, START, 0, START + GS_ORDER_STALE_NS)); /* it has died */
}

static void test_mates_are_those_that_launched_lately(void **state)
{
    (void)state;
    assert_int_equal(gs_order_mates(0, START), 0);
    set_mate(0, START);
    assert_int_equal(gs_order_mates(0, START), 1);
    assert_int_equal(gs_order_mates(0, START + GS_ORDER_MATE_NS - 1), 1);
    assert_int_equal(gs_order_mates(0, START + GS_ORDER_MATE_NS), 0);
}

/** Noted work, and work that is out since then and not noted yet; each moment once. */
static void test_mates_may_have_had_the_card_where_they_had_work(void **state)
{
    const uint64_t ms = 1000000;
    struct gs_usage_cover cover = {0, 0};

    (void)state;
    set_mate(0, START);
    assert_int_equal(gs_order_mates_ns(0, START, START + 10 * ms), 0);
    gs_usage_cover(&gs_self.device[0], START, START + 4 * ms, &cover);
    assert_int_equal(gs_order_mates_ns(0, START, START + 10 * ms), 4 * ms);
    gs_self.device[0].use[gs_self.slot + 1].unsettled_ns = START + 8 * ms;
    assert_int_equal(gs_order_mates_ns(0, START, START + 10 * ms), 6 * ms);
    gs_self.device[0].use[gs_self.slot + 1].unsettled_ns = START + 2 * ms;
    assert_int_equal(gs_order_mates_ns(0, START, START + 10 * ms), 10 * ms);
    gs_self.device[0].use[gs_self.slot + 1].unsettled_ns = 1; /* long ago, or made up */
    assert_int_equal(gs_order_mates_ns(0, START, START + 10 * ms), 10 * ms);
    gs_self.device[0].use[gs_self.slot + 1].unsettled_ns = UINT64_MAX;
    assert_int_equal(gs_order_mates_ns(0, START, START + 10 * ms), 4 * ms);
}

/** An estimate is a launch's own time: a mate's turn in the same moments takes nothing off it. Of
 * time that is merely outstanding the part that a mate has noted is paid for. */
static void test_estimates_are_not_divided_with_mates(void **state)
{
    const uint64_t start = gs_limiter_clock(), end = start + 8000000;
    struct gs_ledger_device *d = &gs_self.device[0];
    struct gs_usage_cover cover = {0, 0};

    (void)state;
    gs_usage_cover(d, start - 1000000, end + 1000000, &cover); /* a mate */
    gs_limiter_note(0, start, end, 8000000, 8000000);
    assert_int_equal(d->meter.used_ns, 8000000);
    gs_limiter_note(0, end, end + 500000, 500000, GS_LIMITER_NOT_KNOWN);
    assert_int_equal(d->meter.used_ns, 8000000);
}

static void set_trial(uint32_t slot, uint64_t since_ns)
{
    gs_self.device[0].trial = since_ns / 1000 << GS_LEDGER_TRIAL_BITS | (slot + 1);
}

/** Who looked at the clock before another process took the turn comes after it all the same. */
static void test_a_trial_is_not_overtaken_by_an_old_look_at_the_clock(void **state)
{
    bool ours = true;

    (void)state;
    set_trial(gs_self.slot + 1, START + 5000000);
    assert_false(gs_order_try_trial(0, START));
    assert_int_not_equal(gs_order_trial_ns(0, START, &ours), 0);
    assert_false(ours);
    /* one that has only begun counts too */
    assert_int_not_equal(gs_order_trial_ns(0, START + 5000000, &ours), 0);
    assert_false(gs_order_try_trial(0, START + 5000000 + GS_ORDER_TRIAL_NS));
}

/** Had its time, or of another boot. */
static void test_a_stale_trial_is_taken_over(void **state)
{
    bool ours;

    (void)state;
    set_trial(gs_self.slot + 1, START);
    assert_int_equal(gs_order_trial_ns(0, START + GS_ORDER_TRIAL_NS + 1000, &ours), 0);
    assert_true(gs_order_try_trial(0, START + GS_ORDER_TRIAL_NS + 1000));
    set_trial(gs_self.slot + 1, START + 2 * GS_ORDER_TRIAL_NS);
    assert_true(gs_order_try_trial(0, START));
    assert_true(gs_order_try_trial(0, START + 1000)); /* ours still */
    gs_order_end_trial(0);
    assert_int_equal(gs_order_trial_ns(0, START + 2000, &ours), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_one_after_the_other),
        TEST(test_a_ticket_left_is_taken_up_again),
        TEST(test_a_ticket_passed_over_is_not),
        TEST(test_those_that_went_together_are_passed_over_together),
        TEST(test_a_waiter_among_the_gone_has_its_turn),
        TEST(test_a_ticket_of_another_card_is_not),
        TEST(test_the_queue_begins_anew),
        TEST(test_what_is_at_hand_is_left_to_a_clearly_older_launch),
        TEST(test_mates_are_those_that_launched_lately),
        TEST(test_mates_may_have_had_the_card_where_they_had_work),
        TEST(test_estimates_are_not_divided_with_mates),
        TEST(test_a_trial_is_not_overtaken_by_an_old_look_at_the_clock),
        TEST(test_a_stale_trial_is_taken_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
