#include "hook/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contract/env.h"
#include "contract/trace.h"
#include "core/str.h"
#include "hook/ring.h"
#include "hook/self.h"
#include "hook/sys.h"

static char path[GS_SELF_PATH]; /**< empty: nothing is recorded */
static uint32_t named_pid;      /**< whose name stands in the file; not a forked child's */

static const char *const names[GS_WAIT_COUNT] = {
    [GS_WAIT_SHARE] = "share",       [GS_WAIT_QUEUE] = "queue",   [GS_WAIT_TURN] = "turn",
    [GS_WAIT_PRIORITY] = "priority", [GS_WAIT_MEMORY] = "memory", [GS_WAIT_SUSPEND] = "suspend",
};

void gs_trace_configure(void)
{
    struct gs_str value = gs_str_of(getenv(GS_ENV_TRACE));

    path[0] = '\0';
    __atomic_store_n(&named_pid, 0, __ATOMIC_RELAXED);
    if (value.n > 0 && value.p[0] == '/')
        (void)gs_str_to_field(value, path, sizeof(path)); /* too long: not recorded */
}

/** What goes between quotes: a UUID lies in memory that a tenant can write. */
static void put_quoted(struct gs_str_out *out, struct gs_str s)
{
    gs_str_put_char(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        gs_str_put_char(out, c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c);
    }
    gs_str_put_char(out, '"');
}

/** Microseconds, the format's unit, with three digits behind the point. */
static void put_us(struct gs_str_out *out, uint64_t ns)
{
    gs_str_put_u64(out, ns / 1000);
    gs_str_put_char(out, '.');
    gs_str_put_char(out, (char)('0' + ns / 100 % 10));
    gs_str_put_char(out, (char)('0' + ns / 10 % 10));
    gs_str_put_char(out, (char)('0' + ns % 10));
}

/** What the process calls itself; a thread may have another name. */
static size_t read_name(char *name, size_t size)
{
    int fd = gs_sys_openat(AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC, 0);
    long n = fd < 0 ? fd : gs_sys_read(fd, name, size);

    if (fd >= 0)
        gs_sys_close(fd);
    while (n > 0 && name[n - 1] == '\n')
        n--;
    return n > 0 ? (size_t)n : 0;
}

/** Before the first event of each process: viewers name its rows so. */
static void put_process(struct gs_str_out *out)
{
    const uint32_t pid = (uint32_t)GS_SYS(SYS_getpid);
    char name[32];
    size_t n;

    if (__atomic_exchange_n(&named_pid, pid, __ATOMIC_RELAXED) == pid)
        return;
    n = read_name(name, sizeof(name));
    gs_str_put_c(out, ",{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":");
    gs_str_put_u64(out, pid);
    gs_str_put_c(out, ",\"args\":{\"name\":");
    put_quoted(out, n > 0 ? (struct gs_str){name, n} : GS_STR("?"));
    gs_str_put_c(out, "}}\n");
}

static void put_event(struct gs_str_out *out, uint32_t dev, const char *reason, const char *what,
                      uint64_t start_ns, uint64_t end_ns)
{
    gs_str_put_c(out, ",{\"name\":\"wait: ");
    gs_str_put_c(out, reason);
    gs_str_put_c(out, "\",\"cat\":\"gpuslice\",\"ph\":\"X\",\"ts\":");
    put_us(out, start_ns);
    gs_str_put_c(out, ",\"dur\":");
    put_us(out, end_ns - start_ns);
    gs_str_put_c(out, ",\"pid\":");
    gs_str_put_u64(out, (uint64_t)GS_SYS(SYS_getpid));
    gs_str_put_c(out, ",\"tid\":");
    gs_str_put_u64(out, (uint64_t)GS_SYS(SYS_gettid));
    gs_str_put_c(out, ",\"args\":{\"what\":");
    put_quoted(out, gs_str_of(what));
    if (dev < gs_self.n_devices) {
        gs_str_put_c(out, ",\"device\":");
        put_quoted(out, gs_str_of_field(gs_self.uuid[dev], sizeof(gs_self.uuid[dev])));
    }
    gs_str_put_c(out, "}}\n");
}

/** The first of several processes makes the file, complete with its beginning: under a name of its
 * own, then linked, which fails where another was faster. */
static void create(void)
{
    static const char head[] = GS_TRACE_HEAD;
    char own[sizeof(path) + 32];
    struct gs_str_out out;
    int fd;

    gs_str_out_init(&out, own, sizeof(own));
    gs_str_put_c(&out, path);
    gs_str_put_c(&out, ".new-");
    gs_str_put_u64(&out, (uint64_t)GS_SYS(SYS_gettid));
    fd = gs_sys_openat(AT_FDCWD, own,
                       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
    if (fd < 0)
        return;
    if (gs_ring_write(fd, head, sizeof(head) - 1) == (long)sizeof(head) - 1)
        (void)GS_SYS(SYS_linkat, AT_FDCWD, own, AT_FDCWD, path, 0); /* there: as good */
    gs_sys_close(fd);
    (void)GS_SYS(SYS_unlinkat, AT_FDCWD, own, 0);
}

/** Append, once: a part of a line (a full disk) would spoil all that follows, so it is the last. */
static void append(const char *line, size_t n)
{
    const int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    int fd = gs_sys_openat(AT_FDCWD, path, flags, 0);

    if (fd == -ENOENT) {
        create();
        fd = gs_sys_openat(AT_FDCWD, path, flags, 0);
    }
    if (fd < 0)
        return; /* programs change their root, and files go: the next wait tries again */
    if (gs_ring_write(fd, line, n) != (long)n)
        path[0] = '\0';
    gs_sys_close(fd);
}

void gs_trace_wait(uint32_t dev, enum gs_wait_reason reason, const char *what, uint64_t start_ns,
                   uint64_t end_ns)
{
    char line[600];
    struct gs_str_out out;

    if (GS_LIKELY(path[0] == '\0') || end_ns < start_ns || end_ns - start_ns < GS_TRACE_MIN_NS ||
        (uint32_t)reason >= GS_WAIT_COUNT)
        return;
    gs_str_out_init(&out, line, sizeof(line));
    put_process(&out);
    put_event(&out, dev, names[reason], what != NULL ? what : "", start_ns, end_ns);
    if (!out.cut)
        append(line, out.n);
}
