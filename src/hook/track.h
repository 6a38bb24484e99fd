#pragma once
/* What this process has allocated: handle or pointer -> what was charged for it.
 *
 * 64 shards, open addressing, growing, in memory we map ourselves; one short spin per operation,
 * never held across a driver call. Forgotten as a whole in a forked child. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

/** Key spaces: the same number may be a pointer and a handle. */
enum gs_obj_kind {
    GS_OBJ_LINEAR = 1, /**< pointer from a synchronous allocation */
    GS_OBJ_ASYNC,      /**< pointer from a stream-ordered allocation; owned by a pool */
    GS_OBJ_POOL,
    GS_OBJ_HANDLE, /**< physical memory handle */
    GS_OBJ_MAPPING,
    GS_OBJ_ARRAY,
    GS_OBJ_MIPMAP,
    GS_OBJ_GRAPH,
    GS_OBJ_GRAPH_EXEC,
    GS_OBJ_CONTEXT,
    GS_OBJ_MODULE,
    GS_OBJ_IMPORT, /**< pointer opened from another process */
    GS_OBJ_EXPORT, /**< descriptor of ours that stands for physical memory */
    GS_OBJ_BLOCK,  /**< a block of the card from which the driver cuts small allocations */
};

struct gs_obj {
    uint64_t bytes; /**< charged */
    uint64_t aux;   /**< meaning per kind */
    uint32_t dev;   /**< ledger index */
    int32_t share;  /**< share id, -1 none */
    uint32_t refs;
    uint32_t flags; /**< meaning per kind */
};

/** Insert or replace. Returns 0 or -ENOMEM (our own mapping failed). */
GS_WUR int gs_track_put(enum gs_obj_kind kind, uint64_t key, const struct gs_obj *obj);
/** Remove and return; false when unknown, with *ret_obj untouched. */
bool gs_track_take(enum gs_obj_kind kind, uint64_t key, struct gs_obj *ret_obj);
/** Copy; false when unknown. */
bool gs_track_get(enum gs_obj_kind kind, uint64_t key, struct gs_obj *ret_obj);
/** Run `fn` on the entry under its shard's lock; fn must not call the driver or this module.
 *  Returns fn's answer, or -ENOENT. When fn returns GS_TRACK_REMOVE the entry goes. */
int gs_track_update(enum gs_obj_kind kind, uint64_t key, int (*fn)(struct gs_obj *obj, void *arg),
                    void *arg);
#define GS_TRACK_REMOVE 1
/** Visit all entries of a kind, one shard at a time, on a snapshot; for slow paths. */
void gs_track_each(enum gs_obj_kind kind,
                   void (*fn)(uint64_t key, const struct gs_obj *obj, void *arg), void *arg);
/** Forget everything (forked child). */
void gs_track_reset(void);
