#include "vendors/nvidia/policy/conf.h"

#include <cyaml/cyaml.h>
#include <errno.h>

#include "model/usual.h"

/* --- what the file may hold --- */

/* YAML's own words; libcyaml's boolean would take any other word for true. */
static const cyaml_strval_t bool_word[] = {
    {"false", 0}, {"False", 0}, {"FALSE", 0}, {"no", 0},  {"off", 0},
    {"true", 1},  {"True", 1},  {"TRUE", 1},  {"yes", 1}, {"on", 1},
};

#define OPTIONAL     CYAML_FLAG_OPTIONAL
#define OPTIONAL_PTR (CYAML_FLAG_OPTIONAL | CYAML_FLAG_POINTER_NULL)

static const cyaml_schema_value_t word_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 1, 256),
};

static const cyaml_schema_field_t allow_field[] = {
    {
        .key = "models",
        .data_offset = offsetof(struct gs_nvidia_yaml_allow, model),
        .count_offset = offsetof(struct gs_nvidia_yaml_allow, n_models),
        .count_size = sizeof(uint32_t),
        .value = {CYAML_VALUE_SEQUENCE(CYAML_FLAG_POINTER, char *, &word_schema, 1, 256)},
    },
    {
        .key = "profiles",
        .data_offset = offsetof(struct gs_nvidia_yaml_allow, profile),
        .count_offset = offsetof(struct gs_nvidia_yaml_allow, n_profiles),
        .count_size = sizeof(uint32_t),
        .value = {CYAML_VALUE_SEQUENCE(CYAML_FLAG_POINTER, char *, &word_schema, 1, 256)},
    },
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t allow_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct gs_nvidia_yaml_allow, allow_field),
};

/* No CYAML_FLAG_POINTER_NULL: it would take "" for a missing key. */
#define NAME(key, member)                                                                          \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_OPTIONAL, struct gs_nvidia_yaml, member, 0, 253)
#define BOOL(key, member)                                                                          \
    CYAML_FIELD_ENUM_PTR(key, OPTIONAL_PTR | CYAML_FLAG_STRICT, struct gs_nvidia_yaml, member,     \
                         bool_word, CYAML_ARRAY_LEN(bool_word))
#define NUMBER(key, member) CYAML_FIELD_INT_PTR(key, OPTIONAL_PTR, struct gs_nvidia_yaml, member)
#define REAL(key, member)   CYAML_FIELD_FLOAT_PTR(key, OPTIONAL_PTR, struct gs_nvidia_yaml, member)

static const cyaml_schema_field_t field[] = {
    NAME("resourceCountName", count),
    NAME("resourceMemoryName", mem),
    NAME("resourceMemoryPercentageName", mem_pct),
    NAME("resourceCoreName", core),
    NAME("resourcePriorityName", priority),
    BOOL("overwriteEnv", overwrite_env),
    NUMBER("defaultMemory", default_mem),
    NUMBER("defaultCores", default_cores),
    NUMBER("defaultGPUNum", default_count),
    NUMBER("memoryFactor", mem_factor),
    BOOL("disableCoreLimit", disable_core_limit),
    {
        .key = "migProfileAllowlist",
        .data_offset = offsetof(struct gs_nvidia_yaml, allow),
        .count_offset = offsetof(struct gs_nvidia_yaml, n_allow),
        .count_size = sizeof(uint32_t),
        .value = {CYAML_VALUE_SEQUENCE(OPTIONAL_PTR, struct gs_nvidia_yaml_allow, &allow_schema, 0,
                                       256)},
    },
    NAME("gpuCorePolicy", core_policy),
    NAME("runtimeClassName", runtime_class),
    CYAML_FIELD_UINT_PTR("deviceSplitCount", OPTIONAL_PTR, struct gs_nvidia_yaml, split_count),
    REAL("deviceMemoryScaling", mem_scaling),
    REAL("deviceCoreScaling", core_scaling),
    NUMBER("preConfiguredDeviceMemory", preset_mem),
    NAME("libCudaLogLevel", log_level),
    BOOL("enableNumaTopology", enable_numa),
    CYAML_FIELD_IGNORE("knownMigGeometries", OPTIONAL), /* up to v2.9 */
    CYAML_FIELD_END,
};

const struct cyaml_schema_value gs_nvidia_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER_NULL, struct gs_nvidia_yaml, field),
};

/* --- the chart's list of MIG profiles by model --- */

#define WORDS(name, ...) static const struct gs_str name[] = {__VA_ARGS__}
#define W                GS_STR_INIT

WORDS(a30, W("A30"));
WORDS(a30_p, W("1g.6gb"), W("2g.12gb"), W("4g.24gb"));
WORDS(a100_40, W("A100-SXM4-40GB"), W("A100-40GB-PCIe"), W("A100-PCIE-40GB"));
WORDS(a100_40_p, W("1g.5gb"), W("2g.10gb"), W("3g.20gb"), W("7g.40gb"));
WORDS(a100_80, W("A100-SXM4-80GB"), W("A100-80GB-PCIe"), W("A100-PCIE-80GB"));
WORDS(a100_80_p, W("1g.10gb"), W("2g.20gb"), W("3g.40gb"), W("7g.79gb"));
WORDS(h100_80, W("H100-PCIE-80GB"), W("H100-SXM5-80GB"));
WORDS(h100_80_p, W("1g.10gb"), W("2g.20gb"), W("3g.40gb"), W("7g.80gb"));
WORDS(h100_94, W("H100-PCIE-94GB"), W("H100-SXM5-94GB"));
WORDS(h100_94_p, W("1g.12gb"), W("2g.24gb"), W("3g.47gb"), W("7g.94gb"));
WORDS(h100_96, W("H20"), W("H100 on GH200"));
WORDS(h100_96_p, W("1g.12gb"), W("2g.24gb"), W("3g.48gb"), W("7g.96gb"));
WORDS(h200, W("H200 NVL"), W("H200-SXM5"));
WORDS(h200_p, W("1g.18gb"), W("2g.35gb"), W("3g.71gb"), W("7g.141gb"));
WORDS(b200, W("B200"));
WORDS(b200_p, W("1g.23gb"), W("2g.45gb"), W("3g.90gb"), W("7g.180gb"));
WORDS(rtx_6000, W("RTX PRO 6000 Blackwell Server Edition"));
WORDS(rtx_6000_p, W("1g.24gb"), W("2g.48gb"), W("4g.96gb"));

#define ALLOW(name)                                                                                \
    {                                                                                              \
        name, name##_p, GS_ARRAY_LEN(name), GS_ARRAY_LEN(name##_p)                                 \
    }
static const struct gs_nvidia_allow chart_allow[] = {
    ALLOW(a30),     ALLOW(a100_40), ALLOW(a100_80), ALLOW(h100_80),  ALLOW(h100_94),
    ALLOW(h100_96), ALLOW(h200),    ALLOW(b200),    ALLOW(rtx_6000),
};

/* --- checks --- */

/* Digits, "g." and something behind it. */
static bool is_profile(struct gs_str name)
{
    size_t i = 0;

    while (i < name.n && name.p[i] >= '0' && name.p[i] <= '9')
        i++;
    return i > 0 && i + 2 < name.n && name.p[i] == 'g' && name.p[i + 1] == '.';
}

static const struct gs_str *words(struct gs_arena *arena, char *const *word, size_t n)
{
    struct gs_str *at = GS_ARENA_ARRAY(arena, n, struct gs_str);

    for (size_t i = 0; at != NULL && i < n; i++)
        at[i] = gs_arena_str(arena, gs_str_of(word[i]));
    return at;
}

static int make_allow(const struct gs_nvidia_yaml *yaml, struct gs_arena *arena,
                      struct gs_nvidia_conf *conf, struct gs_err *err)
{
    struct gs_nvidia_allow *at = GS_ARENA_ARRAY(arena, yaml->n_allow, struct gs_nvidia_allow);

    for (uint32_t i = 0; at != NULL && i < yaml->n_allow; i++) {
        const struct gs_nvidia_yaml_allow *from = &yaml->allow[i];

        for (uint32_t j = 0; j < from->n_profiles; j++)
            if (!is_profile(gs_str_of(from->profile[j])))
                return gs_err_set(err, -EINVAL,
                                  "migProfileAllowlist: '%s' is no profile such as 1g.10gb",
                                  from->profile[j]);
        at[i].n_models = from->n_models;
        at[i].n_profiles = from->n_profiles;
        at[i].model = words(arena, from->model, from->n_models);
        at[i].profile = words(arena, from->profile, from->n_profiles);
    }
    conf->allow = at;
    conf->n_allow = yaml->n_allow;
    return gs_arena_check(arena);
}

static int check_not_negative(const int32_t *value, const char *key, struct gs_err *err)
{
    if (value == NULL || *value >= 0)
        return 0;
    return gs_err_set(err, -EINVAL, "%s: must not be negative", key);
}

static int check_numbers(const struct gs_nvidia_yaml *yaml, struct gs_err *err)
{
    int rc = check_not_negative(yaml->default_mem, "defaultMemory", err);

    rc = rc == 0 ? check_not_negative(yaml->default_cores, "defaultCores", err) : rc;
    rc = rc == 0 ? check_not_negative(yaml->default_count, "defaultGPUNum", err) : rc;
    rc = rc == 0 ? check_not_negative(yaml->mem_factor, "memoryFactor", err) : rc;
    rc = rc == 0 ? check_not_negative(yaml->preset_mem, "preConfiguredDeviceMemory", err) : rc;
    return rc;
}

static int read_core_policy(const char *text, struct gs_str *ret, struct gs_err *err)
{
    struct gs_str policy = gs_str_of(text);

    if (policy.n == 0 || gs_str_eq_c(policy, "default"))
        *ret = (struct gs_str){0};
    else if (gs_str_eq_c(policy, "force"))
        *ret = GS_STR("force");
    else if (gs_str_eq_c(policy, "disable"))
        *ret = GS_STR("disable");
    else
        return gs_err_set(err, -EINVAL, "gpuCorePolicy: '%s' is none of default, force, disable",
                          text);
    return 0;
}

int gs_nvidia_conf_make(const struct gs_nvidia_yaml *yaml, struct gs_arena *arena,
                        struct gs_nvidia_conf *ret, struct gs_err *err)
{
    struct gs_nvidia_conf conf = {
        .default_count = 1,
        .allow = chart_allow,
        .n_allow = GS_ARRAY_LEN(chart_allow),
    };
    int rc;

    if (yaml != NULL) {
        rc = check_numbers(yaml, err);
        if (rc == 0)
            rc = read_core_policy(yaml->core_policy, &conf.core_policy, err);
        if (rc == 0 && yaml->allow != NULL)
            rc = make_allow(yaml, arena, &conf, err);
        if (rc < 0)
            return rc;
        conf.overwrites_env = yaml->overwrite_env != NULL && *yaml->overwrite_env != 0;
        if (yaml->default_mem != NULL)
            conf.default_mem = *yaml->default_mem;
        if (yaml->default_count != NULL)
            conf.default_count = *yaml->default_count;
        conf.runtime_class = gs_usual_name(arena, yaml->runtime_class, "");
    }
    *ret = conf;
    return gs_arena_check(arena);
}
