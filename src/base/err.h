#pragma once
/* Why something failed, in words: a fixed buffer that the caller owns; never allocates. */

#include "core/cleanup.h"

#define GS_ERR_TEXT 512

struct gs_err {
    int code;               /**< negative errno; 0 while nothing was set */
    char text[GS_ERR_TEXT]; /**< one line, no newline; empty while nothing was set */
};

/** Record the cause. `err` may be NULL.
 *  Returns  rc, so that a caller can write `return gs_err_set(err, -EINVAL, ...)`. */
int gs_err_set(struct gs_err *err, int rc, const char *fmt, ...) GS_PRINTF(3, 4);

/** Put context before the text that a lower layer set ("context: cause"); with no text yet, the
 *  cause is strerror(-rc). Returns rc. */
int gs_err_wrap(struct gs_err *err, int rc, const char *fmt, ...) GS_PRINTF(3, 4);
