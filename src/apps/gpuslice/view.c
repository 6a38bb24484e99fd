#include "apps/gpuslice/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/gpuslice/loose.h"
#include "apps/gpuslice/promise.h"
#include "apps/gpuslice/terms.h"
#include "base/file.h"
#include "contract/board.h"
#include "core/size.h"
#include "vendors/registry_node.h"

/* What a driver may take for a process beside what the hook learns of: code loaded late, rounding.
 */
#define UNSEEN_SLACK_BYTES (64ull << 20)

/* A quotient for people: rounded, never cut. */
static uint64_t nearest(uint64_t part, uint64_t whole)
{
    return part / whole + (part % whole >= whole - part % whole);
}

static struct gs_view_process *find(struct gs_view_slice *s, uint32_t pid)
{
    for (size_t i = 0; i < s->n_processes; i++)
        if (s->process[i].pid == pid)
            return &s->process[i];
    return NULL;
}

static int add_process(const struct gs_view *view, struct gs_view_slice *s, uint32_t pid,
                       uint64_t bytes, bool held)
{
    const struct gs_proc *p = gs_proc_find(&view->procs, (pid_t)pid);
    struct gs_view_process *v = find(s, pid);

    if (v) { /* on a second card */
        v->used_bytes = v->used_bytes == GS_PROBE_UNKNOWN || bytes == GS_PROBE_UNKNOWN
                            ? GS_PROBE_UNKNOWN
                            : gs_size_add(v->used_bytes, bytes);
        return 0;
    }
    if (s->n_processes == s->cap_processes) {
        size_t cap = s->cap_processes ? s->cap_processes * 2 : 16;

        v = realloc(s->process, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        s->process = v;
        s->cap_processes = cap;
    }
    v = &s->process[s->n_processes++];
    *v = (struct gs_view_process){.pid = pid, .used_bytes = bytes, .held = held};
    memcpy(v->comm, p ? p->comm : "?", p ? sizeof(v->comm) : 2);
    for (char *c = v->comm; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
            *c = '?'; /* a process may call itself anything */
    return 0;
}

static bool is_member(const struct gs_view *view, const struct gs_slice *slice, pid_t pid)
{
    for (size_t i = 0; i < slice->n_members; i++) {
        const struct gs_proc *p = gs_proc_find(&view->procs, slice->member[i].pid);

        if (p && p->start_ticks == slice->member[i].start_ticks && p->state != 'Z' &&
            gs_proc_descends(&view->procs, pid, p->pid))
            return true;
    }
    return gs_slice_is_named_by(slice, pid);
}

/* A process with a slot has its figure from the ledger. The driver's own counts where it is more
 * than the whole slice has in the books on that card: then memory came past the hook. Compared with
 * the slice and not with the process, since what one exported the driver may count at another. */
static void compare(const struct gs_view *view, struct gs_view_slice *s,
                    const struct gs_card_process *p)
{
    const char *uuid = view->probe.card[p->card].uuid;
    struct gs_view_process *v = find(s, p->pid);

    if (!v || p->used_bytes == GS_PROBE_UNKNOWN)
        return;
    if (p->used_bytes > gs_size_add(gs_view_used(s, uuid), UNSEEN_SLACK_BYTES))
        v->held = false;
    if (!v->held && (v->used_bytes == GS_PROBE_UNKNOWN || v->used_bytes < p->used_bytes))
        v->used_bytes = p->used_bytes;
}

/* A process the driver shows on a card: held by a slot, else a member that is not held, else a
 * stranger. */
static int place(struct gs_view *view, const struct gs_card_process *p)
{
    for (size_t i = 0; i < view->slices.n; i++) {
        if (!gs_book_find(&view->slice[i].book, p->pid))
            continue;
        compare(view, &view->slice[i], p);
        return 0;
    }
    for (size_t i = 0; i < view->slices.n; i++)
        if (is_member(view, view->slices.p[i], (pid_t)p->pid))
            return add_process(view, &view->slice[i], p->pid, p->used_bytes, false);
    return add_process(view, &view->outside, p->pid, p->used_bytes, false);
}

/* What the card's board lends the slice, in basis points; 0 where there is no fresh board. */
static uint32_t lent_bp(const struct gs_view_slice *s, const char *uuid)
{
    char path[sizeof(GS_SLICE_BOARD) + 128];
    struct gs_board_slice entry;
    struct gs_board board; /* 15 KB */
    GS_CLEANUP(gs_file_close) int fd = -1;
    int rc;

    if (strchr(uuid, '/') || gs_loose_is(s->slice))
        return 0;
    (void)snprintf(path, sizeof(path), "../" GS_SLICE_BOARD "/%s", uuid);
    fd = openat(s->slice->dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || gs_board_read(fd, &board) != 0)
        return 0;
    rc = gs_board_find(&board, s->book.file_dev, s->book.file_ino, s->book.read_ns, &entry);
    return rc == 0 ? entry.share_bp : 0;
}

/* Fixed shares are what they are; of an elastic one the board tells. */
static void read_shares(struct gs_view_slice *s)
{
    const struct gs_quota *q = &s->slice->quota;

    for (uint32_t i = 0; i < q->n_devices; i++) {
        const struct gs_quota_device *d = &q->device[i];
        uint32_t bp =
            d->policy == GS_POLICY_ELASTIC && s->book.n_devices > 0 ? lent_bp(s, d->uuid) : 0;

        s->now_permille[i] = d->policy == GS_POLICY_OFF ? 1000 : d->core_pct * 10;
        if (bp > 0)
            s->now_permille[i] = bp < GS_SHARE_ALL_BP ? nearest(bp, 10) : 1000;
    }
}

static int read_slice(const struct gs_view *view, struct gs_view_slice *s)
{
    int rc;

    memset(s->wait_ms_per_s, 0xff, sizeof(s->wait_ms_per_s)); /* not known before gs_view_pace() */
    rc = gs_book_read_named(s->slice->dir_fd,
                            gs_loose_is(s->slice) ? GS_LOOSE_LEDGER : GS_SLICE_LEDGER, &s->book,
                            NULL);
    s->is_unused = rc == -ENOENT;
    read_shares(s);
    if (rc != 0)
        return rc == -ENOMEM ? rc : 0; /* none yet; a damaged one shows as no processes */
    for (size_t i = 0; i < s->book.n_processes && rc == 0; i++)
        rc = add_process(view, s, s->book.process[i].pid, s->book.process[i].used_bytes,
                         !(s->book.process[i].flags & GS_SLOT_UNHELD));
    return rc;
}

static int read_slices(struct gs_view *view, struct gs_err *err)
{
    GS_CLEANUP(gs_slice_unlock_home) struct gs_slice_home_lock lock = {0};
    int rc = gs_loose_list(&view->procs, &view->slices, err);

    if (rc != 0)
        return rc;
    for (size_t i = 0; i < view->slices.n; i++) {
        /* the lock is for removing only: a user who has no folder yet gets none made by looking */
        if (view->slices.p[i]->state != GS_SLICE_DEAD || view->slices.p[i]->uid != geteuid())
            continue;
        if (gs_slice_lock_home(&lock, NULL) == 0)
            gs_slices_collect(&view->slices);
        break;
    }
    view->slice = calloc(view->slices.n + 1, sizeof(*view->slice));
    if (!view->slice)
        return gs_err_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < view->slices.n && rc == 0; i++) {
        view->slice[i].slice = view->slices.p[i];
        rc = read_slice(view, &view->slice[i]);
    }
    return rc == 0 ? 0 : gs_err_set(err, rc, "read the ledgers: %s", strerror(-rc));
}

int gs_view_read(bool probe, struct gs_view *ret_view, struct gs_err *err)
{
    int rc;

    memset(ret_view, 0, sizeof(*ret_view));
    if (probe) {
        rc = gs_probe_read(gs_registry_node, gs_registry_node_n, &ret_view->probe,
                           &ret_view->no_cards);
        if (rc == 0)
            memset(&ret_view->no_cards, 0, sizeof(ret_view->no_cards));
    }
    /* after the driver: a process that shows there and has just ended is then not called a stranger
     */
    (void)!gs_proc_list(&ret_view->procs); /* without /proc names and parents are missing */
    rc = read_slices(ret_view, err);
    for (size_t i = 0; i < ret_view->probe.n_processes && rc == 0; i++) {
        const struct gs_card_process *p = &ret_view->probe.process[i];
        const struct gs_proc *known = gs_proc_find(&ret_view->procs, (pid_t)p->pid);

        if (ret_view->procs.n > 0 && (!known || known->state == 'Z'))
            continue;
        rc = place(ret_view, p);
        if (rc != 0)
            (void)gs_err_set(err, rc, "out of memory");
    }
    if (rc != 0)
        gs_view_fini(ret_view);
    return rc;
}

void gs_view_fini(struct gs_view *view)
{
    if (!view)
        return;
    for (size_t i = 0; view->slice && i < view->slices.n; i++) {
        gs_book_fini(&view->slice[i].book);
        free(view->slice[i].process);
    }
    free(view->slice);
    free(view->outside.process);
    gs_slices_fini(&view->slices);
    gs_proc_fini(&view->procs);
    gs_probe_fini(&view->probe);
    memset(view, 0, sizeof(*view));
}

uint64_t gs_view_used(const struct gs_view_slice *slice, const char *uuid)
{
    const struct gs_book_device *d = gs_book_find_device(&slice->book, uuid);

    return d ? d->used_bytes : 0;
}

const char *gs_view_state_text(const struct gs_view_slice *slice)
{
    bool lives = slice->slice->state == GS_SLICE_RUNNING || slice->slice->state == GS_SLICE_ORPHAN;

    return lives && slice->book.is_suspended ? "suspended"
                                             : gs_slice_state_text(slice->slice->state);
}

bool gs_view_is_held(const struct gs_view_slice *slice, const struct gs_quota_device *device)
{
    return gs_terms_is_held(&slice->slice->quota, device);
}

struct gs_view_share gs_view_share(const struct gs_view_slice *slice,
                                   const struct gs_quota_device *device)
{
    const struct gs_book_device *d = gs_book_find_device(&slice->book, device->uuid);
    struct gs_view_share share = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0};
    uint64_t ms = slice->book.age_ns / 1000000;

    if (!d && !slice->is_unused)
        return share;
    share.now_permille = slice->now_permille[device - slice->slice->quota.device];
    share.managed_bytes = d ? d->meter.managed_bytes : 0;
    if (!gs_view_is_held(slice, device))
        return share; /* nobody counts; there may be something left of earlier terms */
    if (!d) {
        share.used_1s_permille = share.used_10s_permille = share.wait_ms_per_s = 0;
        return share;
    }
    ms = ms < 1000 ? 1000 : ms > 10000 ? 10000 : ms;
    share.used_1s_permille = nearest(d->meter.used_1s_ns, 1000000);
    share.used_10s_permille = nearest(d->meter.used_10s_ns, 1000 * ms);
    share.wait_ms_per_s = slice->wait_ms_per_s[d - slice->book.device];
    if (share.wait_ms_per_s == UINT64_MAX && d->meter.waits == 0)
        share.wait_ms_per_s = 0;
    return share;
}

static const struct gs_view_slice *find_same(const struct gs_view *view, const struct gs_slice *s)
{
    for (size_t i = 0; i < view->slices.n; i++) {
        const struct gs_slice *other = view->slices.p[i];

        if (other->uid == s->uid && other->created_ns == s->created_ns &&
            strcmp(other->name, s->name) == 0)
            return &view->slice[i];
    }
    return NULL;
}

/* Several threads of a process may wait at once, and their waits add up to more than the interval:
 * the process waits all the time then. */
static uint64_t pace(const struct gs_book *now, const struct gs_book *before, size_t k,
                     size_t was_k)
{
    uint64_t us = (now->read_ns - before->read_ns) / 1000, sum = 0, n = 0;

    for (size_t p = 0; p < now->n_processes && us > 0; p++) {
        const struct gs_book_process *old = gs_book_find(before, now->process[p].pid);
        const struct gs_book_wait *was, *is = gs_book_wait(now, p, k);
        uint64_t ms;

        if (!old)
            continue;
        was = gs_book_wait(before, (size_t)(old - before->process), was_k);
        ms = is->waited_ns > was->waited_ns ? nearest(is->waited_ns - was->waited_ns, us) : 0;
        if (ms == 0 && is->launches == was->launches)
            continue; /* nothing was asked of the card */
        sum += ms < 1000 ? ms : 1000;
        n++;
    }
    return n > 0 ? nearest(sum, n) : 0;
}

void gs_view_pace(struct gs_view *view, const struct gs_view *before)
{
    for (size_t i = 0; i < view->slices.n; i++) {
        struct gs_view_slice *s = &view->slice[i];
        const struct gs_view_slice *old = find_same(before, s->slice);

        for (size_t k = 0; old && k < s->book.n_devices; k++) {
            const struct gs_book_device *was =
                gs_book_find_device(&old->book, s->book.device[k].uuid);

            if (was)
                s->wait_ms_per_s[k] =
                    pace(&s->book, &old->book, k, (size_t)(was - old->book.device));
        }
    }
}

bool gs_view_has_waits(const struct gs_view *view)
{
    for (size_t i = 0; i < view->slices.n; i++)
        for (size_t k = 0; k < view->slice[i].book.n_devices; k++)
            if (view->slice[i].book.device[k].meter.waited_ns > 0)
                return true;
    return false;
}

uint64_t gs_view_core_pct(const struct gs_view *view, const struct gs_view_slice *slice,
                          const char *uuid)
{
    int card = gs_probe_find_card(&view->probe, uuid);
    uint64_t sum = 0;
    bool known = false;

    if (card < 0)
        return GS_PROBE_UNKNOWN;
    known = view->probe.card[card].util_pct == 0; /* nobody computes */
    for (size_t i = 0; i < slice->n_processes; i++) {
        const struct gs_card_process *p =
            gs_probe_find_process(&view->probe, (uint32_t)card, slice->process[i].pid);

        if (!p || p->util_pct == GS_PROBE_UNKNOWN)
            continue;
        known = true;
        sum += p->util_pct;
    }
    if (!known)
        return slice->n_processes == 0 ? 0 : GS_PROBE_UNKNOWN;
    return sum < 100 ? sum : 100;
}

uint64_t gs_view_promised(const struct gs_view *view, const struct gs_card *card)
{
    struct gs_promise promise;

    gs_promise_read(card, &view->slices, NULL, &promise);
    return promise.bytes;
}

uint64_t gs_view_promised_cores(const struct gs_view *view, const struct gs_card *card)
{
    struct gs_promise promise;

    gs_promise_read(card, &view->slices, NULL, &promise);
    return promise.core_pct;
}
