#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

void gs_buf_init(struct gs_buf *buf)
{
    *buf = (struct gs_buf){0};
}

void gs_buf_fini(struct gs_buf *buf)
{
    if (!buf)
        return;
    free(buf->p);
    *buf = (struct gs_buf){0};
}

void gs_buf_clear(struct gs_buf *buf)
{
    buf->n = 0;
    buf->failed = false;
    if (buf->p)
        buf->p[0] = '\0';
}

int gs_buf_reserve(struct gs_buf *buf, size_t more)
{
    size_t need, cap = buf->cap ? buf->cap : 64;
    char *p;

    if (buf->failed || more > SIZE_MAX / 4 - buf->n) {
        buf->failed = true;
        return -ENOMEM;
    }
    need = buf->n + more + 1;
    if (need <= buf->cap)
        return 0;
    while (cap < need)
        cap *= 2;
    p = realloc(buf->p, cap);
    if (!p) {
        buf->failed = true;
        return -ENOMEM;
    }
    buf->p = p;
    buf->cap = cap;
    buf->p[buf->n] = '\0';
    return 0;
}

void gs_buf_add(struct gs_buf *buf, const void *bytes, size_t n)
{
    if (gs_buf_reserve(buf, n) != 0 || n == 0)
        return;
    memcpy(buf->p + buf->n, bytes, n);
    buf->n += n;
    buf->p[buf->n] = '\0';
}

void gs_buf_adds(struct gs_buf *buf, const char *text)
{
    gs_buf_add(buf, text, strlen(text));
}

void gs_buf_addc(struct gs_buf *buf, char c, size_t count)
{
    if (gs_buf_reserve(buf, count) != 0 || count == 0)
        return;
    memset(buf->p + buf->n, c, count);
    buf->n += count;
    buf->p[buf->n] = '\0';
}

void gs_buf_put(struct gs_buf *buf, struct gs_str text)
{
    gs_buf_add(buf, text.p, text.n);
}

void gs_buf_addf(struct gs_buf *buf, const char *fmt, ...)
{
    va_list ap;
    int len;

    va_start(ap, fmt);
    len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (len < 0) {
        buf->failed = true;
        return;
    }
    if (gs_buf_reserve(buf, (size_t)len) != 0)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(buf->p + buf->n, (size_t)len + 1, fmt, ap); /* the length is known to fit */
    va_end(ap);
    buf->n += (size_t)len;
}

int gs_buf_check(const struct gs_buf *buf)
{
    return buf->failed ? -ENOMEM : 0;
}

const char *gs_buf_text(const struct gs_buf *buf)
{
    return buf->p ? buf->p : "";
}

struct gs_str gs_buf_str(const struct gs_buf *buf)
{
    return (struct gs_str){gs_buf_text(buf), buf->n};
}

int gs_buf_move(struct gs_buf *buf, struct gs_arena *arena, struct gs_str *ret)
{
    int rc = gs_buf_check(buf);
    struct gs_str text = {0};

    if (rc == 0)
        text = gs_arena_str(arena, gs_buf_str(buf));
    gs_buf_fini(buf);
    if (rc == 0 && text.p == NULL)
        rc = -ENOMEM;
    if (rc == 0)
        *ret = text;
    return rc;
}
