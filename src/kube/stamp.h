#pragma once
/* Times of the API: RFC 3339, seconds ("Time") or microseconds ("MicroTime"). */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

/** Room for the longest text and its NUL. */
#define GS_KUBE_STAMP_TEXT 32

/** Microseconds since 1970 in UTC. Any offset, any number of fraction digits (cut to six); years
 *  0001 to 9999. Leap second 60 counts as the next second.
 *  Returns  0; -EINVAL not such a time.
 *  Source   RFC 3339, 5.6. */
GS_WUR int gs_kube_stamp_parse(struct gs_str text, int64_t *ret_us);

/** "2026-11-30T00:34:30Z", or with is_micro "2026-11-30T00:34:30.000000Z". Years outside 1..9999
 *  are clamped. Returns `buf`. */
const char *gs_kube_stamp_text(int64_t us, bool is_micro, char buf[GS_KUBE_STAMP_TEXT]);
