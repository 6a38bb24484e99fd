/* gpuslice rm: remove a slice, if need be with its processes. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "apps/gpuslice/book.h"
#include "apps/gpuslice/options.h"
#include "apps/gpuslice/slice.h"
#include "base/err.h"
#include "base/file.h"
#include "base/proc.h"

#define TERM_MS 5000
#define KILL_MS 5000
/** Processes of one slice: as many as have slots, and as many again that have not used a card. */
#define TARGETS_MAX (2 * GS_LEDGER_SLOTS)

/** Processes to end, by descriptor: a pid that returns cannot be hit by mistake. */
struct targets {
    struct pollfd fd[TARGETS_MAX];
    size_t n;
};

static int64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void add_target(struct targets *t, const struct gs_proc *p)
{
    struct gs_proc again;
    int fd;

    if (p->pid == getpid() || p->state == 'Z' || t->n == TARGETS_MAX)
        return;
    fd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (fd < 0)
        return; /* gone */
    if (gs_proc_read(p->pid, &again) != 0 || again.start_ticks != p->start_ticks) {
        gs_file_close(&fd);
        return;
    }
    t->fd[t->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void find_targets(const struct gs_slice *slice, struct targets *t)
{
    GS_CLEANUP(gs_proc_fini) struct gs_proc_table procs = {0};
    GS_CLEANUP(gs_book_fini) struct gs_book book = {0};
    const struct gs_proc *owner;
    bool led;

    if (gs_proc_list(&procs) != 0)
        return;                                      /* told by what is left */
    (void)!gs_book_read(slice->dir_fd, &book, NULL); /* none, or damaged: environments decide */
    owner = gs_proc_find(&procs, slice->owner_pid);
    led = owner && owner->start_ticks == slice->owner_start_ticks && owner->state != 'Z';
    for (size_t i = 0; i < procs.n; i++) {
        const struct gs_proc *p = &procs.p[i];
        uid_t uid;

        if (gs_proc_uid(p->pid, &uid) != 0 || uid != slice->uid)
            continue;
        if (gs_book_find(&book, (uint32_t)p->pid) || gs_slice_is_named_by(slice, p->pid) ||
            (led && gs_proc_descends(&procs, p->pid, owner->pid)))
            add_target(t, p);
    }
}

static void drop_target(struct targets *t, size_t i)
{
    gs_file_close(&t->fd[i].fd);
    t->fd[i] = t->fd[--t->n];
}

static void signal_all(struct targets *t, int signo)
{
    for (size_t i = t->n; i-- > 0;)
        if (syscall(SYS_pidfd_send_signal, t->fd[i].fd, signo, NULL, 0) != 0)
            drop_target(t, i); /* gone, or not ours to end */
}

static void wait_all(struct targets *t, int64_t limit_ms)
{
    int64_t end = now_ms() + limit_ms, left;

    while (t->n > 0 && (left = end - now_ms()) > 0) {
        if (poll(t->fd, t->n, (int)left) < 0 && errno != EINTR)
            return;
        for (size_t i = t->n; i-- > 0;)
            if (t->fd[i].revents)
                drop_target(t, i);
    }
}

static void terminate(const struct gs_slice *slice)
{
    static const struct {
        int signo;
        int64_t wait_ms;
    } round[] = {{SIGTERM, TERM_MS}, {SIGKILL, KILL_MS}};
    struct targets *t = calloc(1, sizeof(*t));

    /* what a dying process started meanwhile is found by the second round */
    for (size_t i = 0; t && i < GS_ARRAY_LEN(round); i++) {
        while (t->n > 0)
            drop_target(t, t->n - 1);
        find_targets(slice, t);
        signal_all(t, round[i].signo);
        wait_all(t, round[i].wait_ms);
    }
    while (t && t->n > 0)
        drop_target(t, t->n - 1);
    free(t);
}

/* The `gpuslice run` in front of a process we ended removes the slice itself, at its own pace. */
static int remove_when_free(struct gs_slice *slice, int64_t limit_ms, struct gs_err *err)
{
    int64_t end = now_ms() + limit_ms;
    int rc;

    for (;;) {
        struct gs_slice_home_lock lock = {0};

        rc = gs_slice_lock_home(&lock, err);
        if (rc == 0)
            rc = gs_slice_remove(slice, err);
        gs_slice_unlock_home(&lock);
        if (rc != -EBUSY || now_ms() >= end)
            break;
        (void)poll(NULL, 0, 20);
    }
    return rc == -ENOENT ? 0 : rc;
}

static int remove_one(struct gs_slices *slices, const char *name, bool force)
{
    struct gs_slice *slice = gs_slices_find(slices, name);
    struct gs_err err = {0};
    int rc;

    if (!slice) {
        gs_app_say("no slice '%s'; 'gpuslice ls' lists them", name);
        return -ENOENT;
    }
    if (force)
        terminate(slice);
    rc = remove_when_free(slice, force ? KILL_MS : 0, &err);
    if (rc == -EBUSY)
        gs_app_say("%s; %s", err.text,
                   force ? "its processes could not be ended"
                         : "end its programs, or use rm --force");
    else if (rc != 0)
        gs_app_say("%s", err.text);
    return rc;
}

int gs_rm_main(const struct gs_opt_args *args)
{
    GS_CLEANUP(gs_proc_fini) struct gs_proc_table procs = {0};
    GS_CLEANUP(gs_slices_fini) struct gs_slices slices = {0};
    struct gs_err err = {0};
    int status = 0;

    (void)!gs_proc_list(&procs); /* without /proc the locks decide who lives */
    if (gs_slices_list(&procs, false, &slices, &err) != 0) {
        gs_app_say("%s", err.text);
        return GS_EXIT_FAILED;
    }
    for (int i = 0; i < args->n_rest; i++)
        if (remove_one(&slices, args->rest[i], args->value[GS_OPTION_FORCE] != NULL) != 0)
            status = GS_EXIT_FAILED;
    return status;
}
