#include "base/buf.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"

static void empty_is_a_string(void **state)
{
    struct gs_buf buf = {0};

    (void)state;
    assert_string_equal(gs_buf_text(&buf), "");
    gs_buf_add(&buf, "", 0);
    assert_string_equal(gs_buf_text(&buf), "");
    gs_buf_fini(&buf);
    gs_buf_fini(NULL);
}

static void grows_and_stays_terminated(void **state)
{
    struct gs_buf buf = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        gs_buf_addf(&buf, "%03d", i);
        assert_int_equal(buf.n, (size_t)(3 * (i + 1)));
        assert_int_equal(buf.p[buf.n], 0);
    }
    assert_memory_equal(buf.p, "000001002", 9);
    gs_buf_clear(&buf);
    assert_int_equal(buf.n, 0);
    gs_buf_addc(&buf, 'x', 5);
    gs_buf_adds(&buf, "yz");
    assert_string_equal(gs_buf_text(&buf), "xxxxxyz");
    assert_int_equal(gs_buf_check(&buf), 0);
    gs_buf_fini(&buf);
}

static void failure_is_sticky(void **state)
{
    struct gs_buf buf = {0};

    (void)state;
    gs_buf_adds(&buf, "ab");
    assert_int_equal(gs_buf_reserve(&buf, SIZE_MAX), -ENOMEM);
    gs_buf_adds(&buf, "cd");
    assert_int_equal(gs_buf_check(&buf), -ENOMEM);
    assert_string_equal(gs_buf_text(&buf), "ab");
    gs_buf_clear(&buf);
    assert_int_equal(gs_buf_check(&buf), 0);
    gs_buf_fini(&buf);
}

static void as_a_view(void **state)
{
    struct gs_arena arena = {0};
    struct gs_buf buf = {0};
    struct gs_str text = {0};

    (void)state;
    assert_true(gs_str_eq(gs_buf_str(&buf), GS_STR("")));
    gs_buf_put(&buf, (struct gs_str){0});
    gs_buf_put(&buf, GS_STR("ab"));
    assert_true(gs_str_eq(gs_buf_str(&buf), GS_STR("ab")));
    assert_int_equal(gs_buf_move(&buf, &arena, &text), 0);
    assert_true(gs_str_eq(text, GS_STR("ab")));
    assert_null(buf.p);
    assert_int_equal(gs_buf_reserve(&buf, SIZE_MAX), -ENOMEM);
    assert_int_equal(gs_buf_move(&buf, &arena, &text), -ENOMEM);
    assert_true(gs_str_eq(text, GS_STR("ab")));
    arena.failed = true;
    gs_buf_put(&buf, GS_STR("cd"));
    assert_int_equal(gs_buf_move(&buf, &arena, &text), -ENOMEM);
    assert_null(buf.p);
    gs_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_is_a_string),
        cmocka_unit_test(grows_and_stays_terminated),
        cmocka_unit_test(failure_is_sticky),
        cmocka_unit_test(as_a_view),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
