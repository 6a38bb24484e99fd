#pragma once
/* Unix stream sockets that stand in the file system, and whose file stands there.
 *
 * Threads  any. */

#include <stdint.h>

#include "core/cleanup.h"

struct gs_err;

/** Which file, whatever its name: a file removed and made anew is another one. While a socket is
 *  bound its inode is not given to another file; of sockets of others the time of birth tells the
 *  two apart where the file system keeps it. */
struct gs_unix_file {
    uint64_t dev, ino;
    int64_t born_ns; /**< 0: not kept */
};

/** The file at `path`, links not followed. Returns 0; -ENOENT; what statx said. */
GS_WUR int gs_unix_socket_file(const char *path, struct gs_unix_file *ret_file);
/** Returns  0 `path` is that file; -ENOENT nothing is there; -ESTALE another file is; what statx
 *           said. */
GS_WUR int gs_unix_socket_check(const char *path, const struct gs_unix_file *file);

/** Listen at `path`: non-blocking, close-on-exec. The socket is made beside it under a name with a
 *  dot in front (watchers of folders skip such names) and renamed: whoever sees it can connect, and
 *  a socket that stood there, dead or alive, gives way in the same moment.
 *  @mode    permissions of the file, 0600 for instance.
 *  Returns  descriptor; -ENAMETOOLONG path of 108 bytes and more; -EEXIST something else than a
 *           socket is there; what the system said. */
GS_WUR int gs_unix_socket_listen(const char *path, unsigned mode, int backlog,
                                 struct gs_unix_file *ret_file, struct gs_err *err);
/** Remove `path` where it is still that file. */
void gs_unix_socket_unlink(const char *path, const struct gs_unix_file *file);

/** Connect without waiting: non-blocking, close-on-exec.
 *  Returns  descriptor; -ENOENT; -ECONNREFUSED nobody listens; -EAGAIN the peer's queue is full;
 *           -ENAMETOOLONG; what the system said. */
GS_WUR int gs_unix_socket_connect(const char *path);
