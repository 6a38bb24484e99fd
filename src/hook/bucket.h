#pragma once
/* One slice's bucket of card time on one card (struct gs_ledger_bucket): refill, take, return.
 *
 * Words of a ledger that any process of the slice writes, and that a hostile one may fill with
 * anything: every function answers sensibly for every value, and leaves the bucket usable.
 * Atomics alone, no lock: a process killed at any instruction leaves at most one refill undone.
 * Units: ns of the whole card; shares in basis points of it. Threads: any. No system call. */

#include <stdbool.h>
#include <stdint.h>

#include "contract/ledger.h"
#include "core/cleanup.h"

/** Time of which the refill may pile up while nobody takes: so much lateness is forgiven. */
#define GS_BUCKET_BURST_NS 100000000u
/** Beyond this no honest word is. */
#define GS_BUCKET_ABSURD_NS INT64_C(1000000000000)

/** Add what has accrued up to `now_ns`. Returns the card time at hand afterwards, in
 *  [GS_LEDGER_FLOOR_NS, burst + owed_ns].
 *  @share_bp  1..GS_SHARE_ALL_BP.
 *  @owed_ns   card time that is being used and will be charged later: so much more may pile up. */
int64_t gs_bucket_refill(struct gs_ledger_bucket *bucket, uint32_t share_bp, uint64_t now_ns,
                         uint64_t owed_ns);

/** Take `ns` if anything is at hand; what is missing becomes debt. False: nothing was taken. */
bool gs_bucket_take(struct gs_ledger_bucket *bucket, uint64_t ns);
/** Take what is at hand and make no debt: a slice that may use all of the card. */
void gs_bucket_drain(struct gs_ledger_bucket *bucket, uint64_t ns);
/** Charge in any case: a launch took longer than it had paid for. */
void gs_bucket_charge(struct gs_ledger_bucket *bucket, uint64_t ns);
/** Put back, not beyond the burst: a launch took less, did not happen, or died. */
void gs_bucket_return(struct gs_ledger_bucket *bucket, uint64_t ns, uint32_t share_bp);

/** How long until anything is at hand; 0 where it is. */
uint64_t gs_bucket_wait_ns(int64_t tokens_ns, uint32_t share_bp);

/** Settle for a dead slot on every card: what it had paid for work in flight goes back, the time in
 *  which such work may have been on the card is charged instead (`unsettled_ns`); then clear what
 *  it had to say there. The slot's reaper alone. */
void gs_bucket_bury(uint32_t slot);

/** Of card time beyond what was paid that may be a hitch of the machine a little is forgiven, as
 *  much as has come up since: a part of the time, for the whole slice. Returns the rest of `ns`. */
uint64_t gs_bucket_less_forgiven(struct gs_ledger_device *d, uint64_t ns, uint64_t now_ns);

/** The share has become smaller by far: what has piled up under the larger one, to be used and to
 * be forgiven, is not used under this one. Of both as much is left as a slice begins with. */
void gs_bucket_cut(struct gs_ledger_device *d, uint64_t now_ns);
