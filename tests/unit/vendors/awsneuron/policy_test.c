#include "kit.h"

#include <errno.h>
#include <stdlib.h>

#include "model/request.h"
#include "vendors/awsneuron/policy/awsneuron.h"
#include "whole.h"
#include "yaml.h"

#define NEURON "aws.amazon.com/neuron"
#define CORE   "aws.amazon.com/neuroncore"

static void setup(struct kit *kit, const char *devices, const char *cores, const char *type)
{
    kit_init(kit, &gs_awsneuron_section, NULL, "AWSNeuron");
    kit_container(kit, "c0");
    kit_capacity(kit, NEURON, devices);
    if (cores != NULL)
        kit_capacity(kit, CORE, cores);
    if (type != NULL)
        kit_label_node(kit, "node.kubernetes.io/instance-type", type);
    assert_int_equal(kit_read_node(kit), 0);
}

static void want_split(int64_t cores, int32_t per, int32_t nums, int32_t each)
{
    struct gs_request r = {0};

    assert_int_equal(gs_awsneuron_split(GS_STR(CORE), cores, per, &r, NULL), 0);
    assert_int_equal(r.nums, nums);
    assert_int_equal(r.cores, each);
}

static void want_no_split(int64_t cores, int32_t per, const char *text)
{
    struct gs_request r = {0};
    struct gs_err err = {0};

    assert_int_equal(gs_awsneuron_split(GS_STR(CORE), cores, per, &r, &err), -EINVAL);
    assert_string_equal(err.text, text);
}

/* A13, "AWS split". "Per device 4: 4 is 2 x 2" holds for a request, which is read before a node is
 * known; on a node of four cores a device it is placed on one: test_stride(), test_grant(). */
static void test_split(void **state)
{
    (void)state;
    want_split(1, 2, 1, 1);
    want_split(2, 2, 1, 2);
    want_split(6, 2, 3, 2);
    want_no_split(3, 2, CORE " must be 1 or a multiple of 2, got 3");
    want_split(4, 4, 2, 2);
    want_split(4, 0, 2, 2);
    want_no_split(INT64_C(1) << 31, 1,
                  CORE " needs 2147483648 devices, which exceeds the maximum of 2147483647");
}

static void want_admit(const char *name, const char *value, bool as_request, int rc,
                       const char *text)
{
    struct kit kit;

    kit_init(&kit, &gs_awsneuron_section, NULL, "AWSNeuron");
    kit_container(&kit, "c0");
    if (as_request)
        kit_request(&kit, 0, name, value);
    else
        kit_limit(&kit, 0, name, value);
    assert_int_equal(kit_admit(&kit, 0), rc);
    assert_string_equal(kit.err.text, text);
    assert_int_equal(kit_ask(&kit, 0).nums > 0, rc == 1);
    assert_int_equal(kit.pod.n_edits, 0);
    kit_fini(&kit);
}

/* control-plane 2.3, "AWS Neuron" */
static void test_admit(void **state)
{
    (void)state;
    want_admit(NEURON, "2", false, 1, "");
    want_admit(NEURON, "2", true, 1, "");
    want_admit(NEURON, "2147483647", false, 1, "");
    want_admit(NEURON, "2147483648", true, -EINVAL, NEURON " must not exceed 2147483647");
    want_admit(NEURON, "100m", false, -EINVAL, NEURON " must be an integer");
    want_admit(NEURON, "0", false, -EINVAL, NEURON " must be greater than 0");
    want_admit(CORE, "1", false, 1, "");
    want_admit(CORE, "2", false, 1, "");
    want_admit(CORE, "3", false, -EINVAL, CORE " must be 1 or a multiple of 2, got 3");
    want_admit(CORE, "3", true, -EINVAL, CORE " must be 1 or a multiple of 2, got 3");
    want_admit(CORE, "0", false, -EINVAL, CORE " must be greater than 0");
    want_admit(CORE, "-2", false, -EINVAL, CORE " must be greater than 0");
    want_admit(CORE, "4294967294", false, 1, "");
    want_admit(CORE, "4294967296", false, -EINVAL, CORE " must not exceed 4294967294");
    want_admit("cpu", "2", false, 0, "");
}

/* control-plane 1.3 */
static void test_devices(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "2", "8", "inf1.6xlarge");
    assert_int_equal(kit.group.n, 2);
    assert_true(gs_str_eq_c(kit.node.dev[1].id, "node1-AWSNeuron-1"));
    assert_true(gs_str_eq_c(kit.node.dev[1].type, "AWSNeuron"));
    assert_int_equal(kit.node.dev[1].index, 1);
    assert_int_equal(kit.node.dev[1].count, 4);
    assert_int_equal(kit.node.dev[1].mem_mib, 0);
    assert_int_equal(kit.node.dev[1].cores, 15);
    assert_true(kit.node.dev[1].is_healthy);
    /* quirk 18: another node has its own number of cores */
    kit_capacity(&kit, CORE, "4");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.node.dev[0].cores, 3);
    kit_fini(&kit);
}

static void test_bad_nodes(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit, &gs_awsneuron_section, NULL, "AWSNeuron");
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_capacity(&kit, NEURON, "0");
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_capacity(&kit, NEURON, "-1");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_capacity(&kit, NEURON, "1000000000");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_capacity(&kit, NEURON, "2");
    kit_capacity(&kit, CORE, "3");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_capacity(&kit, CORE, "64");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_fini(&kit);
}

/* A3.10, and whole devices of 1.7 */
static void test_annotations(void **state)
{
    struct kit kit;
    struct gs_pairs p;

    (void)state;
    setup(&kit, "1", "2", "inf2.xlarge");
    kit_limit(&kit, 0, CORE, "2");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit.pick[0][0].cores, 3);
    assert_int_equal(kit.pick[0][0].mem_mib, 0);
    p = kit_write(&kit, INT64_C(1764460800123456789));
    assert_string_equal(kit_written(&kit, &p, "AWS_NEURON_IDS"), "0,1");
    assert_string_equal(kit_written(&kit, &p, "NEURON_RESOURCE_TYPE"), CORE);
    assert_string_equal(kit_written(&kit, &p, "NEURON_ALLOC_TIME"), "1764460800123456789");
    assert_string_equal(kit_written(&kit, &p, "NEURON_ALLOCATED"), "false");
    assert_string_equal(kit_written(&kit, &p, "aws.amazon.com/predicate-node"), "node1");
    assert_true(gs_str_eq_c(kit.policy->keys.allocated, "hami.io/aws-neuron-devices-allocated"));
    assert_int_equal(kit.policy->keys.to_allocate.n, 0);
    kit_fini(&kit);

    setup(&kit, "2", "4", "inf2.8xlarge");
    kit_limit(&kit, 0, NEURON, "2");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 2);
    p = kit_write(&kit, 1);
    assert_string_equal(kit_written(&kit, &p, "AWS_NEURON_IDS"), "0,1");
    assert_null(kit_written(&kit, &p, "NEURON_RESOURCE_TYPE"));
    kit_fini(&kit);
}

/* A19.24: of the four masks of free cores, which amounts fit, and which cores are given */
static void test_masks(void **state)
{
    static const struct {
        int32_t used, cores, got;
    } row[] = {{0, 2, 3}, {0, 1, 1}, {1, 1, 2}, {2, 1, 1}, {1, 2, 0}, {2, 2, 0}, {3, 1, 0}};
    struct kit kit;

    (void)state;
    setup(&kit, "1", "2", "inf2.xlarge");
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        kit.use[0] = (struct gs_use){.slots = row[i].used != 0, .cores = row[i].used};
        kit_unfit(&kit);
        kit.request[0] = (struct gs_request){.nums = 1, .cores = row[i].cores};
        if (row[i].got != 0) {
            assert_int_equal(kit_fit(&kit, 0), 1);
            assert_int_equal(kit.pick[0][0].cores, row[i].got);
        } else {
            assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
            assert_string_equal(kit_reasons(&kit), "1/1 CardInsufficientCore");
        }
    }
    kit_fini(&kit);
}

static void want_run(struct kit *kit, const char *devices, const char *chosen)
{
    kit_limit(kit, 0, NEURON, devices);
    kit_ask(kit, 0);
    kit_unfit(kit);
    if (chosen == NULL) {
        assert_int_equal(kit_fit(kit, 0), -ENOSPC);
        assert_string_equal(kit_reasons(kit), "1/16 NumaNotFit");
        return;
    }
    assert_true(kit_fit(kit, 0) > 0);
    assert_string_equal(kit_chosen(kit, 0), chosen);
}

/* control-plane 3.5, "AWS": rings and tori */
static void test_runs(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "16", "32", "trn1.32xlarge");
    want_run(&kit, "4", "0,1,2,3");
    want_run(&kit, "2", NULL);
    want_run(&kit, "17", NULL);
    kit.use[1].slots = 1;
    kit.use[1].cores = 1;
    want_run(&kit, "4", "4,5,6,7");
    want_run(&kit, "8", "8,9,10,11,12,13,14,15");
    want_run(&kit, "16", NULL);
    kit_fini(&kit);

    setup(&kit, "16", "32", "inf2.48xlarge");
    kit.use[1].slots = 1;
    kit.use[1].cores = 3;
    want_run(&kit, "3", "2,3,4");
    kit_device(&kit, 2)->is_healthy = false;
    want_run(&kit, "2", "3,4");
    kit_fini(&kit);
}

/* quirk 18: the same request on nodes of two and of four cores a device */
static void test_stride(void **state)
{
    struct kit kit;
    struct gs_pairs p;

    (void)state;
    setup(&kit, "2", "8", "inf1.6xlarge");
    kit.use[0] = (struct gs_use){.slots = 2, .cores = 15};
    kit.use[1] = (struct gs_use){.slots = 1, .cores = 1};
    kit_unfit(&kit);
    kit_limit(&kit, 0, CORE, "2");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit.pick[0][0].cores, 6);
    p = kit_write(&kit, 1);
    assert_string_equal(kit_written(&kit, &p, "AWS_NEURON_IDS"), "5,6");

    kit.use[0] = kit.use[1] = (struct gs_use){0};
    kit_unfit(&kit);
    kit_limit(&kit, 0, CORE, "4");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_int_equal(kit.pick[0][0].cores, 15);
    kit_unfit(&kit);
    kit_limit(&kit, 0, CORE, "6");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "2/2 ModeNotFit");
    kit_fini(&kit);
}

static void test_selection(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "4", "8", "inf2.24xlarge");
    kit_limit(&kit, 0, CORE, "1");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_string_equal(kit_chosen(&kit, 0), "3");
    kit_unfit(&kit);
    kit_annotate_pod(&kit, "aws.amazon.com/use-neuron-uuid", "node1-AWSNeuron-0");
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_string_equal(kit_chosen(&kit, 0), "0");
    kit_unfit(&kit);
    kit_annotate_pod(&kit, "aws.amazon.com/nouse-neuron-uuid", "node1-AWSNeuron-0");
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "4/4 CardUuidMismatch");
    kit_want_cordoned(&kit, 0);
    kit_fini(&kit);
}

/* A3.10 as a whole, and a node where the request comes to fewer devices than it names */
static void test_grant(void **state)
{
    struct kit kit;
    struct gs_pairs p;

    (void)state;
    setup(&kit, "1", "2", "inf2.xlarge");
    kit_limit(&kit, 0, CORE, "2");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/aws-neuron-devices-allocated"),
                        "node1-AWSNeuron-0,AWSNeuron,0,3:;");
    assert_string_equal(kit_written(&kit, &p, "AWS_NEURON_IDS"), "0,1");
    kit_limit(&kit, 0, CORE, "4");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "NodeInsufficientDevice");
    kit_fini(&kit);

    setup(&kit, "1", "4", "inf1.xlarge");
    kit_limit(&kit, 0, CORE, "4");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/aws-neuron-devices-allocated"),
                        "node1-AWSNeuron-0,AWSNeuron,0,15:;");
    assert_string_equal(kit_written(&kit, &p, "AWS_NEURON_IDS"), "0,1,2,3");
    kit_fini(&kit);
}

/* Whatever comes and goes, no core is given twice, and masks of a pod add up to what it holds. */
static void test_no_core_twice(void **state)
{
    unsigned seed = 20261130;
    int32_t held[16] = {0};
    struct kit kit;

    (void)state;
    print_message("seed %u\n", seed);
    setup(&kit, "16", "64", "inf1.24xlarge");
    for (int step = 0; step < 20000; step++) {
        size_t at = (size_t)rand_r(&seed) % 16;

        if (rand_r(&seed) % 2 == 0) {
            int32_t gone = held[at] & (int32_t)rand_r(&seed);

            held[at] &= ~gone;
            kit.use[at].cores -= gone;
            kit.use[at].slots = held[at] != 0;
        }
        kit.request[0] = (struct gs_request){.nums = 1 + rand_r(&seed) % 4,
                                             .cores = 1 + rand_r(&seed) % 2,
                                             .form = (uint8_t)(rand_r(&seed) % 2)};
        kit_unfit(&kit);
        if (kit_fit(&kit, 0) < 0)
            continue;
        for (size_t i = 0; i < kit.n_picks[0]; i++) {
            const struct gs_pick *pick = &kit.pick[0][i];

            assert_int_equal(held[pick->dev] & pick->cores, 0);
            assert_int_equal(pick->cores & ~15, 0);
            assert_true(pick->cores != 0);
            held[pick->dev] |= pick->cores;
            kit.use[pick->dev].cores += pick->cores;
            kit.use[pick->dev].slots++;
        }
        for (size_t i = 0; i < 16; i++)
            assert_int_equal(kit.use[i].cores, held[i]);
    }
    kit_fini(&kit);
}

/* control-plane 4.1: a key that is missing has the chart's name, "" switches it off */
static void test_section(void **state)
{
    struct kit kit;

    (void)state;
    kit_init(&kit, &gs_awsneuron_section, NULL, "AWSNeuron");
    assert_true(gs_str_eq_c(kit.policy->names.count, NEURON));
    assert_true(gs_str_eq_c(kit.policy->names.core, CORE));
    kit_fini(&kit);

    yaml_kit(&kit, &gs_awsneuron_section,
             "resourceCountName: example.com/n\nresourceCoreName: \"\"\n", "AWSNeuron");
    kit_container(&kit, "c0");
    kit_limit(&kit, 0, CORE, "1");
    assert_int_equal(kit_admit(&kit, 0), 0);
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    kit_limit(&kit, 0, "example.com/n", "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    kit_fini(&kit);
}

static void test_no_memory(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "2", "4", "inf2.8xlarge");
    kit_limit(&kit, 0, CORE, "2");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    kit_no_memory(&kit, &gs_awsneuron_section);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),         cmocka_unit_test(test_admit),
        cmocka_unit_test(test_devices),       cmocka_unit_test(test_bad_nodes),
        cmocka_unit_test(test_annotations),   cmocka_unit_test(test_masks),
        cmocka_unit_test(test_runs),          cmocka_unit_test(test_stride),
        cmocka_unit_test(test_selection),     cmocka_unit_test(test_section),
        cmocka_unit_test(test_no_memory),     cmocka_unit_test(test_grant),
        cmocka_unit_test(test_no_core_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
