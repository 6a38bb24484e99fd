#include "base/arena.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BLOCK 1024u
#define ALIGN       (sizeof(max_align_t))

struct gs_arena_block {
    struct gs_arena_block *older;
    size_t cap;
    max_align_t bytes[];
};

void gs_arena_init(struct gs_arena *arena)
{
    *arena = (struct gs_arena){0};
}

static void free_chain(struct gs_arena_block *block)
{
    while (block != NULL) {
        struct gs_arena_block *older = block->older;

        free(block);
        block = older;
    }
}

void gs_arena_fini(struct gs_arena *arena)
{
    if (arena == NULL)
        return;
    free_chain(arena->block);
    *arena = (struct gs_arena){0};
}

void gs_arena_reset(struct gs_arena *arena)
{
    struct gs_arena_block *keep = arena->block; /* blocks grow: the newest is the largest */

    if (keep != NULL) {
        free_chain(keep->older);
        keep->older = NULL;
    }
    *arena = (struct gs_arena){.block = keep, .total = keep != NULL ? keep->cap : 0};
}

static bool grow(struct gs_arena *arena, size_t bytes)
{
    size_t cap = arena->block != NULL ? arena->block->cap : FIRST_BLOCK / 2;
    struct gs_arena_block *block;

    if (bytes > SIZE_MAX / 4)
        return false;
    do
        cap = cap < SIZE_MAX / 4 ? cap * 2 : cap;
    while (cap < bytes);
    block = malloc(sizeof(*block) + cap);
    if (block == NULL)
        return false;
    block->older = arena->block;
    block->cap = cap;
    arena->block = block;
    arena->used = 0;
    arena->total += cap;
    return true;
}

void *gs_arena_take(struct gs_arena *arena, size_t n, size_t size)
{
    size_t bytes;
    char *at;

    if (arena->failed || __builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 4)
        goto refused;
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes == 0)
        bytes = ALIGN;
    if ((arena->block == NULL || arena->block->cap - arena->used < bytes) && !grow(arena, bytes))
        goto refused;
    at = (char *)arena->block->bytes + arena->used;
    arena->used += bytes;
    return memset(at, 0, bytes);

refused:
    arena->failed = true;
    return NULL;
}

struct gs_str gs_arena_str(struct gs_arena *arena, struct gs_str s)
{
    char *copy = gs_arena_take(arena, s.n + 1, 1);

    if (copy == NULL)
        return (struct gs_str){0};
    if (s.n > 0)
        memcpy(copy, s.p, s.n);
    return (struct gs_str){copy, s.n};
}

struct gs_str gs_arena_printf(struct gs_arena *arena, const char *fmt, ...)
{
    va_list args;
    char *text;
    int n;

    va_start(args, fmt);
    n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    text = n < 0 ? NULL : gs_arena_take(arena, (size_t)n + 1, 1);
    if (text == NULL)
        return (struct gs_str){0};
    va_start(args, fmt);
    (void)vsnprintf(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return (struct gs_str){text, (size_t)n};
}

int gs_arena_check(const struct gs_arena *arena)
{
    return arena->failed ? -ENOMEM : 0;
}
