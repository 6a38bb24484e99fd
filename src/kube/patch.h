#pragma once
/* Builders of the three patches the API takes. A builder owns one mutable document; text given to
 * it is copied, failure is sticky and told by gs_kube_patch_text(). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_buf;
struct yyjson_mut_doc;
struct yyjson_mut_val;
struct yyjson_val;

/** Merge patch (RFC 7386), and any other object that is to be built: a Binding, an Event. */
struct gs_kube_merge {
    struct yyjson_mut_doc *doc; /**< NULL after a failure */
    struct yyjson_mut_val *root;
};

void gs_kube_merge_init(struct gs_kube_merge *m);
/** Accepts zeroed and failed ones. */
void gs_kube_merge_fini(struct gs_kube_merge *m);

/** Set the member at `path`, making the objects on the way: ("metadata", "annotations", key). The
 *  path ends with NULL. Later values replace earlier ones. */
void gs_kube_merge_str(struct gs_kube_merge *m, const char *const *path, struct gs_str value);
void gs_kube_merge_i64(struct gs_kube_merge *m, const char *const *path, int64_t value);
void gs_kube_merge_bool(struct gs_kube_merge *m, const char *const *path, bool value);
/** null: a merge patch removes the member. */
void gs_kube_merge_null(struct gs_kube_merge *m, const char *const *path);
/** A copy of a value from elsewhere. */
void gs_kube_merge_val(struct gs_kube_merge *m, const char *const *path, struct yyjson_val *value);
/** One path element given as a view, for keys that are not C strings. */
void gs_kube_merge_pair(struct gs_kube_merge *m, const char *const *path, struct gs_str key,
                        struct gs_str value);
/** Path of string literals: GS_KUBE_PATH("metadata", "labels"). */
#define GS_KUBE_PATH(...) ((const char *const[]){__VA_ARGS__, NULL})

/** metadata.annotations[key] and metadata.labels[key]. */
void gs_kube_merge_annotation(struct gs_kube_merge *m, struct gs_str key, struct gs_str value);
void gs_kube_merge_annotation_null(struct gs_kube_merge *m, struct gs_str key);
void gs_kube_merge_label(struct gs_kube_merge *m, struct gs_str key, struct gs_str value);
/** metadata.resourceVersion: the patch is refused (409) where the object has changed since. */
void gs_kube_merge_version(struct gs_kube_merge *m, struct gs_str resource_version);
void gs_kube_merge_uid(struct gs_kube_merge *m, struct gs_str uid);

/** Append the text. 0; -ENOMEM, also for any earlier failure; -EILSEQ something was no UTF-8. */
GS_WUR int gs_kube_merge_text(const struct gs_kube_merge *m, struct gs_buf *buf);

/** JSON Patch (RFC 6902): operations in the order they were added. */
struct gs_kube_patch {
    struct yyjson_mut_doc *doc; /**< NULL after a failure */
    struct yyjson_mut_val *ops;
    size_t n; /**< operations so far */
};

/** JSON Pointer under construction: parts are escaped (~0, ~1), indices and "-" as numbers go. */
struct gs_kube_pointer {
    const struct gs_str *part;
    size_t n;
};
#define GS_KUBE_POINTER(...)                                                                       \
    ((struct gs_kube_pointer){(const struct gs_str[]){__VA_ARGS__},                                \
                              sizeof((const struct gs_str[]){__VA_ARGS__}) /                       \
                                  sizeof(struct gs_str)})

void gs_kube_patch_init(struct gs_kube_patch *p);
void gs_kube_patch_fini(struct gs_kube_patch *p);
/** @value   copied; a mutable value must belong to p->doc (gs_kube_patch_doc) and is handed over.
 */
void gs_kube_patch_add_str(struct gs_kube_patch *p, struct gs_kube_pointer at, struct gs_str value);
void gs_kube_patch_add(struct gs_kube_patch *p, struct gs_kube_pointer at,
                       struct yyjson_mut_val *value_take);
void gs_kube_patch_replace_str(struct gs_kube_patch *p, struct gs_kube_pointer at,
                               struct gs_str value);
void gs_kube_patch_replace(struct gs_kube_patch *p, struct gs_kube_pointer at,
                           struct yyjson_mut_val *value_take);
void gs_kube_patch_remove(struct gs_kube_patch *p, struct gs_kube_pointer at);
void gs_kube_patch_test_str(struct gs_kube_patch *p, struct gs_kube_pointer at,
                            struct gs_str value);
/** Append the text: an array, "[]" where nothing was added. 0; -ENOMEM; -EILSEQ. */
GS_WUR int gs_kube_patch_text(const struct gs_kube_patch *p, struct gs_buf *buf);
