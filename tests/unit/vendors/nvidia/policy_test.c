/* Numbers A13.1 and the like are those of the collected vectors of HAMi v2.10: A13 requests (in the
 * order they are listed), A14 admission, A15 fit, A16 MIG, A17 topology. Not here: A15.24 is the
 * placement's (a test of the model), A16.11 and A16.12 are the books', A17.7 counts an inner list,
 * A17.8 and A17.9 are the device plugin's. */

#include "kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <cyaml/cyaml.h>

#include "vendors/nvidia/policy/conf.h"
#include "vendors/nvidia/policy/mig.h"
#include "vendors/nvidia/policy/node.h"
#include "vendors/nvidia/policy/policy.h"

#define NAME(what) "nvidia.com/" what

static void setup(struct kit *kit, const struct gs_nvidia_yaml *yaml)
{
    kit_init(kit, &gs_nvidia_section, yaml, "NVIDIA");
    kit_container(kit, "c0");
}

/* "gpu=1 gpumem=2000" into limits or requests. */
static void ask(struct kit *kit, void (*set)(struct kit *, size_t, const char *, const char *),
                const char *amounts)
{
    struct gs_str rest = gs_str_of(amounts), one, name;

    while (gs_str_cut(&rest, ' ', &one)) {
        gs_str_cut(&one, '=', &name);
        set(kit, 0, gs_arena_printf(&kit->arena, "nvidia.com/%.*s", (int)name.n, name.p).p,
            gs_arena_str(&kit->arena, one).p);
    }
}

static const char *env_of(struct kit *kit, size_t container, const char *name)
{
    const struct gs_str *value = gs_pairs_find(&kit->container[container].env, gs_str_of(name));

    return value != NULL ? gs_arena_str(&kit->arena, *value).p : NULL;
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
    ask(&kit, kit_limit, limits);
    ask(&kit, kit_request, requests);
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
    ask(kit, kit_limit, limits);
    assert_int_equal(kit_admit(kit, 0), rc);
}

static void want_cores(const char *limits, const char *requests, const char *cores)
{
    struct kit kit;

    setup(&kit, NULL);
    ask(&kit, kit_limit, limits);
    ask(&kit, kit_request, requests);
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
    ask(&kit, kit_limit, "gpu=1 gpumem=10");
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
    ask(&kit, kit_limit, "gpu=1 gpumem=100 priority=1");
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(gs_pairs_set(&kit.container[i].env, &kit.arena,
                                      GS_STR("NVIDIA_VISIBLE_DEVICES"), GS_STR("all")),
                         0);
    assert_int_equal(
        gs_pairs_set(&kit.container[0].env, &kit.arena, GS_STR("CUDA_TASK_PRIORITY"), GS_STR("0")),
        0);
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_int_equal(kit_admit(&kit, 1), 0);
    assert_string_equal(env_of(&kit, 0, "CUDA_TASK_PRIORITY"), "1"); /* once, the pod's own gone */
    assert_int_equal(kit.container[0].env.n, 3);
    assert_string_equal(env_of(&kit, 0, "GPU_CORE_UTILIZATION_POLICY"), "disable");
    assert_null(env_of(&kit, 1, "GPU_CORE_UTILIZATION_POLICY")); /* quirk 9 */
    assert_string_equal(env_of(&kit, 0, "NVIDIA_VISIBLE_DEVICES"), "all");
    assert_string_equal(env_of(&kit, 1, "NVIDIA_VISIBLE_DEVICES"), "none"); /* user need 30 */
    assert_true(gs_str_eq_c(kit.pod.runtime_class, "nvidia"));
    kit_fini(&kit);
    setup(&kit, &yaml);
    kit.pod.runtime_class = GS_STR("kata");
    ask(&kit, kit_limit, "gpu=1");
    assert_int_equal(kit_admit(&kit, 0), 1);
    assert_true(gs_str_eq_c(kit.pod.runtime_class, "kata"));
    kit_fini(&kit);
    setup(&kit, &yaml); /* no card asked for in so many words */
    ask(&kit, kit_limit, "gpu=0");
    assert_int_equal(kit_admit(&kit, 0), 0);
    assert_string_equal(env_of(&kit, 0, "NVIDIA_VISIBLE_DEVICES"), "none");
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
    assert_null(facts->is_cordoned);
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

/* --- fit --- */

struct card {
    const char *id;
    int32_t used, mem_used, mem, cores_used, numa; /* of 100 shares, 1280 MiB where 0, 100 cores */
    const char *type;
};

static void cards(struct kit *kit, const struct card *card, size_t n)
{
    struct gs_buf text = {0};

    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&text,
                    "%s{\"id\":\"%s\",\"index\":%zu,\"count\":%d,\"devmem\":%d,\"devcore\":%d,"
                    "\"numa\":%d,\"type\":\"%s\",\"health\":true,\"mode\":\"hami-core\"}",
                    i == 0 ? "[" : ",", card[i].id, i, 100, card[i].mem > 0 ? card[i].mem : 1280,
                    100, card[i].numa, card[i].type != NULL ? card[i].type : "NVIDIA A100");
    gs_buf_adds(&text, "]");
    kit_annotate_node(kit, REGISTER, gs_arena_printf(&kit->arena, "%s", gs_buf_text(&text)).p);
    gs_buf_fini(&text);
    assert_int_equal(kit_read_node(kit), 0);
    for (size_t i = 0; i < n; i++) {
        kit->use[i].slots = card[i].used;
        kit->use[i].mem_mib = card[i].mem_used;
        kit->use[i].cores = card[i].cores_used;
    }
    kit_unfit(kit);
}

static int fit(struct kit *kit, int32_t n, int32_t mem, int32_t pct, int32_t cores)
{
    kit_unfit(kit);
    kit->request[0] =
        (struct gs_request){.nums = n, .mem_mib = mem, .mem_pct = pct, .cores = cores};
    return kit_fit(kit, 0);
}

static void want_fit(struct kit *kit, int32_t n, int32_t mem, int32_t pct, int32_t cores,
                     const char *chosen)
{
    assert_int_equal(fit(kit, n, mem, pct, cores), n);
    assert_string_equal(kit_chosen(kit, 0), chosen);
}

static void want_unfit(struct kit *kit, int32_t n, int32_t mem, int32_t pct, int32_t cores,
                       const char *reasons)
{
    assert_int_equal(fit(kit, n, mem, pct, cores), -ENOSPC);
    assert_string_equal(kit_reasons(kit), reasons);
}

#define SOME(kit, ...)                                                                             \
    cards(kit, (struct card[]){__VA_ARGS__},                                                       \
          sizeof((struct card[]){__VA_ARGS__}) / sizeof(struct card))

static void test_fit(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    SOME(&kit, {.id = "dev-0", .mem = 128}, {.id = "dev-1", .mem = 128});
    want_fit(&kit, 1, 64, 0, 50, "1"); /* A15.1 */
    assert_int_equal(kit.pick[0][0].mem_mib, 64);
    assert_int_equal(kit.pick[0][0].cores, 50);
    SOME(&kit, {.id = "dev-0", .cores_used = 100});
    want_unfit(&kit, 1, 512, 0, 50, "1/1 CardInsufficientCore"); /* A15.3 */
    SOME(&kit, {.id = "dev-0", .used = 100});
    want_unfit(&kit, 1, 512, 0, 50, "1/1 CardTimeSlicingExhausted"); /* A15.7 */
    SOME(&kit, {.id = "dev-0"});
    want_fit(&kit, 1, 512, 0, 120, "0"); /* A15.8 */
    assert_int_equal(kit.pick[0][0].cores, 100);
    SOME(&kit, {.id = "dev-0", .used = 20});
    want_unfit(&kit, 1, 512, 0, 100, "1/1 ExclusiveDeviceAllocateConflict"); /* A15.9 */
    SOME(&kit, {.id = "dev-0", .used = 20, .cores_used = 10});
    want_unfit(&kit, 2, 512, 0, 20, "1/1 AllocatedCardsInsufficientRequest"); /* A15.11 */
    want_fit(&kit, 1, 0, 10, 20, "0");                                        /* A15.13 */
    assert_int_equal(kit.pick[0][0].mem_mib, 128);
    SOME(&kit, {.id = "dev-0"}, {.id = "dev-1"});
    want_unfit(&kit, 3, 512, 0, 20, "2/2 AllocatedCardsInsufficientRequest"); /* A15.12 */
    SOME(&kit, {.id = "dev-0", .mem_used = 1000});
    want_unfit(&kit, 1, 512, 0, 20, "1/1 CardInsufficientMemory");
    SOME(&kit, {.id = "dev-0", .used = 1, .cores_used = 100});
    want_unfit(&kit, 1, 512, 0, 0, "1/1 CardComputeUnitsExhausted");
    kit_fini(&kit);
}

static void test_choice_of_the_pod(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    /* A15.4 gives another vendor's word; ours never meet another's group: the type list instead. */
    kit_annotate_pod(&kit, "nvidia.com/use-gputype", "V100");
    SOME(&kit, {.id = "dev-1"});
    want_unfit(&kit, 1, 512, 0, 50, "1/1 CardTypeMismatch");
    kit_annotate_pod(&kit, "nvidia.com/use-gputype", " v100 , a100");
    kit_annotate_pod(&kit, "nvidia.com/use-gpuuuid", "dev-0");
    want_unfit(&kit, 2, 512, 0, 50, "1/1 CardUuidMismatch"); /* A15.5 */
    kit_annotate_pod(&kit, "nvidia.com/use-gpuuuid", "");
    kit_annotate_pod(&kit, "nvidia.com/vgpu-mode", "mig,mps");
    want_unfit(&kit, 1, 512, 0, 50, "1/1 CardTypeMismatch");
    kit_annotate_pod(&kit, "nvidia.com/vgpu-mode", "mig,hami-core");
    want_fit(&kit, 1, 512, 0, 50, "0");
    SOME(&kit, {.id = "used", .used = 1}, {.id = "idle"});
    kit.device_policy.is_mutex = true;
    want_fit(&kit, 1, 512, 0, 50, "1"); /* A15.19 */
    want_unfit(&kit, 2, 512, 0, 50,
               "1/2 AllocatedCardsInsufficientRequest, 1/2 ExclusiveDeviceAllocateConflict");
    kit_fini(&kit);
}

static void test_cordon(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_annotate_node(&kit, "hami.io/device-cordon", "dev-1, ");
    SOME(&kit, {.id = "dev-0"}, {.id = "dev-1"});
    want_fit(&kit, 1, 512, 0, 50, "0"); /* A15.15 */
    kit_annotate_node(&kit, "hami.io/device-cordon", "dev-0,dev-1");
    SOME(&kit, {.id = "dev-0"}, {.id = "dev-1"});
    want_unfit(&kit, 1, 512, 0, 50, "2/2 CardCordoned"); /* A15.16 */
    kit_fini(&kit);
}

static void test_numa(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_annotate_pod(&kit, "nvidia.com/numa-bind", "true");
    SOME(&kit, {.id = "dev-0", .numa = 1}, {.id = "dev-1", .numa = 1}, {.id = "dev-2"});
    want_fit(&kit, 2, 512, 0, 50, "1,0"); /* A15.17 */
    /* A15.20 A n0, B n0, C n1 by falling score: A C B without, A B C with the grouping */
    SOME(&kit, {.id = "A"}, {.id = "B"}, {.id = "C", .numa = 1});
    memcpy(kit.order, (uint32_t[]){0, 2, 1}, 3 * sizeof(uint32_t));
    assert_int_equal(fit(&kit, 2, 512, 0, 50), -ENOSPC);
    memcpy(kit.order, (uint32_t[]){0, 1, 2}, 3 * sizeof(uint32_t));
    want_fit(&kit, 2, 512, 0, 50, "1,0");
    kit.device_policy.is_topology = true; /* of the node that has enough */
    want_fit(&kit, 2, 512, 0, 50, "1,0");
    kit_fini(&kit);
}

/* A15.23 with cards made to the counts it gives: the fit passes all ten that do not serve. */
static void test_many_reasons(void **state)
{
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_annotate_pod(&kit, "nvidia.com/use-gpuuuid", "a,f,c,d,e,g,h,j,l,u,m");
    SOME(&kit, {.id = "a", .mem = 2048}, {.id = "c", .mem = 2048}, {.id = "b"}, {.id = "i"},
         {.id = "k"}, {.id = "d", .used = 100}, {.id = "e", .used = 100}, {.id = "f", .used = 100},
         {.id = "g", .used = 100}, {.id = "h", .mem_used = 1000}, {.id = "j", .mem_used = 1000},
         {.id = "l", .mem = 2048, .cores_used = 90});
    want_fit(&kit, 2, 1024, 100, 20, "1,0");
    assert_string_equal(kit_reasons(&kit),
                        "1/12 CardInsufficientCore, 2/12 CardInsufficientMemory, "
                        "3/12 CardUuidMismatch, 4/12 CardTimeSlicingExhausted");
    kit_fini(&kit);
}

/* --- A16 MIG --- */

#define PLACE(start, size) "{\"start\":" #start ",\"size\":" #size "}"
#define A100                                                                                       \
    "[{\"name\":\"2g.10gb\",\"memoryMB\":10240,\"core\":28,\"sliceCount\":2,\"placements\":"       \
    "[" PLACE(0, 2) "," PLACE(2, 2) "," PLACE(                                                     \
        4,                                                                                         \
        2) "]},"                                                                                   \
           "{\"name\":\"1g.5gb\",\"memoryMB\":5120,\"core\":14,\"sliceCount\":1,\"placements\":"   \
           "[" PLACE(6, 1) "," PLACE(0, 1) "," PLACE(1, 1) "," PLACE(2, 1) "," PLACE(              \
               3,                                                                                  \
               1) "," PLACE(4,                                                                     \
                            1) "," PLACE(5,                                                        \
                                         1) "]},"                                                  \
                                            "{\"name\":\"3g.20gb\",\"memoryMB\":20480,\"core\":"   \
                                            "42,\"sliceCount\":3,\"placements\":[" PLACE(          \
                                                0, 4) "," PLACE(4, 4) "]}]"

static void mig_card(struct kit *kit)
{
    kit_annotate_node(kit, REGISTER,
                      "[{\"id\":\"GPU-a\",\"count\":7,\"devmem\":40960,\"devcore\":100,\"type\":"
                      "\"NVIDIA A100\",\"mode\":\"mig\",\"health\":true,\"migProfiles\":" A100
                      "}]");
    assert_int_equal(kit_read_node(kit), 0);
}

/* Pods that hold these places of card 0. */
static void occupy(struct kit *kit, const struct gs_nvidia_span *span, size_t n)
{
    struct gs_tenant *tenant = gs_arena_take(&kit->arena, n, sizeof(*tenant));

    for (size_t i = 0; i < n; i++)
        tenant[i] = (struct gs_tenant){
            .slots = 1, .place_start = span[i].start, .place_size = span[i].size};
    kit->use[0].tenant = tenant;
    kit->use[0].n_tenants = n;
    kit->use[0].slots = (int32_t)n;
    kit_unfit(kit);
}

#define SPANS(...)                                                                                 \
    (const struct gs_nvidia_span[])                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void want_place(struct kit *kit, int32_t mem, const char *profile, int32_t start,
                       int32_t size)
{
    const struct gs_pick *pick = &kit->pick[0][0];

    assert_int_equal(fit(kit, 1, mem, 101, 0), 1);
    assert_true(gs_str_eq_c(pick->profile, profile));
    assert_int_equal(pick->place_start, start);
    assert_int_equal(pick->place_size, size);
}

static void test_mig(void **state)
{
    static const char none[] = "1/1 CardMigTopologyInfeasible";
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    mig_card(&kit);
    want_place(&kit, 20480, "3g.20gb", 4, 4); /* A16.1 */
    occupy(&kit, SPANS({4, 4}), 1);
    want_place(&kit, 10240, "2g.10gb", 0, 2);
    occupy(&kit, SPANS({4, 4}, {0, 2}), 2);
    want_place(&kit, 5120, "1g.5gb", 3, 1);
    occupy(&kit, SPANS({4, 4}, {0, 2}, {3, 1}), 3);
    want_place(&kit, 5120, "1g.5gb", 2, 1); /* with the three above: A16.3 */
    occupy(&kit, SPANS({0, 4}, {4, 4}), 2);
    want_unfit(&kit, 1, 4000, 101, 0, none); /* A16.4 */
    occupy(&kit, SPANS({0, 2}, {2, 2}, {4, 2}), 3);
    want_unfit(&kit, 1, 10000, 101, 0, none); /* A16.5 */
    want_place(&kit, 5000, "1g.5gb", 6, 1);
    want_unfit(&kit, 1, 0, 25, 0, none); /* A16.8 */
    occupy(&kit, SPANS({6, 1}), 1);
    want_place(&kit, 10000, "2g.10gb", 0, 2); /* A16.7 */
    assert_int_equal(kit.pick[0][0].mem_mib, 10240);
    assert_int_equal(kit.pick[0][0].cores, 28);
    want_unfit(&kit, 1, 30000, 101, 0, none);
    kit_fini(&kit);
}

static void test_mig_twice(void **state)
{
    struct gs_pairs pairs;
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    kit_container(&kit, "c1");
    mig_card(&kit);
    want_fit(&kit, 2, 4000, 101, 0, "0,0"); /* A16.9 */
    assert_int_equal(kit.pick[0][0].place_start, 6);
    assert_int_equal(kit.pick[0][1].place_start, 5);
    kit.request[1] = (struct gs_request){.nums = 1, .mem_mib = 20000, .mem_pct = 101};
    assert_int_equal(kit_fit(&kit, 1), 1); /* a later container goes round the earlier one */
    assert_int_equal(kit.pick[1][0].place_start, 0);
    pairs = kit_write(&kit, 0);
    assert_int_equal(pairs.n, 1);
    assert_string_equal(/* 1.6, without the plugin's three keys */
                        kit_written(&kit, &pairs, "hami.io/vgpu-mig-allocations"),
                        "[{\"containerIndex\":0,\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\","
                        "\"profile\":\"1g.5gb\","
                        "\"placement\":{\"start\":6,\"size\":1}},"
                        "{\"containerIndex\":0,\"deviceIndex\":1,\"gpuUUID\":\"GPU-a\",\"profile\":"
                        "\"1g.5gb\","
                        "\"placement\":{\"start\":5,\"size\":1}},"
                        "{\"containerIndex\":1,\"deviceIndex\":0,\"gpuUUID\":\"GPU-a\",\"profile\":"
                        "\"3g.20gb\","
                        "\"placement\":{\"start\":0,\"size\":4}}]");
    SOME(&kit, {.id = "dev-0"});
    want_fit(&kit, 1, 64, 0, 0, "0");
    pairs = kit_write(&kit, 0);
    assert_int_equal(pairs.n, 0);
    kit_fini(&kit);
}

/* --- A17 topology --- */

/* Cards a, b, c... on one node with these scores of pairs, both ways. */
static void linked(struct kit *kit, size_t n, const int *pair)
{
    struct card card[8];
    struct gs_buf text = {0};
    static char id[8][2] = {"a", "b", "c", "d", "e", "f", "g", "h"};

    for (size_t i = 0; i < n; i++) {
        card[i] = (struct card){.id = id[i]};
        gs_buf_addf(&text, "%s{\"uuid\":\"%s\",\"score\":{", i == 0 ? "[" : ",", id[i]);
        for (size_t j = 0, k = 0; j < n; j++)
            if (j != i)
                gs_buf_addf(&text, "%s\"%s\":%d", k++ == 0 ? "" : ",", id[j],
                            pair[i < j ? i * n + j : j * n + i]);
        gs_buf_adds(&text, "}}");
    }
    gs_buf_adds(&text, "]");
    kit_annotate_node(kit, "hami.io/node-nvidia-score",
                      gs_arena_printf(&kit->arena, "%s", gs_buf_text(&text)).p);
    gs_buf_fini(&text);
    cards(kit, card, n);
    kit->device_policy.is_topology = true;
}

static void test_topology(void **state)
{
    /* row i: scores of pairs (i, j) with j > i */
    static const int three[] = {0, 100, 200, 0, 0, 150, 0, 0, 0};
    static const int none[9] = {0};
    static const int below[] = {0, -5, -3, 0, 0, -1, 0, 0, 0};
    int six[36];
    struct kit kit;

    (void)state;
    setup(&kit, NULL);
    linked(&kit, 3, three);
    want_fit(&kit, 1, 64, 0, 0, "1"); /* A17.1 */
    linked(&kit, 3, none);
    want_fit(&kit, 2, 64, 0, 0, "2,1"); /* A17.3: the first in the order of the walk */
    linked(&kit, 3, below);
    want_fit(&kit, 1, 64, 0, 0, "0"); /* A17.4 */
    want_fit(&kit, 2, 64, 0, 0, "2,1");
    want_fit(&kit, 3, 64, 0, 0, "2,1,0");
    for (size_t i = 0; i < GS_ARRAY_LEN(six); i++)
        six[i] = 1;
    six[0 * 6 + 5] = six[2 * 6 + 5] = 100;
    linked(&kit, 6, six);
    want_fit(&kit, 3, 64, 0, 0, "5,2,0"); /* A17.5 */
    kit_fini(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_section),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_bad_section),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_admit),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_bad_nodes),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_choice_of_the_pod),
        cmocka_unit_test(test_cordon),
        cmocka_unit_test(test_numa),
        cmocka_unit_test(test_many_reasons),
        cmocka_unit_test(test_mig),
        cmocka_unit_test(test_mig_twice),
        cmocka_unit_test(test_topology),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
