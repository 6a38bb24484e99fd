#include "model/json_out.h"

#include <string.h>

static void *take(void *ctx, size_t size)
{
    return gs_arena_take(ctx, 1, size);
}

static void *retake(void *ctx, void *was, size_t old_size, size_t size)
{
    void *now;

    if (size <= old_size)
        return was;
    now = gs_arena_take(ctx, 1, size);
    if (now != NULL && old_size > 0)
        memcpy(now, was, old_size);
    return now;
}

static void keep(void *ctx, void *p)
{
    (void)ctx; /* goes with the arena */
    (void)p;
}

yyjson_alc gs_json_out_alc(struct gs_arena *arena)
{
    return (yyjson_alc){.malloc = take, .realloc = retake, .free = keep, .ctx = arena};
}

struct gs_str gs_json_out_text(const yyjson_mut_doc *doc, struct gs_arena *arena)
{
    yyjson_alc alc = gs_json_out_alc(arena);
    struct gs_str text = {0};

    text.p = yyjson_mut_write_opts(doc, YYJSON_WRITE_NOFLAG, &alc, &text.n, NULL);
    return text.p != NULL ? text : (struct gs_str){0};
}
