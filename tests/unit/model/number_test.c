#include "model/number.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void want(const char *text, int rc, int64_t value)
{
    int64_t got = 42;

    assert_int_equal(gs_number_read(gs_str_of(text), &got), rc);
    assert_true(got == (rc == 0 ? value : 42));
}

static void want_i32(const char *text, int rc, int32_t value)
{
    int32_t got = 42;

    assert_int_equal(gs_number_read_i32(gs_str_of(text), &got), rc);
    assert_int_equal(got, rc == 0 ? value : 42);
}

/* strconv.ParseInt in base 10 */
static void numbers(void **state)
{
    static const char *const bad[] = {"",   "-",   "+",    "+-1", "--1", " 1",
                                      "1 ", "1.0", "0x10", "1_0", "1e3", "99999999999999999999x"};

    (void)state;
    want("0", 0, 0);
    want("-0", 0, 0);
    want("+7", 0, 7);
    want("007", 0, 7);
    want("9223372036854775807", 0, INT64_MAX);
    want("-9223372036854775808", 0, INT64_MIN);
    want("9223372036854775808", -ERANGE, 0);
    want("-9223372036854775809", -ERANGE, 0);
    want("99999999999999999999999999999999", -ERANGE, 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        want(bad[i], -EINVAL, 0);
    want_i32("2147483647", 0, INT32_MAX);
    want_i32("-2147483648", 0, INT32_MIN);
    want_i32("2147483648", -ERANGE, 0);
    want_i32("-2147483649", -ERANGE, 0);
    want_i32("x", -EINVAL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
