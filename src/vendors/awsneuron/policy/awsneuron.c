#include "vendors/awsneuron/policy/awsneuron.h"

#include <cyaml/cyaml.h>
#include <errno.h>

#include "model/amount.h"
#include "model/fit.h"
#include "model/node.h"
#include "model/policy.h"
#include "model/quantity.h"
#include "model/text.h"
#include "model/usual.h"

/* Cores of one device that a request can name while the node is not known. */
#define SPLIT_CORES 2
/* A mask is an int32 in the grant, and its sign bit means nothing. */
#define CORES_MAX 31

enum form {
    FORM_CORES,
    FORM_DEVICES,
};

struct facts {
    struct gs_str instance_type;
    int32_t cores; /* of each device; 1..CORES_MAX */
};

static int32_t whole_mask(int32_t cores)
{
    return (int32_t)((UINT32_C(1) << cores) - 1);
}

int gs_awsneuron_split(struct gs_str name, int64_t cores, int32_t per_device,
                       struct gs_request *ret, struct gs_err *err)
{
    int64_t per = per_device < 1 || per_device > SPLIT_CORES ? SPLIT_CORES : per_device;

    if (cores > per && cores % per != 0)
        return gs_err_set(err, -EINVAL, "%.*s must be 1 or a multiple of %lld, got %lld",
                          (int)name.n, name.p, (long long)per, (long long)cores);
    if (cores > per && cores / per > INT32_MAX)
        return gs_err_set(err, -EINVAL, "%.*s needs %lld devices, which exceeds the maximum of %d",
                          (int)name.n, name.p, (long long)(cores / per), INT32_MAX);
    ret->nums = cores <= per ? 1 : (int32_t)(cores / per);
    ret->cores = (int32_t)(cores <= per ? cores : per);
    return 0;
}

/* 1 and *ret in 1..max, 0 where nothing is asked, -EINVAL with HAMi's text. */
static int amount_in(const struct gs_container *c, struct gs_str name, int64_t max, int64_t *ret,
                     struct gs_err *err)
{
    int64_t value = 0;
    int rc = gs_amount_read(c, name, GS_AMOUNT_BOTH, &value);

    if (rc == 0)
        return 0;
    if (rc < 0)
        return gs_err_set(err, -EINVAL, "%.*s must be an integer", (int)name.n, name.p);
    if (value <= 0)
        return gs_err_set(err, -EINVAL, "%.*s must be greater than 0", (int)name.n, name.p);
    if (value > max)
        return gs_err_set(err, -EINVAL, "%.*s must not exceed %lld", (int)name.n, name.p,
                          (long long)max);
    *ret = value;
    return 1;
}

/* As amount_in(), with *ret filled. Devices win over cores. */
static int asked(const struct gs_policy *policy, const struct gs_container *c,
                 struct gs_request *ret, struct gs_err *err)
{
    int64_t n = 0;
    int rc = amount_in(c, policy->names.count, INT32_MAX, &n, err);

    if (rc < 0)
        return rc;
    if (rc > 0) {
        *ret = (struct gs_request){.nums = (int32_t)n, .cores = SPLIT_CORES, .form = FORM_DEVICES};
        return 1;
    }
    rc = amount_in(c, policy->names.core, (int64_t)INT32_MAX * SPLIT_CORES, &n, err);
    if (rc <= 0)
        return rc;
    *ret = (struct gs_request){.form = FORM_CORES};
    rc = gs_awsneuron_split(policy->names.core, n, 0, ret, err);
    return rc < 0 ? rc : 1;
}

static int admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                 struct gs_err *err)
{
    struct gs_request request;

    return asked(policy, &pod->container[container], &request, err);
}

static void request_of(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                       struct gs_request *ret)
{
    struct gs_request request;

    if (asked(policy, &pod->container[container], &request, NULL) <= 0)
        request = (struct gs_request){0};
    *ret = request;
}

/* Cores of each of the node's n devices; -EINVAL where its capacities cannot be true. */
static int cores_of(const struct gs_policy *policy, const struct gs_node_view *node, int64_t n,
                    int32_t *ret, struct gs_err *err)
{
    int64_t cores = 0;
    int rc = gs_node_amount(node->capacity, policy->names.core, &cores);

    if (rc == 0)
        cores = n * SPLIT_CORES;
    if (rc < 0 || cores % n != 0 || cores / n > CORES_MAX)
        return gs_err_set(err, -EINVAL, "capacity of %.*s does not suit %lld devices",
                          (int)policy->names.core.n, policy->names.core.p, (long long)n);
    *ret = (int32_t)(cores / n);
    return 0;
}

static int read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err)
{
    const struct gs_str *type =
        gs_pairs_find(node->labels, GS_STR("node.kubernetes.io/instance-type"));
    struct gs_device like = {.id = GS_STR("AWSNeuron"), .type = GS_STR("AWSNeuron")};
    struct facts *facts;
    int64_t n = 0;
    int rc = gs_node_amount(node->capacity, policy->names.count, &n);

    if (rc > 0 && n <= GS_REGISTER_DEVICES_MAX) {
        rc = cores_of(policy, node, n, &like.count, err);
        if (rc < 0)
            return rc;
        like.cores = whole_mask(like.count);
    }
    facts = GS_ARENA_NEW(arena, struct facts);
    if (facts == NULL)
        return -ENOMEM;
    facts->cores = like.count;
    facts->instance_type = type != NULL ? gs_arena_str(arena, *type) : (struct gs_str){0};
    rc = gs_usual_read_capacity(policy, node, &like, arena, ret_dev, err);
    if (rc < 0)
        return rc;
    ret->n = (uint32_t)rc;
    ret->facts = facts;
    return 0;
}

/* The lowest `wanted` bits of a mask that has that many. */
static int32_t lowest_bits(int32_t mask, int32_t wanted)
{
    int32_t taken = 0;

    for (; wanted > 0; wanted--) {
        taken |= mask & -mask;
        mask &= mask - 1;
    }
    return taken;
}

static enum gs_reason question(const struct gs_fit *fit, uint32_t at, int32_t wanted)
{
    const struct gs_device *dev = &fit->node->dev[at];
    const struct gs_use *use = &fit->use[at];
    enum gs_reason why = gs_fit_ask(fit, at);

    if (why != GS_REASON_COUNT)
        return why;
    if (fit->policy->is_mutex && use->slots > 0)
        return GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT;
    if (__builtin_popcount((unsigned)(dev->cores & ~use->cores)) < wanted)
        return GS_REASON_CARD_INSUFFICIENT_CORE;
    return GS_REASON_COUNT;
}

/* Cores of a single device, the last in order that has them. */
static int fit_one(const struct gs_fit *fit, int32_t wanted, struct gs_pick *ret_pick)
{
    for (uint32_t i = fit->group->n; i > 0; i--) {
        uint32_t at = fit->order[i - 1];
        enum gs_reason why = question(fit, at, wanted);

        if (why == GS_REASON_COUNT) {
            int32_t open = fit->node->dev[at].cores & ~fit->use[at].cores;

            *ret_pick = (struct gs_pick){.dev = at, .cores = lowest_bits(open, wanted)};
            return 1;
        }
        gs_reasons_add(fit->reasons, why, 1);
    }
    return -ENOSPC;
}

static bool is_free(const struct gs_fit *fit, uint32_t at)
{
    const struct gs_use *use = &fit->use[at];

    return gs_fit_ask(fit, at) == GS_REASON_COUNT && use->slots <= 0 && use->cores == 0;
}

/* Where runs of n devices may start: on rings (Inferentia) anywhere, on Trainium's torus only in
 * certain sizes, each at multiples of its own. 0: no such run. */
static uint32_t stride_of(const struct facts *facts, uint32_t n)
{
    if (gs_text_contains(facts->instance_type, GS_STR("inf")))
        return 1;
    return n == 1 || n == 4 || n == 8 || n == 16 ? n : 0;
}

/* Whole neighbours. read_node() made the group in the order of the indexes. */
static int fit_run(const struct gs_fit *fit, uint32_t n, struct gs_pick *ret_pick)
{
    uint32_t stride = stride_of(fit->group->facts, n);

    for (uint32_t start = 0; stride > 0 && n <= fit->group->n && start <= fit->group->n - n;
         start += stride) {
        uint32_t got = 0;

        while (got < n && is_free(fit, fit->group->first + start + got))
            got++;
        if (got < n)
            continue;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = fit->group->first + start + i;

            ret_pick[i] = (struct gs_pick){.dev = at, .cores = fit->node->dev[at].cores};
        }
        return (int)n;
    }
    gs_reasons_add(fit->reasons, GS_REASON_NUMA_NOT_FIT, 1);
    return -ENOSPC;
}

static int fit_devices(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick)
{
    const struct gs_request *r = fit->request;
    const struct facts *facts = fit->group->facts;
    int32_t each = r->form == FORM_DEVICES ? facts->cores : r->cores;
    int64_t wanted = (int64_t)r->nums * each;

    (void)policy;
    gs_reasons_reset(fit->reasons, fit->group->n);
    if (wanted <= facts->cores)
        return fit_one(fit, (int32_t)wanted, ret_pick);
    /* the request was split for devices of two cores; on this node it may be fewer of more */
    if (wanted % facts->cores != 0 || wanted / facts->cores > r->nums) {
        gs_reasons_add(fit->reasons, GS_REASON_MODE_NOT_FIT, fit->group->n);
        return -ENOSPC;
    }
    return fit_run(fit, (uint32_t)(wanted / facts->cores), ret_pick);
}

/* On such a node the request may come to fewer devices than it names. */
static bool has_more_cores(const struct gs_policy *policy, const struct gs_fit *fit,
                           const struct gs_device *dev)
{
    (void)policy;
    (void)dev;
    return ((const struct facts *)fit->group->facts)->cores > SPLIT_CORES;
}

static const struct gs_fit_rules rules = {.repeats = has_more_cores};

/* Numbers that AWS_NEURON_IDS names for a pick: the device's index, or those of its cores. */
static void put_ids(struct gs_str_out *out, const struct gs_device *dev, const struct gs_pick *pick,
                    const struct facts *facts, bool by_device)
{
    for (int32_t bit = 0; bit < (by_device ? 1 : facts->cores); bit++) {
        if (!by_device && (pick->cores & (int32_t)(UINT32_C(1) << bit)) == 0)
            continue;
        if (out->n > 0)
            gs_str_put_char(out, ',');
        gs_str_put_u64(out, by_device
                                ? dev->index
                                : (uint64_t)dev->index * (uint64_t)facts->cores + (uint64_t)bit);
    }
}

static int annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                    struct gs_arena *arena, struct gs_pairs *ret)
{
    size_t n = 0;
    bool has_cores = false;
    struct gs_str_out out;
    char *text;

    for (size_t c = 0; c < a->pod->n_containers; c++)
        n += a->n_picks[c];
    if (n == 0)
        return 0;
    /* a number of at most 20 digits and a comma for each core */
    text = gs_arena_take(arena, n * CORES_MAX, 21);
    if (text == NULL)
        return -ENOMEM;
    gs_str_out_init(&out, text, n * CORES_MAX * 21);
    for (size_t c = 0; c < a->pod->n_containers; c++)
        for (size_t i = 0; i < a->n_picks[c]; i++) {
            bool by_device = a->request[c].form == FORM_DEVICES;

            has_cores = has_cores || !by_device;
            put_ids(&out, &a->node->dev[a->pick[c][i].dev], &a->pick[c][i], a->group->facts,
                    by_device);
        }
    (void)gs_pairs_set(ret, arena, GS_STR("AWS_NEURON_IDS"), (struct gs_str){out.p, out.n});
    if (has_cores)
        (void)gs_pairs_set(ret, arena, GS_STR("NEURON_RESOURCE_TYPE"), policy->names.core);
    (void)gs_pairs_set(ret, arena, GS_STR("NEURON_ALLOC_TIME"),
                       gs_arena_printf(arena, "%lld", (long long)a->now_ns));
    (void)gs_pairs_set(ret, arena, GS_STR("NEURON_ALLOCATED"), GS_STR("false"));
    (void)gs_pairs_set(ret, arena, GS_STR("aws.amazon.com/predicate-node"), a->node->name);
    return gs_arena_check(arena); /* says it for all of them */
}

static const struct gs_policy_ops ops = {
    .admit = admit,
    .request = request_of,
    .read_node = read_node,
    .fit = fit_devices,
    .rules = &rules,
    .annotate = annotate,
};

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    const struct gs_awsneuron_conf *c = conf;
    const struct gs_policy policy = {
        .word = "AWSNeuron",
        .ops = &ops,
        .names =
            {
                .count = gs_usual_name(arena, c != NULL ? c->count : NULL, "aws.amazon.com/neuron"),
                .core =
                    gs_usual_name(arena, c != NULL ? c->core : NULL, "aws.amazon.com/neuroncore"),
            },
        .keys =
            {
                .allocated = GS_STR("hami.io/aws-neuron-devices-allocated"),
                .use_uuid = GS_STR("aws.amazon.com/use-neuron-uuid"),
                .nouse_uuid = GS_STR("aws.amazon.com/nouse-neuron-uuid"),
                .own = "AWS_NEURON_IDS NEURON_RESOURCE_TYPE NEURON_ALLOC_TIME NEURON_ALLOCATED "
                       "aws.amazon.com/predicate-node",
            },
        .mem_factor = 1,
        .quota_factor = 1,
    };

    (void)is_older; /* there is one shape */
    (void)err;
    return gs_usual_add(out, arena, &policy, 1);
}

static const struct cyaml_schema_field fields[] = {
    CYAML_FIELD_STRING_PTR("resourceCountName", CYAML_FLAG_OPTIONAL, struct gs_awsneuron_conf,
                           count, 0, CYAML_UNLIMITED),
    CYAML_FIELD_STRING_PTR("resourceCoreName", CYAML_FLAG_OPTIONAL, struct gs_awsneuron_conf, core,
                           0, CYAML_UNLIMITED),
    CYAML_FIELD_END,
};

static const struct cyaml_schema_value schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct gs_awsneuron_conf, fields),
};

const struct gs_policy_section gs_awsneuron_section = {
    .key = "awsneuron",
    .schema = &schema,
    .make = make,
};
