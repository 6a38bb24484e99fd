#pragma once
/* The bound on what a process has in flight on a card: a launch waits until there is room for it,
 * and those that wait go in the order in which they came (docs/limiter.md, "Patience"). */

#include <stdint.h>

struct gs_cost;

/** A launch that wants room. */
struct gs_room {
    uint32_t dev;
    struct gs_cost *cost;
    uint64_t prior_ns; /**< its length, as long as nobody knows better */
    const char *what;  /**< driver function, for the trace */
};

/** Wait until there is room for the launch, a second or so at most. */
void gs_room_await(const struct gs_room *launch);
/** Forked child: nobody waits. */
void gs_room_forget(void);
