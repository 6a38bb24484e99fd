/* Cutting a block: against a plain array of pieces, over random operations. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vendors/nvidia/sim/block.h"

#define PIECES 300 /* not a multiple of 64 */
#define PIECE  512
#define BASE   UINT64_C(0x7f0000000000)

struct model {
    uint32_t owner[PIECES]; /* 0 free, else number of the allocation */
};

static uint32_t longest(const struct model *m)
{
    uint32_t best = 0, run = 0;
    for (int i = 0; i < PIECES; i++) {
        run = m->owner[i] ? 0 : run + 1;
        best = run > best ? run : best;
    }
    return best;
}

static uint64_t take(struct gs_sim_block *b, struct model *m, uint64_t size, uint32_t number)
{
    uint32_t n = (uint32_t)((size + PIECE - 1) / PIECE), first = PIECES, run = 0;
    for (uint32_t i = 0; i < PIECES && first == PIECES; i++) {
        run = m->owner[i] ? 0 : run + 1;
        if (run == n)
            first = i + 1 - n;
    }
    uint64_t at = gs_block_take(b, size, number);
    assert_int_equal(at, first == PIECES ? 0 : BASE + first * PIECE); /* first fit */
    for (uint32_t i = 0; at && i < n; i++)
        m->owner[first + i] = number;
    return at;
}

static void check(const struct gs_sim_block *b, const struct model *m, uint64_t at, uint64_t size)
{
    struct gs_sim_piece piece;
    assert_int_equal(b->max_hole, longest(m));
    assert_int_equal(gs_block_find(b, at, &piece), at);
    assert_int_equal(piece.size, size);
    assert_int_equal(gs_block_find(b, at + size - 1, &piece), at);
}

static void test_random(void **state)
{
    (void)state;
    struct gs_sim_block *b = gs_block_new(PIECES * PIECE, PIECE);
    struct model m = {{0}};
    uint64_t at[100] = {0}, size[100] = {0};
    srand(7);
    assert_non_null(b);
    b->base = BASE;
    for (uint32_t i = 0; i < 200000; i++) {
        uint32_t k = (uint32_t)rand() % 100;
        if (!at[k]) {
            size[k] = (uint64_t)rand() % (20 * PIECE) + 1;
            at[k] = take(b, &m, size[k], k + 1);
            if (at[k])
                check(b, &m, at[k], size[k]);
        } else {
            assert_int_equal(gs_block_give(b, at[k]), 0);
            assert_int_equal(gs_block_give(b, at[k]), -EINVAL);
            for (int p = 0; p < PIECES; p++)
                m.owner[p] = m.owner[p] == k + 1 ? 0 : m.owner[p];
            at[k] = 0;
            assert_int_equal(b->max_hole, longest(&m));
        }
    }
    for (int k = 0; k < 100; k++)
        if (at[k])
            assert_int_equal(gs_block_give(b, at[k]), 0);
    assert_int_equal(b->live, 0);
    assert_int_equal(b->used_bytes, 0);
    assert_int_equal(b->max_hole, PIECES);
    gs_block_free(b);
}

static void test_bounds(void **state)
{
    (void)state;
    struct gs_sim_block *b = gs_block_new(64 * PIECE, PIECE);
    struct gs_sim_piece piece;
    assert_non_null(b);
    b->base = BASE;
    assert_int_equal(gs_block_take(b, 64 * PIECE + 1, 1), 0);
    assert_int_equal(gs_block_take(b, UINT64_MAX, 1), 0);
    assert_int_equal(gs_block_take(b, 64 * PIECE, 1), BASE);
    assert_int_equal(gs_block_take(b, 1, 1), 0);
    assert_int_equal(gs_block_give(b, BASE + 1), -EINVAL);
    assert_int_equal(gs_block_give(b, BASE + 64 * PIECE), -EINVAL);
    assert_int_equal(gs_block_find(b, BASE + 64 * PIECE, &piece), 0);
    assert_int_equal(gs_block_give(b, BASE), 0);
    assert_int_equal(gs_block_find(b, BASE, &piece), 0);
    gs_block_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
