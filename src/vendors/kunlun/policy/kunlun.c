#include "vendors/kunlun/policy/kunlun.h"

#include <cyaml/cyaml.h>
#include <errno.h>

#include "model/amount.h"
#include "model/fit.h"
#include "model/policy.h"
#include "model/quantity.h"
#include "model/request.h"
#include "model/usual.h"
#include "vendors/kunlun/policy/wings.h"

/* A share is a quarter or a half of the card, or all of it. */
#define CARD_MIB    98304
#define HALF_MIB    49152
#define QUARTER_MIB 24576

static int32_t rounded(int64_t mem_mib)
{
    if (mem_mib <= QUARTER_MIB)
        return QUARTER_MIB;
    return mem_mib <= HALF_MIB ? HALF_MIB : CARD_MIB;
}

static int xpu_admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                     struct gs_err *err)
{
    struct gs_container *c = &pod->container[container];
    const struct gs_str *text = gs_pairs_find(&c->limits, policy->names.mem);
    struct gs_str value;
    int64_t mem_mib;
    int rc = gs_usual_admit(policy, pod, container, err);

    if (rc <= 0 || text == NULL || policy->names.mem.n == 0)
        return rc;
    if (gs_quantity_ceil(*text, &mem_mib) != 0 || mem_mib < 0)
        return gs_err_set(err, -EINVAL, "%.*s must be a number of MiB", (int)policy->names.mem.n,
                          policy->names.mem.p);
    value = gs_arena_printf(pod->arena, "%d", rounded(mem_mib));
    rc = gs_pod_edit(pod, GS_EDIT_LIMIT, container, policy->names.mem, value);
    if (rc == 0)
        rc = gs_pod_edit(pod, GS_EDIT_REQUEST, container, policy->names.mem, value);
    return rc < 0 ? rc : 1;
}

static void xpu_request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                        struct gs_request *ret)
{
    const struct gs_container *c = &pod->container[container];
    int64_t mem_mib = 0;
    int32_t nums = 0;
    int has_mem;

    *ret = (struct gs_request){0};
    if (gs_amount_read_i32(c, policy->names.count, GS_AMOUNT_BOTH, 1, &nums) <= 0)
        return;
    has_mem = gs_amount_read(c, policy->names.mem, GS_AMOUNT_BOTH, &mem_mib);
    if (has_mem < 0 || mem_mib < 0)
        return;
    ret->nums = nums;
    ret->mem_mib = has_mem > 0 ? rounded(mem_mib) : CARD_MIB;
    ret->mem_pct = has_mem > 0 ? 0 : 100;
    ret->cores = ret->mem_mib * 100 / CARD_MIB;
}

static int read_cards(const struct gs_policy *policy, const struct gs_node_view *node,
                      struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                      struct gs_err *err)
{
    static const struct gs_device like = {
        .id = {"kunlun", 6},
        .type = {"kunlun", 6},
        .count = 100,
        .mem_mib = CARD_MIB,
        .cores = 100,
    };
    int n = gs_usual_read_capacity(policy, node, &like, arena, ret_dev, err);

    if (n < 0)
        return n;
    for (int i = 0; i < n; i++)
        (*ret_dev)[i].numa = i < n / 2 ? 0 : 1;
    ret->n = (uint32_t)n;
    ret->facts = NULL;
    return 0;
}

/* May a pod of ours join those who hold a card? GS_REASON_COUNT: it is open; NUMA_NOT_FIT: it is
 * not, which the topology tells. */
typedef enum gs_reason (*joins)(const struct gs_fit *fit, const struct gs_device *dev,
                                const struct gs_use *use);

static enum gs_reason card_joins(const struct gs_fit *fit, const struct gs_device *dev,
                                 const struct gs_use *use)
{
    (void)fit;
    (void)dev;
    return use->slots > 0 ? GS_REASON_NUMA_NOT_FIT : GS_REASON_COUNT;
}

/* The driver splits a card into equal shares: others must hold as much as is asked for. */
static enum gs_reason xpu_joins(const struct gs_fit *fit, const struct gs_device *dev,
                                const struct gs_use *use)
{
    if (fit->policy->is_mutex && use->slots > 0)
        return GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT;
    if ((int64_t)dev->mem_mib - use->mem_mib < fit->request->mem_mib)
        return GS_REASON_NUMA_NOT_FIT;
    if (use->slots > 0 && use->mem_mib / use->slots != fit->request->mem_mib)
        return GS_REASON_NUMA_NOT_FIT;
    return GS_REASON_COUNT;
}

/* The plugin's number of shares is not what limits them: memory is. Four quarters fit. */
static int read_xpus(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err)
{
    int rc = gs_usual_read_register(policy, node, arena, ret_dev, ret, err);

    for (uint32_t i = 0; rc == 0 && i < ret->n; i++)
        if ((*ret_dev)[i].count < CARD_MIB / QUARTER_MIB)
            (*ret_dev)[i].count = CARD_MIB / QUARTER_MIB;
    return rc;
}

static enum gs_reason question(const struct gs_fit *fit, uint32_t at, joins may_join)
{
    const struct gs_device *dev = &fit->node->dev[at];
    const struct gs_use *use = &fit->use[at];
    enum gs_reason why = gs_fit_ask(fit, at);

    if (why != GS_REASON_COUNT)
        return why;
    return may_join(fit, dev, use);
}

/* The place of each card of the topology in gs_node.dev. */
struct cards {
    uint32_t at[GS_WINGS_CARDS];
    uint32_t open;
};

/* Positions are indexes as registered, whatever the order of the list is. */
static bool find_open(const struct gs_fit *fit, joins may_join, struct cards *ret)
{
    bool is_told = false;

    *ret = (struct cards){0};
    for (uint32_t i = 0; i < fit->group->n; i++) {
        uint32_t at = fit->group->first + i, index = fit->node->dev[at].index;
        enum gs_reason why = question(fit, at, may_join);

        if (why == GS_REASON_COUNT && index < GS_WINGS_CARDS) {
            ret->at[index] = at;
            ret->open |= 1u << index;
        } else if (why != GS_REASON_COUNT && why != GS_REASON_NUMA_NOT_FIT) {
            gs_reasons_add(fit->reasons, why, 1);
            is_told = true;
        }
    }
    return is_told;
}

static int fit_cards(const struct gs_fit *fit, joins may_join, struct gs_pick *ret_pick)
{
    struct cards cards;
    uint32_t chosen = 0;
    int n = 0;
    bool is_told;

    gs_reasons_reset(fit->reasons, fit->group->n);
    is_told = find_open(fit, may_join, &cards);
    if (gs_wings_choose(cards.open, fit->request->nums, &chosen) < 0) {
        if (!is_told)
            gs_reasons_add(fit->reasons, GS_REASON_NUMA_NOT_FIT, 1);
        return -ENOSPC;
    }
    for (; chosen != 0; chosen &= chosen - 1)
        ret_pick[n++] = (struct gs_pick){.dev = cards.at[__builtin_ctz(chosen)]};
    return n;
}

static int fit_whole(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick)
{
    int n = fit_cards(fit, card_joins, ret_pick);

    (void)policy;
    for (int i = 0; i < n; i++) {
        ret_pick[i].mem_mib = fit->node->dev[ret_pick[i].dev].mem_mib;
        ret_pick[i].cores = fit->node->dev[ret_pick[i].dev].cores;
    }
    return n;
}

static int fit_xpu(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick)
{
    int n = fit_cards(fit, xpu_joins, ret_pick);

    (void)policy;
    for (int i = 0; i < n; i++) {
        ret_pick[i].mem_mib = fit->request->mem_mib;
        ret_pick[i].cores = fit->request->cores;
    }
    return n;
}

static uint32_t card_bit(const struct gs_device *dev)
{
    return dev->index < GS_WINGS_CARDS ? 1u << dev->index : 0;
}

/* Fragmentation with the pod's cards against that without them. */
static double score(const struct gs_policy *policy, const struct gs_assignment *a, bool is_spread)
{
    const struct gs_group *group = a->group;
    uint32_t before = 0, after;
    bool has_any = false;

    (void)policy;
    (void)is_spread;
    for (uint32_t i = group->first; i < group->first + group->n; i++)
        if (a->node->use[i].slots > 0)
            before |= card_bit(&a->node->dev[i]);
    after = before;
    for (size_t c = 0; c < a->pod->n_containers; c++)
        for (size_t i = 0; i < a->n_picks[c]; i++) {
            after |= card_bit(&a->node->dev[a->pick[c][i].dev]);
            has_any = true;
        }
    return has_any ? gs_wings_score(before, after) : 0;
}

static int annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                    struct gs_arena *arena, struct gs_pairs *ret)
{
    struct gs_str list = gs_usual_last_indexes(a, arena);

    (void)policy;
    if (list.n > 0)
        (void)gs_pairs_set(ret, arena, GS_STR("BAIDU_COM_DEVICE_IDX"), list);
    return gs_arena_check(arena); /* says it for all of them */
}

static const struct gs_policy_ops whole_ops = {
    .admit = gs_usual_admit,
    .request = gs_usual_request,
    .read_node = read_cards,
    .fit = fit_whole,
    .score = score,
    .annotate = annotate,
};

static const struct gs_policy_ops xpu_ops = {
    .admit = xpu_admit,
    .request = xpu_request,
    .read_node = read_xpus,
    .fit = fit_xpu,
};

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    const struct gs_kunlun_conf *c = conf;
    struct gs_policy policy[] = {
        {
            .word = "kunlun",
            .ops = &whole_ops,
            .names.count = gs_usual_name(arena, c != NULL ? c->count : NULL, "kunlunxin.com/xpu"),
            .keys = {.allocated = GS_STR("hami.io/kunlun-allocated"),
                     .own = "BAIDU_COM_DEVICE_IDX"},
        },
        {
            .word = "XPU",
            .ops = &xpu_ops,
            .names.count = gs_usual_name(arena, c != NULL ? c->vcount : NULL, "kunlunxin.com/vxpu"),
            .names.mem =
                gs_usual_name(arena, c != NULL ? c->vmem : NULL, "kunlunxin.com/vxpu-memory"),
            .keys = gs_usual_keys(arena, "xpu"),
        },
    };

    (void)is_older; /* there is one shape */
    (void)err;
    for (size_t i = 0; i < GS_ARRAY_LEN(policy); i++) {
        policy[i].mem_factor = policy[i].quota_factor = 1;
        policy[i].keys.use_uuid = GS_STR("hami.io/use-xpu-uuid");
        policy[i].keys.nouse_uuid = GS_STR("hami.io/no-use-xpu-uuid");
        policy[i].keys.use_uuid2 = GS_STR("baidu.com/use-gpuuuid");
        policy[i].keys.nouse_uuid2 = GS_STR("baidu.com/nouse-gpuuuid");
    }
    return gs_usual_add(out, arena, policy, GS_ARRAY_LEN(policy));
}

static const struct cyaml_schema_field fields[] = {
    CYAML_FIELD_STRING_PTR("resourceCountName", CYAML_FLAG_OPTIONAL, struct gs_kunlun_conf, count,
                           0, CYAML_UNLIMITED),
    CYAML_FIELD_STRING_PTR("resourceVCountName", CYAML_FLAG_OPTIONAL, struct gs_kunlun_conf, vcount,
                           0, CYAML_UNLIMITED),
    CYAML_FIELD_STRING_PTR("resourceVMemoryName", CYAML_FLAG_OPTIONAL, struct gs_kunlun_conf, vmem,
                           0, CYAML_UNLIMITED),
    CYAML_FIELD_END,
};

static const struct cyaml_schema_value schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct gs_kunlun_conf, fields),
};

const struct gs_policy_section gs_kunlun_section = {
    .key = "kunlun",
    .schema = &schema,
    .make = make,
};
