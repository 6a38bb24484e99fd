#pragma once
/* What a stream says about a call: which card, and whether it records instead of running. */

#include <stdbool.h>

#include "vendors/nvidia/hook/device.h"

/** Card that work on `stream` runs on, also where the thread has no context; NULL when the driver
 * does not say (forward the call). */
const struct gs_device *gs_stream_device(CUstream stream);

/** The stream's own context; NULL where it has none (the default streams take the thread's) or the
 * driver does not say. */
CUcontext gs_stream_context(CUstream stream);

/** Is the stream being captured into a graph?
 *  @per_thread  the row is a `_ptsz` twin: stream 0 means the calling thread's own. */
bool gs_stream_is_capturing(CUstream stream, bool per_thread);
