#pragma once
/* The one call of capture.h that memory functions need. */

#include "vendors/nvidia/abi/cuda_types.h"

/** Add a node to the graph that stream `h` records (capture.c). */
CUresult gs_capture_add(CUstream h, CUgraphNodeParams *params, CUgraphNode *ret_node);
