#include "kube/lines.h"

#include <errno.h>
#include <string.h>

/* A long line leaves this much behind, so that one giant object does not stay paid for. */
#define KEEP ((size_t)64 << 10)

void gs_kube_lines_fini(struct gs_kube_lines *lines)
{
    gs_buf_fini(&lines->part);
}

static struct gs_str trimmed(const char *p, size_t n)
{
    if (n > 0 && p[n - 1] == '\r')
        n--;
    return (struct gs_str){p, n};
}

static int add(struct gs_kube_lines *lines, const char *bytes, size_t n)
{
    if (n > lines->max - lines->part.n)
        return -EFBIG;
    gs_buf_add(&lines->part, bytes, n);
    return gs_buf_check(&lines->part);
}

/* The line that was begun by earlier bytes. */
static int end_part(struct gs_kube_lines *lines, const char *bytes, size_t n, gs_kube_line_fn *fn,
                    void *arg)
{
    struct gs_buf whole;
    struct gs_str line;
    bool more = true;
    int rc = add(lines, bytes, n);

    if (rc < 0)
        return rc;
    whole = lines->part; /* fn may end the lines: the text must outlast that */
    gs_buf_init(&lines->part);
    line = trimmed(gs_buf_text(&whole), whole.n);
    if (line.n > 0)
        more = fn(arg, line);
    if (more && whole.cap <= KEEP) {
        gs_buf_clear(&whole);
        lines->part = whole;
    } else {
        gs_buf_fini(&whole);
    }
    return more;
}

int gs_kube_lines_feed(struct gs_kube_lines *lines, const char *bytes, size_t n,
                       gs_kube_line_fn *fn, void *arg)
{
    const char *at = bytes, *end = bytes + n, *stop;

    while (at < end && (stop = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        size_t len = (size_t)(stop - at);
        struct gs_str line = trimmed(at, len);
        int rc;

        if (lines->part.n > 0) {
            rc = end_part(lines, at, len, fn, arg);
            if (rc <= 0)
                return rc;
        } else if (len > lines->max) {
            return -EFBIG;
        } else if (line.n > 0 && !fn(arg, line)) {
            return 0;
        }
        at = stop + 1;
    }
    if (at < end) {
        int rc = add(lines, at, (size_t)(end - at));

        if (rc < 0)
            return rc;
    }
    return 1;
}
