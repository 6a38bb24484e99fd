#include "hook/usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MS  UINT64_C(1000000)
#define BIN ((uint64_t)GS_LEDGER_BIN_NS)
#define T0  (UINT64_C(1000000) * BIN)

static struct gs_ledger_device d;
static struct gs_ledger_use *use = &d.use[0];

static int reset(void **state)
{
    (void)state;
    memset(&d, 0, sizeof(d));
    return 0;
}

static uint64_t bin_at(uint64_t ns)
{
    uint64_t word = use->bin[ns / BIN % GS_LEDGER_BINS];

    return word >> GS_LEDGER_BIN_BITS == ns / BIN ? word & ((1u << GS_LEDGER_BIN_BITS) - 1) : 0;
}

static uint64_t history_sum(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < GS_LEDGER_HISTORY; i++)
        sum += d.history[i] & ((UINT64_C(1) << GS_LEDGER_HISTORY_BITS) - 1);
    return sum;
}

static void test_spread(void **state)
{
    (void)state;
    gs_usage_outstanding(use, T0 + 15 * MS, T0 + 45 * MS, 30 * MS);
    assert_int_equal(bin_at(T0), 5 * MS);
    assert_int_equal(bin_at(T0 + BIN), 20 * MS);
    assert_int_equal(bin_at(T0 + 2 * BIN), 5 * MS);
    gs_usage_outstanding(use, T0, T0 + 2 * BIN, 10 * MS); /* thin: a quarter of it */
    assert_int_equal(bin_at(T0), 10 * MS);
    assert_int_equal(bin_at(T0 + BIN), 20 * MS); /* no more than it is long */
    gs_usage_outstanding(use, T0, T0, 5);
    gs_usage_outstanding(use, T0 + 5, T0, 5);
    assert_int_equal(bin_at(T0), 10 * MS);
}

/** A kernel of a second: the newest 31 bins and a bit. */
static void test_long(void **state)
{
    uint64_t end = T0 + 1000 * MS;

    (void)state;
    gs_usage_outstanding(use, T0, end, 1000 * MS);
    for (uint64_t t = end - 31 * BIN; t < end; t += BIN)
        assert_in_range(bin_at(t), BIN - 1, BIN);
    assert_int_equal(bin_at(T0), 0);
}

/** News of a bin that has been used again are dropped; what is from the future is written over. */
static void test_order(void **state)
{
    (void)state;
    gs_usage_outstanding(use, T0 + 32 * BIN, T0 + 33 * BIN, BIN);
    gs_usage_outstanding(use, T0, T0 + BIN, BIN);
    assert_int_equal(bin_at(T0 + 32 * BIN), BIN);
    memset(use->bin, 0x77, sizeof(use->bin));
    gs_usage_outstanding(use, T0, T0 + BIN, BIN);
    assert_int_equal(bin_at(T0), BIN);
}

static void test_charge_and_refund(void **state)
{
    (void)state;
    gs_usage_charge(&d, use, T0, T0 + 1000 * MS, 500 * MS);
    gs_usage_charge(&d, use, T0 + 7, T0 + 7, 100); /* no length */
    assert_int_equal(d.meter.used_ns, 500 * MS + 100);
    assert_int_equal(use->used_ns, 500 * MS + 100);
    assert_in_range(history_sum(), 500 * MS + 90, 500 * MS + 100);
    gs_usage_refund(&d, T0 + 1000 * MS, 120 * MS);
    assert_in_range(history_sum(), 380 * MS + 90, 380 * MS + 100);
    assert_int_equal(d.meter.refunded_ns, 120 * MS);
    gs_usage_refund(&d, T0 + 1000 * MS, 10000 * MS); /* more than there is */
    assert_int_equal(history_sum(), 0);
    gs_usage_waited(&d, use, 11);
    assert_int_equal(d.meter.waits, 1);
    assert_int_equal(d.meter.waited_ns, 11);
    assert_int_equal(use->waited_ns, 11);
}

/** Time and own time of a bin, in ns. */
static uint64_t known_of(const struct gs_ledger_use *u, uint64_t at, uint64_t *ret_own)
{
    uint64_t epoch = at / GS_LEDGER_BIN_NS, word = u->known[epoch % GS_LEDGER_BINS];
    uint64_t field = (UINT64_C(1) << GS_LEDGER_KNOWN_BITS) - 1;

    assert_int_equal(word >> 2 * GS_LEDGER_KNOWN_BITS,
                     epoch & (UINT64_MAX >> 2 * GS_LEDGER_KNOWN_BITS));
    *ret_own = (word & field) * GS_LEDGER_KNOWN_NS;
    return (word >> GS_LEDGER_KNOWN_BITS & field) * GS_LEDGER_KNOWN_NS;
}

static void test_known(void **state)
{
    const uint64_t at = T0 / GS_LEDGER_BIN_NS * GS_LEDGER_BIN_NS;
    struct gs_ledger_use *u = &d.use[0];
    uint64_t own;

    (void)state;
    gs_usage_known(u, at + 10 * MS, at + 30 * MS, 10 * MS, 5 * MS);
    assert_in_range(known_of(u, at, &own), 5 * MS - 64, 5 * MS + 64);
    assert_in_range(own, 5 * MS / 2 - 64, 5 * MS / 2 + 64);
    gs_usage_known(u, at, at + 10 * MS, 10 * MS, 20 * MS); /* no more than there is */
    assert_in_range(known_of(u, at, &own), 15 * MS - 64, 15 * MS + 64);
    assert_in_range(own, 25 * MS / 2 - 64, 25 * MS / 2 + 64);
    for (uint32_t i = 0; i < 10; i++)
        gs_usage_known(u, at, at + 20 * MS, 20 * MS, 20 * MS);
    assert_int_equal(known_of(u, at, &own), 20 * MS);
    assert_int_equal(own, 20 * MS);
    /* longer than the ring, or of no length: left alone */
    gs_usage_known(u, at, at + 1000 * MS, 1000 * MS, 0);
    gs_usage_known(u, at, at, 0, 0);
    assert_int_equal(known_of(u, at, &own), 20 * MS);
    memset(u->known, 0xff, sizeof(u->known));
    gs_usage_known(u, at, at + 20 * MS, 20 * MS, 10 * MS);
    assert_int_equal(known_of(u, at, &own), 20 * MS);
    assert_int_equal(own, 10 * MS);
}

static double fresh_part(uint64_t start, uint64_t end)
{
    struct gs_usage_cover cover = {0, 0};

    gs_usage_cover(&d, start, end, &cover);
    return cover.steps == 0 ? -1 : (double)cover.fresh / (double)cover.steps;
}

static void test_cover(void **state)
{
    struct gs_usage_cover cover = {0, 0};
    uint64_t crowd = 0;

    (void)state;
    assert_true(fresh_part(T0 + 3 * MS, T0 + 103 * MS) == 1.0);
    assert_true(fresh_part(T0 + 3 * MS, T0 + 103 * MS) == 0.0);
    assert_true(fresh_part(T0 + 53 * MS, T0 + 153 * MS) == 0.5);
    /* the second and the third had 200 and 100 steps that were not news: 300 halves of 1 ms */
    for (uint32_t i = 0; i < GS_LEDGER_COVER; i++)
        crowd += d.crowd[i] & ((UINT64_C(1) << GS_LEDGER_COVER_BITS) - 1);
    assert_int_equal(crowd, 300);
    /* adjoining pieces of any length share no step and lose none */
    for (uint64_t t = T0 + 200 * MS; t < T0 + 300 * MS; t += 300001)
        gs_usage_cover(&d, t, t + 300001, &cover);
    assert_in_range(cover.steps, 199, 201);
    assert_int_equal(cover.fresh, cover.steps);
    /* longer than is remembered: as far as it is */
    assert_true(fresh_part(T0, T0 + 10000 * MS) == 1.0);
    /* and what lies before that is not known */
    assert_true(fresh_part(T0, T0 + 20 * MS) == -1);
    memset(d.cover, 0xff, sizeof(d.cover));
    assert_true(fresh_part(T0, T0 + 20 * MS) == 1.0);
}

static void test_covered_counts_and_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(gs_usage_covered(&d, T0, T0 + 100 * MS), 0);
    (void)fresh_part(T0 + 10 * MS, T0 + 30 * MS);
    (void)fresh_part(T0 + 70 * MS, T0 + 90 * MS);
    assert_int_equal(gs_usage_covered(&d, T0, T0 + 100 * MS), 40 * MS);
    assert_int_equal(gs_usage_covered(&d, T0 + 20 * MS, T0 + 75 * MS), 15 * MS);
    assert_int_equal(gs_usage_covered(&d, T0, T0 + 100 * MS), 40 * MS);
    memset(d.cover, 0xff, sizeof(d.cover)); /* of no epoch near this one */
    assert_int_equal(gs_usage_covered(&d, T0, T0 + 100 * MS), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup(fn, reset)
    const struct CMUnitTest tests[] = {
        TEST(test_spread), TEST(test_long),
        TEST(test_order),  TEST(test_charge_and_refund),
        TEST(test_cover),  TEST(test_covered_counts_and_changes_nothing),
        TEST(test_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
