#pragma once
/* What the register annotation of a node says of its AMD cards beside what all vendors have. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "model/policy.h"

struct yyjson_val;

/** gs_device.custom of this vendor. */
struct gs_amd_device {
    struct gs_str bdf;         /**< PCI address "0000:65:00.0"; of partitions: the card's */
    const struct gs_str *peer; /**< addresses of cards that XGMI links it to */
    size_t n_peers;
    int32_t cu_per_wgp; /**< compute units are given in multiples of it: 2 on RDNA, else 1 */
};

/** Peers that are read of one device at most. */
#define GS_AMD_PEERS_MAX 256
/** Cards of a node above which links are not kept. */
#define GS_AMD_LINKED_MAX 128

/** gs_group.facts of this vendor. */
struct gs_amd_facts {
    size_t n;
    const bool *is_linked; /**< [n * n], symmetric: both name each other, or one card's partitions;
                              NULL: none are */
};

/** gs_policy_ops.read_node. A node whose kubelet offers none of the count resource has no cards:
 *  the annotation has no heartbeat and outlives its plugin. */
int gs_amd_read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                     struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                     struct gs_err *err);
/** gs_policy_ops.read_device: custominfo of one card (struct gs_amd_device as its `custom`). */
int gs_amd_read_device(void *user, struct yyjson_val *element, struct gs_arena *arena,
                       struct gs_device *dev, struct gs_err *err);
