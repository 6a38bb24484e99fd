#include "apps/gpuslice/screen.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"

#define HOME       "\033[H"
#define ERASE_LINE "\033[K"
#define ERASE_DOWN "\033[J"

void gs_screen_read(struct gs_screen *ret)
{
    struct winsize size = {0};

    *ret = (struct gs_screen){SIZE_MAX, SIZE_MAX};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return;
    if (size.ws_row >= 3)
        ret->rows = size.ws_row;
    if (size.ws_col >= 10)
        ret->columns = size.ws_col;
}

/* Bytes of the line that fit, and whether they fill it. A character may have several bytes. */
static size_t fit_line(const char *line, size_t n, size_t columns, bool *ret_full)
{
    size_t used = 0, i = 0;

    for (; i < n; i++) {
        bool begins = ((unsigned char)line[i] & 0xc0) != 0x80;

        if (begins && used == columns)
            break;
        used += begins;
    }
    *ret_full = used == columns;
    return i;
}

void gs_screen_draw(const struct gs_screen *screen, const struct gs_buf *text, struct gs_buf *page)
{
    const char *p = gs_buf_text(text), *end = p + text->n;

    gs_buf_adds(page, HOME);
    for (size_t row = 0; p < end && row + 1 < screen->rows; row++) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *stop = newline ? newline : end;
        bool is_full;

        gs_buf_add(page, p, fit_line(p, (size_t)(stop - p), screen->columns, &is_full));
        /* behind the last column a terminal would erase what stands there */
        gs_buf_adds(page, is_full ? "\n" : ERASE_LINE "\n");
        p = newline ? newline + 1 : end;
    }
    gs_buf_adds(page, ERASE_DOWN);
}
