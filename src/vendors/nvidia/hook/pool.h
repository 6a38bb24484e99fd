#pragma once
/* What the synchronous rows need to know about stream-ordered memory. */

#include <stdbool.h>

#include "vendors/nvidia/abi/cuda_types.h"

/** cuMemFree of a pointer that is not ours: a pool's pointer may be freed that way.
 *  @real    the driver's function for the row that was called.
 *  Returns  true when `ptr` belongs to a pool (or was imported): the driver was called, the books
 * are right, *ret_result is the driver's answer; false: nothing was done. */
bool gs_pool_free_sync(CUresult (*real)(CUdeviceptr), CUdeviceptr ptr, CUresult *ret_result);
