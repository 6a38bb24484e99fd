#pragma once
/* Small files, safely: bounded reads, atomic private writes, private folders.
 *
 * Folders are handled by descriptor so that nobody can swap one for a link between two steps. */

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_buf;
struct gs_err;

/** Close and set to -1; for GS_CLEANUP on an int. Keeps errno. */
void gs_file_close(int *fd);

/** Raise the limit of open descriptors as far as it may be, for this process and those it starts.
 *  Returns  0 and the limit that holds now (UINT64_MAX: none); negative errno: it cannot be told. */
GS_WUR int gs_file_raise_limit(uint64_t *ret_most);

/** Append the content of a file to `buf`.
 *  @dirfd   folder, or AT_FDCWD with a path.
 *  @max     refuse more than this many bytes.
 *  Returns  0; -EFBIG longer than max; -ELOOP a symbolic link; -EINVAL not a regular file (files of
 *           /proc are regular); else what open or read said. */
GS_WUR int gs_file_read(int dirfd, const char *name, size_t max, struct gs_buf *buf);

/** Write all bytes to an open descriptor, through interruptions. Returns 0 or -errno. */
GS_WUR int gs_file_write_all(int fd, const void *bytes, size_t n);

/** Write a file so that a reader sees the old content or the new, never a part: a temporary file in
 *  the same folder, with a dot in front, renamed into place.
 *  @mode  of the file, whatever the umask: 0644 for others to read. */
GS_WUR int gs_file_publish(int dirfd, const char *name, unsigned mode, struct gs_str content,
                           struct gs_err *err);
/** The same of mode 0600. */
GS_WUR int gs_file_write(int dirfd, const char *name, const void *bytes, size_t n,
                         struct gs_err *err);

/** Open a folder that belongs to `uid`, has no permissions for others and is not a link.
 *  Returns  descriptor; -EPERM foreign owner or open to others; -ELOOP a link; else from open. */
GS_WUR int gs_file_open_private(int dirfd, const char *name, unsigned uid, struct gs_err *err);

/** The same for ourselves, created with mode 0700 where it is missing. */
GS_WUR int gs_file_make_private(int dirfd, const char *name, struct gs_err *err);

/** Remove a folder, the files and empty folders in it; links are removed, not followed. What stands
 *  in deeper folders is not touched: -ENOTEMPTY. */
GS_WUR int gs_file_remove_dir(int dirfd, const char *name, struct gs_err *err);
