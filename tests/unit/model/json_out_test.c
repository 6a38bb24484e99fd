#include "model/json_out.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct gs_str numbers(struct gs_arena *arena, int n)
{
    yyjson_alc alc = gs_json_out_alc(arena);
    yyjson_mut_doc *doc = yyjson_mut_doc_new(&alc);
    yyjson_mut_val *list;

    if (doc == NULL)
        return (struct gs_str){0};
    list = yyjson_mut_arr(doc);
    yyjson_mut_doc_set_root(doc, list);
    for (int i = 0; i < n; i++)
        if (!yyjson_mut_arr_add_int(doc, list, i))
            return (struct gs_str){0};
    return gs_json_out_text(doc, arena);
}

static void test_text(void **state)
{
    struct gs_arena arena;
    struct gs_str text;

    (void)state;
    gs_arena_init(&arena);
    text = numbers(&arena, 3);
    assert_true(gs_str_eq_c(text, "[0,1,2]"));
    assert_int_equal(text.p[text.n], 0);
    /* text that has to move while it grows */
    text = numbers(&arena, 1000);
    assert_int_equal(text.n, 10 + 90 * 2 + 900 * 3 + 999 + 2);
    assert_memory_equal(text.p + text.n - 9, ",998,999]", 9);
    gs_arena_fini(&arena);
}

static void test_no_memory(void **state)
{
    struct gs_arena arena;

    (void)state;
    gs_arena_init(&arena);
    arena.failed = true;
    assert_int_equal(numbers(&arena, 1).n, 0);
    gs_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
