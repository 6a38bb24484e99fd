#pragma once
/* Suspend and resume, as HAMi has them: SIGUSR2 and SIGUSR1, and a status word in the slot that
 * anybody may write. While suspended, launches and allocations of device memory wait; kernels that
 * run already finish, and frees go through.
 *
 * The signals are taken only where the program left both at their default action (which would end
 * it) and does not block them (docs/adr/0008-suspend-signals.md). */

#include <stdbool.h>
#include <stdint.h>

#include "hook/self.h"

/** Our slot is claimed: begin suspended where the slice is, or where we were told to before; take
 * the signals. */
void gs_suspend_attached(void);
/** Forked child, before anything else: its parent's slot is not to be touched any more. */
void gs_suspend_forget(void);

/** Is this process suspended? One load; false before attaching. Safe in a signal handler. */
static inline bool gs_suspend_is_on(void)
{
    const struct gs_hami_slot *mirror = gs_self.mirror;

    return mirror != NULL &&
           __atomic_load_n(&mirror->status, __ATOMIC_RELAXED) == GS_HAMI_SUSPENDED;
}

/** Wait until it is not. No bound: that is what suspending means; signals reach the program as in
 * any wait of a driver. Keeps errno.
 *  @tick  NULL, or told the wait as it passes: each time how long since the time before. */
void gs_suspend_wait(uint32_t dev, const char *what, void (*tick)(uint32_t dev, uint64_t ns));
