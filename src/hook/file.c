#include "hook/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "contract/env.h"
#include "contract/ledger.h"
#include "core/atomics.h"
#include "hook/mirror.h"
#include "hook/self.h"
#include "hook/step.h"
#include "hook/sys.h"

/* The byte whose record lock serialises creation: the first after the slots' bytes. */
#define CREATE_LOCK_BYTE GS_LEDGER_SLOTS
#define CREATE_WAIT_US   1000000u
/* Out of the way of programs that count on low numbers. */
#define FD_FLOOR 64

/** $CUDA_DEVICE_MEMORY_SHARED_CACHE, an absolute path, or /tmp/gpuslice-<uid>/env.cache. */
static int choose_path(char *buf, size_t cap, bool *ret_is_default)
{
    const char *env = getenv(GS_ENV_LEDGER);
    struct gs_str_out out;

    gs_str_out_init(&out, buf, cap);
    *ret_is_default = env == NULL || env[0] == '\0';
    if (*ret_is_default) {
        gs_str_put_c(&out, "/tmp/gpuslice-");
        gs_str_put_u64(&out, geteuid());
        gs_str_put_c(&out, "/env.cache");
    } else {
        gs_str_put_c(&out, env);
    }
    if (out.cut)
        return -ENAMETOOLONG;
    /* from another folder the same words would name another ledger, with all of the limit to give
     */
    return buf[0] == '/' ? 0 : -EINVAL;
}

/** Open the folder that `path` is in; `*ret_name` is what follows. */
static int open_folder(const char *path, bool is_default, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    int flags = O_PATH | O_DIRECTORY | O_CLOEXEC | (is_default ? O_NOFOLLOW : 0);
    char folder[sizeof(gs_self.path)];
    struct stat st;
    int fd;

    *ret_name = slash != NULL ? slash + 1 : path;
    if (slash == NULL || slash == path)
        memcpy(folder, "/", 2);
    else if (gs_str_to_field((struct gs_str){path, (size_t)(slash - path)}, folder,
                             sizeof(folder)) < 0)
        return -ENAMETOOLONG;
    if (is_default)
        (void)GS_SYS(SYS_mkdirat, AT_FDCWD, folder, 0700); /* may exist; what it is comes next */
    fd = gs_sys_openat(AT_FDCWD, folder, flags, 0);
    if (fd < 0 || !is_default)
        return fd;
    if (gs_sys_fstat(fd, &st) != 0 || st.st_uid != geteuid() || (st.st_mode & 077) != 0) {
        gs_sys_close(fd);
        return -EPERM;
    }
    return fd;
}

/** In a folder that everybody may write (HAMi's container folder), processes of other users of the
 * same container must be able to join. */
static void open_to_all(int folder, int fd)
{
    struct stat st;

    if (gs_sys_fstat(folder, &st) == 0 && (st.st_mode & S_IWOTH) != 0)
        (void)GS_SYS(SYS_fchmod, fd, 0666); /* else only our own user can join */
}

static int open_file(const char *path, bool is_default, bool may_create)
{
    const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    const char *name;
    int folder = open_folder(path, is_default, &name);
    int fd, high;

    if (folder < 0)
        return folder;
    fd = gs_sys_openat(folder, name, flags, 0);
    if (fd == -ENOENT && may_create) {
        fd = gs_sys_openat(folder, name, flags | O_CREAT, 0600);
        if (fd >= 0)
            open_to_all(folder, fd);
    }
    gs_sys_close(folder);
    if (fd < 0)
        return fd;
    high = (int)GS_SYS(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FD_FLOOR);
    if (high < 0)
        high = (int)GS_SYS(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 3);
    gs_sys_close(fd); /* before any lock is taken: closing would drop it */
    return high;
}

/** Make the file its full size, with blocks behind every page: a store to a mapped page of a full
 * file system would kill the program. */
static int allocate(int fd, uint64_t bytes)
{
    static const char zeros[4096];
    struct rlimit limit;
    int rc;

    /* beyond this limit the kernel would not only refuse but kill the program (SIGXFSZ) */
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
        return -EFBIG;
    rc = (int)GS_SYS(SYS_ftruncate, fd, (off_t)0);
    if (rc < 0)
        return rc;
    rc = (int)GS_SYS(SYS_fallocate, fd, 0, (off_t)0, (off_t)bytes);
    if (rc != -EOPNOTSUPP && rc != -ENOSYS)
        return rc;
    rc = (int)GS_SYS(SYS_ftruncate, fd, (off_t)bytes);
    for (uint64_t at = 0; rc == 0 && at < bytes; at += sizeof(zeros)) {
        uint64_t n = bytes - at < sizeof(zeros) ? bytes - at : sizeof(zeros);
        long done = GS_SYS(SYS_pwrite64, fd, zeros, n, (off_t)at);

        if (done < 0)
            rc = (int)done;
        else if ((uint64_t)done < n)
            rc = -ENOSPC;
    }
    return rc;
}

static int map(struct gs_self_state *self, uint32_t n_devices)
{
    uint64_t bytes = gs_ledger_file_bytes(n_devices);
    char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->fd, 0);
    struct stat st;

    if (base == MAP_FAILED)
        return gs_self_fail(GS_REASON_LEDGER_MAP, self->path, (uint64_t)errno, 0);
    self->region = (struct gs_hami_region *)(void *)base;
    self->ledger = (struct gs_ledger *)(void *)(base + GS_LEDGER_OFFSET);
    self->device = (struct gs_ledger_device *)(void *)(self->ledger + 1);
    self->map_bytes = bytes;
    self->n_mapped = n_devices;
    if (gs_sys_fstat(self->fd, &st) == 0) {
        self->file_dev = st.st_dev;
        self->file_ino = st.st_ino;
    }
    return 0;
}

/** Under the creation lock: the file is empty, or was left unfinished. */
static int create(struct gs_self_state *self, const struct gs_quota *quota)
{
    uint64_t bytes = gs_ledger_file_bytes(quota->n_devices);
    int rc = allocate(self->fd, bytes);

    if (rc < 0) {
        (void)GS_SYS(SYS_ftruncate, self->fd, (off_t)0); /* give back what was taken */
        return gs_self_fail(GS_REASON_LEDGER_SPACE, self->path, (uint64_t)-rc, bytes);
    }
    GS_STEP("create.allocated");
    rc = map(self, quota->n_devices);
    if (rc < 0)
        return rc;
    self->ledger->head.version = GS_LEDGER_VERSION;
    self->ledger->head.n_devices = quota->n_devices;
    self->ledger->head.file_bytes = bytes;
    self->ledger->head.quota_generation = quota->generation;
    self->ledger->head.created_ns = gs_sys_clock_ns(CLOCK_REALTIME);
    for (uint32_t i = 0; i < quota->n_devices; i++) {
        struct gs_ledger_device *d = &self->device[i];

        memcpy(d->uuid, quota->device[i].uuid, sizeof(d->uuid));
        d->limit_bytes = quota->device[i].limit_bytes;
        d->core_pct = quota->device[i].core_pct;
        d->policy = quota->device[i].policy;
    }
    GS_STEP("create.filled");
    gs_mirror_create(self->region, self->ledger, self->device, quota->priority == GS_PRIORITY_HIGH);
    /* release: whoever sees the magic sees the rest */
    gs_atomic_store(&self->ledger->head.magic, GS_LEDGER_MAGIC, __ATOMIC_RELEASE);
    GS_STEP("create.done");
    return 0;
}

/** Wait for our turn to create. 0, -ETIMEDOUT, or another -errno. */
static int lock_creation(int fd)
{
    struct gs_sys_wait wait = {GS_SYS_WAIT_SPINS, 0};
    int rc;

    do {
        rc = gs_sys_lock_byte(fd, CREATE_LOCK_BYTE, F_WRLCK);
    } while ((rc == -EAGAIN || rc == -EACCES) && gs_sys_wait(&wait, CREATE_WAIT_US));
    return rc == -EAGAIN || rc == -EACCES ? -ETIMEDOUT : rc;
}

static int open_or_create(struct gs_self_state *self, const struct gs_quota *quota)
{
    uint32_t n_devices;
    int rc = gs_ledger_check(self->fd, &n_devices);

    if (rc == 0)
        return map(self, n_devices);
    if (rc == -ENODATA && quota != NULL) {
        rc = lock_creation(self->fd);
        if (rc < 0)
            return gs_self_fail(GS_REASON_LEDGER_OPEN, self->path, (uint64_t)-rc, 0);
        GS_STEP("create.locked");
        rc = gs_ledger_check(self->fd, &n_devices);
        if (rc == 0)
            rc = map(self, n_devices);
        else if (rc == -ENODATA)
            rc = create(self, quota);
        (void)gs_sys_lock_byte(self->fd, CREATE_LOCK_BYTE, F_UNLCK);
        if (rc == 0 || rc == -ESHUTDOWN)
            return rc;
    }
    return gs_self_fail(GS_REASON_LEDGER_FOREIGN, self->path, (uint64_t)-rc, 0);
}

int gs_file_open(const struct gs_quota *quota)
{
    struct gs_self_state *self = &gs_self;
    bool is_default;
    int rc = choose_path(self->path, sizeof(self->path), &is_default);

    if (rc == 0)
        rc = open_file(self->path, is_default, quota != NULL);
    if (rc == -EPERM && is_default)
        return gs_self_fail(GS_REASON_LEDGER_FOLDER, self->path, EPERM, 0);
    if (rc < 0)
        return gs_self_fail(GS_REASON_LEDGER_OPEN, self->path, (uint64_t)-rc, 0);
    self->fd = rc;
    rc = open_or_create(self, quota);
    if (rc < 0)
        gs_file_close();
    return rc;
}

void gs_file_close(void)
{
    struct gs_self_state *self = &gs_self;

    if (self->region != NULL)
        (void)munmap(self->region, self->map_bytes); /* our own mapping */
    if (self->fd > 0)
        gs_sys_close(self->fd);
    self->region = NULL;
    self->ledger = NULL;
    self->device = NULL;
    self->mirror = NULL;
    self->map_bytes = 0;
    self->n_mapped = 0;
    self->fd = 0;
}
