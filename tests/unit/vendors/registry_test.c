#include "vendors/registry_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cyaml/cyaml.h>

#include <cmocka.h>

#include "core/cleanup.h"
#include "model/policy.h"
#include "model/request.h"

/* Order of HAMi's own registration (control-plane, quirk 3). */
static const char *const order[] = {
    "nvidia",    "cambricon", "hygon",  "enflame", "mthreads", "metax",     "kunlun",
    "awsneuron", "amd",       "vastai", "biren",   "vnpus",    "iluvatars",
};

static void test_order(void **state)
{
    size_t at = 0;

    (void)state;
    for (size_t i = 0; i < gs_registry_policy_n; i++) {
        while (at < GS_ARRAY_LEN(order) && strcmp(order[at], gs_registry_policy[i]->key) != 0)
            at++;
        assert_true(at < GS_ARRAY_LEN(order));
        at++;
    }
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < gs_registry_policy_n; i++) {
        const struct gs_policy_section *s = gs_registry_policy[i];

        assert_non_null(s->make);
        assert_true(s->schema->type == CYAML_MAPPING || s->schema->type == CYAML_SEQUENCE);
        assert_true((s->schema->flags & CYAML_FLAG_POINTER) != 0);
        assert_true(s->older == NULL || (s->older->flags & CYAML_FLAG_POINTER) != 0);
    }
}

static void want_own_key(const struct gs_policies *all, size_t i, size_t offset)
{
    const struct gs_str *key = (const struct gs_str *)((const char *)&all->at[i]->keys + offset);

    for (size_t j = 0; j < i && key->n > 0; j++)
        assert_false(
            gs_str_eq(*key, *(const struct gs_str *)((const char *)&all->at[j]->keys + offset)));
}

/* By default no two vendors share a word, a grant or a register annotation. */
static void test_defaults(void **state)
{
    struct gs_policies all = {0};
    struct gs_arena arena;

    (void)state;
    gs_arena_init(&arena);
    for (size_t i = 0; i < gs_registry_policy_n; i++)
        assert_int_equal(gs_registry_policy[i]->make(NULL, false, &arena, &all, NULL), 0);
    assert_true(all.n >= gs_registry_policy_n);
    for (size_t i = 0; i < all.n; i++) {
        const struct gs_policy *p = all.at[i];

        assert_non_null(p->ops->admit);
        assert_non_null(p->ops->request);
        assert_non_null(p->ops->read_node);
        assert_true(p->names.count.n > 0);
        assert_true(p->keys.allocated.n > 0);
        assert_ptr_equal(gs_policies_find(&all, gs_str_of(p->word)), p);
        want_own_key(&all, i, offsetof(struct gs_keys, allocated));
        want_own_key(&all, i, offsetof(struct gs_keys, to_allocate));
        want_own_key(&all, i, offsetof(struct gs_keys, node_register));
        want_own_key(&all, i, offsetof(struct gs_keys, handshake));
    }
    gs_arena_fini(&arena);
}

/* A container that asks for nothing is left as it is by every vendor, and asks for nothing. */
static void test_strangers(void **state)
{
    struct gs_container container = {.name = GS_STR("c0")};
    struct gs_policies all = {0};
    struct gs_request request;
    struct gs_arena arena;
    struct gs_pod pod = {.arena = &arena, .container = &container, .n_containers = 1};

    (void)state;
    gs_arena_init(&arena);
    for (size_t i = 0; i < gs_registry_policy_n; i++)
        assert_int_equal(gs_registry_policy[i]->make(NULL, false, &arena, &all, NULL), 0);
    assert_int_equal(gs_pairs_set(&container.limits, &arena, GS_STR("cpu"), GS_STR("2")), 0);
    for (size_t i = 0; i < all.n; i++) {
        assert_int_equal(all.at[i]->ops->admit(all.at[i], &pod, 0, NULL), 0);
        all.at[i]->ops->request(all.at[i], &pod, 0, &request);
        assert_int_equal(request.nums, 0);
    }
    assert_int_equal(pod.n_edits, 0);
    gs_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_strangers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
