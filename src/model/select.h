#pragma once
/* Selection by the user's lists: use/nouse UUIDs (exact, trimmed) and types (case-insensitive part
 * of the device's type). Blank text: no constraint. A use-list of nothing but commas matches no
 * card; a nouse-list of that kind forbids none. The lists are read once per pod; a test per card
 * searches no annotation. */

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/pod.h"

struct gs_keys;

/** A list of a user: split at commas, trimmed, blank members left out. */
struct gs_list {
    const struct gs_str *at; /**< ascending (gs_str_cmp()) */
    size_t n;
    bool is_given; /**< there is text that is not blank: a list without members may be given */
};

struct gs_select_memo;

/** One pod's lists for one vendor. */
struct gs_selection {
    struct gs_list use_uuid, use_uuid2; /**< both must hold the UUID (Kunlun has two keys) */
    struct gs_list nouse_uuid, nouse_uuid2;
    struct gs_list use_type, nouse_type;
    struct gs_select_memo *memo; /**< the types asked for last; NULL: no list of types */
};

/** Split a list in the arena; members are views into `text`. 0 or -ENOMEM. */
GS_WUR int gs_select_list(struct gs_str text, struct gs_arena *arena, struct gs_list *ret);
/** Read a vendor's lists of a pod. 0 or -ENOMEM. */
GS_WUR int gs_select_read(const struct gs_pod *pod, const struct gs_keys *keys,
                          struct gs_arena *arena, struct gs_selection *ret);
bool gs_select_takes_uuid(const struct gs_selection *s, struct gs_str uuid);
/** Threads  one at a time per selection (it remembers answers). */
bool gs_select_takes_type(const struct gs_selection *s, struct gs_str type);
/** Is the word a member? */
bool gs_select_has(const struct gs_list *list, struct gs_str word);
