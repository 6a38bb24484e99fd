#pragma once
/* Marks: events behind what streams have out by estimates, so that its end is known.
 *
 * While a program is looked at closely (window.h) one goes behind each launch of a stream that is
 * not measured itself: the stream's last mark is recorded anew each time, which costs one call of
 * the driver. Once the card has passed it nothing is out: the window ends there, whenever somebody
 * comes by, and a pause of the program after that is not in it.
 *
 * Threads: any; whoever holds a stream's last mark has taken it out of the table. Inside
 * gs_capture_relax(). */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/hook/entry.h"
#include "vendors/nvidia/hook/launch_stream.h"
#include "vendors/nvidia/hook/timing.h"

/** Move what the stream has out into an entry. */
void gs_mark_window(struct gs_launch_stream *stream, struct gs_inflight_launch *ret_launch);
/** A mark behind what the stream has out: its last one, where there is one. False: there can be
 *  none. `where`'s context is current. */
bool gs_mark_put(struct gs_launch_stream *stream, const struct gs_timing_where *where);

/** A launch of the stream is out: its last mark belongs behind it. `where`'s context is current. */
void gs_mark_follow(struct gs_launch_stream *stream, const struct gs_timing_where *where);
/** The window ends at the stream's last mark, if the card has passed that. Returns whether the card
 *  has not: the stream has work. */
bool gs_mark_end(struct gs_launch_stream *stream);
/** The same of all streams. */
void gs_mark_end_all(void);
/** The window ends at the stream's last mark, passed or not. False: there is none. */
bool gs_mark_close(struct gs_launch_stream *stream);
/** An entry takes its place. Returns whether there was one: then the stream had work since the
 *  window's beginning. */
bool gs_mark_drop(struct gs_launch_stream *stream);

/** Last marks there are. */
extern uint32_t gs_mark_out __attribute__((visibility("hidden")));
static inline bool gs_mark_any(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_mark_out, __ATOMIC_RELAXED) != 0);
}

/** A context is about to go: its marks with it. */
void gs_mark_purge(CUcontext context);
/** Forked child. */
void gs_mark_forget(void);
