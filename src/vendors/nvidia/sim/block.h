#pragma once
/* A stretch of device memory cut into pieces: granules of small allocations, chunks of pools.
 * First fit, pieces of `piece_bytes`. Pure bookkeeping of this process; gs_sim_self.lock held. */

#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/sim/card.h"

struct gs_sim_ctx;

/** What is known of an allocation, kept at its first piece. */
struct gs_sim_piece {
    uint64_t size; /* as asked for; 0: no allocation starts here */
    uint64_t serial;
};

struct gs_sim_block {
    uint64_t base;        /* address */
    uint64_t piece_bytes; /* a power of two */
    uint32_t shift;       /* its logarithm */
    uint32_t n;           /* pieces */
    uint32_t first_free;  /* no piece below this one is free */
    uint32_t live;
    uint32_t max_hole; /* exact: longest run of free pieces */
    uint32_t range;    /* number in memory.h's table */
    uint32_t piece_kind;
    struct gs_sim_id id;
    uint32_t card;
    CUdevice device;
    struct gs_sim_ctx *ctx;
    void *pool;
    uint64_t bytes;
    uint64_t used_bytes; /* sum of live sizes, rounded to 512 */
    struct gs_sim_block *prev, *next;
    uint64_t *used;   /* bit per piece */
    uint64_t *starts; /* bit per piece where an allocation starts */
    struct gs_sim_piece *piece;
};

/** Bookkeeping for `bytes` at `piece_bytes` each (bytes is a multiple). Recycles. Returns NULL
 *  without memory. */
struct gs_sim_block *gs_block_new(uint64_t bytes, uint64_t piece_bytes);
/** Only when nothing is live in it. */
void gs_block_free(struct gs_sim_block *b);

/** Cut `size` bytes. Returns the address or 0 if no hole is long enough. */
uint64_t gs_block_take(struct gs_sim_block *b, uint64_t size, uint64_t serial);

/** Give back the allocation that starts at `address`. Returns 0 or -EINVAL. */
GS_WUR int gs_block_give(struct gs_sim_block *b, uint64_t address);

/** The allocation that contains `address`. Returns its start, or 0 if that piece is free. */
uint64_t gs_block_find(const struct gs_sim_block *b, uint64_t address, struct gs_sim_piece *ret);

static inline uint32_t gs_block_pieces(const struct gs_sim_block *b, uint64_t size)
{
    return (uint32_t)((size + b->piece_bytes - 1) >> b->shift);
}
