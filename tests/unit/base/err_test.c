#include "base/err.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void sets_code_and_text(void **state)
{
    struct gs_err err = {0};

    (void)state;
    assert_int_equal(gs_err_set(&err, -ENOENT, "card %d", 7), -ENOENT);
    assert_int_equal(err.code, -ENOENT);
    assert_string_equal(err.text, "card 7");
}

static void wraps_the_cause(void **state)
{
    struct gs_err err = {0};

    (void)state;
    (void)gs_err_set(&err, -EIO, "short read");
    assert_int_equal(gs_err_wrap(&err, -EBADMSG, "load '%s'", "x"), -EBADMSG);
    assert_int_equal(err.code, -EBADMSG);
    assert_string_equal(err.text, "load 'x': short read");
}

static void wrap_without_text_names_the_error(void **state)
{
    struct gs_err err = {0};

    (void)state;
    (void)gs_err_wrap(&err, -ENOENT, "open");
    assert_string_equal(err.text, "open: No such file or directory");
}

static void null_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(gs_err_set(NULL, -EIO, "x"), -EIO);
    assert_int_equal(gs_err_wrap(NULL, -EIO, "x"), -EIO);
}

static void long_text_is_cut_not_overrun(void **state)
{
    struct gs_err err = {0};
    char big[2000];

    (void)state;
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    (void)gs_err_set(&err, -EIO, "%s", big);
    assert_int_equal(strlen(err.text), GS_ERR_TEXT - 1);
    (void)gs_err_wrap(&err, -EIO, "%s", big);
    assert_int_equal(strlen(err.text), GS_ERR_TEXT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_code_and_text),
        cmocka_unit_test(wraps_the_cause),
        cmocka_unit_test(wrap_without_text_names_the_error),
        cmocka_unit_test(null_is_allowed),
        cmocka_unit_test(long_text_is_cut_not_overrun),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
