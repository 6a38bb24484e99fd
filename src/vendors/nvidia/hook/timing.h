#pragma once
/* Events of our own: recording them, and telling when the card came by on the host's clock.
 *
 * The driver tells times between events only. Each context gets a base event, renewed about every
 * second because the times are floats; where it lies on CLOCK_MONOTONIC follows from the events
 * themselves: one that was recorded at a moment cannot have passed before, one that was seen done
 * cannot have passed after. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/abi/cuda_types.h"

/** Where a launch goes. */
struct gs_timing_where {
    CUcontext context; /**< current to the thread */
    CUstream stream;
    bool per_thread; /**< the row is a `_ptsz` twin: stream 0 is the thread's own */
    uint64_t id;     /**< of the stream; never 0, the thread's own streams told apart */
    uint32_t dev;
};

/** A base event as it was when something was recorded. */
struct gs_timing_base {
    uint32_t clock; /**< index + 1; 0 none */
    uint32_t slot;
    uint64_t generation;
};

/** Can this driver time anything? Looks at the function table alone. */
bool gs_timing_is_there(void);
/** Make a timing event in the current context; NULL when the driver does not. */
CUevent gs_timing_event_new(void);
/** NULL is accepted. Any thread, any current context. */
void gs_timing_event_free(CUevent event);
GS_WUR bool gs_timing_record(CUevent event, const struct gs_timing_where *where);
/** Has the card passed it?
 *  Returns  0 no, or the driver does not say now; 1 yes; -EIO it never will (its context is gone,
 *  or the card has failed). */
GS_WUR int gs_timing_query(CUevent event);
/** Nanoseconds from one event to another, both passed; below 0 when the other was first. -EIO: the
 * driver does not tell. */
GS_WUR int gs_timing_between(CUevent from, CUevent to, int64_t *ret_ns);

/** The base event for what is recorded next on that stream; made or renewed where necessary. */
struct gs_timing_base gs_timing_base_get(const struct gs_timing_where *where, uint64_t now_ns);
/** Two moments of CLOCK_MONOTONIC. */
struct gs_timing_span {
    uint64_t start_ns, end_ns;
};
/** When the card passed `from` and `to`.
 *  @recorded_ns  `from` was recorded then, or later.
 *  @seen_ns      `to` was seen passed then.
 *  Returns       start_ns <= end_ns <= seen_ns. */
struct gs_timing_span gs_timing_place(const struct gs_timing_base *base, CUevent from, CUevent to,
                                      uint64_t recorded_ns, uint64_t seen_ns);

/** A context is about to go: free its base events. */
void gs_timing_purge(CUcontext context);
/** Forked child. */
void gs_timing_forget(void);
