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
    gs_clock_init(card, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(card);
    return 0;
}

#define US    UINT64_C(1000)
#define MS    UINT64_C(1000000)
#define START UINT64_C(1000000000)

static uint64_t submit(uint32_t slot, enum gs_clock_kind kind, uint64_t cost, uint64_t after,
                       uint32_t load)
{
    const struct gs_clock_who who = {.slot = slot, .group = slot % 3, .pid = (int32_t)slot + 1};
    const struct gs_clock_work work = {
        .kind = kind, .load = load, .cost_ns = cost, .after_ns = after};
    uint64_t tag;
    while (gs_clock_submit(card, &who, &work, &tag))
        gs_clock_wait(card, slot, tag);
    return tag;
}

/* A kernel that fills the card. */
static uint64_t kernel(uint32_t slot, uint64_t cost)
{
    return submit(slot, GS_CLOCK_KERNEL, cost, 0, GS_CLOCK_FULL);
}

static uint64_t busy(uint32_t slot)
{
    (void)gs_clock_advance(card);
    return card->proc[slot].busy_ns;
}

static void one_process_gets_the_card(void **state)
{
    (void)state;
    uint64_t a = kernel(3, 5 * MS), b = kernel(3, 5 * MS);
    assert_false(gs_clock_is_done(card, 3, a));
    now_ns += 5 * MS;
    assert_true(gs_clock_is_done(card, 3, a));
    assert_false(gs_clock_is_done(card, 3, b));
    now_ns += 5 * MS;
    assert_true(gs_clock_is_done(card, 3, b));
    assert_int_equal(gs_clock_when(card, 3, a), START + 5 * MS);
    assert_int_equal(gs_clock_when(card, 3, b), START + 10 * MS);
    assert_int_equal(busy(3), 10 * MS);
    assert_int_equal(card->proc[3].kernels, 2);
}

/* Turns of 2 ms: 0 runs in [0,2) [4,6) [8,14), 4095 in [2,4) [6,8). */
static void two_processes_take_turns(void **state)
{
    (void)state;
    uint64_t a = kernel(0, 10 * MS), b = kernel(4095, 4 * MS);
    now_ns += 5 * MS;
    assert_int_equal(busy(0), 3 * MS);
    assert_int_equal(busy(4095), 2 * MS);
    now_ns += 3 * MS;
    assert_true(gs_clock_is_done(card, 4095, b));
    assert_false(gs_clock_is_done(card, 0, a));
    assert_int_equal(gs_clock_when(card, 0, a), START + 14 * MS);
    now_ns += 6 * MS;
    assert_true(gs_clock_is_done(card, 0, a));
    assert_int_equal(gs_clock_when(card, 0, a), START + 14 * MS);
    assert_int_equal(gs_clock_when(card, 0, 1 + 2 * MS), START + 2 * MS);
    assert_int_equal(gs_clock_when(card, 0, 1 + 3 * MS), START + 5 * MS);
    assert_int_equal(gs_clock_when(card, 4095, b), START + 8 * MS);
    assert_int_equal(busy(0), 10 * MS);
    assert_int_equal(busy(4095), 4 * MS);
    assert_int_equal(card->busy_ns, 14 * MS);
}

/* Queues of 30 us and of 50 ms kernels: half each, as the turns are the same for both. */
static void length_of_kernels_does_not_matter(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        (void)kernel(1, 50 * MS);
        for (int k = 0; k < 1000; k++)
            (void)kernel(2, 30 * US);
    }
    now_ns += 1000 * MS;
    assert_in_range(busy(1), 498 * MS, 502 * MS);
    assert_in_range(busy(2), 498 * MS, 502 * MS);
    assert_int_equal(busy(1) + busy(2), 1000 * MS);
}

/* A short kernel that waits for each before the next: one per slice of the neighbour. */
static void a_turn_ends_when_the_work_does(void **state)
{
    (void)state;
    (void)kernel(1, 1000 * MS);
    for (int i = 0; i < 10; i++)
        gs_clock_wait(card, 2, kernel(2, 30 * US));
    assert_int_equal(busy(2), 300 * US);
    assert_in_range(now_ns - START, 20 * MS, 21 * MS);
}

static void a_late_joiner_waits_for_the_slice_to_end(void **state)
{
    (void)state;
    (void)kernel(1, 100 * MS);
    now_ns += 7 * MS; /* the fourth slice is at its half */
    uint64_t b = kernel(2, MS);
    assert_int_equal(gs_clock_when(card, 2, b), START + 9 * MS);
    gs_clock_wait(card, 2, b);
    assert_int_equal(now_ns, START + 9 * MS);
    assert_int_equal(gs_clock_when(card, 2, b), START + 9 * MS);
}

static void when_is_known_seconds_later(void **state)
{
    (void)state;
    uint64_t a = kernel(1, 3 * MS);
    (void)kernel(1, 400 * MS);
    (void)kernel(2, 5000 * MS);
    now_ns += 900 * MS;
    assert_int_equal(gs_clock_when(card, 1, a), START + 5 * MS);
}

static void kernels_run_side_by_side_where_they_fit(void **state)
{
    (void)state;
    uint32_t half = GS_CLOCK_FULL / 2;
    uint64_t a = submit(0, GS_CLOCK_KERNEL, 10 * MS, 0, half);
    uint64_t b = submit(0, GS_CLOCK_KERNEL, 4 * MS, 0, half);
    uint64_t c = submit(0, GS_CLOCK_KERNEL, 4 * MS, 0, half);      /* where b was */
    uint64_t d = submit(0, GS_CLOCK_KERNEL, MS, 0, GS_CLOCK_FULL); /* needs all of it */
    uint64_t e = submit(0, GS_CLOCK_KERNEL, MS, b, half);          /* behind b, beside a: at 8 */
    assert_int_equal(a, 1 + 10 * MS);
    assert_int_equal(b, 1 + 4 * MS);
    assert_int_equal(c, 1 + 8 * MS);
    assert_int_equal(d, 1 + 11 * MS);
    assert_int_equal(e, 1 + 9 * MS);
    now_ns += 20 * MS;
    assert_int_equal(busy(0), 11 * MS);
}

/* A copy needs no turn and does not count; a kernel behind it does. */
static void copies_run_beside_kernels(void **state)
{
    (void)state;
    uint64_t up = submit(0, GS_CLOCK_UP, 6 * MS, 0, 0);
    uint64_t k = submit(0, GS_CLOCK_KERNEL, MS, up, GS_CLOCK_FULL);
    uint64_t down = submit(0, GS_CLOCK_DOWN, 2 * MS, 0, 0);
    uint64_t other = submit(0, GS_CLOCK_KERNEL, 3 * MS, 0, GS_CLOCK_FULL);
    assert_int_equal(up, 1 + 6 * MS);
    assert_int_equal(k, 1 + 7 * MS);
    assert_int_equal(down, 1 + 2 * MS);
    assert_int_equal(other, 1 + 3 * MS);
    now_ns += 10 * MS;
    assert_true(gs_clock_is_done(card, 0, k));
    assert_int_equal(gs_clock_when(card, 0, k), START + 7 * MS);
    assert_int_equal(busy(0), 4 * MS);
    /* While somebody else has the card. */
    (void)kernel(1, 100 * MS);
    up = submit(0, GS_CLOCK_UP, 5 * MS, 0, 0);
    now_ns += 6 * MS;
    assert_true(gs_clock_is_done(card, 0, up));
    assert_int_equal(gs_clock_when(card, 0, up), START + 15 * MS);
    assert_int_equal(busy(1), 6 * MS);
}

static void a_time_stamp_waits_for_a_turn(void **state)
{
    (void)state;
    const struct gs_clock_who me = {.slot = 1}, other = {.slot = 2};
    uint64_t now, tag = gs_clock_mark(card, &me, 0, 0, &now);
    assert_int_equal(tag, 0); /* the card is free: now */
    assert_int_equal(now, START);
    (void)kernel(2, 100 * MS);
    now_ns += MS;
    assert_int_equal(gs_clock_mark(card, &other, 0, 0, &now), 0); /* it is on the card */
    tag = gs_clock_mark(card, &me, 0, 0, &now);
    uint64_t k = submit(1, GS_CLOCK_KERNEL, 500 * US, tag, GS_CLOCK_FULL);
    assert_false(gs_clock_is_done(card, 1, tag));
    now_ns += 9 * MS;
    assert_int_equal(gs_clock_when(card, 1, tag), START + 2 * MS + 1);
    assert_int_equal(gs_clock_when(card, 1, k), START + 2 * MS + 500 * US + 1);
    assert_int_equal(gs_clock_mark(card, &me, 0, 1, &now), 0); /* a copy engine's stamp */
}

static void too_much_work_must_wait(void **state)
{
    (void)state;
    const struct gs_clock_who who = {.slot = 1};
    uint64_t tag = 0, first = 0;
    int n = 0;
    for (; n < 1000; n++) {
        struct gs_clock_work up = {.kind = GS_CLOCK_UP, .cost_ns = MS, .after_ns = tag};
        assert_int_equal(gs_clock_submit(card, &who, &up, &tag), 0);
        struct gs_clock_work k = {
            .kind = GS_CLOCK_KERNEL, .cost_ns = MS, .after_ns = tag, .load = GS_CLOCK_FULL};
        if (gs_clock_submit(card, &who, &k, &tag))
            break;
        first = first ? first : tag;
    }
    assert_int_equal(n, GS_CLOCK_PIECES);
    assert_int_equal(tag, first);
    gs_clock_wait(card, 1, tag);
    struct gs_clock_work k = {.kind = GS_CLOCK_KERNEL, .cost_ns = MS, .load = GS_CLOCK_FULL};
    assert_int_equal(gs_clock_submit(card, &who, &k, &tag), 0);
}

static void groups_are_the_sum_of_their_processes(void **state)
{
    (void)state;
    struct gs_clock_use use[3], all;
    (void)kernel(0, 5 * MS);
    (void)kernel(1, 50 * MS);
    (void)kernel(3, 50 * MS); /* group 0 */
    now_ns += 20 * MS;
    assert_int_equal(gs_clock_groups(card, use, 3, &all), now_ns);
    assert_int_equal(use[0].busy_ns, busy(0) + busy(3));
    assert_int_equal(use[0].kernels, 2);
    assert_int_equal(use[1].busy_ns, busy(1));
    assert_int_equal(use[2].busy_ns, 0);
    assert_int_equal(all.busy_ns, 20 * MS);
    uint64_t before = use[0].busy_ns;
    gs_clock_drop(card, 3); /* the group keeps what it had */
    (void)gs_clock_groups(card, use, 3, &all);
    assert_int_equal(use[0].busy_ns, before);
    assert_int_equal(use[0].kernels, 2);
    now_ns += 4 * MS;
    (void)gs_clock_groups(card, use, 3, &all);
    assert_int_equal(all.busy_ns, 24 * MS);
    assert_int_equal(use[0].busy_ns, before);
}

static void waiting_ends_when_the_work_does(void **state)
{
    (void)state;
    uint64_t a = kernel(0, 3 * MS);
    (void)kernel(1, 100 * MS);
    gs_clock_wait(card, 0, a);
    assert_int_equal(now_ns, START + 5 * MS);
}

static void idle_time_is_not_owed(void **state)
{
    (void)state;
    now_ns += 1000 * MS;
    uint64_t a = kernel(0, MS);
    assert_false(gs_clock_is_done(card, 0, a));
    now_ns += MS;
    assert_true(gs_clock_is_done(card, 0, a));
}

static void the_dead_leave_no_work(void **state)
{
    (void)state;
    uint64_t lost = kernel(7, 1000000 * MS);
    uint64_t generation = card->proc[7].generation;
    assert_false(gs_clock_is_done_of(card, 7, generation, lost));
    gs_clock_drop(card, 7);
    assert_true(gs_clock_is_done_of(card, 7, generation, lost));
    uint64_t a = kernel(8, MS);
    now_ns += MS;
    assert_true(gs_clock_is_done(card, 8, a));
    uint64_t next = kernel(7, MS); /* another process in the same slot */
    assert_int_equal(card->proc[7].busy_ns, 0);
    assert_true(gs_clock_is_done_of(card, 7, generation, next));
    now_ns += MS;
    assert_true(gs_clock_is_done(card, 7, next));
    assert_int_equal(busy(7), MS);
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
    (void)kernel(0, MS);
    now_ns += MS / 2;
    uint64_t a = kernel(0, MS);
    /* And a death between the halves of closing an account. */
    card->retire = (struct gs_clock_retire){
        .armed = 1, .slot = 5, .group = 2, .use = {.busy_ns = 77, .kernels = 7}};
    assert_int_equal(pthread_create(&thread, NULL, die_inside, &card->lock), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    now_ns += 2 * MS;
    assert_true(gs_clock_is_done(card, 0, a));
    assert_int_equal(card->group[2].busy_ns, 77);
    assert_int_equal(busy(0), 2 * MS);
}

static void utilisation_is_that_of_the_last_period(void **state)
{
    (void)state;
    (void)gs_clock_advance(card);
    (void)kernel(0, GS_CLOCK_SAMPLE_NS / 4);
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
        uint64_t cost = 1 + (seed >> 40) % (3 * MS);
        last[slot] = kernel(slot, cost);
        total += cost;
        now_ns += (seed >> 20) % MS;
    }
    for (int i = 0; i < 5; i++)
        gs_clock_wait(card, (uint32_t)i, last[i]);
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
        cmocka_unit_test_setup_teardown(two_processes_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(length_of_kernels_does_not_matter, setup, teardown),
        cmocka_unit_test_setup_teardown(a_turn_ends_when_the_work_does, setup, teardown),
        cmocka_unit_test_setup_teardown(a_late_joiner_waits_for_the_slice_to_end, setup, teardown),
        cmocka_unit_test_setup_teardown(when_is_known_seconds_later, setup, teardown),
        cmocka_unit_test_setup_teardown(kernels_run_side_by_side_where_they_fit, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_run_beside_kernels, setup, teardown),
        cmocka_unit_test_setup_teardown(a_time_stamp_waits_for_a_turn, setup, teardown),
        cmocka_unit_test_setup_teardown(too_much_work_must_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(groups_are_the_sum_of_their_processes, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_ends_when_the_work_does, setup, teardown),
        cmocka_unit_test_setup_teardown(idle_time_is_not_owed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_dead_leave_no_work, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lock_left_by_the_dead_is_taken_over, setup, teardown),
        cmocka_unit_test_setup_teardown(utilisation_is_that_of_the_last_period, setup, teardown),
        cmocka_unit_test_setup_teardown(work_is_conserved, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
