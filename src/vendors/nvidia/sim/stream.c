#include "vendors/nvidia/sim/stream.h"

#include <stdlib.h>

#include "vendors/nvidia/sim/apictx.h"
#include "vendors/nvidia/sim/capture.h"
#include "vendors/nvidia/sim/hostcall.h"
#include "vendors/nvidia/sim/memory.h"

/* This thread's own default streams, one per context it used; contexts are told apart by id. */
struct own_stream {
    struct own_stream *next;
    struct gs_sim_ctx *ctx;
    uint32_t ctx_id;
    struct gs_stream *stream;
};
static _Thread_local struct own_stream *own_streams;
static uint64_t next_id = 1;

static struct gs_stream *new_stream(struct gs_sim_ctx *ctx, uint32_t flags, int priority)
{
    struct gs_apictx *a = gs_apictx_of(ctx);
    struct gs_stream *s = gs_object_new(GS_OBJECT_STREAM, sizeof(*s));
    if (!s)
        return NULL;
    s->ctx = ctx;
    s->card = gs_apictx_card(ctx);
    s->flags = flags;
    s->priority = priority;
    s->id = __atomic_fetch_add(&next_id, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&a->lock);
    s->next = a->streams;
    a->streams = s;
    pthread_mutex_unlock(&a->lock);
    return s;
}

static struct gs_stream *legacy_stream(struct gs_sim_ctx *ctx)
{
    struct gs_apictx *a = gs_apictx_of(ctx);
    struct gs_stream *s = __atomic_load_n(&a->legacy, __ATOMIC_ACQUIRE);
    if (GS_LIKELY(s != NULL))
        return s;
    s = new_stream(ctx, 0, 0);
    if (s) {
        struct gs_stream *none = NULL;
        s->is_default = 1;
        /* Two threads may race: the loser's stream is one more empty stream of the context. */
        if (!__atomic_compare_exchange_n(&a->legacy, &none, s, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_ACQUIRE))
            s = none;
    }
    return s;
}

static struct gs_stream *own_stream(struct gs_sim_ctx *ctx)
{
    struct own_stream *o = own_streams;
    while (o && (o->ctx != ctx || o->ctx_id != ctx->id))
        o = o->next;
    if (o)
        return o->stream;
    o = calloc(1, sizeof(*o));
    struct gs_stream *s = o ? new_stream(ctx, 0, 0) : NULL;
    if (!s) {
        free(o);
        return NULL;
    }
    s->is_default = 1;
    *o = (struct own_stream){.next = own_streams, .ctx = ctx, .ctx_id = ctx->id, .stream = s};
    own_streams = o;
    return s;
}

struct gs_stream *gs_stream_of(CUstream h, CUresult *ret_error)
{
    struct gs_stream *s = (struct gs_stream *)h;
    if ((uintptr_t)h > 2) {
        *ret_error = CUDA_ERROR_INVALID_HANDLE;
        return gs_object_is(s, GS_OBJECT_STREAM) ? s : NULL;
    }
    struct gs_sim_ctx *ctx = gs_context_current();
    *ret_error = CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx || !gs_context_is_alive(ctx) || !ctx->api)
        return NULL;
    s = h == GS_STREAM_PER_THREAD ? own_stream(ctx) : legacy_stream(ctx);
    if (!s)
        *ret_error = CUDA_ERROR_OUT_OF_MEMORY;
    return s;
}

CUresult gs_stream_submit(CUstream h, enum gs_stream_work work, uint64_t amount)
{
    CUresult error;
    struct gs_stream *s = gs_stream_of(h, &error);
    if (GS_UNLIKELY(!s))
        return error;
    if (GS_UNLIKELY(s->capture != NULL))
        return gs_capture_refuse(s);
    error = gs_capture_check_legacy(s);
    if (GS_UNLIKELY(error))
        return error;
    gs_stream_add(s, work, amount);
    return CUDA_SUCCESS;
}

CUresult gs_stream_run(enum gs_stream_work work, uint64_t amount)
{
    CUresult error;
    struct gs_stream *s = gs_stream_of(NULL, &error);
    if (!s)
        return error;
    GS_CAPTURE_UNSAFE;
    error = gs_capture_check_legacy(s);
    if (error)
        return error;
    if (gs_sim_self.zero_cost && !s->host_seq)
        return CUDA_SUCCESS;
    gs_stream_add(s, work, amount);
    uint64_t tag, seq;
    gs_stream_tail(s, &tag, &seq);
    gs_stream_await(s->card, tag, seq, gs_stream_spin_ns());
    return CUDA_SUCCESS;
}

int gs_stream_is_capturing(CUstream h)
{
    CUresult error;
    struct gs_stream *s = gs_stream_of(h, &error);
    return s && s->capture;
}

struct tail {
    uint64_t tag;
    uint64_t host_seq;
};

static void add_tail(struct gs_stream *s, void *arg)
{
    struct tail *t = arg;
    uint64_t tag = __atomic_load_n(&s->tag, __ATOMIC_ACQUIRE);
    uint64_t seq = __atomic_load_n(&s->host_seq, __ATOMIC_ACQUIRE);
    if (s->flags &
        1) /* CU_STREAM_NON_BLOCKING: does not wait for the legacy stream, nor it for this */
        return;
    t->tag = tag > t->tag ? tag : t->tag;
    t->host_seq = seq > t->host_seq ? seq : t->host_seq;
}

void gs_stream_tail(struct gs_stream *s, uint64_t *ret_tag, uint64_t *ret_host_seq)
{
    struct tail t = {.tag = __atomic_load_n(&s->tag, __ATOMIC_ACQUIRE),
                     .host_seq = __atomic_load_n(&s->host_seq, __ATOMIC_ACQUIRE)};
    if (s == gs_apictx_of(s->ctx)->legacy)
        gs_stream_each(s->ctx, add_tail, &t);
    *ret_tag = t.tag;
    *ret_host_seq = t.host_seq;
}

CUresult gs_stream_call(struct gs_stream *s, CUhostFn fn, void *data)
{
    uint64_t tag, seq;
    gs_stream_tail(s, &tag, &seq);
    CUresult r = gs_hostcall_queue(s->card, tag, fn, data, &seq);
    if (!r)
        gs_stream_raise(&s->host_seq, seq);
    return r;
}

void gs_stream_each(struct gs_sim_ctx *ctx, void (*fn)(struct gs_stream *s, void *arg), void *arg)
{
    struct gs_apictx *a = gs_apictx_of(ctx);
    pthread_mutex_lock(&a->lock);
    for (struct gs_stream *s = a->streams; s; s = s->next)
        fn(s, arg);
    pthread_mutex_unlock(&a->lock);
}

void gs_stream_forget_context(CUcontext ctx)
{
    struct gs_apictx *a = gs_apictx_of((struct gs_sim_ctx *)ctx);
    struct gs_stream *s = a->streams;
    a->streams = NULL;
    a->legacy = NULL;
    while (s) {
        struct gs_stream *next = s->next;
        gs_capture_forget_stream(s);
        gs_object_free(s);
        s = next;
    }
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!phStream || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    /* Out of range is clamped, as documented. */
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    struct gs_stream *s = new_stream(ctx, flags, priority);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phStream = (CUstream)s;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    GS_SIM_ENTRY;
    return cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    GS_SIM_ENTER_READY();
    struct gs_stream *s = (struct gs_stream *)hStream;
    if ((uintptr_t)hStream <= 2 || !gs_object_is(s, GS_OBJECT_STREAM) || s->is_default)
        return CUDA_ERROR_INVALID_HANDLE;
    struct gs_apictx *a = gs_apictx_of(s->ctx);
    gs_capture_forget_stream(s);
    pthread_mutex_lock(&a->lock);
    struct gs_stream **p = &a->streams;
    while (*p && *p != s)
        p = &(*p)->next;
    if (*p)
        *p = s->next;
    /* Work goes on without the stream: the legacy stream answers for it at the context's end. */
    if (a->legacy) {
        gs_stream_raise(&a->legacy->tag, s->tag);
        gs_stream_raise(&a->legacy->host_seq, s->host_seq);
    }
    pthread_mutex_unlock(&a->lock);
    gs_object_free(s);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream hStream)
{
    return cuStreamDestroy_v2(hStream);
}

/* Finds the stream of an argument, or leaves the function. */
#define STREAM_OF(var, handle)                                                                     \
    GS_SIM_ENTER_READY();                                                                          \
    CUresult var##_error;                                                                          \
    struct gs_stream *var = gs_stream_of(handle, &var##_error);                                    \
    if (GS_UNLIKELY(!var))                                                                         \
    return var##_error

CUresult cuStreamSynchronize(CUstream hStream)
{
    STREAM_OF(s, hStream);
    if (s->capture)
        return gs_capture_refuse(s);
    CUresult r = gs_capture_check_legacy(s);
    if (GS_UNLIKELY(r))
        return r;
    GS_CAPTURE_UNSAFE;
    uint64_t tag, seq;
    gs_stream_tail(s, &tag, &seq);
    gs_stream_await(s->card, tag, seq, gs_stream_spin_ns());
    gs_memory_synchronized(s->ctx);
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream hStream)
{
    STREAM_OF(s, hStream);
    if (s->capture)
        return gs_capture_refuse(s);
    CUresult r = gs_capture_check_legacy(s);
    if (GS_UNLIKELY(r))
        return r;
    GS_CAPTURE_UNSAFE;
    uint64_t tag, seq;
    gs_stream_tail(s, &tag, &seq);
    return gs_stream_reached(s->card, tag, seq) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    STREAM_OF(s, hStream);
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture) {
        CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_HOST};
        p.host.fn = fn;
        p.host.userData = userData;
        return gs_capture_add(hStream, &p, NULL);
    }
    return gs_stream_call(s, fn, userData);
}

struct callback {
    CUstreamCallback fn;
    CUstream stream;
    void *data;
};

static void run_callback(void *arg)
{
    struct callback *c = arg;
    c->fn(c->stream, CUDA_SUCCESS, c->data);
    free(c);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                             unsigned int flags)
{
    STREAM_OF(s, hStream);
    if (!callback || flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture)
        return gs_capture_refuse(s);
    struct callback *c = malloc(sizeof(*c));
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = (struct callback){.fn = callback, .stream = hStream, .data = userData};
    CUresult r = gs_stream_call(s, run_callback, c);
    if (r)
        free(c);
    return r;
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    STREAM_OF(s, hStream);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = s->flags;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
    STREAM_OF(s, hStream);
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    *priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    STREAM_OF(s, hStream);
    if (!streamId)
        return CUDA_ERROR_INVALID_VALUE;
    *streamId = s->id;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    STREAM_OF(s, hStream);
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = (CUcontext)s->ctx;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    STREAM_OF(s, hStream);
    if (!pCtx)
        return CUDA_ERROR_INVALID_VALUE;
    *pCtx = (CUcontext)s->ctx;
    if (pGreenCtx)
        *pGreenCtx = NULL;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    STREAM_OF(s, hStream);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = s->ctx->device;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
    STREAM_OF(s, hStream);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    *value = (CUstreamAttrValue){.pad = {0}};
    if (attr == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY)
        value->pad[0] = 1; /* CU_SYNC_POLICY_AUTO */
    else if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value->priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    STREAM_OF(s, hStream);
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        s->priority = value->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    STREAM_OF(d, dst);
    CUresult error;
    struct gs_stream *s = gs_stream_of(src, &error);
    if (!s)
        return error;
    d->priority = s->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                unsigned int flags)
{
    STREAM_OF(s, hStream);
    struct gs_sim_range range;
    (void)length;
    if (flags != 1 && flags != 2 && flags != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture)
        return gs_capture_refuse(s);
    return gs_memory_find(dptr, &range);
}
