#include "base/arena.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void pieces_are_zeroed_and_apart(void **state)
{
    struct gs_arena arena = {0};
    unsigned char *piece[200];

    (void)state;
    for (size_t i = 0; i < 200; i++) {
        piece[i] = gs_arena_take(&arena, i, 7);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < i * 7; k++)
            assert_int_equal(piece[i][k], 0);
        memset(piece[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < 200; i++)
        for (size_t k = 0; k < i * 7; k++)
            assert_int_equal(piece[i][k], i);
    assert_int_equal(gs_arena_check(&arena), 0);
    gs_arena_fini(&arena);
    assert_int_equal(arena.total, 0);
    gs_arena_fini(&arena); /* again, and NULL */
    gs_arena_fini(NULL);
}

static void nothing_is_something(void **state)
{
    struct gs_arena arena;

    (void)state;
    gs_arena_init(&arena);
    assert_non_null(gs_arena_take(&arena, 0, 100));
    assert_ptr_not_equal(gs_arena_take(&arena, 0, 1), gs_arena_take(&arena, 1, 0));
    gs_arena_fini(&arena);
}

static void text(void **state)
{
    struct gs_arena arena = {0};
    struct gs_str s = gs_arena_str(&arena, (struct gs_str){"abcdef", 3});

    (void)state;
    assert_int_equal(s.n, 3);
    assert_string_equal(s.p, "abc");
    s = gs_arena_str(&arena, (struct gs_str){0});
    assert_string_equal(s.p, "");
    s = gs_arena_printf(&arena, "%s-%d", "x", 42);
    assert_int_equal(s.n, 4);
    assert_string_equal(s.p, "x-42");
    gs_arena_fini(&arena);
}

/* Failure stays until the arena is reset or ended. */
static void failure_is_sticky(void **state)
{
    struct gs_arena arena = {0};

    (void)state;
    assert_non_null(gs_arena_take(&arena, 1, 1));
    assert_null(gs_arena_take(&arena, SIZE_MAX / 2, 3));
    assert_int_equal(gs_arena_check(&arena), -ENOMEM);
    assert_null(gs_arena_take(&arena, 1, 1));
    assert_null(gs_arena_str(&arena, GS_STR("a")).p);
    assert_null(gs_arena_printf(&arena, "%d", 7).p);
    gs_arena_reset(&arena);
    assert_int_equal(gs_arena_check(&arena), 0);
    assert_null(gs_arena_take(&arena, SIZE_MAX, 1));
    gs_arena_fini(&arena);
    assert_non_null(gs_arena_take(&arena, 1, 1));
    gs_arena_fini(&arena);
}

/* A loop of like requests allocates no more after the first few. */
static void reset_keeps_room(void **state)
{
    struct gs_arena arena = {0};
    size_t total;

    (void)state;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 100; k++)
            assert_non_null(gs_arena_take(&arena, 1, 1000));
        gs_arena_reset(&arena);
    }
    total = arena.total;
    for (int k = 0; k < 100; k++)
        assert_non_null(gs_arena_take(&arena, 1, 1000));
    assert_int_equal(arena.total, total);
    gs_arena_fini(&arena);
    gs_arena_reset(&arena); /* an empty one too */
    assert_int_equal(arena.total, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_zeroed_and_apart),
        cmocka_unit_test(nothing_is_something),
        cmocka_unit_test(text),
        cmocka_unit_test(failure_is_sticky),
        cmocka_unit_test(reset_keeps_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
