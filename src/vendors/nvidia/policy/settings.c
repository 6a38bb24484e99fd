#include "vendors/nvidia/policy/settings.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <yyjson.h>

#include "base/yaml.h"
#include "model/json.h"
#include "vendors/nvidia/policy/conf.h"

#define SCALING_MAX 1000.0
#define DROPS_MAX   256

static const struct gs_nvidia_settings chart = {
    .resource = GS_STR_INIT("nvidia.com/gpu"),
    .mode = GS_STR_INIT("hami-core"),
    .log_level = GS_STR_INIT("1"),
    .split_count = 10,
    .mem_scaling = 1,
    .core_scaling = 1,
};

static int read_strategy(struct gs_str text, enum gs_nvidia_mig_strategy *ret)
{
    static const char *const word[] = {
        [GS_NVIDIA_MIG_NONE] = "none",
        [GS_NVIDIA_MIG_SINGLE] = "single",
        [GS_NVIDIA_MIG_MIXED] = "mixed",
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(word); i++)
        if (gs_str_eq_c(text, word[i])) {
            *ret = (enum gs_nvidia_mig_strategy)i;
            return 0;
        }
    return -EINVAL;
}

/* --- one value each; zero: it says nothing --- */

static int set_scaling(double value, const char *key, double *ret, struct gs_err *err)
{
    if (!isfinite(value) || value < 0 || value > SCALING_MAX)
        return gs_err_set(err, -EINVAL, "%s: %g is not above 0 and at most %g", key, value,
                          SCALING_MAX);
    if (value > 0)
        *ret = value;
    return 0;
}

static int set_number(int64_t value, int32_t max, const char *key, int32_t *ret, struct gs_err *err)
{
    if (value < 0 || value > max)
        return gs_err_set(err, -EINVAL, "%s: %lld is not from 1 to %d", key, (long long)value, max);
    if (value > 0)
        *ret = (int32_t)value;
    return 0;
}

/* error, warning, information, debug; 2 is none. */
static bool is_log_level(char c)
{
    return c == '0' || c == '1' || c == '3' || c == '4';
}

static int set_log_level(struct gs_str value, const char *key, struct gs_str *ret,
                         struct gs_err *err)
{
    if (value.n == 0)
        return 0;
    if (value.n != 1 || !is_log_level(value.p[0]))
        return gs_err_set(err, -EINVAL, "%s: '%.*s' is not 0, 1, 3 or 4", key,
                          (int)(value.n < 40 ? value.n : 40), value.p);
    *ret = value;
    return 0;
}

/* --- device configuration --- */

struct document {
    struct gs_nvidia_yaml *nvidia;
};

static int take_yaml(const struct gs_nvidia_yaml *yaml, struct gs_arena *arena,
                     struct gs_nvidia_settings *set, struct gs_err *err)
{
    struct gs_nvidia_conf checked;
    int rc = gs_nvidia_conf_make(yaml, arena, &checked, err);

    if (rc == 0 && yaml->count != NULL && yaml->count[0] != '\0')
        set->resource = gs_arena_str(arena, gs_str_of(yaml->count));
    if (rc == 0 && yaml->split_count != NULL)
        rc = set_number(*yaml->split_count, INT16_MAX, "deviceSplitCount", &set->split_count, err);
    if (rc == 0 && yaml->mem_scaling != NULL)
        rc = set_scaling(*yaml->mem_scaling, "deviceMemoryScaling", &set->mem_scaling, err);
    if (rc == 0 && yaml->core_scaling != NULL)
        rc = set_scaling(*yaml->core_scaling, "deviceCoreScaling", &set->core_scaling, err);
    if (rc == 0 && yaml->preset_mem != NULL)
        rc = set_number(*yaml->preset_mem, INT32_MAX, "preConfiguredDeviceMemory",
                        &set->preset_mem_mib, err);
    if (rc == 0 && yaml->log_level != NULL)
        rc = set_log_level(gs_arena_str(arena, gs_str_of(yaml->log_level)), "libCudaLogLevel",
                           &set->log_level, err);
    if (rc < 0)
        return rc;
    set->enables_numa = yaml->enable_numa != NULL && *yaml->enable_numa != 0;
    set->disables_core_limit = yaml->disable_core_limit != NULL && *yaml->disable_core_limit != 0;
    return gs_arena_check(arena);
}

/* The other sections are other programs' business: their keys are ignored. */
static int read_device_config(struct gs_str text, struct gs_arena *arena,
                              struct gs_nvidia_settings *set, struct gs_err *err)
{
    cyaml_schema_field_t field[2] = {
        {
            .key = "nvidia",
            .value = gs_nvidia_schema,
            .data_offset = offsetof(struct document, nvidia),
        },
        CYAML_FIELD_END,
    };
    cyaml_schema_value_t schema = {
        CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct document, field),
    };
    struct document *document;
    void *data = NULL;
    int rc;

    field[0].value.flags |= CYAML_FLAG_OPTIONAL | CYAML_FLAG_POINTER_NULL;
    rc = gs_yaml_load(text, &schema, NULL, &data, NULL, err);
    if (rc < 0)
        return gs_err_wrap(err, rc, "device configuration");
    document = data;
    if (document == NULL || document->nvidia == NULL)
        rc = gs_err_set(err, -EINVAL, "device configuration: it has no section `nvidia`");
    else if ((rc = take_yaml(document->nvidia, arena, set, err)) < 0)
        rc = gs_err_wrap(err, rc, "device configuration: nvidia");
    if (document != NULL)
        gs_yaml_free(&schema, document, 0);
    return rc;
}

/* --- node configuration --- */

static int wrong_type(struct gs_err *err, const char *key, const char *what)
{
    return gs_err_set(err, -EINVAL, "%s is not %s", key, what);
}

static int take_scaling(yyjson_val *entry, const char *key, double *ret, struct gs_err *err)
{
    yyjson_val *v = gs_json_get(entry, key);

    if (v == NULL)
        return 0;
    return yyjson_is_num(v) ? set_scaling(yyjson_get_num(v), key, ret, err)
                            : wrong_type(err, key, "a number");
}

static int take_number(yyjson_val *entry, const char *key, int32_t max, int32_t *ret,
                       struct gs_err *err)
{
    int32_t value = 0;

    if (gs_json_int32(gs_json_get(entry, key), &value) < 0)
        return wrong_type(err, key, "a whole number of 32 bits");
    return set_number(value, max, key, ret, err);
}

static int take_flag(yyjson_val *entry, const char *key, bool *ret, struct gs_err *err)
{
    bool value = false;

    if (gs_json_bool(gs_json_get(entry, key), &value) < 0)
        return wrong_type(err, key, "true or false");
    *ret |= value;
    return 0;
}

/* An empty view where the key is not there. */
static int take_text(yyjson_val *entry, const char *key, struct gs_arena *arena, struct gs_str *ret,
                     struct gs_err *err)
{
    *ret = (struct gs_str){0};
    if (gs_json_str(gs_json_get(entry, key), arena, ret) < 0)
        return wrong_type(err, key, "text");
    return 0;
}

static int take_words(yyjson_val *entry, struct gs_arena *arena, struct gs_nvidia_settings *set,
                      struct gs_err *err)
{
    struct gs_str mode, level, strategy;
    int rc = take_text(entry, "operatingmode", arena, &mode, err);

    rc = rc == 0 ? take_text(entry, "libcudaloglevel", arena, &level, err) : rc;
    rc = rc == 0 ? take_text(entry, "migstrategy", arena, &strategy, err) : rc;
    if (rc < 0)
        return rc;
    if (mode.n > 0 && !gs_str_eq_c(mode, "hami-core") && !gs_str_eq_c(mode, "mps"))
        return gs_err_set(err, -EINVAL, "operatingmode: '%.*s' is not served (hami-core, mps)",
                          (int)(mode.n < 40 ? mode.n : 40), mode.p);
    if (mode.n > 0)
        set->mode = mode;
    if (strategy.n > 0 && read_strategy(strategy, &set->strategy) < 0)
        return gs_err_set(err, -EINVAL, "migstrategy: '%.*s' is none of none, single, mixed",
                          (int)(strategy.n < 40 ? strategy.n : 40), strategy.p);
    return set_log_level(level, "libcudaloglevel", &set->log_level, err);
}

static int take_uuids(yyjson_val *list, struct gs_arena *arena, struct gs_nvidia_settings *set,
                      struct gs_err *err)
{
    size_t n = yyjson_arr_size(list);
    const char **uuid;

    if (list == NULL)
        return 0;
    if (!yyjson_is_arr(list) || n > DROPS_MAX)
        return wrong_type(err, "filterdevices.uuid", "a list of UUIDs");
    uuid = GS_ARENA_ARRAY(arena, n, const char *);
    for (size_t i = 0; uuid != NULL && i < n; i++) {
        struct gs_str text = gs_json_text(yyjson_arr_get(list, i));

        if (text.n == 0)
            return wrong_type(err, "filterdevices.uuid", "a list of UUIDs");
        uuid[i] = gs_arena_str(arena, text).p;
    }
    set->drop_uuid = uuid;
    set->n_drop_uuids = n;
    return gs_arena_check(arena);
}

static int take_indexes(yyjson_val *list, struct gs_arena *arena, struct gs_nvidia_settings *set,
                        struct gs_err *err)
{
    size_t n = yyjson_arr_size(list);
    uint32_t *index;

    if (list == NULL)
        return 0;
    if (!yyjson_is_arr(list) || n > DROPS_MAX)
        return wrong_type(err, "filterdevices.index", "a list of numbers of cards");
    index = GS_ARENA_ARRAY(arena, n, uint32_t);
    for (size_t i = 0; index != NULL && i < n; i++) {
        int32_t value = -1;

        if (gs_json_int32(yyjson_arr_get(list, i), &value) < 0 || value < 0)
            return wrong_type(err, "filterdevices.index", "a list of numbers of cards");
        index[i] = (uint32_t)value;
    }
    set->drop_index = index;
    set->n_drop_indexes = n;
    return gs_arena_check(arena);
}

static int take_filter(yyjson_val *entry, struct gs_arena *arena, struct gs_nvidia_settings *set,
                       struct gs_err *err)
{
    yyjson_val *filter = gs_json_get(entry, "filterdevices");
    int rc;

    if (filter == NULL)
        return 0;
    if (!yyjson_is_obj(filter))
        return wrong_type(err, "filterdevices", "an object");
    rc = take_uuids(gs_json_get(filter, "uuid"), arena, set, err);
    return rc == 0 ? take_indexes(gs_json_get(filter, "index"), arena, set, err) : rc;
}

static int take_entry(yyjson_val *entry, struct gs_arena *arena, struct gs_nvidia_settings *set,
                      struct gs_err *err)
{
    int rc = take_words(entry, arena, set, err);

    rc = rc == 0 ? take_scaling(entry, "devicememoryscaling", &set->mem_scaling, err) : rc;
    rc = rc == 0 ? take_scaling(entry, "devicecorescaling", &set->core_scaling, err) : rc;
    rc = rc == 0 ? take_number(entry, "devicesplitcount", INT16_MAX, &set->split_count, err) : rc;
    rc = rc == 0
             ? take_number(entry, "preconfigureddevicememory", INT32_MAX, &set->preset_mem_mib, err)
             : rc;
    rc = rc == 0 ? take_flag(entry, "enablenumatopology", &set->enables_numa, err) : rc;
    rc = rc == 0 ? take_flag(entry, "enablegetpreferredallocation", &set->prefers, err) : rc;
    return rc == 0 ? take_filter(entry, arena, set, err) : rc;
}

/* Every entry is read, so that a broken one is told on each node; this node's are kept. */
static int take_entries(yyjson_val *root, struct gs_str node, struct gs_arena *arena,
                        struct gs_nvidia_settings *set, struct gs_err *err)
{
    yyjson_val *list = yyjson_is_obj(root) ? gs_json_get(root, "nodeconfig") : NULL, *entry;
    size_t i, max;

    if (!yyjson_is_obj(root) || (list != NULL && !yyjson_is_arr(list)))
        return gs_err_set(err, -EINVAL, "it is no object with a list `nodeconfig`");
    yyjson_arr_foreach(list, i, max, entry)
    {
        struct gs_nvidia_settings other = *set;
        struct gs_str name = {0};
        int rc = gs_err_set(err, -EINVAL, "it is no object");

        if (yyjson_is_obj(entry)) {
            name = gs_json_text(gs_json_get(entry, "name"));
            rc = take_entry(entry, arena, &other, err);
        }

        if (rc < 0)
            return gs_err_wrap(err, rc, "entry %zu%s%.*s", i, name.n > 0 ? " of " : "",
                               (int)(name.n < 64 ? name.n : 64), name.n > 0 ? name.p : "");
        if (gs_str_eq(name, node))
            *set = other;
    }
    return 0;
}

static int read_node_config(const struct gs_nvidia_settings_from *from, struct gs_arena *arena,
                            struct gs_nvidia_settings *set, struct gs_err *err)
{
    yyjson_doc *doc = NULL;
    int rc = gs_json_parse(from->node_config, GS_NVIDIA_NODE_CONFIG_MAX, &doc, err);

    if (rc < 0)
        return rc;
    rc = take_entries(yyjson_doc_get_root(doc), from->node, arena, set, err);
    yyjson_doc_free(doc);
    return rc;
}

int gs_nvidia_settings_read(const struct gs_nvidia_settings_from *from, struct gs_arena *arena,
                            struct gs_nvidia_settings *ret, struct gs_err *err)
{
    struct gs_nvidia_settings set = chart, own;
    struct gs_err why = {0};
    char text[GS_ERR_TEXT];
    int rc = 0;

    if (from->device_config.p != NULL)
        rc = read_device_config(from->device_config, arena, &set, err);
    if (rc < 0)
        return rc;
    own = set;
    if (from->node_config.p != NULL)
        rc = read_node_config(from, arena, &own, &why);
    if (rc == -ENOMEM || gs_arena_check(arena) < 0)
        return gs_err_set(err, -ENOMEM, "out of memory");
    if (rc < 0 && from->tell != NULL) {
        (void)snprintf(text, sizeof(text), "node configuration: %.400s: none of it holds",
                       why.text);
        from->tell(from->user, text);
    }
    *ret = rc == 0 ? own : set;
    return 0;
}
