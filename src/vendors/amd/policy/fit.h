#pragma once
/* AMD's exceptions to the shared walk: compute units, and sets bound by NUMA node or by XGMI. */

#include <stdint.h>

#include "model/fit.h"
#include "model/policy.h"

/** Compute units of `pct` percent of a card that has `total` > 0: rounded down, then up to whole
 *  work-group processors of `unit` units; at least one of those, at most the card. */
int32_t gs_amd_units(int32_t total, int32_t pct, int32_t unit);
/** gs_policy_ops.fit. */
int gs_amd_fit(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick);
