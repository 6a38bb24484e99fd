#pragma once
/* Whole numbers as Go's strconv reads them, whose texts HAMi's codecs write and read. */

#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

/** A sign or none, then digits and nothing else.
 *  Returns  0; -EINVAL not such a number; -ERANGE beyond int64. */
GS_WUR int gs_number_read(struct gs_str text, int64_t *ret);
/** The same within int32. */
GS_WUR int gs_number_read_i32(struct gs_str text, int32_t *ret);
