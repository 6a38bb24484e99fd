#include "vendors/vastai/policy/vastai.h"

#include <cyaml/cyaml.h>
#include <errno.h>

#include "model/fit.h"
#include "model/island.h"
#include "model/json.h"
#include "model/usual.h"

/* Names and rules: HAMi v2.10. Whole cards and dies are shared by count alone. Where the plugin
 * offers dies, those of one card (one AIC) are near each other. */

struct conf {
    const char *count;
};

static const struct cyaml_schema_field field[] = {
    CYAML_FIELD_STRING_PTR("resourceCountName", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct conf, count, 0, CYAML_UNLIMITED),
    CYAML_FIELD_END,
};
static const struct cyaml_schema_value schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct conf, field),
};

/* gs_device.custom; NULL where the plugin offers whole cards. */
struct die {
    int32_t aic;
    bool has_aic;
};

static bool aic_of(const struct gs_device *dev, int32_t *ret)
{
    const struct die *die = dev->custom;

    if (die == NULL || !die->has_aic)
        return false;
    *ret = die->aic;
    return true;
}

static int read_device(void *user, struct yyjson_val *element, struct gs_arena *arena,
                       struct gs_device *dev, struct gs_err *err)
{
    yyjson_val *info = gs_json_get(element, "custominfo");
    yyjson_val *strategy = yyjson_obj_get(info, "DeviceStrategy");
    yyjson_val *aic = yyjson_obj_get(info, "AIC");
    struct die *die;
    double number;

    (void)user;
    (void)err;
    dev->cores = 100; /* whatever the plugin says */
    if (!yyjson_equals_str(strategy, "die"))
        return 0;
    die = GS_ARENA_NEW(arena, struct die);
    if (die == NULL)
        return -ENOMEM;
    number = yyjson_get_num(aic); /* 0 where it is none */
    die->has_aic = yyjson_is_num(aic) && number >= INT32_MIN && number <= INT32_MAX;
    if (die->has_aic)
        die->aic = (int32_t)number;
    dev->custom = die;
    return 0;
}

/* The plugin is of one mind for all its devices: the first one tells. */
static bool offers_dies(const struct gs_node *node, const struct gs_group *group)
{
    return group->n > 0 && node->dev[group->first].custom != NULL;
}

/* Who wants a card that nobody uses wants all of its dies unused. */
static enum gs_reason last(const struct gs_policy *p, const struct gs_fit *fit,
                           const struct gs_device *dev, const struct gs_pick *so_far, size_t n,
                           struct gs_pick *pick)
{
    int32_t mine, other;

    (void)p;
    (void)so_far;
    (void)n;
    (void)pick;
    if (!fit->policy->is_mutex || !offers_dies(fit->node, fit->group) || !aic_of(dev, &mine))
        return GS_REASON_COUNT;
    for (uint32_t i = fit->group->first; i < fit->group->first + fit->group->n; i++)
        if (fit->use[i].slots > 0 && aic_of(&fit->node->dev[i], &other) && other == mine)
            return GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT;
    return GS_REASON_COUNT;
}

static bool collects(const struct gs_policy *p, const struct gs_fit *fit)
{
    (void)p;
    return offers_dies(fit->node, fit->group);
}

static int choose(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                  size_t n)
{
    int rc = gs_island_sort(fit->node, aic_of, pick, n, fit->arena);

    (void)p;
    return rc < 0 ? rc : fit->request->nums;
}

static double score(const struct gs_policy *policy, const struct gs_assignment *a, bool is_spread)
{
    double sum = 0;

    (void)policy;
    (void)is_spread;
    for (size_t c = 0; c < a->pod->n_containers; c++)
        sum += gs_island_share(a->node, aic_of, a->pick[c], a->n_picks[c]);
    return sum;
}

static const struct gs_fit_rules rules = {
    .amounts = gs_usual_count_alone,
    .last = last,
    .collects = collects,
    .choose = choose,
};
static const struct gs_policy_ops ops = {
    .admit = gs_usual_admit,
    .request = gs_usual_request,
    .read_node = gs_usual_read_register,
    .read_device = read_device,
    .rules = &rules,
    .score = score,
};

static int make(const void *conf_at, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    const struct conf *conf = conf_at;
    const struct gs_policy policy = {
        .word = "Vastai",
        .ops = &ops,
        .names.count = gs_usual_name(arena, conf != NULL ? conf->count : NULL, "vastaitech.com/va"),
        .keys =
            {
                .to_allocate = GS_STR("hami.io/Vastai-devices-to-allocate"),
                .allocated = GS_STR("hami.io/Vastai-devices-allocated"),
                .node_register = GS_STR("hami.io/node-va-register"),
                .handshake = GS_STR("hami.io/node-handshake-va"),
                .use_uuid = GS_STR("vastaitech.com/use-gpuuuid"),
                .nouse_uuid = GS_STR("vastaitech.com/nouse-gpuuuid"),
                .lock = GS_STR(GS_KEY_NODE_LOCK),
            },
        .mem_factor = 1,
        .quota_factor = 1,
    };

    (void)is_older; /* there is one shape */
    (void)err;
    return gs_usual_add(out, arena, &policy, 1);
}

const struct gs_policy_section gs_vastai_section = {
    .key = "vastai",
    .schema = &schema,
    .make = make,
};
