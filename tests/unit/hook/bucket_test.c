#include "hook/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "hook/limiter.h"
#include "hook/self.h"
#include "hook/usage.h"

#define MS  UINT64_C(1000000)
#define NOW UINT64_C(5000000000000)

static struct gs_ledger_bucket bucket;

static int reset(void **state)
{
    (void)state;
    bucket = (struct gs_ledger_bucket){.refill_ns = NOW};
    return 0;
}

/** Whatever the steps, nothing is lost or won: 33.33 % of a second in odd pieces. */
static void test_remainders(void **state)
{
    uint64_t now = NOW, taken = 0;

    (void)state;
    for (int i = 0; now < NOW + 1000 * MS; i++) {
        now += 7919 + (uint64_t)i % 13 * 104729;
        while (gs_bucket_refill(&bucket, 3333, now, 0) > 0 && gs_bucket_take(&bucket, 1000))
            taken += 1000;
    }
    assert_in_range((uint64_t)((int64_t)taken + bucket.tokens_ns),
                    (now - NOW) / 10000 * 3333 - 3333, (now - NOW) / 10000 * 3333);
}

static void test_take_needs_something(void **state)
{
    (void)state;
    assert_false(gs_bucket_take(&bucket, 5));
    assert_int_equal(gs_bucket_refill(&bucket, 1000, NOW + MS, 0), 100000);
    assert_true(gs_bucket_take(&bucket, 50 * MS)); /* overdraws */
    assert_int_equal(bucket.tokens_ns, 100000 - 50 * (int64_t)MS);
    assert_false(gs_bucket_take(&bucket, 1));
}

static void test_burst_and_floor(void **state)
{
    (void)state;
    assert_int_equal(gs_bucket_refill(&bucket, 3000, NOW + 3600000 * MS, 0), 30 * MS);
    /* what is owed may pile up beyond it, and is cut when it no longer is */
    assert_int_equal(gs_bucket_refill(&bucket, 3000, NOW + 3601000 * MS, 100 * MS), 130 * MS);
    assert_int_equal(gs_bucket_refill(&bucket, 3000, NOW + 3601001 * MS, 0), 30 * MS);
    gs_bucket_return(&bucket, 500 * MS, 3000);
    assert_int_equal(bucket.tokens_ns, 30 * MS);
    gs_bucket_charge(&bucket, UINT64_MAX);
    assert_int_equal(bucket.tokens_ns, 30 * MS - (int64_t)GS_LEDGER_CHARGE_NS);
    for (int i = 0; i < 20; i++)
        gs_bucket_charge(&bucket, UINT64_MAX);
    assert_int_equal(bucket.tokens_ns, GS_LEDGER_FLOOR_NS);
    gs_bucket_return(&bucket, 7, 3000);
    assert_int_equal(bucket.tokens_ns, GS_LEDGER_FLOOR_NS + 7);
}

/** All of the card: takes what is there, owes nothing. */
static void test_drain(void **state)
{
    (void)state;
    bucket.tokens_ns = 100;
    gs_bucket_drain(&bucket, 30);
    assert_int_equal(bucket.tokens_ns, 70);
    gs_bucket_drain(&bucket, 1000);
    assert_int_equal(bucket.tokens_ns, 0);
    bucket.tokens_ns = -50; /* owed from before */
    gs_bucket_drain(&bucket, 1000);
    assert_int_equal(bucket.tokens_ns, -50);
}

/** The time computed is enough, and not much more. */
static void test_wait(void **state)
{
    static const uint32_t shares[] = {1, 33, 1000, 9999, 10000};

    (void)state;
    assert_int_equal(gs_bucket_wait_ns(1, 100), 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(shares); i++) {
        for (int64_t debt = 0; debt < 1000000; debt = debt * 3 + 1) {
            uint64_t wait = gs_bucket_wait_ns(-debt, shares[i]);

            bucket = (struct gs_ledger_bucket){.tokens_ns = -debt, .refill_ns = NOW};
            assert_true(gs_bucket_refill(&bucket, shares[i], NOW + wait, 0) > 0);
            bucket = (struct gs_ledger_bucket){.tokens_ns = -debt, .refill_ns = NOW};
            if (wait > 30000)
                assert_true(gs_bucket_refill(&bucket, shares[i], NOW + wait - 30000, 0) <= 0);
        }
    }
}

static void test_hostile(void **state)
{
    static const int64_t tokens[] = {INT64_MIN, INT64_MAX, -1000000000001, 1000000000001,
                                     -9000000000};
    static const uint64_t refills[] = {0, 1, NOW - 1, NOW + 999 * MS, NOW + 2000 * MS, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(tokens); i++) {
        for (size_t j = 0; j < GS_ARRAY_LEN(refills); j++) {
            int64_t have;

            bucket = (struct gs_ledger_bucket){.tokens_ns = tokens[i], .refill_ns = refills[j]};
            have = gs_bucket_refill(&bucket, 5000, NOW, UINT64_MAX);
            assert_true(have >= GS_LEDGER_FLOOR_NS);
            assert_true(have <= 50 * (int64_t)MS + (int64_t)GS_LEDGER_CHARGE_NS);
            /* an hour later all is well whatever it was */
            assert_int_equal(gs_bucket_refill(&bucket, 5000, NOW + 3600000 * MS, 0), 50 * MS);
        }
    }
}

/** A dead slot's launches in flight go back, once; not more than the burst whatever it says. */
static void test_bury(void **state)
{
    static struct gs_ledger_device d;

    (void)state;
    memset(&d, 0, sizeof(d));
    d.core_pct = 30;
    d.bucket.tokens_ns = -500;
    d.use[3] = (struct gs_ledger_use){.inflight_ns = 400, .wait_since_ns = 9, .used_ns = 7};
    d.use[3].bin[5] = 1;
    d.trial = 77u << GS_LEDGER_TRIAL_BITS | 4;
    gs_self.device = &d;
    gs_self.n_mapped = 1;
    gs_bucket_bury(3);
    assert_int_equal(d.bucket.tokens_ns, -100);
    assert_int_equal(d.use[3].inflight_ns, 0);
    assert_int_equal(d.use[3].wait_since_ns, 0);
    assert_int_equal(d.use[3].bin[5], 0);
    assert_int_equal(d.trial, 0);
    gs_bucket_bury(3);
    assert_int_equal(d.bucket.tokens_ns, -100);
    d.use[3].inflight_ns = UINT64_MAX;
    d.trial = 77u << GS_LEDGER_TRIAL_BITS | 5;
    gs_bucket_bury(3);
    assert_int_equal(d.bucket.tokens_ns, 30 * MS);
    assert_int_equal(d.trial, 77u << GS_LEDGER_TRIAL_BITS | 5);
    memset(&gs_self, 0, sizeof(gs_self));
}

/** ... and the time in which it may have had the card is charged, once, less what mates had noted.
 */
static void test_bury_charges_the_time(void **state)
{
    static struct gs_ledger_device d;
    uint64_t now = gs_limiter_clock();
    struct gs_usage_cover cover = {0, 0};

    (void)state;
    memset(&d, 0, sizeof(d));
    d.core_pct = 30;
    d.use[3] = (struct gs_ledger_use){.inflight_ns = 400, .unsettled_ns = now - 300 * MS};
    gs_self.device = &d;
    gs_self.n_mapped = 1;
    gs_bucket_bury(3);
    assert_in_range(-d.bucket.tokens_ns, 300 * MS - 400, 300 * MS + gs_limiter_clock() - now);
    assert_int_equal(d.use[3].unsettled_ns, 0);
    now = (uint64_t)-d.bucket.tokens_ns;
    gs_bucket_bury(3);
    assert_int_equal(-d.bucket.tokens_ns, now);

    /* a mate had work in the newer half of it */
    memset(&d, 0, sizeof(d));
    d.core_pct = 30;
    now = gs_limiter_clock();
    gs_usage_cover(&d, now - 200 * MS, now + 100 * MS, &cover);
    d.use[3].unsettled_ns = now - 400 * MS;
    gs_bucket_bury(3);
    assert_in_range(-d.bucket.tokens_ns, 195 * MS, 205 * MS + gs_limiter_clock() - now);

    /* the driver says the card worked for it for 40 ms of that; said of another time it is nothing
     */
    memset(&d, 0, sizeof(d));
    d.core_pct = 30;
    now = gs_limiter_clock();
    d.use[3] = (struct gs_ledger_use){
        .unsettled_ns = now - 400 * MS, .idle_ns = 360 * MS, .idle_of_ns = now - 400 * MS};
    gs_bucket_bury(3);
    assert_in_range(-d.bucket.tokens_ns, 40 * MS, 40 * MS + gs_limiter_clock() - now);
    memset(&d, 0, sizeof(d));
    d.core_pct = 30;
    now = gs_limiter_clock();
    d.use[3] = (struct gs_ledger_use){
        .unsettled_ns = now - 400 * MS, .idle_ns = 360 * MS, .idle_of_ns = now - 401 * MS};
    gs_bucket_bury(3);
    assert_in_range(-d.bucket.tokens_ns, 400 * MS, 400 * MS + gs_limiter_clock() - now);

    /* of a mate it takes nothing away: that notes its time itself, later, and finds it free */
    memset(&d, 0, sizeof(d));
    d.core_pct = 30;
    now = gs_limiter_clock();
    d.use[3] = (struct gs_ledger_use){
        .unsettled_ns = now - 400 * MS, .idle_ns = UINT64_MAX, .idle_of_ns = now - 400 * MS};
    gs_bucket_bury(3);
    assert_int_equal(d.bucket.tokens_ns, 0);
    assert_int_equal(gs_usage_covered(&d, now - 400 * MS, now), 0);

    /* a day ago, or tomorrow: not believed. A minute: as the longest kernel */
    memset(&d, 0, sizeof(d));
    d.core_pct = 30;
    d.use[3].unsettled_ns = 1;
    gs_bucket_bury(3);
    d.use[3].unsettled_ns = UINT64_MAX;
    gs_bucket_bury(3);
    assert_int_equal(d.bucket.tokens_ns, 0);
    now = gs_limiter_clock();
    d.use[3].unsettled_ns = now > 60000 * MS ? now - 60000 * MS : 1;
    gs_bucket_bury(3);
    assert_in_range(-d.bucket.tokens_ns, now > 60000 * MS ? GS_LEDGER_CHARGE_NS : 0,
                    GS_LEDGER_CHARGE_NS);
    memset(&gs_self, 0, sizeof(gs_self));
}

/** 5 ms of each second, whoever of the slice asks; 2 ms at first, 50 ms at most. */
static void test_forgiven_to_the_slice_as_a_whole(void **state)
{
    struct gs_ledger_device d;

    (void)state;
    memset(&d, 0, sizeof(d));
    assert_int_equal(gs_bucket_less_forgiven(&d, 5 * MS, NOW), 3 * MS);
    assert_int_equal(gs_bucket_less_forgiven(&d, 5 * MS, NOW), 5 * MS);
    assert_int_equal(gs_bucket_less_forgiven(&d, 5 * MS, NOW + 400 * MS), 3 * MS);
    assert_int_equal(gs_bucket_less_forgiven(&d, 1 * MS, NOW + 800 * MS), 0);
    assert_int_equal(gs_bucket_less_forgiven(&d, 5 * MS, NOW + 800 * MS), 4 * MS);
    assert_int_equal(gs_bucket_less_forgiven(&d, 500 * MS, NOW + 3600000 * MS), 450 * MS);
    d.forgiven_ns = UINT64_MAX; /* anything may stand there */
    assert_int_equal(gs_bucket_less_forgiven(&d, 5 * MS, NOW), 3 * MS);
    d.forgiven_ns = 1;
    assert_int_equal(gs_bucket_less_forgiven(&d, 500 * MS, 4 * MS + 1), 500 * MS - 20 * 1000);
}

/** A neighbour comes back: what was there for the taking under the loan is not used beside it. */
static void test_cut(void **state)
{
    struct gs_ledger_device d;

    (void)state;
    memset(&d, 0, sizeof(d));
    d.bucket.tokens_ns = 70 * MS;
    assert_int_equal(gs_bucket_less_forgiven(&d, 2 * MS, NOW - 8000 * MS), 0);
    gs_bucket_cut(&d, NOW); /* 40 ms had come up to be forgiven */
    assert_int_equal(d.bucket.tokens_ns, 2 * MS);
    assert_int_equal(gs_bucket_less_forgiven(&d, 5 * MS, NOW), 3 * MS);
    d.bucket.tokens_ns = -30 * (int64_t)MS; /* debts stay */
    gs_bucket_cut(&d, NOW);
    assert_int_equal(d.bucket.tokens_ns, -30 * (int64_t)MS);
    assert_int_equal(gs_bucket_less_forgiven(&d, 5 * MS, NOW), 5 * MS); /* used up stays used up */
    d.forgiven_ns = UINT64_MAX;
    gs_bucket_cut(&d, NOW);
    d.forgiven_ns = 0;
    gs_bucket_cut(&d, NOW);
    assert_int_equal(gs_bucket_less_forgiven(&d, 5 * MS, NOW), 3 * MS);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup(fn, reset)
    const struct CMUnitTest tests[] = {
        TEST(test_remainders),
        TEST(test_take_needs_something),
        TEST(test_burst_and_floor),
        TEST(test_drain),
        TEST(test_wait),
        TEST(test_hostile),
        TEST(test_bury),
        TEST(test_bury_charges_the_time),
        TEST(test_forgiven_to_the_slice_as_a_whole),
        TEST(test_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
