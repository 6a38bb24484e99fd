#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "vendors/nvidia/hook/block.h"

#define G (2ull << 20)

static const struct gs_block_owner owner = {.granularity = G, .serial = 7, .dev = 3};

static int setup(void **state)
{
    (void)state;
    gs_block_forget();
    return 0;
}

static void first_piece_makes_the_block(void **state)
{
    (void)state;
    assert_int_equal(gs_block_add(&owner, 10 * G, 512), 1);
    assert_int_equal(gs_block_add(&owner, 10 * G + 512, 512), 0);
    assert_int_equal(gs_block_add(&owner, 11 * G, 1), 1);
    assert_false(gs_block_remove(3, G, 10 * G, 512).block);
    assert_true(gs_block_remove(3, G, 10 * G + 512, 512).block);
    assert_true(gs_block_remove(3, G, 11 * G, 1).block);
    assert_false(gs_block_remove(3, G, 11 * G, 1).block); /* unknown */
}

static void cards_are_apart(void **state)
{
    struct gs_block_owner other = owner;

    (void)state;
    other.dev = UINT32_MAX;
    assert_int_equal(gs_block_add(&owner, 10 * G, 512), 1);
    assert_int_equal(gs_block_add(&other, 10 * G, 512), 1);
    assert_true(gs_block_remove(3, G, 10 * G, 512).block);
    assert_true(gs_block_remove(UINT32_MAX, G, 10 * G, 512).block);
}

static void holes(void **state)
{
    struct gs_block_owner other = owner;

    (void)state;
    assert_false(gs_block_has_hole(&owner, 1));
    assert_int_equal(gs_block_add(&owner, 10 * G, G / 2), 1);
    assert_true(gs_block_has_hole(&owner, G / 2));
    assert_int_equal(gs_block_add(&owner, 10 * G + G / 2 + 512, G / 2 - 512), 0);
    assert_true(gs_block_has_hole(&owner, 512));
    assert_false(gs_block_has_hole(&owner, 513));
    (void)gs_block_remove(3, G, 10 * G, G / 2);
    assert_true(gs_block_has_hole(&owner, G / 2));
    assert_false(gs_block_has_hole(&owner, G));
    other.serial = 8; /* a block of another context is of no use */
    assert_false(gs_block_has_hole(&other, 1));
    other = owner;
    other.family = 1;
    assert_false(gs_block_has_hole(&other, 1));
    gs_block_mistrust(3);
    assert_false(gs_block_has_hole(&owner, 1));
}

static void sizes_that_are_not_powers_of_two(void **state)
{
    struct gs_block_owner odd = {.granularity = 3 * 512 * 7, .serial = 1};

    (void)state;
    assert_int_equal(gs_block_add(&odd, odd.granularity * 5, 512 * 10), 1);
    assert_true(gs_block_has_hole(&odd, 512 * 11));
    assert_false(gs_block_has_hole(&odd, 512 * 11 + 1));
    assert_true(gs_block_remove(0, odd.granularity, odd.granularity * 5, 512 * 10).block);
}

static void shares(void **state)
{
    struct gs_block_gone gone;

    (void)state;
    assert_int_equal(gs_block_share(3, G, 10 * G), -2); /* -ENOENT */
    assert_int_equal(gs_block_add(&owner, 10 * G, 512), 1);
    assert_int_equal(gs_block_share(3, G, 10 * G + 5), -1);
    gs_block_set_share(3, G, 10 * G + 100, 42);
    assert_int_equal(gs_block_share(3, G, 10 * G), 42);
    gone = gs_block_remove(3, G, 10 * G, 512);
    assert_true(gone.block);
    assert_int_equal(gone.share, 42);
    assert_int_equal(gs_block_add(&owner, 10 * G, 512), 1); /* re-used memory starts clean */
    assert_int_equal(gs_block_share(3, G, 10 * G), -1);
}

/* A model that is a plain array of bytes per unit; many blocks, so that the table grows and closes
 * up. */
#define BLOCKS 300u
#define UNITS  16u
#define PIECES 2000u

static void behaves_as_a_model(void **state)
{
    struct gs_block_owner small = {.granularity = UNITS * 512, .serial = 1};
    static uint8_t used[BLOCKS][UNITS];
    static struct {
        uint32_t block, first, n;
    } piece[PIECES];
    const char *text = getenv("GS_TEST_SEED");
    unsigned int seed = text != NULL ? (unsigned int)strtoul(text, NULL, 10) : 20240611u;
    uint32_t n = 0;

    (void)state;
    print_message("seed %u\n", seed);
    for (int step = 0; step < 20000; step++) {
        uint32_t b = (uint32_t)rand_r(&seed) % BLOCKS;
        uint32_t len = 1 + (uint32_t)rand_r(&seed) % (UNITS / 2);
        uint32_t at = (uint32_t)rand_r(&seed) % (UNITS - len + 1);
        uint32_t filled = 0;

        for (uint32_t u = 0; u < UNITS; u++)
            filled += used[b][u];
        if (n < PIECES && rand_r(&seed) % 2 == 0) {
            int clash = 0;

            for (uint32_t u = at; u < at + len; u++)
                clash |= used[b][u];
            if (clash)
                continue;
            assert_int_equal(
                gs_block_add(&small, (uint64_t)(b + 9) * UNITS * 512 + at * 512, len * 512u),
                filled == 0);
            memset(&used[b][at], 1, len);
            piece[n].block = b;
            piece[n].first = at;
            piece[n++].n = len;
        } else if (n != 0) {
            uint32_t i = (uint32_t)rand_r(&seed) % n;
            uint32_t left = 0;

            b = piece[i].block;
            memset(&used[b][piece[i].first], 0, piece[i].n);
            for (uint32_t u = 0; u < UNITS; u++)
                left += used[b][u];
            assert_int_equal(gs_block_remove(0, small.granularity,
                                             (uint64_t)(b + 9) * UNITS * 512 + piece[i].first * 512,
                                             piece[i].n * 512u)
                                 .block,
                             left == 0);
            piece[i] = piece[--n];
        }
        if (step % 64 == 0) {
            uint32_t best = 0;

            for (b = 0; b < BLOCKS; b++) {
                uint32_t run = 0;
                uint32_t any = 0;
                uint32_t longest = 0;

                for (uint32_t u = 0; u < UNITS; u++) {
                    run = used[b][u] ? 0 : run + 1;
                    any |= used[b][u];
                    longest = run > longest ? run : longest;
                }
                if (any && longest > best)
                    best = longest;
            }
            if (best != 0)
                assert_true(gs_block_has_hole(&small, best * 512u));
            if (best < UNITS)
                assert_false(gs_block_has_hole(&small, best * 512u + 1));
        }
    }
}

/* One alone, the others side by side: nobody is inside with the one. */
static int inside;
static int alone;
static int clashes;

static void *work(void *arg)
{
    unsigned int seed = (unsigned int)(uintptr_t)arg;
    uint64_t ptr = (1000 + (uintptr_t)arg) * G; /* a block of its own */

    for (int i = 0; i < 3000; i++) {
        if (rand_r(&seed) % 8 == 0) {
            gs_block_enter_alone(3);
            __atomic_store_n(&alone, 1, __ATOMIC_RELAXED);
            if (__atomic_load_n(&inside, __ATOMIC_RELAXED) != 0)
                __atomic_fetch_add(&clashes, 1, __ATOMIC_RELAXED);
            (void)gs_block_has_hole(&owner, 512);
            __atomic_store_n(&alone, 0, __ATOMIC_RELAXED);
            gs_block_leave_alone(3);
        } else {
            gs_block_enter(3);
            __atomic_fetch_add(&inside, 1, __ATOMIC_RELAXED);
            if (__atomic_load_n(&alone, __ATOMIC_RELAXED) != 0 ||
                gs_block_add(&owner, ptr, 512) != 1 || gs_block_add(&owner, ptr + G / 2, 1) != 0 ||
                gs_block_remove(3, G, ptr, 512).block ||
                !gs_block_remove(3, G, ptr + G / 2, 1).block)
                __atomic_fetch_add(&clashes, 1, __ATOMIC_RELAXED);
            __atomic_fetch_sub(&inside, 1, __ATOMIC_RELAXED);
            gs_block_leave(3);
        }
    }
    return NULL;
}

static void threads(void **state)
{
    pthread_t thread[4];

    (void)state;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(clashes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(first_piece_makes_the_block, setup),
        cmocka_unit_test_setup(cards_are_apart, setup),
        cmocka_unit_test_setup(holes, setup),
        cmocka_unit_test_setup(sizes_that_are_not_powers_of_two, setup),
        cmocka_unit_test_setup(shares, setup),
        cmocka_unit_test_setup(behaves_as_a_model, setup),
        cmocka_unit_test_setup(threads, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
