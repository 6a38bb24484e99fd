#pragma once
/* Pointers of the synchronous allocators, for the rows that share or inspect them.
 *
 * A GS_OBJ_LINEAR entry: bytes = charged (0 for a piece of a block, whose block is charged); aux =
 * serial of the context; share = id once published. */

#include <stdint.h>

#include "core/cleanup.h"
#include "hook/share.h"
#include "vendors/nvidia/abi/cuda_types.h"

/** gs_obj.flags of a GS_OBJ_LINEAR: cut from a block (block.h); the charge is the block's. */
#define GS_LINEAR_PIECE 1u
/** Managed memory of a slice that oversubscribes: counted in gs_ledger_use.managed_bytes. */
#define GS_LINEAR_MANAGED 2u

/** The pointer's memory becomes a share under `key`, once: its charge moves there and the free
 * leaves the share instead of releasing. A piece shares its whole block, as the driver does.
 *  Returns  share id; -ENOENT not one of ours; -ENOSPC table full, the charge stays where it is. */
GS_WUR int gs_linear_publish(CUdeviceptr ptr, struct gs_share_key key);
