#include "apps/gpuslice/room.h"

#include <stdbool.h>
#include <stdlib.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/book.h"
#include "apps/gpuslice/loose.h"
#include "apps/gpuslice/promise.h"
#include "apps/gpuslice/slice.h"
#include "base/buf.h"
#include "base/proc.h"
#include "base/table.h"
#include "node/probe.h"

/** Holders that are named; the rest is a sum. */
#define NAMED_MOST 3u
/** Less than this is no holder that anybody looks for: a driver keeps something for itself. */
#define HOLDER_LEAST (UINT64_C(64) << 20)

/** Somebody who has memory of the card, or may take it. */
struct holder {
    uint64_t bytes;
    const struct gs_slice *slice; /**< NULL a process outside */
    uint64_t used;                /**< of a slice: of its bytes, those that are in use */
    uint32_t pid;
};

struct holders {
    struct holder named[NAMED_MOST]; /**< the largest, largest first */
    size_t n;
    uint64_t others;  /**< bytes of the rest */
    uint64_t outside; /**< bytes of processes outside, as the driver has them */
};

static void add(struct holders *h, struct holder holder)
{
    if (holder.bytes < HOLDER_LEAST)
        return;
    for (size_t i = 0; i < h->n; i++) {
        struct holder was = h->named[i];

        if (holder.bytes <= was.bytes)
            continue;
        h->named[i] = holder;
        holder = was;
    }
    if (h->n < NAMED_MOST)
        h->named[h->n++] = holder;
    else
        h->others += holder.bytes;
}

/* A process with a slot in a slice's books is counted there. */
static bool is_in(const struct gs_slice *slice, uint32_t pid)
{
    GS_CLEANUP(gs_book_fini) struct gs_book book = {0};

    return gs_book_read_named(slice->dir_fd, gs_loose_is(slice) ? GS_LOOSE_LEDGER : GS_SLICE_LEDGER,
                              &book, NULL) == 0 &&
           gs_book_find(&book, pid);
}

static void add_processes(const struct gs_probe *probe, size_t card, const struct gs_slices *slices,
                          struct holders *h)
{
    for (size_t i = 0; i < probe->n_processes; i++) {
        const struct gs_card_process *p = &probe->process[i];
        bool inside = p->card != card || p->used_bytes == GS_PROBE_UNKNOWN;

        for (size_t k = 0; k < slices->n && !inside; k++)
            inside = is_in(slices->p[k], p->pid);
        if (inside)
            continue;
        add(h, (struct holder){.bytes = p->used_bytes, .pid = p->pid});
        h->outside += p->used_bytes;
    }
}

static void add_slices(const struct gs_card *card, const struct gs_slices *slices,
                       const struct gs_slice *own, struct holders *h)
{
    for (size_t i = 0; i < slices->n; i++) {
        struct holder holder = {.slice = slices->p[i]};

        holder.bytes = gs_promise_taken(card, slices->p[i], &holder.used);
        if (slices->p[i] != own)
            add(h, holder);
    }
}

static void put_holder(struct gs_buf *buf, const struct holder *h)
{
    char size[GS_APP_SIZE], used[GS_APP_SIZE];
    struct gs_proc p = {.comm = "?"};

    gs_buf_addf(buf, "%s%s ", buf->n ? ", " : "", gs_app_size(h->bytes, size));
    if (h->slice) {
        gs_buf_addf(buf, "slice '%s'", h->slice->name);
        if (h->bytes > h->used)
            gs_buf_addf(buf, " (in use: %s)", gs_app_size(h->used, used));
        return;
    }
    (void)!gs_proc_read((pid_t)h->pid, &p); /* gone meanwhile, or of another pid namespace */
    gs_table_clean(buf, p.comm);
    gs_buf_addf(buf, " (pid %u, outside any slice)", h->pid);
}

static void put_holders(struct gs_buf *buf, const struct holders *h, uint64_t outside)
{
    uint64_t nobodys = outside > h->outside ? outside - h->outside : 0;
    char size[GS_APP_SIZE];

    for (size_t i = 0; i < h->n; i++)
        put_holder(buf, &h->named[i]);
    if (h->others >= HOLDER_LEAST)
        gs_buf_addf(buf, "%s%s others", buf->n ? ", " : "", gs_app_size(h->others, size));
    if (nobodys >= HOLDER_LEAST || buf->n == 0)
        gs_buf_addf(buf, "%s%s the driver, or programs it does not name", buf->n ? ", " : "",
                    gs_app_size(nobodys, size));
}

void gs_room_tell(const struct gs_probe *probe, size_t card, const struct gs_slices *slices,
                  const struct gs_slice *slice, uint64_t bytes)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf who = {0};
    const struct gs_card *c = &probe->card[card];
    struct holders h = {0};
    struct gs_promise promise;
    char want[GS_APP_SIZE], room[GS_APP_SIZE], total[GS_APP_SIZE];

    gs_promise_read(c, slices, slice, &promise);
    if (gs_promise_is_kept(bytes, &promise))
        return;
    add_processes(probe, card, slices, &h);
    add_slices(c, slices, slice, &h);
    put_holders(&who, &h, promise.outside);
    gs_app_say("slice '%s': card %u has room for %s of its %s now, not for the %s promised; what "
               "goes beyond that the driver refuses until others have freed some: %s",
               slice->name, c->index, gs_app_size(promise.room, room),
               gs_app_size(c->total_bytes, total), gs_app_size(bytes, want), gs_buf_text(&who));
}
