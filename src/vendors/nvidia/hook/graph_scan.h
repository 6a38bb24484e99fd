#pragma once
/* How much memory a graph's allocation nodes may take. */

#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/abi/cuda_types.h"

#define GS_GRAPH_CARDS 16u /* cards that one graph can allocate on and be followed */

struct gs_graph_need {
    uint32_t n;
    struct {
        CUdevice ordinal;
        uint64_t bytes;
    } card[GS_GRAPH_CARDS];
};

/** Ask the driver for the nodes of `graph` and of its child graphs, and add up per card. A graph
 *  whose nodes form one chain counts the most that is live at a time; any other graph the sum of
 *  its nodes.
 *  Returns  0; -ENOMEM no room to list the nodes, or graphs nested too deep. */
GS_WUR int gs_graph_scan(CUgraph graph, struct gs_graph_need *ret_need);
