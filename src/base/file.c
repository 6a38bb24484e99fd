#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"

void gs_file_close(int *fd)
{
    int keep = errno;

    if (*fd >= 0)
        (void)close(*fd); /* nothing was written through it that a close could still lose */
    *fd = -1;
    errno = keep;
}

int gs_file_raise_limit(uint64_t *ret_most)
{
    struct rlimit limit, higher;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    higher = (struct rlimit){.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &higher) ==
        0) /* not where the kernel's own (fs.nr_open) is lower */
        limit = higher;
    *ret_most = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;
    return 0;
}

static int read_fd(int fd, size_t max, struct gs_buf *buf)
{
    size_t start = buf->n;
    ssize_t got;

    for (;;) {
        if (gs_buf_reserve(buf, 4096) != 0)
            return -ENOMEM;
        got = read(fd, buf->p + buf->n, 4096);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return 0;
        buf->n += (size_t)got;
        buf->p[buf->n] = '\0';
        if (buf->n - start > max)
            return -EFBIG;
    }
}

int gs_file_read(int dirfd, const char *name, size_t max, struct gs_buf *buf)
{
    /* O_NONBLOCK: opening a FIFO that a stranger put there must not hang us */
    GS_CLEANUP(gs_file_close)
    int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    size_t start = buf->n;
    struct stat st;
    int rc;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    rc = read_fd(fd, max, buf);
    if (rc != 0 && buf->p) {
        buf->n = start;
        buf->p[start] = '\0';
    }
    return rc;
}

int gs_file_write_all(int fd, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t put = write(fd, p, n);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        p += put;
        n -= (size_t)put;
    }
    return 0;
}

int gs_file_publish(int dirfd, const char *name, unsigned mode, struct gs_str content,
                    struct gs_err *err)
{
    GS_CLEANUP(gs_file_close) int fd = -1;
    char tmp[NAME_MAX + 1];
    int rc, len;

    len = snprintf(tmp, sizeof(tmp), ".%s.%ld", name, (long)getpid());
    if (len < 0 || (size_t)len >= sizeof(tmp))
        return gs_err_set(err, -ENAMETOOLONG, "file name '%.64s…' is too long", name);
    (void)unlinkat(dirfd, tmp, 0); /* left by a dead process of the same id */
    fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return gs_err_set(err, -errno, "create file '%s': %s", name, strerror(errno));
    rc = gs_file_write_all(fd, content.p, content.n);
    if (rc == 0 && mode != 0600 && fchmod(fd, mode) != 0)
        rc = -errno;
    if (rc == 0 && renameat(dirfd, tmp, dirfd, name) != 0)
        rc = -errno;
    if (rc == 0)
        return 0;
    (void)unlinkat(dirfd, tmp, 0); /* best effort: the first failure is the one to report */
    return gs_err_set(err, rc, "write file '%s': %s", name, strerror(-rc));
}

int gs_file_write(int dirfd, const char *name, const void *bytes, size_t n, struct gs_err *err)
{
    return gs_file_publish(dirfd, name, 0600, (struct gs_str){bytes, n}, err);
}

int gs_file_open_private(int dirfd, const char *name, unsigned uid, struct gs_err *err)
{
    GS_CLEANUP(gs_file_close)
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    if (fd < 0) {
        /* O_DIRECTORY on a link says ENOTDIR on some kernels: name the real cause */
        int rc = -errno;

        if (rc == -ENOTDIR && fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(st.st_mode))
            rc = -ELOOP;
        if (rc == -ELOOP)
            return gs_err_set(err, rc, "'%s' is a symbolic link; remove it", name);
        return gs_err_set(err, rc, "open folder '%s': %s", name, strerror(-rc));
    }
    if (fstat(fd, &st) != 0)
        return gs_err_set(err, -errno, "stat folder '%s': %s", name, strerror(errno));
    if (st.st_uid != uid)
        return gs_err_set(err, -EPERM, "folder '%s' belongs to user %u, not to user %u", name,
                          st.st_uid, uid);
    if (st.st_mode & 077)
        return gs_err_set(err, -EPERM, "folder '%s' is open to others (mode %04o); chmod 700 it",
                          name, st.st_mode & 07777);
    {
        int keep = fd;

        fd = -1;
        return keep;
    }
}

int gs_file_make_private(int dirfd, const char *name, struct gs_err *err)
{
    if (mkdirat(dirfd, name, 0700) != 0 && errno != EEXIST)
        return gs_err_set(err, -errno, "create folder '%s': %s", name, strerror(errno));
    return gs_file_open_private(dirfd, name, geteuid(), err);
}

static void close_dir(DIR **dir)
{
    if (*dir)
        (void)closedir(*dir); /* read only */
}

int gs_file_remove_dir(int dirfd, const char *name, struct gs_err *err)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    GS_CLEANUP(close_dir) DIR *dir = NULL;
    struct dirent *entry;

    if (fd < 0)
        return gs_err_set(err, -errno, "open folder '%s': %s", name, strerror(errno));
    dir = fdopendir(fd);
    if (!dir) {
        int rc = -errno;

        (void)close(fd); /* fdopendir did not take it */
        return gs_err_set(err, rc, "read folder '%s': %s", name, strerror(-rc));
    }
    while ((entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(fd, entry->d_name, 0) != 0 && errno != ENOENT &&
            (errno != EISDIR || unlinkat(fd, entry->d_name, AT_REMOVEDIR) != 0))
            return gs_err_set(err, -errno, "remove '%s/%s': %s", name, entry->d_name,
                              strerror(errno));
    }
    if (unlinkat(dirfd, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        return gs_err_set(err, -errno, "remove folder '%s': %s", name, strerror(errno));
    return 0;
}
