/* The plan of one process: its kernels laid out in its own time, side by side where they fit. */

#include <errno.h>
#include <string.h>

#include "vendors/nvidia/sim/clock.h"

#define SCRATCH (2 * GS_CLOCK_PIECES + 4)

/* A list under construction; neighbours of the same load become one. */
struct list {
    uint32_t n;
    struct gs_clock_piece piece[SCRATCH];
};

static void append(struct list *l, uint64_t start, uint64_t end, uint64_t load)
{
    if (start >= end)
        return;
    struct gs_clock_piece *last = l->n ? &l->piece[l->n - 1] : NULL;
    if (last && last->end_ns == start && last->load == load)
        last->end_ns = end;
    else if (l->n < SCRATCH)
        l->piece[l->n++] = (struct gs_clock_piece){start, end, load};
}

static void push(struct gs_clock_proc *p, uint64_t start, uint64_t end, uint64_t load)
{
    if (p->first + p->n_pieces == GS_CLOCK_PIECES) {
        memmove(p->piece, p->piece + p->first, p->n_pieces * sizeof(p->piece[0]));
        p->first = 0;
    }
    p->piece[p->first + p->n_pieces] = (struct gs_clock_piece){start, end, load};
    p->n_pieces++;
}

/* Add `load` to [start, end). */
static int lay(struct gs_clock_proc *p, uint64_t start, uint64_t end, uint64_t load)
{
    struct gs_clock_piece *last = p->n_pieces ? &p->piece[p->first + p->n_pieces - 1] : NULL;
    if (!last || last->end_ns <= start) {
        if (last && last->end_ns == start && last->load == load)
            last->end_ns = end;
        else if (p->n_pieces == GS_CLOCK_PIECES)
            return -EAGAIN;
        else
            push(p, start, end, load);
        return 0;
    }
    struct list l;
    l.n = 0;
    uint64_t at = start; /* up to here the new stretch is laid */
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        const struct gs_clock_piece *q = &p->piece[p->first + i];
        if (q->end_ns <= start) {
            append(&l, q->start_ns, q->end_ns, q->load);
            continue;
        }
        uint64_t gap_end = q->start_ns < end ? q->start_ns : end;
        append(&l, at, gap_end, load);
        at = gap_end > at ? gap_end : at;
        uint64_t over = q->end_ns < end ? q->end_ns : end; /* end of what both share */
        uint64_t from = q->start_ns > start ? q->start_ns : start;
        if (from >= over) {
            append(&l, q->start_ns, q->end_ns, q->load);
            continue;
        }
        append(&l, q->start_ns, from, q->load);
        append(&l, from, over, q->load + load);
        append(&l, over, q->end_ns, q->load);
        at = over;
    }
    append(&l, at, end, load);
    if (l.n > GS_CLOCK_PIECES)
        return -EAGAIN;
    memcpy(p->piece, l.piece, l.n * sizeof(l.piece[0]));
    p->first = 0;
    p->n_pieces = l.n;
    return 0;
}

int gs_clock_plan_add(struct gs_clock_proc *p, uint64_t after, uint64_t cost, uint64_t load,
                      uint64_t *ret_end)
{
    uint64_t start = after > p->v_ns ? after : p->v_ns;
    load = load > GS_CLOCK_FULL ? GS_CLOCK_FULL : load;
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        const struct gs_clock_piece *q = &p->piece[p->first + i];
        if (q->end_ns <= start)
            continue;
        if (q->start_ns >= start + cost)
            break;
        if (q->load + load > GS_CLOCK_FULL)
            start = q->end_ns;
    }
    *ret_end = start + cost;
    int rc = lay(p, start, start + cost, load);
    if (rc)
        *ret_end = p->piece[p->first].end_ns;
    return rc;
}

int gs_clock_plan_visit(struct gs_clock_proc *p, uint64_t after, uint64_t *ret_end)
{
    uint64_t start = after > p->v_ns ? after : p->v_ns;
    *ret_end = start + 1;
    for (uint32_t i = 0; i < p->n_pieces; i++) {
        const struct gs_clock_piece *q = &p->piece[p->first + i];
        if (q->start_ns <= start && start < q->end_ns)
            return 0; /* it will be there anyway */
    }
    int rc = lay(p, start, start + 1, GS_CLOCK_FULL);
    if (rc)
        *ret_end = p->piece[p->first].end_ns;
    return rc;
}

void gs_clock_plan_trim(struct gs_clock_proc *p)
{
    while (p->n_pieces && p->piece[p->first].end_ns <= p->v_ns) {
        p->n_pieces--;
        p->first = p->n_pieces ? p->first + 1 : 0;
    }
}

void gs_clock_plan_repair(struct gs_clock_proc *p)
{
    uint32_t n = 0;
    if (p->first >= GS_CLOCK_PIECES || p->n_pieces > GS_CLOCK_PIECES - p->first)
        p->first = p->n_pieces = 0;
    for (uint64_t at = 0; n < p->n_pieces; n++) {
        const struct gs_clock_piece *q = &p->piece[p->first + n];
        if (q->start_ns < at || q->end_ns <= q->start_ns)
            break;
        at = q->end_ns;
    }
    p->n_pieces = n;
    if (n && p->end_ns < p->piece[p->first + n - 1].end_ns)
        p->end_ns = p->piece[p->first + n - 1].end_ns;
    gs_clock_plan_trim(p);
}
