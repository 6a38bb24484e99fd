#include "node/shares.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define CARD "GPU-03f69c50-207a-2038-9b45-23cac89cb67a"

static void want_uuid(const char *id, const char *uuid)
{
    struct gs_str got = gs_shares_uuid(gs_str_of(id));

    assert_int_equal(got.n, strlen(uuid));
    assert_memory_equal(got.p, uuid, got.n);
}

/* A20.1 */
static void ids_name_cards(void **state)
{
    (void)state;
    want_uuid(CARD "-0", CARD);
    want_uuid(CARD "-10", CARD);
    want_uuid(CARD "::replica-1", CARD);
    want_uuid(CARD, CARD);
    want_uuid("MIG-" CARD "-0", "MIG-" CARD "-0"); /* seven dashes: no share */
    want_uuid(CARD "-", CARD "-");
    want_uuid("0", "0");
    want_uuid("", "");
}

/* A20.3 */
static void list_of_shares(void **state)
{
    struct gs_shares_card card[] = {
        {.uuid = "GPU-uuid-1", .count = 2, .numa = 1, .is_healthy = true},
        {.uuid = "MIG-1", .count = 0, .numa = -1},
    };
    struct gs_arena arena = {0};
    struct gs_kubelet_device *device;
    size_t n = 0;

    (void)state;
    assert_int_equal(gs_shares_list(card, 2, &arena, &device, &n), 0);
    assert_int_equal(n, 3);
    assert_string_equal(device[0].id, "GPU-uuid-1-0");
    assert_string_equal(device[1].id, "GPU-uuid-1-1");
    assert_true(device[0].healthy);
    assert_int_equal(device[1].n_numa, 1);
    assert_int_equal(device[1].numa[0], 1);
    assert_string_equal(device[2].id, "MIG-1");
    assert_false(device[2].healthy);
    assert_int_equal(device[2].n_numa, 0);
    assert_int_equal(gs_shares_list(NULL, 0, &arena, &device, &n), 0);
    assert_int_equal(n, 0);
    card[0].count = UINT32_MAX;
    assert_int_equal(gs_shares_list(card, 2, &arena, &device, &n), -E2BIG);
    gs_arena_fini(&arena);
}

/* "i,i,..." of what is preferred; "-": nothing. */
static void want_choice(const struct gs_kubelet_prefer *want, const struct gs_str *uuid, size_t n,
                        const char *const *ids)
{
    struct gs_arena arena = {0};
    struct gs_kubelet_texts got = {0};
    int rc = gs_shares_prefer(want, uuid, n, &arena, &got);

    if (ids == NULL) {
        assert_int_equal(rc, -ENODATA);
    } else {
        assert_int_equal(rc, 0);
        assert_int_equal(got.n, want->size);
        for (size_t i = 0; i < got.n; i++)
            assert_string_equal(got.p[i], ids[i]);
    }
    gs_arena_fini(&arena);
}

#define A "GPU-a0000000-0000-0000-0000-000000000000"
#define B "GPU-b0000000-0000-0000-0000-000000000000"
#define TEXTS(...)                                                                                 \
    {                                                                                              \
        (const char *const[]){__VA_ARGS__},                                                        \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)                            \
    }

static void choice(void **state)
{
    const struct gs_str ab[] = {GS_STR(A), GS_STR(B)}, aa[] = {GS_STR(A), GS_STR(A)};
    struct gs_kubelet_prefer want = {.available = TEXTS(A "-0", A "-1", B "-0", B "-1"), .size = 2};
    struct gs_kubelet_prefer must = want, none = want;

    (void)state;
    want_choice(&want, ab, 2, (const char *const[]){A "-0", B "-0"});
    want_choice(&want, aa, 2, (const char *const[]){A "-0", A "-1"});
    /* A20.7: what must be included stands for a share of its card */
    must.must = (struct gs_kubelet_texts)TEXTS(B "-1");
    want_choice(&must, ab, 2, (const char *const[]){B "-1", A "-0"});
    /* fewer cards granted than ids wanted; a card without a free share; nothing wanted */
    want_choice(&want, ab, 1, NULL);
    none.available = (struct gs_kubelet_texts)TEXTS(A "-0", A "-1");
    want_choice(&none, ab, 2, NULL);
    none.size = 0;
    want_choice(&none, ab, 2, NULL);
    none.size = -1;
    want_choice(&none, ab, 2, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_name_cards),
        cmocka_unit_test(list_of_shares),
        cmocka_unit_test(choice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
