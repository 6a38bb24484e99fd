#pragma once
/* Small files that somebody replaces while we run: certificates, keys, tokens.
 *
 * Kubernetes mounts them as links through a folder `..data` that is swapped as a whole; others
 * rename a new file into place or write over the old one. A file counts as changed when what the
 * path leads to differs in device, inode, size or time of change. Looking costs one stat(). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

struct gs_buf;

/** Refuse longer files: no chain of certificates comes near. */
#define GS_SECRET_MAX (1u << 20)

/** What a path led to; zeroed: nothing yet. */
struct gs_secret_stamp {
    uint64_t dev, ino, size, mtime_ns, ctime_ns;
};

/** Read what the path leads to (links are followed, only a regular file is taken) and its stamp,
 *  which is taken before the content: a change in between shows at the next look.
 *  Returns  0; -EFBIG; -EINVAL no regular file; of open and read. `buf` is wiped on failure. */
GS_WUR int gs_secret_read(const char *path, struct gs_buf *buf, struct gs_secret_stamp *ret_stamp);

/** True when the path leads to something else than `stamp` by now, also when it leads nowhere. */
bool gs_secret_is_changed(const char *path, const struct gs_secret_stamp *stamp);

/** Overwrite and free. */
void gs_secret_wipe(struct gs_buf *buf);
