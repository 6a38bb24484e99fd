#include "apps/gpuslice/book.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "apps/gpuslice/slice.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "contract/env.h"
#include "contract/quota.h"
#include "core/size.h"

static int open_ledger(int dir_fd, const char *name, struct gs_err *err)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    return fd >= 0 ? fd : gs_err_set(err, -errno, "open the ledger: %s", strerror(errno));
}

static int explain(int rc, struct gs_err *err)
{
    if (rc == -ENODATA)
        return gs_err_set(err, -ENOENT, "the ledger is being made");
    if (rc == -EPROTO)
        return gs_err_set(err, -EBADMSG, "the ledger is damaged or of another version");
    return gs_err_set(err, rc, "read the ledger: %s", strerror(-rc));
}

static void free_snapshot(struct gs_ledger_snapshot **snapshot)
{
    free(*snapshot);
    *snapshot = NULL;
}

static int read_snapshot(int fd, struct gs_ledger_snapshot **ret, struct gs_err *err)
{
    GS_CLEANUP(free_snapshot)
    struct gs_ledger_snapshot *snapshot = malloc(sizeof(*snapshot));
    int rc;

    if (!snapshot)
        return gs_err_set(err, -ENOMEM, "out of memory");
    rc = gs_ledger_read(fd, snapshot);
    if (rc != 0)
        return explain(rc, err);
    *ret = GS_STEAL(snapshot);
    return 0;
}

static void add_process(const struct gs_ledger_snapshot *snapshot, uint32_t slot,
                        struct gs_book *book)
{
    const struct gs_ledger_slot *s = &snapshot->slot[slot];
    struct gs_book_wait *wait = &book->wait[book->n_processes * snapshot->n_devices];
    struct gs_book_process *p = &book->process[book->n_processes++];

    /* the kernel names the holder of the lock in our pid namespace; the slot has its owner's word
     * for it */
    p->pid = snapshot->holder_pid[slot] > 0 ? (uint32_t)snapshot->holder_pid[slot] : s->pid;
    p->flags = s->flags;
    for (uint32_t i = 0; i < snapshot->n_devices; i++) {
        const struct gs_ledger_work *w = &snapshot->device[i].work[slot];

        p->used_bytes = gs_size_add(p->used_bytes, snapshot->device[i].slot_bytes[slot]);
        wait[i] = (struct gs_book_wait){w->waited_ns, w->launches};
        if (w->wait_since_ns != 0 && w->wait_since_ns < book->read_ns)
            wait[i].waited_ns = gs_size_add(w->waited_ns, book->read_ns - w->wait_since_ns);
    }
}

static void add_device(int fd, const struct gs_ledger_snapshot *snapshot, uint32_t i,
                       struct gs_book *book)
{
    struct gs_book_device *d = &book->device[book->n_devices++];

    memcpy(d->uuid, snapshot->device[i].uuid, sizeof(d->uuid));
    d->limit_bytes = snapshot->device[i].limit_bytes;
    d->used_bytes = snapshot->device[i].used_bytes;
    (void)!gs_meter_read(fd, snapshot, i, book->read_ns, &d->meter); /* else as if nothing ran */
}

static void add_processes(const struct gs_ledger_snapshot *snapshot, struct gs_book *book)
{
    size_t n_suspended = 0;

    for (uint32_t i = 0; i < snapshot->n_slots; i++) {
        if (!snapshot->is_live[i])
            continue;
        add_process(snapshot, i, book);
        n_suspended += snapshot->is_suspended[i];
    }
    book->is_suspended =
        book->n_processes > 0 ? n_suspended == book->n_processes : snapshot->suspended != 0;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t); /* cannot fail with these clocks */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int gs_book_read(int dir_fd, struct gs_book *ret_book, struct gs_err *err)
{
    return gs_book_read_named(dir_fd, GS_SLICE_LEDGER, ret_book, err);
}

int gs_book_read_named(int dir_fd, const char *name, struct gs_book *ret_book, struct gs_err *err)
{
    GS_CLEANUP(free_snapshot) struct gs_ledger_snapshot *snapshot = NULL;
    GS_CLEANUP(gs_file_close) int fd = open_ledger(dir_fd, name, err);
    struct stat st;
    uint64_t now;
    int rc;

    memset(ret_book, 0, sizeof(*ret_book));
    if (fd < 0)
        return fd;
    rc = read_snapshot(fd, &snapshot, err);
    if (rc != 0 || !snapshot)
        return rc;
    ret_book->process = calloc(GS_LEDGER_SLOTS, sizeof(*ret_book->process));
    ret_book->wait =
        calloc((size_t)GS_LEDGER_SLOTS * (snapshot->n_devices + 1), sizeof(*ret_book->wait));
    if (!ret_book->process || !ret_book->wait) {
        gs_book_fini(ret_book);
        return gs_err_set(err, -ENOMEM, "out of memory");
    }
    ret_book->read_ns = clock_ns(CLOCK_MONOTONIC);
    now = clock_ns(CLOCK_REALTIME);
    /* of one that says it will be made the clock was set back: it is older than that tells */
    ret_book->age_ns = now >= snapshot->created_ns ? now - snapshot->created_ns : UINT64_MAX;
    if (fstat(fd, &st) == 0) {
        ret_book->file_dev = st.st_dev;
        ret_book->file_ino = st.st_ino;
    }
    for (uint32_t i = 0; i < snapshot->n_devices; i++)
        add_device(fd, snapshot, i, ret_book);
    add_processes(snapshot, ret_book);
    ret_book->refusals = snapshot->refusals;
    return 0;
}

void gs_book_fini(struct gs_book *book)
{
    if (!book)
        return;
    free(book->process);
    free(book->wait);
    memset(book, 0, sizeof(*book));
}

const struct gs_book_process *gs_book_find(const struct gs_book *book, uint32_t pid)
{
    for (size_t i = 0; i < book->n_processes; i++)
        if (book->process[i].pid == pid)
            return &book->process[i];
    return NULL;
}

const struct gs_book_wait *gs_book_wait(const struct gs_book *book, size_t process, size_t device)
{
    return &book->wait[process * book->n_devices + device];
}

const struct gs_book_device *gs_book_find_device(const struct gs_book *book, const char *uuid)
{
    for (size_t i = 0; i < book->n_devices; i++)
        if (strcmp(book->device[i].uuid, uuid) == 0)
            return &book->device[i];
    return NULL;
}

static int limits_of_file(int dir_fd, struct gs_quota *ret)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    uint32_t line;
    int rc = gs_file_read(dir_fd, GS_QUOTA_FILE, GS_QUOTA_MAX_BYTES, &buf);

    return rc == 0 ? gs_quota_parse(gs_buf_str(&buf), ret, &line) : rc;
}

static int limits_of_ledger(int dir_fd, struct gs_quota *ret)
{
    GS_CLEANUP(free_snapshot) struct gs_ledger_snapshot *snapshot = NULL;
    GS_CLEANUP(gs_file_close) int fd = open_ledger(dir_fd, GS_SLICE_LEDGER, NULL);
    int rc = fd < 0 ? fd : read_snapshot(fd, &snapshot, NULL);

    if (rc != 0 || !snapshot)
        return rc;
    ret->n_devices = snapshot->n_devices;
    for (uint32_t i = 0; i < snapshot->n_devices; i++) {
        const struct gs_ledger_books *from = &snapshot->device[i];
        struct gs_quota_device *d = &ret->device[i];

        memcpy(d->uuid, from->uuid, sizeof(d->uuid));
        d->limit_bytes = from->limit_bytes;
        d->core_pct = from->core_pct;
        d->policy = from->policy;
    }
    return 1;
}

int gs_book_limits(int dir_fd, struct gs_quota *ret)
{
    int rc = limits_of_file(dir_fd, ret);

    if (rc == 0)
        return 0;
    memset(ret, 0, sizeof(*ret)); /* a failed parse leaves anything there */
    return limits_of_ledger(dir_fd, ret);
}

bool gs_book_has_live(int dir_fd)
{
    GS_CLEANUP(gs_book_fini) struct gs_book book = {0};
    int rc = gs_book_read(dir_fd, &book, NULL);

    /* not now does not mean never; what is no ledger, or damaged, goes with its slice */
    if (rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE || rc == -EIO)
        return true;
    return rc == 0 && book.n_processes > 0;
}

int gs_book_events(int dir_fd, struct gs_ledger_event *ret_events, size_t max, struct gs_err *err)
{
    GS_CLEANUP(gs_file_close) int fd = open_ledger(dir_fd, GS_SLICE_LEDGER, err);
    uint64_t next;
    int n;

    if (fd < 0)
        return fd;
    n = gs_ledger_read_events(fd, 0, ret_events,
                              max < GS_LEDGER_RING ? (uint32_t)max : GS_LEDGER_RING, &next);
    return n >= 0 ? n : explain(n, err);
}
