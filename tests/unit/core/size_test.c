#include "core/size.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/cleanup.h"

struct row {
    const char *text;
    int rc;
    uint64_t value;
};

#define GI (UINT64_C(1) << 30)

static void test_u64(void **state)
{
    static const struct row rows[] = {
        {"0", 0, 0},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"99999999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"010", -EINVAL, 0},
        {"00", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
        {"1e9", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        uint64_t v = 0;

        assert_int_equal(gs_size_parse_u64(gs_str_of(rows[i].text), &v), rows[i].rc);
        assert_true(v == rows[i].value);
    }
}

static void test_size(void **state)
{
    static const struct row rows[] = {
        {"1073741824", 0, GI},
        {"1Gi", 0, GI},
        {"1.5Gi", 0, GI + GI / 2},
        {"0.1Ki", 0, 102},
        {"2G", 0, 2000000000},
        {"4T", 0, UINT64_C(4000000000000)},
        {"16383Pi", 0, UINT64_C(16383) << 50},
        {"16384Pi", -ERANGE, 0},
        {"1e999", -EINVAL, 0},
        {"12zb", -EINVAL, 0},
        {"-1Gi", -EINVAL, 0},
        {"1.Gi", -EINVAL, 0},
        {"1.1234567890Gi", -EINVAL, 0},
        {"1.5", -EINVAL, 0},
        {".5Gi", -EINVAL, 0},
        {"1.2.3Gi", -EINVAL, 0},
        {"Gi", -EINVAL, 0},
        {"1gi", -EINVAL, 0},
        {"1GiB", -EINVAL, 0},
        {"1i", -EINVAL, 0},
        {"", -EINVAL, 0},
        {"50%", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        uint64_t v = 0;

        assert_int_equal(gs_size_parse(gs_str_of(rows[i].text), &v), rows[i].rc);
        assert_true(v == rows[i].value);
    }
}

static void test_share(void **state)
{
    static const struct row rows[] = {
        {"50%", 0, 500},        {"12.5%", 0, 125},    {"100%", 0, 1000},
        {"100.1%", -ERANGE, 0}, {"101%", -ERANGE, 0}, {"%", -EINVAL, 0},
        {"-5%", -EINVAL, 0},    {"0%", 0, 0},         {"1Ki", 0, 1024},
    };
    uint64_t v = 0;

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        v = 0;
        assert_int_equal(gs_size_parse_share(gs_str_of(rows[i].text), 1000, &v), rows[i].rc);
        assert_true(v == rows[i].value);
    }
    assert_int_equal(gs_size_parse_share(GS_STR("100%"), UINT64_MAX, &v), 0);
    assert_true(v == UINT64_MAX);
}

/* HAMi's plugin writes `4096m`; a value that HAMi would read in another way than it looks is
 * refused. */
static void test_hami(void **state)
{
    static const struct row rows[] = {
        {"4096m", 0, 4 * GI},   {"4096M", 0, 4 * GI},   {"4g", 0, 4 * GI},
        {"1K", 0, 1024},        {"2T", 0, 2048 * GI},   {"1Gi", 0, GI},
        {"123", 0, 123},        {"0m", 0, 0},           {"0", 0, 0},
        {"010m", -EINVAL, 0},   {"0x10m", -EINVAL, 0},  {"12zb", -EINVAL, 0},
        {"1e999", -EINVAL, 0},  {"-1m", -EINVAL, 0},    {"", -EINVAL, 0},
        {"m", -EINVAL, 0},      {"4096mb", -EINVAL, 0}, {"1.5g", -EINVAL, 0},
        {"1i", -EINVAL, 0},     {"1P", -EINVAL, 0},     {"16777216T", -ERANGE, 0},
        {"4096 m", -EINVAL, 0},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        uint64_t v = 0;
        int rc = gs_size_parse_hami(gs_str_of(rows[i].text), &v);

        if (rc != rows[i].rc)
            print_error("for '%s'\n", rows[i].text);
        assert_int_equal(rc, rows[i].rc);
        assert_true(rc < 0 || v == rows[i].value);
    }
}

static void test_put(void **state)
{
    static const struct row rows[] = {
        {"0 B", 0, 0},        {"1023 B", 0, 1023},        {"1 KiB", 0, 1024},
        {"1.5 KiB", 0, 1536}, {"1.5 KiB", 0, 1587},       {"1.6 KiB", 0, 1588},
        {"2 KiB", 0, 2047},   {"1023.9 KiB", 0, 1048524}, {"1 MiB", 0, 1048525},
        {"2 GiB", 0, 2 * GI}, {"16 EiB", 0, UINT64_MAX},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        char buf[32];
        struct gs_str_out out;

        gs_str_out_init(&out, buf, sizeof(buf));
        gs_size_put(&out, rows[i].value);
        assert_string_equal(buf, rows[i].text);
    }
    assert_true(gs_size_add(UINT64_MAX, 1) == UINT64_MAX);
    assert_true(gs_size_add(1, 2) == 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_u64),  cmocka_unit_test(test_size), cmocka_unit_test(test_share),
        cmocka_unit_test(test_hami), cmocka_unit_test(test_put),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
