#pragma once
/* A lock of one word that a forked child finds free, because the word lies in the wiped page.
 *
 * Not pthread: its once and mutex words would stay taken in a child forked while another thread
 * held them, and newer libc stamps them with versions that older ones lack. */

#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GS_FUTEX_FREE   0u
#define GS_FUTEX_TAKEN  1u
#define GS_FUTEX_WAITED 2u /* taken, and somebody sleeps */

static inline void gs_futex_lock(uint32_t *word)
{
    uint32_t seen = GS_FUTEX_FREE;
    /* acquire: pairs with the release in gs_futex_unlock */
    if (__atomic_compare_exchange_n(word, &seen, GS_FUTEX_TAKEN, 0, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(word, GS_FUTEX_WAITED, __ATOMIC_ACQUIRE) != GS_FUTEX_FREE)
        (void)syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, GS_FUTEX_WAITED, NULL, NULL,
                      0); /* woken, changed or interrupted: look again */
}

static inline void gs_futex_unlock(uint32_t *word)
{
    if (__atomic_exchange_n(word, GS_FUTEX_FREE, __ATOMIC_RELEASE) == GS_FUTEX_WAITED)
        (void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}
