#pragma once
/* Stream-ordered pools, as the other rows see them, and the reserve that knows about them.
 *
 * A pool keeps memory its pointers no longer use. That memory is charged, because the card has
 * given it away; it is given back before anything of this slice is refused. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "hook/gate.h"
#include "vendors/nvidia/abi/cuda_types.h"

/** gs_gate_reserve() for CUDA rows: before a refusal the unused memory of this process's pools and
 *  graphs is returned to the card, once. Costs nothing more than the gate while there are no pools.
 *  Threads  any, with no lock held: it may call the driver. */
GS_WUR int gs_pool_reserve(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what);

/** Bring the charge of this process's pools and graphs on `dev` down to what they hold now. The
 * driver shrinks pools when streams are synchronised and tells nobody, so answers about used memory
 * ask here first. One load while nothing was freed to a pool. */
void gs_pool_reconcile(uint32_t dev);

/** cuMemFree of a pointer that is not a synchronous allocation: a pool's pointer may be freed that
 * way.
 *  @real    the driver's function of the row that was called.
 *  Returns  true: the driver was called, the books are right, *ret_result is its answer; false:
 * nothing was done, because no pool, graph or import exists that it could belong to. */
bool gs_pool_free_sync(CUresult (*real)(CUdeviceptr), CUdeviceptr ptr, CUresult *ret_result);
