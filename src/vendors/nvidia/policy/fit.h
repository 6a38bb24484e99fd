#pragma once
/* NVIDIA's exceptions to the shared walk: cordon, modes, MIG placement, link topology. */

#include "base/arena.h"
#include "model/fit.h"
#include "model/pod.h"
#include "model/policy.h"

/** gs_policy_ops.wish: nvidia.com/vgpu-mode as a struct gs_str; NULL where none is given. */
int gs_nvidia_wish(const struct gs_policy *policy, const struct gs_pod *pod, struct gs_arena *arena,
                   const void **ret);
/** gs_policy_ops.rules. */
extern const struct gs_fit_rules gs_nvidia_rules;
/** gs_policy_ops.annotate: hami.io/vgpu-mig-allocations where a pick has a MIG place. */
int gs_nvidia_annotate(const struct gs_policy *policy, const struct gs_assignment *a,
                       struct gs_arena *arena, struct gs_pairs *ret);
