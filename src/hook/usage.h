#pragma once
/* What became of a slice's card time: the bins and sums of the ledger that `top` and the board
 * read. All of it is for others: nothing here decides who may launch.
 *
 * Units: ns of CLOCK_MONOTONIC and of card time. Threads: any; words are added to by atomics. */

#include <stdint.h>

#include "contract/ledger.h"

/** Note that work of the process at `use` was outstanding on the card for `busy_ns` of the time
 *  between two moments, evenly; the newest GS_LEDGER_BINS bins are kept. A bin holds at most its
 *  own length. */
void gs_usage_outstanding(struct gs_ledger_use *use, uint64_t start_ns, uint64_t end_ns,
                          uint64_t busy_ns);

/** Of the time just noted it is known that the process had the card for `own_ns` of it. That may be
 *  more than `busy_ns`, which leaves out what a mate had noted. */
void gs_usage_known(struct gs_ledger_use *use, uint64_t start_ns, uint64_t end_ns, uint64_t busy_ns,
                    uint64_t own_ns);

/** How much of an interval was nobody's so far. */
struct gs_usage_cover {
    uint64_t steps; /**< of GS_LEDGER_COVER_NS in the interval, as far back as is remembered */
    uint64_t fresh; /**< of these, in which no process of the slice was known to have work */
};
/** Note that a process of the slice had work outstanding all the time between two moments, and
 *  count which of it is news; adds to *cover. A step belongs to the interval that its middle lies
 *  in, so that adjoining intervals share none. */
void gs_usage_cover(struct gs_ledger_device *d, uint64_t start_ns, uint64_t end_ns,
                    struct gs_usage_cover *cover);

/** How much of the time between two moments has been noted so, by whomever, in whole steps. */
uint64_t gs_usage_covered(const struct gs_ledger_device *d, uint64_t start_ns, uint64_t end_ns);

/** Charged card time of the slice, spread evenly over the time between two moments; and to the
 *  meter, and to the process's own sum. */
void gs_usage_charge(struct gs_ledger_device *d, struct gs_ledger_use *use, uint64_t start_ns,
                     uint64_t end_ns, uint64_t used_ns);

/** Take card time that was given back out of the history again, newest first. */
void gs_usage_refund(struct gs_ledger_device *d, uint64_t now_ns, uint64_t ns);

/** A launch of the process waited. */
void gs_usage_waited(struct gs_ledger_device *d, struct gs_ledger_use *use, uint64_t ns);
