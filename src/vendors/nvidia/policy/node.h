#pragma once
/* What the annotations of a node say of its NVIDIA cards. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/policy.h"

struct yyjson_val;

/** gs_group.facts of this vendor. Indexes are those of the group's devices. */
struct gs_nvidia_facts {
    size_t n;
    const int32_t *score; /**< [n * n] link score of (from, to), higher is nearer; NULL: all 0 */
};

/** Cards of a node above which link scores are not kept (the table grows by the square). */
#define GS_NVIDIA_SCORED_MAX 256

/** gs_policy_ops.read_node: hami.io/node-nvidia-register with the node's scores. */
int gs_nvidia_read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                        struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                        struct gs_err *err);
/** gs_policy_ops.read_device: MIG profiles of one card (struct gs_nvidia_mig as its `custom`). */
int gs_nvidia_read_device(void *user, struct yyjson_val *element, struct gs_arena *arena,
                          struct gs_device *dev, struct gs_err *err);
