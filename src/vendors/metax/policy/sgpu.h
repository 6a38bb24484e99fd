#pragma once
/* MetaX sGPU: shares with classes (online, offline, none) and qualities of service, and whole cards
 * that are near each other. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/device.h"

struct gs_fit;
struct gs_pick;
struct gs_policy_ops;

extern const struct gs_policy_ops gs_sgpu_ops;

/** Where the policy of shares keeps its configuration (gs_policy.conf). */
struct gs_sgpu_conf {
    bool is_topology_aware;
};

/** A pod's class; the low bits of its tag. */
enum gs_sgpu_class {
    GS_SGPU_CLASS_NONE,
    GS_SGPU_CLASS_ONLINE,
    GS_SGPU_CLASS_OFFLINE,
    GS_SGPU_CLASS_MASK = 3,
};

/** A pod's or a card's quality of service; above the class in a tag. */
enum gs_sgpu_qos {
    GS_SGPU_QOS_NONE,
    GS_SGPU_QOS_BEST_EFFORT,
    GS_SGPU_QOS_FIXED_SHARE,
    GS_SGPU_QOS_BURST_SHARE,
    GS_SGPU_QOS_OTHER, /**< a text that is none of them: equal to nothing else */
};
#define GS_SGPU_QOS_SHIFT 2

/** gs_device.custom of a card. */
struct gs_sgpu_card {
    int32_t zone; /**< MetaXLink zone; 0 and below: none */
    uint32_t qos; /**< enum gs_sgpu_qos, as the node reports it */
};

uint32_t gs_sgpu_qos_of(struct gs_str text);

/** Pods of either class on a card. */
struct gs_sgpu_crowd {
    int32_t online, offline;
};
struct gs_sgpu_crowd gs_sgpu_crowd_of(const struct gs_use *use);
