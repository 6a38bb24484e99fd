#include "model/usual.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/node.h"
#include "model/request.h"

static const struct gs_policy_ops ops = {.read_node = gs_usual_read_register};

struct fixture {
    struct gs_arena arena;
    struct gs_policy policy;
    struct gs_container container;
    struct gs_pod pod;
};

static void setup(struct fixture *f)
{
    *f = (struct fixture){
        .policy =
            {
                .word = "X",
                .ops = &ops,
                .names = {.count = GS_STR("n"), .mem = GS_STR("m"), .core = GS_STR("c")},
                .keys = {.node_register = GS_STR("r")},
                .mem_factor = 256,
                .default_cores = 7,
            },
    };
    gs_arena_init(&f->arena);
    f->pod = (struct gs_pod){.arena = &f->arena, .container = &f->container, .n_containers = 1};
}

static void set(struct fixture *f, struct gs_pairs *pairs, const char *key, const char *value)
{
    assert_int_equal(gs_pairs_set(pairs, &f->arena, gs_str_of(key), gs_str_of(value)), 0);
}

/* Count, memory, cores as limits (NULL: none); what comes of them. */
static void want(const char *n, const char *m, const char *c, struct gs_request r)
{
    struct gs_request is;
    struct fixture f;

    setup(&f);
    if (n != NULL)
        set(&f, &f.container.limits, "n", n);
    if (m != NULL)
        set(&f, &f.container.limits, "m", m);
    if (c != NULL)
        set(&f, &f.container.limits, "c", c);
    gs_usual_request(&f.policy, &f.pod, 0, &is);
    assert_int_equal(is.nums, r.nums);
    if (r.nums > 0) {
        assert_int_equal(is.mem_mib, r.mem_mib);
        assert_int_equal(is.mem_pct, r.mem_pct);
        assert_int_equal(is.cores, r.cores);
    }
    gs_arena_fini(&f.arena);
}

/* The table of control-plane 3.5, as MLU, Iluvatar and Ascend have it. */
static void test_request(void **state)
{
    const struct gs_request none = {0};

    (void)state;
    want("1", NULL, NULL, (struct gs_request){.nums = 1, .mem_pct = 100, .cores = 7});
    want("2", "4", "30", (struct gs_request){.nums = 2, .mem_mib = 1024, .cores = 30});
    want("1", "0", "0", (struct gs_request){.nums = 1, .mem_pct = 100});
    want("1k", "1Ki", NULL, (struct gs_request){.nums = 1000, .mem_mib = 262144, .cores = 7});
    want("1", "8388607", NULL, (struct gs_request){.nums = 1, .mem_mib = 2147483392, .cores = 7});
    want("1", "8388608", NULL, none); /* times 256 is 2^31 */
    want("1", "9223372036854775808", NULL, none);
    want("1", "-1", NULL, none);
    want("1", "1.5", NULL, none);
    want("1", "100m", NULL, none);
    want("1", NULL, "-1", none);
    want("1", NULL, "2147483648", none);
    want("0", NULL, NULL, none);
    want("-1", NULL, NULL, none);
    want("2147483648", NULL, NULL, none);
    want("1.5", NULL, NULL, none);
    want(NULL, "4", "30", none);
}

static void test_requests_stand_in(void **state)
{
    struct gs_request r;
    struct fixture f;

    (void)state;
    setup(&f);
    set(&f, &f.container.requests, "n", "3");
    gs_usual_request(&f.policy, &f.pod, 0, &r);
    assert_int_equal(r.nums, 3);
    assert_int_equal(gs_usual_admit(&f.policy, &f.pod, 0, NULL), 0); /* limits alone */
    set(&f, &f.container.limits, "n", "2");
    gs_usual_request(&f.policy, &f.pod, 0, &r);
    assert_int_equal(r.nums, 2);
    assert_int_equal(gs_usual_admit(&f.policy, &f.pod, 0, NULL), 1);
    f.policy.names.count = (struct gs_str){0};
    gs_usual_request(&f.policy, &f.pod, 0, &r);
    assert_int_equal(r.nums, 0);
    assert_int_equal(gs_usual_admit(&f.policy, &f.pod, 0, NULL), 0);
    gs_arena_fini(&f.arena);
}

static void test_set_limit(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f);
    assert_int_equal(gs_usual_set_limit(&f.pod, 0, GS_STR("m"), 5), 0);
    assert_int_equal(f.pod.n_edits, 1);
    assert_int_equal(f.container.requests.n, 0);
    set(&f, &f.container.requests, "m", "4");
    assert_int_equal(gs_usual_set_limit(&f.pod, 0, GS_STR("m"), 5), 0);
    assert_int_equal(f.pod.n_edits, 2);
    assert_true(gs_str_eq_c(*gs_pairs_find(&f.container.requests, GS_STR("m")), "5"));
    f.arena.failed = true;
    assert_int_equal(gs_usual_set_limit(&f.pod, 0, GS_STR("m"), 6), -ENOMEM);
    gs_arena_fini(&f.arena);
}

static void test_name(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f);
    assert_true(gs_str_eq_c(gs_usual_name(&f.arena, NULL, "a/b"), "a/b"));
    assert_true(gs_str_eq_c(gs_usual_name(&f.arena, "c/d", "a/b"), "c/d"));
    assert_int_equal(gs_usual_name(&f.arena, "", "a/b").n, 0);
    gs_arena_fini(&f.arena);
}

static void test_read_register(void **state)
{
    struct gs_pairs annotations = {0};
    const struct gs_node_view node = {.name = GS_STR("n1"), .annotations = &annotations};
    struct gs_device *dev = NULL;
    struct gs_group group = {0};
    struct gs_err err = {0};
    struct fixture f;

    (void)state;
    setup(&f);
    assert_int_equal(gs_usual_read_register(&f.policy, &node, &f.arena, &dev, &group, &err),
                     -ENOENT);
    set(&f, &annotations, "r", "[{]");
    assert_int_equal(gs_usual_read_register(&f.policy, &node, &f.arena, &dev, &group, &err),
                     -EINVAL);
    assert_null(dev);
    assert_int_equal(group.n, 0);
    set(&f, &annotations, "r", "[{\"id\":\"u\",\"count\":3}]");
    assert_int_equal(gs_usual_read_register(&f.policy, &node, &f.arena, &dev, &group, &err), 0);
    assert_int_equal(group.n, 1);
    assert_true(gs_str_eq_c(dev[0].id, "u"));
    assert_int_equal(dev[0].count, 3);
    /* not as A2.7: a plugin that takes its cards back must not see them offered for ever */
    set(&f, &annotations, "r", "[]");
    assert_int_equal(gs_usual_read_register(&f.policy, &node, &f.arena, &dev, &group, &err), 0);
    assert_int_equal(group.n, 0);
    gs_arena_fini(&f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),       cmocka_unit_test(test_requests_stand_in),
        cmocka_unit_test(test_set_limit),     cmocka_unit_test(test_name),
        cmocka_unit_test(test_read_register),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
