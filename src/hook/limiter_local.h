#pragma once
/* What this process keeps of the limiter beside the ledger, and the two things it wants of the
 * machine: a clock and a sleep. limiter.c and order.c only. */

#include <stdbool.h>
#include <stdint.h>

#include "contract/ledger.h"
#include "hook/feedback.h"

/** Waiting threads that are told apart. */
#define GS_LIMITER_TICKETS 64u

/** One card. */
struct gs_limiter_card {
    _Alignas(64) uint32_t share_bp; /**< the quota's; GS_SHARE_ALL_BP: none. 0 not configured */
    uint32_t is_elastic;
    uint32_t now_bp;     /**< in force when somebody last looked, loans and yielding included */
    uint32_t now_flags;  /**< GS_BOARD_*, likewise; HAMi's block counts as GS_BOARD_YIELD */
    uint32_t now_others; /**< processes of other slices at work, likewise; 0: not counted */
    uint32_t next;       /**< the queue of this process's threads: ticket of who comes next */
    uint32_t serving;    /**< ticket that may compete for the bucket; futex word */
    uint32_t poke;       /**< raised when the head should look again; futex word */
    uint32_t sleepers;   /**< heads and pauses asleep on `poke` */
    uint64_t beat_ns;    /**< when the head last looked at the bucket */
    uint64_t spin;       /**< of the run below */
    uint64_t run_from_ns, run_until_ns;   /**< newest stretch of outstanding work that was noted */
    uint64_t seen_ns[GS_LIMITER_TICKETS]; /**< when the waiter of a ticket last looked; by ticket */
    uint64_t run_alone; /**< part of it, of ALONE, in which no mate was known to have work */
};

struct gs_limiter_state {
    struct gs_limiter_card card[GS_LEDGER_DEVICES];
    uint64_t reap_ns; /**< when dead slots were last looked for */
    uint64_t feedback_spin;
    struct gs_feedback feedback;
};

#ifdef GS_ATOMICS_SHIM
/* The model runs several "processes" in one and switches between their states. */
extern struct gs_limiter_state *gs_limiter_shim;
#define gs_limiter_local (*gs_limiter_shim)
#else
extern struct gs_limiter_state gs_limiter_local __attribute__((visibility("hidden")));
#endif

static inline struct gs_limiter_card *gs_limiter_card_of(uint32_t dev)
{
    return &gs_limiter_local.card[dev];
}

/** Sleep until about `until_ns` of gs_limiter_clock(), or until gs_limiter_wake() on `word` with a
 *  bit in common, unless it is no longer `seen`. May return early. Keeps errno. */
void gs_limiter_sleep(uint32_t *word, uint32_t seen, uint64_t until_ns, uint32_t bits);
void gs_limiter_wake(uint32_t *word, uint32_t bits);
