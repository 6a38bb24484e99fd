/* Executable graphs: instantiate, launch, update. */
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/capture.h"
#include "vendors/nvidia/sim/graph_object.h"
#include "vendors/nvidia/sim/managed.h"
#include "vendors/nvidia/sim/module.h"

#define NON_BLOCKING 1u /* CU_STREAM_NON_BLOCKING */

#define EXEC_OF(var, handle)                                                                       \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_exec *var = (struct gs_exec *)handle;                                                \
    if (!gs_object_is(var, GS_OBJECT_EXEC))                                                        \
    return CUDA_ERROR_INVALID_VALUE

static CUresult instantiate(CUgraphExec *ret, CUgraph hGraph, uint64_t flags)
{
    GS_SIM_ENTER_CTX(ctx);
    struct gs_exec *e;
    if (!ret || !gs_object_is(hGraph, GS_OBJECT_GRAPH) || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    e = gs_object_new(GS_OBJECT_EXEC, sizeof(*e));
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->flags = flags;
    e->ctx = ctx;
    CUresult r = gs_graph_copy((struct gs_graph *)hGraph, &e->graph);
    if (!r) {
        r = gs_graph_sort(e->graph, &e->order);
        if (r)
            gs_graph_free(e->graph);
    }
    if (r) {
        gs_object_free(e);
        return r;
    }
    *ret = (CUgraphExec)e;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     unsigned long long flags)
{
    return instantiate(phGraphExec, hGraph, flags);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                               char *logBuffer, size_t bufferSize)
{
    CUresult r = instantiate(phGraphExec, hGraph, 0);
    if (phErrorNode)
        *phErrorNode = NULL;
    if (logBuffer && bufferSize)
        *logBuffer = 0;
    return r;
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                            char *logBuffer, size_t bufferSize)
{
    return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    if (!instantiateParams)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = instantiate(phGraphExec, hGraph, instantiateParams->flags);
    instantiateParams->hErrNode_out = NULL;
    instantiateParams->result_out =
        r ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return r;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    EXEC_OF(e, hGraphExec);
    free(e->order);
    gs_graph_free(e->graph);
    gs_object_free(e);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    EXEC_OF(e, hGraphExec);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = e->flags;
    return CUDA_SUCCESS;
}

/* First pass of a launch: memory for every allocation node, in order, so that memory freed by an
 * earlier node serves a later one. All or nothing. */
static CUresult back_memory(struct gs_exec *e)
{
    CUresult r = CUDA_SUCCESS;
    size_t i, n = e->graph->n_nodes;
    for (i = 0; i < n; i++)
        if ((e->flags & GS_GRAPH_AUTO_FREE) && e->order[i]->p.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            gs_graph_memory_give(e->order[i]->alloc);
    for (i = 0; i < n && !r; i++) {
        struct gs_node *node = e->order[i];
        if (node->p.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            r = gs_graph_memory_back(node->alloc);
        else if (node->p.type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            gs_graph_memory_give(node->alloc);
    }
    /* Undo those before the one that failed. */
    for (size_t k = r ? i - 1 : 0; k > 0; k--)
        if (e->order[k - 1]->p.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            gs_graph_memory_give(e->order[k - 1]->alloc);
    return r;
}

static CUresult run_memset(const CUDA_MEMSET_NODE_PARAMS_v2 *m, CUstream h)
{
    size_t pitch = m->height > 1 ? m->pitch : m->width * m->elementSize;
    switch (m->elementSize) {
    case 1:
        return cuMemsetD2D8Async(m->dst, pitch, (unsigned char)m->value, m->width, m->height, h);
    case 2:
        return cuMemsetD2D16Async(m->dst, pitch, (unsigned short)m->value, m->width, m->height, h);
    case 4:
        return cuMemsetD2D32Async(m->dst, pitch, m->value, m->width, m->height, h);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult run_nodes(struct gs_node *const *order, size_t n, struct gs_stream *lane);

static CUresult run_child(struct gs_graph *g, struct gs_stream *lane)
{
    struct gs_node **order;
    CUresult r = gs_graph_sort(g, &order);
    if (r)
        return r;
    r = run_nodes(order, g->n_nodes, lane);
    free(order);
    return r;
}

static CUresult run_node(const struct gs_node *node, struct gs_stream *s)
{
    CUstream h = (CUstream)s;
    switch (node->p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        const CUDA_KERNEL_NODE_PARAMS_v3 *k = &node->p.kernel;
        const struct gs_function *f = gs_module_function_of(k->func, k->kern);
        const unsigned int grid[3] = {k->gridDimX, k->gridDimY, k->gridDimZ};
        const unsigned int block[3] = {k->blockDimX, k->blockDimY, k->blockDimZ};
        if (!f)
            return CUDA_ERROR_INVALID_HANDLE;
        uint64_t cost;
        uint32_t load;
        if (gs_sim_self.zero_cost)
            return CUDA_SUCCESS;
        gs_launch_cost(f, grid, block, &cost, &load);
        gs_stream_add_kernel(s, cost + gs_managed_launch(s->card), load);
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return cuMemcpy3DAsync_v2(&node->p.memcpy.copyParams, h);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return run_memset(&node->p.memset, h);
    case CU_GRAPH_NODE_TYPE_HOST:
        return gs_stream_call(s, node->p.host.fn, node->p.host.userData);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return run_child(node->child, s);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cuEventRecord(node->p.eventRecord.event, h);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cuStreamWaitEvent(h, node->p.eventWait.event, 0);
    default:
        return CUDA_SUCCESS;
    }
}

/* Each node runs on a stream of its own behind what it depends on, and all of them behind `lane`,
 * which afterwards is behind all of them. */
static CUresult run_nodes(struct gs_node *const *order, size_t n, struct gs_stream *lane)
{
    CUresult r = CUDA_SUCCESS;
    const uint64_t base = lane->tag;
    for (size_t i = 0; i < n && !r; i++) {
        struct gs_stream own = {.object = lane->object,
                                .ctx = lane->ctx,
                                .card = lane->card,
                                .flags = NON_BLOCKING,
                                .priority = lane->priority,
                                .tag = base,
                                .host_seq = lane->host_seq};
        for (size_t k = 0; k < order[i]->n_deps; k++)
            gs_stream_raise(&own.tag, order[i]->deps[k]->tag);
        r = run_node(order[i], &own);
        order[i]->tag = own.tag;
        gs_stream_raise(&lane->tag, own.tag);
        gs_stream_raise(&lane->host_seq, own.host_seq);
    }
    return r;
}

static CUresult run_graph(struct gs_exec *e, struct gs_stream *s)
{
    struct gs_stream lane = {.object = s->object,
                             .ctx = s->ctx,
                             .card = s->card,
                             .flags = NON_BLOCKING,
                             .priority = s->priority,
                             .tag = gs_stream_order_of(s),
                             .host_seq = s->host_seq};
    if (!gs_sim_self.zero_cost)
        gs_stream_queue_wait(s->card);
    CUresult r = run_nodes(e->order, e->graph->n_nodes, &lane);
    if (!gs_sim_self.zero_cost) {
        gs_stream_order(s, lane.tag);
        gs_stream_queue_note(s->card, lane.tag);
    }
    gs_stream_raise(&s->host_seq, lane.host_seq);
    return r;
}

CUresult cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
    EXEC_OF(e, hGraph);
    CUresult error;
    struct gs_stream *s = gs_stream_of(hStream, &error);
    if (!s)
        return error;
    if (s->capture) {
        CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
        p.graph.graph = (CUgraph)e->graph;
        return gs_capture_add(hStream, &p, NULL);
    }
    CUresult r = gs_capture_check_legacy(s);
    if (!r)
        r = back_memory(e);
    return r ? r : run_graph(e, s);
}

CUresult cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
    EXEC_OF(e, hGraph);
    (void)e;
    CUresult error;
    return gs_stream_of(hStream, &error) ? CUDA_SUCCESS : error;
}

/* Whether `g` has the shape of `e`'s graph: same nodes in the same order with the same edges. */
static CUgraphExecUpdateResult compare(const struct gs_graph *old, const struct gs_graph *g,
                                       struct gs_node **ret_bad)
{
    const struct gs_node *a = old->first;
    struct gs_node *b = g->first;
    if (old->n_nodes != g->n_nodes)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (; a && b; a = a->next, b = b->next) {
        *ret_bad = b;
        if (a->n_deps != b->n_deps)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (a->p.type != b->p.type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (a->alloc && a->alloc != b->alloc)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    *ret_bad = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo *resultInfo)
{
    EXEC_OF(e, hGraphExec);
    struct gs_graph *g = (struct gs_graph *)hGraph;
    if (!gs_object_is(g, GS_OBJECT_GRAPH) || !resultInfo)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_node *bad = NULL;
    *resultInfo = (CUgraphExecUpdateResultInfo){.result = compare(e->graph, g, &bad)};
    resultInfo->errorNode = (CUgraphNode)bad;
    if (resultInfo->result)
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    struct gs_node *a = e->graph->first;
    for (struct gs_node *b = g->first; b; b = b->next, a = a->next) {
        if (a->alloc)
            continue;
        CUresult r = gs_graph_set(a, &b->p);
        if (r) {
            resultInfo->result = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
            return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
        }
        a->origin = b;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out)
{
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    CUresult r = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
    if (hErrorNode_out)
        *hErrorNode_out = info.errorNode;
    if (updateResult_out)
        *updateResult_out = info.result;
    return r;
}
