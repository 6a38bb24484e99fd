#include "crash/hooked/arena.h"

#include <errno.h>
#include <stdio.h>

void arena_fail(struct arena *arena, const char *what, int64_t a, int64_t b)
{
    if (__atomic_fetch_add(&arena->errors, 1, __ATOMIC_SEQ_CST) == 0)
        (void)snprintf(arena->first_error, sizeof(arena->first_error), "%s: %lld, %lld", what,
                       (long long)a, (long long)b);
}

void arena_lock(struct arena_offer *offer)
{
    /* whoever died with it changed nothing that matters: the words are written last to first */
    if (pthread_mutex_lock(&offer->lock) == EOWNERDEAD)
        (void)pthread_mutex_consistent(&offer->lock);
}

void arena_unlock(struct arena_offer *offer)
{
    (void)pthread_mutex_unlock(&offer->lock);
}
