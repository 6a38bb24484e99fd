#include "model/order.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/node.h"

#define PREFIX "invalid hami.io/device-scoring-weights annotation "

static struct gs_device_policy policy_of(const char *text, const char *weights)
{
    struct gs_arena arena = {0};
    struct gs_pod pod = {.arena = &arena};
    struct gs_device_policy p;
    struct gs_err err;

    assert_int_equal(gs_pairs_set(&pod.annotations, &arena, GS_STR("hami.io/gpu-scheduler-policy"),
                                  gs_str_of(text)),
                     0);
    if (weights != NULL)
        assert_int_equal(gs_pairs_set(&pod.annotations, &arena,
                                      GS_STR("hami.io/device-scoring-weights"), gs_str_of(weights)),
                         0);
    assert_int_equal(gs_order_read(&pod, GS_STR("spread"), &p, &err), 0);
    gs_arena_fini(&arena);
    return p;
}

static void want_weights(const char *text, double slot, double core, double mem)
{
    struct gs_device_policy p = policy_of("binpack", text);

    assert_true(p.w_slot == slot && p.w_core == core && p.w_mem == mem);
}

static void want_refusal(const char *text, const char *why)
{
    struct gs_arena arena = {0};
    struct gs_pod pod = {.arena = &arena};
    struct gs_device_policy p = {.w_slot = 77};
    struct gs_err err = {0};
    struct gs_str want = gs_arena_printf(&arena, PREFIX "\"%s\": %s", text, why);

    assert_int_equal(gs_pairs_set(&pod.annotations, &arena,
                                  GS_STR("hami.io/device-scoring-weights"), gs_str_of(text)),
                     0);
    assert_int_equal(gs_order_read(&pod, GS_STR("spread"), &p, &err), -EINVAL);
    assert_string_equal(err.text, want.p);
    assert_true(p.w_slot == 77);
    gs_arena_fini(&arena);
}

/* A6.1 to A6.10 */
static void weights(void **state)
{
    (void)state;
    want_weights(NULL, 1, 1, 1);
    want_weights("slot=1,core=2,memory=3", 1, 2, 3);
    want_weights(" memory = 3, slot = 1, core = 0 ", 1, 0, 3);
    want_refusal("", "expected slot, core, and memory weights");
    want_refusal("slot=1,memory=3", "expected slot, core, and memory weights");
    want_refusal("slot=1,core,memory=3", "expected key=value entries");
    want_refusal("slot=1,core=high,memory=3", "\"core\" weight must be an integer");
    want_refusal("slot=1,core=-1,memory=3", "\"core\" weight must not be negative");
    want_refusal("slot=1,bandwidth=2,memory=3", "unknown weight \"bandwidth\"");
    want_refusal("slot=1,slot=2,memory=3", "duplicate \"slot\" weight");
    want_refusal("slot=0,core=0,memory=0", "at least one weight must be positive");
    want_refusal("slot=99999999999999999999,core=0,memory=0", "\"slot\" weight must be an integer");
}

struct vector {
    int id;
    const char *policy;
    bool is_numa_bound;
    struct {
        uint32_t index;
        int32_t numa, used;
        float score;
    } a, b;
    bool want;
};

/* A10; numbers are the vector's. */
static void orders(void **state)
{
    static const struct vector vectors[] = {
        {1, "binpack", false, {0, 0, 0, 10}, {0, 0, 0, 20}, true},
        {2, "binpack", false, {0, 1, 0, 10}, {0, 0, 0, 20}, true},
        {4, "binpack", false, {0, 1, 0, 20}, {0, 0, 0, 10}, false},
        {5, "spread", false, {0, 0, 0, 10}, {0, 0, 0, 20}, false},
        {6, "spread", false, {0, 1, 0, 20}, {0, 0, 0, 10}, true},
        {8, "binpack", true, {0, 1, 0, 5}, {0, 0, 0, 99}, true},
        {9, "binpack", true, {0, 0, 0, 10}, {0, 0, 0, 20}, true},
        {10, "spread", true, {0, 0, 0, 5}, {0, 1, 0, 99}, true},
        {12, "mutex", false, {0, 0, 2, 0}, {0, 0, 0, 0}, true},
        {13, "mutex", false, {0, 0, 0, 0}, {0, 0, 1, 0}, false},
        {14, "mutex", false, {0, 0, 0, 0}, {0, 1, 0, 0}, true},
        {16, "numa", false, {3, 0, 0, 10}, {1, 0, 0, 20}, false},
        {17, "binpack,numa", false, {0, 0, 0, 15}, {0, 1, 0, 15}, true},
        {18, "numa,spread", false, {0, 1, 0, 5}, {0, 0, 0, 99}, false},
        {20, "mutex,spread", false, {0, 0, 5, 10}, {0, 0, 0, 20}, false},
        {21, "mutex,topology-aware", false, {0, 0, 0, 10}, {0, 0, 0, 20}, false},
        {22, "binpack,numa", false, {5, 0, 0, 10}, {2, 0, 0, 10}, false},
        {24, "spread,numa", true, {0, 0, 0, 20}, {0, 0, 0, 10}, true},
        /* 3.3: mutex ignores numa-bind; what is no policy is spread; a tie is the index's */
        {101, "mutex", true, {0, 1, 2, 0}, {0, 0, 0, 0}, true},
        {102, "nonsense", false, {0, 0, 0, 10}, {0, 0, 0, 20}, false},
        {103, "topology-aware", true, {0, 0, 0, 5}, {0, 1, 0, 99}, true},
        {104, "spread", false, {1, 0, 0, 10}, {2, 0, 0, 10}, true},
        {105, "binpack,binpack,spread", false, {0, 0, 0, 10}, {0, 0, 0, 20}, true},
    };

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(vectors); i++) {
        const struct vector *v = &vectors[i];
        struct gs_device_policy p = policy_of(v->policy, NULL);
        struct gs_device a = {.index = v->a.index, .numa = v->a.numa};
        struct gs_device b = {.index = v->b.index, .numa = v->b.numa};
        struct gs_use use_a = {.slots = v->a.used}, use_b = {.slots = v->b.used};
        const struct gs_ranked ra = {&a, &use_a, v->a.score}, rb = {&b, &use_b, v->b.score};

        if (gs_order_less(&p, v->is_numa_bound, &ra, &rb) != v->want)
            fail_msg("A10.%d", v->id);
    }
}

static void policies(void **state)
{
    struct gs_device_policy p = policy_of("mutex,topology-aware", NULL);

    (void)state;
    assert_true(p.is_mutex && p.is_topology && p.is_chain);
    p = policy_of("mutex", NULL);
    assert_true(p.is_mutex && !p.is_chain);
    p = policy_of("numa,spread,numa,spread,numa,spread,numa", NULL); /* each counts once */
    assert_true(p.n_chain == 2 && p.chain[0] == GS_ORDER_NUMA && p.chain[1] == GS_ORDER_SPREAD);
    p = policy_of("", NULL); /* the daemon's flag */
    assert_true(p.n_chain == 1 && p.chain[0] == GS_ORDER_SPREAD && !p.is_chain);
}

static float score(const struct gs_device_policy *p, const struct gs_device *dev,
                   const struct gs_use *use, const int32_t asked[3])
{
    return gs_order_score(p, dev, use, asked[0], asked[1], asked[2]);
}

/* A11 */
static void scores(void **state)
{
    const struct gs_device zero = {0}, half = {.count = 10, .cores = 4, .mem_mib = 8192};
    const struct gs_device idle = {.count = 10, .cores = 10, .mem_mib = 10000};
    const struct gs_device gpu_a = {.count = 10, .cores = 100, .mem_mib = 100};
    const struct gs_use none = {0}, two = {.slots = 2, .mem_mib = 2048, .cores = 1};
    const struct gs_use used_a = {.slots = 1, .mem_mib = 10, .cores = 90};
    const int32_t nothing[3] = {0}, whole[3] = {1, 2, 5000}, both[3] = {2, 3, 3000};
    const int32_t forty[3] = {1, 0, 40};
    struct gs_device_policy p = policy_of("binpack", NULL);

    (void)state;
    assert_float_equal(score(&p, &zero, &none, nothing), 0, 0);        /* 1 */
    assert_float_equal(score(&p, &half, &two, nothing), 7.0, 1e-5);    /* 2 */
    assert_float_equal(score(&p, &idle, &none, whole), 8.0, 1e-5);     /* 4: 50 % of 10000 */
    assert_float_equal(score(&p, &idle, &none, both), 8.0, 1e-5);      /* 5: 10 % and 20 % */
    assert_float_equal(score(&p, &gpu_a, &used_a, forty), 16, 1e-5);   /* 6 */
    assert_float_equal(score(&p, &gpu_a, &used_a, nothing), 11, 1e-5); /* 9 */
    p = policy_of("binpack", "slot=1,core=1,memory=3");
    assert_float_equal(score(&p, &gpu_a, &used_a, forty), 26, 1e-5);
    p = policy_of("binpack", "slot=1,core=3,memory=1");
    assert_float_equal(score(&p, &gpu_a, &used_a, forty), 34, 1e-5);
}

/* A12.1 and A12.5 */
static void node_scores(void **state)
{
    const struct gs_device dev = {.count = 10, .cores = 100, .mem_mib = 8000}, none = {0};
    const struct gs_device no_mem = {.count = 10, .cores = 100},
                           no_cores = {.count = 1, .mem_mib = 1},
                           no_count = {.cores = 1, .mem_mib = 1};
    const struct gs_use half = {.slots = 5, .mem_mib = 4000, .cores = 50}, idle = {0};
    struct gs_node node = {.dev = &dev, .use = &half, .n_dev = 1};

    (void)state;
    assert_float_equal(gs_node_score(&node), 15, 1e-9);
    node.use = &idle;
    assert_true(gs_node_score(&node) == 0); /* and no NaN */
    node.dev = &none;
    assert_true(gs_node_score(&node) == 0);
    node.dev = &no_mem;
    assert_true(gs_node_score(&node) == 0);
    node.dev = &no_cores;
    assert_true(gs_node_score(&node) == 0);
    node.dev = &no_count;
    assert_true(gs_node_score(&node) == 0);
    node.n_dev = 0;
    assert_true(gs_node_score(&node) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights), cmocka_unit_test(orders),      cmocka_unit_test(policies),
        cmocka_unit_test(scores),  cmocka_unit_test(node_scores),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
