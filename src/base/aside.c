#include "base/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"

static uint64_t now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with this clock */
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* In the child; does not return. */
static void answer(void (*work)(const void *arg, int out_fd), const void *arg, int out_fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd >= 0) {
        (void)dup2(null_fd, STDOUT_FILENO);
        (void)dup2(null_fd, STDERR_FILENO);
    }
    work(arg, out_fd);
    _exit(0);
}

/* Until the other end is closed, the answer is full or time is up. */
static int collect(int fd, unsigned timeout_ms, char *answer_to, size_t cap)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    uint64_t end = now_ms() + timeout_ms, now;
    size_t n = 0;

    while (n < cap) {
        ssize_t part;

        now = now_ms();
        if (now >= end)
            return -ETIMEDOUT;
        if (poll(&ready, 1, (int)(end - now)) <= 0)
            continue; /* interrupted, or the time is up */
        part = read(fd, answer_to + n, cap - n);
        if (part < 0 && errno != EINTR)
            return -errno;
        if (part == 0)
            break;
        n += part > 0 ? (size_t)part : 0;
    }
    return (int)n;
}

int gs_aside_ask(void (*work)(const void *arg, int out_fd), const void *arg, unsigned timeout_ms,
                 void *ret_answer, size_t cap, struct gs_err *err)
{
    GS_CLEANUP(gs_file_close) int from = -1;
    int ends[2], rc;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return gs_err_set(err, -errno, "pipe: %s", strerror(errno));
    from = ends[0];
    child = fork();
    if (child == 0)
        answer(work, arg, ends[1]);
    rc = child < 0 ? -errno : 0;
    gs_file_close(&ends[1]);
    if (rc < 0)
        return gs_err_set(err, rc, "cannot start a process: %s", strerror(-rc));
    rc = collect(from, timeout_ms, ret_answer, cap);
    (void)kill(child, SIGKILL); /* done or hanging: what it holds goes with it */
    (void)waitpid(child, NULL, 0);
    return rc >= 0 ? rc : gs_err_set(err, rc, "no answer: %s", strerror(-rc));
}
