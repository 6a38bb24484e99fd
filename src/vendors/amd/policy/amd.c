#include "vendors/amd/policy/amd.h"

#include <cyaml/cyaml.h>
#include <errno.h>

#include "model/request.h"
#include "model/usual.h"
#include "vendors/amd/policy/fit.h"
#include "vendors/amd/policy/node.h"

/* --- admission --- */

/* Numbers that request() would drop silently. A percentage may stand in the requests alone. */
static int check(const struct gs_policy *policy, const struct gs_container *c, struct gs_err *err)
{
    const struct gs_names *names = &policy->names;
    int64_t value = 0;
    int rc = gs_amount_read(c, names->core, GS_AMOUNT_LIMITS, &value);

    if (rc < 0 || (rc > 0 && (value < 1 || value > 100)))
        return gs_err_set(err, -EINVAL, "%.*s must be an integer percentage between 1 and 100",
                          (int)names->core.n, names->core.p);
    value = 0;
    rc = gs_amount_read(c, names->mem_pct, GS_AMOUNT_BOTH, &value);
    if (rc < 0 || value < 0 || value > 100)
        return gs_usual_refuse(c, names->mem_pct, "must be an integer between 0 and 100", err);
    return gs_usual_check_amounts(policy, c, GS_AMOUNT_LIMITS, err);
}

static int admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                 struct gs_err *err)
{
    const struct gs_amd_conf *conf = policy->conf;
    const struct gs_names *names = &policy->names;
    const struct gs_container *c = &pod->container[container];
    int64_t count = 0;
    int has_count = gs_amount_read(c, names->count, GS_AMOUNT_LIMITS, &count);
    bool names_part = gs_amount_is_there(c, names->mem, GS_AMOUNT_LIMITS) ||
                      gs_amount_is_there(c, names->core, GS_AMOUNT_LIMITS) ||
                      gs_amount_is_there(c, names->mem_pct, GS_AMOUNT_BOTH);
    int rc = check(policy, c, err);

    if (rc == 0)
        rc = gs_usual_pass_priority(policy, pod, container, "AMD_TASK_PRIORITY", err);
    if (rc < 0)
        return rc;
    if (has_count > 0 ? count == 0 : !names_part || names->count.n == 0)
        return 0;
    if (has_count == 0)
        rc = gs_usual_set_limit(pod, container, names->count, 1);
    if (rc == 0 && conf->runtime_class.n > 0 && pod->runtime_class.n == 0)
        rc = gs_pod_edit(pod, GS_EDIT_RUNTIME_CLASS, container, (struct gs_str){0},
                         conf->runtime_class);
    return rc < 0 ? rc : 1;
}

/* mem_mib and mem_pct both 0: the whole card's memory. */
static void request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                    struct gs_request *ret)
{
    const struct gs_names *names = &policy->names;
    const struct gs_container *c = &pod->container[container];
    struct gs_request r = {.cores = policy->default_cores};
    int64_t pct = 0;

    *ret = (struct gs_request){0};
    if (gs_amount_read_i32(c, names->count, GS_AMOUNT_LIMITS, 1, &r.nums) <= 0 ||
        gs_amount_read_i32(c, names->mem, GS_AMOUNT_LIMITS, 1, &r.mem_mib) < 0 ||
        gs_amount_read_i32(c, names->core, GS_AMOUNT_LIMITS, 1, &r.cores) < 0 ||
        gs_amount_read(c, names->mem_pct, GS_AMOUNT_BOTH, &pct) < 0)
        return;
    if (r.cores < 1 || r.cores > 100 || pct < 0 || pct > 100)
        return;
    r.mem_pct = r.mem_mib > 0 ? 0 : (int32_t)pct;
    *ret = r;
}

static const struct gs_policy_ops ops = {
    .admit = admit,
    .request = request,
    .read_node = gs_amd_read_node,
    .read_device = gs_amd_read_device,
    .fit = gs_amd_fit,
};

/* --- how it is configured --- */

static const struct gs_keys keys = {
    .to_allocate = GS_STR_INIT("hami.io/amd-devices-to-allocate"),
    .allocated = GS_STR_INIT("hami.io/amd-devices-allocated"),
    .node_register = GS_STR_INIT("hami.io/node-amd-register"),
    .use_uuid = GS_STR_INIT("amd.com/use-gpu-uuid"),
    .nouse_uuid = GS_STR_INIT("amd.com/nouse-gpu-uuid"),
    .use_type = GS_STR_INIT("amd.com/use-gputype"),
    .nouse_type = GS_STR_INIT("amd.com/nouse-gputype"),
    .numa_bind = GS_STR_INIT("amd.com/numa-bind"),
    .link_bind = GS_STR_INIT("amd.com/link-bind"),
    .lock = GS_STR_INIT(GS_KEY_NODE_LOCK),
    .own = "hami.io/amd-cu-allocated",
};

/* No CYAML_FLAG_POINTER_NULL: it would take "" for a missing key. */
#define NAME(key, member)                                                                          \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_OPTIONAL, struct gs_amd_yaml, member, 0, 253)

static const cyaml_schema_field_t field[] = {
    NAME("resourceCountName", count),
    NAME("resourceMemoryName", mem),
    NAME("resourceMemoryPercentageName", mem_pct),
    NAME("resourceCoreName", core),
    NAME("resourcePriorityName", priority),
    NAME("runtimeClassName", runtime_class),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER_NULL, struct gs_amd_yaml, field),
};

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    static const struct gs_amd_yaml nothing;
    const struct gs_amd_yaml *yaml = conf != NULL ? conf : &nothing;
    struct gs_amd_conf *own = GS_ARENA_NEW(arena, struct gs_amd_conf);
    const struct gs_policy policy = {
        .word = "AMD",
        .ops = &ops,
        .names.count = gs_usual_name(arena, yaml->count, "amd.com/gpu"),
        .names.mem = gs_usual_name(arena, yaml->mem, "amd.com/gpumem"),
        .names.mem_pct = gs_usual_name(arena, yaml->mem_pct, "amd.com/gpumem-percentage"),
        .names.core = gs_usual_name(arena, yaml->core, "amd.com/gpucores"),
        .names.priority = gs_usual_name(arena, yaml->priority, "amd.com/priority"),
        .keys = keys,
        .mem_factor = 1,
        .default_cores = 100,
        .quota_factor = 1,
        .has_core_units = true,
        .has_global_ids = true,
        .writes_own_type = true,
        .conf = own,
    };

    (void)is_older; /* there is one shape */
    (void)err;      /* nothing in it can be wrong */
    if (own == NULL)
        return -ENOMEM;
    own->runtime_class = gs_usual_name(arena, yaml->runtime_class, "");
    return gs_usual_add(out, arena, &policy, 1);
}

const struct gs_policy_section gs_amd_section = {
    .key = "amd",
    .schema = &schema,
    .make = make,
};
