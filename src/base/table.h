#pragma once
/* Text for people: columns that line up, and bars. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"

struct gs_buf;

#define GS_TABLE_COLUMNS 12

/** Cells are copied; the widest cell of a column decides its width. */
struct gs_table {
    char **cell; /**< row by row */
    size_t n_cells;
    size_t cap;
    size_t n_columns;
    uint32_t right; /**< bit per column: align right */
    bool failed;    /**< a cell was lost for want of memory */
};

/** @right  bit i set: column i is aligned right (numbers). n_columns <= GS_TABLE_COLUMNS. */
void gs_table_init(struct gs_table *table, size_t n_columns, uint32_t right);
void gs_table_fini(struct gs_table *table);
/** Append the next cell, left to right, row by row. Control characters become '?', so that a name
 *  from a stranger cannot drive the terminal. */
void gs_table_add(struct gs_table *table, const char *text);
void gs_table_addf(struct gs_table *table, const char *fmt, ...) GS_PRINTF(2, 3);
/** Write the rows, each after `indent`, two spaces between columns, none at the end. Returns 0 or
 *  -ENOMEM. */
GS_WUR int gs_table_write(const struct gs_table *table, const char *indent, struct gs_buf *buf);

/** Bar of `width` cells, "[####----]" with @ascii, block characters without. `part` beyond `whole`
 *  fills the bar; whole == 0 leaves it empty. */
void gs_table_bar(struct gs_buf *buf, uint64_t part, uint64_t whole, size_t width, bool ascii);

/** Append text with control characters replaced by '?'. */
void gs_table_clean(struct gs_buf *buf, const char *text);
