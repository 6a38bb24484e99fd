#include "contract/board.h"

#include <errno.h>

#include "contract/ledger.h"

/* A writer is at it for a microsecond; one that died there leaves the beat to grow stale. */
#define TRIES 64

static int is_current(const struct gs_board *board, uint64_t now_ns)
{
    uint64_t beat = __atomic_load_n(&board->beat_ns, __ATOMIC_RELAXED);

    return (beat <= now_ns ? now_ns - beat : beat - now_ns) <= GS_BOARD_STALE_NS;
}

/** Acquire loads: the entry is read before the second look at seq (a fence would do, but
 * ThreadSanitizer does not know fences). */
static int find_once(const struct gs_board *board, uint64_t dev, uint64_t ino,
                     struct gs_board_slice *ret)
{
    uint32_t n = __atomic_load_n(&board->n_slices, __ATOMIC_ACQUIRE);

    for (uint32_t i = 0; i < n && i < GS_BOARD_SLICES; i++) {
        const struct gs_board_slice *s = &board->slice[i];
        uint32_t share;

        if (__atomic_load_n(&s->ledger_dev, __ATOMIC_ACQUIRE) != dev ||
            __atomic_load_n(&s->ledger_ino, __ATOMIC_ACQUIRE) != ino)
            continue;
        share = __atomic_load_n(&s->share_bp, __ATOMIC_ACQUIRE);
        *ret = (struct gs_board_slice){
            .ledger_dev = dev,
            .ledger_ino = ino,
            .share_bp = share < GS_SHARE_ALL_BP ? share : GS_SHARE_ALL_BP,
            .flags = __atomic_load_n(&s->flags, __ATOMIC_ACQUIRE),
            .refund_ns = __atomic_load_n(&s->refund_ns, __ATOMIC_ACQUIRE),
            .others = __atomic_load_n(&s->others, __ATOMIC_ACQUIRE),
        };
        return 0;
    }
    return -ENOENT;
}

int gs_board_find(const struct gs_board *board, uint64_t ledger_dev, uint64_t ledger_ino,
                  uint64_t now_ns, struct gs_board_slice *ret)
{
    struct gs_board_slice found;

    if (__atomic_load_n(&board->magic, __ATOMIC_RELAXED) != GS_BOARD_MAGIC ||
        __atomic_load_n(&board->version, __ATOMIC_RELAXED) != GS_BOARD_VERSION)
        return -ENODATA;
    if (ledger_dev == 0 && ledger_ino == 0)
        return -ENOENT; /* the mark of a free entry */
    if (!is_current(board, now_ns))
        return -ESTALE;
    for (int i = 0; i < TRIES; i++) {
        /* acquire: the entry after seq; pairs with the writer's release of an even value */
        uint64_t before = __atomic_load_n(&board->seq, __ATOMIC_ACQUIRE);
        int rc;

        if (before & 1)
            continue;
        rc = find_once(board, ledger_dev, ledger_ino, &found);
        if (__atomic_load_n(&board->seq, __ATOMIC_RELAXED) != before)
            continue;
        if (rc == 0)
            *ret = found;
        return rc;
    }
    return -EAGAIN;
}

int gs_board_read(int fd, struct gs_board *ret)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t seq;
        int rc = gs_ledger_pread(fd, ret, sizeof(*ret), 0);

        if (rc == 0)
            rc = gs_ledger_pread(fd, &seq, sizeof(seq), offsetof(struct gs_board, seq));
        if (rc < 0)
            return rc;
        if (seq == ret->seq && (seq & 1) == 0)
            return 0;
    }
    return -EAGAIN;
}
