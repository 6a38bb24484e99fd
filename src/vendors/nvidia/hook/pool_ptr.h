#pragma once
/* Pointers of pools: where they lie tells what still fits (pool_map.h), a pool may be destroyed
 * before its pointers are freed, and they can be exported and imported.
 *
 * GS_OBJ_ASYNC:  bytes = asked for, rounded to 512; aux = key of the pool's meter; share = id once
 *                exported; refs = what it took along there, in 512 bytes; dev = ledger index.
 * GS_OBJ_IMPORT: share = id or -1; refs = times opened; flags = GS_IMPORT_*. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/meter.h"

#define GS_IMPORT_POOL 1u /**< ends with a free */
#define GS_IMPORT_IPC  2u /**< ends with cuIpcCloseMemHandle */

/** Follow a pointer of a charged pool. Returns 0 or -ENOMEM. */
GS_WUR int gs_pool_ptr_note(CUdeviceptr ptr, uint64_t bytes, struct gs_meter pool,
                            const struct gs_device *device);
/** The pool is destroyed; `obj` is its meter, already taken out. The driver keeps the memory until
 * the last pointer is freed, and so does the charge. */
void gs_pool_ptr_orphan(struct gs_meter pool, const struct gs_obj *obj);
