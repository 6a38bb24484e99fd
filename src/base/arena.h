#pragma once
/* Memory that is given back all at once: a request, a snapshot, a document's typed view.
 *
 * Failure is sticky, as in gs_buf: gs_arena_take() answers NULL from then on, and gs_arena_check()
 * says so once at the end for code that builds many small things. */

#include <stddef.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_arena_block;

struct gs_arena {
    struct gs_arena_block *block; /**< newest first; NULL while empty */
    size_t used;                  /**< bytes used of the newest block */
    size_t total;                 /**< bytes of all blocks, for limits and metrics */
    bool failed;
};

void gs_arena_init(struct gs_arena *arena);
/** Free everything; usable again afterwards. Accepts NULL and zeroed objects. */
void gs_arena_fini(struct gs_arena *arena);
/** Forget everything but keep the largest block: for a loop of requests. */
void gs_arena_reset(struct gs_arena *arena);

/** `n` zeroed objects of `size` bytes, aligned for any type; NULL when out of memory (or n * size
 *  overflows). n = 0 gives a valid pointer. */
GS_WUR void *gs_arena_take(struct gs_arena *arena, size_t n, size_t size);
#define GS_ARENA_NEW(arena, type)      ((type *)gs_arena_take((arena), 1, sizeof(type)))
#define GS_ARENA_ARRAY(arena, n, type) ((type *)gs_arena_take((arena), (n), sizeof(type)))

/** Copy, NUL-terminated behind the view; an empty view when out of memory. */
struct gs_str gs_arena_str(struct gs_arena *arena, struct gs_str s);
/** Text made in the arena. */
struct gs_str gs_arena_printf(struct gs_arena *arena, const char *fmt, ...) GS_PRINTF(2, 3);

/** 0, or -ENOMEM when anything was refused. */
GS_WUR int gs_arena_check(const struct gs_arena *arena);
