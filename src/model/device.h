#pragma once
/* What a node has and what is taken of it. Memory in MiB and cores in the vendor's units (percent
 * of a card for most; CUs for AMD; a bit mask for AWS Neuron), as on the wire. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/str.h"
#include "model/reason.h"

struct gs_policy;

struct gs_device {
    struct gs_str id;   /**< UUID; unique on its node */
    struct gs_str type; /**< model text ("NVIDIA A100-SXM4-40GB") or the vendor's word */
    struct gs_str mode; /**< NVIDIA: hami-core, mig, mps; else empty */
    uint32_t index;     /**< card index as registered */
    int32_t count;      /**< shares */
    int32_t mem_mib;
    int32_t cores;
    int32_t numa;
    bool is_healthy;
    bool is_cordoned;      /**< an administrator takes it out of use: nobody new (gs_node_read) */
    bool is_claimed_twice; /**< another entry says that it is this device: nobody new */
    const void *custom;    /**< vendor's own facts of this device (MIG profiles, network id, ...);
                              NULL: none */
};

/** Somebody who holds a part of a device. */
struct gs_tenant {
    struct gs_str uid; /**< pod's; empty: nobody knows whose */
    int32_t slots, mem_mib, cores;
    uint32_t tag; /**< vendor's note on the pod (MetaX: class and QoS); 0: none */
    int32_t place_start, place_size; /**< MIG placement; size 0: none */
};

/** What is taken of one device: the sum over its tenants. */
struct gs_use {
    int32_t slots, mem_mib, cores;
    bool is_closed; /**< takes nobody for now (MIG books and registration disagree, untracked
                       use) */
    const struct gs_tenant *tenant;
    size_t n_tenants;
};

/** One device given to one container. */
struct gs_pick {
    uint32_t dev; /**< index into gs_node.dev */
    int32_t mem_mib, cores;
    int32_t place_start, place_size; /**< MIG; size 0: none */
    struct gs_str profile;           /**< MIG profile, vNPU template; empty: none */
};

/** Devices of one vendor on a node: a range of gs_node.dev. */
struct gs_group {
    const struct gs_policy *policy;
    uint32_t first, n;
    const void *facts; /**< vendor's facts of the node (link scores, soft mode, instance type);
                          NULL: none */
};

#define GS_ROOM_CARDS 8

/** What is free in a group, made once when its use changes (gs_usage_settle), so that a pod is kept
 *  off a full node without a look at the cards: one line of cache. Open: healthy, not closed,
 *  cordoned or claimed twice, a share free. */
struct gs_room {
    const struct gs_policy *policy; /**< of the group */
    uint32_t n_open;
    int32_t min_mem_mib;               /**< total of the smallest open card */
    int32_t free_mib[GS_ROOM_CARDS];   /**< of open cards, largest first; missing cards: -1 */
    int16_t free_cores[GS_ROOM_CARDS]; /**< likewise, on its own; at most INT16_MAX */
};

struct gs_node {
    const struct gs_group *group; /**< in the order of the table of vendors */
    size_t n_groups;
    const struct gs_room *room; /**< parallel to group, of gs_usage_settle(); NULL: not known */
    double score;               /**< of gs_usage_settle(): gs_node_score() of the use below */
    struct gs_str name;
    const struct gs_device *dev;
    const struct gs_use *use; /**< parallel to dev */
    size_t n_dev;
};

/** Does the device take anybody at all: healthy, not closed, not cordoned, not claimed twice? The
 * first question of every vendor. GS_REASON_COUNT: yes. */
enum gs_reason gs_device_ask_open(const struct gs_device *dev, const struct gs_use *use);
