#pragma once
/* The limiter: a slice's share of a card's time (docs/limiter.md).
 *
 * Currency: nanoseconds of the whole card. A launch is charged an estimate when it is admitted and
 * the measured truth when it is done; the difference goes back into, or comes out of, the slice's
 * bucket in the ledger. Every measurement we can make from inside is an upper bound of the card
 * time used (a neighbour may have had turns in between): that is what is charged, and the board
 * (contract/board.h) tells how much of it to give back.
 *
 * The core decides who may go when. The vendor knows kernels, streams and events: it estimates
 * (launch -> cost), measures (event pairs) and bounds what is in flight. `dev` is an index in the
 * ledger's device table.
 *
 * Threads: any. Locks: none across driver calls; waits happen in gs_limiter_admit() and
 * gs_limiter_pause() alone. Clock: gs_limiter_clock(), CLOCK_MONOTONIC outside tests. */

#include <stdbool.h>
#include <stdint.h>

#include "contract/ledger.h"
#include "core/cleanup.h"

#define GS_LIMITER_QUANTUM_NS 50000000u

/** What a thread of the program has at hand on each card: spent without clock or system call. */
struct gs_limiter_credit {
    _Alignas(64) int64_t ns;
};
extern struct gs_limiter_credit gs_limiter_credit[GS_LEDGER_DEVICES]
    __attribute__((visibility("hidden")));

/** Is compute on any card of this slice held, announced or suspended? Read at attach and on
 * changes; while false the launch rows go straight to the driver (gs_engine.launch_free). */
bool gs_limiter_is_on(void);

/** After the slice is attached, and after its quota changed: take over shares, policies, priority.
 */
void gs_limiter_configure(void);
/** Say in gs_engine.launch_free whether launch rows may go straight to the driver: after attaching,
 *  and whenever gs_limiter_is_on() may have changed (suspend). Async-signal-safe. */
void gs_limiter_publish(void);
/** Throw away the credit at hand on every card, what threads took of it included
 *  (gs_engine.launch_epoch), so that the next launch looks at everything. Async-signal-safe. */
void gs_limiter_recall(void);
/** The process ends in good order: what it has at hand goes back to the slice. */
void gs_limiter_leave(void);
/** Forked child: nothing of the parent's counts. */
void gs_limiter_forget(void);

/** Pay a launch from the credit at hand. True: go. False: the cost has not been paid, call
 *  gs_limiter_admit(). */
static inline bool gs_limiter_spend(uint32_t dev, uint64_t cost_ns)
{
    int64_t *credit = &gs_limiter_credit[dev].ns;

    if (GS_LIKELY(__atomic_sub_fetch(credit, (int64_t)cost_ns, __ATOMIC_RELAXED) >= 0))
        return true;
    (void)__atomic_add_fetch(credit, (int64_t)cost_ns, __ATOMIC_RELAXED);
    return false;
}

/** Why a launch waited; names in the trace and in `top`. */
enum gs_wait_reason {
    GS_WAIT_SHARE,    /**< the slice has used its share */
    GS_WAIT_QUEUE,    /**< enough work is in flight */
    GS_WAIT_TURN,     /**< other threads of the slice came before */
    GS_WAIT_PRIORITY, /**< a slice of higher priority is active */
    GS_WAIT_MEMORY,   /**< another slice has the turn in memory */
    GS_WAIT_SUSPEND,  /**< the slice is suspended */
    GS_WAIT_COUNT
};

/** Take `cost_ns` for one launch from the slice's bucket, and a chunk of credit with it; waits,
 * first come first served, until the slice may. Bounded: a launch never waits longer than the debt
 * that the slice's own measured work justifies, and looks again every quantum at latest (limits may
 * be gone).
 *  @measured  the launch will be settled with gs_limiter_settle(): its charge is noted as in
 * flight, so that a reaper returns it when we are killed.
 *  @what      the driver function, for the trace; static string.
 *  Keeps errno. */
void gs_limiter_admit(uint32_t dev, uint64_t cost_ns, bool measured, const char *what);

/** gs_limiter_admit() of a measured launch whose length is unknown, at a guess of `cost_ns`: waits
 *  also while another process of the slice has such a launch in flight, though not for more than a
 *  second or so after that went out. So what a kernel takes is known, and charged, before a second
 *  process launches the like. */
void gs_limiter_admit_unknown(uint32_t dev, uint64_t cost_ns, const char *what);
/** No launch of unknown length of this process is in flight any more. */
void gs_limiter_end_unknown(uint32_t dev);

/** A launch that was admitted did not happen, or failed. */
void gs_limiter_cancel(uint32_t dev, uint64_t cost_ns, bool measured);

/** What a vendor says where it cannot tell how much of a time was its own. */
#define GS_LIMITER_NOT_KNOWN UINT64_MAX

/** A measured launch is done.
 *  @cost_ns   what it was charged.
 *  @start_ns, @end_ns  when it was outstanding on the card, CLOCK_MONOTONIC, as far as events tell.
 *  @used_ns   card time to be charged: <= end - start where other work of this process overlapped.
 *  @own_ns    what of that it had to itself for sure, whatever neighbours did: for the board, which
 *             gives the difference back. GS_LIMITER_NOT_KNOWN: let the board find out.
 */
void gs_limiter_settle(uint32_t dev, uint64_t cost_ns, uint64_t start_ns, uint64_t end_ns,
                       uint64_t used_ns, uint64_t own_ns);

/** Launches of an estimated `used_ns` went out between two moments without being measured one by
 * one: note them for the board and for `top` (they are paid already). `own_ns` as above; where it
 * is all of `used_ns`, none of that can be another process's of the slice. */
void gs_limiter_note(uint32_t dev, uint64_t start_ns, uint64_t end_ns, uint64_t used_ns,
                     uint64_t own_ns);

/** Launches that were paid by estimates took so much more, or less where it is negative. */
void gs_limiter_correct(uint32_t dev, int64_t more_ns);

/** Since when the process may have had work on the card that has not been settled; 0: there is
 * none. Should it die now, that time is charged (gs_bucket_bury). */
void gs_limiter_unsettled(uint32_t dev, uint64_t since_ns);
/** The same, where nothing else was out. */
void gs_limiter_first_out(uint32_t dev, uint64_t since_ns);
/** The queue on the card is believed to last until then. */
void gs_limiter_busy_until(uint32_t dev, uint64_t until_ns);

/** Sleep about `ns` (at most a quantum) waiting for something of our own, and account it as a wait
 * for `why`; returns early when the slice's settings change. */
void gs_limiter_pause(uint32_t dev, uint64_t ns, enum gs_wait_reason why, const char *what);

/** How much work the process may have in flight now, ns: 20 ms; 0 while it has to yield: one launch
 * at a time. */
uint64_t gs_limiter_window_ns(uint32_t dev);

/** Do others than this slice use the card now, as far as the board tells? */
bool gs_limiter_is_shared(uint32_t dev);
/** Processes that take turns with this one, so that a launch may have their turns in it: others of
 *  the slice and, as far as the board tells, of other slices; GS_LIMITER_MANY where it does not. */
uint32_t gs_limiter_others(uint32_t dev);
#define GS_LIMITER_MANY UINT32_MAX
/** For how much of the time between two moments may they have had the card, this process's own
 *  notes counted; UINT64_MAX where other slices use it. */
uint64_t gs_limiter_others_ns(uint32_t dev, uint64_t start_ns, uint64_t end_ns);

/** Launches of one kind turned out unlike each other: processes of the slice that begin within the
 *  next two seconds are to know. gs_limiter_is_unlike(): has one of the slice said so? */
void gs_limiter_note_unlike(uint32_t dev, uint64_t now_ns);
bool gs_limiter_is_unlike(uint32_t dev, uint64_t now_ns);

/** Card time of so long that may have been a hitch of the machine is found beyond what was paid.
 * Returns what of it is to be charged: a little is forgiven, to the slice as a whole. */
uint64_t gs_limiter_less_forgiven(uint32_t dev, uint64_t ns);

uint64_t gs_limiter_clock(void);
