#include "monitor/arbiter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "contract/quota.h"

#define MS    1000000ull
#define BIN   ((uint64_t)GS_LEDGER_BIN_NS)
#define START (1000000 * BIN) /* the first bin of every test */
#define LAG   GS_ARBITER_LAG_BINS

static struct gs_arbiter *arbiter;
static struct gs_arbiter_slice slices[GS_BOARD_SLICES];
static struct gs_arbiter_process processes[GS_BOARD_SLICES][4];

static int reset(void **state)
{
    (void)state;
    arbiter = calloc(1, sizeof(*arbiter));
    memset(slices, 0, sizeof(slices));
    memset(processes, 0, sizeof(processes));
    return arbiter == NULL;
}

static int drop(void **state)
{
    (void)state;
    free(arbiter);
    return 0;
}

/** Add a slice of one process; a further process is made by raising n_processes. */
static struct gs_arbiter_slice *add(uint32_t pct, enum gs_policy policy)
{
    uint32_t i = arbiter->n_slices++;

    slices[i] = (struct gs_arbiter_slice){.ledger_dev = 1,
                                          .ledger_ino = i + 1,
                                          .core_bp = pct * 100,
                                          .policy = policy,
                                          .n_processes = 1,
                                          .process = processes[i]};
    for (uint32_t j = 0; j < 4; j++)
        processes[i][j].owner = ((uint64_t)i + 1) << 32 | (j + 1);
    arbiter->slice[i] = &slices[i];
    return &slices[i];
}

/** The process had work outstanding for so much of the bin after START. */
static void report(struct gs_arbiter_process *p, uint64_t bin, uint64_t ns)
{
    uint64_t epoch = START / BIN + bin;

    p->bin[epoch % GS_LEDGER_BINS] = epoch << GS_LEDGER_BIN_BITS | ns;
}

static void step_at(uint64_t ns)
{
    gs_arbiter_step(arbiter, START + ns);
}

/** Step through the bins from..to, the given densities reported in each, and on until they count.
 */
static void live(uint64_t from, uint64_t to, const double *density)
{
    for (uint64_t bin = from; bin <= to + LAG + 1; bin++) {
        for (uint32_t i = 0; bin <= to && i < arbiter->n_slices; i++) {
            report(&processes[i][0], bin, (uint64_t)(density[i] * (double)BIN));
            processes[i][0].active_ns = START + (bin + 1) * BIN - 1;
        }
        step_at((bin + 1) * BIN - 1);
    }
}

static void test_two_hungry_halve(void **state)
{
    const double all[] = {1, 1};

    (void)state;
    add(30, GS_POLICY_FIXED);
    add(70, GS_POLICY_FIXED);
    live(0, 49, all);
    assert_int_equal(slices[0].refund_ns, 50 * BIN / 2);
    assert_int_equal(slices[1].refund_ns, 50 * BIN / 2);
    assert_int_equal(slices[0].share_bp, 3000);
    assert_int_equal(slices[1].share_bp, 7000);
}

static void test_thirty_beside_seventy(void **state)
{
    /* What the limiter settles at: 0.6 outstanding beside one always busy is 0.3 of the card. */
    const double held[] = {0.6, 1};

    (void)state;
    add(30, GS_POLICY_FIXED);
    add(70, GS_POLICY_FIXED);
    live(0, 49, held);
    assert_int_equal(slices[0].refund_ns, 50 * BIN * 3 / 10); /* 0.6 x 1/2 */
    assert_int_equal(slices[1].refund_ns, 50 * BIN * 3 / 10); /* 1 x 0.6 / 2: it had 0.7 */
}

static void test_three_processes_two_slices(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED)->n_processes = 2;
    add(70, GS_POLICY_FIXED);
    step_at(0);
    for (int j = 0; j < 2; j++)
        report(&processes[0][j], 5, BIN);
    report(&processes[1][0], 5, BIN / 2);
    step_at((5 + LAG + 1) * BIN);
    /* each of the first: beside 1 and 1/2: half of 1/2 and half of 1/3 = 5/12 its own */
    assert_in_range(slices[0].refund_ns, 2 * BIN * 7 / 12 - 1, 2 * BIN * 7 / 12 + 1);
    /* the other: always beside two */
    assert_in_range(slices[1].refund_ns, BIN / 2 * 2 / 3 - 1, BIN / 2 * 2 / 3 + 1);
}

/** The process's slice noted every step of the bin; of `time` its own card time is known: `own`. */
static void report_known(uint32_t slice, uint32_t process, uint64_t bin, uint64_t time,
                         uint64_t own)
{
    struct gs_arbiter_process *p = &processes[slice][process];
    uint64_t epoch = START / BIN + bin;

    p->known[epoch % GS_LEDGER_BINS] = epoch << 2 * GS_LEDGER_KNOWN_BITS |
                                       time / GS_LEDGER_KNOWN_NS << GS_LEDGER_KNOWN_BITS |
                                       own / GS_LEDGER_KNOWN_NS;
}

static void cover(uint32_t slice, uint64_t bin, uint64_t steps)
{
    uint64_t epoch = START / BIN + bin;

    slices[slice].cover[epoch % GS_LEDGER_COVER] = epoch << GS_LEDGER_COVER_BITS | steps;
}

#define STEPS_ALL  ((1ull << GS_LEDGER_COVER_BITS) - 1)
#define STEPS_HALF ((1ull << GS_LEDGER_COVER_BITS / 2) - 1)

static void crowd(uint32_t slice, uint64_t bin, uint64_t steps)
{
    uint64_t epoch = START / BIN + bin;

    slices[slice].crowd[epoch % GS_LEDGER_COVER] = epoch << GS_LEDGER_COVER_BITS | steps;
}

/* A card gives turns to processes: a slice that has several with work at once has as many. Noted is
 * the time once, by whoever came first. */
static void test_mates_have_turns_each(void **state)
{
    uint64_t third = 20 * BIN / 3;

    (void)state;
    add(60, GS_POLICY_FIXED)->n_processes = 2;
    add(40, GS_POLICY_FIXED);
    for (uint64_t bin = 0; bin <= 20 + LAG; bin++) {
        if (bin < 20) {
            report(&processes[0][bin % 2], bin, BIN);
            cover(0, bin, STEPS_ALL);
            crowd(0, bin, GS_LEDGER_COVER_BITS);
            report(&processes[1][0], bin, BIN);
            cover(1, bin, STEPS_ALL);
        }
        step_at((bin + 1) * BIN - 1);
    }
    assert_in_range(slices[0].refund_ns, third - 100, third + 100);
    assert_in_range(slices[1].refund_ns, 2 * third - 100, 2 * third + 100);
}

/* More of them than there are processes is not believed. */
static void test_mates_are_believed_as_far_as_there_are_any(void **state)
{
    (void)state;
    add(60, GS_POLICY_FIXED);
    add(40, GS_POLICY_FIXED);
    for (uint64_t bin = 0; bin <= 20 + LAG; bin++) {
        for (uint32_t i = 0; bin < 20 && i < 2; i++) {
            report(&processes[i][0], bin, BIN);
            cover(i, bin, STEPS_ALL);
            crowd(i, bin, STEPS_ALL);
        }
        step_at((bin + 1) * BIN - 1);
    }
    assert_in_range(slices[0].refund_ns, 20 * BIN / 2 - 100, 20 * BIN / 2 + 100);
    assert_in_range(slices[1].refund_ns, 20 * BIN / 2 - 100, 20 * BIN / 2 + 100);
}

/* Short launches that ran through: 2 ms of each 20 ms were a neighbour's turn, whatever an even
 * split says; and that neighbour had the rest. */
static void test_known_time_is_exact(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED);
    add(70, GS_POLICY_FIXED);
    for (uint64_t bin = 0; bin <= 20 + LAG; bin++) {
        if (bin < 20) {
            report(&processes[0][0], bin, BIN / 2);
            report_known(0, 0, bin, BIN / 2, 8 * MS);
            cover(0, bin, STEPS_HALF);
            report(&processes[1][0], bin, BIN);
            cover(1, bin, STEPS_ALL);
        }
        step_at((bin + 1) * BIN - 1);
    }
    assert_in_range(slices[0].refund_ns, 20 * 2 * MS * 99 / 100, 20 * 2 * MS * 101 / 100);
    /* less than 8 ms: of the shared steps' rounding */
    assert_in_range(slices[1].refund_ns, 20 * 8 * MS * 95 / 100, 20 * 8 * MS * 102 / 100);
}

/* Two processes of a slice: their own times add up, the time they share is one. */
static void test_known_times_of_mates_add_up(void **state)
{
    (void)state;
    add(60, GS_POLICY_FIXED)->n_processes = 2;
    add(40, GS_POLICY_FIXED);
    for (uint64_t bin = 0; bin <= 20 + LAG; bin++) {
        if (bin < 20) {
            report(&processes[0][0], bin, BIN / 2);
            report_known(0, 0, bin, BIN / 2, 7 * MS);
            report(&processes[0][1], bin, BIN / 2);
            report_known(0, 1, bin, BIN / 2, 7 * MS);
            cover(0, bin, STEPS_ALL);
            report(&processes[1][0], bin, BIN);
            cover(1, bin, STEPS_ALL);
        }
        step_at((bin + 1) * BIN - 1);
    }
    assert_in_range(slices[0].refund_ns, 20 * 6 * MS * 99 / 100, 20 * 6 * MS * 101 / 100);
    assert_in_range(slices[1].refund_ns, 20 * 14 * MS * 96 / 100, 20 * 14 * MS * 101 / 100);
}

/* Who says that nothing was its own gets what even turns would have taken, and one more, however
 * often it shares the card. */
static void test_known_time_is_believed_within_reason(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED);
    add(70, GS_POLICY_FIXED);
    for (uint64_t bin = 0; bin <= 20 + LAG; bin++) {
        if (bin < 20) {
            for (uint32_t i = 0; i < 2; i++) {
                report(&processes[i][0], bin, BIN);
                cover(i, bin, i == 0 ? STEPS_ALL : STEPS_HALF);
            }
            report_known(0, 0, bin, BIN, 0);
        }
        step_at((bin + 1) * BIN - 1);
    }
    assert_in_range(slices[0].refund_ns, 20 * 5 * MS + 1, 20 * 5 * MS + 2 * MS);
}

/* A neighbour's short work falls into one of its turns: all of that time is lost, where the
 * neighbour says so, too. What that had when nobody else worked does not count. */
static void test_what_a_neighbour_says_it_had_is_believed(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED);
    add(70, GS_POLICY_FIXED);
    for (uint64_t bin = 0; bin <= 20 + LAG; bin++) {
        if (bin < 20) {
            report(&processes[0][0], bin, BIN / 2);
            report_known(0, 0, bin, BIN / 2, BIN / 2);
            cover(0, bin, STEPS_HALF);
            report(&processes[1][0], bin, BIN);
            report_known(1, 0, bin, BIN, BIN / 2);
            cover(1, bin, STEPS_ALL);
        }
        step_at((bin + 1) * BIN - 1);
    }
    assert_int_equal(slices[0].refund_ns, 0);
    assert_in_range(slices[1].refund_ns, 20 * BIN / 2 - 20 * MS / 100, 20 * BIN / 2);
}

/* A neighbour that stands by does not make anybody lose; and the hooks are told who is there. */
static void test_known_time_alone(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED);
    add(70, GS_POLICY_FIXED);
    for (uint64_t bin = 0; bin <= 20 + LAG; bin++) {
        if (bin < 20) {
            report(&processes[0][0], bin, BIN);
            report_known(0, 0, bin, BIN, 1 * MS);
            cover(0, bin, STEPS_ALL);
        }
        step_at((bin + 1) * BIN - 1);
    }
    assert_int_equal(slices[0].refund_ns, 0);
    assert_int_equal(slices[0].flags & GS_BOARD_SHARED, 0);
    processes[0][0].active_ns = processes[1][0].active_ns = START + 100 * BIN;
    step_at(100 * BIN);
    assert_int_equal(slices[0].flags & GS_BOARD_SHARED, GS_BOARD_SHARED);
    assert_int_equal(slices[1].flags & GS_BOARD_SHARED, GS_BOARD_SHARED);
}

/* How many take turns with a slice: processes that asked within 60 ms, its own left out. */
static void test_others_are_counted(void **state)
{
    const uint32_t foreign[] = {20, 10};

    (void)state;
    add(30, GS_POLICY_FIXED)->n_processes = 2;
    add(30, GS_POLICY_FIXED)->n_processes = 3;
    add(30, GS_POLICY_FIXED);
    processes[0][0].active_ns = processes[1][0].active_ns = processes[1][2].active_ns =
        START + 10 * BIN;
    processes[1][1].active_ns = START + 6 * BIN; /* 80 ms ago */
    step_at(10 * BIN);
    assert_int_equal(slices[0].others, 2);
    assert_int_equal(slices[1].others, 1);
    assert_int_equal(slices[2].others, 3);
    slices[1].is_parked = true; /* asks, and cannot have it */
    gs_arbiter_take_foreign(arbiter, foreign, 2);
    step_at(10 * BIN);
    assert_int_equal(slices[0].others, 2);
    assert_int_equal(slices[2].others, 3);
}

static void test_alone_nothing_is_refunded(void **state)
{
    const double all[] = {1, 0};

    (void)state;
    add(30, GS_POLICY_FIXED);
    add(30, GS_POLICY_FIXED);
    live(0, 49, all);
    assert_int_equal(slices[0].refund_ns, 0);
    assert_int_equal(slices[1].refund_ns, 0);
}

static void test_reports_count_once_and_after_the_lag(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED);
    add(30, GS_POLICY_FIXED);
    step_at(0);
    step_at(BIN);
    /* bin 0 is reported late, but in time */
    report(&processes[0][0], 0, BIN);
    report(&processes[1][0], 0, BIN);
    step_at((LAG + 1) * BIN - 1);
    assert_int_equal(slices[0].refund_ns, 0);
    step_at((LAG + 1) * BIN);
    assert_int_equal(slices[0].refund_ns, BIN / 2);
    step_at((LAG + 1) * BIN + MS);
    assert_int_equal(slices[0].refund_ns, BIN / 2);
    /* what comes after that is too late: it has been settled without */
    report(&processes[0][0], 1, BIN);
    step_at((LAG + 2) * BIN);
    report(&processes[1][0], 1, BIN);
    step_at((LAG + 3) * BIN);
    assert_int_equal(slices[0].refund_ns, BIN / 2);
    assert_int_equal(slices[1].refund_ns, BIN / 2);
}

static void test_missed_steps_lose_nothing(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED);
    add(30, GS_POLICY_FIXED);
    step_at((LAG + 1) * BIN); /* bin 0 is done */
    for (uint64_t bin = 1; bin <= 20; bin++) {
        report(&processes[0][0], bin, BIN);
        report(&processes[1][0], bin, BIN);
    }
    step_at((20 + LAG + 1) * BIN); /* the writer was away for 400 ms */
    assert_int_equal(slices[0].refund_ns, 20 * BIN / 2);
    /* a minute away: nothing to be had, and nothing twice */
    step_at(60000 * MS);
    assert_int_equal(slices[0].refund_ns, 20 * BIN / 2);
}

static void test_next_writer_goes_on(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED)->refund_ns = 1000;
    add(30, GS_POLICY_FIXED);
    for (uint64_t bin = 1; bin <= 8; bin++) {
        report(&processes[0][0], bin, BIN);
        report(&processes[1][0], bin, BIN);
    }
    arbiter->refund_bin = START / BIN + 3; /* from the board: bins 1..3 are in */
    step_at((8 + LAG + 1) * BIN);
    assert_int_equal(slices[0].refund_ns, 1000 + 5 * BIN / 2);
}

static void test_running_kernel_counts_before_it_is_reported(void **state)
{
    struct gs_arbiter_process *p = &processes[0][0];

    (void)state;
    add(30, GS_POLICY_FIXED);
    add(30, GS_POLICY_FIXED);
    for (uint64_t bin = 0; bin < 40; bin++) {
        report(&processes[1][0], bin, BIN);
        if (bin == 10) { /* one second, and not a word until then */
            p->active_ns = START + 10 * BIN;
            p->busy_until_ns = START + 60 * BIN;
        }
        step_at((bin + 1) * BIN - 1);
    }
    /* settled are bins up to 39 - 1 - LAG = 28: 10..28 with work of both */
    assert_int_equal(slices[0].refund_ns, 19 * BIN / 2);
    assert_int_equal(slices[1].refund_ns, 19 * BIN / 2);
}

static void test_queue_that_ended_early_does_not_count(void **state)
{
    struct gs_arbiter_process *p = &processes[0][0];

    (void)state;
    add(30, GS_POLICY_FIXED);
    add(30, GS_POLICY_FIXED);
    step_at(0);
    p->active_ns = START + 1;
    p->busy_until_ns = START + 50 * BIN;
    for (uint64_t bin = 0; bin < 30; bin++) {
        report(&processes[1][0], bin, BIN);
        if (bin == 4) { /* its kernel is done, and the process knows */
            report(p, 0, BIN - 1);
            for (uint64_t b = 1; b < 4; b++)
                report(p, b, BIN);
            p->busy_until_ns = START + 4 * BIN;
        }
        step_at((bin + 1) * BIN - 1);
    }
    assert_in_range(slices[0].refund_ns, 4 * BIN / 2 - 2, 4 * BIN / 2);
    /* nonsense about a queue is not believed */
    p->busy_until_ns = UINT64_MAX;
    for (uint64_t bin = 30; bin < 60; bin++) {
        report(&processes[1][0], bin, BIN);
        step_at((bin + 1) * BIN - 1);
    }
    assert_in_range(slices[0].refund_ns, 4 * BIN / 2 - 2, 4 * BIN / 2);
}

static void test_last_bins_of_the_dead_count(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED);
    add(30, GS_POLICY_FIXED);
    step_at(0);
    report(&processes[0][0], 0, BIN);
    report(&processes[1][0], 0, BIN);
    step_at(2 * BIN);
    gs_arbiter_forget_process(&slices[0], &processes[0][0]);
    assert_int_equal(processes[0][0].owner, 0);
    step_at((LAG + 1) * BIN);
    assert_int_equal(slices[0].refund_ns, BIN / 2);
    assert_int_equal(slices[1].refund_ns, BIN / 2);
}

static void test_hostile_bins(void **state)
{
    (void)state;
    add(30, GS_POLICY_FIXED);
    add(30, GS_POLICY_FIXED);
    step_at(0);
    report(&processes[0][0], 0, BIN);
    for (uint32_t i = 0; i < GS_LEDGER_BINS; i++)
        processes[1][0].bin[i] = UINT64_MAX;
    report(&processes[1][0], 0, (1u << GS_LEDGER_BIN_BITS) - 1); /* 33 ms of 20 */
    processes[1][0].active_ns = processes[1][0].wait_since_ns = UINT64_MAX;
    processes[1][0].busy_until_ns = UINT64_MAX;
    step_at((LAG + 1) * BIN);
    assert_int_equal(slices[0].refund_ns, BIN / 2);
    assert_int_equal(slices[1].refund_ns, BIN / 2);
    assert_int_equal(slices[1].demand_ns, START + BIN); /* of its one bin that can be true */
}

static void test_clock_goes_back(void **state)
{
    const double all[] = {1, 1};
    uint64_t before;

    (void)state;
    add(30, GS_POLICY_FIXED);
    add(30, GS_POLICY_ELASTIC);
    live(0, 29, all);
    before = slices[0].refund_ns;
    step_at(20 * BIN); /* a little: nothing is refunded twice */
    assert_int_equal(slices[0].refund_ns, before);
    gs_arbiter_step(arbiter, 100 * BIN); /* another boot: reports of the old one tell nothing */
    gs_arbiter_step(arbiter, 101 * BIN);
    assert_int_equal(slices[0].refund_ns, before);
    assert_int_equal(slices[0].demand_ns, 0);
    assert_int_equal(slices[1].share_bp, GS_SHARE_ALL_BP); /* alone, as far as that boot goes */
    gs_arbiter_step(arbiter, 0);
    assert_int_equal(slices[0].refund_ns, before);
}

static void test_idle_share_is_lent_and_returned(void **state)
{
    struct gs_arbiter_process *a = &processes[0][0], *b = &processes[1][0];
    uint64_t t = 0;

    (void)state;
    add(30, GS_POLICY_ELASTIC);
    add(30, GS_POLICY_ELASTIC);
    a->active_ns = b->active_ns = START;
    step_at(0);
    assert_int_equal(slices[0].share_bp,
                     3000); /* unpromised 40 % are not lent beside a neighbour */
    assert_int_equal(slices[1].share_bp, 3000);
    for (; t <= 60 * MS; t += 20 * MS) {
        a->active_ns = START + t;
        step_at(t);
        assert_int_equal(slices[0].share_bp, 3000);
    }
    a->active_ns = START + t;
    step_at(t); /* 80 ms after the other's last launch: within the 200 ms of the promise */
    assert_int_equal(slices[0].share_bp, GS_SHARE_ALL_BP);
    t += 1000 * MS;
    a->active_ns = START + t;
    step_at(t);
    assert_int_equal(slices[0].share_bp, GS_SHARE_ALL_BP);
    /* the first look that sees the owner's demand: a launch, a wait or a queue */
    b->active_ns = START + t;
    step_at(t);
    assert_int_equal(slices[0].share_bp, 3000);
    assert_int_equal(slices[1].share_bp, 3000);
    t += 1000 * MS;
    a->active_ns = START + t;
    b->wait_since_ns = START + t - 500 * MS;
    b->active_ns = START + t - 50 * MS; /* who waits says so every quantum */
    step_at(t);
    assert_int_equal(slices[0].share_bp, 3000);
    assert_int_equal(slices[1].demand_ns, START + t);
    /* stopped while it waits, or away by a jump: that is no demand, however long the word stays */
    t += GS_ARBITER_WAIT_NS;
    a->active_ns = START + t;
    step_at(t);
    assert_int_equal(slices[0].share_bp, GS_SHARE_ALL_BP);
    assert_int_equal(slices[1].demand_ns, b->active_ns);
    b->wait_since_ns = 0;
    b->busy_until_ns = START + t + 1;
    step_at(t);
    assert_int_equal(slices[0].share_bp, 3000);
}

static void test_idle_shares_are_divided(void **state)
{
    (void)state;
    add(10, GS_POLICY_ELASTIC);
    add(30, GS_POLICY_ELASTIC);
    add(20, GS_POLICY_FIXED);
    add(40, GS_POLICY_FIXED);
    processes[0][0].active_ns = processes[1][0].active_ns = processes[2][0].active_ns = START;
    step_at(0);
    assert_int_equal(slices[0].share_bp, 2000); /* 10 + 40 x 10/40 */
    assert_int_equal(slices[1].share_bp, 6000); /* 30 + 40 x 30/40 */
    assert_int_equal(slices[2].share_bp, 2000); /* its own, always */
    assert_int_equal(slices[3].share_bp, 4000); /* and what it will find when it comes back */
}

static void test_idle_slice_is_told_what_it_would_get(void **state)
{
    (void)state;
    add(30, GS_POLICY_ELASTIC);
    add(30, GS_POLICY_ELASTIC);
    step_at(0);
    assert_int_equal(slices[0].share_bp, GS_SHARE_ALL_BP); /* alone if it came now */
    processes[1][0].active_ns = START;
    step_at(0);
    assert_int_equal(slices[0].share_bp, 3000);
}

static void test_off_and_unlimited_are_not_held(void **state)
{
    (void)state;
    add(30, GS_POLICY_OFF);
    add(100, GS_POLICY_FIXED);
    add(30, GS_POLICY_ELASTIC);
    processes[2][0].active_ns = START;
    step_at(0);
    assert_int_equal(slices[0].share_bp, GS_SHARE_ALL_BP);
    assert_int_equal(slices[1].share_bp, GS_SHARE_ALL_BP);
    assert_int_equal(slices[2].share_bp, GS_SHARE_ALL_BP);
    assert_false(gs_arbiter_is_reporting(&slices[0]));
    assert_false(gs_arbiter_is_reporting(&slices[1]));
    assert_true(gs_arbiter_is_reporting(&slices[2]));
}

static void test_foreign_load(void **state)
{
    const double all[] = {1}, half[] = {0.5};
    const uint32_t busy[] = {50}, third[] = {20}, idle[] = {0};

    (void)state;
    add(30, GS_POLICY_ELASTIC);
    live(0, 99, all);
    assert_int_equal(slices[0].share_bp, GS_SHARE_ALL_BP);
    assert_int_equal(slices[0].refund_ns, 0);
    /* half the card beside one that is always busy: it is always busy as well */
    gs_arbiter_take_foreign(arbiter, busy, 1);
    live(200, 299, all);
    assert_in_range(slices[0].refund_ns, 100 * BIN / 2 - 2000000, 100 * BIN / 2);
    assert_int_equal(slices[0].share_bp, 3000); /* not alone, and nothing idle to lend */
    /* 20 %: work for 0.4 of the time */
    gs_arbiter_take_foreign(arbiter, third, 1);
    slices[0].refund_ns = 0;
    live(400, 499, all);
    assert_in_range(slices[0].refund_ns, 100 * BIN / 5 - MS, 100 * BIN / 5);
    gs_arbiter_take_foreign(arbiter, idle, 1);
    slices[0].refund_ns = 0;
    live(600, 620, half);
    assert_int_equal(slices[0].refund_ns, 0);
    assert_int_equal(slices[0].share_bp, GS_SHARE_ALL_BP);
}

static void test_lying_driver(void **state)
{
    const double all[] = {1};
    const uint32_t nonsense[] = {101, 250, UINT32_MAX}, too_much[] = {90};
    uint32_t many[GS_ARBITER_FOREIGN + 8];

    (void)state;
    add(30, GS_POLICY_ELASTIC);
    live(0, 99, all);
    gs_arbiter_take_foreign(arbiter, nonsense, 3);
    live(200, 249, all);
    assert_int_equal(slices[0].refund_ns, 0);
    assert_int_equal(slices[0].share_bp, GS_SHARE_ALL_BP);
    /* beside ours, always busy, nobody else can have had 90 % */
    gs_arbiter_take_foreign(arbiter, too_much, 1);
    live(300, 349, all);
    assert_int_equal(slices[0].refund_ns, 0);
    for (uint32_t i = 0; i < GS_ARBITER_FOREIGN + 8; i++)
        many[i] = 30;
    gs_arbiter_take_foreign(arbiter, many, GS_ARBITER_FOREIGN + 8);
    assert_int_equal(arbiter->n_foreign, GS_ARBITER_FOREIGN);
    live(400, 449, all);
    assert_true(slices[0].refund_ns <= 50 * BIN);
}

static void test_high_priority_holds_low_off(void **state)
{
    uint64_t t = 0;

    (void)state;
    add(100, GS_POLICY_FIXED)->is_high = true; /* an announcer: no share of its own */
    add(30, GS_POLICY_FIXED);
    add(30, GS_POLICY_FIXED)->is_high = true;
    step_at(0);
    assert_int_equal(slices[1].flags, 0);
    processes[0][0].active_ns = START;
    for (; t <= 1000 * MS; t += 100 * MS) {
        step_at(t);
        assert_int_equal(slices[0].flags & GS_BOARD_YIELD, 0);
        assert_int_equal(slices[1].flags & GS_BOARD_YIELD, GS_BOARD_YIELD);
        assert_int_equal(slices[2].flags & GS_BOARD_YIELD, 0);
        assert_int_equal(slices[1].share_bp, 3000); /* the hook keeps a floor */
    }
    step_at(t);
    assert_int_equal(slices[1].flags, 0);
}

static void test_whole_board(void **state)
{
    double idle = 1;
    uint64_t refunds = 0, outstanding = 0, own;

    (void)state;
    for (uint32_t i = 0; i < GS_BOARD_SLICES; i++)
        add(1, i % 2 ? GS_POLICY_ELASTIC : GS_POLICY_FIXED)->n_processes = 4;
    step_at(0);
    for (uint32_t i = 0; i < GS_BOARD_SLICES; i++) {
        uint64_t all = 0; /* of the slice, whose processes take turns */

        for (uint32_t j = 0; j < 4; j++) {
            uint64_t ns = i < 200 ? (i + j) % 7 * BIN / 500 : 0;

            report(&processes[i][j], 0, ns);
            processes[i][j].active_ns = i < 200 ? START + (LAG + 1) * BIN : 0;
            all += ns;
        }
        outstanding += all;
        idle *= 1 - (double)all / (double)BIN;
    }
    step_at((LAG + 1) * BIN);
    for (uint32_t i = 0; i < GS_BOARD_SLICES; i++)
        refunds += slices[i].refund_ns;
    /* what is left after refunds is the time in which the card had any work */
    own = (uint64_t)((1 - idle) * (double)BIN);
    assert_in_range(outstanding - refunds, own - 1000, own + 1000);
    assert_int_equal(slices[0].share_bp, 100);
    assert_int_equal(slices[1].share_bp, 156); /* 56 idle shares of 1 % among 100 borrowers */
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, reset, drop)
    const struct CMUnitTest tests[] = {
        TEST(test_two_hungry_halve),
        TEST(test_thirty_beside_seventy),
        TEST(test_three_processes_two_slices),
        TEST(test_mates_have_turns_each),
        TEST(test_mates_are_believed_as_far_as_there_are_any),
        TEST(test_known_time_is_exact),
        TEST(test_known_times_of_mates_add_up),
        TEST(test_known_time_is_believed_within_reason),
        TEST(test_what_a_neighbour_says_it_had_is_believed),
        TEST(test_known_time_alone),
        TEST(test_others_are_counted),
        TEST(test_alone_nothing_is_refunded),
        TEST(test_reports_count_once_and_after_the_lag),
        TEST(test_missed_steps_lose_nothing),
        TEST(test_next_writer_goes_on),
        TEST(test_running_kernel_counts_before_it_is_reported),
        TEST(test_queue_that_ended_early_does_not_count),
        TEST(test_last_bins_of_the_dead_count),
        TEST(test_hostile_bins),
        TEST(test_clock_goes_back),
        TEST(test_idle_share_is_lent_and_returned),
        TEST(test_idle_shares_are_divided),
        TEST(test_idle_slice_is_told_what_it_would_get),
        TEST(test_off_and_unlimited_are_not_held),
        TEST(test_foreign_load),
        TEST(test_lying_driver),
        TEST(test_high_priority_holds_low_off),
        TEST(test_whole_board),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
