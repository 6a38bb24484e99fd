#pragma once
/* The recorded trace ($GPUSLICE_TRACE): one line per wait, Chrome's trace format. */

#include <stdint.h>

#include "hook/limiter.h"

/** A launch waited.
 *  @what      the driver function; static string, NULL none.
 *  @start_ns, @end_ns  CLOCK_MONOTONIC.
 *  Does nothing unless a trace is recorded. Keeps errno. Threads: any. */
void gs_trace_wait(uint32_t dev, enum gs_wait_reason reason, const char *what, uint64_t start_ns,
                   uint64_t end_ns);
