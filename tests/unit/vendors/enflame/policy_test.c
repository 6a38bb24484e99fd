#include "kit.h"

#include <errno.h>

#include "model/request.h"
#include "vendors/enflame/policy/drs_profile.h"
#include "vendors/enflame/policy/enflame.h"
#include "whole.h"
#include "yaml.h"

#define GCU      "enflame.com/gcu"
#define DRS      "enflame.com/drs-gcu"
#define MEM      "enflame.com/gcu-memory"
#define CORE     "enflame.com/gcu-core"
#define CAPACITY "enflame.com/gcu-drs-capacity"

/* the example of control-plane 1.7 */
#define PROFILES "\"profiles\":{\"1g.6gb\":\"0\",\"3g.20gb\":\"1\",\"6g.40gb\":\"2\"}}"
static const char example[] =
    "{\"devices\":[{\"index\":\"0\",\"minor\":\"0\",\"capacity\":6}]," PROFILES;

static void setup(struct kit *kit, const char *word, const char *capacity)
{
    kit_init(kit, &gs_enflame_section, NULL, word);
    kit_container(kit, "pod-gcu-example1");
    kit_container(kit, "c1");
    if (capacity != NULL) {
        kit_annotate_node(kit, CAPACITY, capacity);
        assert_int_equal(kit_read_node(kit), 0);
    }
}

static void want_request(struct gs_request r, int32_t nums, int32_t mem, int32_t pct, int32_t cores)
{
    assert_int_equal(r.nums, nums);
    assert_int_equal(r.mem_mib, mem);
    assert_int_equal(r.mem_pct, pct);
    assert_int_equal(r.cores, cores);
}

/* A13, "Enflame" */
static void test_requests(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Enflame", NULL);
    want_request(kit_ask(&kit, 0), 0, 0, 0, 0);
    kit_limit(&kit, 0, DRS, "3");
    want_request(kit_ask(&kit, 0), 1, 3, 0, 0);
    kit_request(&kit, 1, MEM, "20480");
    kit_request(&kit, 1, CORE, "40");
    want_request(kit_ask(&kit, 1), 1, 20480, -1, 40);
    kit_request(&kit, 1, MEM, "2147483648");
    assert_int_equal(kit_ask(&kit, 1).nums, 0);
    kit_fini(&kit);

    /* 3.5, row GCU */
    setup(&kit, "GCU", NULL);
    kit_limit(&kit, 0, GCU, "2");
    want_request(kit_ask(&kit, 0), 2, 100, 100, 100);
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_int_equal(kit_admit(&kit, 1), 0);
    kit_fini(&kit);
}

static void want_refused(const char *name, const char *value, const char *text)
{
    struct kit kit;

    setup(&kit, "Enflame", NULL);
    kit_limit(&kit, 0, name, value);
    assert_int_equal(kit_admit(&kit, 0), -EINVAL);
    assert_string_equal(kit.err.text, text);
    kit_fini(&kit);
}

/* 2.3, "Enflame DRS" */
static void test_admit(void **state)
{
    struct kit kit;

    (void)state;
    want_refused(DRS, "0", DRS " must be greater than 0");
    want_refused(DRS, "-1", DRS " must be greater than 0");
    want_refused(DRS, "1.5", DRS " must be an integer");
    want_refused(MEM, "0", MEM " must be greater than 0");
    want_refused(CORE, "0", CORE " must be in range (0,100]");
    want_refused(CORE, "101", CORE " must be in range (0,100]");

    setup(&kit, "Enflame", NULL);
    assert_int_equal(kit_admit(&kit, 0), 0);
    kit_limit(&kit, 0, DRS, "3");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_request_of(&kit, 0, DRS), "3");
    kit_request(&kit, 1, MEM, "20480");
    kit_limit(&kit, 1, CORE, "50");
    assert_int_equal(kit_admit(&kit, 1), 1);
    assert_string_equal(kit_limit_of(&kit, 1, MEM), "20480");
    assert_string_equal(kit_request_of(&kit, 1, CORE), "50");
    kit_fini(&kit);
}

/* 1.7 */
static void test_devices(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Enflame", example);
    assert_int_equal(kit.group.n, 1);
    assert_true(gs_str_eq_c(kit.node.dev[0].id, "node1-enflame-drs-0"));
    assert_true(gs_str_eq_c(kit.node.dev[0].type, "Enflame"));
    assert_int_equal(kit.node.dev[0].count, 6);
    assert_int_equal(kit.node.dev[0].mem_mib, 40960);
    assert_int_equal(kit.node.dev[0].cores, 100);
    assert_true(kit.node.dev[0].is_healthy);
    kit_annotate_node(&kit, CAPACITY,
                      "{\"devices\":[{\"index\":3,\"minor\":1,\"capacity\":\"6\"}]," PROFILES);
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.node.dev[0].index, 3);
    assert_int_equal(kit.node.dev[0].count, 6);
    kit_fini(&kit);
}

static void test_bad_nodes(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{}",
        "{\"devices\":{}," PROFILES,
        "{\"devices\":[{\"index\":\"0\",\"capacity\":6}]}",
        "{\"devices\":[{\"index\":\"0\",\"capacity\":6}],\"profiles\":{}}",
        "{\"devices\":[{\"index\":\"0\",\"capacity\":6}],\"profiles\":{\"0g.6gb\":\"0\"}}",
        "{\"devices\":[{\"index\":\"0\",\"capacity\":6}],\"profiles\":{\"99999999999g.6gb\":\"0\"}"
        "}",
        "{\"devices\":[{\"index\":\"0\",\"capacity\":-1}]," PROFILES,
        "{\"devices\":[{\"index\":\"0\",\"capacity\":1e9}]," PROFILES,
        "{\"devices\":[{\"index\":\"0\",\"capacity\":\"six\"}]," PROFILES,
        "{\"devices\":[{\"capacity\":6}]," PROFILES,
        "{\"devices\":[7]," PROFILES,
    };
    struct kit kit;

    (void)state;
    setup(&kit, "Enflame", NULL);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        kit_annotate_node(&kit, CAPACITY, bad[i]);
        assert_int_equal(kit_read_node(&kit), -EINVAL);
        assert_true(kit.err.text[0] != '\0');
    }
    kit_annotate_node(&kit, CAPACITY, "{\"devices\":[]}"); /* all taken back */
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 0);
    kit_fini(&kit);
}

static void want_slice(struct kit *kit, int32_t mem_mib, int32_t cores, const char *profile)
{
    assert_int_equal(kit_fit(kit, 0), 1);
    assert_int_equal(kit->pick[0][0].mem_mib, mem_mib);
    assert_int_equal(kit->pick[0][0].cores, cores);
    assert_true(gs_str_eq_c(kit->pick[0][0].profile, profile));
    kit_unfit(kit);
}

static void test_profiles(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Enflame", example);
    /* A19.21 */
    kit_limit(&kit, 0, DRS, "3");
    kit_ask(&kit, 0);
    want_slice(&kit, 20480, 50, "3g.20gb");
    kit_limit(&kit, 1, MEM, "20480");
    kit_limit(&kit, 1, CORE, "40");
    kit.request[0] = kit_ask(&kit, 1);
    want_slice(&kit, 20480, 50, "3g.20gb");
    /* the same in GB; and one more percent, one more GB */
    kit_limit(&kit, 1, MEM, "20");
    kit.request[0] = kit_ask(&kit, 1);
    want_slice(&kit, 20480, 50, "3g.20gb");
    kit_limit(&kit, 1, CORE, "51");
    kit.request[0] = kit_ask(&kit, 1);
    want_slice(&kit, 40960, 100, "6g.40gb");
    kit_limit(&kit, 1, CORE, "1");
    kit_limit(&kit, 1, MEM, "21");
    kit.request[0] = kit_ask(&kit, 1);
    want_slice(&kit, 40960, 100, "6g.40gb");
    kit_limit(&kit, 1, MEM, "6144");
    kit.request[0] = kit_ask(&kit, 1);
    want_slice(&kit, 6144, 17, "1g.6gb");
    kit_fini(&kit);

    /* A19.22 */
    setup(&kit, "Enflame",
          "{\"devices\":[{\"index\":\"0\",\"minor\":\"0\",\"capacity\":6}],"
          "\"profiles\":{\"1g.6gb\":\"0\"}}");
    kit_limit(&kit, 0, DRS, "3");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 ModeNotFit");
    kit_fini(&kit);
}

/* 3.5: "Used counts slices"; a grant of n slices is read back as n from its cores */
static void test_slices(void **state)
{
    const struct gs_drs_profiles seven = {.max_slices = 7};
    struct kit kit;
    size_t c;

    (void)state;
    for (int32_t n = 1; n <= 7; n++)
        assert_int_equal(gs_drs_profile_slices(&seven, gs_drs_profile_cores(&seven, n)), n);
    setup(&kit, "Enflame", example);
    for (int i = 0; i < 6; i++) {
        c = kit_container(&kit, "c");
        kit_limit(&kit, c, DRS, "1");
        kit_ask(&kit, c);
        assert_int_equal(kit_fit(&kit, c), 1);
    }
    assert_int_equal(kit.fit_use[0].slots, 6);
    c = kit_container(&kit, "c");
    kit_limit(&kit, c, DRS, "1");
    kit_ask(&kit, c);
    assert_int_equal(kit_fit(&kit, c), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 CardTimeSlicingExhausted");
    kit_unfit(&kit);
    kit.device_policy.is_mutex = true;
    assert_int_equal(kit_fit(&kit, c), 1);
    assert_int_equal(kit_fit(&kit, c), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 ExclusiveDeviceAllocateConflict");
    kit_unfit(&kit);
    kit_annotate_pod(&kit, "enflame.com/nouse-gpuuuid", "node1-enflame-drs-0");
    assert_int_equal(kit_fit(&kit, c), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 CardUuidMismatch");
    kit_want_cordoned(&kit, c);
    kit_fini(&kit);
}

/* A3.17 */
static void test_annotations(void **state)
{
    struct kit kit;
    struct gs_pairs p;

    (void)state;
    setup(&kit, "Enflame", example);
    kit_limit(&kit, 0, DRS, "3");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    p = kit_write(&kit, INT64_C(1764460800123456789));
    assert_string_equal(kit_written(&kit, &p, "enflame.com/gcu-assigned"), "false");
    assert_string_equal(kit_written(&kit, &p, "enflame.com/gcu-assigned-time"),
                        "1764460800123456789");
    assert_string_equal(kit_written(&kit, &p, "enflame.com/gcu-assigned-index"), "0");
    assert_string_equal(kit_written(&kit, &p, "enflame.com/gcu-assigned-id"), "0");
    assert_string_equal(kit_written(&kit, &p, "enflame.com/gcu-assigned-minor"), "0");
    assert_string_equal(kit_written(&kit, &p, "enflame.com/gcu-request-size"), "3");
    assert_string_equal(kit_written(&kit, &p, "assigned-containers"),
                        "{\"pod-gcu-example1\":{\"allocated\":false,\"request\":3,"
                        "\"profileID\":\"1\",\"profileName\":\"3g.20gb\"}}");
    assert_true(gs_str_eq_c(kit.policy->keys.allocated, "hami.io/enflame-vgpu-devices-allocated"));
    assert_int_equal(kit.policy->keys.to_allocate.n, 0);
    /* two containers */
    kit_limit(&kit, 1, DRS, "1");
    kit_ask(&kit, 1);
    assert_int_equal(kit_fit(&kit, 1), 1);
    p = kit_write(&kit, 1);
    assert_string_equal(kit_written(&kit, &p, "enflame.com/gcu-assigned-index"), "0,0");
    assert_string_equal(kit_written(&kit, &p, "enflame.com/gcu-request-size"), "4");
    kit_fini(&kit);
}

/* 1.3 and 3.5, "GCU" */
static void test_cards(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "GCU", NULL);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_capacity(&kit, GCU, "3");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_true(gs_str_eq_c(kit.node.dev[2].id, "node1-GCU-2"));
    assert_int_equal(kit.node.dev[2].count, 1);
    assert_int_equal(kit.node.dev[2].mem_mib, 100);
    assert_int_equal(kit.node.dev[2].cores, 100);
    kit.use[2].slots = 1;
    kit_unfit(&kit);
    kit_limit(&kit, 0, GCU, "2");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 2);
    assert_string_equal(kit_chosen(&kit, 0), "1,0");
    assert_int_equal(kit.pick[0][0].mem_mib, 100);
    assert_int_equal(kit.pick[0][0].cores, 100);
    kit_unfit(&kit);
    kit_limit(&kit, 0, GCU, "3");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/3 ExclusiveDeviceAllocateConflict, "
                                           "2/3 AllocatedCardsInsufficientRequest");
    kit_want_cordoned(&kit, 0);
    kit_fini(&kit);
}

/* 4.1 */
static void test_section(void **state)
{
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_enflame_section,
             "resourceNameVGCU: enflame.com/vgcu\n"
             "resourceNameVGCUPercentage: enflame.com/vgcu-percentage\n",
             "Enflame");
    assert_true(gs_str_eq_c(kit.policy->names.count, "enflame.com/vgcu"));
    assert_true(gs_str_eq_c(kit.policy->names.mem, MEM));
    assert_true(gs_str_eq_c(kit.policy->names.core, CORE));
    assert_int_equal(kit.policies.n, 2);
    kit_fini(&kit);
    yaml_kit(&kit, &gs_enflame_section,
             "resourceNameDRSGCU: \"\"\nresourceNameVGCU: enflame.com/vgcu\n", "Enflame");
    assert_int_equal(kit.policy->names.count.n, 0);
    kit_container(&kit, "c");
    kit_limit(&kit, 0, DRS, "1");
    assert_int_equal(kit_admit(&kit, 0), 0);
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    kit_fini(&kit);
    yaml_kit(&kit, &gs_enflame_section, "resourceNameGCU: example.com/g\n", "GCU");
    assert_true(gs_str_eq_c(kit.policy->names.count, "example.com/g"));
    kit_fini(&kit);
    kit_init(&kit, &gs_enflame_section, NULL, "Enflame");
    assert_true(gs_str_eq_c(kit.policy->names.count, DRS));
    kit_fini(&kit);
}

/* A3.17 as a whole: the grant beside the vendor's own annotations */
static void test_grant(void **state)
{
    struct kit kit;
    struct gs_pairs p;

    (void)state;
    setup(&kit, "Enflame", example);
    kit_limit(&kit, 0, DRS, "3");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/enflame-vgpu-devices-allocated"),
                        "node1-enflame-drs-0,Enflame,20480,50:;;");
    assert_string_equal(kit_written(&kit, &p, "enflame.com/gcu-request-size"), "3");
    kit_limit(&kit, 1, DRS, "3");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(
        kit_written(&kit, &p, "hami.io/enflame-vgpu-devices-allocated"),
        "node1-enflame-drs-0,Enflame,20480,50:;node1-enflame-drs-0,Enflame,20480,50:;");
    kit_limit(&kit, 1, DRS, "6");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/1 CardTimeSlicingExhausted");
    kit_fini(&kit);
}

static void test_no_memory(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "Enflame", example);
    kit_limit(&kit, 0, DRS, "3");
    kit_ask(&kit, 0);
    assert_int_equal(kit_fit(&kit, 0), 1);
    kit_no_memory(&kit, &gs_enflame_section);
    kit.arena.failed = true;
    assert_int_equal(kit_admit(&kit, 0), -ENOMEM);
    kit.arena.failed = false;
    kit_fini(&kit);
    setup(&kit, "GCU", NULL);
    kit_capacity(&kit, GCU, "2");
    assert_int_equal(kit_read_node(&kit), 0);
    kit_no_memory(&kit, &gs_enflame_section);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),    cmocka_unit_test(test_admit),
        cmocka_unit_test(test_devices),     cmocka_unit_test(test_bad_nodes),
        cmocka_unit_test(test_profiles),    cmocka_unit_test(test_slices),
        cmocka_unit_test(test_annotations), cmocka_unit_test(test_cards),
        cmocka_unit_test(test_section),     cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_grant),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
