#include "hook/ring.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "contract/env.h"
#include "core/atomics.h"
#include "core/size.h"
#include "hook/self.h"
#include "hook/sys.h"

static char log_path[256]; /**< empty: none, or log_fd */
static int log_fd = -1;

void gs_ring_configure(void)
{
    struct gs_str value = gs_str_of(getenv(GS_ENV_LOG));
    uint64_t fd;

    log_fd = -1;
    log_path[0] = '\0';
    if (gs_size_parse_u64(value, &fd) == 0 && fd <= INT32_MAX)
        log_fd = (int)fd;
    else
        (void)gs_str_to_field(value, log_path, sizeof(log_path)); /* too long: not logged */
}

long gs_ring_write(int fd, const char *line, size_t n)
{
    const uint64_t ours = UINT64_C(1) << (SIGPIPE - 1) | UINT64_C(1) << (SIGXFSZ - 1);
    const struct timespec now = {0, 0};
    uint64_t before = 0, pending = 0, take;
    long rc;

    rc = GS_SYS(SYS_rt_sigprocmask, SIG_BLOCK, &ours, &before, sizeof(ours));
    if (rc < 0)
        return rc;
    (void)GS_SYS(SYS_rt_sigpending, &pending, sizeof(pending)); /* none known: none is kept */
    rc = gs_sys_write(fd, line, n);
    take = ours & ~pending;
    if (take != 0 && (rc == -EPIPE || rc == -EFBIG))
        (void)GS_SYS(SYS_rt_sigtimedwait, &take, NULL, &now, sizeof(take)); /* ignored: none came */
    (void)GS_SYS(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
    return rc;
}

/** One write per line, so that lines of several processes do not mix. */
static void write_line(const struct gs_ledger_event *event)
{
    char line[320];
    struct gs_str_out out;
    int fd = log_fd;

    if (fd < 0 && log_path[0] == '\0')
        return;
    gs_str_out_init(&out, line, sizeof(line) - 1);
    gs_str_put_c(&out, "gpuslice[");
    gs_str_put_u64(&out, event->pid);
    gs_str_put_c(&out, "]: ");
    gs_reason_put(&out, event);
    line[out.n++] = '\n';
    if (fd < 0)
        fd = gs_sys_openat(AT_FDCWD, log_path,
                           O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
                           0600); /* of a pipe nobody reads: fails at once */
    if (fd < 0)
        return;
    (void)gs_ring_write(fd, line, out.n); /* a full log is no reason to fail */
    if (log_fd < 0)
        gs_sys_close(fd);
}

static void write_ring(struct gs_ledger *ledger, const struct gs_ledger_event *event)
{
    uint64_t pos = gs_atomic_add(&ledger->head.ring_next, 1, __ATOMIC_RELAXED);
    struct gs_ledger_event *e = &ledger->ring[pos % GS_LEDGER_RING];

    /* odd while written; the reader takes an event only if seq was even and the same before and
     * after */
    gs_atomic_store(&e->seq, 2 * pos + 1, __ATOMIC_RELAXED);
    /* word by word: a writer a whole round behind may be at this entry still; the text that then
     * comes out is mixed, not wild. Release: whoever sees a word sees the odd number before it (a
     * fence would do, but ThreadSanitizer does not know fences) */
    for (size_t i = 1; i < sizeof(*e) / 8; i++)
        gs_atomic_store((uint64_t *)e + i, ((const uint64_t *)event)[i], __ATOMIC_RELEASE);
    gs_atomic_store(&e->seq, 2 * (pos + 1), __ATOMIC_RELEASE);
}

void gs_ring_log(enum gs_reason reason, uint32_t dev, const char *what, const uint64_t arg[4])
{
    struct gs_self_state *self = &gs_self;
    struct gs_str name = gs_str_of(what);
    struct gs_ledger_event event = {
        .time_ns = gs_sys_clock_ns(CLOCK_REALTIME),
        .pid = self->pid != 0 ? self->pid : (uint32_t)getpid(),
        .reason = (uint16_t)reason,
        .device = dev < GS_LEDGER_DEVICES ? (uint16_t)dev : GS_RING_NO_DEVICE,
    };

    if (name.n >= sizeof(event.what))
        name.n = sizeof(event.what) - 1;
    if (name.n > 0)
        memcpy(event.what, name.p, name.n);
    if (arg != NULL)
        memcpy(event.arg, arg, sizeof(event.arg));
    if (self->ledger != NULL)
        write_ring(self->ledger, &event);
    write_line(&event);
}
