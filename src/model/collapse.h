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

/** Which slots of a grant belong to what. */
struct gs_slots {
    size_t n_init;      /**< so many of the first are init containers, which run one at a time */
    const bool *is_app; /**< [slots] of app containers and sidecars; NULL: those from n_init on */
    bool inits_done;    /**< the init containers have all ended well: they count no more */
};

/** Collapse one vendor's grant. An init container counts together with the sidecars before it.
 *  Shape    ret sorted by UUID (of the card: gs_grant_card()), in the arena.
 *  Returns  0 or -ENOMEM. Sums stay at INT32_MAX. */
GS_WUR int gs_collapse(const struct gs_grant *grant, const struct gs_slots *slots,
                       struct gs_arena *arena, struct gs_share_of **ret, size_t *ret_n);
