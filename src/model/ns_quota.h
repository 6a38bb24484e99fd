#pragma once
/* Namespace quota on slices: limits.<memory resource> and limits.<core resource> of ResourceQuotas.
 * Several quotas in a namespace: each holds (the smallest limit counts). */

#include <stdbool.h>
#include <stdint.h>

#include "model/pod.h"
#include "model/policy.h"

/** Of one vendor in one namespace. */
struct gs_ns_quota_line {
    const struct gs_policy *policy;
    int64_t mem_limit, core_limit; /**< in units of the resource; -1: none; 0 blocks */
    int64_t mem_used,
        core_used; /**< MiB as granted (already multiplied by the factor); core units */
};

struct gs_ns_quota {
    const struct gs_ns_quota_line *line;
    size_t n;
};

/** Do `mem_mib` and `cores` more fit? Unknown vendor: yes. */
bool gs_ns_quota_fits(const struct gs_ns_quota *quota, const struct gs_policy *policy,
                      int64_t mem_mib, int64_t cores);
/** What a pod as a whole asks of a vendor: max(sum of app containers, largest init container) of
 *  memory * cards and cores * cards. */
void gs_ns_quota_of_pod(const struct gs_policy *policy, const struct gs_pod *pod,
                        int64_t *ret_mem_mib, int64_t *ret_cores);
