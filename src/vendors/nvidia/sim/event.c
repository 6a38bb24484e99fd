#include <pthread.h>

#include "vendors/nvidia/sim/capture.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/stream_object.h"

#define BLOCKING_SYNC  1u
#define DISABLE_TIMING 2u
#define INTERPROCESS   4u
#define FLAGS_MAX      7u
#define EXTERNAL       1u
#define SETTLE_MAX     32 /* events looked at per call */

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

/* Events whose completion was not looked at yet: the card remembers only its last turns. */
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gs_event *oldest, *newest;
static uint32_t n_pending; /* also read without the lock */

/* Lock held. */
static void unlist(struct gs_event *e)
{
    if (!e->waits)
        return;
    *(e->prev ? &e->prev->next : &oldest) = e->next;
    *(e->next ? &e->next->prev : &newest) = e->prev;
    e->next = e->prev = NULL;
    e->waits = 0;
    __atomic_store_n(&n_pending, n_pending - 1, __ATOMIC_RELAXED);
}

static void forget_pending(struct gs_event *e)
{
    if (!e->waits)
        return;
    (void)pthread_mutex_lock(&pending_lock);
    unlist(e);
    (void)pthread_mutex_unlock(&pending_lock);
}

static void list(struct gs_event *e)
{
    (void)pthread_mutex_lock(&pending_lock);
    unlist(e);
    e->prev = newest;
    *(newest ? &newest->next : &oldest) = e;
    newest = e;
    e->waits = 1;
    __atomic_store_n(&n_pending, n_pending + 1, __ATOMIC_RELAXED);
    (void)pthread_mutex_unlock(&pending_lock);
}

/* When the card came by. */
static void note_done(struct gs_event *e)
{
    if (e->done_ns || (e->flags & DISABLE_TIMING))
        return;
    uint64_t t = e->record_ns;
    if (e->tag && !gs_sim_self.zero_cost) {
        uint64_t when = gs_clock_when(gs_state_clock(e->card), gs_sim_self.slot, e->tag);
        t = when > t ? when : t;
    }
    e->done_ns = t;
    forget_pending(e);
}

void gs_event_settle(void)
{
    if (GS_LIKELY(!__atomic_load_n(&n_pending, __ATOMIC_RELAXED)))
        return;
    (void)pthread_mutex_lock(&pending_lock);
    struct gs_event *e = oldest;
    for (int i = 0; e && i < SETTLE_MAX; i++) {
        struct gs_event *next = e->next;
        const struct gs_clock_proc *p = &gs_state_clock(e->card)->proc[gs_sim_self.slot];
        if (e->tag <= __atomic_load_n(&p->v_ns, __ATOMIC_ACQUIRE)) {
            uint64_t when = gs_clock_when(gs_state_clock(e->card), gs_sim_self.slot, e->tag);
            e->done_ns = when > e->record_ns ? when : e->record_ns;
            unlist(e);
        }
        e = next;
    }
    (void)pthread_mutex_unlock(&pending_lock);
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    EVENT_OF(e, hEvent);
    gs_capture_forget_event(e);
    forget_pending(e);
    gs_event_share_close(e->shared, e->serial);
    gs_object_free(e);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent hEvent)
{
    return cuEventDestroy_v2(hEvent);
}

static uint64_t own_generation(uint32_t card)
{
    return __atomic_load_n(&gs_state_clock(card)->proc[gs_sim_self.slot].generation,
                           __ATOMIC_RELAXED);
}

/* An event without timing is done with the work before it; one with timing is a command of its own,
 * which a process that does nothing waits for its turn with. */
static void record(struct gs_stream *s, struct gs_event *e)
{
    uint64_t now = 0, mark = 0;
    int timed = !(e->flags & DISABLE_TIMING);
    gs_stream_tail(s, &e->tag, &e->host_seq);
    e->foreign = 0;
    e->done_ns = 0;
    e->recorded = 1;
    if (gs_sim_self.zero_cost) {
        e->record_ns = timed ? gs_clock_now() : 0;
        return;
    }
    if (timed)
        mark = gs_stream_mark(s, &now);
    e->tag = mark > e->tag ? mark : e->tag;
    e->record_ns = now;
    if (!timed)
        return;
    const struct gs_clock_proc *p = &gs_state_clock(e->card)->proc[gs_sim_self.slot];
    if (e->tag <= __atomic_load_n(&p->v_ns, __ATOMIC_ACQUIRE)) {
        e->done_ns = now;
        forget_pending(e);
    } else {
        list(e);
    }
    gs_event_settle();
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
    error = gs_capture_check_legacy(s);
    if (GS_UNLIKELY(error))
        return error;
    gs_capture_forget_event(e);
    record(s, e);
    if (e->shared) {
        __atomic_store_n(&e->shared->tag, e->tag, __ATOMIC_RELAXED);
        __atomic_store_n(&e->shared->slot, gs_sim_self.slot, __ATOMIC_RELAXED);
        __atomic_store_n(&e->shared->generation, own_generation(e->card), __ATOMIC_RELAXED);
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
    e->slot = __atomic_load_n(&e->shared->slot, __ATOMIC_RELAXED);
    e->generation = __atomic_load_n(&e->shared->generation, __ATOMIC_RELAXED);
    e->foreign = e->slot != gs_sim_self.slot;
    if (e->foreign)
        e->host_seq = 0; /* host functions of another process are not ours to wait for */
    e->tag = tag;
    e->recorded = 1;
}

static int reached(const struct gs_event *e)
{
    if (!e->foreign || gs_sim_self.zero_cost)
        return gs_stream_reached(e->card, e->tag, e->host_seq);
    return gs_clock_is_done_of(gs_state_clock(e->card), e->slot, e->generation, e->tag);
}

static void await(const struct gs_event *e)
{
    uint64_t spin_ns = e->flags & BLOCKING_SYNC ? 0 : gs_stream_spin_ns();
    if (!e->foreign || gs_sim_self.zero_cost) {
        gs_stream_await(e->card, e->tag, e->host_seq, spin_ns);
        return;
    }
    while (!reached(e))
        (void)gs_clock_wait_once(gs_state_clock(e->card), e->slot, e->tag, spin_ns);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    GS_SIM_ENTRY;
    return cuEventRecordWithFlags(hEvent, hStream, 0);
}

CUresult cuEventQuery(CUevent hEvent)
{
    EVENT_OF(e, hEvent);
    if (e->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    GS_CAPTURE_UNSAFE;
    refresh(e);
    if (e->recorded && !reached(e))
        return CUDA_ERROR_NOT_READY;
    note_done(e);
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    EVENT_OF(e, hEvent);
    if (e->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    GS_CAPTURE_UNSAFE;
    refresh(e);
    if (!e->recorded)
        return CUDA_SUCCESS;
    await(e);
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
    /* Another card's tag, or another process's, means nothing here: there the host waits in the
     * device's stead. */
    if (s->card == e->card && !e->foreign)
        gs_stream_order(s, e->tag);
    else if (!gs_sim_self.zero_cost)
        await(e);
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
    const struct gs_clock *c = gs_state_clock(e->card);
    e->tag = __atomic_load_n(&c->proc[gs_sim_self.slot].end_ns, __ATOMIC_ACQUIRE);
    e->host_seq = 0;
    e->done_ns = 0;
    e->record_ns = gs_clock_now();
    e->recorded = 1;
    if (!gs_sim_self.zero_cost && !(e->flags & DISABLE_TIMING))
        list(e);
    return CUDA_SUCCESS;
}

CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
    EVENT_OF(e, hEvent);
    (void)e;
    struct gs_sim_ctx *ctx;
    return gs_context_get(hCtx, &ctx); /* order within a process is given, see cuStreamWaitEvent */
}
