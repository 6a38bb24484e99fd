#pragma once
/* Card time that a slice owed when it ended. A slice may overdraw by one kernel, however long, and
 * waits afterwards; a loop of `gpuslice run` around a program with one long kernel would never pay.
 * So what is owed outlives the slice, per user and card, in `<base>/.debt`: it is paid off at the
 * share of the slice that owed it, as if that went on waiting, and the next slice with a share on
 * that card takes over what is left.
 *
 * Hold the home lock for both calls. Neither can fail for the caller: without the file a debt is
 * forgiven. */

#include "apps/gpuslice/slice.h"
#include "contract/ledger.h"

/** Longest debt of one card that is remembered, ns: that of a ledger. */
#define GS_DEBT_MOST_NS ((uint64_t)-GS_LEDGER_FLOOR_NS)
/** Shorter ones are the size of what a launch takes at once. */
#define GS_DEBT_LEAST_NS 1000000u

/** The slice has no processes any more: note what it owes.
 *  @base_fd  folder that holds it. */
void gs_debt_keep(const struct gs_slice *slice, int base_fd);

/** The slice has a ledger that is not made yet: let it begin with what is owed on its cards. */
void gs_debt_hand(const struct gs_slice *slice);
