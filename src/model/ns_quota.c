#include "model/ns_quota.h"

#include "model/request.h"

static int64_t sat_add(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t sat_mul(int64_t a, int64_t b)
{
    int64_t product;

    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

bool gs_ns_quota_fits(const struct gs_ns_quota *quota, const struct gs_policy *policy,
                      int64_t mem_mib, int64_t cores)
{
    for (size_t i = 0; quota != NULL && i < quota->n; i++) {
        const struct gs_ns_quota_line *line = &quota->line[i];
        int64_t factor = policy->quota_factor > 1 ? policy->quota_factor : 1;

        if (line->policy != policy)
            continue;
        if (line->mem_limit >= 0 &&
            sat_add(line->mem_used, mem_mib) > sat_mul(line->mem_limit, factor))
            return false;
        if (line->core_limit >= 0 && sat_add(line->core_used, cores) > line->core_limit)
            return false;
    }
    return true;
}

void gs_ns_quota_of_pod(const struct gs_policy *policy, const struct gs_pod *pod,
                        int64_t *ret_mem_mib, int64_t *ret_cores)
{
    int64_t app_mem = 0, app_cores = 0, peak_mem = 0, peak_cores = 0;

    for (size_t i = 0; i < pod->n_containers; i++) {
        const struct gs_container *c = &pod->container[i];
        struct gs_request request = {0};
        int64_t mem, cores;

        policy->ops->request(policy, pod, i, &request);
        if (request.nums <= 0)
            continue;
        mem = sat_add(app_mem, sat_mul(request.mem_mib, request.nums));
        cores = sat_add(app_cores, sat_mul(request.cores, request.nums));
        peak_mem = mem > peak_mem ? mem : peak_mem;
        peak_cores = cores > peak_cores ? cores : peak_cores;
        if (!gs_container_is_passing(c)) {
            app_mem = mem;
            app_cores = cores;
        }
    }
    *ret_mem_mib = peak_mem;
    *ret_cores = peak_cores;
}
