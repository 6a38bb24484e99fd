#include "yaml.h"

#include <errno.h>

#include "model/request.h"
#include "vendors/vastai/policy/vastai.h"

/* Devices dev1..devN, one die each of the cards in `aic` ("111223"; '-': none told); "": cards. */
static void setup(struct kit *kit, const char *aic, size_t n)
{
    struct gs_buf buf = {0};

    kit_init(kit, &gs_vastai_section, NULL, "Vastai");
    kit_container(kit, "c0");
    for (size_t i = 0; i < n; i++) {
        gs_buf_addf(&buf,
                    "%s{\"id\":\"dev%zu\",\"index\":%zu,\"count\":1,\"devmem\":16384,"
                    "\"devcore\":8,\"type\":\"Vastai\",\"health\":true",
                    i > 0 ? "," : "[", i + 1, i + 1);
        if (aic[0] == '\0')
            gs_buf_adds(&buf, "}");
        else if (aic[i] == '-')
            gs_buf_adds(&buf, ",\"custominfo\":{\"DeviceStrategy\":\"die\"}}");
        else
            gs_buf_addf(&buf, ",\"custominfo\":{\"DeviceStrategy\":\"die\",\"AIC\":%c}}", aic[i]);
    }
    gs_buf_adds(&buf, "]");
    kit_annotate_node(kit, "hami.io/node-va-register",
                      gs_arena_str(&kit->arena, gs_str_of(gs_buf_text(&buf))).p);
    gs_buf_fini(&buf);
    assert_int_equal(kit_read_node(kit), 0);
    for (size_t i = 0; i < n; i++)
        kit->order[i] = (uint32_t)(n - 1 - i); /* dev1 is the best */
}

static const char *chosen(struct kit *kit, int32_t nums)
{
    kit_unfit(kit);
    kit->request[0] = (struct gs_request){.nums = nums, .mem_pct = 100};
    assert_int_equal(kit_fit(kit, 0), nums);
    return kit_chosen(kit, 0);
}

/* A19.29 */
static void test_dies(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "111223", 6);
    assert_string_equal(chosen(&kit, 3), "1,2,3");
    assert_true(kit_score(&kit, false) == 1);
    assert_string_equal(chosen(&kit, 4), "1,2,3,4");
    assert_true(kit_score(&kit, false) == 0.75);
    assert_int_equal(kit.pick[0][0].mem_mib, 0);
    assert_int_equal(kit.pick[0][0].cores, 0);
    kit_fini(&kit);
    setup(&kit, "122333", 6); /* the largest card is not the first */
    assert_string_equal(chosen(&kit, 3), "4,5,6");
    kit_fini(&kit);
}

/* control-plane 3.3: no score without DeviceStrategy "die" and AIC */
static void test_no_score(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "", 2);
    assert_int_equal(kit.node.dev[0].cores, 100); /* 1.5: forced */
    assert_string_equal(chosen(&kit, 2), "1,2");
    assert_true(kit_score(&kit, false) == 0);
    kit_fini(&kit);
    setup(&kit, "1-", 2);
    assert_string_equal(chosen(&kit, 2), "1,2");
    assert_true(kit_score(&kit, false) == 0);
    kit_fini(&kit);
}

static void test_dies_of_strangers(void **state)
{
    static const char *const info[] = {
        "null",
        "[]",
        "{\"DeviceStrategy\":7,\"AIC\":1}",
        "{\"DeviceStrategy\":\"card\"}",
        "{\"DeviceStrategy\":\"die\",\"AIC\":\"1\"}",
        "{\"DeviceStrategy\":\"die\",\"AIC\":1e300}",
    };
    struct kit kit;

    (void)state;
    setup(&kit, "", 1);
    for (size_t i = 0; i < GS_ARRAY_LEN(info); i++) {
        kit_annotate_node(&kit, "hami.io/node-va-register",
                          gs_arena_printf(&kit.arena,
                                          "[{\"id\":\"u\",\"count\":1,\"health\":true,"
                                          "\"custominfo\":%s}]",
                                          info[i])
                              .p);
        assert_int_equal(kit_read_node(&kit), 0);
        chosen(&kit, 1);
        assert_true(kit_score(&kit, false) == 0);
    }
    kit_fini(&kit);
}

/* control-plane 3.5: who wants an unused card wants one without a used die */
static void test_mutex(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, "1122", 4);
    kit.device_policy.is_mutex = true;
    kit.use[0] = (struct gs_use){.slots = 1};
    kit_device(&kit, 0)->count = 2;
    assert_string_equal(chosen(&kit, 1), "3");
    kit.use[2] = (struct gs_use){.slots = 1};
    kit_unfit(&kit);
    assert_int_equal(kit_fit(&kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(&kit), "1/4 CardTimeSlicingExhausted, "
                                           "3/4 ExclusiveDeviceAllocateConflict");
    kit_fini(&kit);
}

/* control-plane 1.2, 1.3, 2.3, 4.1 */
static void test_names(void **state)
{
    static const char text[] = "resourceCountName: a/b";
    struct kit kit;

    (void)state;
    setup(&kit, "", 1);
    assert_int_equal(kit_admit(&kit, 0), 0);
    kit_limit(&kit, 0, "vastaitech.com/va", "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_int_equal(kit_ask(&kit, 0).nums, 1);
    assert_true(gs_str_eq_c(kit.policy->keys.to_allocate, "hami.io/Vastai-devices-to-allocate"));
    assert_true(gs_str_eq_c(kit.policy->keys.allocated, "hami.io/Vastai-devices-allocated"));
    assert_true(gs_str_eq_c(kit.policy->keys.handshake, "hami.io/node-handshake-va"));
    kit_fini(&kit);
    yaml_kit(&kit, &gs_vastai_section, text, "Vastai");
    assert_true(gs_str_eq_c(kit.policy->names.count, "a/b"));
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dies),
        cmocka_unit_test(test_no_score),
        cmocka_unit_test(test_dies_of_strangers),
        cmocka_unit_test(test_mutex),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
