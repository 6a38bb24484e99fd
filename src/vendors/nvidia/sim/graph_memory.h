#pragma once
/* Memory of graph allocation nodes.
 *
 * An address is fixed when the node is made; physical memory comes from the device's graph pool
 * when the graph is launched, and goes back to that pool (not to the card) when it is freed;
 * cuDeviceGraphMemTrim returns what is unused to the card. Built on the simulator's own virtual
 * memory calls. Guard: one lock in graph_memory.c. */

#include "vendors/nvidia/sim/context.h"

struct gs_graph_block;

/** One address range, shared by a node and all its clones. */
struct gs_graph_alloc {
    struct gs_graph_alloc *next;
    CUdeviceptr ptr;
    size_t bytes; /**< rounded up to the card's granularity */
    CUdevice device;
    struct gs_sim_ctx *ctx;
    uint32_t refs;
    uint32_t live;                /**< between its allocation node's run and its free */
    struct gs_graph_block *block; /**< what is mapped there now; NULL: nothing */
};

CUresult gs_graph_memory_reserve(struct gs_sim_ctx *ctx, size_t bytes, struct gs_graph_alloc **ret);
struct gs_graph_alloc *gs_graph_memory_ref(struct gs_graph_alloc *a);
void gs_graph_memory_unref(struct gs_graph_alloc *a);

/** Range that starts at `ptr`, or NULL. */
struct gs_graph_alloc *gs_graph_memory_at(CUdeviceptr ptr);

/** Put memory behind a range. CUDA_ERROR_OUT_OF_MEMORY if card and pool have none;
 * CUDA_ERROR_INVALID_VALUE if it is live. */
CUresult gs_graph_memory_back(struct gs_graph_alloc *a);

/** The range's memory may be taken by another range from now on (its address stays readable until
 * then). */
void gs_graph_memory_give(struct gs_graph_alloc *a);

/** Free `ptr` outside a graph (cuMemFree, cuMemFreeAsync): 1 if it was graph memory. */
int gs_graph_memory_free(CUdeviceptr ptr);

/** The context ends: what it left allocated is free, and unused blocks of its device go back to the
 * card. */
void gs_graph_memory_forget_context(struct gs_sim_ctx *ctx);
