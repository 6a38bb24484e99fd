#include "hook/limiter_look.h"

#include <time.h>

#include "contract/quota.h"
#include "core/atomics.h"
#include "hook/board.h"
#include "hook/bucket.h"
#include "hook/limiter.h"
#include "hook/limiter_local.h"
#include "hook/self.h"
#include "hook/spin.h"
#include "hook/step.h"
#include "hook/sys.h"
#include "hook/usage.h"

/* No honest board gives back more at once: it is written every 20 ms. */
#define REFUND_MAX_NS 1000000000u
/* A share that is smaller by this part of it is another one. */
#define SMALLER_PART 5u

/** The board's sum is `refund_ns` by now: one process of the slice takes the difference. */
static void take_refund(uint32_t dev, uint64_t refund_ns, uint32_t share_bp, uint64_t now_ns)
{
    struct gs_ledger_device *d = &gs_self.device[dev];
    uint64_t seen = gs_atomic_load(&d->meter.refund_seen_ns, __ATOMIC_RELAXED);
    uint64_t gain;

    if (refund_ns == seen)
        return;
    /* a little behind: an older look at the board than a mate's. Far behind: a new writer that
     * counts from somewhere else */
    if (refund_ns < seen && seen - refund_ns <= REFUND_MAX_NS)
        return;
    gain = refund_ns > seen ? refund_ns - seen : 0;
    if (!gs_atomic_cas(&d->meter.refund_seen_ns, &seen, refund_ns, __ATOMIC_ACQUIRE) || gain == 0)
        return;
    GS_STEP("refund.claimed");
    if (gain > REFUND_MAX_NS)
        gain = REFUND_MAX_NS;
    gs_bucket_return(&d->bucket, gain, share_bp);
    gs_usage_refund(d, now_ns, gain);
}

/** Tell HAMi's monitor of a launch, and hear what it wants. Returns whether we have to yield. */
static bool ask_monitor(uint64_t now_ns, bool *ret_is_lent)
{
    struct gs_limiter_state *local = &gs_limiter_local;
    struct gs_hami_region *region = gs_self.region;
    int32_t recent, write;
    bool yields;

    *ret_is_lent = false;
    if (region == NULL)
        return false;
    gs_spin_lock(&local->feedback_spin);
    recent = __atomic_load_n(&region->recent_kernel, __ATOMIC_RELAXED);
    write = gs_feedback_step(&local->feedback, recent, now_ns);
    /* not over what the monitor wrote since: a block would be lost for a tick */
    if (write != GS_FEEDBACK_LEAVE)
        (void)__atomic_compare_exchange_n(&region->recent_kernel, &recent, write, 0,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    yields = gs_feedback_is_yielding(&local->feedback);
    if (gs_feedback_is_live(&local->feedback, now_ns))
        *ret_is_lent = __atomic_load_n(&region->utilization_switch, __ATOMIC_RELAXED) == 0;
    gs_spin_unlock(&local->feedback_spin);
    __atomic_store_n(&region->last_kernel_unix_s,
                     (int64_t)(gs_sys_clock_ns(CLOCK_REALTIME_COARSE) / 1000000000),
                     __ATOMIC_RELAXED);
    return yields;
}

/** Loans go up and down a little from tick to tick: that alone cuts nothing. */
static void take_over(uint32_t dev, uint32_t share_bp, uint64_t now_ns)
{
    struct gs_limiter_card *card = &gs_limiter_local.card[dev];
    uint32_t before = __atomic_exchange_n(&card->now_bp, share_bp, __ATOMIC_RELAXED);

    if (GS_LIKELY(share_bp >= before - before / SMALLER_PART))
        return;
    gs_bucket_cut(&gs_self.device[dev], now_ns);
    gs_limiter_recall(); /* a chunk of the larger share */
}

struct gs_limiter_view gs_limiter_look(uint32_t dev, uint64_t now_ns)
{
    struct gs_limiter_card *card = &gs_limiter_local.card[dev];
    uint32_t quota_bp = __atomic_load_n(&card->share_bp, __ATOMIC_RELAXED);
    bool elastic = __atomic_load_n(&card->is_elastic, __ATOMIC_RELAXED) != 0;
    struct gs_limiter_view view = {quota_bp != 0 ? quota_bp : GS_SHARE_ALL_BP, 0};
    struct gs_board_slice board = {0};
    bool lent, yields = ask_monitor(now_ns, &lent);

    if (gs_hook_board(dev, now_ns, &board) == 0) {
        if (elastic && board.share_bp > 0 && board.share_bp <= GS_SHARE_ALL_BP)
            view.share_bp = board.share_bp;
        view.flags = board.flags & (GS_BOARD_YIELD | GS_BOARD_PARK | GS_BOARD_SHARED);
        take_refund(dev, board.refund_ns, view.share_bp, now_ns);
    } else if (elastic && lent) {
        view.share_bp = GS_SHARE_ALL_BP;
    }
    if (yields)
        view.flags |= GS_BOARD_YIELD;
    if (__atomic_load_n(&gs_self.priority, __ATOMIC_RELAXED) == GS_PRIORITY_HIGH)
        view.flags &= ~GS_BOARD_YIELD;
    if ((view.flags & GS_BOARD_YIELD) != 0 && view.share_bp > GS_LIMITER_YIELD_BP)
        view.share_bp = GS_LIMITER_YIELD_BP;
    take_over(dev, view.share_bp, now_ns);
    __atomic_store_n(&card->now_others, board.others, __ATOMIC_RELAXED);
    __atomic_store_n(&card->now_flags, view.flags, __ATOMIC_RELAXED);
    return view;
}
