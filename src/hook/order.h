#pragma once
/* First come, first served: among the threads of a process by ticket, among the processes of a
 * slice by the age of their oldest waiting launch.
 *
 * Neither order can hold anybody up for good: a thread that vanished at the head of its queue is
 * passed over when its heart has not beaten for GS_ORDER_DEAD_NS, a process that does not take what
 * is at hand within GS_ORDER_GRACE_NS has had its chance. Threads: any. `dev` is an index in the
 * ledger's device table, below n_devices. */

#include <stdbool.h>
#include <stdint.h>

/** How long what is at hand is left to another process whose launch is older. */
#define GS_ORDER_GRACE_NS 5000000u
/** Older by so much, at least: a waiter is asleep, and processes that left each short launch to one
 * that came a moment before would all sleep most of the time. */
#define GS_ORDER_AHEAD_NS 1000000u
/** A waiter that has not looked for so long is dead or stopped. */
#define GS_ORDER_STALE_NS 60000000u
/** A waiting head looks at least every quantum; this is four. */
#define GS_ORDER_DEAD_NS 200000000u
/** How often a waiting process looks for dead mates; and where one has work out that is charged
 *  until its death is noticed. */
#define GS_ORDER_REAP_NS      50000000u
#define GS_ORDER_REAP_SOON_NS 10000000u

/** Join the queue of this process's threads. Returns the ticket. */
uint32_t gs_order_enter(uint32_t dev);
/** Does nobody wait? */
bool gs_order_is_empty(uint32_t dev);
/** May this ticket compete for the bucket: all before it have left, or its time was skipped? */
bool gs_order_is_head(uint32_t dev, uint32_t ticket);
/** Sleep until it may be our turn, at most until `until_ns`; passes over a head that is gone. */
void gs_order_wait(uint32_t dev, uint32_t ticket, uint64_t now_ns, uint64_t until_ns);
/** Leave, whether served or not; the next is woken. */
void gs_order_leave(uint32_t dev, uint32_t ticket, uint64_t now_ns);

/** Is a launch of another process older than ours (GS_ORDER_AHEAD_NS), and has it not had its
 * chance?
 *  @since_ns  when ours came.
 *  @open_ns   when we first saw that something is at hand; 0 just now. */
bool gs_order_must_defer(uint32_t dev, uint64_t since_ns, uint64_t open_ns, uint64_t now_ns);

/** Processes of the slice launch kernels of unknown length one after the other: of four that start
 *  together three then know what they would be charged before they launch.
 *  True: it is our turn, or nobody is there; false: another process is at it, for no longer than
 *  GS_ORDER_TRIAL_NS so far. */
bool gs_order_try_trial(uint32_t dev, uint64_t now_ns);
void gs_order_end_trial(uint32_t dev);
/** For how long such a launch has been on its way, at most GS_ORDER_TRIAL_NS; 0 none is. It may
 * have used the card all that time, and nobody has been charged for it.
 * @ret_ours it is this process's own. */
uint64_t gs_order_trial_ns(uint32_t dev, uint64_t now_ns, bool *ret_ours);
/** A process that is stopped, or does not look, holds up the first launches of others so long. */
#define GS_ORDER_TRIAL_NS UINT64_C(4000000000)

/** How many other processes of the slice have launched anything within GS_ORDER_MATE_NS? */
uint32_t gs_order_mates(uint32_t dev, uint64_t now_ns);
#define GS_ORDER_MATE_NS UINT64_C(1000000000)
/** In how much of the time between two moments may any of them have had work on the card? By what
 *  they noted when it was done, and by what is out still. What this process noted counts, too. */
uint64_t gs_order_mates_ns(uint32_t dev, uint64_t start_ns, uint64_t end_ns);

/** A quantum of waiting has passed: look for dead mates, where one has something at stake. */
void gs_order_reap(uint32_t dev, uint64_t now_ns);
/** How long a waiter may sleep until it has to look for them. */
uint64_t gs_order_until_reap_ns(uint32_t dev);
