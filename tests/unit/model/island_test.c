#include "model/island.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CARDS 32

struct fixture {
    struct gs_arena arena;
    struct gs_device dev[CARDS];
    int32_t island[CARDS]; /* negative: none */
    struct gs_node node;
    struct gs_pick pick[CARDS];
    size_t n;
};

static bool island_of(const struct gs_device *dev, int32_t *ret)
{
    *ret = *(const int32_t *)dev->custom;
    return *ret >= 0;
}

static void setup(struct fixture *f, const int32_t *island, size_t n)
{
    *f = (struct fixture){.n = n};
    gs_arena_init(&f->arena);
    for (size_t i = 0; i < n; i++) {
        f->island[i] = island[i];
        f->dev[i].custom = &f->island[i];
        f->pick[i].dev = (uint32_t)i;
    }
    f->node = (struct gs_node){.dev = f->dev, .n_dev = n};
}

static void want_order(const int32_t *island, size_t n, const uint32_t *order)
{
    struct fixture f;

    setup(&f, island, n);
    assert_int_equal(gs_island_sort(&f.node, island_of, f.pick, n, &f.arena), 0);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(f.pick[i].dev, order[i]);
    gs_arena_fini(&f.arena);
}

static void test_sort(void **state)
{
    (void)state;
    want_order(NULL, 0, NULL);
    want_order((int32_t[]){7}, 1, (uint32_t[]){0});
    want_order((int32_t[]){1, 0, 0, 1, 0}, 5, (uint32_t[]){1, 2, 4, 0, 3});
    /* equal islands as they come, order inside them kept, those of none last */
    want_order((int32_t[]){5, 2, 5, 2, -1, 9}, 6, (uint32_t[]){0, 2, 1, 3, 5, 4});
    want_order((int32_t[]){-1, -1, 3}, 3, (uint32_t[]){2, 0, 1});
}

static void test_share(void **state)
{
    static const int32_t island[] = {4, 4, 4, 1, -1};
    struct fixture f;

    (void)state;
    setup(&f, island, 5);
    assert_true(gs_island_share(&f.node, island_of, f.pick, 0) == 0);
    assert_true(gs_island_share(&f.node, island_of, f.pick, 1) == 1);
    assert_true(gs_island_share(&f.node, island_of, f.pick, 3) == 1);
    assert_true(gs_island_share(&f.node, island_of, f.pick, 4) == 0.75);
    assert_true(gs_island_share(&f.node, island_of, f.pick, 5) == 0);
    gs_arena_fini(&f.arena);
}

static void test_no_memory(void **state)
{
    static const int32_t island[] = {1, 0, 0};
    struct fixture f;

    (void)state;
    setup(&f, island, 3);
    f.arena.failed = true;
    assert_int_equal(gs_island_sort(&f.node, island_of, f.pick, 3, &f.arena), -ENOMEM);
    assert_int_equal(f.pick[0].dev, 0);
    gs_arena_fini(&f.arena);
}

/* Any islands: a permutation whose islands are whole runs, the larger ones first. Seed 1. */
static void test_everywhere(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        int32_t island[CARDS];
        size_t size[8] = {0}, at = 0;
        uint64_t seen = 0;
        size_t before = CARDS, n;
        struct fixture f;

        seed = seed * 1664525u + 1013904223u;
        n = (seed >> 8) % (CARDS + 1);
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            island[i] = (int32_t)((seed >> 8) % 8);
            size[island[i]]++;
        }
        setup(&f, island, n);
        assert_int_equal(gs_island_sort(&f.node, island_of, f.pick, n, &f.arena), 0);
        while (at < n) {
            int32_t here = f.island[f.pick[at].dev];

            assert_true(size[here] <= before);
            before = size[here];
            for (size_t i = 0; i < before; i++, at++) {
                assert_int_equal(f.island[f.pick[at].dev], here);
                seen |= UINT64_C(1) << f.pick[at].dev;
            }
        }
        assert_int_equal(seen, (UINT64_C(1) << n) - 1);
        gs_arena_fini(&f.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_everywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
