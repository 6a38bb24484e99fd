#pragma once
/* Of the time between a copy's events: what was the card's, and what the host's in the call.
 *
 * A call may move bytes itself, and may look after the card while it waits: seen by events around
 * it that is the same, and no time of the card's. Threads: the one that calls. */

#include <stdbool.h>
#include <stdint.h>

/** What the thread did between a copy's events: at first since when, then how much. */
struct gs_copy_time {
    uint64_t host_ns; /**< all of it; 0: the card came to the copy later */
    uint64_t wall_ns; /**< in the call */
    uint64_t cpu_ns;  /**< that it worked */
    uint64_t sleeps;  /**< times it waited asleep */
};

/** The call is about to be made; @recorded_ns the event before it was recorded. */
void gs_copy_time_begin(struct gs_copy_time *ret, uint64_t recorded_ns);
/** It is over, and the event behind it comes next.
 *  @was_idle  the event before it is passed: the copy may have been done within the call. */
void gs_copy_time_end(struct gs_copy_time *t, bool was_idle);
/** The copy's own part of @took_ns, the time between its events.
 *  @least_ns  what any card of today needs for it. */
uint64_t gs_copy_time_of(const struct gs_copy_time *t, uint64_t took_ns, uint64_t least_ns);
