#pragma once
/* Is a limit large enough for the driver's own needs? */

#include <stdint.h>

#include "core/cleanup.h"

struct gs_card;
struct gs_err;

/** Limits from this size on hold a context of any card we know. */
#define GS_OVERHEAD_SURE (UINT64_C(1) << 30)

/** For a smaller limit: create a context in a short-lived process and compare what it costs.
 *  Returns  0 fits, or it cannot be found out; -ENOSPC the limit is below the cost. */
GS_WUR int gs_overhead_check(const struct gs_card *card, uint64_t limit_bytes, struct gs_err *err);
