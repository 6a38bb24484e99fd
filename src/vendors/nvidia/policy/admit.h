#pragma once
/* What a container asks of NVIDIA, at admission and afterwards. */

#include <stddef.h>

#include "base/err.h"
#include "model/pod.h"
#include "model/policy.h"
#include "model/request.h"

/** gs_policy_ops.admit: refuses amounts that HAMi would drop later, fills in the count and whole
 *  cards' cores, and says in the environment what the hook reads. */
int gs_nvidia_admit(const struct gs_policy *policy, struct gs_pod *pod, size_t container,
                    struct gs_err *err);
/** gs_policy_ops.request. mem_pct is GS_PCT_NONE where memory is named in MiB. */
void gs_nvidia_request(const struct gs_policy *policy, const struct gs_pod *pod, size_t container,
                       struct gs_request *ret);
