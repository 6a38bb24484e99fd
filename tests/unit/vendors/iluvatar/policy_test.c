#include "whole.h"
#include "yaml.h"

#include <errno.h>

#include "model/request.h"
#include "vendors/iluvatar/policy/iluvatar.h"

#define V150 "iluvatar.ai/BI-V150"

static void setup(struct kit *kit)
{
    kit_init(kit, &gs_iluvatar_section, NULL, "BI-V150");
    kit_container(kit, "c0");
}

/* control-plane 1.2, 1.3, 4.1 */
static void test_names(void **state)
{
    static const char *const word[] = {"MR-V100", "MR-V50", "BI-V150", "BI-V100"};
    struct kit kit;

    (void)state;
    setup(&kit);
    assert_int_equal(kit.policies.n, 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(kit.policies.at[i]->word, word[i]);
    assert_true(gs_str_eq_c(kit.policy->names.count, V150 "-vgpu"));
    assert_true(gs_str_eq_c(kit.policy->names.mem, V150 ".vMem"));
    assert_true(gs_str_eq_c(kit.policy->names.core, V150 ".vCore"));
    assert_true(gs_str_eq_c(kit.policy->keys.to_allocate, "hami.io/BI-V150-devices-to-allocate"));
    assert_true(gs_str_eq_c(kit.policy->keys.allocated, "hami.io/BI-V150-devices-allocated"));
    assert_true(gs_str_eq_c(kit.policy->keys.node_register, "hami.io/node-BI-V150-register"));
    assert_true(gs_str_eq_c(kit.policy->keys.handshake, "hami.io/node-handshake-BI-V150"));
    assert_true(gs_str_eq_c(kit.policy->keys.use_uuid, "hami.io/use-BI-V150-uuid"));
    assert_true(gs_str_eq_c(kit.policy->keys.nouse_uuid, "hami.io/no-use-BI-V150-uuid"));
    assert_string_equal(gs_iluvatar_section.opt_in, "iluvatar");
    kit_fini(&kit);
}

/* control-plane 2.3 */
static void test_admit(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    assert_int_equal(kit_admit(&kit, 0), 0);
    kit_request(&kit, 0, V150 "-vgpu", "1"); /* limits alone count */
    assert_int_equal(kit_admit(&kit, 0), 0);
    assert_int_equal(kit.pod.n_edits, 0);
    kit_limit(&kit, 0, V150 "-vgpu", "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_null(kit_limit_of(&kit, 0, V150 ".vCore"));
    assert_int_equal(kit.container[0].env.n, 1);
    assert_true(gs_str_eq_c(kit.container[0].env.at[0].key, "SOL_CONTINER_NAME"));
    assert_true(gs_str_eq_c(kit.container[0].env.at[0].value, "c0"));
    kit.container[0].env.at[0].value = GS_STR("mine");
    kit_limit(&kit, 0, V150 "-vgpu", "3");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_limit_of(&kit, 0, V150 ".vCore"), "300");
    assert_true(gs_str_eq_c(kit.container[0].env.at[0].value, "mine"));
    kit_limit(&kit, 0, V150 "-vgpu", "4294967296");
    assert_int_equal(kit_admit(&kit, 0), -EINVAL);
    kit_fini(&kit);
}

/* control-plane 3.5: memory in units of 256 MiB, cores 0 by default and 100 of each card at most */
static void test_request(void **state)
{
    struct gs_request r;
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_limit(&kit, 0, V150 "-vgpu", "2");
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, 2);
    assert_int_equal(r.mem_mib, 0);
    assert_int_equal(r.mem_pct, 100);
    assert_int_equal(r.cores, 0);
    kit_limit(&kit, 0, V150 ".vMem", "64");
    kit_limit(&kit, 0, V150 ".vCore", "200");
    r = kit_ask(&kit, 0);
    assert_int_equal(r.mem_mib, 16384);
    assert_int_equal(r.cores, 100);
    kit_limit(&kit, 0, V150 ".vMem", "8388608"); /* times 256 is 2^31 */
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    kit_limit(&kit, 0, V150 ".vMem", "-1");
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    kit_fini(&kit);
}

/* control-plane 1.3, 1.4: text of nine fields or of seven, here in one annotation */
static void test_register(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_annotate_node(&kit, "hami.io/node-BI-V150-register",
                      "GPU-a,10,32768,100,BI-V150,0,true,0,hami-core:"
                      "GPU-b,10,32768,100,BI-V150,1,false,1,hami-core:");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 2);
    assert_true(gs_str_eq_c(kit.node.dev[1].id, "GPU-b"));
    assert_int_equal(kit.node.dev[1].count, 10);
    assert_int_equal(kit.node.dev[1].mem_mib, 32768);
    assert_int_equal(kit.node.dev[1].numa, 1);
    assert_int_equal(kit.node.dev[1].index, 1);
    assert_false(kit.node.dev[1].is_healthy);
    kit_limit(&kit, 0, V150 "-vgpu", "1");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_string_equal(kit_chosen(&kit, 0), "0");
    assert_int_equal(kit.pick[0][0].mem_mib, 32768);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/2 CardInsufficientMemory, 1/2 CardNotHealth");
    kit_annotate_node(&kit, "hami.io/node-BI-V150-register", "GPU-a,10:");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_fini(&kit);
}

/* Exclusive at 100 percent (3.5, check 12). */
static void test_exclusive(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_annotate_node(&kit, "hami.io/node-BI-V150-register", "GPU-a,10,32768,100,BI-V150,0,true:");
    assert_int_equal(kit_read_node(&kit), 0);
    kit.use[0] = (struct gs_use){.slots = 1, .mem_mib = 256};
    kit_unfit(&kit);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_mib = 256, .cores = 100};
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 ExclusiveDeviceAllocateConflict");
    kit_fini(&kit);
}

/* Two cards, admitted and placed; the user's UUIDs (3.5, selection annotations). */
static void test_grant(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_annotate_node(&kit, "hami.io/node-BI-V150-register",
                      "a,10,32768,100,BI-V150,0,true:b,10,32768,100,BI-V150,0,true,1,x:"
                      "c,10,32768,100,BI-V150,0,true,2,x:");
    assert_int_equal(kit_read_node(&kit), 0);
    kit_limit(&kit, 0, V150 "-vgpu", "2");
    assert_int_equal(kit_admit(&kit, 0), 1);
    kit_annotate_pod(&kit, "hami.io/no-use-BI-V150-uuid", "c");
    assert_int_equal(whole_place(&kit, NULL, 0, &pairs), 0);
    assert_string_equal(kit_written(&kit, &pairs, "hami.io/BI-V150-devices-to-allocate"),
                        "b,BI-V150,32768,100:a,BI-V150,32768,100:;");
    assert_string_equal(kit_written(&kit, &pairs, "hami.io/BI-V150-devices-allocated"),
                        "b,BI-V150,32768,100:a,BI-V150,32768,100:;");
    kit_annotate_pod(&kit, "hami.io/use-BI-V150-uuid", "b");
    assert_int_equal(whole_place(&kit, NULL, 0, &pairs), -ENOSPC);
    assert_string_equal(kit_reasons(&kit),
                        "1/3 AllocatedCardsInsufficientRequest, 2/3 CardUuidMismatch");
    kit_fini(&kit);
}

static void test_configuration(void **state)
{
    static const char text[] = "- {chipName: BI-V150, commonWord: BI, resourceMemoryName: ''}\n"
                               "- {chipName: MR-V50, resourceCountName: a.b/c}\n";
    struct yaml yaml;
    struct kit kit;

    (void)state;
    yaml_load(&yaml, gs_iluvatar_section.schema, text);
    kit_init(&kit, &gs_iluvatar_section, &yaml.list, "BI");
    assert_true(gs_str_eq_c(kit.policy->names.count, V150 "-vgpu"));
    assert_int_equal(kit.policy->names.mem.n, 0);
    assert_string_equal(kit.policies.at[1]->word, "MR-V50");
    assert_true(gs_str_eq_c(kit.policies.at[1]->names.count, "a.b/c"));
    assert_int_equal(
        gs_iluvatar_section.make(&yaml.list, false, &kit.arena, &kit.policies, &kit.err), -EINVAL);
    assert_string_equal(kit.err.text, "iluvatars: two entries have the commonWord BI");
    yaml_unload(&yaml);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),         cmocka_unit_test(test_admit),
        cmocka_unit_test(test_request),       cmocka_unit_test(test_register),
        cmocka_unit_test(test_exclusive),     cmocka_unit_test(test_grant),
        cmocka_unit_test(test_configuration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
