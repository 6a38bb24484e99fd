#include "model/select.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "model/policy.h"

#define NONE NULL

static struct gs_keys keys(void)
{
    return (struct gs_keys){.use_uuid = GS_STR("use"),
                            .nouse_uuid = GS_STR("nouse"),
                            .use_type = GS_STR("use-type"),
                            .nouse_type = GS_STR("nouse-type")};
}

static int read_keys(const struct gs_pod *pod, struct gs_arena *arena, struct gs_selection *ret)
{
    const struct gs_keys k = keys();

    return gs_select_read(pod, &k, arena, ret);
}

static void annotate(struct gs_pod *pod, const char *key, const char *value)
{
    if (value != NULL)
        assert_int_equal(
            gs_pairs_set(&pod->annotations, pod->arena, gs_str_of(key), gs_str_of(value)), 0);
}

static void want_uuid(const char *use, const char *nouse, const char *id, bool want)
{
    struct gs_arena arena = {0};
    struct gs_pod pod = {.arena = &arena};
    struct gs_selection s;

    annotate(&pod, "use", use);
    annotate(&pod, "nouse", nouse);
    assert_int_equal(read_keys(&pod, &arena, &s), 0);
    assert_int_equal(gs_select_takes_uuid(&s, gs_str_of(id)), want);
    gs_arena_fini(&arena);
}

static void want_type(const char *use, const char *nouse, const char *type, bool want)
{
    struct gs_arena arena = {0};
    struct gs_pod pod = {.arena = &arena};
    struct gs_selection s;

    annotate(&pod, "use-type", use);
    annotate(&pod, "nouse-type", nouse);
    assert_int_equal(read_keys(&pod, &arena, &s), 0);
    for (int again = 0; again < 2; again++) /* the second answer is remembered */
        assert_int_equal(gs_select_takes_type(&s, gs_str_of(type)), want);
    gs_arena_fini(&arena);
}

/* A5.1 to A5.11 */
static void uuids(void **state)
{
    (void)state;
    want_uuid(NONE, NONE, "abc", true);
    want_uuid("abc,123", NONE, "abc", true);
    want_uuid("abc,123", NONE, "1abc", false);
    want_uuid(NONE, "abc,123", "abc", false);
    want_uuid(NONE, "abc,123", "1abc", true);
    want_uuid("abc,123", "abc", "abc", false);
    want_uuid("abc,123", "456", "abc", true);
    want_uuid(" abc , 123 ", NONE, "abc", true);
    want_uuid("", NONE, "abc", true);
    want_uuid("   ", NONE, "abc", true);
    want_uuid(NONE, "", "abc", true);
    want_uuid(",", NONE, "abc", false); /* 3.5: a use-list of only commas rejects every card */
}

/* A5.12 to A5.26 */
static void types(void **state)
{
    const char *card = "NVIDIA-A100";

    (void)state;
    want_type(NONE, NONE, card, true);
    want_type("A100,V100", NONE, card, true);
    want_type("V100", NONE, card, false);
    want_type(NONE, "A100", card, false);
    want_type(NONE, "V100", card, true);
    want_type("", NONE, card, true);
    want_type(NONE, "   ", card, true);
    want_type("A100", "A100", card, false);
    want_type(NONE, "V100,", card, true);
    want_type(NONE, ",V100", card, true);
    want_type("V100,", NONE, card, false);
    want_type(NONE, " MI250 , ", "MI250X", false);
    want_type(", ", NONE, "MI300X", false);
    want_type(NONE, ", ", "MI300X", true);
    want_type("MI300,", NONE, "MI250X", false);
    want_type("a100", NONE, card, true); /* in any case */
}

/* Cards of several types one after the other: what is remembered is of the right one. */
static void types_change(void **state)
{
    struct gs_arena arena = {0};
    struct gs_pod pod = {.arena = &arena};
    struct gs_selection s;

    (void)state;
    annotate(&pod, "use-type", "A100");
    assert_int_equal(read_keys(&pod, &arena, &s), 0);
    for (int i = 0; i < 3; i++) {
        assert_true(gs_select_takes_type(&s, GS_STR("NVIDIA-A100")));
        assert_false(gs_select_takes_type(&s, GS_STR("NVIDIA-V100")));
        assert_false(gs_select_takes_type(&s, GS_STR("")));
    }
    gs_arena_fini(&arena);
}

/* More types than are remembered, some of them again: none gets another's answer. */
static void types_are_many(void **state)
{
    struct gs_arena arena = {0};
    struct gs_pod pod = {.arena = &arena};
    struct gs_selection s;

    (void)state;
    annotate(&pod, "use-type", "type-1,type-7");
    assert_int_equal(read_keys(&pod, &arena, &s), 0);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t n = i * 7 % 20;
        struct gs_str type = gs_arena_printf(&arena, "type-%u.", n);

        assert_int_equal(gs_select_takes_type(&s, type), n == 1 || n == 7 || n >= 10);
    }
    gs_arena_fini(&arena);
}

/* Members are found wherever they stand, and what lies between them is not. */
static void long_lists(void **state)
{
    struct gs_arena arena = {0};
    struct gs_pod pod = {.arena = &arena};
    struct gs_buf text = {0};
    struct gs_selection s;

    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        gs_buf_addf(&text, "%sGPU-%u", i > 0 ? ", " : "", i * 7919 % 1000 * 2);
    annotate(&pod, "use", gs_buf_text(&text));
    assert_int_equal(read_keys(&pod, &arena, &s), 0);
    assert_int_equal(s.use_uuid.n, 1000);
    for (uint32_t i = 0; i < 2000; i++)
        assert_int_equal(gs_select_takes_uuid(&s, gs_arena_printf(&arena, "GPU-%u", i)),
                         i % 2 == 0);
    gs_buf_fini(&text);
    gs_arena_fini(&arena);
}

/* 3.5, kunlun and XPU: both pairs of lists must pass. */
static void second_keys(void **state)
{
    const struct gs_keys two = {.use_uuid = GS_STR("use"),
                                .nouse_uuid = GS_STR("nouse"),
                                .use_uuid2 = GS_STR("use2"),
                                .nouse_uuid2 = GS_STR("nouse2")};
    struct gs_arena arena = {0};
    struct gs_pod pod = {.arena = &arena};
    struct gs_selection s;

    (void)state;
    annotate(&pod, "use", "a,b");
    annotate(&pod, "use2", "b,c");
    annotate(&pod, "nouse2", "d");
    assert_int_equal(gs_select_read(&pod, &two, &arena, &s), 0);
    assert_false(gs_select_takes_uuid(&s, GS_STR("a")));
    assert_true(gs_select_takes_uuid(&s, GS_STR("b")));
    assert_false(gs_select_takes_uuid(&s, GS_STR("c")));
    gs_arena_fini(&arena);
}

static void no_memory(void **state)
{
    struct gs_arena arena = {.failed = true}, fine = {0};
    struct gs_pod pod = {.arena = &fine};
    struct gs_selection s = {.use_uuid = {.n = 7}};

    (void)state;
    annotate(&pod, "use", "a");
    assert_int_not_equal(read_keys(&pod, &arena, &s), 0);
    assert_int_equal(s.use_uuid.n, 7);
    gs_arena_fini(&fine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uuids),        cmocka_unit_test(types),
        cmocka_unit_test(types_change), cmocka_unit_test(types_are_many),
        cmocka_unit_test(long_lists),   cmocka_unit_test(second_keys),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
