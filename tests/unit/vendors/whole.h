#pragma once
/* A pod from its text to its annotations, through the whole of the model. */

#include "kit.h"

struct gs_ns_quota;

/** Place the kit's pod on the kit's node by the policies of the kit, under a quota (NULL: none).
 *  Returns what gs_place() does; on 0 *ret has the annotations that a scheduler writes. On -ENOSPC
 *  kit_reasons() tells why. */
int whole_place(struct kit *kit, const struct gs_ns_quota *quota, int64_t now_ns,
                struct gs_pairs *ret);
