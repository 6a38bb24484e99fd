#pragma once
/* What is known of a card that is shared: classes and qualities of service of those on it. */

#include <stdint.h>

#include "core/str.h"
#include "model/device.h"

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

/** By the word of the protocol; none for an empty one. */
uint32_t gs_sgpu_card_qos(struct gs_str text);

static inline uint32_t gs_sgpu_card_class(uint32_t tag)
{
    return tag & GS_SGPU_CLASS_MASK;
}

/** Pods of either class on a card. */
struct gs_sgpu_crowd {
    int32_t online, offline;
};
struct gs_sgpu_crowd gs_sgpu_card_crowd(const struct gs_use *use);
