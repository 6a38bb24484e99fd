#include "vendors/nvidia/sim/capture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/graph_object.h"

#define NON_BLOCKING 1u

/* One recording. It ends with the stream it began on; other streams join by waiting for its events.
 */
struct gs_capture {
    struct gs_graph *graph;
    struct gs_stream *origin;
    struct gs_stream *streams; /* linked by capture_next, the origin too */
    uint64_t id;
    CUstreamCaptureMode mode;
    uint32_t invalid;
    uint32_t own_graph;      /* made by us: freed with an invalid capture */
    uint32_t refs;           /* streams and events */
    const void *thread;      /* that began it: address of its mode */
    struct gs_capture *next; /* of those in progress */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_id = 1;
static struct gs_capture *live; /* in progress, invalid ones too; guard: lock */
uint32_t gs_capture_live;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void unref(struct gs_capture *c)
{
    if (!--c->refs)
        free(c);
}

/* Lock held. */
static CUresult set_deps(CUgraphNode **to, size_t *to_n, const CUgraphNode *deps, size_t n)
{
    CUgraphNode *copy = malloc((n ? n : 1) * sizeof(*copy));
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (n)
        memcpy(copy, deps, n * sizeof(*copy));
    free(*to);
    *to = copy;
    *to_n = n;
    return CUDA_SUCCESS;
}

static CUresult add_deps(struct gs_stream *s, const CUgraphNode *deps, size_t n)
{
    CUgraphNode *all = realloc(s->deps, (s->n_deps + n + 1) * sizeof(*all));
    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->deps = all;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < s->n_deps && all[k] != deps[i])
            k++;
        if (k == s->n_deps)
            all[s->n_deps++] = deps[i];
    }
    return CUDA_SUCCESS;
}

static void enter_capture(struct gs_stream *s, struct gs_capture *c)
{
    s->capture_next = c->streams;
    c->streams = s;
    c->refs++;
    s->capture = c;
}

static void leave_capture(struct gs_stream *s)
{
    struct gs_capture *c = s->capture;
    struct gs_stream **p = &c->streams;
    while (*p && *p != s)
        p = &(*p)->capture_next;
    if (*p)
        *p = s->capture_next;
    s->capture_next = NULL;
    s->capture = NULL;
    free(s->deps);
    s->deps = NULL;
    s->n_deps = 0;
    unref(c);
}

static void begin_live(struct gs_capture *c)
{
    c->next = live;
    live = c;
    __atomic_store_n(&gs_capture_live, gs_capture_live + 1, __ATOMIC_RELAXED);
}

static void end_live(const struct gs_capture *c)
{
    struct gs_capture **p = &live;
    while (*p && *p != c)
        p = &(*p)->next;
    if (!*p)
        return;
    *p = c->next;
    __atomic_store_n(&gs_capture_live, gs_capture_live - 1, __ATOMIC_RELAXED);
}

/* Whether a potentially unsafe call of this thread spoils the capture (CUDA driver API,
 * cuThreadExchangeStreamCaptureMode). */
static int is_in_the_way(const struct gs_capture *c)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return 0;
    if (c->thread == &thread_mode)
        return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult gs_capture_unsafe(void)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    for (struct gs_capture *c = live; c; c = c->next) {
        if (!is_in_the_way(c))
            continue;
        c->invalid = 1;
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* Captures that a stream of `ctx` takes part in, blocking ones only or all, become invalid. */
static CUresult spoil(const struct gs_sim_ctx *ctx, int blocking, CUresult error)
{
    CUresult r = CUDA_SUCCESS;
    if (!__atomic_load_n(&gs_capture_live, __ATOMIC_RELAXED))
        return r;
    pthread_mutex_lock(&lock);
    for (struct gs_capture *c = live; c; c = c->next) {
        const struct gs_stream *s = c->streams;
        while (s && (s->ctx != ctx || (blocking && s->flags & NON_BLOCKING)))
            s = s->capture_next;
        if (!s)
            continue;
        c->invalid = 1;
        r = error;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult gs_capture_legacy(struct gs_sim_ctx *ctx)
{
    return spoil(ctx, 1, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

CUresult gs_capture_broad(struct gs_sim_ctx *ctx)
{
    return spoil(ctx, 0, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult gs_capture_add(CUstream h, CUgraphNodeParams *params, CUgraphNode *ret_node)
{
    CUresult r;
    CUgraphNode node = NULL;
    struct gs_stream *s = gs_stream_of(h, &r);
    if (!s)
        return r;
    pthread_mutex_lock(&lock);
    struct gs_capture *c = s->capture;
    if (!c)
        r = CUDA_ERROR_INVALID_VALUE;
    else if (c->invalid)
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else
        r = gs_graph_add(c->graph, s->deps, s->n_deps, params, &node);
    if (!r)
        r = set_deps(&s->deps, &s->n_deps, &node, 1);
    if (r && c)
        c->invalid = 1;
    pthread_mutex_unlock(&lock);
    if (!r && ret_node)
        *ret_node = node;
    return r;
}

CUresult gs_capture_refuse(struct gs_stream *s)
{
    pthread_mutex_lock(&lock);
    if (s->capture)
        s->capture->invalid = 1;
    pthread_mutex_unlock(&lock);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Lock held. */
static void forget_event(struct gs_event *e)
{
    if (!e->capture)
        return;
    unref(e->capture);
    e->capture = NULL;
    free(e->capture_deps);
    e->capture_deps = NULL;
    e->n_capture_deps = 0;
}

void gs_capture_forget_event(struct gs_event *e)
{
    if (!e->capture)
        return;
    pthread_mutex_lock(&lock);
    forget_event(e);
    pthread_mutex_unlock(&lock);
}

CUresult gs_capture_record(struct gs_stream *s, struct gs_event *e)
{
    pthread_mutex_lock(&lock);
    CUresult r = s->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    if (!r) {
        forget_event(e);
        r = set_deps(&e->capture_deps, &e->n_capture_deps, s->deps, s->n_deps);
    }
    if (!r) {
        e->capture = s->capture;
        e->capture->refs++;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult gs_capture_wait(struct gs_stream *s, struct gs_event *e)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!e->capture)
        r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION; /* work outside the capture cannot be waited for */
    else if (s->capture && s->capture != e->capture)
        r = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    else if (s->is_default && !s->capture)
        r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    if (r && s->capture)
        s->capture->invalid = 1;
    if (!r && !s->capture)
        enter_capture(s, e->capture);
    if (!r)
        r = add_deps(s, e->capture_deps, e->n_capture_deps);
    pthread_mutex_unlock(&lock);
    return r;
}

void gs_capture_forget_stream(struct gs_stream *s)
{
    if (!s->capture)
        return;
    pthread_mutex_lock(&lock);
    struct gs_capture *c = s->capture;
    if (s == c->origin) {
        if (c->own_graph)
            gs_graph_free(c->graph);
        c->graph = NULL;
        c->refs++;
        end_live(c);
        while (c->streams)
            leave_capture(c->streams);
        unref(c);
    } else {
        c->invalid = 1;
        leave_capture(s);
    }
    pthread_mutex_unlock(&lock);
}

static CUresult begin(CUstream h, struct gs_graph *graph, const CUgraphNode *deps, size_t n,
                      CUstreamCaptureMode mode)
{
    CUresult r;
    struct gs_stream *s = gs_stream_of(h, &r);
    if (!s)
        return r;
    if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    /* The legacy stream cannot record. */
    if ((uintptr_t)h < 2)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&lock);
    struct gs_capture *c = s->capture ? NULL : calloc(1, sizeof(*c));
    r = s->capture ? CUDA_ERROR_ILLEGAL_STATE : c ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (c) {
        *c = (struct gs_capture){.graph = graph ? graph : gs_graph_new(),
                                 .origin = s,
                                 .mode = mode,
                                 .own_graph = !graph,
                                 .thread = &thread_mode,
                                 .id = next_id++};
        if (c->graph) {
            enter_capture(s, c);
            begin_live(c);
            r = add_deps(s, deps, n);
        } else {
            free(c);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    GS_SIM_ENTER_READY();
    return begin(hStream, NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCapture(CUstream hStream)
{
    GS_SIM_ENTER_READY();
    return begin(hStream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                     const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode)
{
    GS_SIM_ENTER_READY();
    (void)dependencyData;
    if (!gs_object_is(hGraph, GS_OBJECT_GRAPH) || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    return begin(hStream, (struct gs_graph *)hGraph, dependencies, numDependencies, mode);
}

static void mark_back(struct gs_node *n)
{
    /* Nodes are listed in order of creation and recording only adds edges backwards: depth is
     * bounded by the list, so walk it. */
    n->mark = 1;
}

/* Everything other streams recorded must have been waited for by the origin. Lock held. */
static int is_joined(const struct gs_capture *c)
{
    struct gs_node **order;
    int joined = 1;
    if (gs_graph_sort(c->graph, &order))
        return 0;
    for (struct gs_node *n = c->graph->first; n; n = n->next)
        n->mark = 0;
    for (size_t i = 0; i < c->origin->n_deps; i++)
        mark_back((struct gs_node *)c->origin->deps[i]);
    for (size_t i = c->graph->n_nodes; i > 0; i--)
        for (size_t k = 0; order[i - 1]->mark && k < order[i - 1]->n_deps; k++)
            mark_back(order[i - 1]->deps[k]);
    for (const struct gs_stream *s = c->streams; s; s = s->capture_next)
        for (size_t i = 0; i < s->n_deps; i++)
            joined = joined && ((struct gs_node *)s->deps[i])->mark;
    free(order);
    return joined;
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    GS_SIM_ENTER_READY();
    CUresult r;
    struct gs_stream *s = gs_stream_of(hStream, &r);
    if (!s)
        return r;
    pthread_mutex_lock(&lock);
    struct gs_capture *c = s->capture;
    if (!c) {
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_ILLEGAL_STATE;
    }
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != &thread_mode) {
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    if (c->origin != s) {
        c->invalid = 1;
        pthread_mutex_unlock(&lock);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    r = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    if (!r && !is_joined(c))
        r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    struct gs_graph *g = c->graph;
    if (r && c->own_graph) {
        gs_graph_free(g);
        g = NULL;
    }
    c->graph = NULL;
    c->refs++;
    end_live(c);
    while (c->streams)
        leave_capture(c->streams);
    c->invalid = 1; /* events recorded in it stand for nothing any more */
    unref(c);
    pthread_mutex_unlock(&lock);
    if (phGraph)
        *phGraph = r ? NULL : (CUgraph)g;
    else if (!r && g)
        return CUDA_ERROR_INVALID_VALUE;
    return r;
}

static CUstreamCaptureStatus status_of(const struct gs_stream *s)
{
    if (!s->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                               : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    GS_SIM_ENTER_READY();
    CUresult r;
    struct gs_stream *s = gs_stream_of(hStream, &r);
    if (!s)
        return r;
    if (!captureStatus)
        return CUDA_ERROR_INVALID_VALUE;
    if (GS_LIKELY(!s->capture)) {
        *captureStatus = CU_STREAM_CAPTURE_STATUS_NONE;
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    *captureStatus = status_of(s);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   cuuint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out,
                                   const CUgraphEdgeData **edgeData_out,
                                   size_t *numDependencies_out)
{
    GS_SIM_ENTER_READY();
    CUresult r;
    struct gs_stream *s = gs_stream_of(hStream, &r);
    if (!s)
        return r;
    if (!captureStatus_out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    *captureStatus_out = status_of(s);
    if (*captureStatus_out == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        if (id_out)
            *id_out = s->capture->id;
        if (graph_out)
            *graph_out = (CUgraph)s->capture->graph;
        if (dependencies_out)
            *dependencies_out = s->deps;
        if (edgeData_out)
            *edgeData_out = NULL;
        if (numDependencies_out)
            *numDependencies_out = s->n_deps;
    }
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   cuuint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out,
                                   size_t *numDependencies_out)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out,
                                     dependencies_out, NULL, numDependencies_out);
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                cuuint64_t *id_out)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                              const CUgraphEdgeData *dependencyData,
                                              size_t numDependencies, unsigned int flags)
{
    GS_SIM_ENTER_READY();
    CUresult r;
    struct gs_stream *s = gs_stream_of(hStream, &r);
    (void)dependencyData;
    if (!s)
        return r;
    if (flags > 1 || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (status_of(s) != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        r = CUDA_ERROR_ILLEGAL_STATE;
    else if (flags == 1) /* CU_STREAM_SET_CAPTURE_DEPENDENCIES */
        r = set_deps(&s->deps, &s->n_deps, dependencies, numDependencies);
    else
        r = add_deps(s, dependencies, numDependencies);
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
                                           size_t numDependencies, unsigned int flags)
{
    return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, numDependencies,
                                                flags);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    GS_SIM_ENTER_READY();
    if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}
