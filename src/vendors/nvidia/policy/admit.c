#include "vendors/nvidia/policy/admit.h"

#include <errno.h>

#include "model/amount.h"
#include "model/usual.h"
#include "vendors/nvidia/policy/conf.h"

/* What the container names of us; 0 in memory and percentage is "not named": a zero limit used to
 * reach the hook as no limit at all. */
struct asked {
    int64_t count;
    bool has_count, has_mem, has_pct, has_cores;
    int64_t pct;
};

static int look(const struct gs_policy *policy, const struct gs_container *c, struct asked *ret,
                struct gs_err *err)
{
    const struct gs_names *names = &policy->names;
    struct asked a = {0};
    int32_t n = 0;
    int rc;

    rc = gs_amount_read(c, names->mem_pct, GS_AMOUNT_BOTH, &a.pct);
    if (rc < 0 || a.pct < 0 || a.pct > 100)
        return gs_usual_refuse(c, names->mem_pct, "must be an integer between 0 and 100", err);
    a.has_pct = a.pct > 0;
    rc = gs_usual_check_amounts(policy, c, GS_AMOUNT_BOTH, err);
    if (rc < 0)
        return rc;
    a.has_mem =
        gs_amount_read_i32(c, names->mem, GS_AMOUNT_BOTH, policy->mem_factor, &n) > 0 && n > 0;
    a.has_cores = gs_amount_is_there(c, names->core, GS_AMOUNT_BOTH);
    a.has_count = gs_amount_read(c, names->count, GS_AMOUNT_BOTH, &a.count) > 0;
    *ret = a;
    return 0;
}

/* A container that names cards or a part of one; edits what HAMi's webhook adds. */
static int fill_in(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                   const struct asked *a)
{
    const struct gs_nvidia_conf *conf = policy->conf;
    const struct gs_names *names = &policy->names;
    bool is_whole = !a->has_mem && (!a->has_pct || a->pct == 100);
    int rc = 0;

    if (a->pct == 100)
        is_whole = true; /* beside a number of MiB too, as HAMi has it */
    if (!a->has_count)
        rc = gs_usual_set_limit(pod, container, names->count, conf->default_count);
    /* Who gets the whole memory gets the whole card, unless he said how much of it. */
    if (rc == 0 && is_whole && !a->has_cores && names->core.n > 0)
        rc = gs_usual_set_limit(pod, container, names->core, 100);
    if (rc == 0 && conf->core_policy.n > 0)
        rc = gs_pod_edit(pod, GS_EDIT_ENV, container, GS_STR("GPU_CORE_UTILIZATION_POLICY"),
                         conf->core_policy);
    if (rc == 0 && conf->runtime_class.n > 0 && pod->runtime_class.n == 0)
        rc = gs_pod_edit(pod, GS_EDIT_RUNTIME_CLASS, container, (struct gs_str){0},
                         conf->runtime_class);
    return rc;
}

static bool names_part(const struct gs_policy *policy, const struct gs_container *c)
{
    return gs_amount_is_there(c, policy->names.core, GS_AMOUNT_LIMITS) ||
           gs_amount_is_there(c, policy->names.mem, GS_AMOUNT_LIMITS) ||
           gs_amount_is_there(c, policy->names.mem_pct, GS_AMOUNT_LIMITS);
}

int gs_nvidia_admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                    struct gs_err *err)
{
    const struct gs_nvidia_conf *conf = policy->conf;
    const struct gs_container *c = &pod->container[container];
    struct asked a = {0};
    bool asks;
    int rc;

    rc = look(policy, c, &a, err);
    if (rc < 0)
        return rc;
    rc = gs_usual_pass_priority(policy, pod, container, "CUDA_TASK_PRIORITY", err);
    if (rc < 0)
        return rc;
    asks = a.has_count
               ? a.count > 0
               : names_part(policy, c) && policy->names.count.n > 0 && conf->default_count > 0;
    if (asks)
        rc = fill_in(policy, pod, container, &a);
    else if (conf->overwrites_env)
        rc = gs_pod_edit(pod, GS_EDIT_ENV, container, GS_STR("NVIDIA_VISIBLE_DEVICES"),
                         GS_STR("none"));
    return rc < 0 ? rc : asks;
}

void gs_nvidia_request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                       struct gs_request *ret)
{
    const struct gs_nvidia_conf *conf = policy->conf;
    const struct gs_container *c = &pod->container[container];
    struct gs_request r = {.cores = policy->default_cores, .mem_pct = GS_PCT_NONE};
    int64_t pct = 0;

    *ret = (struct gs_request){0};
    if (gs_amount_read_i32(c, policy->names.count, GS_AMOUNT_BOTH, 1, &r.nums) <= 0 ||
        gs_amount_read_i32(c, policy->names.mem, GS_AMOUNT_BOTH, policy->mem_factor, &r.mem_mib) <
            0 ||
        gs_amount_read_i32(c, policy->names.core, GS_AMOUNT_BOTH, 1, &r.cores) < 0)
        return;
    if (gs_amount_read(c, policy->names.mem_pct, GS_AMOUNT_BOTH, &pct) > 0 && pct > 0)
        r.mem_pct = pct > 100 ? 100 : (int32_t)pct;
    if (r.mem_pct == GS_PCT_NONE && r.mem_mib == 0) {
        r.mem_mib = conf->default_mem;
        if (conf->default_mem == 0)
            r.mem_pct = 100;
    }
    *ret = r;
}
