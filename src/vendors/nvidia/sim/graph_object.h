#pragma once
/* Insides of graphs. As the real ones, graphs are not safe for use by two threads at once. */

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/graph_memory.h"
#include "vendors/nvidia/sim/object.h"
#include "vendors/nvidia/sim/stream_object.h"

struct gs_graph;

struct gs_node {
    struct gs_object object;
    struct gs_graph *graph;
    struct gs_node *next;   /**< in order of creation */
    struct gs_node *origin; /**< node this one was cloned from (may be gone: compare only) */
    struct gs_node **deps;
    size_t n_deps;
    CUgraphNodeParams p; /**< pointers inside belong to the node, see gs_graph_own_params() */
    void *storage;       /**< values of kernel parameters */
    struct gs_graph *child;
    struct gs_graph_alloc *alloc; /**< of an allocation or free node; counted */
    struct gs_sim_ctx *ctx;
    uint32_t mark; /**< scratch of walks */
    uint64_t tag;  /**< end of its last run, in the process's time on the card (clock.h) */
};

struct gs_user_ref {
    CUuserObject object;
    unsigned int count;
};

struct gs_graph {
    struct gs_object object;
    struct gs_node *first, *last;
    size_t n_nodes;
    struct gs_user_ref *users;
    size_t n_users;
    struct gs_graph *origin; /**< graph this one was cloned from (compare only) */
    uint32_t is_child;       /**< belongs to a node */
};

struct gs_exec {
    struct gs_object object;
    struct gs_graph *graph; /**< own clone */
    struct gs_node **order;
    uint64_t flags;
    struct gs_sim_ctx *ctx;
};

#define GS_GRAPH_AUTO_FREE UINT64_C(1) /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH */

struct gs_graph *gs_graph_new(void);
void gs_graph_free(struct gs_graph *g);

/** Add a node; `p` is copied, alloc.dptr and child graph are set as cuGraphAddNode says. */
CUresult gs_graph_add(struct gs_graph *g, CUgraphNode const *deps, size_t n_deps,
                      CUgraphNodeParams *p, CUgraphNode *ret_node);

/** Replace the parameters of a node by a copy of `p`, which is of the same type. */
CUresult gs_graph_set(struct gs_node *n, const CUgraphNodeParams *p);

/** A deep copy whose nodes remember their originals. */
CUresult gs_graph_copy(struct gs_graph *from, struct gs_graph **ret);

/** Nodes in an order in which each comes after what it depends on; free() the result.
 *  CUDA_ERROR_INVALID_VALUE if there is a cycle. */
CUresult gs_graph_sort(struct gs_graph *g, struct gs_node ***ret);

/** Drop `count` references of a user object. */
void gs_graph_user_release(CUuserObject object, unsigned int count);
