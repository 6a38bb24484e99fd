#include "vendors/iluvatar/policy/iluvatar.h"

#include <cyaml/cyaml.h>
#include <errno.h>

#include "model/amount.h"
#include "model/fit.h"
#include "model/usual.h"

/* Names, units and rules: HAMi v2.10. One policy per chip of the configuration. */
#define UNIT_MIB  256
#define CHIPS_MAX 64

struct conf {
    const char *chip, *word, *count, *mem, *core;
};

#define STRING(key, member)                                                                        \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct conf, member, 0,  \
                           CYAML_UNLIMITED)
static const struct cyaml_schema_field field[] = {
    STRING("chipName", chip),           STRING("commonWord", word),
    STRING("resourceCountName", count), STRING("resourceMemoryName", mem),
    STRING("resourceCoreName", core),   CYAML_FIELD_END,
};
static const struct cyaml_schema_value entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct conf, field),
};
static const struct cyaml_schema_value schema = {
    CYAML_VALUE_SEQUENCE(CYAML_FLAG_POINTER, struct conf, &entry, 0, CHIPS_MAX),
};

/* The vendor's runtime finds the container by this variable, spelt so. */
static int name_container(struct gs_pod *pod, size_t container)
{
    const struct gs_container *c = &pod->container[container];
    struct gs_str key = GS_STR("SOL_CONTINER_NAME");

    if (c->name.n == 0 || gs_pairs_find(&c->env, key) != NULL)
        return 0;
    return gs_pod_edit(pod, GS_EDIT_ENV, container, key, c->name);
}

static int admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                 struct gs_err *err)
{
    struct gs_str name = policy->names.count;
    int32_t count = 0;
    int rc = gs_amount_read_i32(&pod->container[container], name, GS_AMOUNT_LIMITS, 100, &count);

    if (rc == 0)
        return 0;
    if (rc < 0)
        return gs_err_set(err, -EINVAL, "%.*s must be an integer of at most %d", (int)name.n,
                          name.p, INT32_MAX / 100);
    if (count > 100 && policy->names.core.n > 0) /* count: already times 100 */
        rc = gs_usual_set_limit(pod, container, policy->names.core, count);
    else
        rc = 0;
    if (rc == 0)
        rc = name_container(pod, container);
    return rc < 0 ? rc : 1;
}

/* Cores of several cards are written as their sum (admit()); of one card there are 100. */
static void request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                    struct gs_request *ret)
{
    gs_usual_request(policy, pod, container, ret);
    if (ret->cores > 100)
        ret->cores = 100;
}

static const struct gs_fit_rules rules = {.checks_quota = true};
static const struct gs_policy_ops ops = {
    .admit = admit,
    .request = request,
    .read_node = gs_usual_read_register,
    .rules = &rules,
};

static int add(const struct conf *conf, struct gs_arena *arena, struct gs_policies *out,
               struct gs_err *err)
{
    const char *word = conf->word != NULL ? conf->word : conf->chip;
    const char *chip = conf->chip != NULL ? conf->chip : word;
    struct gs_policy policy;

    if (!gs_usual_is_word(word) || !gs_usual_is_word(chip))
        return gs_err_set(err, -EINVAL, "iluvatars: '%s' is no commonWord",
                          word != NULL ? word : "");
    if (gs_policies_find(out, gs_str_of(word)) != NULL)
        return gs_err_set(err, -EINVAL, "iluvatars: two entries have the commonWord %s", word);
    policy = (struct gs_policy){
        .word = gs_arena_str(arena, gs_str_of(word)).p,
        .ops = &ops,
        .names =
            {
                .count = gs_usual_name(arena, conf->count,
                                       gs_usual_made(arena, "iluvatar.ai/", chip, "-vgpu").p),
                .mem = gs_usual_name(arena, conf->mem,
                                     gs_usual_made(arena, "iluvatar.ai/", chip, ".vMem").p),
                .core = gs_usual_name(arena, conf->core,
                                      gs_usual_made(arena, "iluvatar.ai/", chip, ".vCore").p),
            },
        .keys = gs_usual_keys(arena, word),
        .mem_factor = UNIT_MIB,
        .quota_factor = UNIT_MIB,
        .is_exclusive_at_100 = true,
    };
    policy.keys.node_register = gs_usual_made(arena, "hami.io/node-", word, "-register");
    return gs_usual_add(out, arena, &policy, 1);
}

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    static const struct conf chart[] = {
        {.chip = "MR-V100"},
        {.chip = "MR-V50"},
        {.chip = "BI-V150"},
        {.chip = "BI-V100"},
    };
    static const struct gs_policy_list chart_list = {chart, GS_ARRAY_LEN(chart)};
    const struct gs_policy_list *list = conf != NULL ? conf : &chart_list;
    const struct conf *chip = list->at;
    int rc = 0;

    (void)is_older;
    for (size_t i = 0; i < list->n && rc == 0; i++)
        rc = add(&chip[i], arena, out, err);
    return rc;
}

const struct gs_policy_section gs_iluvatar_section = {
    .key = "iluvatars",
    .schema = &schema,
    .make = make,
    .opt_in = "iluvatar",
};
