#pragma once
/* Which of the cards that serve are best for an sGPU pod, and how good a choice was. */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/cleanup.h"

struct gs_assignment;
struct gs_fit;
struct gs_pick;

/** Put the cards with the fewest online pods first, and those that have offline pods alone last.
 *  0 or -ENOMEM (pick unchanged). */
GS_WUR int gs_sgpu_prefer_quiet(const struct gs_fit *fit, struct gs_pick *pick, size_t n);
/** Put `wanted` cards first that are in one MetaXLink zone, the smallest that has so many; else
 *  small zones before large ones before cards of none. 0 or -ENOMEM (pick unchanged). */
GS_WUR int gs_sgpu_prefer_linked(const struct gs_fit *fit, struct gs_pick *pick, size_t n,
                                 size_t wanted);
/** Of an online pod's cards: how little they disturb. 0 or below. */
int64_t gs_sgpu_prefer_online_score(const struct gs_assignment *a);
/** Of a pod's whole cards: links that it got, ten times, less those that it broke. */
int64_t gs_sgpu_prefer_linked_score(const struct gs_assignment *a);
