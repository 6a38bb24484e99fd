#include "whole.h"
#include "yaml.h"

#include <errno.h>

#include "model/request.h"
#include "vendors/biren/policy/biren.h"

static void setup(struct kit *kit)
{
    kit_init(kit, &gs_biren_section, NULL, "Biren");
    kit_container(kit, "c0");
    kit_annotate_node(kit, "hami.io/node-biren-register",
                      "[{\"id\":\"B0\",\"count\":2,\"devmem\":32768,\"devcore\":7,\"type\":\"106\","
                      "\"health\":true},{\"id\":\"B1\",\"index\":1,\"count\":2,\"devmem\":32768,"
                      "\"type\":\"106\"}]");
    assert_int_equal(kit_read_node(kit), 0);
}

/* control-plane 1.2, 1.3, 2.3, 3.5 */
static void test_request(void **state)
{
    struct gs_request r;
    struct kit kit;

    (void)state;
    setup(&kit);
    assert_int_equal(kit_admit(&kit, 0), 0);
    kit_request(&kit, 0, "birentech.com/gpu", "1");
    assert_int_equal(kit_admit(&kit, 0), 0); /* limits alone */
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, 1);
    assert_int_equal(r.mem_mib, 0);
    assert_int_equal(r.mem_pct, 100);
    assert_int_equal(r.cores, 0);
    kit_limit(&kit, 0, "birentech.com/gpu", "2");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_int_equal(kit.pod.n_edits, 0);
    assert_int_equal(kit_ask(&kit, 0).nums, 2);
    assert_true(gs_str_eq_c(kit.policy->keys.to_allocate, "hami.io/Biren-devices-to-allocate"));
    assert_true(gs_str_eq_c(kit.policy->keys.allocated, "hami.io/Biren-devices-allocated"));
    assert_true(gs_str_eq_c(kit.policy->keys.handshake, "hami.io/node-handshake-biren"));
    kit_fini(&kit);
}

/* 1.5: devcore is 100 whatever is registered. 3.5: neither memory nor cores are looked at or
 * promised; shares, health and the user's lists are. */
static void test_fit(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    assert_int_equal(kit.node.dev[0].cores, 100);
    assert_int_equal(kit.node.dev[1].cores, 100);
    kit.use[0] = (struct gs_use){.slots = 1, .mem_mib = 32768};
    kit_unfit(&kit);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_pct = 100};
    assert_int_equal(kit_fit(&kit, 0), 1);
    assert_string_equal(kit_chosen(&kit, 0), "0");
    assert_int_equal(kit.pick[0][0].mem_mib, 0);
    assert_int_equal(kit.pick[0][0].cores, 0);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/2 CardNotHealth, 1/2 CardTimeSlicingExhausted");
    kit_fini(&kit);
}

static void test_grant(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_limit(&kit, 0, "birentech.com/gpu", "1");
    assert_int_equal(whole_place(&kit, NULL, 0, &pairs), 0);
    assert_string_equal(kit_written(&kit, &pairs, "hami.io/Biren-devices-to-allocate"),
                        "B0,Biren,0,0:;");
    kit_annotate_pod(&kit, "birentech.com/nouse-gpuuuid", "B0");
    assert_int_equal(whole_place(&kit, NULL, 0, &pairs), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/2 CardNotHealth, 1/2 CardUuidMismatch");
    kit_fini(&kit);
}

static void test_configuration(void **state)
{
    static const char text[] = "resourceCountName: ''";
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_biren_section, text, "Biren");
    kit_container(&kit, "c0");
    kit_limit(&kit, 0, "birentech.com/gpu", "1");
    assert_int_equal(kit_admit(&kit, 0), 0); /* switched off */
    assert_int_equal(kit_ask(&kit, 0).nums, 0);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_grant),
        cmocka_unit_test(test_configuration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
