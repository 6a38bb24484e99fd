#pragma once
/* Handles of the API side (streams, events, modules, graphs, ...): addresses of zeroed objects that
 * are recycled but never unmapped, so that a stale handle is found dead by its kind rather than
 * read wild. Own lock, taken last; any thread. */

#include <stddef.h>
#include <stdint.h>

enum gs_object_kind {
    GS_OBJECT_DEAD = 0,
    GS_OBJECT_STREAM,
    GS_OBJECT_EVENT,
    GS_OBJECT_MODULE,
    GS_OBJECT_FUNCTION,
    GS_OBJECT_LIBRARY,
    GS_OBJECT_KERNEL,
    GS_OBJECT_LINK,
    GS_OBJECT_GRAPH,
    GS_OBJECT_NODE,
    GS_OBJECT_EXEC,
    GS_OBJECT_USER,
    GS_OBJECT_TEXTURE,
    GS_OBJECT_SURFACE,
    GS_OBJECT_TEXREF,
    GS_OBJECT_EXTERNAL,
    GS_OBJECT_KIND_COUNT
};

/** First member of every such object. */
struct gs_object {
    uint64_t kind; /**< enum gs_object_kind xor GS_OBJECT_SALT */
    struct gs_object *next_free;
};

#define GS_OBJECT_SALT UINT64_C(0x5347424f6a656374)

/** A zeroed object of `size` bytes (the same for every object of a kind), or NULL without memory.
 */
void *gs_object_new(enum gs_object_kind kind, size_t size);
void gs_object_free(void *object);

/** 1 when `object` is a live object of that kind. NULL is none. */
static inline int gs_object_is(const void *object, enum gs_object_kind kind)
{
    return object && ((const struct gs_object *)object)->kind == ((uint64_t)kind ^ GS_OBJECT_SALT);
}
