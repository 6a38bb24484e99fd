#include "base/map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_empty(void **state)
{
    struct gs_map map;
    size_t pos = 0;

    (void)state;
    gs_map_init(&map);
    assert_null(gs_map_find(&map, GS_STR("x")));
    assert_null(gs_map_remove(&map, GS_STR("x")));
    assert_null(gs_map_next(&map, &pos));
    gs_map_fini(&map);
    gs_map_fini(NULL);
}

static void test_set_replaces(void **state)
{
    struct gs_map map;
    int a, b;

    (void)state;
    gs_map_init(&map);
    assert_int_equal(gs_map_set(&map, GS_STR("k"), &a), 0);
    assert_int_equal(gs_map_set(&map, GS_STR("k"), &b), 0);
    assert_int_equal(map.n, 1);
    assert_ptr_equal(gs_map_find(&map, GS_STR("k")), &b);
    assert_null(gs_map_find(&map, GS_STR("kk")));
    assert_null(gs_map_find(&map, GS_STR("")));
    gs_map_fini(&map);
}

#define KEYS 997

/* Against a plain array of flags: whatever is removed in whatever order, the rest stays findable.
 */
static void test_make_keeps_the_key(void **state)
{
    struct gs_map map = {0};
    char name[] = "node-1";
    struct gs_str key = gs_str_of(name);
    uint64_t *block;

    (void)state;
    block = gs_map_make(&map, key, sizeof(*block), &key);
    assert_non_null(block);
    assert_int_equal(*block, 0);
    assert_ptr_equal(key.p, (char *)block + sizeof(*block));
    name[0] = 'x'; /* the text is the block's */
    assert_ptr_equal(gs_map_find(&map, GS_STR("node-1")), block);
    assert_ptr_equal(gs_map_remove(&map, key), block);
    free(block);
    gs_map_fini(&map);
}

static void test_against_array(void **state)
{
    static char name[KEYS][16];
    static int value[KEYS];
    static unsigned char is_in[KEYS];
    struct gs_map map;
    size_t expected = 0, seen = 0, pos = 0;
    unsigned seed = 12345;

    (void)state;
    gs_map_init(&map);
    for (size_t i = 0; i < KEYS; i++)
        (void)snprintf(name[i], sizeof(name[i]), "node-%zu", i);
    for (int step = 0; step < 200000; step++) {
        size_t i = (size_t)rand_r(&seed) % KEYS;
        struct gs_str key = gs_str_of(name[i]);

        if (rand_r(&seed) % 2 == 0) {
            assert_int_equal(gs_map_set(&map, key, &value[i]), 0);
            expected += !is_in[i];
            is_in[i] = 1;
        } else {
            assert_ptr_equal(gs_map_remove(&map, key), is_in[i] ? &value[i] : NULL);
            expected -= is_in[i];
            is_in[i] = 0;
        }
        i = (size_t)rand_r(&seed) % KEYS;
        assert_ptr_equal(gs_map_find(&map, gs_str_of(name[i])), is_in[i] ? &value[i] : NULL);
    }
    assert_int_equal(map.n, expected);
    for (int *v; (v = gs_map_next(&map, &pos)) != NULL; seen++)
        assert_true(is_in[v - value]);
    assert_int_equal(seen, expected);
    gs_map_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_set_replaces),
        cmocka_unit_test(test_make_keeps_the_key),
        cmocka_unit_test(test_against_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
