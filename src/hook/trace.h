#pragma once
/* A recorded trace: why a launch waited, for chrome://tracing, Perfetto and the like.
 *
 * $GPUSLICE_TRACE names a file that all processes of the slice append to, one event per line, whole
 * lines per write. It begins with "[" and a first event; each further line begins with a comma, so
 * that the file is JSON once "]" is added (which the format leaves optional): `gpuslice run` adds
 * it when nobody is left. Before its first event a process tells its name. Source: Trace Event
 * Format, "JSON Array Format", complete events and metadata events. */

#include <stdint.h>

#include "hook/limiter.h"

/** Shorter waits are not written. */
#define GS_TRACE_MIN_NS 100000u

/** Read $GPUSLICE_TRACE; at attach. A relative path is ignored: processes differ in their folder.
 */
void gs_trace_configure(void);

/** A wait has ended.
 *  @what      the driver function; static string.
 *  Units      nanoseconds of CLOCK_MONOTONIC.
 *  Threads    any; no allocation, keeps errno. One load where no trace is recorded. */
void gs_trace_wait(uint32_t dev, enum gs_wait_reason reason, const char *what, uint64_t start_ns,
                   uint64_t end_ns);
