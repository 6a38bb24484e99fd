#pragma once
/* Streams that record into graphs instead of running.
 *
 * While any capture is under way the driver forbids calls that the hook makes on its own account,
 * unless the thread says that it knows what it does; a forbidden one would break the program's
 * capture. So they stand between gs_capture_relax() and gs_capture_restore(), always. Rows that
 * begin and end captures keep a count, by which launches know whether to ask if theirs is recorded.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/abi/cuda_types.h"

/** Captures under way in this process. */
extern uint32_t gs_capture_count __attribute__((visibility("hidden")));

static inline bool gs_capture_any(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_capture_count, __ATOMIC_RELAXED) != 0);
}

/** May events of ours go onto this stream, and may a launch on it wait?
 *  Returns  1; 0 it is being captured; -EIO the driver does not say.
 *  @per_thread  the row is a `_ptsz` twin: stream 0 means the calling thread's own. */
GS_WUR int gs_capture_is_clear(CUstream stream, bool per_thread);

/** Between these two the calling thread may call the driver although something is being captured.
 * Nothing of the program's may run in between. */
struct gs_capture_relaxed {
    bool is_on;
    CUstreamCaptureMode mode;
};
struct gs_capture_relaxed gs_capture_relax(void);
void gs_capture_restore(struct gs_capture_relaxed *relaxed);

/** Forked child. */
void gs_capture_forget(void);
