#pragma once
/* How the views read: one row per field, so that each place treats missing, null and wrong alike.
 * Inside the room only. */

#include <stddef.h>
#include <stdint.h>

#include "kube/view.h"

enum gs_kube_field_type {
    GS_KUBE_FIELD_STR,  /**< struct gs_str */
    GS_KUBE_FIELD_BOOL, /**< bool */
    GS_KUBE_FIELD_I32,  /**< int32_t */
    GS_KUBE_FIELD_I64,  /**< int64_t */
    GS_KUBE_FIELD_TIME, /**< int64_t, microseconds; left alone where not given */
};

struct gs_kube_field {
    const char *key;
    enum gs_kube_field_type type;
    size_t offset;
};

/** Read the rows' fields of an object into `out`. NULL object: nothing is there. */
GS_WUR int gs_kube_view_fields(struct yyjson_val *obj, const struct gs_kube_field *field, size_t n,
                               void *out, struct gs_err *err);
/** Member that must be an object, or a list; NULL where missing or null. */
GS_WUR int gs_kube_view_obj(struct yyjson_val *obj, const char *key, struct yyjson_val **ret,
                            struct gs_err *err);
GS_WUR int gs_kube_view_arr(struct yyjson_val *obj, const char *key, struct yyjson_val **ret,
                            struct gs_err *err);
/** Member that is a map of text to text (is_quantity: or to numbers). */
GS_WUR int gs_kube_view_pairs(struct yyjson_val *obj, const char *key, bool is_quantity,
                              struct gs_arena *arena, struct gs_kube_pairs *ret,
                              struct gs_err *err);
/** Member that is a list of texts. */
GS_WUR int gs_kube_view_strs(struct yyjson_val *obj, const char *key, struct gs_arena *arena,
                             struct gs_str **ret, size_t *ret_n, struct gs_err *err);
/** Member that is a list of objects: room for `size` bytes each, zeroed, and read(item, entry). A
 *  null entry is read as an empty object. */
typedef int gs_kube_item_fn(struct yyjson_val *item, struct gs_arena *arena, void *entry,
                            struct gs_err *err);
struct gs_kube_items {
    const char *key;
    size_t size;
    gs_kube_item_fn *read;
};
#define GS_KUBE_ITEMS(key, entry, read)                                                            \
    (&(const struct gs_kube_items){(key), sizeof(entry), (read)})
/** @ret_at  pointer to a pointer to entries. */
GS_WUR int gs_kube_view_items(struct yyjson_val *obj, const struct gs_kube_items *what,
                              struct gs_arena *arena, void *ret_at, size_t *ret_n,
                              struct gs_err *err);
/** status.conditions and the like. */
gs_kube_item_fn gs_kube_view_condition;
/** The object itself, its metadata, and that it has a name. */
GS_WUR int gs_kube_view_begin(struct yyjson_val *val, struct gs_arena *arena,
                              struct gs_kube_meta *ret, struct gs_err *err);
