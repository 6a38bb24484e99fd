/* Numbers A13.1 and the like are those of the collected vectors of HAMi v2.10: A13 requests (in the
 * order they are listed), A14 admission. A15 to A17 are in fit_test.c. */

#include "kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cyaml/cyaml.h>

#include "model/request.h"
#include "vendors/nvidia/policy/conf.h"
#include "vendors/nvidia/policy/node.h"
#include "vendors/nvidia/policy/policy.h"

#define NAME(what) "nvidia.com/" what

static void setup(struct kit *kit, const struct gs_nvidia_yaml *yaml)
{
    kit_init(kit, &gs_nvidia_section, yaml, "NVIDIA");
    kit_container(kit, "c0");
}

/* --- configuration --- */

static int load(const char *text, struct gs_nvidia_yaml **ret)
{
    static const cyaml_config_t config = {
        .log_fn = NULL, .mem_fn = cyaml_mem, .log_level = CYAML_LOG_ERROR};

    return (int)cyaml_load_data((const uint8_t *)text, strlen(text), &config, &gs_nvidia_schema,
                                (cyaml_data_t **)ret, NULL);
}

static void unload(struct gs_nvidia_yaml *yaml)
{
    static const cyaml_config_t config = {.mem_fn = cyaml_mem};

    assert_int_equal(cyaml_free(&config, &gs_nvidia_schema, yaml, 0), CYAML_OK);
}

/* control-plane 4.1: every key, as the chart writes them */
static void test_section(void **state)
{
    static const char text[] = "resourceCountName: nvidia.com/gpu\n"
                               "resourceMemoryName: nvidia.com/gpumem\n"
                               "resourceMemoryPercentageName: nvidia.com/gpumem-percentage\n"
                               "resourceCoreName: nvidia.com/gpucores\n"
                               "resourcePriorityName: nvidia.com/priority\n"
                               "overwriteEnv: true\n"
                               "defaultMemory: 512\n"
                               "defaultCores: 7\n"
                               "defaultGPUNum: 2\n"
                               "memoryFactor: 3\n"
                               "disableCoreLimit: false\n"
                               "deviceSplitCount: 10\n"
                               "deviceMemoryScaling: 1.5\n"
                               "deviceCoreScaling: 1\n"
                               "preConfiguredDeviceMemory: 0\n"
                               "gpuCorePolicy: force\n"
                               "runtimeClassName: nvidia\n"
                               "libCudaLogLevel: 1\n"
                               "enableNumaTopology: false\n"
                               "knownMigGeometries:\n"
                               "- models: [A30]\n"
                               "  allowedGeometries: []\n"
                               "migProfileAllowlist:\n"
                               "- models: [A30, B30]\n"
                               "  profiles: [1g.6gb, 2g.12gb, 4g.24gb]\n";
    struct gs_nvidia_yaml *yaml = NULL;
    const struct gs_nvidia_conf *conf;
    struct kit kit;

    (void)state;
    assert_int_equal(load(text, &yaml), CYAML_OK);
    setup(&kit, yaml);
    conf = kit.policy->conf;
    assert_true(conf->overwrites_env);
    assert_int_equal(conf->default_mem, 512);
    assert_int_equal(conf->default_count, 2);
    assert_int_equal(kit.policy->default_cores, 7);
    assert_int_equal(kit.policy->mem_factor, 3);
    assert_int_equal(kit.policy->quota_factor, 3);
    assert_true(gs_str_eq_c(conf->core_policy, "force"));
    assert_int_equal(conf->n_allow, 1);
    assert_int_equal(conf->allow[0].n_models, 2);
    assert_true(gs_str_eq_c(conf->allow[0].model[1], "B30"));
    unload(yaml);
    assert_true(gs_str_eq_c(conf->runtime_class, "nvidia")); /* nothing of the file is kept */
    assert_true(gs_str_eq_c(conf->allow[0].profile[2], "4g.24gb"));
    kit_fini(&kit);
}

static void test_defaults(void **state)
{
    const struct gs_nvidia_conf *conf;
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    conf = kit.policy->conf;
    assert_true(gs_str_eq_c(kit.policy->names.count, "nvidia.com/gpu"));
    assert_true(gs_str_eq_c(kit.policy->names.mem_pct, "nvidia.com/gpumem-percentage"));
    assert_true(gs_str_eq_c(kit.policy->names.priority, "nvidia.com/priority"));
    assert_int_equal(kit.policy->mem_factor, 1);
    assert_int_equal(kit.policy->default_cores, 0);
    assert_int_equal(conf->default_count, 1);
    assert_false(conf->overwrites_env);
    assert_int_equal(conf->core_policy.n, 0);
    assert_int_equal(conf->n_allow, 9);
    kit_fini(&kit);
    setup(&kit, &(struct gs_nvidia_yaml){.mem = (char[]){""}});
    assert_int_equal(kit.policy->names.mem.n, 0); /* switched off */
    assert_true(gs_str_eq_c(kit.policy->names.core, "nvidia.com/gpucores"));
    kit_fini(&kit);
}

static void want_bad(const char *text, const char *part)
{
    struct gs_nvidia_yaml *yaml = NULL;
    struct gs_policies policies = {0};
    struct gs_arena arena = {0};
    struct gs_err err = {0};

    assert_int_equal(load(text, &yaml), CYAML_OK);
    assert_int_equal(gs_nvidia_section.make(yaml, false, &arena, &policies, &err), -EINVAL);
    assert_non_null(strstr(err.text, part));
    assert_int_equal(policies.n, 0);
    unload(yaml);
    gs_arena_fini(&arena);
}

static void test_bad_section(void **state)
{
    struct gs_nvidia_yaml *yaml = NULL;

    (void)state;
    want_bad("gpuCorePolicy: fast", "gpuCorePolicy");
    want_bad("memoryFactor: -1", "memoryFactor");
    want_bad("defaultGPUNum: -1", "defaultGPUNum");
    want_bad("migProfileAllowlist: [{models: [A30], profiles: [g.5gb]}]", "g.5gb");
    want_bad("migProfileAllowlist: [{models: [A30], profiles: [1g.]}]", "1g.");
    assert_int_not_equal(load("migProfileAllowlist: [{models: [], profiles: [1g.5gb]}]", &yaml),
                         CYAML_OK);
    assert_int_not_equal(load("overwriteEnv: perhaps", &yaml), CYAML_OK);
    assert_int_not_equal(load("defaultMemory: much", &yaml), CYAML_OK);
}

/* --- A13 requests --- */

static void want_request(const struct gs_nvidia_yaml *yaml, const char *limits,
                         const char *requests, const int32_t want[4])
{
    struct gs_request r;
    struct kit kit;

    setup(&kit, yaml);
    kit_ask_of(&kit, kit_limit, "nvidia.com/", limits);
    kit_ask_of(&kit, kit_request, "nvidia.com/", requests);
    r = kit_ask(&kit, 0);
    if (want == NULL) {
        assert_int_equal(r.nums, 0);
    } else {
        assert_int_equal(r.nums, want[0]);
        assert_int_equal(r.mem_mib, want[1]);
        assert_int_equal(r.mem_pct, want[2]);
        assert_int_equal(r.cores, want[3]);
    }
    kit_fini(&kit);
}

#define WANT(...) ((const int32_t[4]){__VA_ARGS__})

static void test_requests(void **state)
{
    const struct gs_nvidia_yaml by_two = {.mem_factor = (int32_t[]){2}};
    const struct gs_nvidia_yaml some = {.default_mem = (int32_t[]){512}};

    (void)state;
    want_request(NULL, "gpu=1", "", WANT(1, 0, 100, 0));                       /* A13.1 */
    want_request(NULL, "gpu=1 gpumem-percentage=50", "", WANT(1, 0, 50, 0));   /* A13.2 */
    want_request(NULL, "gpu=1 gpumem-percentage=150", "", WANT(1, 0, 100, 0)); /* A13.3 */
    want_request(NULL, "gpu=1 gpumem-percentage=4294967346", "", WANT(1, 0, 100, 0));
    want_request(NULL, "gpu=1 gpumem-percentage=101", "", WANT(1, 0, 100, 0));
    want_request(NULL, "gpu=1 gpucores=50", "", WANT(1, 0, 100, 50));        /* A13.4 */
    want_request(NULL, "", "gpu=1", WANT(1, 0, 100, 0));                     /* A13.5 */
    want_request(NULL, "gpu=1 gpumem-percentage=0", "", WANT(1, 0, 100, 0)); /* A13.6 */
    want_request(NULL, "gpu=1", "gpumem-percentage=0", WANT(1, 0, 100, 0));
    want_request(NULL, "gpu=1 gpumem-percentage=-1", "", WANT(1, 0, 100, 0));
    want_request(NULL, "gpu=1 gpumem=2000 gpumem-percentage=0", "",
                 WANT(1, 2000, 101, 0));                                   /* A13.7 */
    want_request(&by_two, "gpu=1 gpumem=1024", "", WANT(1, 2048, 101, 0)); /* A13.8 */
    want_request(&by_two, "gpu=1 gpumem=1Gi", "", NULL);
    want_request(&some, "gpu=1", "", WANT(1, 512, 101, 0)); /* A13.9 */
    want_request(&some, "gpu=1 gpumem-percentage=0", "", WANT(1, 512, 101, 0));
    want_request(&some, "gpu=1 gpumem=0", "", WANT(1, 512, 101, 0));
    /* quirk 25: counts that are no counts ask for nothing */
    want_request(NULL, "gpu=0", "", NULL);
    want_request(NULL, "gpu=-1", "", NULL);
    want_request(NULL, "gpu=2147483648", "", NULL);
    want_request(NULL, "gpu=1 gpumem=-1", "", NULL);
    want_request(NULL, "gpu=1 gpumem=1.5", "", NULL);
    want_request(NULL, "gpu=1 gpumem=8k", "", WANT(1, 8000, 101, 0)); /* as the API writes it */
    want_request(NULL, "", "", NULL);
}

/* --- A14 admission --- */

static void want_admit(struct kit *kit, const char *limits, int rc)
{
    setup(kit, NULL);
    kit_ask_of(kit, kit_limit, "nvidia.com/", limits);
    assert_int_equal(kit_admit(kit, 0), rc);
}

static void want_cores(const char *limits, const char *requests, const char *cores)
{
    struct kit kit;

    setup(&kit, NULL);
    kit_ask_of(&kit, kit_limit, "nvidia.com/", limits);
    kit_ask_of(&kit, kit_request, "nvidia.com/", requests);
    assert_int_equal(kit_admit(&kit, 0), 1);
    if (cores == NULL)
        assert_null(kit_limit_of(&kit, 0, NAME("gpucores")));
    else
        assert_string_equal(kit_limit_of(&kit, 0, NAME("gpucores")), cores);
    kit_fini(&kit);
}

static void want_refused(const char *limits, const char *text)
{
    struct kit kit;

    want_admit(&kit, limits, -EINVAL);
    assert_string_equal(kit.err.text, text);
    kit_fini(&kit);
}

static void test_admit(void **state)
{
    static const char *const part[] = {"gpucores=10", "gpumem=10", "gpumem-percentage=10"};
    struct kit kit;

    (void)state;
    want_cores("gpu=1 gpumem-percentage=0", "", "100"); /* A14.1; 0 is as if not named */
    want_cores("gpu=1 gpumem-percentage=100", "", "100");
    want_cores("gpu=1", "gpumem-percentage=100", "100"); /* A14.3 */
    want_cores("gpu=1 gpumem-percentage=50", "", NULL);  /* A14.4 */
    want_cores("gpu=1", "", "100");                      /* A14.5 */
    want_cores("gpu=1 gpumem=8192", "", NULL);           /* A14.7 */
    want_cores("gpu=1 gpumem=0", "", "100");
    want_cores("gpu=1 gpucores=30", "", "30");
    want_cores("gpu=1", "gpucores=30", NULL);
    setup(&kit, &(struct gs_nvidia_yaml){.mem = (char[]){""}}); /* A14.8 */
    kit_ask_of(&kit, kit_limit, "nvidia.com/", "gpu=1 gpumem=10");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_string_equal(kit_limit_of(&kit, 0, NAME("gpucores")), "100");
    kit_fini(&kit);
    for (size_t i = 0; i < GS_ARRAY_LEN(part); i++) { /* A14.9 */
        want_admit(&kit, part[i], 1);
        assert_string_equal(kit_limit_of(&kit, 0, NAME("gpu")), "1");
        assert_int_equal(kit.pod.n_edits, 1);
        kit_fini(&kit);
    }
    want_admit(&kit, "", 0);
    assert_int_equal(kit.pod.n_edits, 0);
    kit_fini(&kit);
}

static void test_refused(void **state)
{
    static const char pct[] = ": must be an integer between 0 and 100";
    char text[256];
    static const char *const bad[] = {"101", "-1", "50.5", "4294967346", "9223372036854775808"};

    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        char limits[64];

        snprintf(limits, sizeof(limits), "gpu=1 gpumem-percentage=%s", bad[i]);
        snprintf(text, sizeof(text),
                 "invalid nvidia.com/gpumem-percentage value %s in container "
                 "c0%s",
                 bad[i], pct);
        want_refused(limits, text);
    }
    want_refused("gpu=1 gpumem=2147483648",
                 "invalid nvidia.com/gpumem value 2147483648 in container c0: must be an integer, "
                 "in units of the resource, below 2^31 MiB");
    want_refused("gpu=-1", "invalid nvidia.com/gpu value -1 in container c0: must be an integer "
                           "number of devices below 2^31");
    want_refused("gpu=1 priority=high", "invalid nvidia.com/priority value high in container c0: "
                                        "must be an integer below 2^31");
}

static void test_environment(void **state)
{
    const struct gs_nvidia_yaml yaml = {
        .overwrite_env = (int[]){1},
        .core_policy = (char[]){"disable"},
        .runtime_class = (char[]){"nvidia"},
    };
    struct kit kit;

    (void)state;
    setup(&kit, &yaml);
    kit_container(&kit, "c1");
    kit_ask_of(&kit, kit_limit, "nvidia.com/", "gpu=1 gpumem=100 priority=1");
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(gs_pairs_set(&kit.container[i].env, &kit.arena,
                                      GS_STR("NVIDIA_VISIBLE_DEVICES"), GS_STR("all")),
                         0);
    assert_int_equal(
        gs_pairs_set(&kit.container[0].env, &kit.arena, GS_STR("CUDA_TASK_PRIORITY"), GS_STR("0")),
        0);
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_int_equal(kit_admit(&kit, 1), 0);
    assert_string_equal(kit_env_of(&kit, 0, "CUDA_TASK_PRIORITY"),
                        "1"); /* once, the pod's own gone */
    assert_int_equal(kit.container[0].env.n, 3);
    assert_string_equal(kit_env_of(&kit, 0, "GPU_CORE_UTILIZATION_POLICY"), "disable");
    assert_null(kit_env_of(&kit, 1, "GPU_CORE_UTILIZATION_POLICY")); /* quirk 9 */
    assert_string_equal(kit_env_of(&kit, 0, "NVIDIA_VISIBLE_DEVICES"), "all");
    assert_string_equal(kit_env_of(&kit, 1, "NVIDIA_VISIBLE_DEVICES"), "none"); /* user need 30 */
    assert_true(gs_str_eq_c(kit.pod.runtime_class, "nvidia"));
    kit_fini(&kit);
    setup(&kit, &yaml);
    kit.pod.runtime_class = GS_STR("kata");
    kit_ask_of(&kit, kit_limit, "nvidia.com/", "gpu=1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_true(gs_str_eq_c(kit.pod.runtime_class, "kata"));
    kit_fini(&kit);
    setup(&kit,
          &yaml); /* "none", and behind it a reference to who knows what: the last one counts */
    kit.container[0].env = (struct gs_pairs){
        .at = (struct gs_pair[]){{GS_STR("NVIDIA_VISIBLE_DEVICES"), GS_STR("none")},
                                 {GS_STR("NVIDIA_VISIBLE_DEVICES"), GS_POD_ENV_REF}},
        .n = 2,
        .cap = 2,
    };
    assert_int_equal(kit_admit(&kit, 0), 0);
    assert_int_equal(kit.pod.n_edits, 1);
    kit_fini(&kit);
    setup(&kit, &yaml); /* no card asked for in so many words */
    kit_ask_of(&kit, kit_limit, "nvidia.com/", "gpu=0");
    assert_int_equal(kit_admit(&kit, 0), 0);
    assert_string_equal(kit_env_of(&kit, 0, "NVIDIA_VISIBLE_DEVICES"), "none");
    kit_fini(&kit);
}

/* --- nodes --- */

#define REGISTER "hami.io/node-nvidia-register"

static void test_nodes(void **state)
{
    const struct gs_nvidia_facts *facts;
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    assert_int_equal(kit_read_node(&kit), -ENOENT);
    /* A2, the first worked example of the JSON form */
    kit_annotate_node(&kit, REGISTER,
                      "[{\"id\":\"GPU-0\",\"count\":10,\"devmem\":8192,\"devcore\":100,\"type\":"
                      "\"NVIDIA-A100\",\"numa\":0,\"health\":true,\"index\":0,\"mode\":"
                      "\"hami-core\"}]");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 1);
    assert_int_equal(kit.node.dev[0].count, 10);
    assert_int_equal(kit.node.dev[0].mem_mib, 8192);
    assert_true(gs_str_eq_c(kit.node.dev[0].mode, "hami-core"));
    facts = kit.group.facts;
    assert_null(facts->score);
    assert_false(kit.node.dev[0].is_cordoned);
    /* V-S1: text up to v2.7, without the final colon */
    kit_annotate_node(&kit, REGISTER, "GPU-00552014,10,32768,100,NVIDIA-V100,0,true");
    assert_int_equal(kit_read_node(&kit), 0);
    assert_int_equal(kit.group.n, 1);
    assert_int_equal(kit.node.dev[0].mem_mib, 32768);
    assert_int_equal(kit.node.dev[0].cores, 100);
    assert_true(gs_str_eq_c(kit.node.dev[0].type, "NVIDIA-V100"));
    assert_true(kit.node.dev[0].is_healthy);
    kit_fini(&kit);
}

static void test_bad_nodes(void **state)
{
    static const char *const profile[] = {
        "7",
        "[7]",
        "[{\"memoryMB\":\"many\"}]",
        "[{\"memoryMB\":1.5}]",
        "[{\"memoryMB\":-1}]",
        "[{\"memoryMB\":4294967296}]",
        "[{\"placements\":7}]",
        "[{\"placements\":[{\"start\":-1,\"size\":1}]}]",
        "[{\"placements\":[{\"start\":0}]}]",
    };
    static const char *const score[] = {"",
                                        "{",
                                        "{}",
                                        "[7]",
                                        "[{\"uuid\":\"g\",\"score\":7}]",
                                        "[{\"uuid\":\"g\",\"score\":{\"h\":\"near\"}}]"};
    struct kit kit;
    char text[256];

    (void)state;
    setup(&kit, NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(profile); i++) {
        snprintf(text, sizeof(text), "[{\"id\":\"g\",\"migProfiles\":%s}]", profile[i]);
        kit_annotate_node(&kit, REGISTER, gs_arena_printf(&kit.arena, "%s", text).p);
        assert_int_equal(kit_read_node(&kit), -EINVAL);
    }
    kit_annotate_node(&kit, REGISTER,
                      "[{\"id\":\"g\",\"migtemplate\":[7],\"migProfiles\":null,"
                      "\"devicepairscore\":{}}]"); /* v2.9's own members */
    assert_int_equal(kit_read_node(&kit), 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(score); i++) {
        kit_annotate_node(&kit, "hami.io/node-nvidia-score", score[i]);
        assert_int_equal(kit_read_node(&kit), -EINVAL);
    }
    kit_annotate_node(&kit, "hami.io/node-nvidia-score", "[{\"uuid\":\"other\",\"score\":{}}]");
    assert_int_equal(kit_read_node(&kit), 0);
    kit_fini(&kit);
}

static void test_no_memory(void **state)
{
    struct gs_arena full;
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    gs_arena_init(&full);
    full.failed = true;
    kit_ask_of(&kit, kit_limit, "nvidia.com/", "gpumem=10");
    kit.pod.arena = &full;
    assert_int_equal(kit_admit(&kit, 0), -ENOMEM);
    kit.pod.arena = &kit.arena;
    kit_annotate_node(&kit, REGISTER, "[{\"id\":\"g\",\"migProfiles\":[]}]");
    kit_no_memory(&kit, &gs_nvidia_section);
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_section),
        cmocka_unit_test(test_defaults),  cmocka_unit_test(test_bad_section),
        cmocka_unit_test(test_requests),  cmocka_unit_test(test_admit),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_environment),
        cmocka_unit_test(test_nodes),     cmocka_unit_test(test_bad_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
