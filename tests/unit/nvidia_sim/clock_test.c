/* The cost model under virtual time: the test is the clock. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "vendors/nvidia/sim/clock.h"

static uint64_t now_ns;

/* Stand in for libc's: sleeping is what makes time pass. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
    (void)id;
    ts->tv_sec = (time_t)(now_ns / 1000000000u);
    ts->tv_nsec = (long)(now_ns % 1000000000u);
    return 0;
}

int nanosleep(const struct timespec *ts, struct timespec *rem)
{
    (void)rem;
    now_ns += (uint64_t)ts->tv_sec * 1000000000u + (uint64_t)ts->tv_nsec;
    return 0;
}

static struct gs_clock *card;

static int setup(void **state)
{
    (void)state;
    now_ns = 1000000000u;
    card = calloc(1, sizeof(*card));
    if (!card)
        return -1;
    gs_clock_init(card);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(card);
    return 0;
}

#define MS UINT64_C(1000000)

static void one_process_gets_the_card(void **state)
{
    (void)state;
    uint64_t a = gs_clock_submit(card, 3, 5 * MS);
    uint64_t b = gs_clock_submit(card, 3, 5 * MS);
    assert_false(gs_clock_is_done(card, a));
    now_ns += 5 * MS;
    assert_true(gs_clock_is_done(card, a));
    assert_false(gs_clock_is_done(card, b));
    now_ns += 5 * MS;
    assert_true(gs_clock_is_done(card, b));
    assert_int_equal(gs_clock_when(card, a), 1000000000u + 5 * MS);
    assert_int_equal(gs_clock_when(card, b), 1000000000u + 10 * MS);
    assert_int_equal(card->proc[3].busy_ns, 10 * MS);
    assert_int_equal(card->busy_ns, 10 * MS);
}

static void two_processes_share_evenly(void **state)
{
    (void)state;
    uint64_t a = gs_clock_submit(card, 0, 10 * MS);
    uint64_t b = gs_clock_submit(card, 4095, 4 * MS);
    now_ns += 8 * MS;
    assert_true(gs_clock_is_done(card, b)); /* 4 ms at half speed */
    assert_false(gs_clock_is_done(card, a));
    now_ns += 6 * MS;
    assert_true(gs_clock_is_done(card, a)); /* 4 of 8 ms, then 6 alone */
    assert_int_equal(gs_clock_when(card, a), 1000000000u + 14 * MS);
    assert_int_equal(card->proc[0].busy_ns, 10 * MS);
    assert_int_equal(card->proc[4095].busy_ns, 4 * MS);
    assert_int_equal(card->busy_ns, 14 * MS);
}

static void waiting_ends_when_the_work_does(void **state)
{
    (void)state;
    uint64_t a = gs_clock_submit(card, 0, 3 * MS);
    (void)gs_clock_submit(card, 1, 100 * MS);
    gs_clock_wait(card, a);
    assert_in_range(now_ns, 1000000000u + 6 * MS, 1000000000u + 7 * MS);
}

static void idle_time_is_not_owed(void **state)
{
    (void)state;
    now_ns += 1000 * MS;
    uint64_t a = gs_clock_submit(card, 0, MS);
    assert_false(gs_clock_is_done(card, a));
    now_ns += MS;
    assert_true(gs_clock_is_done(card, a));
}

static void the_dead_leave_no_work(void **state)
{
    (void)state;
    (void)gs_clock_submit(card, 7, 1000000 * MS);
    gs_clock_drop(card, 7);
    uint64_t a = gs_clock_submit(card, 8, MS);
    now_ns += MS;
    assert_true(gs_clock_is_done(card, a));
    assert_int_equal(card->proc[7].busy_ns, 0);
}

static void *die_inside(void *arg)
{
    (void)pthread_mutex_lock(arg);
    return NULL;
}

static void a_lock_left_by_the_dead_is_taken_over(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, die_inside, &card->lock), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    uint64_t a = gs_clock_submit(card, 0, MS);
    now_ns += MS;
    assert_true(gs_clock_is_done(card, a));
}

static void utilisation_is_that_of_the_last_period(void **state)
{
    (void)state;
    gs_clock_advance(card);
    (void)gs_clock_submit(card, 0, GS_CLOCK_SAMPLE_NS / 4);
    now_ns += GS_CLOCK_SAMPLE_NS;
    assert_in_range(gs_clock_util_pct(card), 24, 26);
    now_ns += GS_CLOCK_SAMPLE_NS * 5;
    assert_in_range(gs_clock_util_pct(card), 0, 5);
}

/* Whatever comes in whatever order: no work is lost, none is done too early. */
static void work_is_conserved(void **state)
{
    (void)state;
    uint64_t seed = 42, total = 0, start = now_ns, last[5] = {0};
    for (int i = 0; i < 2000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
        uint32_t slot = (uint32_t)(seed >> 33) % 5;
        uint64_t cost = (seed >> 40) % (3 * MS);
        last[slot] = gs_clock_submit(card, slot, cost);
        total += cost;
        now_ns += (seed >> 20) % MS;
    }
    for (int i = 0; i < 5; i++)
        gs_clock_wait(card, last[i]);
    uint64_t got = 0;
    for (int i = 0; i < 5; i++)
        got += card->proc[i].busy_ns;
    assert_int_equal(got, total);
    assert_int_equal(card->busy_ns, total);
    assert_true(now_ns - start >= total);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_process_gets_the_card, setup, teardown),
        cmocka_unit_test_setup_teardown(two_processes_share_evenly, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_ends_when_the_work_does, setup, teardown),
        cmocka_unit_test_setup_teardown(idle_time_is_not_owed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_dead_leave_no_work, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lock_left_by_the_dead_is_taken_over, setup, teardown),
        cmocka_unit_test_setup_teardown(utilisation_is_that_of_the_last_period, setup, teardown),
        cmocka_unit_test_setup_teardown(work_is_conserved, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
