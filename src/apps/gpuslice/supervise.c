#include "apps/gpuslice/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "base/file.h"

/** Signals that are passed on. SIGCHLD is taken as well; SIGTSTP also stops us. */
static const int passed_on[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                                SIGUSR2, SIGALRM, SIGCONT, SIGTSTP, SIGWINCH};

struct watch {
    sigset_t before; /**< mask to give back to the child */
    struct sigaction chld_before;
    int signal_fd;
    int tty; /**< controlling terminal where we are its foreground group, else -1 */
    pid_t child;
    int status;
    bool ended;
};

static int watch_open(struct watch *w)
{
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < GS_ARRAY_LEN(passed_on); i++)
        (void)sigaddset(&set, passed_on[i]);
    (void)sigaddset(&set, SIGCHLD);
    /* an inherited SIG_IGN would have the kernel drop exit statuses */
    if (sigaction(SIGCHLD, &dfl, &w->chld_before) != 0 ||
        sigprocmask(SIG_BLOCK, &set, &w->before) != 0)
        return -errno;
    w->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
    if (w->signal_fd < 0)
        return -errno;
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return -errno;
    w->tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (w->tty >= 0 && tcgetpgrp(w->tty) != getpgrp())
        gs_file_close(&w->tty);
    return 0;
}

/* A shell that was killed leaves its own group in front; the terminal is ours to hand back. */
static void watch_close(struct watch *w)
{
    sigset_t ttou;

    if (w->tty >= 0 && tcgetpgrp(w->tty) != getpgrp()) {
        (void)sigemptyset(&ttou);
        (void)sigaddset(&ttou, SIGTTOU);
        (void)sigprocmask(SIG_BLOCK, &ttou,
                          NULL);            /* a background group that sets it would be stopped */
        (void)tcsetpgrp(w->tty, getpgrp()); /* a lost terminal needs no front */
        (void)sigprocmask(SIG_UNBLOCK, &ttou, NULL);
    }
    gs_file_close(&w->tty);
    gs_file_close(&w->signal_fd);
}

/* In the child; does not return. */
static void start(const struct watch *w, char *const *argv, int report_fd)
{
    int cause;

    (void)sigaction(SIGCHLD, &w->chld_before, NULL);
    (void)sigprocmask(SIG_SETMASK, &w->before, NULL);
    (void)execvp(argv[0], argv);
    cause = errno;
    if (write(report_fd, &cause, sizeof(cause)) < 0)
        _exit(GS_EXIT_SELF);
    _exit(cause == ENOENT ? GS_EXIT_NOT_FOUND : GS_EXIT_NOT_EXEC);
}

/* Returns 0 when the program runs; else the exit status, after a message. */
static int launch(struct watch *w, char *const *argv)
{
    int report[2], cause = 0;
    ssize_t n;

    if (pipe2(report, O_CLOEXEC) != 0) {
        gs_app_say("cannot create a pipe: %s", strerror(errno));
        return GS_EXIT_SELF;
    }
    w->child = fork();
    if (w->child == 0)
        start(w, argv, report[1]);
    cause = errno;
    gs_file_close(&report[1]);
    if (w->child < 0) {
        gs_file_close(&report[0]);
        gs_app_say("cannot start a process: %s", strerror(cause));
        return GS_EXIT_SELF;
    }
    do {
        n = read(report[0], &cause, sizeof(cause));
    } while (n < 0 && errno == EINTR);
    gs_file_close(&report[0]);
    if (n != (ssize_t)sizeof(cause))
        return 0;                     /* closed by exec */
    (void)waitpid(w->child, NULL, 0); /* it has told its end already */
    gs_app_say("cannot run '%s': %s", argv[0], strerror(cause));
    return cause == ENOENT ? GS_EXIT_NOT_FOUND : GS_EXIT_NOT_EXEC;
}

static void reap(struct watch *w)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != w->child)
            continue;
        w->status = status;
        w->ended = true;
    }
}

/* Stop as the default action would: the kernel knows whether anybody is left who could continue us.
 */
static void stop_self(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTSTP);
    (void)raise(SIGTSTP);
    (void)sigprocmask(SIG_UNBLOCK, &set, NULL); /* stops here, returns when continued */
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
}

static void pass_on(struct watch *w, const struct signalfd_siginfo *info)
{
    int signo = (int)info->ssi_signo;
    bool from_terminal = info->ssi_code == SI_KERNEL, same_group = getpgid(w->child) == getpgrp();

    /* The terminal signals its whole foreground group; only a hang-up may be for the session leader
     * alone. A child that signals its own group has had the signal as well. */
    if (!(from_terminal && same_group && signo != SIGHUP) && info->ssi_pid != (uint32_t)w->child)
        (void)kill(w->child, signo); /* not yet waited for, so the pid is still its own */
    if (signo == SIGTSTP)
        stop_self();
}

static int wait_for_end(struct watch *w)
{
    while (!w->ended) {
        struct signalfd_siginfo info;
        ssize_t n = read(w->signal_fd, &info, sizeof(info));

        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof(info))
            return -EIO;
        if (info.ssi_signo == SIGCHLD)
            reap(w);
        else
            pass_on(w, &info);
    }
    return 0;
}

int gs_supervise_run(char *const *argv, void (*started)(void *arg), void *arg)
{
    struct watch w = {.signal_fd = -1, .tty = -1};
    int rc = watch_open(&w);

    if (rc != 0) {
        gs_app_say("cannot watch a child: %s", strerror(-rc));
        watch_close(&w);
        return GS_EXIT_SELF;
    }
    rc = launch(&w, argv);
    if (rc == 0) {
        started(arg);
        if (wait_for_end(&w) != 0) {
            gs_app_say("cannot wait for '%s'", argv[0]);
            rc = GS_EXIT_SELF;
        } else {
            rc = WIFSIGNALED(w.status) ? 128 + WTERMSIG(w.status) : WEXITSTATUS(w.status);
        }
    }
    watch_close(&w);
    return rc;
}
