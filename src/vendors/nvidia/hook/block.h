#pragma once
/* How the driver cuts small allocations: from blocks of one granule.
 *
 * An allocation of at most half a granule is a piece of a block that starts on a granule boundary;
 * the card loses the whole block with its first piece and gets it back with its last. So the block
 * is charged, not the piece. This module knows the blocks of this process and which parts of them
 * are taken; it neither charges nor calls the driver.
 *
 * Near the limit, where a fresh block would not fit, a piece may still fit in a hole of a block
 * that is charged already. Whether the driver will put it there is a prediction, right as long as
 * nobody else takes or frees pieces meanwhile: such an allocation runs alone
 * (gs_block_enter_alone), all others side by side (gs_block_enter). Both are held across the
 * driver's call; nothing else is locked inside.
 *
 * `dev` is a ledger index; any value is allowed (GS_DEVICE_NONE shares one place). Lock order:
 * enter, then the module's own spin word. Forgotten in a forked child with gs_block_forget(). */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

/** Alignment and unit of pieces, bytes: no driver places them closer. */
#define GS_BLOCK_UNIT 512u

/** Whose pieces may share a block. */
struct gs_block_owner {
    uint64_t granularity; /**< of the card; block = address / granularity */
    uint64_t serial;      /**< of the context */
    uint32_t dev;
    uint32_t family; /**< which allocator of the driver: pieces of two never mix */
};

/** What a removed piece leaves to be done. */
struct gs_block_gone {
    bool block; /**< the block went with it: return its charge */
    int share;  /**< ...by leaving this share; -1: by releasing a granule */
};

void gs_block_enter(uint32_t dev);
void gs_block_leave(uint32_t dev);
void gs_block_enter_alone(uint32_t dev);
void gs_block_leave_alone(uint32_t dev);

/** The driver placed a piece.
 *  Returns  1 in a block not known before, which the caller charges; 0 in a known one; -ENOMEM no
 *           memory of our own: nothing is remembered. */
GS_WUR int gs_block_add(const struct gs_block_owner *owner, uint64_t ptr, uint64_t bytes);
/** The driver freed it. Unknown pieces change nothing. */
struct gs_block_gone gs_block_remove(uint32_t dev, uint64_t granularity, uint64_t ptr,
                                     uint64_t bytes);
/** Is there room for a piece of `bytes` in a block of this owner? False once the driver has proved
 * a prediction wrong on this card. */
bool gs_block_has_hole(const struct gs_block_owner *owner, uint64_t bytes);
/** The driver did not take the hole: predict no more on this card. */
void gs_block_mistrust(uint32_t dev);
/** Share id of the block with `ptr`, -1 not shared, -ENOENT unknown. */
int gs_block_share(uint32_t dev, uint64_t granularity, uint64_t ptr);
/** The block's charge moved to a share. */
void gs_block_set_share(uint32_t dev, uint64_t granularity, uint64_t ptr, int share);

void gs_block_forget(void);
