#include "vendors/mthreads/policy/mthreads.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <inttypes.h>

#include "model/amount.h"
#include "model/fit.h"
#include "model/node.h"
#include "model/quantity.h"
#include "model/usual.h"

/* Names, units and rules: HAMi v2.10. A card is 16 core units and as many memory units of 512 MiB
 * as it has; amounts in a pod are those of all its cards together. */
#define CORES_PER_CARD  16
#define MEMORY_PER_CARD 96
#define UNIT_MIB        512
#define SHARES          100

struct conf {
    const char *count, *mem, *core;
};

#define STRING(key, member)                                                                        \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct conf, member, 0,  \
                           CYAML_UNLIMITED)
static const struct cyaml_schema_field field[] = {
    STRING("resourceCountName", count),
    STRING("resourceMemoryName", mem),
    STRING("resourceCoreName", core),
    CYAML_FIELD_END,
};
static const struct cyaml_schema_value schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct conf, field),
};

static int set_limit(struct gs_pod *pod, size_t container, struct gs_str name, int64_t value)
{
    return name.n == 0 ? 0 : gs_usual_set_limit(pod, container, name, value);
}

/* What whole cards are in units. */
static int ask_for_whole(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                         int64_t cards)
{
    int rc = set_limit(pod, container, policy->names.core, CORES_PER_CARD * cards);

    return rc < 0 ? rc : set_limit(pod, container, policy->names.mem, MEMORY_PER_CARD * cards);
}

static bool is_slice_size(int64_t units)
{
    static const int size[] = {2, 4, 8, 16, 32, 64, 96};

    for (size_t i = 0; i < GS_ARRAY_LEN(size); i++)
        if (units == size[i])
            return true;
    return false;
}

static int admit_one(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                     struct gs_err *err)
{
    int64_t mem = 0;
    int rc = gs_amount_read(&pod->container[container], policy->names.mem, GS_AMOUNT_LIMITS, &mem);

    if (rc == 0)
        return ask_for_whole(policy, pod, container, 1);
    if (rc < 0 || !is_slice_size(mem))
        return gs_err_set(err, -EINVAL,
                          "sGPU memory request value is invalid, valid values are [2, 4, 8, 16, "
                          "32, 64, 96]");
    return 0;
}

static int admit_many(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                      int64_t count)
{
    int rc = ask_for_whole(policy, pod, container, count);

    if (rc < 0)
        return rc;
    return gs_pod_edit(pod, GS_EDIT_ANNOTATION, 0, GS_STR("mthreads.com/request-gpu-num"),
                       gs_arena_printf(pod->arena, "%" PRId64, count));
}

static int admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                 struct gs_err *err)
{
    struct gs_str name = policy->names.count;
    int64_t count = 0;
    int rc = gs_amount_read(&pod->container[container], name, GS_AMOUNT_BOTH, &count);

    if (rc == 0)
        return 0;
    if (rc < 0 || count > INT32_MAX / (MEMORY_PER_CARD * UNIT_MIB))
        return gs_err_set(err, -EINVAL, "%.*s must be an integer of at most %d", (int)name.n,
                          name.p, INT32_MAX / (MEMORY_PER_CARD * UNIT_MIB));
    if (count <= 0)
        return gs_err_set(err, -EINVAL, "%.*s must be greater than 0", (int)name.n, name.p);
    rc = count > 1 ? admit_many(policy, pod, container, count)
                   : admit_one(policy, pod, container, err);
    return rc < 0 ? rc : 1;
}

static void request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                    struct gs_request *ret)
{
    gs_usual_request(policy, pod, container, ret);
    if (ret->nums > 1) {
        ret->mem_mib /= ret->nums;
        ret->cores /= ret->nums;
    }
}

/* Amount of a node, 0 where it has none; at most 2^31-1. */
static int capacity(const struct gs_node_view *node, struct gs_str name, int64_t *ret,
                    struct gs_err *err)
{
    const struct gs_str *text = name.n > 0 ? gs_pairs_find(node->capacity, name) : NULL;

    *ret = 0;
    if (text == NULL)
        return 0;
    if (gs_quantity_int(*text, ret) < 0 || *ret < 0 || *ret > INT32_MAX)
        return gs_err_set(err, -EINVAL, "capacity %.*s is no number of units", (int)name.n, name.p);
    return 0;
}

/* The plugin publishes no list: cards follow from the node's totals. */
static int read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err)
{
    int64_t cores, units, n, mib;
    struct gs_device *dev;

    if (capacity(node, policy->names.core, &cores, err) < 0 ||
        capacity(node, policy->names.mem, &units, err) < 0)
        return -EINVAL;
    if (cores == 0)
        return -ENOENT;
    n = (cores + CORES_PER_CARD - 1) / CORES_PER_CARD;
    mib = units * UNIT_MIB * CORES_PER_CARD / cores;
    if (n > GS_REGISTER_DEVICES_MAX || mib > INT32_MAX)
        return gs_err_set(err, -EINVAL, "capacity of %" PRId64 " cards of %" PRId64 " MiB", n, mib);
    dev = GS_ARENA_ARRAY(arena, (size_t)n, struct gs_device);
    if (dev == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        dev[i] = (struct gs_device){
            .id = gs_arena_printf(arena, "%.*s-mthreads-%u", (int)node->name.n, node->name.p, i),
            .type = GS_STR("Mthreads"),
            .index = i,
            .count = SHARES,
            .mem_mib = (int32_t)mib,
            .cores = CORES_PER_CARD,
            .is_healthy = true,
        };
    if (gs_arena_check(arena) < 0)
        return -ENOMEM;
    *ret_dev = dev;
    ret->n = (uint32_t)n;
    return 0;
}

/* The pod's annotation names one list of cards for all of its containers (see annotate()): they
 * have to share a card. */
static enum gs_reason last(const struct gs_policy *p, const struct gs_fit *fit,
                           const struct gs_device *dev, const struct gs_pick *so_far, size_t n,
                           struct gs_pick *pick)
{
    (void)so_far;
    (void)n;
    (void)pick;
    for (size_t i = 0; i < fit->n_taken; i++)
        if (fit->taken[i].policy == p && &fit->node->dev[fit->taken[i].pick.dev] != dev)
            return GS_REASON_CARD_NOT_FOUND_CUSTOM_FILTER_RULE;
    return GS_REASON_COUNT;
}

static int annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                    struct gs_arena *arena, struct gs_pairs *ret)
{
    struct gs_str list = gs_usual_last_indexes(a, arena);
    int rc;

    (void)policy;
    rc = gs_pairs_set(ret, arena, GS_STR("mthreads.com/gpu-index"), list);
    if (rc == 0)
        rc = gs_pairs_set(ret, arena, GS_STR("mthreads.com/predicate-node"), a->node->name);
    if (rc == 0)
        rc = gs_pairs_set(ret, arena, GS_STR("mthreads.com/predicate-time"),
                          gs_arena_printf(arena, "%" PRId64, a->now_ns));
    return rc < 0 ? rc : gs_arena_check(arena);
}

static const struct gs_fit_rules rules = {.last = last, .checks_quota = true};
static const struct gs_policy_ops ops = {
    .admit = admit,
    .request = request,
    .read_node = read_node,
    .rules = &rules,
    .annotate = annotate,
};

static int make(const void *conf_at, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    static const struct conf none = {0};
    const struct conf *conf = conf_at != NULL ? conf_at : &none;
    const struct gs_policy policy = {
        .word = "Mthreads",
        .ops = &ops,
        .names =
            {
                .count = gs_usual_name(arena, conf->count, "mthreads.com/vgpu"),
                .mem = gs_usual_name(arena, conf->mem, "mthreads.com/sgpu-memory"),
                .core = gs_usual_name(arena, conf->core, "mthreads.com/sgpu-core"),
            },
        .keys =
            {
                /* Its plugin hands out by the annotations of annotate(): nothing "to allocate". */
                .allocated = GS_STR("hami.io/mthreads-vgpu-devices-allocated"),
                .use_uuid = GS_STR("mthreads.ai/use-gpuuuid"),
                .nouse_uuid = GS_STR("mthreads.ai/nouse-gpuuuid"),
                .own = "mthreads.com/gpu-index mthreads.com/predicate-node "
                       "mthreads.com/predicate-time",
            },
        .mem_factor = UNIT_MIB,
        .quota_factor = UNIT_MIB,
        .is_exclusive_at_100 = true,
    };

    (void)is_older; /* there is one shape */
    (void)err;
    return gs_usual_add(out, arena, &policy, 1);
}

const struct gs_policy_section gs_mthreads_section = {
    .key = "mthreads",
    .schema = &schema,
    .make = make,
};
