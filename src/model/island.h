#pragma once
/* Cards that are near each other (one network, one module) are an island: a container with several
 * cards is best served from few of them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/cleanup.h"
#include "model/fit.h"

/** Which island a card belongs to; false: none known. */
typedef bool (*gs_island_of)(const struct gs_device *dev, int32_t *ret);

/** Put the picks of the largest island first, then those of the next, and so on; the order inside
 *  an island stays, equal islands come in the order of their first picks, cards of no island last.
 *  Returns  0, or -ENOMEM (pick unchanged).
 *  Threads  pure.
 *  Source   behaviour of HAMi v2.10 for Ascend (NetworkID) and Vastai (AIC). */
GS_WUR int gs_island_sort(const struct gs_node *node, gs_island_of of, struct gs_pick *pick,
                          size_t n, struct gs_arena *arena);
/** Share of the largest island in the picks: 1 all together; 0 where any card has no island, or
 *  there is no pick. Quadratic in n: for the cards of one container. */
double gs_island_share(const struct gs_node *node, gs_island_of of, const struct gs_pick *pick,
                       size_t n);
