#include "vendors/nvidia/hook/cost.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "vendors/nvidia/hook/span.h"

#define US 1000u
#define MS 1000000u

/* As a launch does. */
static bool count(struct gs_cost *c, uint64_t *ret_est_ns)
{
    bool goes = gs_cost_is_estimated(c, ret_est_ns);

    if (goes)
        gs_cost_count(c, *ret_est_ns);
    return goes;
}

static int clean(void **state)
{
    (void)state;
    gs_cost_forget();
    return 0;
}

static struct gs_cost *entry(uint64_t handle, uint64_t blocks)
{
    uint32_t quarter = gs_cost_quarter(blocks);

    return gs_cost_find(gs_cost_key(handle, gs_cost_shape(256, 1, 1, 0), quarter, 0), quarter);
}

/* Quarter octaves: each covers less than 19 % beyond its first number, and none is out of range. */
static void test_quarters_grow_and_stay_below_256(void **state)
{
    uint32_t last = 0;

    (void)state;
    for (uint64_t n = 0; n < 100000; n++) {
        uint32_t q = gs_cost_quarter(n);

        assert_true(q == last || q == last + 1 || (n == 4 && q == 8));
        last = q;
    }
    assert_int_equal(gs_cost_quarter(1024), gs_cost_quarter(1279));
    assert_int_equal(gs_cost_quarter(1280), gs_cost_quarter(1024) + 1);
    assert_true(gs_cost_quarter(UINT64_MAX) < GS_COST_COARSE);
}

/* HAMi multiplies in 32 bits: a large grid gave tokens instead of taking them. */
static void test_blocks_do_not_wrap(void **state)
{
    (void)state;
    assert_int_equal(gs_cost_blocks(65536, 65536, 1), 1ull << 32);
    assert_int_equal(gs_cost_blocks(2147483647, 65535, 65535), 2147483647ull * 65535 * 65535);
    assert_int_equal(gs_cost_blocks(UINT32_MAX, UINT32_MAX, UINT32_MAX), UINT64_MAX);
}

static void test_entries_are_told_apart(void **state)
{
    struct gs_cost *a = entry(0x1000, 64);

    (void)state;
    assert_ptr_equal(a, entry(0x1000, 64));
    assert_ptr_equal(a, entry(0x1000, 65)); /* the same quarter octave */
    assert_ptr_not_equal(a, entry(0x1000, 128));
    assert_ptr_not_equal(a, entry(0x1008, 64));
    assert_ptr_not_equal(
        a, gs_cost_find(gs_cost_key(0x1000, gs_cost_shape(1, 256, 1, 0), gs_cost_quarter(64), 0),
                        gs_cost_quarter(64)));
    assert_ptr_not_equal(
        a, gs_cost_find(gs_cost_key(0x1000, gs_cost_shape(256, 1, 1, 0), gs_cost_quarter(64), 1),
                        gs_cost_quarter(64)));
}

/* More launches than entries: each still has one, and those that share one are of a size. */
static void test_the_table_is_never_full(void **state)
{
    uint32_t own = 0;

    (void)state;
    for (uint64_t i = 0; i < 4 * GS_COST_SLOTS; i++) {
        struct gs_cost *c = entry(0x7f0000000000 + i * 64, 100);

        assert_non_null(c);
        if (c >= gs_cost_table.coarse && c < gs_cost_table.coarse + GS_COST_COARSE)
            assert_ptr_equal(c, &gs_cost_table.coarse[gs_cost_quarter(100)]);
        else
            own++;
    }
    assert_true(own > GS_COST_SLOTS * 9 / 10);
}

static void test_an_unknown_or_long_launch_is_measured(void **state)
{
    struct gs_cost *c = entry(0x1000, 64);
    uint64_t est;

    (void)state;
    assert_false(count(c, &est));
    assert_int_equal(est, 0);
    gs_cost_learn(c, GS_COST_LONG_NS);
    gs_cost_sampled(c);
    assert_false(count(c, &est));
    assert_int_equal(est, GS_COST_LONG_NS);
}

/* 20 us: once settled, one of about 25 launches, and however long ago the last one was: the gaps
 * are those of chance, 1 - 1/e = 63 % below the mean, 1/e^2 = 14 % above two of it, 18 % below a
 * fifth. */
static void test_short_launches_are_sampled_by_their_own_time(void **state)
{
    struct gs_cost *c = entry(0x1000, 64);
    uint32_t launches = 0, samples = 0, run = 0, shorter = 0, longer = 0, shortest = 0;
    uint64_t est;

    (void)state;
    for (int i = 0; i < 16; i++) {
        gs_cost_learn(c, 20 * US);
        gs_cost_sampled(c);
    }
    for (; launches < 1000000; launches++, run++) {
        if (count(c, &est))
            continue;
        gs_cost_learn(c, 20 * US);
        gs_cost_sampled(c);
        samples++;
        shortest += run < 5;
        shorter += run < 25;
        longer += run >= 50;
        run = 0;
    }
    assert_in_range(samples, 1000000 / 28, 1000000 / 23);
    assert_in_range(shortest * 100 / samples, 13, 23);
    assert_in_range(shorter * 100 / samples, 58, 68);
    assert_in_range(longer * 100 / samples, 9, 19);
    assert_int_equal(gs_cost_weight(c), 25);
}

/* Of a kind whose launches are unlike each other the long ones count as they are, and each is
 * measured where it pays; one odd one, or a kind that has changed for good, is not such a kind. */
static void test_unlike_launches_are_measured_each(void **state)
{
    struct gs_cost *c = entry(0x1000, 64);
    uint64_t est, sum = 0;

    (void)state;
    for (int i = 0; i < 400; i++) {
        gs_cost_learn(c, i % 10 == 9 ? 2 * MS : 20 * US);
        gs_cost_sampled(c);
        if (i >= 100) {
            sum += c->est_ns;
            assert_true(gs_cost_is_spread(c));
            assert_false(count(c, &est));
        }
    }
    assert_in_range(sum / 300, 180 * US, 260 * US); /* 218 */
    for (int i = 0; i < 200; i++) {
        gs_cost_learn(c, 20 * US);
        gs_cost_sampled(c);
    }
    assert_false(gs_cost_is_spread(c)); /* no more */
    assert_in_range(c->est_ns, 20 * US, 22 * US);
    gs_cost_learn(c, 30 * US);
    assert_false(gs_cost_is_spread(c));
}

static void test_the_first_samples_come_early(void **state)
{
    struct gs_cost *c = entry(0x1000, 64);
    uint64_t est;
    uint32_t launches = 0;

    (void)state;
    for (uint32_t samples = 0; samples < 4; launches++) {
        if (count(c, &est))
            continue;
        gs_cost_learn(c, US);
        gs_cost_sampled(c);
        samples++;
    }
    assert_true(launches < 20);
}

static void test_the_estimate_is_a_mean(void **state)
{
    struct gs_cost *c = entry(0x1000, 64);

    (void)state;
    gs_cost_learn(c, 10 * US);
    assert_int_equal(c->est_ns, 10 * US);
    gs_cost_learn(c, 20 * US);
    assert_int_equal(c->est_ns, 15 * US);
    gs_cost_learn(c, 30 * US);
    assert_int_equal(c->est_ns, 20 * US);
    for (int i = 0; i < 200; i++)
        gs_cost_learn(c, i % 2 == 0 ? 10 * US : 30 * US);
    assert_in_range(c->est_ns, 18 * US, 22 * US);
}

static void test_one_outlier_is_clipped_and_two_are_believed(void **state)
{
    struct gs_cost *c = entry(0x1000, 64);
    uint64_t est;

    (void)state;
    for (int i = 0; i < 20; i++)
        gs_cost_learn(c, 10 * US);
    gs_cost_sampled(c);
    gs_cost_learn(c, 100 * MS);
    assert_int_equal(c->est_ns, 10 * US + (GS_COST_CLIP * 10 - 10) * US / 8);
    assert_false(count(c, &est)); /* the next one is looked at */
    gs_cost_learn(c, 100 * MS);
    assert_int_equal(c->est_ns, 100 * MS);
    gs_cost_learn(c, 10 * US);
    gs_cost_learn(c, 10 * US);
    assert_int_equal(c->est_ns, 10 * US);
}

/* Beside a neighbour whose turns are 2 ms: what is longer by a turn was interrupted. */
static void test_turns_of_neighbours_are_told_apart(void **state)
{
    struct gs_cost *c = entry(77, 100);

    (void)state;
    assert_int_equal(gs_cost_own(c, MS, UINT64_MAX), 0);
    gs_cost_learn_shared(c, 3 * MS, UINT64_MAX); /* the first was interrupted */
    assert_int_equal(gs_cost_own(c, 3 * MS, UINT64_MAX), 0);
    gs_cost_learn_shared(c, MS, UINT64_MAX);
    assert_int_equal(c->est_ns, MS);
    for (uint32_t i = 0; i < 50; i++)
        gs_cost_learn_shared(c, i % 3 == 0 ? 3 * MS : MS, UINT64_MAX);
    assert_int_equal(c->est_ns, MS);
    assert_int_equal(gs_cost_own(c, 3 * MS, UINT64_MAX), MS);
    assert_int_equal(gs_cost_own(c, MS + 100 * US, UINT64_MAX), MS + 100 * US);
    for (uint32_t i = 0; i < 40; i++)
        gs_cost_learn_shared(c, 5 * MS, UINT64_MAX); /* it has become longer */
    assert_in_range(c->est_ns, 49 * MS / 10, 5 * MS);
    assert_int_equal(gs_cost_own(c, 7 * MS, UINT64_MAX),
                     0); /* several turns long: cannot be told */
}

/* Others that cannot have held it up for so long: then it was long, with some of their turns in it,
 * and its kind is of unlike ones. */
static void test_what_others_cannot_have_done_is_its_own(void **state)
{
    struct gs_cost *c = entry(78, 100);

    (void)state;
    for (uint32_t i = 0; i < 20; i++)
        gs_cost_learn_shared(c, 20 * US, 2 * MS);
    assert_true(gs_cost_is_held_up(c, 2 * MS, 2 * MS));
    assert_false(gs_cost_is_held_up(c, 5 * MS, 2 * MS));
    assert_int_equal(gs_cost_own(c, 2 * MS, 2 * MS), 20 * US);
    gs_cost_learn_shared(c, 2 * MS, 2 * MS);
    assert_int_equal(c->est_ns, 20 * US);
    assert_int_equal(gs_cost_own(c, 5 * MS, 2 * MS), 0);
    assert_int_equal(gs_cost_own(c, 5 * MS, 0), 5 * MS); /* alone */
    gs_cost_learn_shared(c, 5 * MS, 2 * MS);
    assert_true(c->est_ns > 20 * US);
}

static void test_code_that_was_replaced_is_believed_at_once(void **state)
{
    struct gs_cost *c = entry(0x1000, 64);
    uint64_t est;

    (void)state;
    for (int i = 0; i < 20; i++)
        gs_cost_learn(c, 10 * US);
    gs_cost_sampled(c);
    assert_true(count(c, &est));
    gs_cost_doubt();
    assert_false(count(c, &est));
    gs_cost_learn(c, 100 * MS);
    assert_int_equal(c->est_ns, 100 * MS);
    gs_cost_drop(gs_cost_key(0x1000, gs_cost_shape(256, 1, 1, 0), gs_cost_quarter(64), 0));
    assert_int_equal(c->est_ns, 0);
}

/* Among other streams a measurement may hold their launches: long ones count little, until they
 * keep coming. */
static void test_samples_among_other_streams(void **state)
{
    struct gs_cost *c = entry(0x1000, 64);

    (void)state;
    for (int i = 0; i < 20; i++)
        gs_cost_learn(c, 20 * US);
    gs_cost_learn_crowded(c, 1300 * US);
    assert_int_equal(c->est_ns, 20 * US);
    gs_cost_learn_crowded(c, 40 * US);
    assert_int_equal(c->est_ns, 20 * US + 5 * US / 8);
    for (int i = 0; i < 9; i++)
        gs_cost_learn_crowded(c, 200 * US);
    assert_true(c->est_ns > 40 * US);
    for (int i = 0; i < 40; i++)
        gs_cost_learn_ratio(c, 300 * US, 15 * c->est_ns);
    assert_in_range(c->est_ns, 19 * US, 22 * US);
}

static void test_sample_of_an_idle_stream(void **state)
{
    bool learn;

    (void)state;
    /* 20 us after the gap that two calls leave */
    assert_int_equal(gs_cost_of_sample(5 * US, 25 * US, 9 * US, 20 * US, &learn), 20 * US);
    assert_true(learn);
    /* a busy stream's events follow each other at once */
    assert_int_equal(gs_cost_of_sample(0, 25 * US, 9 * US, 20 * US, &learn), 25 * US);
    /* the host was away for 4 ms: neither believed nor learnt */
    assert_int_equal(gs_cost_of_sample(5 * US, 4 * MS, 4 * MS, 20 * US, &learn), 20 * US);
    assert_false(learn);
    /* but what cannot have been the host's is charged */
    assert_int_equal(gs_cost_of_sample(5 * US, 9 * MS, 4 * MS, 20 * US, &learn), 5 * MS);
    /* the first measurement of all has to do */
    assert_int_equal(gs_cost_of_sample(0, 4 * MS, 4 * MS, 0, &learn), 4 * MS);
    assert_true(learn);
    assert_int_equal(gs_cost_of_sample(9 * US, 0, 0, 0, &learn), 1);
}

static void test_priors_grow_with_the_launch_and_end(void **state)
{
    (void)state;
    assert_true(gs_cost_prior(1) < gs_cost_prior(100 * MS));
    assert_in_range(gs_cost_prior(UINT64_MAX), MS, 20 * MS);
    assert_true(gs_cost_prior(0) > 0);
}

/* ---- spans ---- */

static void test_a_moment_counts_once(void **state)
{
    struct gs_span_set set = {0};

    (void)state;
    assert_int_equal(gs_span_add(&set, (struct gs_span){10, 20}), 10);
    assert_int_equal(gs_span_add(&set, (struct gs_span){10, 20}), 0);
    assert_int_equal(gs_span_add(&set, (struct gs_span){30, 40}), 10);
    assert_int_equal(gs_span_add(&set, (struct gs_span){15, 35}), 10);
    assert_int_equal(set.n, 1);
    assert_int_equal(gs_span_add(&set, (struct gs_span){0, 100}), 70);
    assert_int_equal(gs_span_add(&set, (struct gs_span){50, 50}), 0);
    assert_int_equal(gs_span_add(&set, (struct gs_span){60, 50}), 0);
}

/* Against a bit for each moment. */
static void test_spans_against_a_map(void **state)
{
    static unsigned char map[2000];
    struct gs_span_set set = {0};

    (void)state;
    srand(7);
    for (uint32_t i = 0; i < 3000; i++) {
        /* moving on, so that the set's limit is not what is tested */
        uint64_t start = i / 2 + (uint64_t)(rand() % 60), end = start + (uint64_t)(rand() % 40);
        uint64_t fresh = 0;

        for (uint64_t t = start; t < end; t++) {
            fresh += map[t] == 0;
            map[t] = 1;
        }
        assert_int_equal(gs_span_add(&set, (struct gs_span){start, end}), fresh);
    }
}

static void test_a_full_set_forgets_the_oldest(void **state)
{
    struct gs_span_set set = {0};

    (void)state;
    for (uint64_t i = 0; i < 3 * GS_SPAN_SET; i++)
        assert_int_equal(gs_span_add(&set, (struct gs_span){i * 10, i * 10 + 5}), 5);
    assert_int_equal(set.n, GS_SPAN_SET);
    assert_int_equal(gs_span_add(&set, (struct gs_span){0, 8}), 0); /* too old to say */
}

static void test_time_is_divided_among_streams(void **state)
{
    const struct gs_span_stream others[] = {
        {7, {0, 1000}}, {7, {200, 600}}, {8, {500, UINT64_MAX}}};

    (void)state;
    assert_int_equal(gs_span_divide((struct gs_span){0, 800}, others, 0), 800);
    assert_int_equal(gs_span_divide((struct gs_span){0, 400}, others, 3), 200);
    assert_int_equal(gs_span_divide((struct gs_span){600, 1000}, others, 3),
                     8 * (400 / 8 / 3)); /* three streams */
    assert_int_equal(gs_span_divide((struct gs_span){5, 5}, others, 3), 0);
}

/* Bytes over bytes per nanosecond, the set-up, and never long enough to stop a slice for seconds.
 */
static void test_prior_of_a_copy(void **state)
{
    (void)state;
    assert_int_equal(gs_cost_prior_copy(12000000, 12), 1002000);
    assert_int_equal(gs_cost_prior_copy(500000000, 500), 1002000);
    assert_int_equal(gs_cost_prior_copy(1, 12), 2000);
    assert_int_equal(gs_cost_prior_copy(UINT64_MAX, 12), 1000000000);
}

/** A graph that was changed is measured like a long kernel until it is known again. */
static void test_renewed(void **state)
{
    uint64_t key = gs_cost_key(0x2000, 2, 0, 0), est;
    struct gs_cost *c = gs_cost_find(key, 0);

    (void)state;
    gs_cost_renew(key);
    assert_int_equal(c->est_ns, 0); /* nothing was known */
    for (int i = 0; i < 20; i++)
        gs_cost_learn(c, 20000);
    gs_cost_sampled(c);
    assert_true(gs_cost_is_estimated(c, &est));
    gs_cost_renew(key);
    assert_false(gs_cost_is_estimated(c, &est));
    assert_int_equal(est, GS_COST_LONG_NS);
    gs_cost_learn(c, 100000000);
    assert_int_equal(c->est_ns, 100000000);
    gs_cost_renew(key);
    assert_int_equal(c->est_ns, 100000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quarters_grow_and_stay_below_256),
        cmocka_unit_test(test_blocks_do_not_wrap),
        cmocka_unit_test(test_prior_of_a_copy),
        cmocka_unit_test_setup(test_entries_are_told_apart, clean),
        cmocka_unit_test_setup(test_the_table_is_never_full, clean),
        cmocka_unit_test_setup(test_an_unknown_or_long_launch_is_measured, clean),
        cmocka_unit_test_setup(test_short_launches_are_sampled_by_their_own_time, clean),
        cmocka_unit_test_setup(test_the_first_samples_come_early, clean),
        cmocka_unit_test_setup(test_the_estimate_is_a_mean, clean),
        cmocka_unit_test_setup(test_renewed, clean),
        cmocka_unit_test_setup(test_unlike_launches_are_measured_each, clean),
        cmocka_unit_test_setup(test_one_outlier_is_clipped_and_two_are_believed, clean),
        cmocka_unit_test_setup(test_turns_of_neighbours_are_told_apart, clean),
        cmocka_unit_test_setup(test_what_others_cannot_have_done_is_its_own, clean),
        cmocka_unit_test_setup(test_code_that_was_replaced_is_believed_at_once, clean),
        cmocka_unit_test_setup(test_samples_among_other_streams, clean),
        cmocka_unit_test(test_sample_of_an_idle_stream),
        cmocka_unit_test(test_priors_grow_with_the_launch_and_end),
        cmocka_unit_test(test_a_moment_counts_once),
        cmocka_unit_test(test_spans_against_a_map),
        cmocka_unit_test(test_a_full_set_forgets_the_oldest),
        cmocka_unit_test(test_time_is_divided_among_streams),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
