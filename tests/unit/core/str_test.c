#include "core/str.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_views(void **state)
{
    char field[4] = {'a', 'b', 'c', 'd'};

    (void)state;
    assert_int_equal(gs_str_of(NULL).n, 0);
    assert_int_equal(gs_str_of("abc").n, 3);
    assert_int_equal(gs_str_of_field(field, 4).n, 4);
    assert_int_equal(gs_str_of_field("ab\0d", 4).n, 2);
    assert_true(gs_str_eq(GS_STR(""), gs_str_of(NULL)));
    assert_true(gs_str_eq_c(GS_STR("x"), "x"));
    assert_false(gs_str_eq_c(GS_STR("x"), "xy"));
    assert_true(gs_str_cmp(GS_STR("ab"), GS_STR("b")) < 0);
    assert_true(gs_str_cmp(GS_STR("ab"), GS_STR("a")) > 0);
    assert_true(gs_str_cmp(GS_STR("a"), GS_STR("\x80")) < 0); /* bytes have no sign */
    assert_int_equal(gs_str_cmp(GS_STR(""), gs_str_of(NULL)), 0);
    assert_true(gs_str_is_word(GS_STR("GPU-1")));
    assert_false(gs_str_is_word(GS_STR("")));
    assert_false(gs_str_is_word(GS_STR("a b")));
    assert_false(gs_str_is_word(GS_STR("a\x80")));
}

static void test_cut(void **state)
{
    struct gs_str s = GS_STR("a,,b"), part;

    (void)state;
    assert_true(gs_str_cut(&s, ',', &part));
    assert_true(gs_str_eq_c(part, "a"));
    assert_true(gs_str_cut(&s, ',', &part));
    assert_int_equal(part.n, 0);
    assert_true(gs_str_cut(&s, ',', &part));
    assert_true(gs_str_eq_c(part, "b"));
    assert_false(gs_str_cut(&s, ',', &part));
    s = GS_STR("key value");
    assert_false(gs_str_skip(&s, GS_STR("kex")));
    assert_true(gs_str_skip(&s, GS_STR("key ")));
    assert_true(gs_str_eq_c(s, "value"));
}

static void test_field(void **state)
{
    char field[4] = "zzz";

    (void)state;
    assert_int_equal(gs_str_to_field(GS_STR("abcd"), field, sizeof(field)), -ENAMETOOLONG);
    assert_string_equal(field, "zzz");
    assert_int_equal(gs_str_to_field(GS_STR("a"), field, sizeof(field)), 0);
    assert_memory_equal(field, "a\0\0", 4);
}

static void test_out(void **state)
{
    char buf[8];
    struct gs_str_out out;

    (void)state;
    gs_str_out_init(&out, buf, sizeof(buf));
    gs_str_put_u64(&out, 0);
    gs_str_put_char(&out, ' ');
    gs_str_put_hex(&out, 0xbeef);
    assert_string_equal(buf, "0 beef");
    assert_false(out.cut);
    gs_str_put_c(&out, "xyz");
    assert_string_equal(buf, "0 beefx");
    assert_true(out.cut);
    gs_str_out_init(&out, buf, 0);
    gs_str_put_c(&out, "a");
    assert_true(out.cut);
    assert_int_equal(out.n, 0);
}

static void test_out_numbers(void **state)
{
    char buf[32];
    struct gs_str_out out;

    (void)state;
    gs_str_out_init(&out, buf, sizeof(buf));
    gs_str_put_u64(&out, UINT64_MAX);
    assert_string_equal(buf, "18446744073709551615");
    gs_str_out_init(&out, buf, sizeof(buf));
    gs_str_put_hex(&out, UINT64_MAX);
    assert_string_equal(buf, "ffffffffffffffff");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views),       cmocka_unit_test(test_cut),
        cmocka_unit_test(test_field),       cmocka_unit_test(test_out),
        cmocka_unit_test(test_out_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
