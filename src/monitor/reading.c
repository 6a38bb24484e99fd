#include "monitor/reading.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "core/size.h"
#include "core/str.h"

#define SPAN_NS UINT64_C(10000000000) /* over which use is averaged */

struct gs_reader {
    struct gs_ledger_snapshot snapshot;
    struct gs_region region;
    struct gs_ledger_event event[GS_LEDGER_RING];
};

int gs_reader_new(struct gs_reader **ret)
{
    struct gs_reader *r =
        malloc(sizeof(*r)); /* not zeroed: pages that nobody writes cost nothing */

    if (r == NULL)
        return -ENOMEM;
    *ret = r;
    return 0;
}

struct gs_reader *gs_reader_free(struct gs_reader *reader)
{
    free(reader);
    return NULL;
}

void gs_reading_fini(struct gs_reading *reading)
{
    if (reading == NULL)
        return;
    free(reading->device);
    free(reading->pid);
    memset(reading, 0, sizeof(*reading));
}

static int open_file(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);

    return fd >= 0 ? fd : -errno;
}

static int make_room(struct gs_reading *r, size_t n_devices, size_t n_pids)
{
    r->device = calloc(n_devices + 1, sizeof(*r->device));
    r->pid = calloc(n_pids + 1, sizeof(*r->pid));
    return r->device != NULL && r->pid != NULL ? 0 : -ENOMEM;
}

static bool is_locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}; /* all of it */

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static void damaged(struct gs_reading *r, const char *why)
{
    r->kind = GS_READING_DAMAGED;
    r->n_devices = r->n_pids = 0;
    (void)snprintf(r->why, sizeof(r->why), "%s", why);
}

/* ---- HAMi's ---- */

static void take_parts(const struct gs_region_device *from, struct gs_reading_device *to)
{
    to->context_bytes = from->context_bytes;
    to->module_bytes = from->module_bytes;
    to->buffer_bytes = from->buffer_bytes;
    to->offset_bytes = from->offset_bytes;
}

static int take_region(struct gs_reader *reader, struct gs_reading *r)
{
    const struct gs_region *region = &reader->region;
    int rc = make_room(r, region->n_devices, region->n_processes);

    if (rc < 0)
        return rc;
    r->kind = GS_READING_REGION;
    r->layout = region->layout;
    r->words = region->words;
    r->n_devices = region->n_devices;
    for (uint32_t i = 0; i < region->n_devices; i++) {
        const struct gs_region_device *from = &region->device[i];
        struct gs_reading_device *to = &r->device[i];

        memcpy(to->uuid, from->uuid, sizeof(from->uuid));
        to->limit_bytes = from->limit_bytes;
        to->used_bytes = from->used_bytes;
        to->core_pct = from->core_pct;
        to->sm_pct = from->sm_pct;
        take_parts(from, to);
    }
    r->n_pids = region->n_processes;
    memcpy(r->pid, region->host_pid, r->n_pids * sizeof(r->pid[0]));
    return 0;
}

/* ---- ours ---- */

/** Waits that are over, and those that last. */
static uint64_t waited(const struct gs_ledger_snapshot *snap, const struct gs_ledger_books *books,
                       uint64_t now_ns)
{
    uint64_t sum = books->meter.waited_ns;

    for (uint32_t i = 0; i < snap->n_slots; i++) {
        uint64_t since = snap->is_live[i] != 0 ? books->work[i].wait_since_ns : 0;

        if (since != 0 && since < now_ns)
            sum = gs_size_add(sum, now_ns - since);
    }
    return sum;
}

static void take_device(const struct gs_ledger_snapshot *snap, uint32_t i, uint64_t now_ns,
                        struct gs_reading_device *to)
{
    const struct gs_ledger_books *from = &snap->device[i];
    struct gs_str uuid = gs_str_of(from->uuid);

    if (gs_str_is_word(uuid))
        memcpy(to->uuid, from->uuid, sizeof(to->uuid));
    to->limit_bytes = from->limit_bytes;
    to->used_bytes = from->used_bytes;
    to->core_pct = from->core_pct;
    to->sm_pct = GS_READING_UNKNOWN;
    to->refusals = from->refusals;
    to->waits = from->meter.waits;
    to->waited_ns = waited(snap, from, now_ns);
    to->used_10s_bp = gs_ledger_used_bp(from->history, now_ns, SPAN_NS);
}

/** The mirror has what the ledger has not: the parts, and when a kernel was launched last. */
static void take_mirror(int fd, struct gs_reader *reader, struct gs_reading *r)
{
    if (gs_region_read(fd, &reader->region) != 0)
        return; /* spoilt: it decides nothing */
    r->words = reader->region.words;
    for (uint32_t i = 0; i < r->n_devices && i < reader->region.n_devices; i++)
        take_parts(&reader->region.device[i], &r->device[i]);
}

static int take_ledger(int fd, struct gs_reader *reader, uint64_t now_ns, struct gs_reading *r)
{
    const struct gs_ledger_snapshot *snap = &reader->snapshot;
    int rc = make_room(r, snap->n_devices, snap->n_slots);

    if (rc < 0)
        return rc;
    r->kind = GS_READING_LEDGER;
    r->n_devices = snap->n_devices;
    for (uint32_t i = 0; i < snap->n_devices; i++)
        take_device(snap, i, now_ns, &r->device[i]);
    for (uint32_t i = 0; i < snap->n_slots; i++)
        if (snap->is_live[i] != 0)
            r->pid[r->n_pids++] = snap->holder_pid[i] > 0 ? snap->holder_pid[i] : 0;
    take_mirror(fd, reader, r);
    return 0;
}

/** HAMi's own makes its file as large as the region and a byte; a file with room for our part is
 *  ours, or was. */
static int read_fd(int fd, struct gs_reader *reader, const struct stat *st, uint64_t now_ns,
                   struct gs_reading *r)
{
    int rc;

    if ((uint64_t)st->st_size <= GS_LEDGER_OFFSET) {
        rc = gs_region_read(fd, &reader->region);
        if (rc == 0)
            return take_region(reader, r);
    } else {
        rc = gs_ledger_read(fd, &reader->snapshot);
        if (rc == 0)
            return take_ledger(fd, reader, now_ns, r);
    }
    if (rc == -ENODATA)
        return 0; /* no program has used it yet */
    if (rc == -ENOMEM)
        return rc;
    damaged(r, rc == -EPROTO ? "neither a ledger nor a region of HAMi's" : strerror(-rc));
    return 0;
}

/** Lines since the last time; those that were written over meanwhile are missed. */
static void count(struct gs_reader *reader, int fd, const struct gs_reading *r,
                  struct gs_reading_log *log)
{
    uint64_t next;
    int n;

    if (log->dev != r->dev || log->ino != r->ino)
        log->next = 0; /* another file: what was counted stays counted */
    n = gs_ledger_read_events(fd, log->next, reader->event, GS_LEDGER_RING, &next);
    if (n < 0)
        return;
    log->dev = r->dev;
    log->ino = r->ino;
    log->next = next;
    for (int i = 0; i < n; i++)
        if (reader->event[i].reason < GS_REASON_COUNT)
            log->count[reader->event[i].reason]++;
}

int gs_reader_read(struct gs_reader *reader, int dir_fd, const char *name, uint64_t now_ns,
                   struct gs_reading_log *log, struct gs_reading *ret)
{
    GS_CLEANUP(gs_file_close) int fd = name != NULL ? open_file(dir_fd, name) : -ENOENT;
    struct gs_reading r = {0};
    struct stat st;
    int rc = 0;

    if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
        return fd;
    if (fd >= 0 && fstat(fd, &st) == 0) {
        r.dev = st.st_dev;
        r.ino = st.st_ino;
        if (S_ISREG(st.st_mode))
            rc = read_fd(fd, reader, &st, now_ns, &r);
        else
            damaged(&r, "not a file");
    } else if (fd != -ENOENT) {
        damaged(&r, fd == -ELOOP ? "a link" : "cannot be opened");
    }
    r.is_locked = r.kind == GS_READING_DAMAGED && fd >= 0 && is_locked(fd);
    if (rc == 0 && r.kind == GS_READING_LEDGER && log != NULL)
        count(reader, fd, &r, log);
    if (rc < 0)
        gs_reading_fini(&r);
    else
        *ret = r;
    return rc;
}

bool gs_reading_is_live(const struct gs_reading *reading)
{
    if (reading->is_locked)
        return true;
    for (size_t i = 0; i < reading->n_pids; i++) {
        if (reading->kind == GS_READING_LEDGER || reading->pid[i] == 0)
            return true;
        if (kill(reading->pid[i], 0) == 0 || errno != ESRCH)
            return true;
    }
    return false;
}
