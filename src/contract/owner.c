#include "contract/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/size.h"
#include "core/str.h"

/* Raw system calls: the libc wrappers are cancellation points, and a thread cancelled in here would
 * leave the hook's words locked. */
static long read_file(const char *path, char *buf, size_t cap)
{
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    long n;

    if (fd < 0)
        return -errno;
    n = syscall(SYS_read, fd, buf, cap);
    if (n < 0)
        n = -errno;
    (void)syscall(SYS_close, fd); /* read only: nothing to lose */
    return n;
}

/** Fields after the last ')': the command name before it may hold anything. */
static int parse_stat(struct gs_str text, char *ret_state, uint64_t *ret_start)
{
    struct gs_str field = {NULL, 0};
    size_t n = text.n;

    while (n > 0 && text.p[n - 1] != ')')
        n--;
    if (n == 0 || text.n - n < 2)
        return -EPROTO;
    text.p += n + 1;
    text.n -= n + 1;
    for (unsigned i = 3; i <= 22; i++) {
        if (!gs_str_cut(&text, ' ', &field))
            return -EPROTO;
        if (i == 3 && field.n == 1)
            *ret_state = field.p[0];
    }
    return gs_size_parse_u64(field, ret_start) < 0 ? -EPROTO : 0;
}

int gs_owner_start(uint32_t pid, uint64_t *ret_start_ticks)
{
    char path[40], buf[1024], state = '?';
    struct gs_str_out out;
    uint64_t start;
    long n;
    int rc;

    gs_str_out_init(&out, path, sizeof(path));
    gs_str_put_c(&out, "/proc/");
    gs_str_put_u64(&out, pid);
    gs_str_put_c(&out, "/stat");
    n = read_file(path, buf, sizeof(buf));
    if (n == -ESRCH)
        return -ESRCH;
    if (n == -ENOENT) /* no such process, or no /proc at all */
        return syscall(SYS_faccessat, AT_FDCWD, "/proc/self/stat", F_OK, 0) == 0 ? -ESRCH : -ENOENT;
    if (n < 0)
        return (int)n;
    rc = parse_stat((struct gs_str){buf, (size_t)n}, &state, &start);
    if (rc < 0)
        return rc;
    if (state == 'Z' || state == 'X' || state == 'x')
        return -ESRCH;
    *ret_start_ticks = start;
    return 0;
}

int gs_owner_self(struct gs_owner *ret)
{
    struct gs_owner self = {.pid = (uint32_t)getpid()};
    int rc = gs_owner_start(self.pid, &self.start_ticks);

    if (rc == -ESRCH)
        rc = -ENOENT; /* we run: this /proc belongs to another pid namespace */
    if (rc < 0)
        return rc;
    *ret = self;
    return 0;
}

int gs_owner_is_alive(const struct gs_owner *owner)
{
    uint64_t start;
    int rc = gs_owner_start(owner->pid, &start);

    if (rc == -ESRCH)
        return 0;
    if (rc < 0)
        return rc;
    return start == owner->start_ticks;
}
