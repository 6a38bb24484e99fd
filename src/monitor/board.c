#include "monitor/board.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* Two clocks may have been read on the way to a beat that stands still: look so often at least. */
#define DEPOSE_LOOKS 5u
#define WATCH_NS     100000000u
#define NAME_BYTES   160
/* What an earlier writer left counts for so long, and up to so much beyond what hooks have taken.
 */
#define ADOPT_NS 1000000000u
/* The driver's word is of the second before, and what was just now may not be in it. */
#define USED_BACK_NS 1000000000u
#define USED_LAG_NS  250000000u

int gs_board_new(int dir_fd, const char *uuid, unsigned mode, uint64_t card_bytes,
                 struct gs_board_writer **ret)
{
    struct gs_board_writer *w;

    if (uuid[0] == '\0' || uuid[0] == '.' || strchr(uuid, '/') != NULL ||
        strlen(uuid) >= sizeof(w->board.uuid))
        return -EINVAL;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->dir_fd = dir_fd;
    w->mode = mode;
    w->card_bytes = card_bytes;
    w->lock_fd = w->fd = -1;
    gs_ledgers_init(&w->ledgers, uuid);
    *ret = w;
    return 0;
}

struct gs_board_writer *gs_board_free(struct gs_board_writer *w)
{
    if (w) {
        gs_board_resign(w);
        gs_ledgers_fini(&w->ledgers);
        free(w);
    }
    return NULL;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* what was written lives in the page cache, no disk has to have it */
    *fd = -1;
}

void gs_board_resign(struct gs_board_writer *w)
{
    close_fd(&w->fd);
    close_fd(&w->lock_fd);
    w->watch_looks = 0;
}

static const char *lock_name(const struct gs_board_writer *w, char buf[NAME_BYTES])
{
    (void)snprintf(buf, NAME_BYTES, "%s.lock", w->ledgers.uuid);
    return buf;
}

static const char *temp_name(const struct gs_board_writer *w, char buf[NAME_BYTES])
{
    (void)snprintf(buf, NAME_BYTES, ".%s.%ld", w->ledgers.uuid, (long)getpid());
    return buf;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/** Is `fd` still the file of that name? */
static bool is_named(const struct gs_board_writer *w, const char *name, int fd)
{
    struct stat named, ours;

    return fstatat(w->dir_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &ours) == 0 &&
           is_same(&named, &ours);
}

/** A file that readers can use: whole, ours, and with the mode it was made with. */
static bool is_sound(const struct gs_board_writer *w, const struct stat *st)
{
    return S_ISREG(st->st_mode) && st->st_size == sizeof(w->board) && st->st_uid == geteuid() &&
           (st->st_mode & 0777) == w->mode;
}

/** Is the board that we write still the one that readers find, and as we made it? */
static bool is_intact(const struct gs_board_writer *w)
{
    struct stat named, ours;

    return fstatat(w->dir_fd, w->ledgers.uuid, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstat(w->fd, &ours) == 0 && is_same(&named, &ours) && is_sound(w, &named);
}

static int lock_file(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : -errno;
}

static int write_at(int fd, const void *buf, size_t n, size_t at)
{
    ssize_t put = pwrite(fd, buf, n, (off_t)at);

    if (put < 0)
        return -errno;
    return (size_t)put == n ? 0 : -ENOSPC;
}

/** Read the board under its name. Returns a descriptor for writing, or -errno; -ENODATA where it is
 * not a board. */
static int open_board(struct gs_board_writer *w)
{
    int fd =
        openat(w->dir_fd, w->ledgers.uuid, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && is_sound(w, &st) &&
        pread(fd, &w->board, sizeof(w->board), 0) == sizeof(w->board) &&
        w->board.magic == GS_BOARD_MAGIC && w->board.version == GS_BOARD_VERSION) {
        if (w->board.n_slices > GS_BOARD_SLICES)
            w->board.n_slices = GS_BOARD_SLICES;
        return fd;
    }
    (void)close(fd); /* nothing was written */
    return -ENODATA;
}

/** Put a file in place of whatever has its name. A folder cannot be renamed over: it makes room and
 * goes, with the files in it; one that has folders of its own stays under a hidden name. */
static int put_in_place(const struct gs_board_writer *w, const char *temp, const char *name,
                        uint64_t now_ns)
{
    char aside[NAME_BYTES];

    if (renameat(w->dir_fd, temp, w->dir_fd, name) == 0)
        return 0;
    if (errno != EISDIR)
        return -errno;
    (void)snprintf(aside, sizeof(aside), ".%s.%" PRIu64, w->ledgers.uuid, now_ns);
    if (renameat(w->dir_fd, name, w->dir_fd, aside) != 0 ||
        renameat(w->dir_fd, temp, w->dir_fd, name) != 0)
        return -errno;
    (void)!gs_file_remove_dir(w->dir_fd, aside, NULL);
    return 0;
}

/** A new file with what w->board holds, in place of whatever has its name. */
static int create_board(struct gs_board_writer *w, uint64_t now_ns)
{
    char temp[NAME_BYTES];
    int fd, rc;

    temp_name(w, temp);
    (void)unlinkat(w->dir_fd, temp, 0); /* of a dead process with our pid, if any */
    fd = openat(w->dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, w->mode);
    if (fd < 0)
        return -errno;
    w->board.magic = GS_BOARD_MAGIC;
    w->board.version = GS_BOARD_VERSION;
    w->board.seq = now_ns & ~(uint64_t)1; /* unlike that of the file before */
    w->board.beat_ns = 0;
    memcpy(w->board.uuid, w->ledgers.uuid, sizeof(w->board.uuid));
    /* blocks behind all of it: later writes need no room */
    rc = -posix_fallocate(fd, 0, sizeof(w->board));
    if (rc == 0)
        rc = write_at(fd, &w->board, sizeof(w->board), 0);
    if (rc == 0 && fchmod(fd, w->mode) != 0) /* whatever the umask took away */
        rc = -errno;
    if (rc == 0)
        rc = put_in_place(w, temp, w->ledgers.uuid, now_ns);
    if (rc < 0) {
        (void)unlinkat(w->dir_fd, temp, 0); /* the first failure is the one to report */
        (void)close(fd);
        return rc;
    }
    return fd;
}

/** We hold the lock: go on with the board that is there, or make one. */
static int take_over(struct gs_board_writer *w, bool anew, uint64_t now_ns)
{
    int fd = open_board(w);

    if (fd < 0)
        memset(&w->board, 0, sizeof(w->board));
    if (fd < 0 || anew) {
        close_fd(&fd);
        fd = create_board(w, now_ns);
        if (fd < 0) {
            gs_board_resign(w);
            return fd;
        }
    }
    w->fd = fd;
    memset(&w->turns, 0, sizeof(w->turns));
    w->arbiter.refund_bin = w->board.refund_bin;
    w->arbiter.n_foreign = 0;
    /* what we knew is old; the slices are asked anew, and start where the board has them */
    gs_ledgers_begin(&w->ledgers);
    gs_ledgers_end(&w->ledgers);
    return 2;
}

/** Has the holder of the lock stood still for too long? */
static bool is_stuck(struct gs_board_writer *w, uint64_t now_ns)
{
    uint64_t beat = 0;
    int fd;

    if (now_ns >= w->watch_ns && now_ns - w->watch_ns < WATCH_NS)
        return false; /* looked a moment ago */
    w->watch_ns = now_ns;
    fd = openat(w->dir_fd, w->ledgers.uuid, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 ||
        pread(fd, &beat, sizeof(beat), offsetof(struct gs_board, beat_ns)) != sizeof(beat))
        beat = 0; /* none yet, or damaged: it stands still as well */
    close_fd(&fd);
    if (w->watch_looks == 0 || beat != w->watch_beat || now_ns < w->watch_since) {
        w->watch_beat = beat;
        w->watch_since = now_ns;
        w->watch_looks = 0;
    }
    w->watch_looks++;
    return w->watch_looks > DEPOSE_LOOKS && now_ns - w->watch_since > GS_BOARD_DEPOSE_NS;
}

/** Put a lock of our own in its place. */
static int depose(struct gs_board_writer *w, uint64_t now_ns)
{
    char name[NAME_BYTES], temp[NAME_BYTES];
    int fd, rc;

    temp_name(w, temp);
    (void)unlinkat(w->dir_fd, temp, 0); /* of a dead process with our pid, if any */
    fd = openat(w->dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    rc = lock_file(fd);
    if (rc == 0)
        rc = put_in_place(w, temp, lock_name(w, name), now_ns);
    if (rc < 0) {
        (void)unlinkat(w->dir_fd, temp, 0); /* the first failure is the one to report */
        (void)close(fd);
        return rc;
    }
    w->lock_fd = fd;
    return take_over(w, true, now_ns);
}

/** Somebody cut the board short, took it away or put something else in its place: readers get a
 * whole one again, which goes on where that was. */
static int mend(struct gs_board_writer *w, uint64_t now_ns)
{
    uint64_t beat_ns = w->board.beat_ns;
    int fd = create_board(w, now_ns);

    if (fd < 0)
        return fd;
    w->board.beat_ns = beat_ns;
    close_fd(&w->fd);
    w->fd = fd;
    return 1;
}

/** What has the name of the lock can never be one of ours: a folder, a link, another user's. */
static bool is_foreign(int rc)
{
    return rc == -EISDIR || rc == -ELOOP || rc == -EACCES || rc == -EPERM || rc == -ENXIO;
}

/** Open the file to lock. Returns a descriptor or -errno; is_foreign() where it is no such file. */
static int open_lock(const struct gs_board_writer *w, const char *name)
{
    int fd = openat(w->dir_fd, name,
                    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600);
    struct stat st;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid())
        return fd;
    (void)close(fd); /* nothing was written */
    return -EPERM;
}

int gs_board_elect(struct gs_board_writer *w, uint64_t now_ns)
{
    char name[NAME_BYTES];
    int fd, rc;

    lock_name(w, name);
    if (w->lock_fd >= 0) {
        if (is_named(w, name, w->lock_fd))
            return is_intact(w) ? 1 : mend(w, now_ns);
        gs_board_resign(w);
    }
    fd = open_lock(w, name);
    if (fd < 0)
        return is_foreign(fd) ? depose(w, now_ns) : fd;
    rc = lock_file(fd);
    if (rc == 0 && is_named(w, name, fd)) {
        w->lock_fd = fd;
        return take_over(w, false, now_ns);
    }
    (void)close(fd); /* nothing was written */
    if (rc == -EAGAIN || rc == -EACCES)
        return is_stuck(w, now_ns) ? depose(w, now_ns) : 0;
    return rc; /* 0: another lock was put in its place just now */
}

/** Where a slice's cumulative refund goes on: as the writer before us had it, where that can be
 * this slice and not one whose inode it got; else where its hooks are. */
static uint64_t first_refund(const struct gs_board_writer *w, const struct gs_ledgers_slice *s,
                             uint64_t now_ns)
{
    uint64_t beat = w->board.beat_ns, seen = s->refund_seen_ns;

    if (beat > now_ns || now_ns - beat > ADOPT_NS)
        return seen;
    for (uint32_t i = 0; i < w->board.n_slices; i++) {
        const struct gs_board_slice *b = &w->board.slice[i];

        if (b->ledger_dev == s->arbiter.ledger_dev && b->ledger_ino == s->arbiter.ledger_ino)
            return b->refund_ns >= seen && b->refund_ns - seen <= ADOPT_NS ? b->refund_ns : seen;
    }
    return seen;
}

static void take_turns(struct gs_board_writer *w, uint64_t now_ns)
{
    bool any = false;

    for (uint32_t i = 0; i < w->ledgers.n; i++)
        any |= w->ledgers.slice[i]->managed_bytes != 0;
    if (any)
        gs_ledgers_read_memory(&w->ledgers);
    for (uint32_t i = 0; i < w->ledgers.n; i++) {
        const struct gs_ledgers_slice *s = w->ledgers.slice[i];
        bool waits = false;

        for (uint32_t j = 0; j < s->arbiter.n_processes; j++)
            waits |= gs_arbiter_is_waiting(&s->arbiter.process[j], now_ns);
        w->turn[i] = (struct gs_turns_slice){
            .key = {s->arbiter.ledger_dev, s->arbiter.ledger_ino},
            .fixed_bytes = any ? s->fixed_bytes : 0,
            .managed_bytes = s->managed_bytes,
            .demand_ns = s->arbiter.demand_ns,
            .is_high = s->arbiter.is_high,
            .is_waiting = waits,
        };
    }
    gs_turns_step(&w->turns, w->turn, w->ledgers.n, w->card_bytes, now_ns);
    for (uint32_t i = 0; i < w->ledgers.n; i++) /* for the next tick's lending */
        w->ledgers.slice[i]->arbiter.is_parked = w->turn[i].is_parked != 0;
}

static int publish(struct gs_board_writer *w, uint64_t now_ns)
{
    struct gs_board *b = &w->board;
    int rc;

    b->seq |= 1; /* odd: at work; also where the writer before us died at it */
    rc = write_at(w->fd, &b->seq, sizeof(b->seq), offsetof(struct gs_board, seq));
    b->n_slices = w->ledgers.n;
    b->beat_ns = now_ns;
    b->writer_pid = (uint64_t)getpid();
    b->refund_bin = w->arbiter.refund_bin;
    for (uint32_t i = 0; i < w->ledgers.n; i++) {
        const struct gs_arbiter_slice *s = &w->ledgers.slice[i]->arbiter;

        b->slice[i] = (struct gs_board_slice){
            .ledger_dev = s->ledger_dev,
            .ledger_ino = s->ledger_ino,
            .share_bp = s->share_bp,
            .flags = s->flags | (w->turn[i].is_parked ? GS_BOARD_PARK : 0),
            .refund_ns = s->refund_ns,
            .others = s->others,
        };
    }
    if (rc == 0)
        rc = write_at(
            w->fd, b,
            offsetof(struct gs_board, slice) + w->ledgers.n * sizeof(struct gs_board_slice), 0);
    b->seq++;
    if (rc == 0)
        rc = write_at(w->fd, &b->seq, sizeof(b->seq), offsetof(struct gs_board, seq));
    return rc;
}

/** The slices as they are now: those of the step before may be gone. */
static void list_slices(struct gs_board_writer *w)
{
    w->arbiter.n_slices = w->ledgers.n;
    for (uint32_t i = 0; i < w->ledgers.n; i++)
        w->arbiter.slice[i] = &w->ledgers.slice[i]->arbiter;
}

void gs_board_take_used(struct gs_board_writer *w, const struct gs_ledgers_used *used, int n,
                        uint64_t now_ns)
{
    uint32_t util_pct[GS_BOARD_USED_MAX], n_foreign = 0;

    for (int i = 0; i < n && i < GS_BOARD_USED_MAX; i++)
        if (used[i].util_pct != 0 && !gs_ledgers_knows(&w->ledgers, used[i].pid))
            util_pct[n_foreign++] = used[i].util_pct;
    if (n >= 0 && n < GS_BOARD_USED_MAX)
        gs_ledgers_take_used(&w->ledgers, used, (size_t)n, now_ns - USED_BACK_NS,
                             now_ns - USED_LAG_NS);
    list_slices(w);
    gs_arbiter_take_foreign(&w->arbiter, util_pct, n_foreign);
}

int gs_board_tick(struct gs_board_writer *w, uint64_t now_ns)
{
    gs_ledgers_read(&w->ledgers, now_ns);
    list_slices(w);
    for (uint32_t i = 0; i < w->ledgers.n; i++) {
        struct gs_ledgers_slice *s = w->ledgers.slice[i];

        /* before its ledger can be read there is nothing to go on from */
        if (!s->has_refund && s->device >= 0) {
            s->arbiter.refund_ns = first_refund(w, s, now_ns);
            s->has_refund = true;
        }
    }
    gs_arbiter_step(&w->arbiter, now_ns);
    take_turns(w, now_ns);
    return publish(w, now_ns);
}
