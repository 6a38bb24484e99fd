/* Cambricon MLU. V-M5, V-M6 and V-M9 of the collected vectors are the device plugin's, V-M7 and
 * V-M8 the node lock's. */

#include "kit.h"
#include "whole.h"
#include "yaml.h"

#include <errno.h>
#include <string.h>

#include "model/request.h"
#include "vendors/cambricon/policy/cambricon.h"

#define COUNT      "cambricon.com/vmlu"
#define LONG_MEM   "cambricon.com/mlu.smlu.vmemory"
#define LONG_CORE  "cambricon.com/mlu.smlu.vcore"
#define SHORT_MEM  "cambricon.com/vmemory"
#define SHORT_CORE "cambricon.com/vcore"

static void setup(struct kit *kit, const struct gs_cambricon_conf *conf)
{
    kit_init(kit, &gs_cambricon_section, conf, "MLU");
    kit_container(kit, "c0");
}

static void want_request(const char *mem_name, const char *mem, const char *core_name,
                         const char *cores, const int32_t *want)
{
    struct gs_request r;
    struct kit kit;

    setup(&kit, NULL);
    kit_limit(&kit, 0, COUNT, "1");
    if (mem != NULL)
        kit_limit(&kit, 0, mem_name, mem);
    if (cores != NULL)
        kit_limit(&kit, 0, core_name, cores);
    assert_int_equal(kit_admit(&kit, 0), want != NULL ? 1 : -EINVAL);
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, want != NULL ? 1 : 0);
    if (want != NULL) {
        assert_int_equal(r.mem_mib, want[0]);
        assert_int_equal(r.mem_pct, want[1]);
        assert_int_equal(r.cores, want[2]);
    }
    kit_fini(&kit);
}

#define WANT(...) ((const int32_t[3]){__VA_ARGS__})

static void test_requests(void **state)
{
    struct kit kit;

    (void)state;
    want_request(LONG_MEM, "20", LONG_CORE, "10", WANT(5120, 0, 10)); /* V-M1 */
    want_request(SHORT_MEM, "20", SHORT_CORE, "10", WANT(5120, 0, 10));
    want_request(SHORT_MEM, "20", LONG_CORE, "10", WANT(5120, 0, 10)); /* one each is no conflict */
    want_request(NULL, NULL, NULL, NULL, WANT(0, 100, 100));           /* V-M4 */
    want_request(LONG_MEM, "0.5", NULL, NULL, NULL);                   /* V-M3 */
    want_request(SHORT_MEM, "0.5", NULL, NULL, NULL);
    want_request(LONG_MEM, "8388608", NULL, NULL, NULL);
    want_request(SHORT_MEM, "8388608", NULL, NULL, NULL);
    want_request(LONG_MEM, "8388607", NULL, NULL, WANT(8388607 * 256, 0, 100));
    want_request(NULL, NULL, SHORT_CORE, "1.5", NULL);
    setup(&kit, NULL); /* limits, else requests */
    kit_request(&kit, 0, COUNT, "2");
    kit_request(&kit, 0, SHORT_MEM, "1");
    assert_int_equal(kit_ask(&kit, 0).nums, 2);
    assert_int_equal(kit_ask(&kit, 0).mem_mib, 256);
    assert_int_equal(kit_admit(&kit, 0), 0); /* the limits' count makes it ours */
    kit_fini(&kit);
}

static void test_two_spellings(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_limit(&kit, 0, COUNT, "1");
    kit_limit(&kit, 0, LONG_MEM, "20");
    kit_request(&kit, 0, SHORT_MEM, "20");
    assert_int_equal(kit_admit(&kit, 0), -EINVAL);
    assert_string_equal(kit.err.text, "container c0 asks for both " LONG_MEM " and " SHORT_MEM
                                      ": they are one resource");
    kit_fini(&kit);
    setup(&kit, NULL);
    kit_limit(&kit, 0, LONG_CORE, "20");
    kit_limit(&kit, 0, SHORT_CORE, "20");
    assert_int_equal(kit_admit(&kit, 0), -EINVAL);
    kit_fini(&kit);
    /* the configuration's spelling is the first, the other goes with it */
    setup(&kit, &(struct gs_cambricon_conf){.mem = (char[]){SHORT_MEM}, .core = (char[]){""}});
    assert_true(gs_str_eq_c(kit.policy->names.mem, SHORT_MEM));
    assert_true(gs_str_eq_c(kit.policy->names.mem2, LONG_MEM));
    assert_int_equal(kit.policy->names.core.n, 0);
    assert_int_equal(kit.policy->names.core2.n, 0);
    kit_fini(&kit);
}

static void test_capacity(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_capacity(&kit, LONG_CORE, "200"); /* V-M2 */
    kit_capacity(&kit, LONG_MEM, "182");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct gs_device *dev = &kit.node.dev[i];

        assert_true(
            gs_str_eq_c(dev->id, i == 0 ? "node1-cambricon-mlu-0" : "node1-cambricon-mlu-1"));
        assert_int_equal(dev->mem_mib, 23296);
        assert_int_equal(dev->cores, 100);
        assert_int_equal(dev->count, 100);
        assert_int_equal(dev->index, i);
        assert_true(gs_str_eq_c(dev->type, "MLU"));
        assert_true(dev->is_healthy);
    }
    kit_capacity(&kit, LONG_CORE, "250"); /* a part of a card is one */
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 3);
    kit_capacity(&kit, LONG_CORE, "1");
    kit_capacity(&kit, LONG_MEM, "8388608");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_capacity(&kit, LONG_CORE, "9223372036854775807");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_capacity(&kit, LONG_CORE, "-100");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_fini(&kit);
    setup(&kit, NULL);
    kit_capacity(&kit, SHORT_CORE, "100");
    kit_capacity(&kit, SHORT_MEM, "91");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.node.dev[0].mem_mib, 23296);
    kit_fini(&kit);
}

/* V-S2, the example with a shortened id: an unhealthy card of no cores is never chosen; the
 * annotation beats the capacity. */
static void test_register(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_capacity(&kit, LONG_CORE, "200");
    kit_capacity(&kit, LONG_MEM, "182");
    kit_annotate_node(&kit, "hami.io/node-mlu-register",
                      "MLU-45013011-...,10,23308,0,MLU-370-X4,0,false");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 1);
    assert_true(gs_str_eq_c(kit.node.dev[0].id, "MLU-45013011-..."));
    assert_int_equal(kit.node.dev[0].count, 10);
    assert_int_equal(kit.node.dev[0].mem_mib, 23308);
    assert_int_equal(kit.node.dev[0].cores, 0);
    assert_true(gs_str_eq_c(kit.node.dev[0].type, "MLU-370-X4"));
    assert_false(kit.node.dev[0].is_healthy);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 256};
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 CardNotHealth");
    kit_annotate_node(&kit, "hami.io/node-mlu-register", "MLU,10,much,0,MLU-370-X4,0,true");
    assert_int_equal(kit_read_node(&kit), -EINVAL); /* and not the capacity instead */
    kit_fini(&kit);
}

static void test_choice_of_the_pod(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_annotate_node(&kit, "hami.io/node-mlu-register",
                      "A,10,23308,100,MLU-370-X4,0,true,0,:B,10,23308,100,MLU-590,0,true,1,:");
    assert_int_equal(kit_read_node(&kit), 0);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_pct = 100, .cores = 100};
    kit_annotate_pod(&kit, "cambricon.com/use-mlutype", "mlu-370");
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_string_equal(kit_chosen(&kit, 0), "0");
    kit_unfit(&kit);
    kit_annotate_pod(&kit, "cambricon.com/use-mlutype", "");
    kit_annotate_pod(&kit, "cambricon.com/nouse-mlutype", "590");
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_string_equal(kit_chosen(&kit, 0), "0");
    kit_unfit(&kit);
    kit_annotate_pod(&kit, "cambricon.com/nouse-gpuuuid", "A");
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/2 CardTypeMismatch, 1/2 CardUuidMismatch");
    kit_fini(&kit);
}

/* What the node answers to a pod that uses these names; NULL: it takes it. */
static void want_answer(const char *node_mem, const char *node_core, const char *pod_mem,
                        const char *pod_core, const char *reasons)
{
    struct gs_pairs pairs;
    struct kit kit;

    setup(&kit, NULL);
    if (node_mem != NULL)
        kit_capacity(&kit, node_mem, "182");
    if (node_core != NULL)
        kit_capacity(&kit, node_core, "200");
    if (node_mem == NULL)
        kit_annotate_node(&kit, "hami.io/node-mlu-register",
                          "A,10,23308,100,MLU-370-X4,0,true:B,10,23308,100,MLU-370-X4,0,true:");
    assert_int_equal(kit_read_node(&kit), 0);
    kit_limit(&kit, 0, COUNT, "1");
    if (pod_mem != NULL)
        kit_limit(&kit, 0, pod_mem, "20");
    if (pod_core != NULL)
        kit_limit(&kit, 0, pod_core, "10");
    assert_int_equal(whole_place(&kit, NULL, 1, &pairs), reasons != NULL ? -ENOSPC : 0);
    if (reasons != NULL)
        assert_string_equal(kit_reasons(&kit), reasons);
    kit_fini(&kit);
}

/* A plugin advertises one spelling; under the other one the kubelet asks it for nothing. */
static void test_spelling_of_the_node(void **state)
{
    static const char no[] = "2/2 ModeNotFit";

    (void)state;
    want_answer(LONG_MEM, LONG_CORE, LONG_MEM, LONG_CORE, NULL);
    want_answer(LONG_MEM, LONG_CORE, SHORT_MEM, SHORT_CORE, no);
    want_answer(LONG_MEM, LONG_CORE, LONG_MEM, SHORT_CORE, no);
    want_answer(LONG_MEM, LONG_CORE, SHORT_MEM, NULL, no);
    want_answer(LONG_MEM, LONG_CORE, NULL, NULL, NULL); /* a whole card, by its count alone */
    want_answer(SHORT_MEM, SHORT_CORE, SHORT_MEM, SHORT_CORE, NULL);
    want_answer(SHORT_MEM, SHORT_CORE, LONG_MEM, NULL, no);
    want_answer(SHORT_MEM, SHORT_CORE, NULL, LONG_CORE, no);
    /* older plugins that register and advertise neither */
    want_answer(NULL, NULL, SHORT_MEM, SHORT_CORE, NULL);
    want_answer(NULL, NULL, LONG_MEM, LONG_CORE, NULL);
    want_answer(NULL, SHORT_CORE, LONG_MEM, LONG_CORE, no);
}

static void want_written(struct kit *kit, const char *profile)
{
    struct gs_pairs pairs = kit_write(kit, 0);

    assert_int_equal(pairs.n, 3);
    assert_string_equal(kit_written(kit, &pairs, "CAMBRICON_DSMLU_PROFILE"), profile);
    assert_string_equal(kit_written(kit, &pairs, "CAMBRICON_DSMLU_ASSIGNED"), "false");
    assert_string_equal(kit_written(kit, &pairs, "CAMBRICON_DSMLU_ASSIGHED"), "false");
}

static void test_annotations(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_capacity(&kit, SHORT_CORE, "100");
    kit_capacity(&kit, SHORT_MEM, "1000");
    assert_int_equal(kit_read_node(&kit), 0);
    kit_limit(&kit, 0, COUNT, "1");
    kit_limit(&kit, 0, SHORT_CORE, "10");
    kit_limit(&kit, 0, SHORT_MEM, "20");
    assert_int_equal(kit_ask(&kit, 0).nums, 1);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit.pick[0][0].mem_mib, 5120);
    want_written(&kit, "0_10_20"); /* V-M1 */
    kit_unfit(&kit);
    assert_int_equal(kit_write(&kit, 0).n, 0);
    kit_container(&kit, "c1"); /* A3.8: the first container is empty */
    kit.request[1] = (struct gs_request){.nums = 1, .mem_mib = 256000, .cores = 1};
    assert_int_equal(kit_fit(&kit, 1), 1);
    want_written(&kit, "0_1_1000");
    kit_fini(&kit);
}

/* A3.8 through the whole of the model */
static void test_whole(void **state)
{
    struct gs_pairs p;
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_container(&kit, "c1");
    kit_annotate_node(&kit, "hami.io/node-mlu-register", "device-0,10,512000,100,MLU-590,0,true:");
    assert_int_equal(kit_read_node(&kit), 0);
    kit_limit(&kit, 1, COUNT, "1");
    kit_limit(&kit, 1, LONG_MEM, "1000");
    kit_limit(&kit, 1, LONG_CORE, "1");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/cambricon-mlu-devices-allocated"),
                        ";device-0,MLU,256000,1:;");
    assert_string_equal(kit_written(&kit, &p, "hami.io/cambricon-mlu-devices-to-allocate"),
                        ";device-0,MLU,256000,1:;");
    assert_string_equal(kit_written(&kit, &p, "CAMBRICON_DSMLU_PROFILE"), "0_1_1000");
    assert_string_equal(kit_written(&kit, &p, "CAMBRICON_DSMLU_ASSIGNED"), "false");
    kit_fini(&kit);
}

static void test_section(void **state)
{
    static const char text[] = "resourceCountName: cambricon.com/mlu\n";
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_cambricon_section, text, "MLU");
    assert_true(gs_str_eq_c(kit.policy->names.count, "cambricon.com/mlu"));
    assert_true(gs_str_eq_c(kit.policy->names.mem, LONG_MEM));
    assert_true(gs_str_eq_c(kit.policy->names.mem2, SHORT_MEM));
    assert_int_equal(kit.policy->quota_factor, 256); /* A18.10 counts in these units */
    assert_true(gs_str_eq_c(kit.policy->keys.lock, "cambricon.com/dsmlu.lock")); /* V-M7 */
    kit_fini(&kit);
}

static void test_no_memory(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_capacity(&kit, LONG_CORE, "200");
    kit_no_memory(&kit, &gs_cambricon_section);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_two_spellings),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_register),
        cmocka_unit_test(test_annotations),
        cmocka_unit_test(test_spelling_of_the_node),
        cmocka_unit_test(test_choice_of_the_pod),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_section),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
