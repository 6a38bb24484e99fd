#include "model/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Words by Go: strconv.ParseBool, strings.TrimSpace. */
static void words(void **state)
{
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};
    static const char *const no[] = {"", "0", "yes", "tRUE", "true ", "false"};

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(yes); i++)
        assert_true(gs_text_is_true(gs_str_of(yes[i])));
    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        assert_false(gs_text_is_true(gs_str_of(no[i])));
    assert_true(gs_text_contains(GS_STR("NVIDIA A100"), GS_STR("a100")));
    assert_true(gs_text_contains(GS_STR("abc"), GS_STR("")));
    assert_false(gs_text_contains(GS_STR("ab"), GS_STR("abc")));
    assert_true(gs_text_eq_fold(GS_STR("devMem"), GS_STR("DEVmem")));
    assert_false(gs_text_eq_fold(GS_STR("a"), GS_STR("ab")));
    assert_true(gs_str_eq(gs_text_trim(GS_STR(" \t a b\r\n")), GS_STR("a b")));
    assert_int_equal(gs_text_trim(GS_STR(" \v\f ")).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(words)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
