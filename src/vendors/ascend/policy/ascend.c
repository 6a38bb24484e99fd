#include "vendors/ascend/policy/ascend.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdlib.h>

#include "model/usual.h"
#include "vendors/ascend/policy/vnpu.h"

#define CHIPS_MAX     64
#define TEMPLATES_MAX 64

struct templ_conf {
    const char *name;
    int64_t mem, ai_core, ai_cpu;
};

struct chip_conf {
    const char *chip, *word, *count, *mem_name, *core_name, *runtime_class;
    int64_t allocatable, capacity, mem_factor, ai_core, ai_cpu;
    bool is_super_pod, overwrites_env;
    const struct templ_conf *templ;
    uint32_t n_templ;
};

/* The newer shape; the older one is `chip` alone. */
struct conf {
    bool is_soft, mixes_on_soft;
    const struct chip_conf *chip;
    uint32_t n_chips;
};

#define OPTIONAL (CYAML_FLAG_DEFAULT | CYAML_FLAG_OPTIONAL)
#define STRING(key, type, member)                                                                  \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 0,         \
                           CYAML_UNLIMITED)
static const struct cyaml_schema_field templ_field[] = {
    STRING("name", struct templ_conf, name),
    CYAML_FIELD_INT("memory", OPTIONAL, struct templ_conf, mem),
    CYAML_FIELD_INT("aiCore", OPTIONAL, struct templ_conf, ai_core),
    CYAML_FIELD_INT("aiCPU", OPTIONAL, struct templ_conf, ai_cpu),
    CYAML_FIELD_END,
};
static const struct cyaml_schema_value templ_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct templ_conf, templ_field),
};
static const struct cyaml_schema_field chip_field[] = {
    STRING("chipName", struct chip_conf, chip),
    STRING("commonWord", struct chip_conf, word),
    STRING("resourceName", struct chip_conf, count),
    STRING("resourceMemoryName", struct chip_conf, mem_name),
    STRING("resourceCoreName", struct chip_conf, core_name),
    STRING("runtimeClassName", struct chip_conf, runtime_class),
    CYAML_FIELD_INT("memoryAllocatable", OPTIONAL, struct chip_conf, allocatable),
    CYAML_FIELD_INT("memoryCapacity", OPTIONAL, struct chip_conf, capacity),
    CYAML_FIELD_INT("memoryFactor", OPTIONAL, struct chip_conf, mem_factor),
    CYAML_FIELD_INT("aiCore", OPTIONAL, struct chip_conf, ai_core),
    CYAML_FIELD_INT("aiCPU", OPTIONAL, struct chip_conf, ai_cpu),
    CYAML_FIELD_BOOL("superPod", OPTIONAL, struct chip_conf, is_super_pod),
    CYAML_FIELD_BOOL("overwriteEnv", OPTIONAL, struct chip_conf, overwrites_env),
    CYAML_FIELD_SEQUENCE_COUNT("templates", CYAML_FLAG_POINTER_NULL | CYAML_FLAG_OPTIONAL,
                               struct chip_conf, templ, n_templ, &templ_entry, 0, TEMPLATES_MAX),
    CYAML_FIELD_END,
};
static const struct cyaml_schema_value chip_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct chip_conf, chip_field),
};
static const struct cyaml_schema_field field[] = {
    CYAML_FIELD_BOOL("hamiVnpuCore", OPTIONAL, struct conf, is_soft),
    CYAML_FIELD_BOOL("templatesOnSoftNodes", OPTIONAL, struct conf, mixes_on_soft), /* ours */
    CYAML_FIELD_SEQUENCE_COUNT("configs", CYAML_FLAG_POINTER_NULL | CYAML_FLAG_OPTIONAL,
                               struct conf, chip, n_chips, &chip_entry, 0, CHIPS_MAX),
    CYAML_FIELD_END,
};
static const struct cyaml_schema_value schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct conf, field),
};
static const struct cyaml_schema_value older = {
    CYAML_VALUE_SEQUENCE(CYAML_FLAG_POINTER, struct chip_conf, &chip_entry, 0, CHIPS_MAX),
};

/* Chips of HAMi's chart (v2.10). */
#define T(name, mem, core, cpu)                                                                    \
    {                                                                                              \
        name, mem, core, cpu                                                                       \
    }
static const struct templ_conf templ_910a[] = {
    T("vir02", 2184, 2, 0),
    T("vir04", 4369, 4, 0),
    T("vir08", 8738, 8, 0),
    T("vir16", 17476, 16, 0),
};
static const struct templ_conf templ_910b2[] = {
    T("vir03_1c_8g", 8192, 3, 1),
    T("vir06_1c_16g", 16384, 6, 1),
    T("vir12_3c_32g", 32768, 12, 3),
};
static const struct templ_conf templ_64g[] = {
    T("vir05_1c_16g", 16384, 5, 1),
    T("vir10_3c_32g", 32768, 10, 3),
};
static const struct templ_conf templ_32g[] = {
    T("vir05_1c_8g", 8192, 5, 1),
    T("vir10_3c_16g", 16384, 10, 3),
};
static const struct templ_conf templ_310p[] = {
    T("vir01", 3072, 1, 1),
    T("vir02", 6144, 2, 2),
    T("vir04", 12288, 4, 4),
};
#undef T
#define CHIP(chip_name, common_word, mem, cap, core, cpu, templates)                               \
    .chip = chip_name, .word = common_word, .allocatable = mem, .capacity = cap, .ai_core = core,  \
    .ai_cpu = cpu, .templ = templates, .n_templ = GS_ARRAY_LEN(templates)
static const struct chip_conf chart[] = {
    {CHIP("910A", "Ascend910A", 32768, 32768, 30, 0, templ_910a)},
    {CHIP("910B2", "Ascend910B2", 65536, 65536, 24, 6, templ_910b2)},
    {CHIP("910B3", "Ascend910B3", 65536, 65536, 20, 7, templ_64g)},
    {CHIP("910B4-1", "Ascend910B4-1", 65536, 65536, 20, 7, templ_64g)},
    {CHIP("910B4", "Ascend910B4", 32768, 32768, 20, 7, templ_32g)},
    {CHIP("310P3", "Ascend310P", 21527, 24576, 8, 7, templ_310p)},
    {CHIP("Ascend910", "Ascend910C", 65536, 65536, 20, 7, templ_64g), .is_super_pod = true},
};
#undef CHIP

static const struct gs_policy_ops ops = {
    .admit = gs_vnpu_admit,
    .request = gs_usual_request,
    .wish = gs_vnpu_wish,
    .read_node = gs_vnpu_read_node,
    .read_device = gs_vnpu_read_device,
    .fit = gs_vnpu_fit,
    .score = gs_vnpu_score,
    .annotate = gs_vnpu_annotate,
};

static bool is_amount(int64_t value)
{
    return value >= 0 && value <= INT32_MAX;
}

static int check(const struct chip_conf *conf, const struct gs_policies *out, struct gs_err *err)
{
    if (!gs_usual_is_word(conf->word))
        return gs_err_set(err, -EINVAL, "vnpus: '%s' is no commonWord",
                          conf->word != NULL ? conf->word : "");
    if (gs_policies_find(out, gs_str_of(conf->word)) != NULL)
        return gs_err_set(err, -EINVAL, "vnpus: two entries have the commonWord %s", conf->word);
    if (conf->allocatable == 0)
        return gs_err_set(err, -EINVAL, "vnpus: %s has no memoryAllocatable", conf->word);
    if (!is_amount(conf->allocatable) || !is_amount(conf->capacity) ||
        !is_amount(conf->mem_factor) || !is_amount(conf->ai_core) || !is_amount(conf->ai_cpu))
        return gs_err_set(err, -EINVAL, "vnpus: an amount of %s is negative or above %d",
                          conf->word, INT32_MAX);
    for (uint32_t i = 0; i < conf->n_templ; i++)
        if (conf->templ[i].name == NULL || conf->templ[i].mem == 0 ||
            !is_amount(conf->templ[i].mem) || !is_amount(conf->templ[i].ai_core) ||
            !is_amount(conf->templ[i].ai_cpu))
            return gs_err_set(err, -EINVAL, "vnpus: template %u of %s lacks a name or an amount", i,
                              conf->word);
    return 0;
}

static int by_memory(const void *a, const void *b)
{
    const struct gs_vnpu_template *x = a, *y = b;

    return x->mem_mib < y->mem_mib ? -1 : x->mem_mib > y->mem_mib;
}

static struct gs_vnpu_chip *make_chip(const struct chip_conf *conf, const struct conf *all,
                                      struct gs_arena *arena)
{
    struct gs_vnpu_chip *chip = GS_ARENA_NEW(arena, struct gs_vnpu_chip);

    if (chip == NULL)
        return NULL;
    *chip = (struct gs_vnpu_chip){
        .runtime_class = gs_arena_str(arena, gs_str_of(conf->runtime_class)),
        .allocatable = (int32_t)conf->allocatable,
        .capacity = (int32_t)(conf->capacity > 0 ? conf->capacity : conf->allocatable),
        .ai_core = (int32_t)conf->ai_core,
        .ai_cpu = (int32_t)conf->ai_cpu,
        .templ = GS_ARENA_ARRAY(arena, conf->n_templ, struct gs_vnpu_template),
        .n_templ = conf->n_templ,
        .is_super_pod = conf->is_super_pod,
        .overwrites_env = conf->overwrites_env,
        .is_soft = all->is_soft,
        .mixes_on_soft = all->mixes_on_soft,
    };
    if (chip->templ == NULL)
        return NULL;
    for (uint32_t i = 0; i < conf->n_templ; i++)
        chip->templ[i] = (struct gs_vnpu_template){
            .name = gs_arena_str(arena, gs_str_of(conf->templ[i].name)),
            .mem_mib = (int32_t)conf->templ[i].mem,
            .ai_core = (int32_t)conf->templ[i].ai_core,
            .ai_cpu = (int32_t)conf->templ[i].ai_cpu,
        };
    qsort(chip->templ, chip->n_templ, sizeof(chip->templ[0]), by_memory);
    return chip;
}

static int add(const struct chip_conf *conf, const struct gs_vnpu_chip *chip,
               struct gs_arena *arena, struct gs_policies *out)
{
    const char *word = conf->word;
    struct gs_policy policy = {
        .word = gs_arena_str(arena, gs_str_of(word)).p,
        .ops = &ops,
        .names =
            {
                .count = gs_usual_name(arena, conf->count,
                                       gs_usual_made(arena, "huawei.com/", word, "").p),
                .mem = gs_usual_name(arena, conf->mem_name,
                                     gs_usual_made(arena, "huawei.com/", word, "-memory").p),
                .core = gs_usual_name(arena, conf->core_name,
                                      gs_usual_made(arena, "huawei.com/", word, "-core").p),
            },
        .keys = gs_usual_keys(arena, word),
        .mem_factor = conf->mem_factor > 1 ? (int32_t)conf->mem_factor : 1,
        .quota_factor = conf->mem_factor > 1 ? (int32_t)conf->mem_factor : 1,
        .has_global_ids = true,
        .is_exclusive_at_100 = true,
        .conf = chip,
    };

    if (chip == NULL)
        return -ENOMEM;
    policy.keys.own = gs_usual_made(arena, "huawei.com/", word, " predicate-time").p;
    return gs_usual_add(out, arena, &policy, 1);
}

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    const struct gs_policy_list *list = is_older ? conf : NULL;
    const struct conf *given = is_older ? NULL : conf;
    struct conf all = {.chip = chart, .n_chips = GS_ARRAY_LEN(chart)};
    struct gs_vnpu_fleet *fleet = GS_ARENA_NEW(arena, struct gs_vnpu_fleet);
    struct gs_str *count;

    if (given != NULL) {
        all.is_soft = given->is_soft;
        all.mixes_on_soft = given->mixes_on_soft;
    }
    if (given != NULL && given->chip != NULL)
        all = *given;
    if (list != NULL)
        all = (struct conf){.chip = list->at, .n_chips = (uint32_t)list->n};
    count = GS_ARENA_ARRAY(arena, all.n_chips, struct gs_str);
    if (fleet == NULL || count == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < all.n_chips; i++) {
        int rc = check(&all.chip[i], out, err);
        struct gs_vnpu_chip *chip = rc == 0 ? make_chip(&all.chip[i], &all, arena) : NULL;

        if (chip != NULL)
            chip->fleet = fleet;
        if (rc == 0)
            rc = add(&all.chip[i], chip, arena, out);
        if (rc < 0)
            return rc;
        count[i] = out->at[out->n - 1]->names.count;
    }
    *fleet = (struct gs_vnpu_fleet){count, all.n_chips};
    return 0;
}

const struct gs_policy_section gs_ascend_section = {
    .key = "vnpus",
    .schema = &schema,
    .older = &older,
    .make = make,
    .opt_in = "ascend",
};
