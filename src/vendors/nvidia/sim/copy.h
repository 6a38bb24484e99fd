#pragma once
/* Moving and filling bytes. Bytes move when the call is made; the stream accounts the time. */

#include "vendors/nvidia/sim/sim.h"
#include "vendors/nvidia/sim/stream.h"

/** What a call is: `stream` is ignored by synchronous ones. */
struct gs_sim_order {
    CUstream stream;
    int async;
};

/** A whole copy call: checks, capture, time, bytes. */
CUresult gs_copy_call(const CUDA_MEMCPY3D *copy, struct gs_sim_order order);
