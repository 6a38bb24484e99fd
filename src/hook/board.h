#pragma once
/* This process's view of the boards (contract/board.h), read every few milliseconds. The folder is
 * GS_BOARD_DIR, or $GPUSLICE_BOARD_DIR where that is absent, as it was at the first call. */

#include <stdint.h>

#include "contract/board.h"
#include "core/cleanup.h"

/** What the card's board says of our slice.
 *  @dev     index in the ledger's device table.
 *  @now_ns  gs_limiter_clock().
 *  Returns  0; -ENOENT no board, or we are not on it; -ESTALE nobody writes it; other -errno.
 *  Slow paths only: some calls read the file. Threads: any. */
GS_WUR int gs_hook_board(uint32_t dev, uint64_t now_ns, struct gs_board_slice *ret);
/** Forked child, and before the slice is attached to anew: forget what was read. One thread. */
void gs_hook_board_forget(void);
