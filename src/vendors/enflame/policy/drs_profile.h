#pragma once
/* What a node tells of its DRS cards: the annotation enflame.com/gcu-drs-capacity. */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

/** A partition size: "3g.20gb" is 3 slices and 20 GB. */
struct gs_drs_profile {
    struct gs_str name, id;
    int32_t slices, gb;
};

/** The profiles of a node, smallest first (slices, then memory). */
struct gs_drs_profiles {
    const struct gs_drs_profile *at;
    size_t n;
    int32_t max_slices, max_gb; /**< of any of them; above 0 */
};

/** A card as the node lists it. */
struct gs_drs_card {
    struct gs_str index, minor;
    int32_t slices;
};

#define GS_DRS_PROFILES_MAX 64
#define GS_DRS_SLICES_MAX   64

/** Read the annotation; text is copied. Numbers may also be texts, and the other way round;
 *  profiles of another form of name are left out.
 *  Returns  0 (no cards: *ret has no profiles); -EINVAL unreadable, or cards without a profile;
 *  -E2BIG; -ENOMEM. */
GS_WUR int gs_drs_profile_read(struct gs_str text, struct gs_arena *arena,
                               struct gs_drs_profiles *ret, const struct gs_drs_card **ret_card,
                               size_t *ret_n, struct gs_err *err);
/** Percent of the card that a profile is, rounded up. */
int32_t gs_drs_profile_cores(const struct gs_drs_profiles *profiles, int32_t slices);
/** The slices behind a number of cores, of one profile or summed over those of a card. */
int32_t gs_drs_profile_slices(const struct gs_drs_profiles *profiles, int32_t cores);
