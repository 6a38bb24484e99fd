#pragma once
/* A page on a terminal that is drawn again and again. */

#include <stddef.h>

#include "core/cleanup.h"

struct gs_buf;

struct gs_screen {
    size_t rows;
    size_t columns; /**< SIZE_MAX both where standard output is no terminal or does not say */
};

void gs_screen_read(struct gs_screen *ret);

/** Append what draws `text` over the page before: from the top, each line cut to the width (what
 * is wrapped would push the rest down) and its rest erased, then what is below. The screen is never
 * empty meanwhile, so that nothing flickers.
 *  Threads  pure. */
void gs_screen_draw(const struct gs_screen *screen, const struct gs_buf *text, struct gs_buf *page);
