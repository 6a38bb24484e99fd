#pragma once
/* What a stream says about a call: which card, and whether it records instead of running. */

#include <stdbool.h>

#include "vendors/nvidia/hook/device.h"

/** Card that work on `stream` runs on; NULL when the driver does not say (forward the call). */
const struct gs_device *gs_stream_device(CUstream stream);

/** Is the stream being captured into a graph?
 *  @per_thread  the row is a `_ptsz` twin: stream 0 means the calling thread's own. */
bool gs_stream_is_capturing(CUstream stream, bool per_thread);
