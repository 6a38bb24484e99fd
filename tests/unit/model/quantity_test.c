#include "model/quantity.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void want_int(const char *text, int64_t want)
{
    int64_t v = -77;

    if (gs_quantity_int(gs_str_of(text), &v) != 0 || v != want)
        fail_msg("%s: %lld", text, (long long)v);
}

static void want_no_int(const char *text, int rc)
{
    int64_t v = -77;
    int got = gs_quantity_int(gs_str_of(text), &v);

    if (got != rc)
        fail_msg("%s: %d, not %d", text, got, rc);
    assert_int_equal(v, -77);
}

/* 3.5: "16Gi" is 17179869184, "16.0Gi" fails; the grammar of resource.Quantity. */
static void plain_integers(void **state)
{
    (void)state;
    want_int("0", 0);
    want_int("1", 1);
    want_int("+1", 1);
    want_int("-1", -1);
    want_int("8192", 8192);
    want_int("007", 7);
    want_int("1k", 1000);
    want_int("1Ki", 1024);
    want_int("1M", 1000000);
    want_int("16Gi", INT64_C(17179869184));
    want_int("1Ti", INT64_C(1099511627776));
    want_int("2P", INT64_C(2000000000000000));
    want_int("1e3", 1000);
    want_int("1E3", 1000);
    want_int("1e+3", 1000);
    want_int("1.024k", 1024); /* resource.MustParse("1.024k").AsInt64() is 1024, true */
    want_int("1.5G", INT64_C(1500000000));
    want_int("1.5e1", 15);
    want_int("1E", INT64_C(1000000000000000000));
    want_int("2147483648", INT64_C(2147483648));
    want_int("999999999999999999", INT64_C(999999999999999999));
}

/* Go keeps these as decimals, and AsInt64() refuses every decimal, whole or not. */
static void no_plain_integers(void **state)
{
    (void)state;
    want_no_int("100m", -EDOM);
    want_no_int("1000m", -EDOM);
    want_no_int("1.5", -EDOM);
    want_no_int("1.0", -EDOM);
    want_no_int("16.0Gi", -EDOM);
    want_no_int("1.0245k", -EDOM);
    want_no_int("1e-1", -EDOM);
    want_no_int("1Pi", -EDOM);
    want_no_int("1000000000000000000", -EDOM); /* 19 digits */
    want_no_int("9223372036854775808", -ERANGE);
    want_no_int("1e19", -ERANGE);
    want_no_int("8Ei", -ERANGE);
    want_no_int("1e1000000000000", -ERANGE);
    want_no_int("123456789012345678901234567890", -ERANGE);
}

static void no_quantities(void **state)
{
    static const char *const bad[] = {"",     "-",     "+",   ".",   "Gi",   "1K",    "1 ",   " 1",
                                      "1Gib", "1e",    "1e+", "e3",  "0x10", "1_000", "--1",  "+-1",
                                      "1..2", "1.2.3", "one", "1ki", "1e3k", "NaN",   "1e1.5"};

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        want_no_int(bad[i], -EINVAL);
    want_no_int("\0001", -EINVAL);
}

static void want_ceil(const char *text, int64_t want)
{
    int64_t v = -77;

    if (gs_quantity_ceil(gs_str_of(text), &v) != 0 || v != want)
        fail_msg("%s: %lld", text, (long long)v);
}

/* Quantity.Value(): "rounded up to the nearest integer away from 0". */
static void rounds_up(void **state)
{
    int64_t v = -77;

    (void)state;
    want_ceil("100m", 1);
    want_ceil("1000m", 1);
    want_ceil("1001m", 2);
    want_ceil("1.5", 2);
    want_ceil("-1.5", -2);
    want_ceil("0.5Gi", INT64_C(536870912));
    want_ceil("16.0Gi", INT64_C(17179869184));
    want_ceil("1n", 1);
    want_ceil("0n", 0);
    want_ceil("0.0", 0);
    want_ceil("1e-20", 1);
    want_ceil(".5", 1);
    want_ceil("1.", 1);
    want_ceil("1Pi", INT64_C(1125899906842624));
    want_ceil("7Ei", INT64_C(8070450532247928832));
    want_ceil("9223372036854775807", INT64_MAX);
    want_ceil("-9223372036854775808", INT64_MIN);
    want_ceil("0.00000000000000000000000000000000000000001", 1);
    want_ceil("1.0000000000000000000000000000000000000000000", 1);
    want_ceil("1.00000000000000000000000000000000000000000001", 2);
    want_ceil("0.0000000000000000000000000000000001e34", 1);
    want_ceil("100000000000000000000m", INT64_C(100000000000000000));
    assert_int_equal(gs_quantity_ceil(GS_STR("9223372036854775808"), &v), -ERANGE);
    assert_int_equal(gs_quantity_ceil(GS_STR("-9223372036854775809"), &v), -ERANGE);
    assert_int_equal(gs_quantity_ceil(GS_STR("1e400"), &v), -ERANGE);
    assert_int_equal(gs_quantity_ceil(GS_STR("x"), &v), -EINVAL);
    assert_int_equal(v, -77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_integers),
        cmocka_unit_test(no_plain_integers),
        cmocka_unit_test(no_quantities),
        cmocka_unit_test(rounds_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
