/* Shape of graphs: nodes, edges, dependencies, and user objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/graph_object.h"

#define GRAPH_OF(var, handle)                                                                      \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_graph *var = (struct gs_graph *)handle;                                              \
    if (!gs_object_is(var, GS_OBJECT_GRAPH))                                                       \
    return CUDA_ERROR_INVALID_VALUE

/* Lists here: with a NULL array only the number is returned; else at most *n entries, unused ones
 * are NULL. */
struct list {
    CUgraphNode *out;
    size_t room;
    size_t n;
};

static void list_add(struct list *l, struct gs_node *n)
{
    if (l->out && l->n < l->room)
        l->out[l->n] = (CUgraphNode)n;
    l->n++;
}

static void list_end(struct list *l, size_t *ret_n)
{
    for (size_t i = l->n; l->out && i < l->room; i++)
        l->out[i] = NULL;
    *ret_n = l->out && l->n > l->room ? l->room : l->n;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    GRAPH_OF(g, hGraph);
    if (!numNodes)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {.out = nodes, .room = *numNodes};
    for (struct gs_node *n = g->first; n; n = n->next)
        list_add(&l, n);
    list_end(&l, numNodes);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    GRAPH_OF(g, hGraph);
    if (!numRootNodes)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {.out = rootNodes, .room = *numRootNodes};
    for (struct gs_node *n = g->first; n; n = n->next)
        if (!n->n_deps)
            list_add(&l, n);
    list_end(&l, numRootNodes);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edgeData, size_t *numEdges)
{
    GRAPH_OF(g, hGraph);
    if (!numEdges || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    struct list f = {.out = from, .room = *numEdges}, t = {.out = to, .room = *numEdges};
    for (struct gs_node *n = g->first; n; n = n->next)
        for (size_t i = 0; i < n->n_deps; i++) {
            if (edgeData && from && f.n < f.room)
                edgeData[f.n] = (CUgraphEdgeData){0};
            list_add(&f, n->deps[i]);
            list_add(&t, n);
        }
    list_end(&f, numEdges);
    list_end(&t, numEdges);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
    return cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    GS_SIM_ENTER_READY();
    struct gs_node *n = (struct gs_node *)hNode;
    if (!gs_object_is(n, GS_OBJECT_NODE) || !numDependencies)
        return CUDA_ERROR_INVALID_VALUE;
    struct list l = {.out = dependencies, .room = *numDependencies};
    for (size_t i = 0; i < n->n_deps; i++) {
        if (edgeData && l.n < l.room)
            edgeData[l.n] = (CUgraphEdgeData){0};
        list_add(&l, n->deps[i]);
    }
    list_end(&l, numDependencies);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                    size_t *numDependencies)
{
    return cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    GRAPH_OF(g, hGraph);
    (void)edgeData;
    if (numDependencies && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < numDependencies; i++) {
        struct gs_node *a = (struct gs_node *)from[i], *b = (struct gs_node *)to[i];
        if (!gs_object_is(a, GS_OBJECT_NODE) || !gs_object_is(b, GS_OBJECT_NODE) || a->graph != g ||
            b->graph != g || a == b)
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t k = 0; k < b->n_deps; k++)
            if (b->deps[k] == a)
                return CUDA_ERROR_INVALID_VALUE; /* documented: the edge exists */
        struct gs_node **deps = realloc(b->deps, (b->n_deps + 1) * sizeof(*deps));
        if (!deps)
            return CUDA_ERROR_OUT_OF_MEMORY;
        deps[b->n_deps++] = a;
        b->deps = deps;
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t numDependencies)
{
    return cuGraphAddDependencies_v2(hGraph, from, to, NULL, numDependencies);
}

CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t numDependencies)
{
    GRAPH_OF(g, hGraph);
    if (numDependencies && (!from || !to))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < numDependencies; i++) {
        struct gs_node *b = (struct gs_node *)to[i];
        size_t k = 0;
        if (!gs_object_is(b, GS_OBJECT_NODE) || b->graph != g)
            return CUDA_ERROR_INVALID_VALUE;
        while (k < b->n_deps && b->deps[k] != (struct gs_node *)from[i])
            k++;
        if (k == b->n_deps)
            return CUDA_ERROR_INVALID_VALUE;
        b->deps[k] = b->deps[--b->n_deps];
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    GRAPH_OF(g, hGraph);
    (void)flags;
    FILE *f = path ? fopen(path, "we") : NULL;
    if (!f)
        return CUDA_ERROR_INVALID_VALUE;
    fprintf(f, "digraph dot {\n");
    for (struct gs_node *n = g->first; n; n = n->next) {
        fprintf(f, "\"%p\" [label=\"type %d\"];\n", (void *)n, (int)n->p.type);
        for (size_t i = 0; i < n->n_deps; i++)
            fprintf(f, "\"%p\" -> \"%p\";\n", (void *)n->deps[i], (void *)n);
    }
    fprintf(f, "}\n");
    return fclose(f) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

/* ---- user objects ---- */

struct user_object {
    struct gs_object object;
    CUhostFn destroy;
    void *ptr;
    uint32_t refs; /* atomic */
};

void gs_graph_user_release(CUuserObject object, unsigned int count)
{
    struct user_object *u = (struct user_object *)object;
    if (!__atomic_sub_fetch(&u->refs, count, __ATOMIC_ACQ_REL)) {
        CUhostFn destroy = u->destroy;
        void *ptr = u->ptr;
        gs_object_free(u);
        destroy(ptr);
    }
}

static CUresult retain(CUuserObject object, unsigned int count)
{
    struct user_object *u = (struct user_object *)object;
    if (!gs_object_is(u, GS_OBJECT_USER) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    __atomic_add_fetch(&u->refs, count, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags)
{
    GS_SIM_ENTER_READY();
    /* CU_USER_OBJECT_NO_DESTRUCTOR_SYNC is required and the only flag. */
    if (!object_out || !destroy || !initialRefcount || flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    struct user_object *u = gs_object_new(GS_OBJECT_USER, sizeof(*u));
    if (!u)
        return CUDA_ERROR_OUT_OF_MEMORY;
    u->destroy = destroy;
    u->ptr = ptr;
    u->refs = initialRefcount;
    *object_out = (CUuserObject)u;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    GS_SIM_ENTER_READY();
    return retain(object, count);
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    GS_SIM_ENTER_READY();
    struct user_object *u = (struct user_object *)object;
    if (!gs_object_is(u, GS_OBJECT_USER) || !count || count > u->refs)
        return CUDA_ERROR_INVALID_VALUE;
    gs_graph_user_release(object, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                 unsigned int flags)
{
    GRAPH_OF(g, graph);
    if (flags > 1 || !gs_object_is(object, GS_OBJECT_USER) || !count)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_user_ref *refs = realloc(g->users, (g->n_users + 1) * sizeof(*refs));
    if (!refs)
        return CUDA_ERROR_OUT_OF_MEMORY;
    g->users = refs;
    /* CU_GRAPH_USER_OBJECT_MOVE: the caller's references become the graph's. */
    if (!(flags & 1)) {
        CUresult r = retain(object, count);
        if (r)
            return r;
    }
    g->users[g->n_users++] = (struct gs_user_ref){.object = object, .count = count};
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    GRAPH_OF(g, graph);
    for (size_t i = 0; i < g->n_users; i++)
        if (g->users[i].object == object && count && count <= g->users[i].count) {
            g->users[i].count -= count;
            if (!g->users[i].count)
                g->users[i] = g->users[--g->n_users];
            gs_graph_user_release(object, count);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}
