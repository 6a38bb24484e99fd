#include "apps/gpuslice/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "contract/trace.h"

/** What the hook can remember (struct gs_self_state). */
#define PATH_FITS 511

static int not_plain(const char *name, struct gs_err *err)
{
    return gs_err_set(err, -EINVAL, "--trace '%s' is not a plain file", name);
}

int gs_trace_check(const char *name, struct gs_err *err)
{
    const char *slash = strrchr(name, '/');
    char dir[PATH_MAX];
    struct stat st;

    if (stat(name, &st) == 0) {
        if (!S_ISREG(st.st_mode))
            return not_plain(name, err);
        if (access(name, W_OK) == 0)
            return 0;
    } else if (errno == ENOENT && name[0] != '\0') {
        (void)snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - name) + 1 : 1,
                       slash ? name : ".");
        if (access(dir, W_OK | X_OK) == 0)
            return 0;
    }
    return gs_err_set(err, -errno, "--trace '%s': %s", name, strerror(errno));
}

int gs_trace_create(const char *name, char ret_path[PATH_MAX], struct gs_err *err)
{
    const size_t n = sizeof(GS_TRACE_HEAD) - 1;
    char path[PATH_MAX];
    struct stat st;
    /* not blocking: of a pipe nobody reads */
    GS_CLEANUP(gs_file_close)
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);

    if (fd < 0)
        return gs_err_set(err, -errno, "--trace '%s': %s", name, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return not_plain(name, err);
    if (!realpath(name, path))
        return gs_err_set(err, -errno, "--trace '%s': %s", name, strerror(errno));
    if (strlen(path) > PATH_FITS)
        return gs_err_set(err, -ENAMETOOLONG, "--trace '%s': its whole path has more than %d bytes",
                          name, PATH_FITS);
    if (ftruncate(fd, 0) != 0 || write(fd, GS_TRACE_HEAD, n) != (ssize_t)n)
        return gs_err_set(err, -EIO, "--trace '%s' cannot be written: %s", name, strerror(errno));
    (void)memcpy(ret_path, path, strlen(path) + 1);
    return 0;
}

/* Ours, and complete up to here: what it begins with, and that its last line is whole. */
static bool is_open_trace(int fd)
{
    static const char head[] = GS_TRACE_HEAD;
    char text[sizeof(head)] = "", last[2] = "";
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
           pread(fd, text, sizeof(head) - 1, 0) == (ssize_t)sizeof(head) - 1 &&
           memcmp(text, head, sizeof(head) - 1) == 0 &&
           pread(fd, last, sizeof(last), st.st_size - 2) == (ssize_t)sizeof(last) &&
           memcmp(last, "}\n", sizeof(last)) == 0;
}

void gs_trace_close(const char *path)
{
    GS_CLEANUP(gs_file_close)
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    /* a viewer does without the end */
    if (fd >= 0 && is_open_trace(fd))
        (void)!write(fd, GS_TRACE_TAIL, sizeof(GS_TRACE_TAIL) - 1);
}
