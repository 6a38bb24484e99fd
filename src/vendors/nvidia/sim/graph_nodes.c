/* Adding nodes of each kind, and their parameters. */
#include <string.h>

#include "vendors/nvidia/sim/graph_object.h"
#include "vendors/nvidia/sim/module.h"

#define GRAPH_OF(var, handle)                                                                      \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_graph *var = (struct gs_graph *)handle;                                              \
    if (!gs_object_is(var, GS_OBJECT_GRAPH))                                                       \
    return CUDA_ERROR_INVALID_VALUE

#define NODE_OF(var, handle)                                                                       \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_node *var = (struct gs_node *)handle;                                                \
    if (!gs_object_is(var, GS_OBJECT_NODE))                                                        \
    return CUDA_ERROR_INVALID_VALUE

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    GRAPH_OF(g, hGraph);
    (void)dependencyData; /* all edges are full ones here */
    if (!phGraphNode || !nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    return gs_graph_add(g, dependencies, numDependencies, nodeParams, phGraphNode);
}

CUresult cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies,
                             nodeParams);
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                        size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                             const CUgraphNode *dependencies, size_t numDependencies)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

static void kernel_from_v1(CUDA_KERNEL_NODE_PARAMS_v3 *to, const CUDA_KERNEL_NODE_PARAMS_v1 *from)
{
    memset(to, 0, sizeof(*to));
    memcpy(to, from, sizeof(*from)); /* the older form is the head of the newer ones */
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    kernel_from_v1(&p.kernel, nodeParams);
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&p.kernel, nodeParams, sizeof(*nodeParams));
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
    if (!copyParams)
        return CUDA_ERROR_INVALID_VALUE;
    p.memcpy.copyParams = *copyParams;
    p.memcpy.copyCtx = ctx;
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
    if (!memsetParams)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&p.memset, memsetParams, sizeof(*memsetParams));
    p.memset.ctx = ctx;
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                            const CUgraphNode *dependencies, size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST};
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    p.host.fn = nodeParams->fn;
    p.host.userData = nodeParams->userData;
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  CUgraph childGraph)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    p.graph.graph = childGraph;
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                   const CUgraphNode *dependencies, size_t numDependencies,
                                   CUevent event)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};
    p.eventRecord.event = event;
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 CUevent event)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};
    p.eventWait.event = event;
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                const CUgraphNode *dependencies, size_t numDependencies,
                                CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&p.alloc, nodeParams, sizeof(*nodeParams));
    CUresult r = cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
    if (!r)
        nodeParams->dptr = p.alloc.dptr;
    return r;
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies, size_t numDependencies,
                               CUdeviceptr dptr)
{
    GS_SIM_ENTRY;
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
    p.free.dptr = dptr;
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, &p);
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    NODE_OF(n, hNode);
    if (!type)
        return CUDA_ERROR_INVALID_VALUE;
    *type = n->p.type;
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    NODE_OF(n, hNode);
    if (!nodeParams || n->p.type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(nodeParams, &n->p.kernel, sizeof(*nodeParams));
    return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    NODE_OF(n, hNode);
    if (!nodeParams || n->p.type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(nodeParams, &n->p.kernel, sizeof(*nodeParams));
    return CUDA_SUCCESS;
}

static CUresult set_kernel(struct gs_node *n, const void *params, size_t bytes)
{
    CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    if (!params || n->p.type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&p.kernel, params, bytes);
    return gs_graph_set(n, &p);
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    NODE_OF(n, hNode);
    return set_kernel(n, nodeParams, sizeof(*nodeParams));
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    NODE_OF(n, hNode);
    return set_kernel(n, nodeParams, sizeof(*nodeParams));
}

/* The clone inside an executable graph of a node of the graph it was made from. */
static struct gs_node *in_exec(CUgraphExec hExec, CUgraphNode hNode)
{
    struct gs_exec *e = (struct gs_exec *)hExec;
    if (!gs_object_is(e, GS_OBJECT_EXEC) || !gs_object_is(hNode, GS_OBJECT_NODE))
        return NULL;
    struct gs_node *n = e->graph->first;
    while (n && n->origin != (struct gs_node *)hNode)
        n = n->next;
    return n;
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    GS_SIM_ENTER_READY();
    struct gs_node *n = in_exec(hGraphExec, hNode);
    return n ? set_kernel(n, nodeParams, sizeof(*nodeParams)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    GS_SIM_ENTER_READY();
    struct gs_node *n = in_exec(hGraphExec, hNode);
    return n ? set_kernel(n, nodeParams, sizeof(*nodeParams)) : CUDA_ERROR_INVALID_VALUE;
}

/* Changes that this driver does not do. */

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUgraph childGraph)
{
    (void)hGraphExec, (void)hNode, (void)childGraph;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    (void)hGraphExec, (void)hNode, (void)copyParams, (void)ctx;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    (void)hGraphExec, (void)hNode, (void)memsetParams, (void)ctx;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams *nodeParams)
{
    (void)hGraphExec, (void)hNode, (void)nodeParams;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    (void)hGraphExec, (void)hNode, (void)isEnabled;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    NODE_OF(n, hNode);
    if (!params_out || n->p.type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(params_out, &n->p.alloc, sizeof(*params_out));
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
    NODE_OF(n, hNode);
    if (!dptr_out || n->p.type != CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    *dptr_out = n->p.free.dptr;
    return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    NODE_OF(n, hNode);
    if (!phGraph || !n->child)
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = (CUgraph)n->child;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                                CUgraph hClonedGraph)
{
    GRAPH_OF(g, hClonedGraph);
    if (!phNode)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct gs_node *n = g->first; n; n = n->next)
        if (n->origin == (struct gs_node *)hOriginalNode) {
            *phNode = (CUgraphNode)n;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
