#pragma once
/* Eight Kunlun cards in two wings of four: 0-3 and 4-7. Cards of a wing are all connected; across,
 * card i is connected with card i + 4. A set of cards is a mask: bit i is the card of index i.
 * Source  behaviour of HAMi v2.10 for the P800-OAM. */

#include <stdint.h>

#include "core/cleanup.h"

#define GS_WINGS_CARDS 8u

/** Choose n of the open cards: inside one wing where possible, and there from the one that leaves
 *  the fewest cards alone; else across, connected.
 *  Returns  0 and the cards in *ret; -ENOSPC none, or n is not 1, 2, 4 or 8.
 *  Threads  pure. */
GS_WUR int gs_wings_choose(uint32_t open, int32_t n, uint32_t *ret);
/** How badly a set of used cards splits the wings; 1 where none is used. */
int gs_wings_bubbles(uint32_t used);
/** Score of going from one set of used cards to another: 3000 where the bubbles become fewer, 2000
 *  the same, 1000 one more, 0 two more. */
double gs_wings_score(uint32_t before, uint32_t after);
