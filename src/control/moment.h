#pragma once
/* A moment in both counts of time that decisions need. */

#include <stdint.h>

#include "base/clock.h"
#include "net/loop.h"

struct gs_moment {
    int64_t unix_ns; /**< for what is written down */
    int64_t mono_ms; /**< for leases */
};

/** Now, by the loop's clock. */
static inline struct gs_moment gs_moment_now(const struct gs_loop *loop)
{
    return (struct gs_moment){.unix_ns = (int64_t)gs_clock_real_ns(gs_loop_clock(loop)),
                              .mono_ms = gs_loop_now_ms(loop)};
}
