#pragma once
/* The boards of a user's cards (contract/board.h), written by the `gpuslice run` processes: each
 * has a thread for the cards of its slice, and of those one per card is elected (monitor/board.h).
 */

#include <stddef.h>

#include "core/cleanup.h"

struct gs_board_thread;
struct gs_err;
struct gs_plan;
struct gs_probe;
struct gs_slice;

/** Create the folder that the hooks of this slice are to look in.
 *  Returns  0 and its path (heap, the caller's); negative errno. */
GS_WUR int gs_board_folder(const struct gs_slice *slice, char **ret_path, struct gs_err *err);

/** Start the thread; signals are for the caller's threads. The objects are borrowed until
 *  gs_board_stop(). Returns 0 or negative errno. */
GS_WUR int gs_board_start(const struct gs_slice *slice, const struct gs_probe *probe,
                          const struct gs_plan *plan, struct gs_board_thread **ret_thread,
                          struct gs_err *err);
/** Stop and free. A thread that is caught in a driver call for long is left to the end of the
 *  process. Accepts NULL. */
void gs_board_stop(struct gs_board_thread *thread);
