/* AMD. Plain numbers are those of the collected AMD vectors (38 to 47 concern the scheduler; 1 to
 * 37 and 49 to 99 are discovery, device plugin, hook and monitor), A13, A14 and A19 HAMi's. */

#include "kit.h"
#include "whole.h"

#include <errno.h>
#include <string.h>

#include <cyaml/cyaml.h>

#include "model/request.h"
#include "vendors/amd/policy/amd.h"
#include "vendors/amd/policy/fit.h"
#include "vendors/amd/policy/node.h"

static void setup(struct kit *kit)
{
    kit_init(kit, &gs_amd_section, NULL, "AMD");
    kit_container(kit, "c0");
}

/* --- requests and admission --- */

static void want_request(const char *limits, const char *requests, const int32_t *want)
{
    struct gs_request r;
    struct kit kit;

    setup(&kit);
    kit_ask_of(&kit, kit_limit, "amd.com/", limits);
    kit_ask_of(&kit, kit_request, "amd.com/", requests);
    r = kit_ask(&kit, 0);
    assert_int_equal(r.nums, want != NULL ? want[0] : 0);
    if (want != NULL) {
        assert_int_equal(r.mem_mib, want[1]);
        assert_int_equal(r.mem_pct, want[2]);
        assert_int_equal(r.cores, want[3]);
    }
    kit_fini(&kit);
}

#define WANT(...) ((const int32_t[4]){__VA_ARGS__})

static void test_requests(void **state)
{
    (void)state;
    want_request("gpu=2 gpumem=4096 gpucores=33", "", WANT(2, 4096, 0, 33)); /* A13 */
    want_request("", "gpu=2 gpumem=4096 gpucores=33", NULL);
    want_request("gpumem=4096", "", NULL);
    want_request("gpu=1", "", WANT(1, 0, 0, 100));
    want_request("gpu=0", "", NULL);
    want_request("gpu=2147483648", "", NULL);
    want_request("gpu=1 gpumem=-1", "", NULL);
    want_request("gpu=1 gpumem=2147483648", "", NULL);
    want_request("gpu=1 gpucores=0", "", NULL); /* 43 */
    want_request("gpu=1 gpucores=101", "", NULL);
    want_request("gpu=1 gpucores=1500m", "", NULL);
    want_request("gpu=1 gpumem=4096 gpumem-percentage=50", "", WANT(1, 4096, 0, 100)); /* 45 */
    want_request("gpu=1 gpumem-percentage=50", "", WANT(1, 0, 50, 100));
    want_request("gpu=1", "gpumem-percentage=50", WANT(1, 0, 50, 100));
    want_request("gpu=1 gpumem-percentage=101", "", NULL);
}

static void want_admit(const char *limits, const char *requests, int rc, const char *count,
                       const char *text)
{
    struct kit kit;

    setup(&kit);
    kit_ask_of(&kit, kit_limit, "amd.com/", limits);
    kit_ask_of(&kit, kit_request, "amd.com/", requests);
    assert_int_equal(kit_admit(&kit, 0), rc);
    assert_string_equal(kit.err.text, text);
    if (count == NULL)
        assert_null(kit_limit_of(&kit, 0, "amd.com/gpu"));
    else
        assert_string_equal(kit_limit_of(&kit, 0, "amd.com/gpu"), count);
    if (rc != 1)
        assert_int_equal(kit.pod.n_edits, 0);
    kit_fini(&kit);
}

static void test_admit(void **state)
{
    static const char cores[] = "amd.com/gpucores must be an integer percentage between 1 and 100";

    (void)state;
    want_admit("gpu=1", "", 1, "1", "");
    want_admit("", "gpu=1", 0, NULL, ""); /* A14.11 */
    want_admit("gpu=0", "", 0, "0", "");
    want_admit("gpu=1 gpucores=0", "", -EINVAL, "1", cores); /* A14.12, 43 */
    want_admit("gpu=1 gpucores=101", "", -EINVAL, "1", cores);
    want_admit("gpu=1 gpucores=1500m", "", -EINVAL, "1", cores);
    want_admit("gpucores=101", "", -EINVAL, NULL, cores); /* without a count too */
    want_admit("gpucores=50", "", 1, "1", "");
    want_admit("gpumem=4096", "", 1, "1", "");
    want_admit("gpumem-percentage=50", "", 1, "1", "");
    want_admit("gpu=2 gpumem-percentage=100", "", 1, "2", "");
    want_admit("gpumem-percentage=101", "", -EINVAL, NULL,
               "invalid amd.com/gpumem-percentage value 101 in container c0: must be an integer "
               "between 0 and 100");
    want_admit("gpu=1", "gpumem-percentage=-1", -EINVAL, "1",
               "invalid amd.com/gpumem-percentage value -1 in container c0: must be an integer "
               "between 0 and 100");
    want_admit("gpu=1 gpumem=2147483648", "", -EINVAL, "1",
               "invalid amd.com/gpumem value 2147483648 in container c0: must be an integer, in "
               "units of the resource, below 2^31 MiB");
    want_admit("gpu=1 priority=-1", "", -EINVAL, "1",
               "invalid amd.com/priority value -1 in container c0: must be an integer below 2^31");
    want_admit("", "", 0, NULL, "");
}

static void test_environment(void **state)
{
    static const char text[] = "resourceCountName: amd.com/gpu\n"
                               "resourceMemoryName: amd.com/gpumem\n"
                               "resourceMemoryPercentageName: amd.com/gpumem-percentage\n"
                               "resourceCoreName: amd.com/gpucores\n"
                               "resourcePriorityName: amd.com/task-priority\n"
                               "runtimeClassName: amd\n";
    static const cyaml_config_t config = {.mem_fn = cyaml_mem, .log_level = CYAML_LOG_ERROR};
    struct gs_amd_yaml *yaml = NULL;
    struct kit kit;

    (void)state;
    assert_int_equal(cyaml_load_data((const uint8_t *)text, sizeof(text) - 1, &config,
                                     gs_amd_section.schema, (cyaml_data_t **)&yaml, NULL),
                     CYAML_OK);
    kit_init(&kit, &gs_amd_section, yaml, "AMD");
    assert_int_equal(cyaml_free(&config, gs_amd_section.schema, yaml, 0), CYAML_OK);
    kit_container(&kit, "c0");
    kit_ask_of(&kit, kit_limit, "amd.com/", "gpu=1 task-priority=2147483647");
    assert_int_equal(
        gs_pairs_set(&kit.container[0].env, &kit.arena, GS_STR("AMD_TASK_PRIORITY"), GS_STR("0")),
        0);
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_env_of(&kit, 0, "AMD_TASK_PRIORITY"), "2147483647");
    assert_int_equal(kit.container[0].env.n, 1);
    assert_true(gs_str_eq_c(kit.pod.runtime_class, "amd"));
    kit_fini(&kit);
}

/* --- nodes --- */

#define REGISTER "hami.io/node-amd-register"

/* The worked example of the register format. */
static void test_nodes(void **state)
{
    static const char text[] =
        "[{\"id\":\"c3ff6860-0000-1000-804e-c50444dd0a6c\",\"index\":1,\"count\":10,"
        "\"devmem\":16368,\"devcore\":64,\"type\":\"AMD Radeon Instinct MI25\",\"numa\":0,"
        "\"health\":true,\"devicevendor\":\"amd\",\"custominfo\":{\"pciBDF\":\"0000:19:00.0\","
        "\"cuPerWGP\":1}},"
        "{\"id\":\"GPU-a70757a01276547a\",\"index\":31,\"count\":1,\"devmem\":24576,\"devcore\":38,"
        "\"type\":\"AMD Instinct MI300X\",\"numa\":1,\"mode\":\"cpx\",\"health\":true,"
        "\"devicevendor\":\"amd\",\"custominfo\":{\"pciBDF\":\"0000:65:00.0\",\"cuPerWGP\":2.0,"
        "\"computeQueues\":24,\"xgmiPeers\":[\"0000:05:00.0\",\"0000:27:00.0\"],"
        "\"partitionProfile\":\"cpx_nps4\"}}]";
    const struct gs_amd_device *own;
    struct kit kit;

    (void)state;
    setup(&kit);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    kit_annotate_node(&kit, REGISTER, text);
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 0); /* the kubelet offers none: the plugin is gone */
    kit_capacity(&kit, "amd.com/gpu", "0");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 0);
    kit_capacity(&kit, "amd.com/gpu", "11");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 2);
    assert_int_equal(kit.node.dev[0].cores, 64);
    assert_true(gs_str_eq_c(kit.node.dev[1].type, "AMD Instinct MI300X"));
    assert_int_equal(kit.node.dev[1].numa, 1);
    own = kit.node.dev[0].custom;
    assert_int_equal(own->cu_per_wgp, 1);
    assert_int_equal(own->n_peers, 0);
    own = kit.node.dev[1].custom;
    assert_true(gs_str_eq_c(own->bdf, "0000:65:00.0"));
    assert_int_equal(own->cu_per_wgp, 2);
    assert_int_equal(own->n_peers, 2);
    assert_true(gs_str_eq_c(own->peer[1], "0000:27:00.0"));
    kit_annotate_node(&kit, REGISTER,
                      "[{\"id\":\"a\",\"custominfo\":7},{\"id\":\"b\",\"custominfo\":"
                      "{\"cuPerWGP\":1.5,\"pciBDF\":7,\"xgmiPeers\":{\"a\":1}}},"
                      "{\"id\":\"c\",\"custominfo\":{\"cuPerWGP\":-2,\"xgmiPeers\":[7,null]}}]");
    assert_int_equal(kit_read_node(&kit), 0); /* free-form: what is unreadable is not there */
    for (size_t i = 0; i < 3; i++) {
        own = kit.node.dev[i].custom;
        assert_int_equal(own->cu_per_wgp, 1);
        assert_int_equal(own->bdf.n, 0);
    }
    kit_annotate_node(&kit, REGISTER, "[{\"id\":\"a\",\"devmem\":2147483648}]");
    assert_int_equal(kit_read_node(&kit), -EINVAL);
    kit_fini(&kit);
}

/* --- compute units --- */

static void test_units(void **state)
{
    (void)state;
    assert_int_equal(gs_amd_units(304, 1, 1), 3); /* 38, A19.6 */
    assert_int_equal(gs_amd_units(304, 25, 1), 76);
    assert_int_equal(gs_amd_units(304, 33, 1), 100);
    assert_int_equal(gs_amd_units(304, 67, 1), 203);
    assert_int_equal(gs_amd_units(304, 99, 1), 300);
    assert_int_equal(gs_amd_units(304, 100, 1), 304);
    assert_int_equal(gs_amd_units(32, 1, 2), 2); /* 39 */
    assert_int_equal(gs_amd_units(32, 10, 2), 4);
    assert_int_equal(gs_amd_units(32, 25, 2), 8);
    assert_int_equal(gs_amd_units(32, 33, 2), 10);
    assert_int_equal(gs_amd_units(32, 50, 2), 16);
    assert_int_equal(gs_amd_units(32, 99, 2), 32);
    assert_int_equal(gs_amd_units(2, 1, 2), 2);  /* 41 */
    assert_int_equal(gs_amd_units(60, 5, 2), 4); /* 42 */
    assert_int_equal(gs_amd_units(INT32_MAX, 100, 1024), INT32_MAX);
}

/* --- fit --- */

struct card {
    const char *id;
    int32_t used, mem_used, mem, cores_used, cores, numa; /* of 2 shares; 0: 1000 MiB, 100 CUs */
    const char *type, *bdf, *peers;
    bool is_sick;
};

static void cards(struct kit *kit, const struct card *card, size_t n)
{
    struct gs_buf text = {0};

    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&text,
                    "%s{\"id\":\"%s\",\"index\":%zu,\"count\":%d,\"devmem\":%d,\"devcore\":%d,"
                    "\"numa\":%d,\"type\":\"%s\",\"health\":%s,\"custominfo\":{\"pciBDF\":\"%s\","
                    "\"xgmiPeers\":[%s]}}",
                    i == 0 ? "[" : ",", card[i].id, i, 2, card[i].mem > 0 ? card[i].mem : 1000,
                    card[i].cores != 0 ? card[i].cores : 100, card[i].numa,
                    card[i].type != NULL ? card[i].type : "AMD_Instinct_MI300X_VF",
                    card[i].is_sick ? "false" : "true", card[i].bdf != NULL ? card[i].bdf : "",
                    card[i].peers != NULL ? card[i].peers : "");
    gs_buf_adds(&text, "]");
    kit_annotate_node(kit, REGISTER, gs_arena_printf(&kit->arena, "%s", gs_buf_text(&text)).p);
    gs_buf_fini(&text);
    kit_capacity(kit, "amd.com/gpu", "8");
    assert_int_equal(kit_read_node(kit), 0);
    for (size_t i = 0; i < n; i++) {
        kit->use[i].slots = card[i].used;
        kit->use[i].mem_mib = card[i].mem_used;
        kit->use[i].cores = card[i].cores_used;
    }
    kit_unfit(kit);
}

#define SOME(kit, ...)                                                                             \
    cards(kit, (struct card[]){__VA_ARGS__},                                                       \
          sizeof((struct card[]){__VA_ARGS__}) / sizeof(struct card))

static void want_pick(struct kit *kit, size_t at, int32_t mem, int32_t cores)
{
    assert_int_equal(kit->pick[0][at].mem_mib, mem);
    assert_int_equal(kit->pick[0][at].cores, cores);
}

static void test_fit(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    SOME(&kit, {.id = "dev-0"}, {.id = "dev-1"});
    kit_want_fit(&kit, 2, 0, 0, 0, "1,0"); /* A19.1 */
    want_pick(&kit, 0, 1000, 100);
    want_pick(&kit, 1, 1000, 100);
    kit_want_fit(&kit, 1, 500, 0, 50, "1"); /* A19.2 */
    want_pick(&kit, 0, 500, 50);
    kit_want_fit(&kit, 1, 0, 25, 100, "1");
    want_pick(&kit, 0, 250, 100);
    kit_want_fit(&kit, 1, 500, 0, 0, "1"); /* a part of the memory and no cores: none */
    want_pick(&kit, 0, 500, 0);
    assert_true(kit.policy->writes_own_type); /* A19.4 */
    SOME(&kit, {.id = "dev-0", .used = 1, .mem_used = 900});
    kit_want_unfit(&kit, 1, 500, 0, 1, "1/1 CardInsufficientMemory"); /* A19.5 */
    SOME(&kit, {.id = "dev-0", .used = 1, .cores = 10, .cores_used = 9});
    kit_want_unfit(&kit, 1, 500, 0, 100, "1/1 CardInsufficientCore");
    SOME(&kit, {.id = "dev-0", .used = 2});
    kit_want_unfit(&kit, 1, 500, 0, 1, "1/1 CardTimeSlicingExhausted");
    SOME(&kit, {.id = "dev-0", .is_sick = true});
    kit_want_unfit(&kit, 1, 500, 0, 1, "1/1 CardNotHealth");
    SOME(&kit, {.id = "dev-0", .cores = -1});
    kit_want_unfit(&kit, 1, 500, 0, 1, "1/1 CardNotHealth");
    SOME(&kit, {.id = "dev-0"});
    kit_device(&kit, 0)->cores = 0;
    kit_want_unfit(&kit, 1, 500, 0, 1, "1/1 CardInsufficientCore");
    SOME(&kit, {.id = "dev-0", .used = 1}); /* 100 percent is no claim to be alone */
    kit_want_fit(&kit, 1, 500, 0, 100, "0");
    SOME(&kit, {.id = "dev-0", .mem = 50});
    kit_want_fit(&kit, 1, 0, 1, 1, "0");
    want_pick(&kit, 0, 1, 1); /* a percentage gives a MiB at least */
    kit_fini(&kit);
}

static void test_choice_of_the_pod(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    SOME(&kit, {.id = "a", .type = "AMD Instinct MI300X VF"}, {.id = "b", .type = "AMD MI250X"});
    kit_annotate_pod(&kit, "amd.com/use-gputype", "mi300"); /* 46 */
    kit_want_fit(&kit, 1, 0, 0, 100, "0");
    kit_annotate_pod(&kit, "amd.com/use-gputype", "");
    kit_annotate_pod(&kit, "amd.com/nouse-gputype", " , "); /* 47, A5.25 */
    kit_want_fit(&kit, 1, 0, 0, 100, "1");
    kit_annotate_pod(&kit, "amd.com/nouse-gputype", " MI250 , "); /* A5.23 */
    kit_want_fit(&kit, 1, 0, 0, 100, "0");
    kit_annotate_pod(&kit, "amd.com/nouse-gputype", "");
    kit_annotate_pod(&kit, "amd.com/use-gputype", ", "); /* A5.24 */
    kit_want_unfit(&kit, 1, 0, 0, 100, "2/2 CardTypeMismatch");
    kit_annotate_pod(&kit, "amd.com/use-gputype", "MI300,"); /* A5.26 */
    kit_annotate_pod(&kit, "amd.com/use-gpu-uuid", "b");
    kit_want_unfit(&kit, 1, 0, 0, 100, "1/2 CardTypeMismatch, 1/2 CardUuidMismatch");
    kit_fini(&kit);
}

static void test_numa(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    SOME(&kit, {.id = "a", .numa = 1}, {.id = "b", .numa = 0}, {.id = "c", .numa = 1},
         {.id = "d", .numa = 0});
    kit_want_fit(&kit, 2, 0, 0, 100, "3,2");
    kit_annotate_pod(&kit, "amd.com/numa-bind", "T"); /* as Go's ParseBool has it */
    kit_want_fit(&kit, 2, 0, 0, 100, "3,1");
    kit_want_unfit(&kit, 3, 0, 0, 100, "4/4 NumaNotFit");
    kit_want_fit(&kit, 1, 0, 0, 100, "3");
    kit_annotate_pod(&kit, "amd.com/numa-bind", "yes");
    kit_want_fit(&kit, 2, 0, 0, 100, "3,2");
    kit_fini(&kit);
}

/* No vector speaks of link-bind: all of a container's cards reach each other by XGMI, by what both
 * ends say; partitions of a card have its address. */
static void test_links(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_annotate_pod(&kit, "amd.com/link-bind", "true");
    SOME(&kit, {.id = "a", .bdf = "A", .peers = "\"B\",\"C\""},
         {.id = "b", .bdf = "B", .peers = "\"A\",\"C\"", .numa = 1}, {.id = "lone", .bdf = "L"},
         {.id = "c", .bdf = "C", .peers = "\"A\",\"B\",\"D\""},
         {.id = "d", .bdf = "D", .peers = "\"B\""}); /* d and c do not agree */
    kit_want_fit(&kit, 1, 0, 0, 100, "4");
    kit_want_fit(&kit, 2, 0, 0, 100, "3,1");
    kit_want_fit(&kit, 3, 0, 0, 100, "3,1,0");
    kit_want_unfit(&kit, 4, 0, 0, 100, "5/5 LinkNotFit");
    kit_annotate_pod(&kit, "amd.com/numa-bind", "true");
    kit_want_fit(&kit, 2, 0, 0, 100, "3,0");
    kit_want_unfit(&kit, 3, 0, 0, 100, "5/5 LinkNotFit");
    kit_want_unfit(&kit, 5, 0, 0, 100, "5/5 NumaNotFit");
    SOME(&kit, {.id = "p0", .bdf = "A"}, {.id = "q", .bdf = "B"}, {.id = "p1", .bdf = "A"});
    kit_want_fit(&kit, 2, 0, 0, 100, "2,0");
    SOME(&kit, {.id = "a"}, {.id = "b"}); /* no address: nothing is known to be linked */
    kit_want_unfit(&kit, 2, 0, 0, 100, "2/2 LinkNotFit");
    kit_fini(&kit);
}

static void test_whole(void **state)
{
    struct gs_pairs p;
    struct kit kit;

    (void)state;
    setup(&kit);
    kit_container(&kit, "c1");
    SOME(&kit, {.id = "uuid-0", .mem = 196608, .cores = 304});
    kit_ask_of(&kit, kit_limit, "amd.com/", "gpu=1 gpumem-percentage=50 gpucores=25");
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/amd-devices-allocated"),
                        "uuid-0,AMD_Instinct_MI300X_VF,98304,76:;;"); /* A19.4, A19.6 */
    SOME(&kit, {.id = "uuid-0", .type = "AMD, the other"});
    assert_int_equal(whole_place(&kit, NULL, 1, &p), 0);
    assert_string_equal(kit_written(&kit, &p, "hami.io/amd-devices-to-allocate"),
                        "uuid-0,AMD,500,25:;;"); /* a type that would break the text */
    kit_fini(&kit);
}

static void test_no_memory(void **state)
{
    struct gs_arena full;
    struct kit kit;

    (void)state;
    setup(&kit);
    gs_arena_init(&full);
    full.failed = true;
    kit_ask_of(&kit, kit_limit, "amd.com/", "gpumem=10");
    kit.pod.arena = &full;
    assert_int_equal(kit_admit(&kit, 0), -ENOMEM);
    kit.pod.arena = &kit.arena;
    kit_annotate_node(&kit, REGISTER, "[{\"id\":\"g\"}]");
    kit_no_memory(&kit, &gs_amd_section);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_admit),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_units),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_numa),
        cmocka_unit_test(test_choice_of_the_pod),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
