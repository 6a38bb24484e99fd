#pragma once
/* What admission wished for, as a JSON Patch of the pod that came. */

#include "base/arena.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/pod.h"

struct yyjson_val;

/** Only what changes; parents that are missing are made. `object`: the pod as it came.
 *  ret: base64 of the operations, in the arena; empty where there is nothing to change. 0 or
 *  -ENOMEM. */
GS_WUR int gs_admit_patch(const struct gs_pod *pod, struct yyjson_val *object,
                          struct gs_arena *arena, struct gs_str *ret);
