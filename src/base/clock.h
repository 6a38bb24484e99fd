#pragma once
/* Time as a parameter: code that waits runs under virtual time in tests.
 *
 * Units    nanoseconds; `mono` since some fixed point (never goes back), `real` since the epoch,
 *          UTC.
 * Threads  the real clock: any; a virtual clock: the thread that owns it. */

#include <stdbool.h>
#include <stdint.h>

#define GS_CLOCK_MS ((uint64_t)1000000)
#define GS_CLOCK_S  ((uint64_t)1000000000)

struct gs_clock {
    uint64_t (*mono_ns)(void *user);
    uint64_t (*real_ns)(void *user);
    /** Nothing can happen before `until_ns` (mono): go there and answer true. NULL or false: the
     *  caller really has to wait. */
    bool (*skip)(void *user, uint64_t until_ns);
    void *user;
};

/** The machine's clocks. Static; never freed. */
const struct gs_clock *gs_clock_real(void);

static inline uint64_t gs_clock_mono_ns(const struct gs_clock *clock)
{
    return clock->mono_ns(clock->user);
}

static inline uint64_t gs_clock_real_ns(const struct gs_clock *clock)
{
    return clock->real_ns(clock->user);
}

/** Time that moves only when told, or, with `skips`, whenever a loop has nothing to do but wait. */
struct gs_clock_virtual {
    struct gs_clock clock; /**< hand out &clock */
    uint64_t mono_ns;
    uint64_t real_ns;
    bool skips;
};

void gs_clock_virtual_init(struct gs_clock_virtual *clock, uint64_t real_ns, bool skips);
/** Both times go on by `ns`. */
void gs_clock_virtual_advance(struct gs_clock_virtual *clock, uint64_t ns);
