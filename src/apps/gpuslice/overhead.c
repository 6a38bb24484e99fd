#include "apps/gpuslice/overhead.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/gpuslice/app.h"
#include "base/err.h"
#include "base/file.h"
#include "node/probe.h"

/** A driver that takes longer to create a context is not waited for. */
#define MEASURE_MS 20000

/* In the child; does not return. What the driver prints is not ours to show. */
static void measure(const struct gs_card *card, int report_fd)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    uint64_t bytes;

    if (null_fd >= 0) {
        (void)dup2(null_fd, STDOUT_FILENO);
        (void)dup2(null_fd, STDERR_FILENO);
    }
    if (card->vendor->context_bytes(card->uuid, &bytes, NULL) != 0 ||
        write(report_fd, &bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
        _exit(1);
    _exit(0);
}

/* Returns 0 with the cost, or negative errno where it stays unknown. */
static int ask(const struct gs_card *card, uint64_t *ret_bytes)
{
    int report[2], rc = -EIO;
    struct pollfd ready = {.events = POLLIN};
    pid_t child;

    if (pipe2(report, O_CLOEXEC) != 0)
        return -errno;
    child = fork();
    if (child == 0)
        measure(card, report[1]);
    gs_file_close(&report[1]);
    ready.fd = report[0];
    if (child > 0 && poll(&ready, 1, MEASURE_MS) == 1 &&
        read(report[0], ret_bytes, sizeof(*ret_bytes)) == (ssize_t)sizeof(*ret_bytes))
        rc = 0;
    gs_file_close(&report[0]);
    if (child > 0) {
        (void)kill(child, SIGKILL); /* done or hanging: its context goes with it */
        (void)waitpid(child, NULL, 0);
    }
    return rc;
}

int gs_overhead_check(const struct gs_card *card, uint64_t limit_bytes, struct gs_err *err)
{
    char cost[GS_APP_SIZE], limit[GS_APP_SIZE];
    uint64_t bytes = 0;

    if (limit_bytes >= GS_OVERHEAD_SURE || !card->vendor->context_bytes || ask(card, &bytes) != 0 ||
        bytes <= limit_bytes)
        return 0;
    (void)gs_app_size(bytes, cost);
    (void)gs_app_size(limit_bytes, limit);
    return gs_err_set(err, -ENOSPC,
                      "card %u: the driver needs %s (%" PRIu64
                      " bytes) for the context of each process, more than "
                      "the limit of %s; ask for more than that with --memory",
                      card->index, cost, bytes, limit);
}
