#pragma once
/* Folders of containers below <HOOK_PATH>/containers: `<podUID>_<container>`, each with one
 * `*.cache` file. Whoever runs in the container writes in there as it likes: nothing is followed,
 * and no work is without a bound. */

#include <stddef.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_err;

/** A name of NAME_MAX bytes and its NUL. */
#define GS_FOLDER_NAME 256

/** Views into the name. Returns 0 or -EINVAL where it is not of that form. Pure. */
GS_WUR int gs_folder_parse(struct gs_str name, struct gs_str *ret_uid,
                           struct gs_str *ret_container);

/** Open a folder that is no link. Returns a descriptor or -errno. */
GS_WUR int gs_folder_open(int parent_fd, const char *name);
/** Name of its one `*.cache` file.
 *  Returns  0; -ENOENT there is none; -EEXIST several; -E2BIG more entries than are looked at;
 *           -errno of the kernel. */
GS_WUR int gs_folder_find(int dir_fd, char ret_name[GS_FOLDER_NAME]);

/** Remove a folder and all that is in it, however deep, a bounded piece at a call.
 *  Returns  0 it is gone; -EAGAIN call again; -errno it cannot be (err names what). */
GS_WUR int gs_folder_remove(int parent_fd, const char *name, struct gs_err *err);
