#include "vendors/hygon/policy/hygon.h"

#include <cyaml/cyaml.h>
#include <errno.h>

#include "model/fit.h"
#include "model/usual.h"

static int admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                 struct gs_err *err)
{
    int rc = gs_usual_admit(policy, pod, container, err);

    if (rc > 0 &&
        gs_usual_check_amounts(policy, &pod->container[container], GS_AMOUNT_BOTH, err) < 0)
        return -EINVAL;
    return rc;
}

static const struct gs_fit_rules rules = {.checks_quota = true};

static const struct gs_policy_ops ops = {
    .admit = admit,
    .request = gs_usual_request,
    .read_node = gs_usual_read_register,
    .rules = &rules,
};

static const struct gs_keys keys = {
    .to_allocate = GS_STR_INIT("hami.io/dcu-devices-to-allocate"),
    .allocated = GS_STR_INIT("hami.io/dcu-devices-allocated"),
    .node_register = GS_STR_INIT("hami.io/node-dcu-register"),
    .handshake = GS_STR_INIT("hami.io/node-handshake-dcu"),
    .use_uuid = GS_STR_INIT("hygon.com/use-gpuuuid"),
    .nouse_uuid = GS_STR_INIT("hygon.com/nouse-gpuuuid"),
    .use_type = GS_STR_INIT("hygon.com/use-dcutype"),
    .nouse_type = GS_STR_INIT("hygon.com/nouse-dcutype"),
    .lock = GS_STR_INIT(GS_KEY_NODE_LOCK),
};

/* No CYAML_FLAG_POINTER_NULL: it would take "" for a missing key. */
#define NAME(key, member)                                                                          \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_OPTIONAL, struct gs_hygon_conf, member, 0, 253)

static const cyaml_schema_field_t field[] = {
    NAME("resourceCountName", count),
    NAME("resourceMemoryName", mem),
    NAME("resourceCoreName", core),
    CYAML_FIELD_INT_PTR("memoryFactor", CYAML_FLAG_OPTIONAL | CYAML_FLAG_POINTER_NULL,
                        struct gs_hygon_conf, mem_factor),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER_NULL, struct gs_hygon_conf, field),
};

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    static const struct gs_hygon_conf nothing;
    const struct gs_hygon_conf *c = conf != NULL ? conf : &nothing;
    int32_t mem_factor = c->mem_factor != NULL && *c->mem_factor > 1 ? *c->mem_factor : 1;
    const struct gs_policy policy = {
        .word = "DCU",
        .ops = &ops,
        .names.count = gs_usual_name(arena, c->count, "hygon.com/dcunum"),
        .names.mem = gs_usual_name(arena, c->mem, "hygon.com/dcumem"),
        .names.core = gs_usual_name(arena, c->core, "hygon.com/dcucores"),
        .keys = keys,
        .mem_factor = mem_factor,
        .default_cores = 100,
        .quota_factor = mem_factor,
        .has_global_ids = true,
        .is_exclusive_at_100 = true,
    };

    (void)is_older; /* there is one shape */
    if (c->mem_factor != NULL && *c->mem_factor < 0)
        return gs_err_set(err, -EINVAL, "hygon: memoryFactor: must not be negative");
    return gs_usual_add(out, arena, &policy, 1);
}

const struct gs_policy_section gs_hygon_section = {
    .key = "hygon",
    .schema = &schema,
    .make = make,
};
