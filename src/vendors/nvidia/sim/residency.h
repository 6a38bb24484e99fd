#pragma once
/* Which bytes of managed memory lie on the card.
 *
 * A managed object has its place (address space, host memory) from birth and takes nothing of the
 * card; `bytes` of the object is what lies on the card now. Bytes come when a processor of the card
 * uses them or a prefetch brings them, and go when others need the room: device memory and newer
 * managed memory evict what was used longest ago, of whatever process. Device memory never goes.
 * Which of an object's bytes lie there is not modelled, only how many (docs/oversubscription.md).
 *
 * Everything here: lock of all processes held. */

#include <stdint.h>

#include "vendors/nvidia/sim/state.h"

/** Page migration reaches about half of what a copy from pinned memory does. */
#define GS_RESIDENCY_BYTES_PER_US 12000u

/** Take managed memory off the card until `bytes` of it are free, oldest use first.
 *  @keep  object that stays; GS_SIM_NONE: none. Nothing is taken off when all of it would not do.
 *  Returns 1 when that many are free. */
int gs_residency_make_room(uint32_t card, uint64_t bytes, uint32_t keep);

/** A kernel of the object's process is about to use it: it counts as used now. */
void gs_residency_use(uint32_t index);

/** Bring the object up to `bytes` on the card, as far as they can lie there.
 *  @moved  1: they hold data that is elsewhere and is counted as migrated; 0: they are written now.
 *  Returns how many bytes moved to the card. More than can lie there pass through it, all of them.
 */
uint64_t gs_residency_load(uint32_t index, uint64_t bytes, int moved);

/** Take up to `bytes` of the object off the card. Returns how many that were. */
uint64_t gs_residency_unload(uint32_t index, uint64_t bytes);
