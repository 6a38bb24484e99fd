#include "base/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void gs_table_init(struct gs_table *table, size_t n_columns, uint32_t right)
{
    *table = (struct gs_table){
        .n_columns = n_columns < GS_TABLE_COLUMNS ? n_columns : GS_TABLE_COLUMNS, .right = right};
}

void gs_table_fini(struct gs_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cell[i]);
    free(table->cell);
    *table = (struct gs_table){0};
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

void gs_table_add(struct gs_table *table, const char *text)
{
    char *copy;

    if (table->n_cells == table->cap) {
        size_t cap = table->cap ? table->cap * 2 : 32;
        char **cell = realloc(table->cell, cap * sizeof(*cell));

        if (!cell) {
            table->failed = true;
            return;
        }
        table->cell = cell;
        table->cap = cap;
    }
    copy = strdup(text);
    if (!copy) {
        table->failed = true;
        return;
    }
    for (char *c = copy; *c; c++)
        if (is_control(*c))
            *c = '?';
    table->cell[table->n_cells++] = copy;
}

void gs_table_addf(struct gs_table *table, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap); /* a cell that long is cut */
    va_end(ap);
    gs_table_add(table, text);
}

/* Columns on the screen: UTF-8 continuation bytes take none. */
static size_t width_of(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* A row may end in empty cells. */
static void end_row(struct gs_buf *buf)
{
    while (buf->n > 0 && buf->p[buf->n - 1] == ' ')
        buf->p[--buf->n] = '\0';
    gs_buf_adds(buf, "\n");
}

static void write_cell(const struct gs_table *t, size_t column, const char *text, size_t width,
                       struct gs_buf *buf)
{
    size_t pad = width - width_of(text);
    bool right = (t->right >> column) & 1u, last = column + 1 == t->n_columns;

    if (right)
        gs_buf_addc(buf, ' ', pad);
    gs_buf_adds(buf, text);
    if (!right && !last)
        gs_buf_addc(buf, ' ', pad);
    if (last)
        end_row(buf);
    else
        gs_buf_adds(buf, "  ");
}

int gs_table_write(const struct gs_table *table, const char *indent, struct gs_buf *buf)
{
    size_t width[GS_TABLE_COLUMNS] = {0};

    if (table->failed)
        return -ENOMEM;
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t w = width_of(table->cell[i]);

        if (w > width[i % table->n_columns])
            width[i % table->n_columns] = w;
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        if (i % table->n_columns == 0)
            gs_buf_adds(buf, indent);
        write_cell(table, i % table->n_columns, table->cell[i], width[i % table->n_columns], buf);
    }
    return gs_buf_check(buf);
}

void gs_table_bar(struct gs_buf *buf, uint64_t part, uint64_t whole, size_t width, bool ascii)
{
    size_t full = 0;

    if (whole > 0 && part >= whole)
        full = width;
    else if (whole > 0)
        full = (size_t)((double)part / (double)whole * (double)width + 0.5);
    if (full == 0 && part > 0 && whole > 0 && width > 0)
        full = 1; /* something is used: show it */
    gs_buf_adds(buf, "[");
    for (size_t i = 0; i < width; i++) {
        if (ascii)
            gs_buf_adds(buf, i < full ? "#" : "-");
        else
            gs_buf_adds(buf, i < full ? "\u2588" : "\u2591");
    }
    gs_buf_adds(buf, "]");
}

void gs_table_clean(struct gs_buf *buf, const char *text)
{
    for (; *text; text++)
        gs_buf_add(buf, is_control(*text) ? "?" : text, 1);
}
