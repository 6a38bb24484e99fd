#include "vendors/nvidia/sim/capture.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/stream_object.h"

#define DISABLE_TIMING 2u
#define INTERPROCESS   4u
#define FLAGS_MAX      7u
#define EXTERNAL       1u

/* Finds the event of an argument, or leaves the function. */
#define EVENT_OF(var, handle)                                                                      \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_event *var = (struct gs_event *)handle;                                              \
    if (GS_UNLIKELY(!gs_object_is(var, GS_OBJECT_EVENT)))                                          \
    return CUDA_ERROR_INVALID_HANDLE

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!phEvent || Flags > FLAGS_MAX || ((Flags & INTERPROCESS) && !(Flags & DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_event *e = gs_object_new(GS_OBJECT_EVENT, sizeof(*e));
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->ctx = ctx;
    e->card = gs_process_device_card(ctx->device);
    e->flags = Flags;
    *phEvent = (CUevent)e;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    EVENT_OF(e, hEvent);
    gs_capture_forget_event(e);
    gs_event_share_close(e->shared, e->serial);
    gs_object_free(e);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent hEvent)
{
    return cuEventDestroy_v2(hEvent);
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    EVENT_OF(e, hEvent);
    CUresult error;
    struct gs_stream *s = gs_stream_of(hStream, &error);
    if (!s)
        return error;
    if (flags & ~EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->card != e->card)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture && (flags & EXTERNAL)) {
        CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};
        p.eventRecord.event = hEvent;
        return gs_capture_add(hStream, &p, NULL);
    }
    if (s->capture)
        return gs_capture_record(s, e);
    gs_capture_forget_event(e);
    gs_stream_tail(s, &e->tag, &e->host_seq);
    e->done_ns = 0;
    e->record_ns = e->flags & DISABLE_TIMING ? 0 : gs_clock_now();
    e->recorded = 1;
    if (e->shared) {
        __atomic_store_n(&e->shared->tag, e->tag, __ATOMIC_RELAXED);
        __atomic_store_n(&e->shared->recorded, 1, __ATOMIC_RELEASE);
    }
    return CUDA_SUCCESS;
}

/* Another process may have recorded a shared event: take over its place. Pairs with the release
 * above. */
static void refresh(struct gs_event *e)
{
    if (!e->shared || !__atomic_load_n(&e->shared->recorded, __ATOMIC_ACQUIRE))
        return;
    uint64_t tag = __atomic_load_n(&e->shared->tag, __ATOMIC_RELAXED);
    if (tag != e->tag)
        e->host_seq = 0; /* host functions of another process are not ours to wait for */
    e->tag = tag;
    e->recorded = 1;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    GS_SIM_ENTRY;
    return cuEventRecordWithFlags(hEvent, hStream, 0);
}

/* Note when the card came by: later the card's memory of it fades. */
static void note_done(struct gs_event *e)
{
    if (e->done_ns || (e->flags & DISABLE_TIMING))
        return;
    uint64_t t = e->record_ns;
    if (e->tag && !gs_sim_self.zero_cost) {
        uint64_t when = gs_clock_when(&gs_sim_state->card[e->card].clock, e->tag);
        t = when > t ? when : t;
    }
    e->done_ns = t;
}

CUresult cuEventQuery(CUevent hEvent)
{
    EVENT_OF(e, hEvent);
    if (e->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    refresh(e);
    if (e->recorded && !gs_stream_reached(e->card, e->tag, e->host_seq))
        return CUDA_ERROR_NOT_READY;
    note_done(e);
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    EVENT_OF(e, hEvent);
    if (e->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    refresh(e);
    if (!e->recorded)
        return CUDA_SUCCESS;
    gs_stream_await(e->card, e->tag, e->host_seq);
    note_done(e);
    if (e->ctx && gs_context_is_alive(e->ctx))
        gs_memory_synchronized(e->ctx);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    EVENT_OF(a, hStart);
    struct gs_event *b = (struct gs_event *)hEnd;
    if (!gs_object_is(b, GS_OBJECT_EVENT) || ((a->flags | b->flags) & DISABLE_TIMING) ||
        !a->recorded || !b->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!pMilliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!gs_stream_reached(a->card, a->tag, a->host_seq) ||
        !gs_stream_reached(b->card, b->tag, b->host_seq))
        return CUDA_ERROR_NOT_READY;
    note_done(a);
    note_done(b);
    *pMilliseconds = (float)((double)(int64_t)(b->done_ns - a->done_ns) / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    GS_SIM_ENTRY;
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    EVENT_OF(e, hEvent);
    CUresult error;
    struct gs_stream *s = gs_stream_of(hStream, &error);
    if (!s)
        return error;
    if (Flags & ~EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture && (Flags & EXTERNAL)) {
        CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};
        p.eventWait.event = hEvent;
        return gs_capture_add(hStream, &p, NULL);
    }
    if (s->capture || e->capture)
        return gs_capture_wait(s, e);
    refresh(e);
    if (!e->recorded)
        return CUDA_SUCCESS;
    /* On one card everything of a process runs in order of submission; only another card's tag
     * means nothing here, and there the host waits in the device's stead. */
    if (s->card == e->card)
        gs_stream_raise(&s->tag, e->tag);
    else
        gs_stream_await(e->card, e->tag, 0);
    gs_stream_raise(&s->host_seq, e->host_seq);
    return CUDA_SUCCESS;
}

CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
    EVENT_OF(e, hEvent);
    struct gs_sim_ctx *ctx;
    CUresult r = gs_context_get(hCtx, &ctx);
    if (r)
        return r;
    gs_capture_forget_event(e);
    const struct gs_clock *c = &gs_sim_state->card[e->card].clock;
    e->tag = __atomic_load_n(&c->proc[gs_sim_self.slot].tail_v_ns, __ATOMIC_ACQUIRE);
    e->host_seq = 0;
    e->done_ns = 0;
    e->record_ns = gs_clock_now();
    e->recorded = 1;
    return CUDA_SUCCESS;
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
    EVENT_OF(e, hEvent);
    (void)e;
    struct gs_sim_ctx *ctx;
    return gs_context_get(hCtx, &ctx); /* order within a process is given, see cuStreamWaitEvent */
}
