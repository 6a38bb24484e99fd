#pragma once
/* The writer of one card's board (contract/board.h): who writes, and what.
 *
 * In the folder of the boards, per card: `<uuid>`, the board; `<uuid>.lock`, which the writer holds
 * an open-file lock on. Everybody who may write looks again at each tick, so that the next takes
 * over when the holder dies. A holder that is stopped keeps its lock and writes nothing: after
 * GS_BOARD_DEPOSE_NS another puts a lock file and a board of its own in place of both; whoever
 * finds that the names are not its files any more has been deposed. Written by pwrite, not through
 * a mapping: somebody who truncates the file must not kill the writer. One thread per object. */

#include <stdint.h>
#include <sys/types.h>

#include "contract/board.h"
#include "core/cleanup.h"
#include "monitor/arbiter.h"
#include "monitor/ledgers.h"
#include "monitor/turns.h"

/** A holder whose beat has stood still for so long has lost its office. */
#define GS_BOARD_DEPOSE_NS 1000000000u

struct gs_board_writer {
    int dir_fd;    /**< caller's */
    unsigned mode; /**< of the files: 0600, or 0644 where other users read */
    uint64_t card_bytes;
    int lock_fd;               /**< -1 while another writes, or nobody needs to */
    int fd;                    /**< the board */
    uint64_t watch_beat;       /**< of the one who holds the lock */
    uint64_t watch_ns;         /**< when we looked last */
    uint64_t watch_since;      /**< when we saw it for the first time */
    uint32_t watch_looks;      /**< and how often since */
    struct gs_ledgers ledgers; /**< filled by the caller, see gs_ledgers_offer() */
    struct gs_arbiter arbiter;
    struct gs_turns turns;
    struct gs_turns_slice turn[GS_BOARD_SLICES];
    struct gs_board board; /**< as it is in the file */
};

/** Make a writer, not elected yet.
 *  @dir_fd  folder of the boards, open as long as the object lives.
 *  @uuid    becomes a file name.
 *  Returns  0; -EINVAL a UUID that is no file name; -ENOMEM.
 *  Owner  caller; gs_board_free(). */
GS_WUR int gs_board_new(int dir_fd, const char *uuid, unsigned mode, uint64_t card_bytes,
                        struct gs_board_writer **ret);
/** Resign and free; accepts NULL. Returns NULL. */
struct gs_board_writer *gs_board_free(struct gs_board_writer *w);

/** Are we the one who writes? Costs three system calls when we were, five when we were not.
 *  Returns  2 from now on (offer the slices before the first tick); 1 still; 0 another is; negative
 *           errno: the folder cannot be used. */
GS_WUR int gs_board_elect(struct gs_board_writer *w, uint64_t now_ns);
/** Let another write. */
void gs_board_resign(struct gs_board_writer *w);
/** What the driver says of the processes on the card, about twice a second; n below 0: nothing.
 *  Nobody is there then but who has a ledger: shares stay what they are, nothing is given back.
 *  @n    of `used`, each process once; all there are, or the first GS_BOARD_USED_MAX. */
#define GS_BOARD_USED_MAX 256
void gs_board_take_used(struct gs_board_writer *w, const struct gs_ledgers_used *used, int n,
                        uint64_t now_ns);
/** Read, decide and publish; only while elected. Returns 0 or negative errno of the write. */
GS_WUR int gs_board_tick(struct gs_board_writer *w, uint64_t now_ns);
