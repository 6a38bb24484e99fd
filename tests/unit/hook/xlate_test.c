#include "hook/xlate.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static char code[16 * GS_XLATE_SLOTS];
static char wrapper[2];

static void test_translates(void **state)
{
    (void)state;
    assert_null(gs_xlate_get(NULL));
    assert_null(gs_xlate_get(&code[0]));
    assert_int_equal(gs_xlate_put(&code[0], &wrapper[0]), 0);
    assert_ptr_equal(gs_xlate_get(&code[0]), &wrapper[0]);
    assert_null(gs_xlate_get(&code[1])); /* the address itself, not near it */
    assert_int_equal(gs_xlate_put(&code[0], &wrapper[1]), 0);
    assert_ptr_equal(gs_xlate_get(&code[0]), &wrapper[0]); /* the first wrapper stays */
}

static void test_fills_to_half(void **state)
{
    (void)state;
    size_t n = 1; /* of the test before */
    while (gs_xlate_put(&code[16 * n], &code[16 * n + 1]) == 0)
        n++;
    assert_int_equal(n, GS_XLATE_SLOTS / 2);
    assert_int_equal(gs_xlate_put(&code[16 * n], &code[16 * n + 1]), -ENOSPC);
    assert_null(gs_xlate_get(&code[16 * n]));
    for (size_t i = 1; i < n; i++)
        assert_ptr_equal(gs_xlate_get(&code[16 * i]), &code[16 * i + 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translates),
        cmocka_unit_test(test_fills_to_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
