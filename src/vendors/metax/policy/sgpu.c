#include "vendors/metax/policy/sgpu.h"

#include <errno.h>
#include <string.h>
#include <yyjson.h>

#include "model/amount.h"
#include "model/fit.h"
#include "model/json_out.h"
#include "model/node.h"
#include "model/policy.h"
#include "model/quantity.h"
#include "model/request.h"
#include "model/select.h"
#include "model/text.h"
#include "model/usual.h"
#include "vendors/metax/policy/sgpu_card.h"
#include "vendors/metax/policy/sgpu_node.h"
#include "vendors/metax/policy/sgpu_prefer.h"

#define MIB_OF_GIB 1024

static const struct gs_str class_key = {"metax-tech.com/sgpu-app-class", 29};
static const struct gs_str qos_key = {"metax-tech.com/sgpu-qos-policy", 30};
static const struct gs_str aware_key = {"metax-tech.com/sgpu-topology-aware", 34};

static uint32_t tag_of(const struct gs_policy *policy, const struct gs_pod *pod)
{
    struct gs_str text = gs_pod_annotation(pod, class_key, NULL);
    uint32_t tag = GS_SGPU_CLASS_NONE;

    (void)policy;
    if (gs_str_eq_c(text, "online"))
        tag = GS_SGPU_CLASS_ONLINE;
    else if (gs_str_eq_c(text, "offline"))
        tag = GS_SGPU_CLASS_OFFLINE;
    return tag | gs_sgpu_card_qos(gs_pod_annotation(pod, qos_key, NULL)) << GS_SGPU_QOS_SHIFT;
}

/* A bare number is GiB, one with a unit bytes. The API server writes whole thousands as "1k": that
 * is bare, as are exponents. 1; 0 not there; -EINVAL. */
static int read_mem(const struct gs_policy *policy, const struct gs_container *c, int32_t *ret_mib)
{
    const struct gs_str *text = gs_pairs_find(&c->limits, policy->names.mem);
    int64_t value, mib;

    if (policy->names.mem.n == 0 || text == NULL)
        return 0;
    if (gs_quantity_int(*text, &value) != 0 || value < 0)
        return -EINVAL;
    if (text->n > 0 && strchr("iMGTPE", text->p[text->n - 1]) != NULL)
        mib = value > 0 && value >> 20 == 0 ? 1 : value >> 20;
    else if (__builtin_mul_overflow(value, MIB_OF_GIB, &mib))
        return -EINVAL;
    if (mib > INT32_MAX)
        return -EINVAL;
    *ret_mib = (int32_t)mib;
    return 1;
}

static void request_of(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                       struct gs_request *ret)
{
    const struct gs_container *c = &pod->container[container];
    struct gs_request r = {.cores = policy->default_cores};

    *ret = (struct gs_request){0};
    if (gs_amount_read_i32(c, policy->names.count, GS_AMOUNT_LIMITS, 1, &r.nums) <= 0 ||
        gs_amount_read_i32(c, policy->names.core, GS_AMOUNT_LIMITS, 1, &r.cores) < 0 ||
        read_mem(policy, c, &r.mem_mib) < 0)
        return;
    r.mem_pct = r.mem_mib == 0 ? 100 : 0;
    if (r.nums > 0)
        *ret = r;
}

static int admit_class(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                       struct gs_err *err)
{
    bool has_class;
    struct gs_str text = gs_pod_annotation(pod, class_key, &has_class);
    int64_t n = 0;

    if (!has_class)
        return 0;
    if (!gs_str_eq_c(text, "online") && !gs_str_eq_c(text, "offline"))
        return gs_err_set(err, -EINVAL, "%s must be set one of [online, offline]", class_key.p);
    if (gs_amount_read(&pod->container[container], policy->names.count, GS_AMOUNT_LIMITS, &n) <=
            0 ||
        n != 1)
        return gs_err_set(err, -EINVAL, "app-class pod must request single device");
    return 0;
}

static int admit_qos(struct gs_pod *pod, struct gs_err *err)
{
    bool has_qos;
    struct gs_str text = gs_pod_annotation(pod, qos_key, &has_qos);
    uint32_t qos = gs_sgpu_card_qos(text);

    if (!has_qos)
        return gs_pod_edit(pod, GS_EDIT_ANNOTATION, 0, qos_key, GS_STR("best-effort"));
    if (qos == GS_SGPU_QOS_NONE || qos == GS_SGPU_QOS_OTHER)
        return gs_err_set(err, -EINVAL,
                          "%s must be set one of [best-effort, fixed-share, burst-share]",
                          qos_key.p);
    return 0;
}

static int admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                 struct gs_err *err)
{
    const struct gs_container *c = &pod->container[container];
    int32_t value;
    int rc = gs_usual_admit(policy, pod, container, err);

    if (rc <= 0)
        return rc;
    if (gs_amount_read_i32(c, policy->names.core, GS_AMOUNT_LIMITS, 1, &value) < 0)
        return gs_usual_refuse(c, policy->names.core, "must be an integer below 2^31", err);
    if (read_mem(policy, c, &value) < 0)
        return gs_usual_refuse(c, policy->names.mem,
                               "must be a number of GiB, or bytes with a unit, below 2^31 MiB",
                               err);
    rc = admit_class(policy, pod, container, err);
    if (rc == 0 && gs_sgpu_card_class(tag_of(policy, pod)) != GS_SGPU_CLASS_ONLINE)
        rc = admit_qos(pod, err);
    return rc < 0 ? rc : 1;
}

static int read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err)
{
    const struct gs_str *text = gs_pairs_find(node->annotations, policy->keys.node_register);
    int n;

    if (text == NULL)
        return -ENOENT;
    n = gs_sgpu_node_read(*text, arena, ret_dev, err);
    if (n < 0)
        return gs_err_wrap(err, n, "annotation %.*s", (int)policy->keys.node_register.n,
                           policy->keys.node_register.p);
    ret->n = (uint32_t)n;
    ret->facts = NULL;
    return 0;
}

/* Has this pod taken a part of the card already? */
static bool is_ours(const struct gs_policy *policy, const struct gs_fit *fit, uint32_t at)
{
    for (size_t i = 0; i < fit->n_taken; i++)
        if (fit->taken[i].policy == policy && fit->taken[i].pick.dev == at &&
            !fit->taken[i].is_gone)
            return true;
    return false;
}

/* Pods with a class only beside each other, and no offline pod to where an online one would suspend
 * it. */
static bool suits_class(const struct gs_fit *fit, uint32_t at)
{
    const struct gs_use *use = &fit->use[at];
    uint32_t class = gs_sgpu_card_class(fit->wish->tag);
    struct gs_sgpu_crowd crowd = gs_sgpu_card_crowd(use);

    if (use->slots <= 0 || (use->n_tenants == 0 && class == GS_SGPU_CLASS_NONE))
        return true;
    if (class == GS_SGPU_CLASS_OFFLINE && crowd.online > 0)
        return false;
    return (crowd.online + crowd.offline > 0) == (class != GS_SGPU_CLASS_NONE);
}

/* What the card's quality of service is once all its holders run: theirs, which the node may not
 * report yet; else what it reports. */
static uint32_t qos_on(const struct gs_fit *fit, uint32_t at)
{
    const struct gs_use *use = &fit->use[at];
    const struct gs_sgpu_card *card = fit->node->dev[at].custom;

    for (size_t i = 0; i < use->n_tenants; i++) {
        const struct gs_tenant *t = &use->tenant[i];
        uint32_t qos = t->tag >> GS_SGPU_QOS_SHIFT;

        /* who has all cores, or is online, sets none */
        if (t->cores < 100 && gs_sgpu_card_class(t->tag) != GS_SGPU_CLASS_ONLINE &&
            qos != GS_SGPU_QOS_NONE)
            return qos;
    }
    return card->qos;
}

static bool suits_qos(const struct gs_policy *policy, const struct gs_fit *fit, uint32_t at)
{
    const struct gs_use *use = &fit->use[at];
    uint32_t qos = fit->wish->tag >> GS_SGPU_QOS_SHIFT, there = qos_on(fit, at);

    if (use->slots <= 0 || fit->request->cores == 100)
        return true;
    if (use->n_tenants == 0 && is_ours(policy, fit, at))
        return true; /* nobody else is on it: it has become ours with the first container */
    return there == GS_SGPU_QOS_NONE || (there == qos && qos != GS_SGPU_QOS_OTHER);
}

static enum gs_reason core_question(const struct gs_fit *fit, uint32_t at)
{
    const struct gs_device *dev = &fit->node->dev[at];
    const struct gs_use *use = &fit->use[at];
    int32_t cores = fit->request->cores;

    if ((int64_t)dev->cores - use->cores < cores)
        return GS_REASON_CARD_INSUFFICIENT_CORE;
    if (dev->cores == 100 && cores == 100 && use->slots > 0)
        return GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT;
    if (dev->cores != 0 && use->cores == dev->cores && cores == 0)
        return GS_REASON_CARD_COMPUTE_UNITS_EXHAUSTED;
    return GS_REASON_COUNT;
}

static enum gs_reason question(const struct gs_policy *policy, const struct gs_fit *fit,
                               uint32_t at)
{
    const struct gs_device *dev = &fit->node->dev[at];
    const struct gs_use *use = &fit->use[at];
    bool is_online = gs_sgpu_card_class(fit->wish->tag) == GS_SGPU_CLASS_ONLINE;
    enum gs_reason why = gs_device_ask_open(dev, use);

    if (why != GS_REASON_COUNT)
        return why == GS_REASON_CARD_NOT_HEALTH ? GS_REASON_CARD_UNHEALTHY : why;
    if (!suits_class(fit, at) && !(use->n_tenants == 0 && is_ours(policy, fit, at)))
        return GS_REASON_CARD_APP_CLASS_MISMATCH;
    if (!is_online && !suits_qos(policy, fit, at))
        return GS_REASON_CARD_QOS_POLICY_MISMATCH;
    if (!gs_select_takes_uuid(&fit->wish->select, dev->id))
        return GS_REASON_CARD_UUID_MISMATCH;
    if (dev->count <= use->slots)
        return GS_REASON_CARD_TIME_SLICING_EXHAUSTED;
    if (fit->policy->is_mutex && use->slots > 0)
        return GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT;
    if ((int64_t)dev->mem_mib - use->mem_mib < gs_fit_mem(fit->request, dev))
        return GS_REASON_CARD_INSUFFICIENT_MEMORY;
    return is_online ? GS_REASON_COUNT : core_question(fit, at);
}

static int prefer(const struct gs_fit *fit, struct gs_pick *pick, size_t n)
{
    switch (gs_sgpu_card_class(fit->wish->tag)) {
    case GS_SGPU_CLASS_ONLINE:
        return gs_sgpu_prefer_quiet(fit, pick, n);
    case GS_SGPU_CLASS_NONE:
        return fit->request->cores == 100
                   ? gs_sgpu_prefer_linked(fit, pick, n, (size_t)fit->request->nums)
                   : 0;
    default:
        return 0; /* in order */
    }
}

static int fit_cards(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick)
{
    struct gs_pick *pick = GS_ARENA_ARRAY(fit->arena, fit->group->n, struct gs_pick);
    bool is_online = gs_sgpu_card_class(fit->wish->tag) == GS_SGPU_CLASS_ONLINE;
    size_t n = 0, wanted = (size_t)fit->request->nums;
    int rc = 0;

    if (pick == NULL)
        return -ENOMEM;
    gs_reasons_reset(fit->reasons, fit->group->n);
    for (uint32_t i = fit->group->n; i > 0; i--) {
        uint32_t at = fit->order[i - 1];
        enum gs_reason why = question(policy, fit, at);

        if (why != GS_REASON_COUNT)
            gs_reasons_add(fit->reasons, why, 1);
        else /* online pods share all cores: none are set aside for them */
            pick[n++] = (struct gs_pick){
                .dev = at,
                .mem_mib = gs_fit_mem(fit->request, &fit->node->dev[at]),
                .cores = is_online ? 0 : fit->request->cores,
            };
    }
    if (n < wanted) {
        gs_reasons_add(fit->reasons, GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST, (uint32_t)n);
        fit->reasons->collected = (uint32_t)n;
        fit->reasons->asked = (uint32_t)wanted;
        return -ENOSPC;
    }
    if (n > wanted)
        rc = prefer(fit, pick, n);
    if (rc < 0)
        return rc;
    memcpy(ret_pick, pick, wanted * sizeof(*pick));
    return (int)wanted;
}

/* Go's ParseBool of the pod's annotation where it is one, else the configuration. */
static bool is_aware(const struct gs_policy *policy, const struct gs_pod *pod)
{
    static const char *const no[] = {"0", "f", "F", "FALSE", "false", "False"};
    const struct gs_sgpu_conf *conf = policy->conf;
    struct gs_str text = gs_pod_annotation(pod, aware_key, NULL);

    for (size_t i = 0; i < GS_ARRAY_LEN(no); i++)
        if (gs_str_eq_c(text, no[i]))
            return false;
    return gs_text_is_true(text) || conf->is_topology_aware;
}

static double score(const struct gs_policy *policy, const struct gs_assignment *a, bool is_spread)
{
    double weight = is_spread ? -10000 : 10000;
    bool has_any = false, has_whole = false;

    for (size_t c = 0; c < a->pod->n_containers; c++)
        for (size_t i = 0; i < a->n_picks[c]; i++) {
            has_any = true;
            has_whole = has_whole || a->pick[c][i].cores == 100;
        }
    if (has_any && gs_sgpu_card_class(a->wish->tag) == GS_SGPU_CLASS_ONLINE)
        return weight * (double)gs_sgpu_prefer_online_score(a);
    if (has_whole && is_aware(policy, a->pod))
        return weight * (double)gs_sgpu_prefer_linked_score(a);
    return 0;
}

/* What MetaX's own plugin reads. Values of 0 are left out. */
static bool add_card(yyjson_mut_doc *doc, yyjson_mut_val *list, struct gs_str uuid,
                     const struct gs_pick *pick)
{
    yyjson_mut_val *v = yyjson_mut_obj(doc);

    return yyjson_mut_obj_add_strn(doc, v, "uuid", uuid.p, uuid.n) &&
           (pick->cores == 0 || yyjson_mut_obj_add_int(doc, v, "compute", pick->cores)) &&
           (pick->mem_mib == 0 || yyjson_mut_obj_add_int(doc, v, "vRam", pick->mem_mib)) &&
           yyjson_mut_arr_append(list, v);
}

static int annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                    struct gs_arena *arena, struct gs_pairs *ret)
{
    yyjson_alc alc = gs_json_out_alc(arena);
    yyjson_mut_doc *doc = yyjson_mut_doc_new(&alc);
    yyjson_mut_val *pod;
    bool has_any = false, is_well = true;

    (void)policy;
    if (doc == NULL)
        return -ENOMEM;
    pod = yyjson_mut_arr(doc);
    yyjson_mut_doc_set_root(doc, pod);
    for (size_t c = 0; c < a->pod->n_containers; c++) {
        yyjson_mut_val *list = yyjson_mut_arr(doc);

        is_well = is_well && yyjson_mut_arr_append(pod, list);
        has_any = has_any || a->n_picks[c] > 0;
        for (size_t i = 0; i < a->n_picks[c]; i++)
            is_well =
                is_well && add_card(doc, list, a->node->dev[a->pick[c][i].dev].id, &a->pick[c][i]);
    }
    if (!is_well)
        return -ENOMEM;
    if (!has_any)
        return 0;
    (void)gs_pairs_set(ret, arena, GS_STR("metax-tech.com/gpu-devices-allocated"),
                       gs_json_out_text(doc, arena));
    (void)gs_pairs_set(ret, arena, GS_STR("metax-tech.com/predicate-time"),
                       gs_arena_printf(arena, "%lld", (long long)a->now_ns));
    return gs_arena_check(arena); /* says it for all of them */
}

const struct gs_policy_ops gs_sgpu_ops = {
    .admit = admit,
    .request = request_of,
    .read_node = read_node,
    .fit = fit_cards,
    .score = score,
    .annotate = annotate,
    .tag = tag_of,
};
