#pragma once
/* Memory of other processes mapped into this one, counted per object (ipc.c). */

#include "vendors/nvidia/sim/memory.h"

/** Map an object (once; later calls count) and tell the address of `offset` in it. `ctx` NULL: it
 *  outlives contexts. Takes the process lock. */
CUresult gs_import_open(struct gs_sim_id id, struct gs_sim_ctx *ctx, CUdevice device,
                        uint64_t offset, CUdeviceptr *ret_ptr);

/** Undo one gs_import_open() of the object at `ptr`. CUDA_ERROR_INVALID_VALUE if none is there. */
CUresult gs_import_close(CUdeviceptr ptr);

/** All imports of a context end. Process lock held. */
void gs_import_forget(struct gs_sim_ctx *ctx);
