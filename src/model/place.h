#pragma once
/* A whole pod on one node: every container, every vendor. */

#include "base/arena.h"
#include "core/cleanup.h"
#include "model/fit.h"
#include "model/policy.h"
#include "model/quota.h"

/** What a pod asks, read once and used for every node. */
struct gs_ask {
    const struct gs_pod *pod;
    const struct gs_policies *policies;
    struct gs_request *request; /**< [n_containers * policies->n]; nums 0: nothing */
    bool *asks;                 /**< [policies->n]: any container asks for it */
    bool asks_any;
    struct gs_device_policy device_policy;
    bool is_node_spread; /**< hami.io/node-scheduler-policy */
    const struct gs_quota *quota;
};

/** Returns 0, -EINVAL (err: bad weights), -ENOMEM. */
GS_WUR int gs_ask_read(const struct gs_pod *pod, const struct gs_policies *policies,
                       struct gs_str device_policy, struct gs_str node_policy,
                       const struct gs_quota *quota, struct gs_arena *arena, struct gs_ask *ret,
                       struct gs_err *err);

struct gs_placement {
    struct gs_taken *taken; /**< in the order containers, then vendors of the table */
    size_t n;
    double score; /**< node score before the pod, plus the vendors' own */
};

/** Try the pod on a node. Init containers one at a time, app containers together.
 *  Returns  0 and *ret in the arena; -ENOSPC and *reasons of the vendor and container that failed;
 *  -ENOMEM. Threads: pure. */
GS_WUR int gs_place(const struct gs_ask *ask, const struct gs_node *node, struct gs_arena *arena,
                    struct gs_placement *ret, struct gs_reasons *reasons);
/** Cheap necessary condition, without allocation: false when gs_place() is sure to fail. */
bool gs_place_may(const struct gs_ask *ask, const struct gs_node *node);
/** Annotations of a placement: grants of every vendor (all slots, empty ones too), the vendors'
 * own, hami.io/vgpu-node and vgpu-time. */
GS_WUR int gs_place_annotate(const struct gs_ask *ask, const struct gs_node *node,
                             const struct gs_placement *placement, int64_t now_ns,
                             struct gs_arena *arena, struct gs_pairs *ret);
