#include "vendors/enflame/policy/enflame.h"

#include <cyaml/cyaml.h>
#include <errno.h>

#include "model/fit.h"
#include "model/policy.h"
#include "model/usual.h"
#include "vendors/enflame/policy/drs.h"

/* A whole card counts as 100 of everything: nothing else is known of it. */
#define WHOLE 100

static int read_cards(const struct gs_policy *policy, const struct gs_node_view *node,
                      struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                      struct gs_err *err)
{
    static const struct gs_device like = {
        .id = {"GCU", 3},
        .type = {"GCU", 3},
        .count = 1,
        .mem_mib = WHOLE,
        .cores = WHOLE,
    };
    int n = gs_usual_read_capacity(policy, node, &like, arena, ret_dev, err);

    if (n < 0)
        return n;
    ret->n = (uint32_t)n;
    ret->facts = NULL;
    return 0;
}

static void request_of(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                       struct gs_request *ret)
{
    gs_usual_request(policy, pod, container, ret);
    if (ret->nums > 0)
        ret->mem_mib = WHOLE;
}

/* Cards that nobody has, from the end of the order. */
static int fit_cards(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick)
{
    int32_t n = 0;

    (void)policy;
    gs_reasons_reset(fit->reasons, fit->group->n);
    for (uint32_t i = fit->group->n; i > 0 && n < fit->request->nums; i--) {
        uint32_t at = fit->order[i - 1];
        const struct gs_use *use = &fit->use[at];
        enum gs_reason why = gs_device_ask_open(&fit->node->dev[at], use);

        if (why != GS_REASON_COUNT)
            gs_reasons_add(fit->reasons, why, 1);
        else if (use->slots > 0)
            gs_reasons_add(fit->reasons, GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT, 1);
        else
            ret_pick[n++] = (struct gs_pick){.dev = at, .mem_mib = WHOLE, .cores = WHOLE};
    }
    if (n == fit->request->nums)
        return n;
    gs_reasons_add(fit->reasons, GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST, (uint32_t)n);
    fit->reasons->collected = (uint32_t)n;
    fit->reasons->asked = (uint32_t)fit->request->nums;
    return -ENOSPC;
}

static const struct gs_policy_ops gcu_ops = {
    .admit = gs_usual_admit,
    .request = request_of,
    .read_node = read_cards,
    .fit = fit_cards,
};

static int make(const void *conf, bool is_older, struct gs_arena *arena, struct gs_policies *out,
                struct gs_err *err)
{
    static const struct gs_enflame_conf none;
    const struct gs_enflame_conf *c = conf != NULL ? conf : &none;
    struct gs_policy policy[2];

    (void)is_older; /* there is one shape */
    (void)err;
    policy[0] = (struct gs_policy){
        .word = "GCU",
        .ops = &gcu_ops,
        .names = {.count = gs_usual_name(arena, c->gcu, "enflame.com/gcu")},
        .keys = {.to_allocate = GS_STR("hami.io/enflame-gcu-devices-to-allocate"),
                 .allocated = GS_STR("hami.io/enflame-gcu-devices-allocated")},
        .mem_factor = 1,
        .default_cores = WHOLE,
        .quota_factor = 1,
    };
    policy[1] = (struct gs_policy){
        .word = "Enflame",
        .ops = &gs_drs_ops,
        .names = {.count = gs_usual_name(arena, c->drs != NULL ? c->drs : c->vgcu,
                                         "enflame.com/drs-gcu"),
                  .mem = gs_usual_name(arena, c->mem, "enflame.com/gcu-memory"),
                  .core = gs_usual_name(arena, c->core, "enflame.com/gcu-core")},
        .keys = {.allocated = GS_STR("hami.io/enflame-vgpu-devices-allocated"),
                 .node_register = GS_STR("enflame.com/gcu-drs-capacity"),
                 .use_uuid = GS_STR("enflame.com/use-gpuuuid"),
                 .nouse_uuid = GS_STR("enflame.com/nouse-gpuuuid"),
                 .own = "enflame.com/gcu-assigned enflame.com/gcu-assigned-time "
                        "enflame.com/gcu-assigned-index enflame.com/gcu-assigned-id "
                        "enflame.com/gcu-assigned-minor enflame.com/gcu-request-size "
                        "assigned-containers"},
        .mem_factor = 1,
        .quota_factor = 1,
    };
    return gs_usual_add(out, arena, policy, GS_ARRAY_LEN(policy));
}

#define NAME(key, member)                                                                          \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_OPTIONAL, struct gs_enflame_conf, member, 0,            \
                           CYAML_UNLIMITED)
static const struct cyaml_schema_field fields[] = {
    NAME("resourceNameGCU", gcu),
    NAME("resourceNameDRSGCU", drs),
    NAME("resourceNameGCUMemory", mem),
    NAME("resourceNameGCUCore", core),
    NAME("resourceNameVGCU", vgcu),
    CYAML_FIELD_IGNORE("resourceNameVGCUPercentage", CYAML_FLAG_OPTIONAL),
    CYAML_FIELD_END,
};
#undef NAME

static const struct cyaml_schema_value schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct gs_enflame_conf, fields),
};

const struct gs_policy_section gs_enflame_section = {
    .key = "enflame",
    .schema = &schema,
    .make = make,
};
