#include "model/policy.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/node.h"

#define CORDON "hami.io/device-cordon"

/* So many of four devices, or the answer that the policy's conf names. */
static int read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err)
{
    const int *answer = policy->conf;
    struct gs_device *dev = GS_ARENA_ARRAY(arena, 4, struct gs_device);

    (void)node;
    if (*answer < 0)
        return gs_err_set(err, *answer, "as told");
    if (dev == NULL)
        return -ENOMEM;
    dev[0].id = GS_STR("a");
    dev[1].id = GS_STR("b");
    dev[2].id = GS_STR("ab");
    dev[3].id = GS_STR("a");
    *ret_dev = dev;
    ret->n = (uint32_t)*answer;
    return 0;
}

static const struct gs_policy_ops ops = {.read_node = read_node};

struct fixture {
    struct gs_arena arena;
    struct gs_pairs annotations;
    struct gs_policy policy;
    struct gs_device *dev;
    struct gs_group group;
    struct gs_err err;
    int answer;
};

static void setup(struct fixture *f, const char *cordon)
{
    *f = (struct fixture){.policy = {.ops = &ops}, .answer = 3};
    f->policy.conf = &f->answer;
    if (cordon != NULL)
        assert_int_equal(
            gs_pairs_set(&f->annotations, &f->arena, GS_STR(CORDON), gs_str_of(cordon)), 0);
}

static int read_it(struct fixture *f)
{
    const struct gs_node_view node = {.name = GS_STR("n"), .annotations = &f->annotations};

    return gs_node_read(&f->policy, &node, &f->arena, &f->dev, &f->group, &f->err);
}

static void want_cordon(const char *cordon, bool a, bool b, bool ab)
{
    struct fixture f;

    setup(&f, cordon);
    assert_int_equal(read_it(&f), 0);
    assert_int_equal(f.group.n, 3);
    assert_int_equal(f.dev[0].is_cordoned, a);
    assert_int_equal(f.dev[1].is_cordoned, b);
    assert_int_equal(f.dev[2].is_cordoned, ab);
    gs_arena_fini(&f.arena);
}

/* A15.15, A15.16, 1.1: blank members are ignored */
static void cordons(void **state)
{
    (void)state;
    want_cordon(NULL, false, false, false);
    want_cordon("", false, false, false);
    want_cordon(" , ,", false, false, false);
    want_cordon("b, ", false, true, false);
    want_cordon(" ab ,a", true, false, true);
    want_cordon("another,A", false, false, false);
}

/* An id stands for one device. */
static void twins(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f, NULL);
    assert_int_equal(read_it(&f), 0);
    for (size_t i = 0; i < 3; i++)
        assert_false(f.dev[i].is_claimed_twice);
    f.answer = 4;
    assert_int_equal(read_it(&f), 0);
    assert_true(f.dev[0].is_claimed_twice);
    assert_false(f.dev[1].is_claimed_twice);
    assert_false(f.dev[2].is_claimed_twice);
    assert_true(f.dev[3].is_claimed_twice);
    gs_arena_fini(&f.arena);
}

static void failures(void **state)
{
    static char large[(1 << 20) + 1];
    struct fixture f;

    (void)state;
    setup(&f, "a");
    f.answer = -ENOENT;
    assert_int_equal(read_it(&f), -ENOENT);
    f.answer = -EINVAL;
    assert_int_equal(read_it(&f), -EINVAL);
    assert_string_equal(f.err.text, "as told");
    f.answer = 0;
    assert_int_equal(read_it(&f), 0);
    assert_int_equal(f.group.n, 0);
    gs_arena_fini(&f.arena);
    memset(large, 'x', sizeof(large));
    setup(&f, NULL);
    assert_int_equal(gs_pairs_set(&f.annotations, &f.arena, GS_STR(CORDON),
                                  (struct gs_str){large, sizeof(large)}),
                     0);
    assert_int_equal(read_it(&f), -E2BIG);
    assert_null(f.dev);
    assert_int_equal(f.group.n, 0);
    f.arena.failed = true;
    assert_int_equal(read_it(&f), -ENOMEM);
    gs_arena_fini(&f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cordons), cmocka_unit_test(twins),
                                       cmocka_unit_test(failures)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
