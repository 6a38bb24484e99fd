#pragma once
/* A node as the vendors read it: from what the API server has of it to devices. */

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/device.h"
#include "model/pod.h"

/** What the API server has of a node. */
struct gs_node_view {
    struct gs_str name;
    const struct gs_pairs *annotations, *labels;
    const struct gs_pairs *capacity, *allocatable; /**< value = quantity text */
};

/** Group of a policy on a node; NULL: none. */
const struct gs_group *gs_node_group(const struct gs_node *node, const struct gs_policy *policy);
/** Devices of a node as ops->read_node() has them, and which of them the node's annotation
 *  hami.io/device-cordon takes out of use: a list of ids, of any vendor's (HAMi: NVIDIA's alone).
 *  Devices of one id are marked (is_claimed_twice), both of them.
 *  Returns  as ops->read_node(); -E2BIG a cordon of more than GS_REGISTER_BYTES_MAX. */
GS_WUR int gs_node_read(const struct gs_policy *policy, const struct gs_node_view *view,
                        struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                        struct gs_err *err);
/** How much of a resource is among a view's capacity or allocatable; NULL: nothing is.
 *  Returns  1 and *ret (above 0); 0 nothing of it (absent, zero, or an empty name); -EINVAL
 *           unreadable or negative. */
GS_WUR int gs_node_amount(const struct gs_pairs *amounts, struct gs_str name, int64_t *ret);
/** 10 * (slots + cores + memory used over total), over all devices of a node; 0 where a total is 0.
 */
double gs_node_score(const struct gs_node *node);
