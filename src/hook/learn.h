#pragma once
/* Whose turn it is to find out what one context costs on a card of the slice.
 *
 * The first context is made before its cost is known. Were two processes to make it at once, the
 * card could lose twice what the slice has, so one goes first and the others wait for its answer. A
 * dead learner's turn is taken over. */

#include <stdint.h>

#include "core/cleanup.h"

/** Wait for the answer or for our turn. Returns 0: it is known (gs_gate_context_bytes) or nothing
 * is held on `dev`; 1: our turn, to be ended with gs_learn_end(); -ETIMEDOUT: somebody else's turn
 *  lasts too long. Threads: one per process and device at a time. */
GS_WUR int gs_learn_begin(uint32_t dev);
void gs_learn_end(uint32_t dev);
