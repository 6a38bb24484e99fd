#include "vendors/nvidia/hook/pocket.h"

#include "hook/self.h"

/* Never an epoch. */
#define SHUT UINT64_MAX
/* Taken ahead at once, at most: what 64 threads then hold is less than a chunk of a large share. */
#define PIECE_MOST_NS 100000u
/* ... and so small a part of what the thread took before: it is lost where the thread ends. */
#define PIECE_PART 64u

_Thread_local struct gs_pocket gs_pocket = {.epoch = SHUT};

bool gs_pocket_open(void)
{
    struct gs_pocket *pocket = &gs_pocket;
    /* acquire: pairs with the release in set_epoch (limiter.c), after the credit was emptied. What
     * is taken of it later belongs to this epoch or is void, never good for a later one. */
    uint64_t epoch = __atomic_load_n(&gs_engine.launch_epoch, __ATOMIC_ACQUIRE);

    if (epoch == 0 || gs_self.n_devices != 1)
        epoch = SHUT;
    if (pocket->epoch != epoch) {
        pocket->ns = 0;
        pocket->epoch = epoch;
    }
    return epoch != SHUT;
}

bool gs_pocket_refill(uint64_t need_ns)
{
    struct gs_pocket *pocket = &gs_pocket;
    int64_t missing = (int64_t)need_ns - pocket->ns;
    int64_t spare = __atomic_load_n(&gs_limiter_credit[0].ns, __ATOMIC_RELAXED) - missing;
    int64_t piece = (int64_t)(pocket->taken_ns / PIECE_PART);

    if (piece > PIECE_MOST_NS)
        piece = PIECE_MOST_NS;
    if (piece > spare)
        piece = spare > 0 ? spare : 0;
    if (!gs_limiter_spend(0, (uint64_t)(missing + piece)))
        return false;
    pocket->ns += missing + piece;
    pocket->taken_ns += (uint64_t)(missing + piece);
    return true;
}
