#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/graph_object.h"
#include "vendors/nvidia/sim/module.h"

struct gs_graph *gs_graph_new(void)
{
    return gs_object_new(GS_OBJECT_GRAPH, sizeof(struct gs_graph));
}

static void drop_params(struct gs_node *n)
{
    free(n->storage);
    n->storage = NULL;
    if (n->child)
        gs_graph_free(n->child);
    n->child = NULL;
    gs_graph_memory_unref(n->alloc);
    n->alloc = NULL;
}

static void free_node(struct gs_node *n)
{
    drop_params(n);
    free(n->deps);
    gs_object_free(n);
}

void gs_graph_free(struct gs_graph *g)
{
    struct gs_node *n = g->first;
    while (n) {
        struct gs_node *next = n->next;
        free_node(n);
        n = next;
    }
    for (size_t i = 0; i < g->n_users; i++)
        gs_graph_user_release(g->users[i].object, g->users[i].count);
    free(g->users);
    gs_object_free(g);
}

/* Copy the values kernelParams points at (sizes from the function), or the packed block of `extra`.
 */
static CUresult own_kernel_params(struct gs_node *n)
{
    CUDA_KERNEL_NODE_PARAMS_v3 *k = &n->p.kernel;
    const struct gs_function *f = gs_module_function_of(k->func, k->kern);
    if (!f)
        return CUDA_ERROR_INVALID_HANDLE;
    uint32_t n_params = f->n_params;
    if (!k->kernelParams || !n_params) {
        k->kernelParams = NULL;
        k->extra = NULL;
        return CUDA_SUCCESS;
    }
    size_t values = 0;
    for (uint32_t i = 0; i < n_params; i++)
        values += (f->param[i].size + 15u) & ~15u;
    char *block = calloc(1, n_params * sizeof(void *) + values);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    void **pointer = (void **)(void *)block;
    char *at = block + n_params * sizeof(void *);
    for (uint32_t i = 0; i < n_params; i++) {
        pointer[i] = at;
        if (k->kernelParams[i])
            memcpy(at, k->kernelParams[i], f->param[i].size);
        at += (f->param[i].size + 15u) & ~15u;
    }
    n->storage = block;
    k->kernelParams = pointer;
    k->extra = NULL;
    return CUDA_SUCCESS;
}

static CUresult own_alloc_params(struct gs_node *n, CUgraphNodeParams *p)
{
    if (n->p.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        struct gs_graph_alloc *a = gs_graph_memory_at(p->free.dptr);
        if (!a)
            return CUDA_ERROR_INVALID_VALUE;
        n->alloc = gs_graph_memory_ref(a);
        return CUDA_SUCCESS;
    }
    if (p->alloc.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct gs_sim_ctx *ctx = n->ctx;
    if (!ctx || ctx->device != p->alloc.poolProps.location.id)
        ctx = gs_context_primary(p->alloc.poolProps.location.id);
    if (!ctx)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = gs_graph_memory_reserve(ctx, p->alloc.bytesize, &n->alloc);
    if (r)
        return r;
    p->alloc.dptr = n->p.alloc.dptr = n->alloc->ptr;
    n->p.alloc.accessDescs = NULL;
    n->p.alloc.accessDescCount = 0;
    return CUDA_SUCCESS;
}

/* Make what the parameters point at the node's own. `p` gets the outputs. */
static CUresult own_params(struct gs_node *n, CUgraphNodeParams *p)
{
    switch (n->p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return own_kernel_params(n);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return own_alloc_params(n, p);
    case CU_GRAPH_NODE_TYPE_GRAPH: {
        if (!gs_object_is(p->graph.graph, GS_OBJECT_GRAPH))
            return CUDA_ERROR_INVALID_VALUE;
        CUresult r = gs_graph_copy((struct gs_graph *)p->graph.graph, &n->child);
        if (r)
            return r;
        n->child->is_child = 1;
        n->p.graph.graph = (CUgraph)n->child;
        return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_HOST:
        return p->host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return gs_object_is(p->eventRecord.event, GS_OBJECT_EVENT) ? CUDA_SUCCESS
                                                                   : CUDA_ERROR_INVALID_HANDLE;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult gs_graph_set(struct gs_node *n, const CUgraphNodeParams *p)
{
    struct gs_node old = *n;
    CUgraphNodeParams copy = *p;
    n->p = *p;
    n->storage = NULL;
    n->child = NULL;
    n->alloc = NULL;
    CUresult r = own_params(n, &copy);
    if (r) {
        *n = old;
        return r;
    }
    drop_params(&old);
    return CUDA_SUCCESS;
}

static int is_node_of(CUgraphNode h, const struct gs_graph *g)
{
    const struct gs_node *n = (const struct gs_node *)h;
    return gs_object_is(n, GS_OBJECT_NODE) && n->graph == g;
}

CUresult gs_graph_add(struct gs_graph *g, CUgraphNode const *deps, size_t n_deps,
                      CUgraphNodeParams *p, CUgraphNode *ret_node)
{
    if (n_deps && !deps)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n_deps; i++)
        if (!is_node_of(deps[i], g))
            return CUDA_ERROR_INVALID_VALUE;
    struct gs_node *n = gs_object_new(GS_OBJECT_NODE, sizeof(*n));
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->graph = g;
    n->p = *p;
    n->ctx = gs_context_current();
    CUresult r = own_params(n, p);
    if (!r && n_deps) {
        n->deps = malloc(n_deps * sizeof(*n->deps));
        if (n->deps)
            memcpy(n->deps, deps, n_deps * sizeof(*n->deps));
        else
            r = CUDA_ERROR_OUT_OF_MEMORY;
        n->n_deps = n_deps;
    }
    if (r) {
        free_node(n);
        return r;
    }
    if (g->last)
        g->last->next = n;
    else
        g->first = n;
    g->last = n;
    g->n_nodes++;
    if (ret_node)
        *ret_node = (CUgraphNode)n;
    return CUDA_SUCCESS;
}

static struct gs_node *clone_of(const struct gs_graph *g, const struct gs_node *origin)
{
    for (struct gs_node *n = g->first; n; n = n->next)
        if (n->origin == origin)
            return n;
    return NULL;
}

static CUresult copy_node(struct gs_graph *to, struct gs_node *from)
{
    struct gs_node *n = gs_object_new(GS_OBJECT_NODE, sizeof(*n));
    if (!n)
        return CUDA_ERROR_OUT_OF_MEMORY;
    n->graph = to;
    n->origin = from;
    n->p = from->p;
    n->ctx = from->ctx;
    CUresult r = CUDA_SUCCESS;
    if (from->alloc)
        n->alloc = gs_graph_memory_ref(from->alloc); /* a clone shares the address */
    else
        r = own_params(n, &n->p);
    if (!r && from->n_deps) {
        n->deps = malloc(from->n_deps * sizeof(*n->deps));
        if (!n->deps)
            r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r) {
        free_node(n);
        return r;
    }
    if (to->last)
        to->last->next = n;
    else
        to->first = n;
    to->last = n;
    to->n_nodes++;
    return CUDA_SUCCESS;
}

CUresult gs_graph_copy(struct gs_graph *from, struct gs_graph **ret)
{
    struct gs_graph *g = gs_graph_new();
    CUresult r = g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (r)
        return r;
    g->origin = from;
    for (struct gs_node *n = from->first; n && !r; n = n->next)
        r = copy_node(g, n);
    for (struct gs_node *n = g->first; n && !r; n = n->next)
        for (size_t i = 0; i < n->origin->n_deps; i++)
            n->deps[n->n_deps++] = clone_of(g, n->origin->deps[i]);
    for (size_t i = 0; i < from->n_users && !r; i++)
        r = cuGraphRetainUserObject((CUgraph)g, from->users[i].object, from->users[i].count, 0);
    if (r)
        gs_graph_free(g);
    else
        *ret = g;
    return r;
}

CUresult gs_graph_sort(struct gs_graph *g, struct gs_node ***ret)
{
    struct gs_node **order = malloc((g->n_nodes + 1) * sizeof(*order));
    size_t done = 0, before;
    if (!order)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (struct gs_node *n = g->first; n; n = n->next)
        n->mark = 0;
    do {
        before = done;
        for (struct gs_node *n = g->first; n; n = n->next) {
            size_t i = 0;
            while (i < n->n_deps && n->deps[i]->mark)
                i++;
            if (!n->mark && i == n->n_deps) {
                n->mark = 1;
                order[done++] = n;
            }
        }
    } while (done < g->n_nodes && done > before);
    if (done < g->n_nodes) {
        free(order);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *ret = order;
    return CUDA_SUCCESS;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    GS_SIM_ENTER_READY();
    if (!phGraph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_graph *g = gs_graph_new();
    if (!g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phGraph = (CUgraph)g;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    GS_SIM_ENTER_READY();
    struct gs_graph *g = (struct gs_graph *)hGraph;
    if (!gs_object_is(g, GS_OBJECT_GRAPH) || g->is_child)
        return CUDA_ERROR_INVALID_VALUE;
    gs_graph_free(g);
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    GS_SIM_ENTER_READY();
    struct gs_graph *copy;
    if (!phGraphClone || !gs_object_is(originalGraph, GS_OBJECT_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    /* Documented: graphs with memory nodes cannot be cloned. */
    for (struct gs_node *n = ((struct gs_graph *)originalGraph)->first; n; n = n->next)
        if (n->alloc)
            return CUDA_ERROR_NOT_SUPPORTED;
    CUresult r = gs_graph_copy((struct gs_graph *)originalGraph, &copy);
    if (!r)
        *phGraphClone = (CUgraph)copy;
    return r;
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
    GS_SIM_ENTER_READY();
    struct gs_node *n = (struct gs_node *)hNode;
    if (!gs_object_is(n, GS_OBJECT_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    if (n->alloc)
        return CUDA_ERROR_NOT_SUPPORTED; /* documented for memory nodes */
    struct gs_graph *g = n->graph;
    struct gs_node *before = NULL;
    for (struct gs_node *o = g->first; o; o = o->next) {
        if (o->next == n)
            before = o;
        for (size_t i = 0; i < o->n_deps; i++)
            if (o->deps[i] == n)
                o->deps[i--] = o->deps[--o->n_deps];
    }
    if (before)
        before->next = n->next;
    else
        g->first = n->next;
    if (g->last == n)
        g->last = before;
    g->n_nodes--;
    free_node(n);
    return CUDA_SUCCESS;
}
