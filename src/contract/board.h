#pragma once
/* The board: what a slice must know of its neighbours on one card. One file per card, written every
 * GS_BOARD_TICK_NS by one process that may read every slice's ledger (a node's monitor, or one
 * elected `gpuslice run`), read by the hooks.
 *
 * Everything on it is advice that expires: a reader that finds the beat older than
 * GS_BOARD_STALE_NS goes by its own quota alone (fixed policy, no lending, no blocks, no refunds).
 *
 * Consistency: `seq` is odd while the writer writes; a reader copies its entry and looks at `seq`
 * again. Units: nanoseconds of CLOCK_MONOTONIC; shares in basis points of one card (10000 = all of
 * it). */

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

#define GS_BOARD_MAGIC    0x3144524f42475347ull /* "GSGBORD1" in memory */
#define GS_BOARD_VERSION  1u
#define GS_BOARD_SLICES   256u
#define GS_BOARD_TICK_NS  20000000u
#define GS_BOARD_STALE_NS 250000000u
#define GS_SHARE_ALL_BP   10000u

/** One slice on the card, found by the identity of its ledger file. */
struct gs_board_slice {
    uint64_t ledger_dev; /**< st_dev and st_ino of the ledger; both 0: free entry */
    uint64_t ledger_ino;
    uint32_t share_bp;  /**< what it may use now, loans included; GS_SHARE_ALL_BP: no waiting */
    uint32_t flags;     /**< GS_BOARD_* */
    uint64_t refund_ns; /**< cumulative: of the card time the slice's processes found themselves
                           busy, so much was in truth the neighbours' turn */
    uint32_t others;    /**< processes of other slices, or of none, that asked for the card lately:
                           so many take turns with this one; 0: nobody counted them */
    uint32_t reserved0;
    uint64_t reserved[2];
};
#define GS_BOARD_YIELD  1u /**< a slice of higher priority is active: one launch at a time */
#define GS_BOARD_SHARED 4u /**< others have asked for the card lately, too */
#define GS_BOARD_PARK                                                                              \
    2u /**< another slice has the turn in memory (oversubscription): launch nothing */

struct gs_board {
    uint64_t magic;
    uint32_t version;
    uint32_t n_slices; /**< entries in use, from 0; <= GS_BOARD_SLICES */
    uint64_t seq;
    uint64_t beat_ns;
    uint64_t writer_pid; /**< for people */
    uint64_t refund_bin; /**< newest bin (CLOCK_MONOTONIC / GS_LEDGER_BIN_NS) whose refunds are in:
                            the next writer goes on from there */
    uint64_t reserved[2];
    char uuid[96];
    uint64_t reserved1[12];
    struct gs_board_slice slice[GS_BOARD_SLICES];
};
_Static_assert(sizeof(struct gs_board_slice) == 56, "entry layout");
_Static_assert(offsetof(struct gs_board, slice) == 256, "board layout");

/** Copy the entry of one ledger out of a board, mapped or copied.
 *  @now_ns  CLOCK_MONOTONIC; may be a little old, as of a thread that was preempted since.
 *  Returns  0; -ENODATA not a board; -ESTALE the beat is more than GS_BOARD_STALE_NS away from
 *           now_ns; -ENOENT the slice is not on it; -EAGAIN the writer was at it at every try.
 *           *ret is touched on success alone; share_bp is at most GS_SHARE_ALL_BP there.
 *  Threads  any; no system call. */
GS_WUR int gs_board_find(const struct gs_board *board, uint64_t ledger_dev, uint64_t ledger_ino,
                         uint64_t now_ns, struct gs_board_slice *ret);

/** Copy a whole board, as it was between two writes, out of an open file.
 *  Returns  0; -EPROTO the file is shorter; -EAGAIN the writer was at it at every try; -errno from
 * the kernel. *ret is undefined then. */
GS_WUR int gs_board_read(int fd, struct gs_board *ret);
