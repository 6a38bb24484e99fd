#include "hook/limiter.h"

#include <linux/futex.h>

#include "hook/engine.h"
#include "hook/limiter_local.h"
#include "hook/sys.h"

/* Apart from the rest, so that the model can put a virtual clock in its place. */

uint64_t gs_limiter_clock(void)
{
    return gs_sys_clock_ns(CLOCK_MONOTONIC);
}

void gs_limiter_sleep(uint32_t *word, uint32_t seen, uint64_t until_ns, uint32_t bits)
{
    struct timespec until = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    const uint32_t depth = gs_engine_depth;
    const uintptr_t frame = gs_engine_frame;

    /* What is called now is called by a signal's handler, and no part of the call that waits: its
     * launches are the program's, and held. No lock of ours is held here. */
    gs_engine_depth = 0;

    /* this form of the call takes a moment, not a span; woken, changed, interrupted or late: the
     * caller looks again */
    (void)GS_SYS(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen, &until, NULL, bits);
    gs_engine_depth = depth;
    gs_engine_frame = frame;
}

void gs_limiter_wake(uint32_t *word, uint32_t bits)
{
    (void)GS_SYS(SYS_futex, word, FUTEX_WAKE_BITSET | FUTEX_PRIVATE_FLAG, INT32_MAX, NULL, NULL,
                 bits);
}
