#pragma once
/* Moving and filling bytes. Bytes move when the call is made; the stream accounts the time. */

#include "vendors/nvidia/sim/sim.h"
#include "vendors/nvidia/sim/stream.h"

/** Run a copy or fill a graph node describes: no capture, no accounting, no lock held.
 *  Returns CUDA_ERROR_INVALID_VALUE for memory this process does not have. */
CUresult gs_copy_run(const CUDA_MEMCPY3D *copy);
CUresult gs_set_run(const CUDA_MEMSET_NODE_PARAMS *set);

/** Bytes that such a node moves, for the cost model. */
uint64_t gs_copy_bytes(const CUDA_MEMCPY3D *copy);
uint64_t gs_set_bytes(const CUDA_MEMSET_NODE_PARAMS *set);

/** What a call is: `stream` is ignored by synchronous ones. */
struct gs_sim_order {
    CUstream stream;
    int async;
};

/** A whole copy call: checks, capture, time, bytes. */
CUresult gs_copy_call(const CUDA_MEMCPY3D *copy, struct gs_sim_order order);
