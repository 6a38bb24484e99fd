#pragma once
/* Which device comes first: scores and orders of HAMi's device policies. */

#include "base/err.h"
#include "core/cleanup.h"
#include "model/device.h"
#include "model/fit.h"
#include "model/pod.h"

#define GS_ORDER_POLICY_KEY "hami.io/gpu-scheduler-policy"

/** GS_ORDER_POLICY_KEY of the pod, else `fallback` ("spread"), and the weights of
 *  hami.io/device-scoring-weights. -EINVAL with HAMi's text for bad weights. */
GS_WUR int gs_order_read(const struct gs_pod *pod, struct gs_str fallback,
                         struct gs_device_policy *ret, struct gs_err *err);
/** Is every word of a device policy known? Others count for nothing, as in HAMi. *ret_word: the
 *  first that is not. */
bool gs_order_knows(struct gs_str text, struct gs_str *ret_word);
/** Score of one device for a container's requests (10 * weighted sum of what would be used). */
float gs_order_score(const struct gs_device_policy *p, const struct gs_device *dev,
                     const struct gs_use *use, int32_t asked_slots, int32_t asked_cores,
                     int32_t asked_mem_mib);
/** A device with its score. */
struct gs_ranked {
    const struct gs_device *dev;
    const struct gs_use *use;
    float score;
};

/** Does a come before b (the walk starts at the end: is b the better one)? By the policy's chain.
 *  Equal: the card's index decides, then the caller's order. */
bool gs_order_less(const struct gs_device_policy *p, bool is_numa_bound, const struct gs_ranked *a,
                   const struct gs_ranked *b);
