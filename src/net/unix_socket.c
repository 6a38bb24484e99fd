#include "net/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"

/* ---- files ---- */

static int stat_at(int dirfd, const char *name, struct gs_unix_file *ret_file, mode_t *ret_mode)
{
    struct statx st;

    if (statx(dirfd, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &st) < 0)
        return -errno;
    *ret_file = (struct gs_unix_file){
        .dev = makedev(st.stx_dev_major, st.stx_dev_minor),
        .ino = st.stx_ino,
        .born_ns = st.stx_mask & STATX_BTIME
                       ? st.stx_btime.tv_sec * (int64_t)GS_CLOCK_S + st.stx_btime.tv_nsec
                       : 0,
    };
    *ret_mode = st.stx_mode;
    return 0;
}

int gs_unix_socket_file(const char *path, struct gs_unix_file *ret_file)
{
    mode_t mode;

    return stat_at(AT_FDCWD, path, ret_file, &mode);
}

static int check_at(int dirfd, const char *name, const struct gs_unix_file *file)
{
    struct gs_unix_file now;
    mode_t mode;
    int rc = stat_at(dirfd, name, &now, &mode);

    if (rc < 0)
        return rc;
    bool same = now.dev == file->dev && now.ino == file->ino && now.born_ns == file->born_ns;
    return same ? 0 : -ESTALE;
}

int gs_unix_socket_check(const char *path, const struct gs_unix_file *file)
{
    return check_at(AT_FDCWD, path, file);
}

void gs_unix_socket_unlink(const char *path, const struct gs_unix_file *file)
{
    /* Between the two another may take the place: its owner finds out as we would, by a check. */
    if (gs_unix_socket_check(path, file) == 0)
        (void)unlink(path);
}

/* ---- sockets ---- */

static int address_of(const char *path, struct sockaddr_un *ret_sa)
{
    size_t n = strlen(path);

    if (n == 0)
        return -EINVAL;
    if (n >= sizeof(ret_sa->sun_path))
        return -ENAMETOOLONG;
    *ret_sa = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret_sa->sun_path, path, n + 1);
    return 0;
}

static int new_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? -errno : fd;
}

/** Bind in the folder under a passing name. Through /proc, so that the name's length is no matter.
 */
static int bind_at(int fd, int dirfd, const char *name, unsigned mode)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};

    (void)snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", dirfd, name);
    (void)unlinkat(dirfd, name, 0); /* of a process of our id that was killed just here */
    if (bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
        return -errno;
    if (fchmodat(dirfd, name, mode, 0) < 0)
        return -errno;
    return 0;
}

/** Only sockets give way. */
static int check_place(int dirfd, const char *name, const char *path, struct gs_err *err)
{
    struct gs_unix_file file;
    mode_t mode;
    int rc = stat_at(dirfd, name, &file, &mode);

    if (rc == -ENOENT)
        return 0;
    if (rc < 0)
        return gs_err_set(err, rc, "%s: %s", path, strerror(-rc));
    if (!S_ISSOCK(mode))
        return gs_err_set(err, -EEXIST, "%s: something else than a socket is there", path);
    return 0;
}

static int open_folder(const char *path, size_t n)
{
    char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];

    if (n == 0)
        return open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    memcpy(folder, path, n);
    folder[n] = '\0';
    return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/** Everything at a name that nobody looks for, then the name. */
static int listen_at(int fd, int dirfd, const char *base, unsigned mode, int backlog,
                     struct gs_unix_file *ret_file)
{
    char name[48];
    struct gs_unix_file file;
    mode_t seen;

    (void)snprintf(name, sizeof(name), ".gpuslice-%ld-%d", (long)getpid(), fd);
    int rc = bind_at(fd, dirfd, name, mode);
    if (rc == 0 && listen(fd, backlog) < 0)
        rc = -errno;
    if (rc == 0)
        rc = stat_at(dirfd, name, &file, &seen);
    if (rc == 0 && renameat(dirfd, name, dirfd, base) < 0)
        rc = -errno;
    if (rc < 0) {
        (void)unlinkat(dirfd, name, 0);
        return rc;
    }
    *ret_file = file;
    return 0;
}

int gs_unix_socket_listen(const char *path, unsigned mode, int backlog,
                          struct gs_unix_file *ret_file, struct gs_err *err)
{
    GS_CLEANUP(gs_file_close) int fd = -1;
    GS_CLEANUP(gs_file_close) int dirfd = -1;
    struct sockaddr_un sa;
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

    int rc = *base == '\0' ? -EINVAL : address_of(path, &sa); /* others connect by the whole path */
    if (rc < 0)
        return gs_err_set(err, rc, "%s: %s", path, strerror(-rc));
    dirfd = open_folder(path, slash ? (size_t)(slash - path) : 0);
    if (dirfd < 0)
        return gs_err_set(err, -errno, "%s: its folder: %s", path, strerror(errno));
    rc = check_place(dirfd, base, path, err);
    if (rc < 0)
        return rc;
    rc = fd = new_socket();
    if (rc >= 0)
        rc = listen_at(fd, dirfd, base, mode, backlog, ret_file);
    if (rc < 0)
        return gs_err_set(err, rc, "%s: %s", path, strerror(-rc));
    rc = fd;
    fd = -1;
    return rc;
}

int gs_unix_socket_connect(const char *path)
{
    GS_CLEANUP(gs_file_close) int fd = -1;
    struct sockaddr_un sa;
    int rc = address_of(path, &sa);

    if (rc < 0)
        return rc;
    fd = new_socket();
    if (fd < 0)
        return fd;
    if (connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0)
        return -errno;
    rc = fd;
    fd = -1;
    return rc;
}
