#include "apps/gpuslice/control.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "apps/gpuslice/slice.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"
#include "contract/ledger.h"
#include "contract/quota.h"

/** A slice's ledger, open for writing, and what was read of it. */
struct target {
    int fd;
    struct gs_ledger_snapshot *books;
};

static void close_target(struct target *t)
{
    gs_file_close(&t->fd);
    free(t->books);
    t->books = NULL;
}

/* 0; -ENODATA nobody has made the ledger yet. */
static int open_target(int dir_fd, struct target *t, struct gs_err *err)
{
    int rc;

    t->fd = openat(dir_fd, GS_SLICE_LEDGER, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (t->fd < 0)
        return errno == ENOENT ? -ENODATA
                               : gs_err_set(err, -errno, "open the ledger: %s", strerror(errno));
    t->books = malloc(sizeof(*t->books));
    if (!t->books)
        return gs_err_set(err, -ENOMEM, "out of memory");
    rc = gs_ledger_read(t->fd, t->books);
    if (rc == -EPROTO)
        return gs_err_set(err, -EBADMSG, "the ledger is damaged or of another version");
    return rc == 0 || rc == -ENODATA ? rc
                                     : gs_err_set(err, rc, "read the ledger: %s", strerror(-rc));
}

static int put(const struct target *t, uint64_t at, const void *word, size_t n, struct gs_err *err)
{
    if (pwrite(t->fd, word, n, (off_t)at) != (ssize_t)n)
        return gs_err_set(err, -EIO, "write the ledger: %s", strerror(errno));
    return 0;
}

static int put_head(const struct target *t, size_t at, uint64_t value, struct gs_err *err)
{
    return put(t, GS_LEDGER_OFFSET + at, &value, sizeof(value), err);
}

/* Does the process catch the signal at this moment? A slot outlives an exec, after which the signal
 * would end the program. Source: proc(5), /proc/pid/status, SigCgt. */
static bool catches(int32_t pid, int signo)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    char path[64];
    const char *line;
    uint64_t mask;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
    if (gs_file_read(AT_FDCWD, path, 16384, &text) != 0)
        return false;
    line = strstr(gs_buf_text(&text), "\nSigCgt:");
    return line && sscanf(line, "\nSigCgt: %" SCNx64, &mask) == 1 && ((mask >> (signo - 1)) & 1u);
}

/* To the very process that holds the slot: its lock is gone after an exec, and pids return. */
static bool send_signal(const struct target *t, uint32_t slot, int signo)
{
    const struct gs_ledger_slot *s = &t->books->slot[slot];
    int32_t pid = t->books->holder_pid[slot];
    GS_CLEANUP(gs_file_close) int fd = -1;
    struct gs_proc proc;

    if (pid <= 0 || (s->flags & GS_SLOT_SIGNALS) == 0)
        return false;
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 || gs_proc_read(pid, &proc) != 0 || proc.start_ticks != s->start_ticks)
        return false;
    return catches(pid, SIGUSR1) && catches(pid, SIGUSR2) &&
           syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) == 0;
}

static uint64_t status_at(uint32_t slot)
{
    return offsetof(struct gs_hami_region, slot) + slot * sizeof(struct gs_hami_slot) +
           offsetof(struct gs_hami_slot, status);
}

static int32_t read_status(const struct target *t, uint32_t slot)
{
    int32_t status;

    return pread(t->fd, &status, sizeof(status), (off_t)status_at(slot)) == sizeof(status)
               ? status
               : GS_HAMI_DEAD;
}

int gs_control_announce(int dir_fd, uint64_t generation, bool was_straight,
                        struct gs_control_reach *ret_reach, struct gs_err *err)
{
    GS_CLEANUP(close_target) struct target t = {.fd = -1};
    int rc = open_target(dir_fd, &t, err);

    memset(ret_reach, 0, sizeof(*ret_reach));
    if (rc == -ENODATA)
        return 0;
    if (rc == 0)
        rc = put_head(&t, offsetof(struct gs_ledger_head, quota_wanted), generation, err);
    for (uint32_t i = 0; rc == 0 && i < t.books->n_slots; i++) {
        if (!t.books->is_live[i])
            continue;
        ret_reach->processes++;
        if (!was_straight)
            continue;
        /* either signal makes it look; this one leaves its state as it is */
        if (send_signal(&t, i, read_status(&t, i) == GS_HAMI_SUSPENDED ? SIGUSR2 : SIGUSR1))
            ret_reach->signalled++;
        else
            ret_reach->deaf++;
    }
    return rc;
}

/* The word first, then the signal, so that whoever is woken sees it. */
static int suspend_slot(const struct target *t, uint32_t slot, bool suspend, bool is_straight,
                        struct gs_control_reach *reach, struct gs_err *err)
{
    const int32_t from = suspend ? GS_HAMI_RUNNING : GS_HAMI_SUSPENDED;
    const int32_t to = suspend ? GS_HAMI_SUSPENDED : GS_HAMI_RUNNING;
    int rc = 0;

    reach->processes++;
    if (read_status(t, slot) == from) { /* another one: ended meanwhile */
        reach->is_new = true;
        rc = put(t, status_at(slot), &to, sizeof(to), err);
    }
    if (rc != 0 || !is_straight)
        return rc;
    if (send_signal(t, slot, suspend ? SIGUSR2 : SIGUSR1))
        reach->signalled++;
    else
        reach->deaf++;
    return 0;
}

int gs_control_suspend(int dir_fd, bool suspend, bool is_straight,
                       struct gs_control_reach *ret_reach, struct gs_err *err)
{
    GS_CLEANUP(close_target) struct target t = {.fd = -1};
    int rc = open_target(dir_fd, &t, err);

    memset(ret_reach, 0, sizeof(*ret_reach));
    if (rc == -ENODATA)
        return gs_err_set(err, -ENOENT, "no program of it has used a card yet");
    if (rc == 0)
        ret_reach->is_new = (t.books->suspended != 0) != suspend;
    /* before the slots: a process that attaches now writes its own and looks at this one again */
    if (rc == 0)
        rc = put_head(&t, offsetof(struct gs_ledger_head, suspended), suspend, err);
    if (rc == 0) /* who attached before that is in the slots by now */
        rc = gs_ledger_read(t.fd, t.books);
    for (uint32_t i = 0; rc == 0 && i < t.books->n_slots; i++)
        if (t.books->is_live[i])
            rc = suspend_slot(&t, i, suspend, is_straight, ret_reach, err);
    return rc;
}

bool gs_control_is_straight(const struct gs_quota *quota)
{
    for (uint32_t i = 0; i < quota->n_devices; i++)
        if (quota->device[i].core_pct < 100 && quota->device[i].policy != GS_POLICY_OFF)
            return false;
    return quota->priority == GS_PRIORITY_NONE && !quota->oversubscribe;
}
