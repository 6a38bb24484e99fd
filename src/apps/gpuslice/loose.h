#pragma once
/* Programs that HAMi's variables limit, with no `gpuslice run` around them and no ledger named:
 * they share the default one of their user, /tmp/gpuslice-<uid>/env.cache
 * (docs/protocol/ledger.md), which is no slice but is shown like one. */

#include <stdbool.h>

#include "apps/gpuslice/slice.h"

#define GS_LOOSE_NAME   "(variables)" /* no slice can be named so */
#define GS_LOOSE_LEDGER "env.cache"

/** Add it at the end of the list where a process of this user lives in it. Its quota is what the
 * ledger shows. Returns 0, also where there is none; -ENOMEM. */
GS_WUR int gs_loose_add(struct gs_slices *slices);
/** Is this slice that one? */
bool gs_loose_is(const struct gs_slice *slice);
