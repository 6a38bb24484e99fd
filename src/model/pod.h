#pragma once
/* A pod as decisions see it: names, annotations, and what each container asks for. A view over
 * somebody's document; text is borrowed. What admission wants changed is written into the view (so
 * that the next rule sees it) and noted, for the caller to make a patch of. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/str.h"

struct gs_pair {
    struct gs_str key, value;
};

/** Pairs with room to grow in the pod's arena. Keys are unique but for env, where the last one
 *  counts. */
struct gs_pairs {
    struct gs_pair *at;
    size_t n, cap;
};

/** What the view has in place of a value by reference (valueFrom): no literal can be it, so that an
 *  edit to any text is one. */
#define GS_POD_ENV_REF ((struct gs_str){"", 1})

struct gs_container {
    struct gs_str name;
    struct gs_pairs limits, requests; /**< value = quantity as the API has it ("1k", "8192") */
    struct gs_pairs env;              /**< GS_POD_ENV_REF where the value is not known here */
    bool is_privileged;
    bool is_init;
    bool is_sidecar; /**< init container with restartPolicy Always: counts like an app container */
};

/** Does it run and end before the app containers start? Then what it holds is free for them. */
static inline bool gs_container_is_passing(const struct gs_container *c)
{
    return c->is_init && !c->is_sidecar;
}

enum gs_edit_kind {
    GS_EDIT_LIMIT,         /**< container, key, value: set */
    GS_EDIT_REQUEST,       /**< container, key, value: set */
    GS_EDIT_ENV,           /**< container, key, value: set, replacing one of that name */
    GS_EDIT_ANNOTATION,    /**< key, value: set */
    GS_EDIT_NO_ANNOTATION, /**< key: removed */
    GS_EDIT_NO_LABEL,      /**< key: removed */
    GS_EDIT_RUNTIME_CLASS, /**< value */
    GS_EDIT_SCHEDULER,     /**< value */
};

struct gs_edit {
    enum gs_edit_kind kind;
    size_t container; /**< index into gs_pod.container */
    struct gs_str key, value;
};

struct gs_pod {
    struct gs_arena *arena; /**< of what edits add; not owned */
    struct gs_str ns, name, uid;
    struct gs_str version; /**< resourceVersion; empty: not known */
    bool is_closed;        /**< no Binding may name that version: control/fence.h */
    int64_t outlives_ms;   /**< deleted by force its containers may run on for so long */
    struct gs_str node_name, scheduler_name, runtime_class;
    struct gs_pairs annotations, labels;
    struct gs_container
        *container; /**< init containers first, then app containers: the order of grants */
    size_t n_containers, n_init;
    struct gs_edit *edit; /**< in the order they were wished for */
    size_t n_edits, cap_edits;
};

/** Value of the last pair of that key; NULL where there is none. */
const struct gs_str *gs_pairs_find(const struct gs_pairs *pairs, struct gs_str key);
/** Set or append. 0 or -ENOMEM. */
int gs_pairs_set(struct gs_pairs *pairs, struct gs_arena *arena, struct gs_str key,
                 struct gs_str value);

/** Room that a grant of these annotations needs in its pod: they themselves, as much again for what
 *  the node adds to them, and GS_ANNOTATIONS_MARKS. */
size_t gs_pod_grant_room(const struct gs_pairs *grant);
/** Is there room for so many bytes more of annotations? What we write ourselves to a pod that waits
 *  does not count: GS_ANNOTATIONS_MARKS is for it. 0, or -EINVAL with a text for the user. */
int gs_pod_check_room(const struct gs_pod *pod, size_t more, struct gs_err *err);

/** Annotation's text, or an empty view. `ret_is_there` may be NULL. */
struct gs_str gs_pod_annotation(const struct gs_pod *pod, struct gs_str key, bool *ret_is_there);
/** Limit, else request, of a container; NULL where neither is set or the name is empty. */
const struct gs_str *gs_container_amount(const struct gs_container *c, struct gs_str name);

/** Wish for a change: the view shows it from now on, unless it was so already (then nothing is
 *  noted). Text is copied into the pod's arena. Returns 0 or -ENOMEM. */
int gs_pod_edit(struct gs_pod *pod, enum gs_edit_kind kind, size_t container, struct gs_str key,
                struct gs_str value);
