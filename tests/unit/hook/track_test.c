#include "hook/track.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static struct gs_obj obj_of(uint64_t bytes)
{
    return (struct gs_obj){.bytes = bytes, .aux = ~bytes, .dev = 3, .share = -1, .refs = 1};
}

static void test_put_get_take(void **state)
{
    (void)state;
    struct gs_obj obj = obj_of(4096);
    struct gs_obj got;
    gs_track_reset();
    memset(&got, 0xa5, sizeof got);
    const struct gs_obj untouched = got;
    assert_false(gs_track_get(GS_OBJ_LINEAR, 0x7f0000000000, &got));
    assert_false(gs_track_take(GS_OBJ_LINEAR, 0x7f0000000000, &got));
    assert_memory_equal(&got, &untouched, sizeof got);

    assert_int_equal(gs_track_put(GS_OBJ_LINEAR, 0x7f0000000000, &obj), 0);
    assert_true(gs_track_get(GS_OBJ_LINEAR, 0x7f0000000000, &got));
    assert_memory_equal(&got, &obj, sizeof got);
    assert_false(gs_track_get(GS_OBJ_HANDLE, 0x7f0000000000, &got)); /* another key space */

    obj.bytes = 8192; /* put replaces */
    assert_int_equal(gs_track_put(GS_OBJ_LINEAR, 0x7f0000000000, &obj), 0);
    assert_true(gs_track_take(GS_OBJ_LINEAR, 0x7f0000000000, &got));
    assert_int_equal(got.bytes, 8192);
    assert_false(gs_track_take(GS_OBJ_LINEAR, 0x7f0000000000, &got));
}

static void test_key_zero_is_a_key(void **state)
{
    (void)state;
    struct gs_obj obj = obj_of(1);
    struct gs_obj got;
    gs_track_reset();
    assert_int_equal(gs_track_put(GS_OBJ_HANDLE, 0, &obj), 0);
    assert_true(gs_track_take(GS_OBJ_HANDLE, 0, &got));
    assert_false(gs_track_get(GS_OBJ_HANDLE, 0, &got));
}

static int drop_ref(struct gs_obj *obj, void *arg)
{
    *(uint64_t *)arg = obj->bytes;
    return --obj->refs == 0 ? GS_TRACK_REMOVE : 7;
}

static void test_update(void **state)
{
    (void)state;
    struct gs_obj obj = obj_of(77);
    uint64_t bytes = 0;
    obj.refs = 2;
    gs_track_reset();
    assert_int_equal(gs_track_update(GS_OBJ_HANDLE, 5, drop_ref, &bytes), -ENOENT);
    assert_int_equal(gs_track_put(GS_OBJ_HANDLE, 5, &obj), 0);
    assert_int_equal(gs_track_update(GS_OBJ_HANDLE, 5, drop_ref, &bytes), 7);
    assert_int_equal(bytes, 77);
    assert_int_equal(gs_track_update(GS_OBJ_HANDLE, 5, drop_ref, &bytes), GS_TRACK_REMOVE);
    assert_int_equal(gs_track_update(GS_OBJ_HANDLE, 5, drop_ref, &bytes), -ENOENT);
}

static void sum_and_free(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct gs_obj got;
    *(uint64_t *)arg += obj->bytes;
    assert_true(gs_track_take(GS_OBJ_ARRAY, key, &got)); /* a visitor may change the table */
}

static void test_each(void **state)
{
    (void)state;
    uint64_t sum = 0;
    gs_track_reset();
    for (uint64_t i = 1; i <= 10000; i++) {
        struct gs_obj obj = obj_of(i);
        assert_int_equal(gs_track_put(i % 2 != 0 ? GS_OBJ_ARRAY : GS_OBJ_MIPMAP, i << 21, &obj), 0);
    }
    gs_track_each(GS_OBJ_ARRAY, sum_and_free, &sum);
    assert_int_equal(sum, 25000000); /* 1 + 3 + ... + 9999 */
    sum = 0;
    gs_track_each(GS_OBJ_ARRAY, sum_and_free, &sum);
    assert_int_equal(sum, 0);
    gs_track_reset();
    struct gs_obj got;
    assert_false(gs_track_get(GS_OBJ_MIPMAP, 2ull << 21, &got));
}

/* Against a plain array indexed by key: any order of puts, takes and gets gives the same answers.
 */
#define KEYS 3000u
static void test_like_an_array(void **state)
{
    (void)state;
    const char *given = getenv("GS_SEED");
    const unsigned seed = given != NULL ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
    static struct gs_obj model[KEYS];
    static const uint64_t strides[] = {1, 512, 2ull << 20, 1ull << 32, 1ull << 52};
    unsigned random = seed;
    print_message("GS_SEED=%u\n", seed);
    for (size_t s = 0; s < sizeof strides / sizeof *strides; s++) {
        gs_track_reset();
        memset(model, 0, sizeof model);
        for (unsigned step = 0; step < 60000; step++) {
            const uint64_t i = (unsigned)rand_r(&random) % KEYS;
            const uint64_t key = i * strides[s];
            struct gs_obj got = {0};
            switch (rand_r(&random) % 3) {
            case 0:
                model[i] = obj_of((uint64_t)step + 1);
                assert_int_equal(gs_track_put(GS_OBJ_LINEAR, key, &model[i]), 0);
                break;
            case 1:
                assert_int_equal(gs_track_take(GS_OBJ_LINEAR, key, &got), model[i].bytes != 0);
                assert_memory_equal(&got, &model[i], sizeof got);
                model[i] = (struct gs_obj){0};
                break;
            default:
                assert_int_equal(gs_track_get(GS_OBJ_LINEAR, key, &got), model[i].bytes != 0);
                assert_memory_equal(&got, &model[i], sizeof got);
            }
        }
    }
    gs_track_reset();
}

#define THREADS 4
#define ROUNDS  20000u

static int bump(struct gs_obj *obj, void *arg)
{
    (void)arg;
    obj->refs++;
    return 0;
}

static void *work(void *arg)
{
    const uint64_t me = (uint64_t)(uintptr_t)arg;
    struct gs_obj got;
    uintptr_t wrong = 0;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct gs_obj obj = obj_of(me * ROUNDS + i);
        wrong += gs_track_put(GS_OBJ_LINEAR, (i << 8) | me, &obj) != 0;
        wrong += gs_track_update(GS_OBJ_POOL, 1, bump, NULL) != 0;
        if (i >= 100)
            wrong += !gs_track_take(GS_OBJ_LINEAR, ((i - 100) << 8) | me, &got) ||
                     got.bytes != me * ROUNDS + i - 100;
    }
    return (void *)wrong;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    struct gs_obj obj = obj_of(1);
    void *wrong;
    gs_track_reset();
    obj.refs = 0;
    assert_int_equal(gs_track_put(GS_OBJ_POOL, 1, &obj), 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_true(gs_track_take(GS_OBJ_POOL, 1, &obj));
    assert_int_equal(obj.refs, THREADS * ROUNDS);
    gs_track_reset();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_get_take),  cmocka_unit_test(test_key_zero_is_a_key),
        cmocka_unit_test(test_update),        cmocka_unit_test(test_each),
        cmocka_unit_test(test_like_an_array), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
