#pragma once
/* A whole pod on one node: every container, every vendor. */

#include "base/arena.h"
#include "core/cleanup.h"
#include "model/ask.h"
#include "model/grant.h"

struct gs_placement {
    const struct gs_node *node;
    struct gs_taken *taken; /**< in the order of containers, then of the table */
    size_t n;
    double score; /**< node->score (before the pod) plus the vendors' own */
};

/** Try the pod on a node. An init container has the card to itself, but for the sidecars before
 *  it; app containers and sidecars add up.
 *  Returns  0 and *ret in the arena; -ENOSPC, *reasons of the vendor and container that failed;
 *           -ENOMEM.
 *  Memory   scratch of a few hundred bytes a node in the arena: reset it between nodes.
 *  Threads  pure; one at a time per ask. */
GS_WUR int gs_place(const struct gs_ask *ask, const struct gs_node *node, struct gs_arena *arena,
                    struct gs_placement *ret, struct gs_reasons *reasons);
/** Cheap necessary condition, without allocation: false when gs_place() is sure to fail. Looks at
 *  node->room where it is there and not at the cards. */
bool gs_place_may(const struct gs_ask *ask, const struct gs_node *node);
/** The grant of one vendor in a placement: one slot per container of the pod, empty ones too. 0 or
 *  -ENOMEM. */
GS_WUR int gs_place_grant(const struct gs_ask *ask, const struct gs_placement *placement,
                          const struct gs_policy *policy, struct gs_arena *arena,
                          struct gs_grant *ret);
/** Annotations of a placement: grants of every vendor asked for, the vendors' own,
 *  hami.io/vgpu-node and vgpu-time. 0 or -ENOMEM. */
GS_WUR int gs_place_annotate(const struct gs_ask *ask, const struct gs_placement *placement,
                             int64_t now_ns, struct gs_arena *arena, struct gs_pairs *ret);
