#pragma once
/* MIG profiles of a card, and which of their places is free. */

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"
#include "model/fit.h"

/** Memory slices [start, start + size) of a card. */
struct gs_nvidia_span {
    int32_t start, size;
};

struct gs_nvidia_profile {
    struct gs_str name; /**< "1g.5gb" */
    int32_t mem_mib, cores, slices;
    const struct gs_nvidia_span *place; /**< ascending start */
    size_t n_places;
};

struct gs_nvidia_mig {
    const struct gs_nvidia_profile *profile; /**< ascending (mem_mib, slices) */
    size_t n;
};

/** Profiles of a card, and places of a profile, that are read at most. */
#define GS_NVIDIA_PROFILES_MAX 64
#define GS_NVIDIA_PLACES_MAX   64

/** The smallest profile of at least `mem_mib` that has a place free of all of `busy`: from the
 *  highest start for 1g and 3g (as HAMi has it: what is left stays wide), from the lowest for
 *  others.
 *  Returns  0 with ret's memory, cores, profile and place set (and only these); -ENOSPC. */
GS_WUR int gs_nvidia_mig_place(const struct gs_nvidia_mig *mig, int32_t mem_mib,
                               const struct gs_nvidia_span *busy, size_t n_busy,
                               struct gs_pick *ret);
/** gs_policy_ops.audit: a card whose holders and places do not go together takes nobody. A holder
 *  without a place on a MIG card may lie anywhere on it; a place on a whole card means that the
 * card was in another mode when it was given. */
void gs_nvidia_audit(const struct gs_policy *policy, const struct gs_device *dev,
                     struct gs_use *use);
