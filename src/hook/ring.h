#pragma once
/* The log ring of the ledger: why something was refused, for `gpuslice log`.
 *
 * Lines also go to $GPUSLICE_LOG (a descriptor number or a path) where that is set. No allocation,
 * no stdio; errno is kept. Slow paths only. */

#include <stddef.h>
#include <stdint.h>

#include "contract/reason.h"

#define GS_RING_NO_DEVICE 0xffffu

/** Write one event.
 *  @what  the driver function, file or variable; NULL none; cut to 39 bytes.
 *  @arg   four numbers as the reason's text wants them; NULL all zero. */
void gs_ring_log(enum gs_reason reason, uint32_t dev, const char *what, const uint64_t arg[4]);
/** Read $GPUSLICE_LOG; at attach. */
void gs_ring_configure(void);
/** One write of ours to a file, and keep from the program what the kernel sends a writer to a pipe
 * nobody reads or beyond a limit of file size: it would be its end, for a line that is ours.
 * Returns what write(2) does, or -errno. */
long gs_ring_write(int fd, const char *line, size_t n);
