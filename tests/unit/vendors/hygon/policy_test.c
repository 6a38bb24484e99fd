/* Hygon DCU. V-DCU-1 to 13, 16 and 17 of the collected vectors are the device plugin's (CU masks,
 * vdev files, device nodes). */

#include "kit.h"
#include "yaml.h"

#include <errno.h>
#include <string.h>

#include "model/request.h"
#include "vendors/hygon/policy/hygon.h"

static void setup(struct kit *kit, const struct gs_hygon_conf *conf)
{
    kit_init(kit, &gs_hygon_section, conf, "DCU");
    kit_container(kit, "c0");
}

static void want_request(const struct gs_hygon_conf *conf, const char *count, const char *mem,
                         const char *cores, const int32_t *want)
{
    struct gs_request r;
    struct kit kit;

    setup(&kit, conf);
    if (count != NULL)
        kit_limit(&kit, 0, "hygon.com/dcunum", count);
    if (mem != NULL)
        kit_limit(&kit, 0, "hygon.com/dcumem", mem);
    if (cores != NULL)
        kit_limit(&kit, 0, "hygon.com/dcucores", cores);
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, want != NULL ? want[0] : 0);
    if (want != NULL) {
        assert_int_equal(r.mem_mib, want[1]);
        assert_int_equal(r.mem_pct, want[2]);
        assert_int_equal(r.cores, want[3]);
    }
    /* what is dropped is refused before, but where nothing of ours is asked */
    assert_int_equal(kit_admit(&kit, 0), want != NULL ? 1 : count == NULL ? 0 : -EINVAL);
    kit_fini(&kit);
}

#define WANT(...) ((const int32_t[4]){__VA_ARGS__})

/* control-plane 3.5, row DCU */
static void test_requests(void **state)
{
    const struct gs_hygon_conf by_two = {.mem_factor = (int32_t[]){2}};

    (void)state;
    want_request(NULL, "1", NULL, NULL, WANT(1, 0, 100, 100));
    want_request(NULL, "2", "2000", "60", WANT(2, 2000, 0, 60));
    want_request(&by_two, "1", "800", NULL, WANT(1, 1600, 0, 100));
    want_request(&by_two, "1", "1073741824", NULL, NULL);
    want_request(NULL, "1", "0", NULL, WANT(1, 0, 100, 100));
    want_request(NULL, "-1", NULL, NULL, NULL);
    want_request(NULL, "2147483648", NULL, NULL, NULL);
    want_request(NULL, "1", "-1", NULL, NULL);
    want_request(NULL, "1", "0.5", NULL, NULL);
    want_request(NULL, "1", NULL, "100m", NULL);
    want_request(NULL, NULL, "2000", "60", NULL);
}

/* The count in the limits makes it ours: 2.3. */
static void test_admit(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_request(&kit, 0, "hygon.com/dcunum", "1");
    assert_int_equal(kit_admit(&kit, 0), 0);
    kit_limit(&kit, 0, "hygon.com/dcunum", "1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    kit_limit(&kit, 0, "hygon.com/dcumem", "3e9");
    assert_int_equal(kit_admit(&kit, 0), -EINVAL);
    assert_non_null(strstr(kit.err.text, "invalid hygon.com/dcumem value 3e9 in container c0"));
    assert_int_equal(kit.pod.n_edits, 0);
    kit_fini(&kit);
}

/* V-DCU-14: nine fields as the plugin writes them, seven as the decoder takes them */
static void test_nodes(void **state)
{
    static const char *const text[] = {
        "DCU-A1,4,32752,100,DCU-K100_AI,0,true,0,hami:", "DCU-A1,4,32752,100,DCU-K100_AI,0,true:",
        "DCU-A1,4,32752,100,DCU-K100_AI,0,true"};
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    for (size_t i = 0; i < GS_ARRAY_LEN(text); i++) {
        kit_annotate_node(&kit, "hami.io/node-dcu-register", text[i]);
        assert_int_equal(kit_read_node(&kit), 0);
        assert_int_equal(kit.group.n, 1);
        assert_true(gs_str_eq_c(kit.node.dev[0].id, "DCU-A1"));
        assert_true(gs_str_eq_c(kit.node.dev[0].type, "DCU-K100_AI"));
        assert_int_equal(kit.node.dev[0].count, 4);
        assert_int_equal(kit.node.dev[0].mem_mib, 32752);
        assert_int_equal(kit.node.dev[0].cores, 100);
        assert_true(kit.node.dev[0].is_healthy);
    }
    kit_annotate_node(&kit, "hami.io/node-dcu-register", "DCU-A1,4,many,100,DCU-K100_AI,0,true:");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_fini(&kit);
}

static void want_fit(struct kit *kit, const char *chosen)
{
    kit_unfit(kit);
    assert_int_equal(kit_fit(kit, 0), 1);
    assert_string_equal(kit_chosen(kit, 0), chosen);
}

static void want_unfit(struct kit *kit, const char *reasons)
{
    kit_unfit(kit);
    assert_int_equal(kit_fit(kit, 0), -ENOSPC);
    assert_string_equal(kit_reasons(kit), reasons);
}

/* The usual walk with DCU's annotations: other-vendors 0.3 and 6.1. */
static void test_fit(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_annotate_node(&kit, "hami.io/node-dcu-register",
                      "A,4,1000,100,DCU-Z100,0,true,0,hami:B,4,1000,100,DCU-K100_AI,0,true,1,hami:"
                      "C,4,1000,100,DCU-K100_AI,0,false,2,hami:");
    assert_int_equal(kit_read_node(&kit), 0);
    kit.request[0] = (struct gs_request){.nums = 1, .mem_pct = 60, .cores = 60};
    want_fit(&kit, "1");
    assert_int_equal(kit.pick[0][0].mem_mib, 600);
    kit_annotate_pod(&kit, "hygon.com/use-dcutype", "z100");
    want_fit(&kit, "0");
    kit_annotate_pod(&kit, "hygon.com/nouse-gpuuuid", "A");
    want_unfit(&kit, "1/3 CardNotHealth, 1/3 CardTypeMismatch, 1/3 CardUuidMismatch");
    kit_annotate_pod(&kit, "hygon.com/use-dcutype", "");
    kit_annotate_pod(&kit, "hygon.com/nouse-gpuuuid", "");
    kit.use[0].slots = kit.use[1].slots = 1;
    kit.request[0].cores = 100;
    want_unfit(&kit, "1/3 CardNotHealth, 2/3 ExclusiveDeviceAllocateConflict");
    kit_fini(&kit);
}

static void test_section(void **state)
{
    static const char text[] = "resourceCountName: hygon.com/hcunum\n"
                               "resourceMemoryName: hygon.com/hcumem\n"
                               "resourceCoreName: \"\"\n"
                               "memoryFactor: 2\n";
    struct kit kit;

    (void)state;
    yaml_kit(&kit, &gs_hygon_section, text, "DCU");
    assert_true(gs_str_eq_c(kit.policy->names.count, "hygon.com/hcunum"));
    assert_true(gs_str_eq_c(kit.policy->names.mem, "hygon.com/hcumem"));
    assert_int_equal(kit.policy->names.core.n, 0);
    assert_int_equal(kit.policy->quota_factor, 2);
    kit_fini(&kit);
    setup(&kit, NULL);
    assert_true(gs_str_eq_c(kit.policy->names.core, "hygon.com/dcucores"));
    assert_int_equal(kit.policy->mem_factor, 1);
    assert_true(kit.policy->is_exclusive_at_100);
    kit_fini(&kit);
}

static void test_no_memory(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_annotate_node(&kit, "hami.io/node-dcu-register", "A,4,1000,100,DCU,0,true:");
    kit_no_memory(&kit, &gs_hygon_section);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_requests),
        cmocka_unit_test(test_admit),     cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_fit),       cmocka_unit_test(test_section),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
