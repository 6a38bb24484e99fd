#pragma once
/* Where a pool's memory lies: the chunks it has grown by and the pointers in them. Asked only where
 * the slice has no room for another chunk: an allocation that fits into a hole needs none.
 *
 * GS_OBJ_POOL, key = start address with bit 61: bytes = length; aux = key of the pool's meter; not
 * charged by itself. A chunk is known when exactly one call made the pool grow; a pool with growth
 * that nobody can be named for is not predicted. */

#include <stdbool.h>
#include <stdint.h>

#include "vendors/nvidia/hook/meter.h"

/* Calls that take from or give to a pool run side by side (enter, leave); one that relies on a hole
 * runs alone, so that nobody fills the hole or empties its chunk meanwhile. Both are held across
 * the driver's call, which for these functions only queues work; every wait is bounded, and who
 * waited in vain goes on without the right to rely on anything. */

/** Returns whether gs_pool_map_leave() is owed. */
bool gs_pool_map_enter(void);
void gs_pool_map_leave(bool entered);
/** False: others do not come to an end. True: alone until gs_pool_map_leave_alone(). */
bool gs_pool_map_enter_alone(void);
void gs_pool_map_leave_alone(void);

/** The call that returned `ptr` alone made the pool grow by `bytes`. */
void gs_pool_map_grew(struct gs_meter pool, uint64_t ptr, uint64_t bytes);
/** Is there a hole for `bytes` beside live pointers of a pool that holds `reserved`? Unused chunks
 * do not count: a synchronisation may take them. Slow: looks at every pointer. Call it alone. */
bool gs_pool_map_has_hole(struct gs_meter pool, uint64_t reserved, uint64_t bytes);
/** The driver took memory out of the pool: chunks without pointers are not to be believed in. Their
 * addresses may come back as parts of other chunks. Slow: looks at every pointer. */
void gs_pool_map_shrank(struct gs_meter pool);
/** Length of the chunk around `ptr`, its start in *ret_start; 0 unknown. */
uint64_t gs_pool_map_chunk(struct gs_meter pool, uint64_t ptr, uint64_t *ret_start);
/** The pool is gone. */
void gs_pool_map_forget(struct gs_meter pool);
