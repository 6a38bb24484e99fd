#pragma once
/* Reading JSON from outside: bounded parsing, and fields whose absence, null and wrong type are
 * told apart. Where a key is repeated the first one counts. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_arena;
struct yyjson_doc;
struct yyjson_val;

enum gs_kube_got {
    GS_KUBE_GOT,     /**< there, of the right type and in range; the output is set */
    GS_KUBE_MISSING, /**< no such key (or the parent is no object); output untouched */
    GS_KUBE_NULL,    /**< null; output untouched */
    GS_KUBE_WRONG,   /**< another type, or a number out of range; output untouched */
};

/** Parse a document.
 *  @max     refuse more than this many bytes (-EFBIG). The tree may take GS_KUBE_JSON_GROWTH bytes
 *           per byte of text and not more (-E2BIG): "[[[[..." would otherwise take 16.
 *  Returns  0; -EINVAL no JSON (err says what and where); -EFBIG; -E2BIG; -ENOMEM.
 *  Owner    caller; release with gs_kube_json_free(). Strings are copied into the document. */
GS_WUR int gs_kube_json_read(struct gs_str text, size_t max, struct yyjson_doc **ret_doc,
                             struct gs_err *err);
#define GS_KUBE_JSON_GROWTH 6

/** Accepts NULL; returns NULL. */
struct yyjson_doc *gs_kube_json_free(struct yyjson_doc *doc);
/** For GS_CLEANUP. */
void gs_kube_json_free_p(struct yyjson_doc **doc);

/** Fields of an object. `obj` may be NULL or no object: then everything is missing. */
enum gs_kube_got gs_kube_json_str(struct yyjson_val *obj, const char *key, struct gs_str *ret);
enum gs_kube_got gs_kube_json_bool(struct yyjson_val *obj, const char *key, bool *ret);
/** Whole numbers only: 1.0 and 1e3 are wrong, as Go's decoder has it. */
enum gs_kube_got gs_kube_json_i32(struct yyjson_val *obj, const char *key, int32_t *ret);
enum gs_kube_got gs_kube_json_i64(struct yyjson_val *obj, const char *key, int64_t *ret);
enum gs_kube_got gs_kube_json_obj(struct yyjson_val *obj, const char *key, struct yyjson_val **ret);
enum gs_kube_got gs_kube_json_arr(struct yyjson_val *obj, const char *key, struct yyjson_val **ret);

/** A text as a view; of anything else, and of NULL, an empty one. yyjson_get_len() by itself says
 * of a list how many entries it has. */
struct gs_str gs_kube_json_text(struct yyjson_val *val);

/** A quantity as text: a string as it is, a number written out into `arena` (the API accepts both).
 *  Returns  GS_KUBE_WRONG also when out of memory. `val` is the value itself and may be NULL. */
enum gs_kube_got gs_kube_json_quantity(struct yyjson_val *val, struct gs_arena *arena,
                                       struct gs_str *ret);
