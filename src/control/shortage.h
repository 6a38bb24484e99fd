#pragma once
/* Why a pod found no room, over all nodes, in one sentence for people: which card comes closest and
 * what it lacks. */

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/device.h"
#include "model/reason.h"

struct gs_shortage {
    struct {
        size_t nodes;
        struct gs_str node, card; /**< the one that comes closest; borrowed */
        int32_t need, free;       /**< MiB or cores, for the two reasons that have them */
    } of[GS_REASON_COUNT];
    size_t unregistered; /**< nodes without devices of ours */
    size_t nodes;
};

void gs_shortage_add(struct gs_shortage *s, const struct gs_node *node,
                     const struct gs_reasons *reasons);
/** "3 nodes: needs 8192 MiB, card GPU-a on n1 has 6144 free; 2 nodes: card type not asked for". */
void gs_shortage_write(const struct gs_shortage *s, struct gs_buf *buf);
/** The same of one node, for the answer of a filter: HAMi's words first. */
void gs_shortage_write_node(const struct gs_reasons *reasons, struct gs_buf *buf);
