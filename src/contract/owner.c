#include "contract/owner.h"

#include <elf.h>
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

static long read_proc(uint32_t pid, const char *name, void *buf, size_t cap)
{
    char path[40];
    struct gs_str_out out;

    gs_str_out_init(&out, path, sizeof(path));
    gs_str_put_c(&out, "/proc/");
    gs_str_put_u64(&out, pid);
    gs_str_put_c(&out, name);
    return read_file(path, buf, cap);
}

int gs_owner_start(uint32_t pid, uint64_t *ret_start_ticks)
{
    char buf[1024], state = '?';
    uint64_t start;
    long n;
    int rc;

    n = read_proc(pid, "/stat", buf, sizeof(buf));
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

/* What the kernel told a program when it began: addresses, most of them random. proc(5). */
struct auxiliary {
    uint64_t entry[128];
    size_t n; /* words */
};

static void read_auxiliary(uint32_t pid, struct auxiliary *ret)
{
    long n = read_proc(pid, "/auxv", ret->entry, sizeof(ret->entry));

    ret->n = n > 0 ? (size_t)n / sizeof(ret->entry[0]) : 0;
}

/** FNV-1a of the words. */
static uint64_t image_of(const struct auxiliary *aux)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (aux->n == 0)
        return 0;
    for (size_t i = 0; i < aux->n; i++)
        hash = (hash ^ aux->entry[i]) * UINT64_C(0x100000001b3);
    return hash != 0 ? hash : 1;
}

uint64_t gs_owner_image(uint32_t pid)
{
    struct auxiliary aux;

    read_auxiliary(pid, &aux);
    return image_of(&aux);
}

bool gs_owner_has_ended(uint64_t word, uint64_t image)
{
    uint32_t pid = (uint32_t)(word >> 32);
    uint64_t start, now;
    int rc = gs_owner_start(pid, &start);

    if (rc < 0)
        return rc == -ESRCH;
    if ((uint32_t)start != (uint32_t)word)
        return true;
    now = image != 0 ? gs_owner_image(pid) : 0;
    return now != 0 && now != image;
}

/** Our own image, of two sources. */
static void find_image(struct gs_owner *self)
{
    struct auxiliary aux;

    read_auxiliary(self->pid, &aux);
    self->image = image_of(&aux);
    for (size_t i = 0; i + 1 < aux.n; i += 2) {
        if (aux.entry[i] == AT_RANDOM && aux.entry[i + 1] != 0)
            memcpy(&self->once, (const void *)(uintptr_t)aux.entry[i + 1], sizeof(self->once));
    }
}

int gs_owner_self(struct gs_owner *ret)
{
    struct gs_owner self = {.pid = (uint32_t)getpid()};
    int rc = gs_owner_start(self.pid, &self.start_ticks);

    if (rc == -ESRCH)
        rc = -ENOENT; /* we run: this /proc belongs to another pid namespace */
    if (rc < 0)
        return rc;
    find_image(&self);
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
