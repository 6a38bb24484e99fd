#pragma once
/* A lock between the threads of this process. Its memory is wiped in a forked child
 * (gs_attach_forget). Held for tens of nanoseconds, never across a driver call. Order where several
 * are held: share_spin, spin[dev], reap_spin. */

#include <stdint.h>

#include "hook/sys.h"

#ifdef GS_ATOMICS_SHIM
/* the explorer's processes have one thread each */
static inline void gs_spin_lock(uint64_t *word)
{
    (void)word;
}

static inline void gs_spin_unlock(uint64_t *word)
{
    (void)word;
}
#else
static inline void gs_spin_lock(uint64_t *word)
{
    struct gs_sys_wait wait = {0, 0};

    /* pairs with the release in gs_spin_unlock */
    while (__builtin_expect(__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE) != 0, 0)) {
        do {
            (void)gs_sys_wait(&wait, UINT32_MAX);
        } while (__atomic_load_n(word, __ATOMIC_RELAXED) != 0);
    }
}

static inline void gs_spin_unlock(uint64_t *word)
{
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}
#endif
