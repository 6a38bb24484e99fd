#pragma once
/* Lines out of a stream of bytes, each of bounded length. Inside the room only. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_kube_lines {
    struct gs_buf part; /**< of a line whose end has not come yet */
    size_t max;
};

/** False: stop, the object that holds the lines may be gone. */
typedef bool gs_kube_line_fn(void *arg, struct gs_str line);

/** Give each complete line, without its end, to `fn`; empty ones are skipped.
 *  Returns  1 all taken; 0 fn said stop (lines may be gone: do not touch them); -EFBIG a line is
 *           longer than max; -ENOMEM. */
GS_WUR int gs_kube_lines_feed(struct gs_kube_lines *lines, const char *bytes, size_t n,
                              gs_kube_line_fn *fn, void *arg);
void gs_kube_lines_fini(struct gs_kube_lines *lines);
