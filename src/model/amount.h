#pragma once
/* Amounts of a container's resources as the vendors' requests need them. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"
#include "model/pod.h"

enum gs_amount_from {
    GS_AMOUNT_LIMITS, /**< limits only */
    GS_AMOUNT_BOTH,   /**< limits, else requests */
};

/** Is there an amount of that name, readable or not? An empty name: no. */
bool gs_amount_is_there(const struct gs_container *c, struct gs_str name, enum gs_amount_from from);
/** The amount as a plain integer ("16Gi" is 17179869184, "1k" is 1000).
 *  Returns  1 and *ret; 0 not there (*ret untouched); -EINVAL there, but no plain integer of 64
 *  bits (a fraction, "16.0Gi", 2^63, not a quantity).
 *  Threads  pure. */
GS_WUR int gs_amount_read(const struct gs_container *c, struct gs_str name,
                          enum gs_amount_from from, int64_t *ret);
/** The same times `factor` (1 where smaller), as MiB or cores of a request.
 *  Returns  1, 0, or -EINVAL where it is negative or the product exceeds int32. */
GS_WUR int gs_amount_read_i32(const struct gs_container *c, struct gs_str name,
                              enum gs_amount_from from, int32_t factor, int32_t *ret);
