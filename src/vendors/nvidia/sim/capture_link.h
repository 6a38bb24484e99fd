#pragma once
/* What memory functions need of capture.h. */

#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/abi/cuda_types.h"

/** Turn an operation on the recording stream `h` into a node behind what the stream recorded so
 * far. `params` as cuGraphAddNode takes them (alloc.dptr is an output); *ret_node may be NULL.
 *  Returns the error of adding the node. */
CUresult gs_capture_add(CUstream h, CUgraphNodeParams *params, CUgraphNode *ret_node);

/** Captures in progress in this process; atomic. */
extern uint32_t gs_capture_live;

/** A call that a capture may not see: by the rules of cuThreadExchangeStreamCaptureMode it spoils
 *  the captures this thread must respect. Returns CUDA_SUCCESS where there are none. */
CUresult gs_capture_unsafe(void);

/** First check of a call that is potentially unsafe during capture. */
#define GS_CAPTURE_UNSAFE                                                                          \
    do {                                                                                           \
        if (GS_UNLIKELY(__atomic_load_n(&gs_capture_live, __ATOMIC_RELAXED) != 0)) {               \
            CUresult unsafe_ = gs_capture_unsafe();                                                \
            if (unsafe_)                                                                           \
                return unsafe_;                                                                    \
        }                                                                                          \
    } while (0)
