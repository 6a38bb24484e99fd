#pragma once
/* What this process has on the card: launches that are measured, and marks behind those that are
 * not.
 *
 * An entry holds up to three timing events. It is taken, started right before the launch, closed
 * right after it, and harvested by whoever comes by once the card has passed its last event: then
 * the launch is settled with the limiter and its cost learnt.
 *
 * Threads: any. Driver calls happen under no lock; one thread harvests at a time, others pass on.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/hook/cost.h"
#include "vendors/nvidia/hook/entry.h"
#include "vendors/nvidia/hook/timing.h"

/** An entry with its events made, for the current context. NULL: all are in use, or the driver
 * makes no events. */
struct gs_inflight *gs_inflight_take(const struct gs_timing_where *where,
                                     enum gs_inflight_kind kind);
enum gs_inflight_kind gs_inflight_kind_of(const struct gs_inflight *entry);
/** Record the events before the launch. False: the driver would not; the entry is given back.
 *  @copy_ns  of a copy or fill: what it takes of any card of today; 0 a launch (copy_time.h). */
GS_WUR bool gs_inflight_start(struct gs_inflight *entry, uint64_t copy_ns);
/** The launch is out: record the event behind it. First thing, for an idle stream's event waits for
 * this call. */
void gs_inflight_end(struct gs_inflight *entry);
/** Let it be harvested. A launch whose event could not be recorded is one that nothing is known of.
 */
void gs_inflight_close(struct gs_inflight *entry, const struct gs_inflight_launch *launch);
/** The entry's launch is of unknown length: counts from before it is admitted until it is settled
 *  or dropped. With the last of them gone the limiter is told (gs_limiter_end_unknown). */
void gs_inflight_try(struct gs_inflight *entry, const struct gs_cost *cost);
/** There was no launch. NULL is accepted. */
void gs_inflight_drop(struct gs_inflight *entry);

/** A launch is out, or went out then, of which no event will tell: all time is charged until
 *  gs_inflight_blind_seen().
 *  @paid_ns  what it was charged as a measured launch. */
void gs_inflight_blind_out(uint32_t dev, uint64_t since_ns, uint64_t paid_ns);
/** All such launches are taken to be done: the program has waited for the card, or launches again.
 */
void gs_inflight_blind_seen(uint32_t dev, uint64_t now_ns);

/** Open entries, and cards with launches that nothing is known of. */
extern uint32_t gs_inflight_out __attribute__((visibility("hidden")));
static inline bool gs_inflight_any(void)
{
    return __atomic_load_n(&gs_inflight_out, __ATOMIC_RELAXED) != 0;
}
/** A stream has been seen done that had launches out by their estimates from `from_ns` on. What the
 * card can have worked beyond those is charged, where it is out of proportion; then launches are
 * measured one by one for a while.
 *  @window  as in struct gs_inflight_launch. */
void gs_inflight_window(uint32_t dev, uint64_t id, uint64_t from_ns, uint64_t until_ns,
                        uint64_t window);
/** Tell the ledger since when work is out that is not settled. */
void gs_inflight_publish(uint32_t dev);

/** Is there an open entry of that context? */
bool gs_inflight_has(CUcontext context);

/** Has the card begun with a launch that is measured or sampled, and is not through? Asks the
 *  driver. Where another thread harvests the answer is yes. */
bool gs_inflight_is_at_work(uint32_t dev);

/** Settle what the card has done by now. Returns whether there was any. Never waits. */
bool gs_inflight_harvest(void);
/** Estimated work on the card behind open entries; entries of unknown length; all open ones. */
uint64_t gs_inflight_ns(uint32_t dev);
uint32_t gs_inflight_unknown(uint32_t dev);
/** Until when the open entries' work is believed to last; now_ns, where there is none. */
uint64_t gs_inflight_until(uint32_t dev, uint64_t now_ns);
/** Is a launch of that kind, of unknown length, on its way? */
bool gs_inflight_is_tried(const struct gs_cost *cost);
uint32_t gs_inflight_count(uint32_t dev);

/** A context is about to go: settle its entries by the clock and free its events. */
void gs_inflight_purge(CUcontext context);
/** Forked child: the events are not its own. */
void gs_inflight_forget(void);
