#include "whole.h"
#include "yaml.h"

#include <errno.h>

#include "model/request.h"
#include "vendors/mthreads/policy/mthreads.h"

#define COUNT "mthreads.com/vgpu"
#define MEM   "mthreads.com/sgpu-memory"
#define CORE  "mthreads.com/sgpu-core"

static void setup(struct kit *kit)
{
    kit_init(kit, &gs_mthreads_section, NULL, "Mthreads");
    kit_container(kit, "c0");
}

static void node_of(struct kit *kit, const char *cores, const char *units)
{
    kit_capacity(kit, CORE, cores);
    kit_capacity(kit, MEM, units);
    assert_int_equal(kit_read_node(kit), 0);
}

/* A14.13 */
static void test_admit_many(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_limit(&kit, 0, COUNT, "2");
    kit_request(&kit, 0, MEM, "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_limit_of(&kit, 0, CORE), "32");
    assert_string_equal(kit_limit_of(&kit, 0, MEM), "192");
    assert_string_equal(kit_request_of(&kit, 0, MEM), "192"); /* limits and requests agree */
    assert_null(kit_request_of(&kit, 0, CORE));
    assert_string_equal(kit_annotation_of(&kit, "mthreads.com/request-gpu-num"), "2");
    kit_fini(&kit);
}

/* control-plane 2.3: a whole card in units, or a slice of one of seven sizes */
static void test_admit_one(void **state)
{
    static const char *const good[] = {"2", "4", "8", "16", "32", "64", "96"};
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_limit(&kit, 0, COUNT, "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_limit_of(&kit, 0, CORE), "16");
    assert_string_equal(kit_limit_of(&kit, 0, MEM), "96");
    assert_null(kit_annotation_of(&kit, "mthreads.com/request-gpu-num"));
    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
        kit_limit(&kit, 0, MEM, good[i]);
        assert_int_equal(kit_admit(&kit, 0), 1);
        assert_string_equal(kit_limit_of(&kit, 0, MEM), good[i]);
    }
    kit_fini(&kit);
}

static void want_refused(const char *count, const char *mem, const char *text)
{
    struct kit kit;

    setup(&kit);
    kit_limit(&kit, 0, COUNT, count);
    if (mem != NULL)
        kit_limit(&kit, 0, MEM, mem);
    assert_int_equal(kit_admit(&kit, 0), -EINVAL);
    assert_string_equal(kit.err.text, text);
    assert_int_equal(kit.pod.n_edits, 0);
    kit_fini(&kit);
}

/* A14.15 */
static void test_refusals(void **state)
{
    (void)state;
    want_refused(
        "1", "3",
        "sGPU memory request value is invalid, valid values are [2, 4, 8, 16, 32, 64, 96]");
    want_refused("0", NULL, COUNT " must be greater than 0");
    want_refused("-1", NULL, COUNT " must be greater than 0");
    want_refused("500m", NULL, COUNT " must be an integer of at most 43690");
    want_refused("43691", NULL, COUNT " must be an integer of at most 43690"); /* MiB: 2^31 */
}

/* control-plane 3.5: amounts are of all cards together */
static void test_request(void **state)
{
    struct gs_request r;
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_limit(&kit, 0, COUNT, "2");
    assert_int_equal(kit_admit(&kit, 0), 1);
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, 2);
    assert_int_equal(r.mem_mib, 49152);
    assert_int_equal(r.cores, 16);
    kit_fini(&kit);
    setup(&kit);
    kit_request(&kit, 0, COUNT, "1");
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, 1);
    assert_int_equal(r.mem_mib, 0);
    assert_int_equal(r.mem_pct, 100);
    assert_int_equal(r.cores, 0);
    kit_limit(&kit, 0, MEM, "4194304"); /* times 512 is 2^31 */
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    kit_fini(&kit);
}

/* control-plane 1.3 */
static void test_devices(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    node_of(&kit, "32", "192");
    assert_int_equal(kit.group.n, 2);
    assert_true(gs_str_eq_c(kit.node.dev[1].id, "node1-mthreads-1"));
    assert_true(gs_str_eq_c(kit.node.dev[1].type, "Mthreads"));
    assert_int_equal(kit.node.dev[1].index, 1);
    assert_int_equal(kit.node.dev[1].count, 100);
    assert_int_equal(kit.node.dev[1].mem_mib, 49152); /* 192 * 512 * 16 / 32 */
    assert_int_equal(kit.node.dev[1].cores, 16);
    assert_true(kit.node.dev[1].is_healthy);
    node_of(&kit, "33", "192"); /* rounded up */
    assert_int_equal(kit.group.n, 3);
    kit_capacity(&kit, CORE, "100m");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_capacity(&kit, CORE, "-16");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_capacity(&kit, CORE, "2000000000"); /* more cards than a node may have */
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_capacity(&kit, CORE, "1");
    kit_capacity(&kit, MEM, "2147483647"); /* more MiB than int32 */
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_fini(&kit);
}

/* control-plane 3.5, check 14: the pod's containers share their card */
static void test_same_device(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_container(&kit, "c1");
    node_of(&kit, "32", "192");
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 16384, .cores = 4};
    kit.request[1] = kit.request[0];
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit_fit(&kit, 1), 1);
    assert_string_equal(kit_chosen(&kit, 0), "1");
    assert_string_equal(kit_chosen(&kit, 1), "1");
    kit_unfit(&kit);
    kit.request[1].mem_mib = 40960; /* no room left beside the first container */
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit_fit(&kit, 1), -ENOSPC);
    assert_string_equal(kit_reasons(&kit),
                        "1/2 CardInsufficientMemory, 1/2 CardNotFoundCustomFilterRule");
    kit_fini(&kit);
}

/* A3.12 and control-plane 1.7 */
static void test_write(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit);
    node_of(&kit, "16", "96");
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 1000, .cores = 1};
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit.pick[0][0].mem_mib, 1000);
    assert_int_equal(kit.pick[0][0].cores, 1);
    pairs = kit_write(&kit, INT64_C(1700000000123456789));
    assert_int_equal(pairs.n, 3);
    assert_string_equal(kit_written(&kit, &pairs, "mthreads.com/gpu-index"), "0");
    assert_string_equal(kit_written(&kit, &pairs, "mthreads.com/predicate-node"), "node1");
    assert_string_equal(kit_written(&kit, &pairs, "mthreads.com/predicate-time"),
                        "1700000000123456789");
    assert_int_equal(kit.policy->keys.to_allocate.n, 0); /* never written */
    assert_true(gs_str_eq_c(kit.policy->keys.allocated, "hami.io/mthreads-vgpu-devices-allocated"));
    kit_fini(&kit);

    setup(&kit);
    kit_container(&kit, "c1");
    kit_container(&kit, "c2");
    node_of(&kit, "48", "288");
    kit.request[1] = (struct gs_request){.nums = 2, .mem_mib = 49152, .cores = 16};
    assert_int_equal(kit_fit(&kit, 1), 2);
    pairs = kit_write(&kit, 0);
    assert_string_equal(kit_written(&kit, &pairs, "mthreads.com/gpu-index"), "2,1");
    kit_fini(&kit);
}

/* A3.12 whole, but for its id ("test1", of a device that HAMi's test makes by hand): one grant text
 * alone is written */
static void test_grant(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit);
    node_of(&kit, "16", "96");
    kit_limit(&kit, 0, COUNT, "1");
    kit_limit(&kit, 0, MEM, "2");
    kit_limit(&kit, 0, CORE, "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_int_equal(whole_place(&kit, NULL, 5, &pairs), 0);
    assert_string_equal(kit_written(&kit, &pairs, "hami.io/mthreads-vgpu-devices-allocated"),
                        "node1-mthreads-0,Mthreads,1024,1:;");
    assert_null(kit_written(&kit, &pairs, "hami.io/mthreads-vgpu-devices-to-allocate"));
    assert_string_equal(kit_written(&kit, &pairs, "mthreads.com/gpu-index"), "0");
    assert_string_equal(kit_written(&kit, &pairs, "mthreads.com/predicate-time"), "5");
    kit_fini(&kit);
}

static void test_configuration(void **state)
{
    static const char text[] = "{resourceCountName: a/b, resourceCoreName: ''}";
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_mthreads_section, text, "Mthreads");
    assert_true(gs_str_eq_c(kit.policy->names.count, "a/b"));
    assert_true(gs_str_eq_c(kit.policy->names.mem, MEM));
    assert_int_equal(kit.policy->names.core.n, 0);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_admit_many),    cmocka_unit_test(test_admit_one),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_request),
        cmocka_unit_test(test_devices),       cmocka_unit_test(test_same_device),
        cmocka_unit_test(test_write),         cmocka_unit_test(test_grant),
        cmocka_unit_test(test_configuration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
