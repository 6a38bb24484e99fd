#pragma once
/* Which of the cards that would serve lie together best. */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/cleanup.h"
#include "model/fit.h"
#include "vendors/nvidia/policy/node.h"

/** Sets of cards that are tried one by one; where there would be more, cards are added one at a
 *  time, the nearest to those chosen first. C(16, 8) is 12870. */
#define GS_NVIDIA_SETS_MAX 20000

/** Move the `want` best of pick[n] to its front; n > want >= 1. One card: the one with the least
 *  link score to all the others, so that near ones stay together. Several: the set with the highest
 *  sum over its pairs. The first of equals.
 *  @first   index of the group's first device: gs_group.first
 *  Returns  0; -ENOMEM (index lists are scratch in the arena).
 *  Source   HAMi v2.10, topology-aware policy. */
GS_WUR int gs_nvidia_topology_choose(const struct gs_nvidia_facts *facts, uint32_t first,
                                     struct gs_pick *pick, size_t n, size_t want,
                                     struct gs_arena *arena);
