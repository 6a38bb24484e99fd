#pragma once
/* The grant: what each container of a pod was given, as the annotations have it:
 * "UUID,TYPE,MEM,CORES:" per device, ";" behind each container, init containers first. */

#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_grant_dev {
    struct gs_str uuid, type;
    int32_t mem_mib, cores;
};

struct gs_grant_slot {
    struct gs_grant_dev *dev;
    size_t n;
};

/** One vendor's text. */
struct gs_grant {
    struct gs_grant_slot
        *slot; /**< [n]: one per container; the empty slot behind the last ';' is dropped */
    size_t n;
};

#define GS_GRANT_BYTES_MAX (1u << 18) /* the API server's limit on all annotations together */
#define GS_GRANT_SLOTS_MAX 16384u

/** Text is borrowed, arrays are in the arena. Numbers are 0..int32, beyond that -EINVAL.
 *  Returns  0; -EINVAL with HAMi's text; -E2BIG; -ENOMEM. */
GS_WUR int gs_grant_read(struct gs_str text, struct gs_arena *arena, struct gs_grant *ret,
                         struct gs_err *err);
void gs_grant_write(const struct gs_grant *grant, struct gs_buf *buf);
/** Empty the first slot that is not, as a plugin does that hands devices out: reads tolerate what
 *  HAMi's own rewriting leaves (";" too many). False: nothing left. */
bool gs_grant_pop(struct gs_grant *grant, size_t *ret_slot);
/** The card of a grant's UUID: without the tail "[template-slot]" that v2.9 wrote for MIG. */
struct gs_str gs_grant_card(struct gs_str uuid);

/** One MIG reservation of hami.io/vgpu-mig-allocations. */
struct gs_mig_grant {
    uint32_t container, device; /**< slot (init first), position inside the slot */
    struct gs_str gpu_uuid, profile;
    int32_t start, size;
    bool is_realised; /**< the three below are there */
    struct gs_str mig_uuid;
    uint32_t gpu_instance, compute_instance;
};
/** Text is copied into the arena; empty text: none. -EINVAL (err names the element); -E2BIG;
 *  -ENOMEM. */
GS_WUR int gs_grant_mig_read(struct gs_str json, struct gs_arena *arena, struct gs_mig_grant **ret,
                             size_t *ret_n, struct gs_err *err);
void gs_grant_mig_write(const struct gs_mig_grant *mig, size_t n, struct gs_buf *buf);
