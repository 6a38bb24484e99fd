#include "apps/gpuslice/slice.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "apps/gpuslice/book.h"
#include "apps/gpuslice/debt.h"
#include "apps/gpuslice/home.h"
#include "apps/gpuslice/log.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"
#include "contract/env.h"
#include "contract/ledger.h"

#define OWNER_MAX 1024

const char *gs_slice_state_text(enum gs_slice_state state)
{
    static const char *const text[GS_SLICE_STATE_COUNT] = {"running", "orphaned", "dead",
                                                           "damaged"};

    return text[state];
}

bool gs_slice_is_name(const char *name)
{
    static const char ok[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t n = strlen(name);

    /* no dot in front (hidden names are ours), no dash (it would be an option) */
    return n > 0 && n < GS_SLICE_NAME && strspn(name, ok) == n && name[0] != '.' && name[0] != '-';
}

void gs_slice_init(struct gs_slice *slice)
{
    memset(slice, 0, sizeof(*slice));
    slice->dir_fd = -1;
    slice->lock_fd = -1;
}

void gs_slice_fini(struct gs_slice *slice)
{
    if (!slice)
        return;
    gs_file_close(&slice->dir_fd);
    gs_file_close(&slice->lock_fd);
}

bool gs_slice_is_named_by(const struct gs_slice *slice, pid_t pid)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf value = {0};
    GS_CLEANUP(gs_buf_fini) struct gs_buf path = {0};

    if (gs_proc_env(pid, GS_ENV_QUOTA_DIR, &value) != 0)
        return false;
    gs_buf_addf(&path, "%s/%s", slice->base, slice->name);
    return gs_buf_check(&path) == 0 && strcmp(gs_buf_text(&value), gs_buf_text(&path)) == 0;
}

/* The format is ours and the folder private, yet a file may be cut short by a full disk: parse all.
 */
static int read_owner(struct gs_slice *slice)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    const char *command;
    int version = 0, at = -1, rc = gs_file_read(slice->dir_fd, "owner", OWNER_MAX, &buf);

    if (rc != 0)
        return rc;
    if (sscanf(gs_buf_text(&buf),
               "gpuslice-slice %d owner %d %" SCNu64 " created %" SCNu64 " command %n", &version,
               &slice->owner_pid, &slice->owner_start_ticks, &slice->created_ns, &at) != 4 ||
        version != 1 || at < 0)
        return -EBADMSG;
    command = gs_buf_text(&buf) + at;
    (void)snprintf(slice->command, sizeof(slice->command), "%.*s", (int)strcspn(command, "\n"),
                   command);
    return 0;
}

/* More than the owner: one small file for each that joined. What cannot be read is not a member. */
static void read_members(struct gs_slice *slice)
{
    int fd = openat(slice->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (fd >= 0 && !dir)
        gs_file_close(&fd);
    slice->member[0] = (struct gs_slice_member){slice->owner_pid, slice->owner_start_ticks};
    slice->n_members = 1;
    while (dir && slice->n_members < GS_SLICE_MEMBERS && (entry = readdir(dir)) != NULL) {
        GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
        struct gs_slice_member m;

        if (strncmp(entry->d_name, "member-", 7) == 0 &&
            gs_file_read(slice->dir_fd, entry->d_name, 64, &buf) == 0 &&
            sscanf(gs_buf_text(&buf), "%d %" SCNu64, &m.pid, &m.start_ticks) == 2)
            slice->member[slice->n_members++] = m;
    }
    if (dir)
        (void)closedir(dir); /* read only */
}

bool gs_slice_is_held(int dir_fd)
{
    GS_CLEANUP(gs_file_close)
    int fd = openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* Processes that outlived the `gpuslice run`: those with a live slot in the ledger, and those that
 * were started in the slice and have not used a card yet. */
static bool has_processes(const struct gs_slice *slice, const struct gs_proc_table *procs)
{
    if (gs_book_has_live(slice->dir_fd))
        return true;
    for (size_t i = 0; procs && i < procs->n; i++)
        if (procs->p[i].state != 'Z' && procs->p[i].pid != getpid() &&
            gs_slice_is_named_by(slice, procs->p[i].pid))
            return true;
    return false;
}

/* Without books nothing is in use. */
static void read_uses(struct gs_slice *slice)
{
    GS_CLEANUP(gs_book_fini) struct gs_book book = {0};

    if (gs_book_read(slice->dir_fd, &book, NULL) != 0)
        return;
    for (uint32_t i = 0; i < slice->quota.n_devices; i++) {
        const struct gs_book_device *d = gs_book_find_device(&book, slice->quota.device[i].uuid);

        slice->used_bytes[i] = d ? d->used_bytes : 0;
    }
}

int gs_slice_load(struct gs_slice *slice, int base_fd, const struct gs_proc_table *procs)
{
    int fd = gs_file_open_private(base_fd, slice->name, slice->uid, NULL), rc;

    if (fd < 0)
        return fd;
    slice->dir_fd = fd;
    rc = gs_book_limits(slice->dir_fd, &slice->quota);
    if (rc == 0)
        rc = read_owner(slice);
    read_members(slice);
    if (gs_slice_is_held(slice->dir_fd))
        slice->state = rc == 0 ? GS_SLICE_RUNNING : GS_SLICE_DAMAGED;
    else if (has_processes(slice, procs))
        slice->state = rc == 0 ? GS_SLICE_ORPHAN : GS_SLICE_DAMAGED;
    else
        slice->state = GS_SLICE_DEAD;
    if (slice->state != GS_SLICE_DEAD)
        read_uses(slice);
    return 0;
}

/* Shared, so that the creator and those who joined hold it together. @wait for a collector to
 * decide. */
static int lock_slice(struct gs_slice *slice, bool wait)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    GS_CLEANUP(gs_file_close)
    int fd = openat(slice->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat st;

    if (fd < 0)
        return -errno;
    while (fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock) != 0)
        if (errno != EINTR)
            return -errno;
    if (fstat(fd, &st) != 0 || st.st_nlink == 0)
        return -ENOENT; /* removed while we waited */
    slice->lock_fd = fd;
    fd = -1;
    return 0;
}

static int write_owner(struct gs_slice *slice, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf buf = {0};
    struct gs_proc self = {0};
    struct timespec now;
    int rc = gs_proc_read(getpid(), &self);

    if (rc != 0 && rc != -ENOENT)
        return gs_err_set(err, rc, "read /proc/self/stat: %s", strerror(-rc));
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
    slice->owner_pid = getpid();
    slice->owner_start_ticks = self.start_ticks; /* 0 without /proc: the lock decides alone then */
    slice->created_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    for (char *c = slice->command; *c; c++)
        if ((unsigned char)*c < 0x20)
            *c = ' ';
    gs_buf_addf(&buf, "gpuslice-slice 1\nowner %d %" PRIu64 "\ncreated %" PRIu64 "\ncommand %s\n",
                slice->owner_pid, slice->owner_start_ticks, slice->created_ns, slice->command);
    if (gs_buf_check(&buf) != 0)
        return gs_err_set(err, -ENOMEM, "out of memory");
    return gs_file_write(slice->dir_fd, "owner", buf.p, buf.n, err);
}

int gs_slice_write_quota(const struct gs_slice *slice, const struct gs_quota *quota,
                         struct gs_err *err)
{
    char text[GS_QUOTA_MAX_BYTES];
    int n = gs_quota_format(quota, text, sizeof(text));

    if (n < 0)
        return gs_err_set(err, n, "the limits make no valid quota file: %s", strerror(-n));
    return gs_file_write(slice->dir_fd, GS_QUOTA_FILE, text, (size_t)n, err);
}

/* The hook makes the ledger, in a program that can tell nobody when there is no room. Take the room
 * now: a file of zeros is one that its creator has not come to. */
static int take_room(struct gs_slice *slice, struct gs_err *err)
{
    const uint64_t bytes = gs_ledger_file_bytes(slice->quota.n_devices);
    GS_CLEANUP(gs_file_close)
    int fd =
        openat(slice->dir_fd, GS_SLICE_LEDGER, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);

    if (rc == EFBIG)
        return gs_err_set(err, -rc,
                          "the ledger of a slice needs a file of %" PRIu64
                          " bytes, more than this shell allows: raise 'ulimit -f'",
                          bytes);
    if (rc != 0)
        return gs_err_set(err, -rc,
                          "no room for the ledger of a slice (%" PRIu64
                          " bytes) in %s: %s; make room there, or set XDG_RUNTIME_DIR to another "
                          "private folder",
                          bytes, slice->base, strerror(rc));
    return 0;
}

/* What lies there may be no slice, and then `gpuslice ls` does not tell of it. */
static int name_is_not_free(const struct gs_slice *slice, int base_fd, int rc, struct gs_err *err)
{
    GS_CLEANUP(gs_file_close) int fd = -1;

    if (rc != -EEXIST)
        return gs_err_set(err, rc, "name slice '%s': %s", slice->name, strerror(-rc));
    fd = gs_file_open_private(base_fd, slice->name, slice->uid, err);
    if (fd < 0)
        return gs_err_wrap(err, rc, "the name '%s' is taken in %s by what is no slice", slice->name,
                           slice->base);
    return gs_err_set(err, rc, "a slice named '%s' exists", slice->name);
}

/* A slice appears complete or not at all: it is made under a hidden name and renamed. */
static int build_and_rename(struct gs_slice *slice, int base_fd, const char *hidden,
                            struct gs_err *err)
{
    int rc;

    slice->dir_fd = gs_file_make_private(base_fd, hidden, err);
    if (slice->dir_fd < 0)
        return slice->dir_fd;
    rc = take_room(slice, err);
    if (rc == 0)
        rc = gs_slice_write_quota(slice, &slice->quota, err);
    if (rc == 0)
        rc = write_owner(slice, err);
    if (rc == 0) {
        gs_debt_hand(slice);
        rc = lock_slice(slice, false);
        if (rc != 0)
            return gs_err_set(err, rc, "lock slice '%s': %s", slice->name, strerror(-rc));
        if (renameat2(base_fd, hidden, base_fd, slice->name, RENAME_NOREPLACE) != 0)
            rc = name_is_not_free(slice, base_fd, -errno, err);
    }
    return rc;
}

int gs_slice_create(struct gs_slice *slice, struct gs_err *err)
{
    GS_CLEANUP(gs_file_close) int base_fd = gs_slice_home(slice->base, err);
    char hidden[64];
    int rc;

    if (base_fd < 0)
        return base_fd;
    slice->uid = geteuid();
    (void)snprintf(hidden, sizeof(hidden), ".new-%d", getpid());
    (void)!gs_file_remove_dir(base_fd, hidden,
                              NULL); /* left by a dead process of our pid, if any */
    rc = build_and_rename(slice, base_fd, hidden, err);
    if (rc != 0) {
        (void)!gs_file_remove_dir(base_fd, hidden,
                                  NULL); /* the first failure is the one to report */
        gs_slice_fini(slice);
    }
    return rc;
}

static int write_member(struct gs_slice *slice, struct gs_err *err)
{
    struct gs_proc self = {0};
    char name[32], text[64];
    int n;

    (void)!gs_proc_read(getpid(), &self); /* without /proc nobody looks for ancestors */
    (void)snprintf(name, sizeof(name), "member-%d", getpid());
    n = snprintf(text, sizeof(text), "%d %" PRIu64 "\n", getpid(), self.start_ticks);
    return gs_file_write(slice->dir_fd, name, text, (size_t)n, err);
}

int gs_slice_hold(struct gs_slice *slice, struct gs_err *err)
{
    int rc = lock_slice(slice, true);

    if (rc == -ENOENT)
        return gs_err_set(err, rc, "slice '%s' has just ended", slice->name);
    if (rc != 0)
        return gs_err_set(err, rc, "lock slice '%s': %s", slice->name, strerror(-rc));
    return write_member(slice, err);
}

/* The name becomes free in any case: folders that a program made in its slice's, with something in
 * them, stay under a hidden name. */
static int remove_folder(const struct gs_slice *slice, int base_fd, struct gs_err *err)
{
    char aside[GS_SLICE_NAME + 64];
    int rc = gs_file_remove_dir(base_fd, slice->name, err);

    if (rc == 0 || rc == -ENOENT)
        return rc;
    (void)snprintf(aside, sizeof(aside), ".rest-%s.%" PRIu64, slice->name, slice->created_ns);
    return renameat(base_fd, slice->name, base_fd, aside) == 0 ? 0 : rc;
}

int gs_slice_remove(struct gs_slice *slice, struct gs_err *err)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    GS_CLEANUP(gs_proc_fini) struct gs_proc_table procs = {0};
    GS_CLEANUP(gs_file_close) int lock_fd = -1;
    GS_CLEANUP(gs_file_close) int base_fd = -1;
    int rc;

    gs_file_close(&slice->lock_fd);
    base_fd = gs_file_open_private(AT_FDCWD, slice->base, slice->uid, err);
    if (base_fd < 0)
        return base_fd;
    lock_fd = openat(slice->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    /* where it is no file any more nobody can hold it, and processes decide alone */
    if (lock_fd < 0 && errno != ELOOP && errno != EISDIR)
        return gs_err_set(err, -errno, "open lock of slice '%s': %s", slice->name, strerror(errno));
    if (lock_fd >= 0 && fcntl(lock_fd, F_OFD_SETLK, &lock) != 0)
        return gs_err_set(err, -EBUSY, "slice '%s' is in use", slice->name);
    (void)!gs_proc_list(&procs); /* without /proc the ledger's locks decide */
    if (has_processes(slice, &procs))
        return gs_err_set(err, -EBUSY, "processes of slice '%s' are still alive", slice->name);
    gs_log_keep(slice, base_fd);
    gs_debt_keep(slice, base_fd);
    rc = remove_folder(slice, base_fd, err);
    return rc == 0 ? 0 : gs_err_wrap(err, rc, "remove slice '%s'", slice->name);
}
