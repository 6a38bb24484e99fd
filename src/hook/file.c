#include "hook/file.h"

#include <errno.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "contract/env.h"
#include "contract/ledger.h"
#include "contract/owner.h"
#include "core/atomics.h"
#include "hook/mirror.h"
#include "hook/self.h"
#include "hook/step.h"
#include "hook/sys.h"

/* The byte whose record lock orders who joins (shared) and who makes or remakes the file
 * (exclusive): the first after the slots' bytes. */
#define CREATE_LOCK_BYTE GS_LEDGER_SLOTS
/* How often the file may be another one by the time we have our lock on it. */
#define JOIN_TRIES     16
#define CREATE_WAIT_US 1000000u
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

/** The program may not make a file so long (RLIMIT_FSIZE): the kernel would not only refuse but
 * kill it (SIGXFSZ). Where `gpuslice run` has made this one, it need not get longer. */
static int allocate_within(int fd, uint64_t bytes)
{
    struct stat st;

    if (gs_sys_fstat(fd, &st) != 0 || (uint64_t)st.st_size < bytes ||
        GS_SYS(SYS_ftruncate, fd, (off_t)bytes) < 0 ||
        GS_SYS(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)0,
               (off_t)bytes) < 0)
        return -EFBIG;
    return (int)GS_SYS(SYS_fallocate, fd, 0, (off_t)0, (off_t)bytes);
}

/** Make the file its full size, with blocks behind every page: a store to a mapped page of a full
 * file system would kill the program. */
static int allocate(int fd, uint64_t bytes)
{
    static const char zeros[4096];
    struct rlimit limit;
    int rc;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < bytes)
        return allocate_within(fd, bytes);
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

/** What each card of the quota owes by the file that a new ledger replaces: another ledger, or one
 * that is not made yet, into which `gpuslice run` wrote what the user's former slices owe
 * (apps/gpuslice/debt.h). */
static void keep_debts(int fd, const struct gs_quota *quota, struct gs_ledger_bucket *ret_owed)
{
    const uint64_t bucket = offsetof(struct gs_ledger_device, bucket);
    struct gs_ledger_bucket found;
    char uuid[sizeof(quota->device[0].uuid)];
    uint32_t n;
    bool is_made = gs_ledger_check(fd, &n) == 0;

    memset(ret_owed, 0, GS_LEDGER_DEVICES * sizeof(*ret_owed));
    if (!is_made)
        n = quota->n_devices;
    for (uint32_t dev = 0; dev < n && dev < GS_LEDGER_DEVICES; dev++) {
        uint64_t at = gs_ledger_file_bytes(dev);

        if (gs_ledger_pread(fd, &found, sizeof(found), at + bucket) < 0 ||
            gs_ledger_pread(fd, uuid, sizeof(uuid), at) < 0 || found.tokens_ns >= 0)
            continue;
        for (uint32_t i = 0; i < quota->n_devices; i++) {
            if (is_made ? strncmp(uuid, quota->device[i].uuid, sizeof(uuid)) == 0 : i == dev)
                ret_owed[i] = found;
        }
    }
}

/** Under the file's lock for us alone: the file is empty, or was left unfinished.
 *  @before  the file that it replaces; its own descriptor where it replaces none. */
static int create(struct gs_self_state *self, const struct gs_quota *quota, int before)
{
    static struct gs_ledger_bucket owed[GS_LEDGER_DEVICES]; /* one attaches at a time */
    uint64_t bytes = gs_ledger_file_bytes(quota->n_devices);
    int rc;

    keep_debts(before, quota, owed);
    rc = allocate(self->fd, bytes);
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
        d->bucket.tokens_ns = owed[i].tokens_ns;
        d->bucket.refill_ns = owed[i].refill_ns;
    }
    GS_STEP("create.filled");
    gs_mirror_create(self->region, self->ledger, self->device, quota->priority == GS_PRIORITY_HIGH);
    /* release: whoever sees the magic sees the rest */
    gs_atomic_store(&self->ledger->head.magic, GS_LEDGER_MAGIC, __ATOMIC_RELEASE);
    GS_STEP("create.done");
    return 0;
}

/** Wait for the file's lock: F_RDLCK to join, F_WRLCK to make it. 0, -ETIMEDOUT, or another
 * -errno. */
static int lock_file(int fd, short type)
{
    struct gs_sys_wait wait = {GS_SYS_WAIT_SPINS, 0};
    int rc;

    do {
        rc = gs_sys_lock_byte(fd, CREATE_LOCK_BYTE, type);
    } while ((rc == -EAGAIN || rc == -EACCES) && gs_sys_wait(&wait, CREATE_WAIT_US));
    return rc == -EAGAIN || rc == -EACCES ? -ETIMEDOUT : rc;
}

/** Is what we opened still what the path names? Ask under the lock: who remakes the file has it
 * alone. */
static bool is_current(const struct gs_self_state *self)
{
    struct stat opened, named;

    return gs_sys_fstat(self->fd, &opened) == 0 &&
           GS_SYS(SYS_newfstatat, AT_FDCWD, self->path, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

static void unmap(struct gs_self_state *self)
{
    if (self->region != NULL)
        (void)munmap(self->region, self->map_bytes); /* our own mapping */
    self->region = NULL;
    self->ledger = NULL;
    self->device = NULL;
    self->mirror = NULL;
    self->map_bytes = 0;
    self->n_mapped = 0;
}

/** Has the mapped ledger a place for each card of the quota? */
static bool is_for(const struct gs_self_state *self, const struct gs_quota *quota)
{
    for (uint32_t i = 0; i < quota->n_devices; i++) {
        uint32_t at = 0;

        while (at < self->n_mapped && strncmp(self->device[at].uuid, quota->device[i].uuid,
                                              sizeof(self->device[at].uuid)) != 0)
            at++;
        if (at == self->n_mapped)
            return false;
    }
    return true;
}

/** Do variables ask for more than the mapped ledger gives? It counts while somebody lives in it. In
 * the user's own default ledger that would otherwise bind all later programs to what some earlier
 * one was given. */
static bool gives_less(const struct gs_self_state *self, const struct gs_quota *quota)
{
    for (uint32_t i = 0; i < quota->n_devices && self->quota.from_env; i++) {
        const struct gs_quota_device *wish = &quota->device[i];

        for (uint32_t at = 0; at < self->n_mapped; at++) {
            const struct gs_ledger_device *d = &self->device[at];

            if (strncmp(d->uuid, wish->uuid, sizeof(d->uuid)) == 0 &&
                (d->limit_bytes < wish->limit_bytes || d->core_pct < wish->core_pct ||
                 d->policy < wish->policy))
                return true;
        }
    }
    return false;
}

/** A ledger that an older version of ours made. */
static bool is_older(int fd)
{
    struct gs_ledger_head head;
    const size_t n = offsetof(struct gs_ledger_head, n_devices);

    return gs_sys_pread(fd, &head, n, GS_LEDGER_OFFSET) == (long)n &&
           head.magic == GS_LEDGER_MAGIC && head.version < GS_LEDGER_VERSION;
}

static bool lock_slots(const struct gs_self_state *self, short type)
{
    struct flock all = {.l_type = type, .l_whence = SEEK_SET, .l_len = GS_LEDGER_SLOTS};

    return GS_SYS(SYS_fcntl, self->fd, F_SETLK, &all) == 0;
}

/** Lock every slot of the file, so that nobody can claim one. False: somebody lives in one. Where
 * slots stand is the same in all versions so far. */
static bool lock_all_slots(const struct gs_self_state *self)
{
    const uint64_t slots = GS_LEDGER_OFFSET + offsetof(struct gs_ledger, slot);

    if (!lock_slots(self, F_WRLCK))
        return false;
    for (uint32_t i = 0; i < GS_LEDGER_SLOTS; i++) {
        uint64_t at = slots + i * sizeof(struct gs_ledger_slot);
        struct gs_ledger_slot slot;

        if (gs_sys_pread(self->fd, &slot, sizeof(slot), at) != (long)sizeof(slot))
            return false;
        /* a program that closed our descriptor lives without its lock; our own word is of the
         * program that this process was before it began another */
        if (slot.owner != 0 && slot.owner != self->owner_word &&
            !gs_owner_has_ended(slot.owner, slot.image))
            return false;
    }
    return true;
}

/** A new file of this name, locked for us alone, in place of one that a killed process left. */
static int open_fresh(int folder, const char *name)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd, rc;

    (void)GS_SYS(SYS_unlinkat, folder, name, 0); /* mostly there is none */
    fd = gs_sys_openat(folder, name, flags, 0600);
    if (fd < 0)
        return fd;
    open_to_all(folder, fd);
    rc = gs_sys_lock_byte(fd, CREATE_LOCK_BYTE, F_WRLCK);
    if (rc < 0)
        gs_sys_close(fd);
    return rc < 0 ? rc : fd;
}

/** Under the file's lock: put a new ledger in its place, unless a process lives in it. Our
 * descriptor stays the old one's, and with it the locks. Returns 0; -EBUSY; -ESHUTDOWN, noted. */
static int remake(struct gs_self_state *self, const struct gs_quota *quota, bool is_default)
{
    const int old = self->fd;
    char fresh[128];
    struct gs_str_out out;
    const char *name;
    int folder, fd, rc;

    if (!lock_all_slots(self))
        return -EBUSY;
    folder = open_folder(self->path, is_default, &name);
    if (folder < 0)
        return -EBUSY;
    gs_str_out_init(&out, fresh, sizeof(fresh));
    gs_str_put_c(&out, name);
    gs_str_put_c(&out, ".new");
    fd = out.cut ? -ENAMETOOLONG : open_fresh(folder, fresh);
    rc = fd < 0 ? -EBUSY : 0;
    if (rc == 0) {
        self->fd = fd;
        rc = create(self, quota, old);
        unmap(self);
        GS_STEP("remake.written");
        if (rc == 0 && GS_SYS(SYS_renameat2, folder, fresh, folder, name, 0) < 0)
            rc = -EBUSY;
        GS_STEP("remake.renamed");
        if (rc < 0)
            (void)GS_SYS(SYS_unlinkat, folder, fresh, 0); /* or the next one does */
        gs_sys_close(fd);
        self->fd = old;
    }
    gs_sys_close(folder);
    return rc;
}

/** The ledger that is there will not do. Make it, or say why not. 0: look again; 1: it has to do.
 */
static int make(struct gs_self_state *self, const struct gs_quota *quota, int check,
                bool is_default)
{
    uint32_t n_devices;
    int rc;

    if (check == -ENODATA) {
        rc = create(self, quota, self->fd);
        unmap(self);
        return rc;
    }
    rc = remake(self, quota, is_default);
    if (rc != -EBUSY)
        return rc;
    (void)lock_slots(self, F_UNLCK);
    if (gs_ledger_check(self->fd, &n_devices) == 0 && map(self, n_devices) == 0 &&
        is_for(self, quota))
        return 1;
    /* mapped for its ring */
    return gs_self_fail(GS_REASON_LEDGER_STALE, self->path, 0, 0);
}

/** One look at the file that is open, under its lock. 0 mapped, and the lock is kept until
 * gs_file_joined(); -EAGAIN open it again, and with *make_it ask for the lock alone. */
static int join(struct gs_self_state *self, const struct gs_quota *quota, bool is_default,
                bool *make_it)
{
    uint32_t n_devices;
    int rc = lock_file(self->fd, *make_it ? F_WRLCK : F_RDLCK);

    if (rc < 0)
        return gs_self_fail(GS_REASON_LEDGER_OPEN, self->path, (uint64_t)-rc, 0);
    if (!is_current(self))
        return -EAGAIN;
    if (*make_it)
        GS_STEP("create.locked");
    rc = gs_ledger_check(self->fd, &n_devices);
    if (rc == 0) {
        rc = map(self, n_devices);
        if (rc < 0 || (is_for(self, quota) && !(is_default && gives_less(self, quota))))
            return rc;
        unmap(self);
    } else if (rc != -ENODATA && !is_older(self->fd)) {
        return gs_self_fail(GS_REASON_LEDGER_FOREIGN, self->path, (uint64_t)-rc, 0);
    }
    if (*make_it)
        rc = make(self, quota, rc, is_default);
    *make_it = !*make_it;
    if (*make_it || rc == 0)
        return -EAGAIN;
    return rc > 0 ? 0 : rc;
}

/** Only for its ring: as it is, or not at all. */
static int look(struct gs_self_state *self)
{
    uint32_t n_devices;
    int rc = gs_ledger_check(self->fd, &n_devices);

    if (rc == 0)
        return map(self, n_devices);
    return gs_self_fail(GS_REASON_LEDGER_FOREIGN, self->path, (uint64_t)-rc, 0);
}

int gs_file_open(const struct gs_quota *quota)
{
    struct gs_self_state *self = &gs_self;
    bool is_default, make_it = false;
    int rc = choose_path(self->path, sizeof(self->path), &is_default);

    for (int i = 0; i < JOIN_TRIES; i++) {
        if (rc == 0)
            rc = open_file(self->path, is_default, quota != NULL);
        if (rc == -EPERM && is_default)
            return gs_self_fail(GS_REASON_LEDGER_FOLDER, self->path, EPERM, 0);
        if (rc < 0)
            return gs_self_fail(GS_REASON_LEDGER_OPEN, self->path, (uint64_t)-rc, 0);
        self->fd = rc;
        rc = quota != NULL ? join(self, quota, is_default, &make_it) : look(self);
        if (rc == 0)
            return 0;
        if (self->region == NULL)
            gs_file_close();
        else
            gs_file_joined(); /* not ours to live in, but its ring can tell people */
        if (rc != -EAGAIN)
            return rc;
        rc = 0;
    }
    return gs_self_fail(GS_REASON_LEDGER_OPEN, self->path, EAGAIN, 0);
}

void gs_file_joined(void)
{
    if (gs_self.fd > 0)
        (void)gs_sys_lock_byte(gs_self.fd, CREATE_LOCK_BYTE, F_UNLCK);
}

void gs_file_close(void)
{
    struct gs_self_state *self = &gs_self;

    unmap(self);
    if (self->fd > 0)
        gs_sys_close(self->fd);
    self->fd = 0;
}
