#include "hook/feedback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define S UINT64_C(1000000000)

static struct gs_feedback f;
static int32_t word;

static int reset(void **state)
{
    (void)state;
    f = (struct gs_feedback){0};
    word = 0;
    return 0;
}

/** A launch at a moment; the word changes as it would in the region. */
static bool launch(uint64_t now)
{
    int32_t write = gs_feedback_step(&f, word, now);

    if (write != GS_FEEDBACK_LEAVE)
        word = write;
    return gs_feedback_is_yielding(&f);
}

static void test_announces(void **state)
{
    (void)state;
    assert_false(launch(S));
    assert_int_equal(word, 2);
    assert_false(gs_feedback_is_live(&f, S));
    word = 1; /* the monitor's tick */
    assert_false(launch(5 * S));
    assert_int_equal(word, 2);
    assert_true(gs_feedback_is_live(&f, 5 * S));
    assert_true(gs_feedback_is_live(&f, 17 * S));
    assert_false(gs_feedback_is_live(&f, 18 * S));
}

static void test_block_and_release(void **state)
{
    (void)state;
    word = -1;
    assert_true(launch(S));
    assert_int_equal(word, -1);
    assert_true(launch(9 * S));
    word = 0;
    assert_false(launch(10 * S));
    assert_int_equal(word, 2);
}

/** A live monitor that goes on blocking: we ask every 10 s and yield all the time. */
static void test_renewed(void **state)
{
    (void)state;
    word = -1;
    for (uint64_t t = 1; t < 100; t++) {
        assert_true(launch(t * S));
        if (t % 5 == 0)
            word = -1; /* its tick */
    }
}

/** A dead one: 10 s, then the question, 6 s more, and that is that. */
static void test_dead_monitor(void **state)
{
    (void)state;
    word = -1;
    assert_true(launch(1 * S));
    assert_true(launch(10 * S));
    assert_int_equal(word, -1);
    assert_true(launch(11 * S));
    assert_int_equal(word, GS_FEEDBACK_ASK);
    assert_true(launch(16 * S));
    assert_false(launch(17 * S));
    assert_false(launch(1000 * S));
    assert_int_equal(word, GS_FEEDBACK_ASK); /* only the monitor takes it away */
    assert_false(gs_feedback_is_live(&f, 1000 * S));
}

/** Another process of the slice asks; and the monitor answers by counting down. */
static void test_mates_probe(void **state)
{
    (void)state;
    word = -1;
    assert_true(launch(1 * S));
    word = GS_FEEDBACK_ASK;
    assert_true(launch(2 * S));
    assert_true(launch(7 * S));
    word = 2;
    assert_false(launch(7 * S + 1));
    assert_true(gs_feedback_is_live(&f, 7 * S + 1));
}

static void test_garbage(void **state)
{
    static const int32_t words[] = {INT32_MIN, INT32_MAX, -1, 0, 1, 2, 3, 1000};
    uint64_t at = 1;

    (void)state;
    for (uint32_t i = 0; i < 4000; i++) {
        word = words[(i * 2654435761u >> 13) % 8];
        (void)launch(at += (i % 7) * S);
    }
    /* nobody writes any more: free within 17 s */
    for (uint32_t i = 0; i < 18; i++)
        (void)launch(at += S);
    assert_false(launch(at + S));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup(fn, reset)
    const struct CMUnitTest tests[] = {
        TEST(test_announces),    TEST(test_block_and_release), TEST(test_renewed),
        TEST(test_dead_monitor), TEST(test_mates_probe),       TEST(test_garbage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
