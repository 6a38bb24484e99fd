#include "core/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/** A bijection has no collisions: sort the images of 64 Ki close numbers and look for twins. */
static int compare(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

static void test_u64_spreads(void **state)
{
    static uint64_t images[1 << 16];
    unsigned buckets[64] = {0};

    (void)state;
    for (uint64_t i = 0; i < 1 << 16; i++) {
        images[i] = gs_hash_u64(i << 21); /* as device pointers are */
        buckets[images[i] >> 58]++;
    }
    for (size_t i = 0; i < 64; i++) {
        assert_in_range(buckets[i], 800, 1250); /* 1024 each if even */
    }
    qsort(images, 1 << 16, sizeof(images[0]), compare);
    for (size_t i = 1; i < 1 << 16; i++)
        assert_true(images[i] != images[i - 1]);
}

static void test_bytes(void **state)
{
    unsigned char buf[64] = {0};
    uint64_t plain = gs_hash_bytes(buf, sizeof(buf), 1);

    (void)state;
    assert_true(plain == gs_hash_bytes(buf, sizeof(buf), 1));
    assert_true(plain != gs_hash_bytes(buf, sizeof(buf), 2));
    assert_true(gs_hash_bytes(buf, 7, 1) != gs_hash_bytes(buf, 8, 1));
    for (size_t bit = 0; bit < 8 * sizeof(buf); bit++) {
        buf[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_true(gs_hash_bytes(buf, sizeof(buf), 1) != plain);
        buf[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_u64_spreads),
                                       cmocka_unit_test(test_bytes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
