#pragma once
/* Maps of the API (kube/view.h) as the model has them. */

#include "base/arena.h"
#include "core/cleanup.h"
#include "kube/view.h"
#include "model/pod.h"

/** Text is borrowed, the array is in the arena. 0 or -ENOMEM. */
GS_WUR int gs_pairs_convert(const struct gs_kube_pairs *pairs, struct gs_arena *arena,
                            struct gs_pairs *ret);
