#include "net/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"

static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * GS_CLOCK_S + (uint64_t)t->tv_nsec;
}

static struct gs_secret_stamp stamp_of(const struct stat *st)
{
    return (struct gs_secret_stamp){
        .dev = st->st_dev,
        .ino = st->st_ino,
        .size = (uint64_t)st->st_size,
        .mtime_ns = ns_of(&st->st_mtim),
        .ctime_ns = ns_of(&st->st_ctim),
    };
}

/** A buffer that grows leaves copies behind in freed memory: room for the whole file is taken
 * first.
 */
static int read_whole(int fd, struct gs_buf *buf)
{
    if (gs_buf_reserve(buf, GS_SECRET_MAX + 1) != 0)
        return -ENOMEM;
    while (buf->n <= GS_SECRET_MAX) {
        ssize_t got = read(fd, buf->p + buf->n, GS_SECRET_MAX + 1 - buf->n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0) {
            buf->p[buf->n] = '\0';
            return 0;
        }
        buf->n += (size_t)got;
    }
    return -EFBIG;
}

int gs_secret_read(const char *path, struct gs_buf *buf, struct gs_secret_stamp *ret_stamp)
{
    /* O_NONBLOCK: a FIFO in its place must not hang us */
    GS_CLEANUP(gs_file_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    int rc = read_whole(fd, buf);
    if (rc < 0) {
        gs_secret_wipe(buf);
        return rc;
    }
    *ret_stamp = stamp_of(&st);
    return 0;
}

bool gs_secret_is_changed(const char *path, const struct gs_secret_stamp *stamp)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return true;
    struct gs_secret_stamp now = stamp_of(&st);
    return now.dev != stamp->dev || now.ino != stamp->ino || now.size != stamp->size ||
           now.mtime_ns != stamp->mtime_ns || now.ctime_ns != stamp->ctime_ns;
}

void gs_secret_wipe(struct gs_buf *buf)
{
    if (buf->p)
        explicit_bzero(buf->p, buf->cap);
    gs_buf_fini(buf);
}
