#pragma once
/* What a thread has at hand to launch with, where its process has one card: credit that it took
 * from the process, and its last kernels. Everything is void when gs_engine.launch_epoch changes.
 *
 * Threads: the calling thread's own, no other sees it. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "hook/engine.h"
#include "hook/limiter.h"

struct gs_pocket {
    uint64_t epoch;    /**< gs_engine.launch_epoch it was opened under */
    int64_t ns;        /**< never below 0 */
    uint64_t taken_ns; /**< in the thread's life */
};
extern _Thread_local struct gs_pocket gs_pocket
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/** Is what the thread has at hand good? Inlined where launches are paid. */
static inline bool gs_pocket_is_open(void)
{
    return gs_pocket.epoch == __atomic_load_n(&gs_engine.launch_epoch, __ATOMIC_RELAXED);
}

/** Throw away what is void and begin anew. False: threads of this process have no pockets. Not for
 *  a process that has not attached. */
bool gs_pocket_open(void);
/** Fill the open pocket, which holds less than `need_ns`, to that or more. False: the process has
 * not got it. */
GS_WUR bool gs_pocket_refill(uint64_t need_ns);

/** Pay from the pocket, filling it if need be; from the process's credit where there are no
 *  pockets. False: nothing was paid, call gs_limiter_admit(). */
static inline bool gs_pocket_spend(uint32_t dev, uint64_t cost_ns)
{
    if (GS_UNLIKELY(!gs_pocket_is_open()) && !gs_pocket_open())
        return gs_limiter_spend(dev, cost_ns);
    if (GS_UNLIKELY(gs_pocket.ns < (int64_t)cost_ns) && !gs_pocket_refill(cost_ns))
        return false;
    gs_pocket.ns -= (int64_t)cost_ns;
    return true;
}
