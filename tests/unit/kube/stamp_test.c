#include "kube/stamp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* RFC 3339, 5.8, and days around leap years; seconds by Python's datetime. */
static void times_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {
        {"1985-04-12T23:20:50.52Z", 482196050520000},
        {"1996-12-19T16:39:57-08:00", 851042397000000},
        {"1990-12-31T23:59:60Z", 662688000000000},
        {"1990-12-31T15:59:60-08:00", 662688000000000},
        {"1937-01-01T12:00:27.87+00:20", -1041337172130000},
        {"2026-11-30T00:34:30Z", 1795998870000000},
        {"2026-11-30T00:34:30.123456789Z", 1795998870123456},
        {"2000-02-29t12:00:00z", 951825600000000},
        {"9999-12-31T23:59:59Z", 253402300799000000},
        {"0001-01-01T00:00:00Z", -62135596800000000},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        int64_t us = 0;

        assert_int_equal(gs_kube_stamp_parse(gs_str_of(rows[i].text), &us), 0);
        assert_int_equal(us, rows[i].us);
    }
}

static void others_are_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "2026-11-30",
        "2026-11-30T00:34:30",
        "2026-11-30 00:34:30Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-11-31T00:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T00:60:00Z",
        "2026-11-30T00:00:61Z",
        "2026-11-30T00:00:00.Z",
        "2026-11-30T00:00:00+24:00",
        "2026-11-30T00:00:00+0100",
        "2026-11-30T00:00:00Zx",
        "0000-01-01T00:00:00Z",
        "-026-11-30T00:00:00Z",
    };
    int64_t us = 7;

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++)
        assert_int_equal(gs_kube_stamp_parse(gs_str_of(rows[i]), &us), -EINVAL);
    assert_int_equal(us, 7);
}

static void times_are_written(void **state)
{
    char buf[GS_KUBE_STAMP_TEXT];

    (void)state;
    assert_string_equal(gs_kube_stamp_text(1795998870123456, false, buf), "2026-11-30T00:34:30Z");
    assert_string_equal(gs_kube_stamp_text(1795998870123456, true, buf),
                        "2026-11-30T00:34:30.123456Z");
    assert_string_equal(gs_kube_stamp_text(-1, true, buf), "1969-12-31T23:59:59.999999Z");
    assert_string_equal(gs_kube_stamp_text(951825600000000, false, buf), "2000-02-29T12:00:00Z");
    assert_string_equal(gs_kube_stamp_text(INT64_MAX, false, buf), "9999-12-31T23:59:59Z");
    assert_string_equal(gs_kube_stamp_text(INT64_MIN, false, buf), "0001-01-01T00:00:00Z");
}

/* Every day of 800 years is read back as it was written, one day after the one before. */
static void every_day_returns(void **state)
{
    char buf[GS_KUBE_STAMP_TEXT];

    (void)state;
    for (int64_t day = -150000; day < 150000; day++) {
        int64_t us = 0;

        assert_int_equal(
            gs_kube_stamp_parse(gs_str_of(gs_kube_stamp_text(day * 86400000000, false, buf)), &us),
            0);
        assert_int_equal(us, day * 86400000000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(times_are_written),
        cmocka_unit_test(every_day_returns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
