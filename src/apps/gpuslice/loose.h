#pragma once
/* Programs that HAMi's variables limit, with no `gpuslice run` around them and no ledger named:
 * they share the default one of their user, /tmp/gpuslice-<uid>/env.cache
 * (docs/protocol/ledger.md), which is no slice but is shown like one. */

#include <stdbool.h>

#include "apps/gpuslice/slice.h"

#define GS_LOOSE_NAME   "(variables)" /* no slice can be named so */
#define GS_LOOSE_LEDGER "env.cache"

/** All that anything is promised to: every slice of everybody whose folders we may read, as
 * gs_slices_list() has them, and behind them such programs of each of these users, where a process
 * of them lives. Their quota is what the ledger shows.
 *  Returns  0; negative errno with err set.
 *  Owner    caller; gs_slices_fini(). */
GS_WUR int gs_loose_list(const struct gs_proc_table *procs, struct gs_slices *ret_slices,
                         struct gs_err *err);
/** Is this slice that one? */
bool gs_loose_is(const struct gs_slice *slice);
