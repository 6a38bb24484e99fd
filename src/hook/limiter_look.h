#pragma once
/* What is in force for a slice on a card at this moment: quota, board, HAMi's monitor. limiter.c
 * only. */

#include <stdint.h>

#include "contract/board.h"

/** While a slice of higher priority is active the others keep this much, so that they do not
 *  starve: 2.5 % of the card. */
#define GS_LIMITER_YIELD_BP 250u

struct gs_limiter_view {
    uint32_t share_bp; /**< 1..GS_SHARE_ALL_BP */
    uint32_t flags;    /**< GS_BOARD_YIELD, GS_BOARD_PARK */
};

/** Look at all of them; take over what the board gives back. Slow paths: no system call, but a
 *  walk over the board's entries. `dev` below n_devices. */
struct gs_limiter_view gs_limiter_look(uint32_t dev, uint64_t now_ns);
