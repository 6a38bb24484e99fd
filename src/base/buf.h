#pragma once
/* A growing byte buffer that is always NUL terminated.
 *
 * Failure is sticky: after one allocation failed, later additions do nothing and gs_buf_check()
 * says so once at the end. That keeps writers of long texts free of a test per line. */

#include <stdbool.h>
#include <stddef.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_arena;

struct gs_buf {
    char *p;     /**< NULL until something was added; else p[n] == '\0' */
    size_t n;    /**< bytes used, without the NUL */
    size_t cap;  /**< bytes allocated */
    bool failed; /**< an addition was lost for want of memory */
};

void gs_buf_init(struct gs_buf *buf);
/** Free the memory; the buffer is empty and usable afterwards. Accepts NULL and zeroed objects. */
void gs_buf_fini(struct gs_buf *buf);
/** Forget the content, keep the memory. */
void gs_buf_clear(struct gs_buf *buf);

/** Make room for `more` bytes beyond n. Returns 0 or -ENOMEM. */
int gs_buf_reserve(struct gs_buf *buf, size_t more);
void gs_buf_add(struct gs_buf *buf, const void *bytes, size_t n);
void gs_buf_adds(struct gs_buf *buf, const char *text);
void gs_buf_put(struct gs_buf *buf, struct gs_str text);
void gs_buf_addf(struct gs_buf *buf, const char *fmt, ...) GS_PRINTF(2, 3);
/** Add one byte `count` times. */
void gs_buf_addc(struct gs_buf *buf, char c, size_t count);

/** 0, or -ENOMEM when an addition was lost. */
GS_WUR int gs_buf_check(const struct gs_buf *buf);
/** The text; "" while empty. Valid until the next addition. */
const char *gs_buf_text(const struct gs_buf *buf);
/** The same as a view. */
struct gs_str gs_buf_str(const struct gs_buf *buf);
/** Move the text into an arena: the buffer is empty afterwards, either way. *ret is a view there.
 *  0; -ENOMEM, also for an addition that was lost before. */
GS_WUR int gs_buf_move(struct gs_buf *buf, struct gs_arena *arena, struct gs_str *ret);
