#pragma once
/* Stores whose size only the driver knows: stream-ordered pools and a card's graph memory.
 *
 * A meter is a tracked object (GS_OBJ_POOL: key = pool; GS_OBJ_GRAPH: key = ordinal + 1):
 *   bytes = charged in `held`, reservations in flight included;  aux = reservations in flight;
 *   refs = completions so far;  flags = GS_METER_*;  dev = ledger index.
 * A caller reserves the worst case, calls the driver, then settles: the charge becomes what the
 * driver says the store holds. Invariant while calls are in flight: charge >= what the store holds.
 *
 * No lock is held across a driver call. A reading of the store counts only when no other call
 * completed since it was begun (`refs`); otherwise it is taken again, and after a few tries the
 * higher charge stays until the next reading. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "hook/gate.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/device.h"

#define GS_METER_EXEMPT 1u /**< host memory: never charged */
#define GS_METER_ZOMBIE 2u /**< destroyed while pointers lived; key is ours, refs counts them */
/** Card the store is on: CUDA ordinal, in the flags. */
#define GS_METER_ORDINAL_SHIFT  8
#define GS_METER_ORDINAL(flags) ((flags) >> GS_METER_ORDINAL_SHIFT & 0xffu)

struct gs_meter {
    enum gs_obj_kind kind;
    uint64_t key;
};

/** Would the gate grant this, as far as one look tells? */
bool gs_meter_has_room(uint32_t dev, uint64_t bytes);

/** Begin to meter a store; keeps what there is when it is known already. Returns 0 or -ENOMEM. */
GS_WUR int gs_meter_open(struct gs_meter m, const struct gs_device *device, uint32_t flags);

/** Reserve `bytes` for a call about to be made on the store (gs_pool_reserve's answers). */
GS_WUR int gs_meter_reserve(struct gs_meter m, uint32_t dev, uint64_t bytes, const char *what);
/** The call failed and took nothing. */
void gs_meter_cancel(struct gs_meter m, uint64_t bytes);

/** The call is over (`bytes` = what it had reserved; 0 for a plain look): charge what the store
 *  holds.
 *  @what    driver function when growth beyond the reservation may still be refused; NULL: it is
 *           charged.
 *  Returns  0; -ENOMEM the store grew by more than was reserved and the slice has no room for it:
 *           the bytes are charged nevertheless, undo the call and settle again. */
int gs_meter_settle(struct gs_meter m, uint64_t bytes, const char *what);

/** Move `bytes` of the store's charge to a share, or take them back into it. */
void gs_meter_shared(struct gs_meter m, uint64_t bytes, bool add);

/** A synchronisation happened: stores that were freed into may have shrunk. One load while none
 * was. */
void gs_meter_synchronized(void);
/** Something was freed into a store: a later look may find it smaller. */
void gs_meter_freed(void);
/** Any store in this process? */
bool gs_meter_any(void);
/** The card's graph memory was trimmed; graphs launched before may have to take theirs again. */
uint64_t gs_meter_epoch(void);
void gs_meter_trimmed(void);
