#pragma once
/* What a node says of its cards that no grant of a living pod tells: cards used by strangers, and
 * containers that outlive their pods. Annotations of nodes; format in docs/protocol/node.md. Pure.
 */

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/policy.h"

#define GS_UNTRACKED_BYTES_MAX (1u << 18) /* the API server's limit on all annotations together */
#define GS_UNTRACKED_CARDS_MAX 4096u
#define GS_UNTRACKED_PODS_MAX  4096u

/** A pod that is gone from the API server while its containers still use their cards. */
struct gs_untracked_pod {
    struct gs_str uid;
    struct gs_str *grant, *placements; /**< [policies->n] as in struct gs_books_pod */
};

struct gs_untracked {
    struct gs_str *card; /**< UUIDs of cards that nobody may be given */
    size_t n_cards;
    struct gs_untracked_pod *pod;
    size_t n_pods;
};

/** Read both annotations of a node; one that is absent or empty says nothing.
 *  Returns  0 and *ret in the arena; -EINVAL (err says which and what); -E2BIG; -ENOMEM. */
GS_WUR int gs_untracked_read(const struct gs_pairs *annotations, const struct gs_policies *policies,
                             struct gs_arena *arena, struct gs_untracked *ret, struct gs_err *err);
