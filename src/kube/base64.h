#pragma once
/* Base64 of RFC 4648, section 4. */

#include <stddef.h>

#include "core/cleanup.h"
#include "core/str.h"

/** Bytes that n characters decode to at most. */
static inline size_t gs_kube_base64_room(size_t n)
{
    return n / 4 * 3 + 3;
}
/** Line breaks are skipped; padding must be right. 0 or -EINVAL. */
GS_WUR int gs_kube_base64_decode(struct gs_str text, char *ret, size_t *ret_n);

struct gs_buf;
/** Append the text of n bytes, padded, in one line. */
void gs_kube_base64_put(struct gs_buf *buf, struct gs_str bytes);
