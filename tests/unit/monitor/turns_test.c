#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/cleanup.h"
#include "monitor/turns.h"

#define GIB  (1ull << 30)
#define MS   1000000ull
#define S    1000000000ull
#define TICK (20 * MS)
#define CARD (8 * GIB)

static struct gs_turns turns;

static int setup(void **state)
{
    (void)state;
    memset(&turns, 0, sizeof(turns));
    return 0;
}

static struct gs_turns_slice slice(uint64_t id, uint64_t fixed, uint64_t managed)
{
    return (struct gs_turns_slice){
        .key = {7, id}, .fixed_bytes = fixed, .managed_bytes = managed, .demand_ns = UINT64_MAX};
}

/* The one that may run, or -1 where not exactly one may. */
static int only_runner(const struct gs_turns_slice *s, uint32_t n)
{
    int at = -1;

    for (uint32_t i = 0; i < n; i++) {
        if (s[i].is_parked)
            continue;
        if (at >= 0)
            return -1;
        at = (int)i;
    }
    return at;
}

/* 20 x bytes / 12 GB/s: written from the sentence, by hand. */
static void lengths(void **state)
{
    (void)state;
    assert_int_equal(gs_turns_length_ns(0), 200 * MS);
    assert_int_equal(gs_turns_length_ns(1), 200 * MS);
    assert_int_equal(gs_turns_length_ns(1200000000), 2 * S);
    assert_in_range(gs_turns_length_ns(6 * GIB), 10737400000, 10737418240 + 1);
    assert_int_equal(gs_turns_length_ns(18000000000), 30 * S);
    assert_int_equal(gs_turns_length_ns(UINT64_MAX), 30 * S);
}

static void nobody_is_parked_while_all_fits(void **state)
{
    struct gs_turns_slice s[3] = {slice(1, 2 * GIB, 2 * GIB), slice(2, GIB, 2 * GIB),
                                  slice(3, GIB, 0)};

    (void)state;
    for (uint64_t now = S; now < 40 * S; now += TICK) {
        gs_turns_step(&turns, s, 3, CARD, now);
        for (int i = 0; i < 3; i++)
            assert_int_equal(s[i].is_parked, 0);
    }
}

static void two_take_turns_of_the_right_length(void **state)
{
    struct gs_turns_slice s[2] = {slice(1, 3 * GIB, 2 * GIB), slice(2, 3 * GIB, 2 * GIB)};
    uint64_t length = gs_turns_length_ns(2 * GIB), since = 0;
    int before = -1, changes = 0;

    (void)state;
    for (uint64_t now = S; now < S + 10 * length; now += TICK) {
        gs_turns_step(&turns, s, 2, CARD, now);
        int at = only_runner(s, 2);

        assert_true(at >= 0);
        if (at == before)
            continue;
        if (before >= 0)
            assert_in_range(now - since, length, length + TICK);
        changes++;
        before = at;
        since = now;
    }
    assert_in_range(changes, 9, 10);
}

static void without_managed_memory_never_parked(void **state)
{
    struct gs_turns_slice s[3] = {slice(1, 0, 6 * GIB), slice(2, 0, 6 * GIB), slice(3, GIB, 0)};

    (void)state;
    for (uint64_t now = S; now < 60 * S; now += TICK) {
        gs_turns_step(&turns, s, 3, CARD, now);
        assert_int_equal(s[2].is_parked, 0);
        assert_true(only_runner(s, 2) >= 0);
    }
}

static void a_holder_who_rests_gives_way(void **state)
{
    struct gs_turns_slice s[2] = {slice(1, 0, 6 * GIB), slice(2, 0, 6 * GIB)};
    uint64_t now = S;

    (void)state;
    gs_turns_step(&turns, s, 2, CARD, now);
    int first = only_runner(s, 2);
    s[first].demand_ns = now;
    for (; now < S + 100 * MS; now += TICK) {
        gs_turns_step(&turns, s, 2, CARD, now);
        assert_int_equal(only_runner(s, 2), first);
    }
    gs_turns_step(&turns, s, 2, CARD, now);
    assert_int_equal(only_runner(s, 2), !first);
    /* and comes back by waiting, at the end of the other's turn */
    s[first].is_waiting = 1;
    uint64_t since = now;
    do {
        now += TICK;
        gs_turns_step(&turns, s, 2, CARD, now);
    } while (only_runner(s, 2) != first);
    assert_in_range(now - since, gs_turns_length_ns(6 * GIB),
                    gs_turns_length_ns(6 * GIB) + 2 * TICK);
}

/* A holder who rests while nobody asks keeps the others off until it is no longer active. */
static void an_idle_one_is_parked_beforehand(void **state)
{
    struct gs_turns_slice s[2] = {slice(1, 0, 6 * GIB), slice(2, 0, 6 * GIB)};

    (void)state;
    s[1].demand_ns = 0;
    gs_turns_step(&turns, s, 2, CARD, 10 * S);
    assert_int_equal(only_runner(s, 2), 0);
    s[0].demand_ns = 10 * S;
    gs_turns_step(&turns, s, 2, CARD, 10 * S + 900 * MS);
    assert_int_equal(s[1].is_parked, 1);
    gs_turns_step(&turns, s, 2, CARD, 11 * S);
    assert_int_equal(s[1].is_parked, 0);
    /* a small one fits beside */
    s[1].managed_bytes = GIB;
    s[0].demand_ns = 12 * S;
    gs_turns_step(&turns, s, 2, CARD, 12 * S);
    assert_int_equal(s[1].is_parked, 0);
}

/* A long run alone does not entitle to more: the newcomer is next. */
static void a_newcomer_does_not_wait_for_a_turn_that_is_over(void **state)
{
    struct gs_turns_slice s[2] = {slice(1, 0, 6 * GIB), slice(2, 0, 6 * GIB)};

    (void)state;
    s[1].demand_ns = 0;
    for (uint64_t now = S; now < 100 * S; now += TICK)
        gs_turns_step(&turns, s, 2, CARD, now);
    s[1].is_waiting = 1;
    gs_turns_step(&turns, s, 2, CARD, 100 * S);
    assert_int_equal(only_runner(s, 2), 1);
}

static void a_holder_that_left_is_replaced_at_once(void **state)
{
    struct gs_turns_slice s[3] = {slice(1, 0, 6 * GIB), slice(2, 0, 6 * GIB), slice(3, 0, 6 * GIB)};

    (void)state;
    gs_turns_step(&turns, s, 3, CARD, S);
    int first = only_runner(s, 3);
    s[first] = s[2];
    gs_turns_step(&turns, s, 2, CARD, S + TICK);
    assert_true(only_runner(s, 2) >= 0);
    s[only_runner(s, 2)].managed_bytes = 0; /* freed */
    gs_turns_step(&turns, s, 2, CARD, S + 2 * TICK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(s[i].is_parked, 0);
}

/* High priority comes at once, but for a tenth of the other's turn, and does not come twice running
 * while others ask. */
static void high_priority_goes_first_and_shuts_nobody_out(void **state)
{
    struct gs_turns_slice s[3] = {slice(1, 0, 6 * GIB), slice(2, 0, 6 * GIB), slice(3, 0, 6 * GIB)};
    uint64_t length = gs_turns_length_ns(6 * GIB), now = S, since, had[3] = {0};

    (void)state;
    s[2].is_high = 1;
    s[2].demand_ns = 0;
    gs_turns_step(&turns, s, 3, CARD, now);
    assert_int_equal(only_runner(s, 2), 0);
    s[2].demand_ns = UINT64_MAX;
    for (since = now; only_runner(s, 3) != 2; now += TICK)
        gs_turns_step(&turns, s, 3, CARD, now);
    assert_in_range(now - since, length / 10, length / 10 + 3 * TICK);
    for (since = now; now < since + 22 * length; now += TICK) {
        gs_turns_step(&turns, s, 3, CARD, now);
        assert_true(only_runner(s, 3) >= 0);
        had[only_runner(s, 3)] += TICK;
    }
    for (int i = 0; i < 2; i++) /* of eleven tenths one, by turns */
        assert_in_range(had[i], length * 8 / 10, length * 12 / 10);
    assert_true(had[2] > 19 * length);
}

static void any_number_is_taken(void **state)
{
    static struct gs_turns_slice many[GS_TURNS_SLICES + 8];
    static struct gs_turns wild;

    (void)state;
    memset(&wild, 0, sizeof(wild));
    for (uint32_t i = 0; i < GS_ARRAY_LEN(many); i++) {
        many[i] = slice(i, UINT64_MAX, UINT64_MAX);
        many[i].is_waiting = UINT32_MAX;
    }
    gs_turns_step(&turns, many, GS_ARRAY_LEN(many), 0, 1);
    gs_turns_step(&turns, many, GS_ARRAY_LEN(many), UINT64_MAX, UINT64_MAX);
    gs_turns_step(&turns, NULL, 0, CARD, S);
    assert_int_equal(turns.has_holder, 0);
    wild.n_asking = 0;
    wild.has_holder = 1; /* a holder nobody knows */
    gs_turns_step(&wild, many, 3, CARD, S);
    assert_true(only_runner(many, 3) >= 0);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Random sizes, rests and returns: whenever it is tight exactly one of the active runs, and nobody
 * who keeps asking waits beyond the bound. */
static void nobody_starves(void **state)
{
    const char *given = getenv("GS_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 0x9e3779b97f4a7c15;
    struct gs_turns_slice s[6];
    uint64_t waits[6] = {0};

    (void)state;
    print_message("GS_SEED=%llu\n", (unsigned long long)seed);
    for (uint32_t i = 0; i < 6; i++)
        s[i] = slice(i, next_random(&seed) % GIB, GIB + next_random(&seed) % (9 * GIB));
    for (uint64_t now = S; now < 1500 * S; now += TICK) {
        uint64_t wanted = 0;
        int active = 0, run = 0;

        for (uint32_t i = 0; i < 6; i++) {
            if (next_random(&seed) % 700 == 0)
                s[i].demand_ns = s[i].demand_ns == UINT64_MAX ? now : UINT64_MAX;
            s[i].is_waiting = s[i].demand_ns == UINT64_MAX && s[i].is_parked;
        }
        gs_turns_step(&turns, s, 6, CARD, now);
        for (uint32_t i = 0; i < 6; i++) {
            int is_active = s[i].demand_ns == UINT64_MAX || now - s[i].demand_ns < S;

            active += is_active;
            run += is_active && !s[i].is_parked;
            wanted += s[i].fixed_bytes + (is_active ? s[i].managed_bytes : 0);
            waits[i] = s[i].is_parked && s[i].demand_ns == UINT64_MAX ? waits[i] + TICK : 0;
            assert_true(waits[i] <= 5 * GS_TURNS_MAX_NS + 12 * TICK);
        }
        if (active > 1 && wanted > CARD)
            assert_int_equal(run, 1);
        if (wanted <= CARD)
            assert_int_equal(run, active);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(lengths, setup),
        cmocka_unit_test_setup(nobody_is_parked_while_all_fits, setup),
        cmocka_unit_test_setup(two_take_turns_of_the_right_length, setup),
        cmocka_unit_test_setup(without_managed_memory_never_parked, setup),
        cmocka_unit_test_setup(a_holder_who_rests_gives_way, setup),
        cmocka_unit_test_setup(an_idle_one_is_parked_beforehand, setup),
        cmocka_unit_test_setup(a_newcomer_does_not_wait_for_a_turn_that_is_over, setup),
        cmocka_unit_test_setup(a_holder_that_left_is_replaced_at_once, setup),
        cmocka_unit_test_setup(high_priority_goes_first_and_shuts_nobody_out, setup),
        cmocka_unit_test_setup(any_number_is_taken, setup),
        cmocka_unit_test_setup(nobody_starves, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
