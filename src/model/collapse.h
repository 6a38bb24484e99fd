#pragma once
/* What a pod's grants take of each device: the larger of its init containers (one at a time) and
 * the sum of its app containers (side by side). */

#include "base/arena.h"
#include "core/cleanup.h"
#include "model/grant.h"

struct gs_share_of {
    struct gs_str uuid;
    int32_t slots, mem_mib, cores;
};

/** Collapse one vendor's grant. `n_init`: how many of its first slots are init containers that run
 *  one at a time (sidecars counted with the app containers by the caller's mask: `is_app[i]`, NULL:
 *  index >= n_init). `inits_done`: they have all ended well, only app slots count.
 *  ret sorted by UUID, in the arena. 0 or -ENOMEM. Saturates at INT32_MAX. */
GS_WUR int gs_collapse(const struct gs_grant *grant, size_t n_init, const bool *is_app,
                       bool inits_done, struct gs_arena *arena, struct gs_share_of **ret,
                       size_t *ret_n);
