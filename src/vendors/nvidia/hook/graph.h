#pragma once
/* Memory that belongs to graphs. */

#include <stdint.h>

#include "vendors/nvidia/hook/device.h"

/** A stream-ordered allocation is about to be recorded into a graph: nothing is taken now.
 *  Returns CUDA_SUCCESS, or out of memory when the graph could never run under the limit. */
CUresult gs_graph_capture_alloc(const struct gs_device *device, uint64_t bytes, const char *what);
