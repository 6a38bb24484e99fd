#include "vendors/cambricon/policy/cambricon.h"

#include <cyaml/cyaml.h>
#include <errno.h>
#include <inttypes.h>

#include "model/fit.h"
#include "model/node.h"
#include "model/request.h"
#include "model/usual.h"

#define LONG_MEM   "cambricon.com/mlu.smlu.vmemory"
#define LONG_CORE  "cambricon.com/mlu.smlu.vcore"
#define SHORT_MEM  "cambricon.com/vmemory"
#define SHORT_CORE "cambricon.com/vcore"

/* Names that a container uses (gs_request.form), or that a node advertises. */
enum { MEM_FIRST = 1, MEM_OTHER = 2, CORE_FIRST = 4, CORE_OTHER = 8 };

struct facts {
    unsigned names; /* 0: the node advertises none: its plugin is an older one that registers */
};

/* --- what a container asks --- */

/* The amount under whichever spelling stands there; as gs_amount_read_i32(). */
static int read_either(const struct gs_container *c, struct gs_str name, struct gs_str other,
                       int32_t factor, int32_t *ret)
{
    bool is_first = gs_amount_is_there(c, name, GS_AMOUNT_BOTH);

    return gs_amount_read_i32(c, is_first ? name : other, GS_AMOUNT_BOTH, factor, ret);
}

static int check_spelling(const struct gs_container *c, struct gs_str name, struct gs_str other,
                          struct gs_err *err)
{
    if (!gs_amount_is_there(c, name, GS_AMOUNT_BOTH) ||
        !gs_amount_is_there(c, other, GS_AMOUNT_BOTH))
        return 0;
    return gs_err_set(err, -EINVAL,
                      "container %.*s asks for both %.*s and %.*s: they are one resource",
                      (int)c->name.n, c->name.p, (int)name.n, name.p, (int)other.n, other.p);
}

static int admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                 struct gs_err *err)
{
    const struct gs_names *names = &policy->names;
    const struct gs_container *c = &pod->container[container];
    struct gs_policy other = *policy;
    int rc = check_spelling(c, names->mem, names->mem2, err);

    rc = rc == 0 ? check_spelling(c, names->core, names->core2, err) : rc;
    if (rc < 0 || gs_usual_admit(policy, pod, container, err) == 0)
        return rc;
    other.names.mem = names->mem2;
    other.names.core = names->core2;
    rc = gs_usual_check_amounts(policy, c, GS_AMOUNT_BOTH, err);
    rc = rc == 0 ? gs_usual_check_amounts(&other, c, GS_AMOUNT_BOTH, err) : rc;
    return rc < 0 ? rc : 1;
}

/* Which of the four names does something have? */
static unsigned names_of(const struct gs_names *names,
                         bool (*has)(const void *of, struct gs_str name), const void *of)
{
    return (has(of, names->mem) ? MEM_FIRST : 0u) | (has(of, names->mem2) ? MEM_OTHER : 0u) |
           (has(of, names->core) ? CORE_FIRST : 0u) | (has(of, names->core2) ? CORE_OTHER : 0u);
}

static bool asked_under(const void *of, struct gs_str name)
{
    return gs_amount_is_there(of, name, GS_AMOUNT_BOTH);
}

static void request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                    struct gs_request *ret)
{
    const struct gs_names *names = &policy->names;
    const struct gs_container *c = &pod->container[container];
    struct gs_request r = {.cores = policy->default_cores};

    *ret = (struct gs_request){0};
    if (gs_amount_read_i32(c, names->count, GS_AMOUNT_BOTH, 1, &r.nums) <= 0 ||
        read_either(c, names->mem, names->mem2, policy->mem_factor, &r.mem_mib) < 0 ||
        read_either(c, names->core, names->core2, 1, &r.cores) < 0)
        return;
    r.mem_pct = r.mem_mib == 0 ? 100 : 0;
    r.form = (uint8_t)names_of(names, asked_under, c);
    *ret = r;
}

/* --- what a node has --- */

static int capacity(const struct gs_node_view *node, struct gs_str name, struct gs_str other,
                    int64_t *ret)
{
    int rc = gs_node_amount(node->capacity, name, ret);

    return rc != 0 ? rc : gs_node_amount(node->capacity, other, ret);
}

/* The vendor's plugin reports hundredths of cards and memory units of all cards together. */
static int read_capacity(const struct gs_policy *policy, const struct gs_node_view *node,
                         struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                         struct gs_err *err)
{
    int64_t cores = 0, units = 0, mem_mib, n;
    struct gs_device *dev;
    int rc = capacity(node, policy->names.core, policy->names.core2, &cores);

    if (rc == 0)
        return -ENOENT;
    if (rc < 0 || cores > (int64_t)GS_REGISTER_DEVICES_MAX * 100)
        return gs_err_set(err, -EINVAL, "unreadable capacity of MLU cores");
    rc = capacity(node, policy->names.mem, policy->names.mem2, &units);
    if (rc < 0 || units > INT64_MAX / (GS_CAMBRICON_UNIT_MIB * 100))
        return gs_err_set(err, -EINVAL, "unreadable capacity of MLU memory");
    mem_mib = units * GS_CAMBRICON_UNIT_MIB * 100 / cores;
    if (mem_mib > INT32_MAX)
        return gs_err_set(err, -EINVAL, "capacity of MLU memory is out of range");
    n = (cores + 99) / 100;
    dev = GS_ARENA_ARRAY(arena, (size_t)n, struct gs_device);
    if (dev == NULL)
        return -ENOMEM;
    for (int64_t i = 0; i < n; i++)
        dev[i] = (struct gs_device){
            .id = gs_arena_printf(arena, "%.*s-cambricon-mlu-%" PRId64, (int)node->name.n,
                                  node->name.p, i),
            .type = GS_STR("MLU"),
            .index = (uint32_t)i,
            .count = 100,
            .mem_mib = (int32_t)mem_mib,
            .cores = 100,
            .is_healthy = true,
        };
    *ret_dev = dev;
    ret->n = (uint32_t)n;
    return gs_arena_check(arena);
}

static bool advertised_under(const void *of, struct gs_str name)
{
    int64_t amount;

    return gs_node_amount(of, name, &amount) > 0;
}

static int read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err)
{
    struct facts *facts;
    int rc = gs_usual_read_register(policy, node, arena, ret_dev, ret, err);

    if (rc == -ENOENT)
        rc = read_capacity(policy, node, arena, ret_dev, ret, err);
    if (rc < 0)
        return rc;
    facts = GS_ARENA_NEW(arena, struct facts);
    if (facts == NULL)
        return -ENOMEM;
    facts->names = names_of(&policy->names, advertised_under, node->capacity);
    ret->facts = facts;
    return rc;
}

/* --- which cards --- */

/* The node advertises the amount, but only under the name that the container does not use: the
 * kubelet would start it without a slice, and say nothing. */
static bool is_other(unsigned asked, unsigned has, unsigned one, unsigned two)
{
    return ((asked & one) != 0 && (has & (one | two)) == two) ||
           ((asked & two) != 0 && (has & (one | two)) == one);
}

static const struct gs_fit_rules rules = {.checks_quota = true};

static int fit(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick)
{
    const struct facts *facts = fit->group->facts;
    unsigned asked = fit->request->form;

    if (is_other(asked, facts->names, MEM_FIRST, MEM_OTHER) ||
        is_other(asked, facts->names, CORE_FIRST, CORE_OTHER)) {
        gs_reasons_add(fit->reasons, GS_REASON_MODE_NOT_FIT, fit->group->n);
        return -ENOSPC;
    }
    return gs_fit_walk(policy, &rules, fit, ret_pick);
}

/* --- what the vendor's plugin is told --- */

static int annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                    struct gs_arena *arena, struct gs_pairs *ret)
{
    const struct gs_pick *pick;
    size_t i = 0;
    int rc;

    (void)policy;
    while (i < a->pod->n_containers && a->n_picks[i] == 0)
        i++;
    if (i == a->pod->n_containers)
        return 0;
    pick = &a->pick[i][0];
    /* The vendor's plugin spells the word with an H, HAMi's since 2026 with an N; either waits for
     * its own. */
    rc = gs_pairs_set(ret, arena, GS_STR("CAMBRICON_DSMLU_ASSIGNED"), GS_STR("false"));
    if (rc == 0)
        rc = gs_pairs_set(ret, arena, GS_STR("CAMBRICON_DSMLU_ASSIGHED"), GS_STR("false"));
    if (rc == 0)
        rc = gs_pairs_set(ret, arena, GS_STR("CAMBRICON_DSMLU_PROFILE"),
                          gs_arena_printf(arena, "%" PRIu32 "_%" PRId32 "_%" PRId32,
                                          a->node->dev[pick->dev].index, pick->cores,
                                          pick->mem_mib / GS_CAMBRICON_UNIT_MIB));
    return rc < 0 ? rc : gs_arena_check(arena);
}

static const struct gs_policy_ops ops = {
    .admit = admit,
    .request = request,
    .read_node = read_node,
    .fit = fit,
    .rules = &rules,
    .annotate = annotate,
};

/* --- how it is configured --- */

static const struct gs_keys keys = {
    .to_allocate = GS_STR_INIT("hami.io/cambricon-mlu-devices-to-allocate"),
    .allocated = GS_STR_INIT("hami.io/cambricon-mlu-devices-allocated"),
    .node_register = GS_STR_INIT("hami.io/node-mlu-register"),
    .use_uuid = GS_STR_INIT("cambricon.com/use-gpuuuid"),
    .nouse_uuid = GS_STR_INIT("cambricon.com/nouse-gpuuuid"),
    .use_type = GS_STR_INIT("cambricon.com/use-mlutype"),
    .nouse_type = GS_STR_INIT("cambricon.com/nouse-mlutype"),
    .lock = GS_STR_INIT("cambricon.com/dsmlu.lock"),
    .own = "CAMBRICON_DSMLU_ASSIGNED CAMBRICON_DSMLU_ASSIGHED CAMBRICON_DSMLU_PROFILE",
};

/* No CYAML_FLAG_POINTER_NULL: it would take "" for a missing key. */
#define NAME(key, member)                                                                          \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_OPTIONAL, struct gs_cambricon_conf, member, 0, 253)

static const cyaml_schema_field_t field[] = {
    NAME("resourceCountName", count),
    NAME("resourceMemoryName", mem),
    NAME("resourceCoreName", core),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER_NULL, struct gs_cambricon_conf, field),
};

/* Whichever spelling the configuration has, the other is read too; "" switches both off. */
static struct gs_str other_spelling(struct gs_str name, const char *long_one, const char *short_one)
{
    if (name.n == 0)
        return name;
    return gs_str_of(gs_str_eq_c(name, short_one) ? long_one : short_one);
}

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    static const struct gs_cambricon_conf nothing;
    const struct gs_cambricon_conf *c = conf != NULL ? conf : &nothing;
    struct gs_policy policy = {
        .word = "MLU",
        .ops = &ops,
        .names.count = gs_usual_name(arena, c->count, "cambricon.com/vmlu"),
        .names.mem = gs_usual_name(arena, c->mem, LONG_MEM),
        .names.core = gs_usual_name(arena, c->core, LONG_CORE),
        .keys = keys,
        .mem_factor = GS_CAMBRICON_UNIT_MIB,
        .default_cores = 100,
        .quota_factor = GS_CAMBRICON_UNIT_MIB,
        .has_global_ids = true,
        .is_exclusive_at_100 = true,
    };

    (void)is_older; /* there is one shape */
    (void)err;      /* nothing in it can be wrong */
    policy.names.mem2 = other_spelling(policy.names.mem, LONG_MEM, SHORT_MEM);
    policy.names.core2 = other_spelling(policy.names.core, LONG_CORE, SHORT_CORE);
    return gs_usual_add(out, arena, &policy, 1);
}

const struct gs_policy_section gs_cambricon_section = {
    .key = "cambricon",
    .schema = &schema,
    .make = make,
};
