#pragma once
/* Checked numbers and sizes from outside text, and sizes for people. */

#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

/** Unsigned decimal digits and nothing else: no sign, blank, leading zero (but "0") or overflow.
 *  Returns  0; -EINVAL not such a number; -ERANGE above UINT64_MAX. */
GS_WUR int gs_size_parse_u64(struct gs_str s, uint64_t *ret);

/** Bytes as users write them: `1073741824`, `1Gi`, `1.5Gi`, `2G`. K M G T P are decimal, Ki Mi Gi
 *  Ti Pi binary; at most nine digits after the point, and only with a unit; the value is cut to
 *  whole bytes.
 *  Returns  0; -EINVAL not a size; -ERANGE above UINT64_MAX. */
GS_WUR int gs_size_parse(struct gs_str s, uint64_t *ret_bytes);
/** As above, or `25%` / `12.5%` of `whole_bytes`, at most 100 %. */
GS_WUR int gs_size_parse_share(struct gs_str s, uint64_t whole_bytes, uint64_t *ret_bytes);
/** Bytes as HAMi reads its variables: whole number, then nothing or one of K M G T in either case
 *  (binary), or Ki Mi Gi Ti. No octal, no hexadecimal, no garbage. */
GS_WUR int gs_size_parse_hami(struct gs_str s, uint64_t *ret_bytes);

/** For people: "512 B", "1.5 GiB", to the nearest tenth. */
void gs_size_put(struct gs_str_out *out, uint64_t bytes);
/** a + b, or UINT64_MAX. */
static inline uint64_t gs_size_add(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
