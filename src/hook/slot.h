#pragma once
/* Slots: one per process of the slice; they never move. Claiming, testing and reaping them.
 *
 * Liveness = a kernel record lock on byte `slot` of the file, or (pid, start time) running the same
 * image: each test covers the other's blind spot, so a slot is reaped only when both say dead. The
 * lock goes with exec, which keeps pid and start time. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

/** Take a free slot for this process (self->ledger and fd are set). Returns 0; -EUSERS none is
 * free; other -errno from the kernel. */
GS_WUR int gs_slot_claim(void);

/** What a pass over the slots found. */
struct gs_slot_pass {
    uint32_t reaped; /**< slots freed by us */
    uint32_t busy;   /**< dead, but another process is freeing them at this moment */
};
/** Free what dead processes left: their shares first, then their sums, then the slot. Slow path. */
struct gs_slot_pass gs_slot_reap(void);

/** One process's use of a device. */
struct gs_slot_use {
    uint32_t pid;
    uint32_t host_pid; /**< 0 unknown */
    uint32_t flags;    /**< GS_SLOT_* */
    uint64_t bytes;    /**< held + extra + shares that are charged to it */
};
/** The slice's live processes with their use of `dev`, which may be 0, ascending slot. Returns how
 * many there are, of which at most `max` were stored. */
uint32_t gs_slot_list(uint32_t dev, struct gs_slot_use *ret_uses, uint32_t max);

/** Set GS_SLOT_* flags of our own slot. */
void gs_slot_flag(uint32_t flags);

/** Zero a dead slot's words, the way the reaper does; the owner word goes last. Shares must be left
 *  before. Only atomics, so that the explorer can run it. */
void gs_slot_wipe(uint32_t slot);
