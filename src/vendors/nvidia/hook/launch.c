#include "vendors/nvidia/hook/launch.h"

#include <stddef.h>
#include <string.h>

#include "hook/engine.h"
#include "hook/resize.h"
#include "vendors/nvidia/hook/copy.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/exit.h"
#include "vendors/nvidia/hook/fresh.h"
#include "vendors/nvidia/hook/inflight.h"
#include "vendors/nvidia/hook/mark.h"
#include "vendors/nvidia/hook/room.h"
#include "vendors/nvidia/hook/settle.h"
#include "vendors/nvidia/hook/sight.h"
#include "vendors/nvidia/hook/stream.h"
#include "vendors/nvidia/hook/window.h"

/* Work that goes without a mark behind it. */
#define MARK_NS 2000000u
/* From one launch to the next: more than measuring takes by far. */
#define LEISURE_NS 200000u
/* What is asked of streams' next launches, beside GS_LAUNCH_WATCH: 2 a sample that asks others,
 * 1 a mark. */
#define ASK_OTHERS 2u
/* Streams that are asked whether they are done, and are not, after one wait. */
#define ASK_MOST 8u

_Thread_local char gs_launch_thread;

static struct gs_timing_where wheres[GS_LAUNCH_STREAMS]; /* of the streams; of whom `id` says */
static uint64_t streams_gone = 1;

/* The last stream of this thread whose card was asked for. */
static _Thread_local struct {
    CUstream stream;
    CUcontext context;
    uint64_t gone;
    uint32_t dev;
} last __attribute__((tls_model("initial-exec")));

uint32_t gs_launch_device(CUstream stream)
{
    const struct gs_device *device;
    struct gs_device_here here;
    uint64_t gone;

    if (gs_device_current(&here) < 0) /* work on a stream that has a context does not need one */
        here = (struct gs_device_here){NULL, NULL, 0};
    if ((uintptr_t)stream <= GS_LAUNCH_LAST_SPECIAL)
        return here.device != NULL ? here.device->ledger : GS_DEVICE_NONE;
    gone = __atomic_load_n(&streams_gone, __ATOMIC_RELAXED);
    if (last.stream == stream && last.context == here.context && last.gone == gone)
        return last.dev;
    device = gs_stream_device(stream);
    if (device == NULL)
        return GS_DEVICE_NONE;
    last.stream = stream;
    last.context = here.context;
    last.gone = gone;
    last.dev = device->ledger;
    return last.dev;
}

/* ---- begin ---- */

static bool is_graph(const struct gs_launch *l)
{
    return l->shape == GS_LAUNCH_GRAPH_SHAPE;
}

static uint64_t prior(const struct gs_launch *l)
{
    uint64_t threads;

    if (l->shape == GS_LAUNCH_COPY_SHAPE)
        return gs_cost_prior_copy(l->blocks, l->per_block);
    if (l->guess_ns != 0)
        return l->guess_ns;
    if (__builtin_mul_overflow(l->blocks, (uint64_t)l->per_block, &threads))
        threads = UINT64_MAX;
    return gs_cost_prior(threads);
}

/* Where the events go: into the stream's context, which need not be the thread's: a kernel of a
 * library, and a graph, run where their stream is. False: nobody knows a context; *ret_refused:
 * there is none, and the driver refuses the launch. */
static bool set_where(struct gs_launch *l, bool *ret_refused)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUcontext current = NULL, own = gs_stream_context(l->stream);
    bool known = cuda->cuCtxGetCurrent != NULL && cuda->cuCtxGetCurrent(&current) == CUDA_SUCCESS;

    if (!known) {
        gs_sight_trouble(l->dev, "cuCtxGetCurrent");
        current = NULL;
    }
    *ret_refused = known && current == NULL && (uintptr_t)l->stream <= GS_LAUNCH_LAST_SPECIAL;
    l->where = (struct gs_timing_where){own != NULL ? own : current, l->stream, l->per_thread,
                                        gs_launch_stream_id(l), l->dev};
    l->pushed = l->where.context != current;
    return l->where.context != NULL;
}

static void enter_context(const struct gs_launch *l)
{
    const struct gs_driver *cuda = gs_driver_cuda();

    if (l->pushed && cuda->cuCtxPushCurrent_v2 != NULL)
        (void)cuda->cuCtxPushCurrent_v2(l->where.context); /* else no event can be made, either */
}

static void leave_context(const struct gs_launch *l)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUcontext context;

    if (l->pushed && cuda->cuCtxPopCurrent_v2 != NULL &&
        cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == l->where.context)
        (void)cuda->cuCtxPopCurrent_v2(&context);
}

/* The stream's entry in the table; another stream's is taken over. */
static struct gs_launch_stream *claim_stream(const struct gs_timing_where *where)
{
    struct gs_launch_stream *s = gs_launch_stream_of(where->id);

    if (__atomic_load_n(&s->id, __ATOMIC_RELAXED) == where->id) {
        if (wheres[s - gs_launch_streams].context != where->context) /* a default stream's */
            wheres[s - gs_launch_streams] = *where;
        return s;
    }
    (void)gs_mark_close(s);
    __atomic_store_n(&s->since, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&s->first_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&s->seen_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&s->from_ns, gs_limiter_clock(), __ATOMIC_RELAXED);
    __atomic_store_n(&s->want, gs_window_is_attending(where->dev) ? GS_LAUNCH_WATCH : 0,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&s->dev, where->dev, __ATOMIC_RELAXED);
    wheres[s - gs_launch_streams] = *where;
    __atomic_store_n(&s->id, where->id, __ATOMIC_RELAXED);
    return s;
}

/* Is a launch to be measured? The program is looked at more closely, and either takes its time from
 * one launch to the next, so that measuring costs little, or nothing less would do. That is not so
 * where launches queue up: marks tell there how long the stream had work without a break. Alone on
 * the card a sample would say less than one that is measured. */
static bool is_watched(const struct gs_launch *l, bool is_leisurely)
{
    if (!gs_window_is_attending(l->dev))
        return false;
    if (is_leisurely || !gs_window_is_doubtful(l->dev))
        return is_leisurely;
    if (gs_limiter_is_shared(l->dev))
        return gs_inflight_count(l->dev) <= 1;
    return (!l->is_followed && gs_inflight_count(l->dev) == 0) ||
           __atomic_load_n(&l->cost->countdown_ns, __ATOMIC_RELAXED) < (int64_t)l->est_ns;
}

static void set_first(struct gs_launch_stream *stream, uint32_t dev, uint64_t now)
{
    __atomic_store_n(&stream->before, __atomic_load_n(&stream->since, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
    __atomic_store_n(&stream->first_ns, now, __ATOMIC_RELAXED);
    if (gs_window_is_attending(dev))
        __atomic_store_n(&stream->want, GS_LAUNCH_WATCH, __ATOMIC_RELAXED); /* the next one */
    gs_limiter_first_out(dev, now);
}

void gs_launch_first(struct gs_launch_stream *stream, uint32_t dev)
{
    set_first(stream, dev, gs_limiter_clock());
}

/* Launches of the stream's window, and what was charged for them. */
static uint64_t window_of(const struct gs_launch_stream *stream)
{
    return __atomic_load_n(&stream->since, __ATOMIC_RELAXED) -
           __atomic_load_n(&stream->before, __ATOMIC_RELAXED);
}

/* Do other streams have work out? */
static bool is_crowded(const struct gs_launch_stream *own)
{
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++) {
        const struct gs_launch_stream *s = &gs_launch_streams[i];

        if (s != own && __atomic_load_n(&s->since, __ATOMIC_RELAXED) != 0)
            return true;
    }
    return false;
}

/* Is a launch settled by what it took, whatever was believed of it? */
static bool is_measured(const struct gs_launch *l)
{
    if (l->est_ns == 0 || l->est_ns >= GS_COST_LONG_NS)
        return true;
    /* a copy is as long as its size; what it spreads by is the host's time in the call */
    return l->shape != GS_LAUNCH_COPY_SHAPE && (gs_cost_is_spread(l->cost) || l->is_watched);
}

/* Does this launch need an entry, and of what kind? Among other streams a sample is taken in the
 * middle of three rounds, so that what it shares the card with is seen, too. */
static bool needs_entry(struct gs_launch *l, const struct gs_launch_stream *stream,
                        enum gs_inflight_kind *ret_kind)
{
    uint32_t want = __atomic_load_n(&stream->want, __ATOMIC_RELAXED);
    int64_t countdown = __atomic_load_n(&l->cost->countdown_ns, __ATOMIC_RELAXED);

    l->ask = 0;
    l->is_due = false;
    *ret_kind = GS_INFLIGHT_MEASURED;
    if (is_measured(l))
        return true;
    *ret_kind = want == ASK_OTHERS ? GS_INFLIGHT_SAMPLE : GS_INFLIGHT_MARK;
    if (want != 0 && want != GS_LAUNCH_WATCH) {
        l->ask = want - 1;
        return true;
    }
    if (countdown < (int64_t)l->est_ns) {
        if (is_crowded(stream))
            l->ask = ASK_OTHERS;
        else
            *ret_kind = GS_INFLIGHT_SAMPLE;
        l->is_due = *ret_kind == GS_INFLIGHT_SAMPLE;
        gs_cost_sampled(l->cost);
        return true;
    }
    return gs_limiter_window_ns(l->dev) == 0 ||
           GS_LAUNCH_NS(__atomic_load_n(&stream->since, __ATOMIC_RELAXED)) + l->est_ns >= MARK_NS;
}

static void pay(struct gs_launch *l, uint64_t cost_ns)
{
    if (l->measured && l->est_ns == 0) {
        gs_inflight_try(l->entry, l->cost);
        if (l->guess_ns != 0)
            gs_limiter_admit(l->dev, cost_ns, true, l->what);
        else
            gs_limiter_admit_unknown(l->dev, cost_ns, l->what);
        /* another thread's may have been seen meanwhile */
        l->est_ns = __atomic_load_n(&l->cost->est_ns, __ATOMIC_RELAXED);
    } else if (l->measured || !gs_limiter_spend(l->dev, cost_ns))
        gs_limiter_admit(l->dev, cost_ns, l->measured, l->what);
    l->paid_ns = cost_ns;
}

/* Without any timing: the card is taken to work from when a launch goes out until the program has
 * waited for it, or launches again. */
static void begin_blind(struct gs_launch *l)
{
    gs_inflight_blind_seen(l->dev, gs_limiter_clock());
    l->is_blind = l->measured = true;
    l->paid_ns = prior(l);
    gs_limiter_admit(l->dev, l->paid_ns, true, l->what);
}

/* The launch is likely to wait. What streams have out may be done long before that is over. */
static void mark_before_wait(const struct gs_launch *l)
{
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++) {
        struct gs_launch_stream *s = &gs_launch_streams[i];
        struct gs_timing_where where = wheres[i];

        if (__atomic_load_n(&s->first_ns, __ATOMIC_RELAXED) == 0 || where.dev != l->dev ||
            where.context != l->where.context ||
            where.id != __atomic_load_n(&s->id, __ATOMIC_RELAXED))
            continue;
        if (gs_capture_any() && where.id != l->where.id)
            continue;                /* it may be recorded by now */
        if (!gs_mark_put(s, &where)) /* it cannot be told from the wait, then */
            __atomic_store_n(&s->first_ns, 0, __ATOMIC_RELAXED);
    }
}

static bool is_to_wait(const struct gs_launch *l)
{
    return is_measured(l) ||
           __atomic_load_n(&gs_limiter_credit[l->dev].ns, __ATOMIC_RELAXED) < (int64_t)l->est_ns;
}

static uint64_t copy_ns(const struct gs_launch *l)
{
    return l->shape == GS_LAUNCH_COPY_SHAPE ? gs_copy_least_ns(l) : 0;
}

static void begin_relaxed(struct gs_launch *l)
{
    struct gs_launch_stream *stream;
    enum gs_inflight_kind kind;
    uint64_t cost, quiet;

    gs_window_begin(l->dev);
    stream = claim_stream(&l->where);
    quiet = __atomic_load_n(&stream->quiet_ns, __ATOMIC_RELAXED);
    l->is_followed = gs_mark_end(stream);
    (void)gs_inflight_harvest();
    if (GS_UNLIKELY(gs_sight_is_lost(gs_limiter_clock()))) {
        begin_blind(l);
        return;
    }
    l->est_ns = __atomic_load_n(&l->cost->est_ns, __ATOMIC_RELAXED);
    if (l->est_ns == 0 && l->shape != GS_LAUNCH_COPY_SHAPE)
        l->guess_ns = gs_fresh_guess(l->dev, is_graph(l), gs_limiter_clock());
    l->is_watched = is_watched(l, gs_limiter_clock() > quiet + LEISURE_NS);
    if (is_to_wait(l))
        mark_before_wait(l);
    gs_room_await(&(const struct gs_room){l->dev, l->cost, prior(l), l->what});
    /* the wait may have taught what the launch costs */
    l->est_ns = __atomic_load_n(&l->cost->est_ns, __ATOMIC_RELAXED);
    cost = l->est_ns != 0 ? l->est_ns : prior(l);
    if (needs_entry(l, stream, &kind))
        l->entry = gs_inflight_take(&l->where, kind);
    l->measured = l->entry != NULL && kind == GS_INFLIGHT_MEASURED;
    pay(l, cost);
    if (l->entry != NULL && !gs_inflight_start(l->entry, copy_ns(l)))
        l->entry = NULL;
    l->ready_ns = gs_limiter_clock();
}

/* The straight way may have been closed only so that somebody takes over the limits announced. */
static bool is_anything_held(void)
{
    if (GS_UNLIKELY(gs_resize_is_due(&gs_self)))
        gs_resize_now();
    return gs_limiter_is_on();
}

static void settle_done(void)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    struct gs_capture_relaxed relaxed;
    CUcontext context;

    if (!gs_inflight_any() && !gs_mark_any())
        return;
    if (cuda->cuCtxGetCurrent == NULL || cuda->cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return; /* the driver has ended before us, after all */
    relaxed = gs_capture_relax();
    gs_mark_end_all();
    (void)gs_inflight_harvest();
    gs_capture_restore(&relaxed);
}

/* The program ends in good order. What is done is settled; of the rest the ledger says since when
 * it is out. What was taken ahead goes back. */
static void settle_rest(void)
{
    if (gs_engine_depth != 0) /* a signal's handler ends it in the middle of a call of ours */
        return;
    if (!gs_launch_is_seeing())
        return;
    settle_done();
    gs_limiter_leave();
}

void gs_launch_begin(struct gs_launch *l)
{
    struct gs_capture_relaxed relaxed;
    bool refused;
    int rc;

    l->paid_ns = l->guess_ns = 0;
    l->entry = NULL;
    l->measured = l->pushed = l->is_blind = false;
    if (l->dev >= GS_LEDGER_DEVICES || l->dev >= gs_self.n_devices || !is_anything_held())
        return;
    if (gs_capture_any()) {
        rc = gs_capture_is_clear(l->stream, l->per_thread);
        if (rc == 0)
            return; /* it is recorded, not run */
        if (rc < 0) {
            gs_sight_trouble(l->dev, "cuStreamIsCapturing");
            begin_blind(l);
            return;
        }
    }
    if (!set_where(l, &refused)) {
        if (!refused)
            begin_blind(l);
        return;
    }
    l->cost = gs_cost_find(gs_cost_key(l->handle, l->shape, l->quarter, l->dev), l->quarter);
    gs_exit_await(settle_rest);
    relaxed = gs_capture_relax();
    enter_context(l);
    begin_relaxed(l);
    leave_context(l);
    gs_capture_restore(&relaxed);
}

/* ---- end ---- */

/* Ask for samples on the other streams that have work out. */
static void ask_others(const struct gs_launch_stream *own, uint32_t ask)
{
    if (ask == 0)
        return;
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++) {
        struct gs_launch_stream *s = &gs_launch_streams[i];

        if (s != own && __atomic_load_n(&s->since, __ATOMIC_RELAXED) != 0 &&
            __atomic_load_n(&s->want, __ATOMIC_RELAXED) < ask)
            __atomic_store_n(&s->want, ask, __ATOMIC_RELAXED);
    }
}

static void close_entry(struct gs_launch *l, struct gs_launch_stream *stream)
{
    struct gs_inflight_launch launch = {
        .kind = gs_inflight_kind_of(l->entry),
        .cost = l->cost,
        .est_ns = l->est_ns,
        .is_due = l->is_due,
        .is_graph = is_graph(l),
    };

    launch.is_whole = gs_mark_drop(stream);
    gs_mark_window(stream, &launch);
    if (launch.kind == GS_INFLIGHT_MEASURED)
        launch.paid_ns = l->paid_ns;
    else
        launch.covers_ns += l->paid_ns;
    if (launch.kind == GS_INFLIGHT_MARK)
        launch.window += l->paid_ns + GS_LAUNCH_ONE;
    else
        gs_cost_sampled(l->cost);
    if (launch.kind == GS_INFLIGHT_MEASURED && gs_window_is_doubtful(l->dev))
        gs_window_attended(l->dev);
    __atomic_store_n(&stream->want, gs_window_is_attending(l->dev) ? GS_LAUNCH_WATCH : 0,
                     __ATOMIC_RELAXED);
    gs_inflight_close(l->entry, &launch);
    ask_others(stream, l->ask);
}

static void end_relaxed(struct gs_launch *l)
{
    struct gs_launch_stream *stream;

    if (l->entry != NULL)
        gs_inflight_end(l->entry);
    stream = claim_stream(&l->where);
    if (l->entry != NULL) {
        close_entry(l, stream);
    } else if (l->measured) { /* its events could not be recorded */
        gs_inflight_blind_out(l->dev, gs_limiter_clock(), l->paid_ns);
    } else {
        if (l->shape != GS_LAUNCH_COPY_SHAPE &&
            __atomic_load_n(&stream->first_ns, __ATOMIC_RELAXED) == 0)
            set_first(stream, l->dev, l->ready_ns);
        (void)__atomic_fetch_add(&stream->since, l->paid_ns + GS_LAUNCH_ONE, __ATOMIC_RELAXED);
        gs_cost_count(l->cost, l->paid_ns);
        if (l->is_followed || gs_window_is_attending(l->dev))
            gs_mark_follow(stream, &l->where);
    }
    gs_limiter_busy_until(l->dev, gs_inflight_until(l->dev, gs_limiter_clock()));
}

CUresult gs_launch_end(struct gs_launch *l, CUresult result)
{
    struct gs_capture_relaxed relaxed;

    if (l->paid_ns == 0)
        return result;
    if (result != CUDA_SUCCESS) {
        gs_inflight_drop(l->entry);
        gs_limiter_cancel(l->dev, l->paid_ns, l->measured);
        return result;
    }
    if (GS_UNLIKELY(l->is_blind)) {
        gs_inflight_blind_out(l->dev, gs_limiter_clock(), l->paid_ns);
        return result;
    }
    relaxed = gs_capture_relax();
    enter_context(l);
    end_relaxed(l);
    leave_context(l);
    gs_capture_restore(&relaxed);
    return result;
}

/* ---- what else happens ---- */

uint64_t gs_launch_id_of(CUstream stream, bool per_thread)
{
    struct gs_launch l = {.stream = stream, .per_thread = per_thread};

    if ((uintptr_t)stream <= GS_LAUNCH_LAST_SPECIAL && gs_self.n_devices > 1)
        l.dev = gs_launch_device(stream);
    return gs_launch_stream_id(&l);
}

/* The program has seen the stream done, whose window began at `first`; 0: it has none. */
static void see_window(struct gs_launch_stream *s, uint64_t first)
{
    uint32_t dev = __atomic_load_n(&s->dev, __ATOMIC_RELAXED);
    uint64_t now, window;

    if (first == 0 || __atomic_load_n(&s->first_ns, __ATOMIC_RELAXED) != first)
        return;
    now = gs_limiter_clock();
    window = window_of(s);
    if (now > first && gs_window_judge(dev, (struct gs_span){first, now}, now - first, window))
        gs_inflight_window(dev, __atomic_load_n(&s->id, __ATOMIC_RELAXED), first, now, window);
    __atomic_store_n(&s->quiet_ns, now, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&s->seen_ns, now > first ? now - first : 0, __ATOMIC_RELAXED);
    __atomic_store_n(&s->first_ns, 0, __ATOMIC_RELAXED);
    gs_inflight_publish(dev);
}

void gs_launch_waiting(uint64_t id)
{
    struct gs_launch_stream *s = gs_launch_stream_of(id);
    struct gs_timing_where where = wheres[s - gs_launch_streams];
    struct gs_capture_relaxed relaxed;
    CUcontext context = NULL;

    if (!gs_launch_is_seeing() || __atomic_load_n(&s->id, __ATOMIC_RELAXED) != id ||
        __atomic_load_n(&s->first_ns, __ATOMIC_RELAXED) == 0 || where.id != id ||
        !gs_window_is_attending(where.dev))
        return;
    if (gs_driver_cuda()->cuCtxGetCurrent == NULL ||
        gs_driver_cuda()->cuCtxGetCurrent(&context) != CUDA_SUCCESS || context != where.context)
        return;
    relaxed = gs_capture_relax();
    if (gs_mark_put(s, &where))
        gs_window_attended(where.dev);
    gs_capture_restore(&relaxed);
}

void gs_launch_telling(CUstream stream, bool per_thread)
{
    uint64_t id;
    struct gs_launch_stream *s;
    struct gs_launch at = {.where = {0}};
    struct gs_capture_relaxed relaxed;
    CUcontext context = NULL;

    if (!gs_launch_is_seeing() || gs_driver_cuda()->cuCtxGetCurrent == NULL)
        return;
    id = gs_launch_id_of(stream, per_thread);
    s = gs_launch_stream_of(id);
    at.where = wheres[s - gs_launch_streams];
    if (__atomic_load_n(&s->id, __ATOMIC_RELAXED) != id || at.where.id != id ||
        __atomic_load_n(&s->first_ns, __ATOMIC_RELAXED) == 0 ||
        (gs_capture_any() && gs_capture_is_clear(stream, per_thread) != 1) ||
        gs_driver_cuda()->cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return;
    at.pushed = at.where.context != context;
    relaxed = gs_capture_relax();
    (void)gs_inflight_harvest(); /* else they would pile up */
    enter_context(&at);
    (void)gs_mark_put(s, &at.where);
    leave_context(&at);
    gs_capture_restore(&relaxed);
}

static CUcontext current_context(void)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUcontext context = NULL;

    return cuda->cuCtxGetCurrent != NULL && cuda->cuCtxGetCurrent(&context) == CUDA_SUCCESS
               ? context
               : NULL;
}

/* The default stream that all streams of a context share, unless they say otherwise. */
static bool is_legacy(uint64_t id)
{
    return id <= ((uint64_t)GS_LEDGER_DEVICES << 4 | 1u);
}

static bool is_special(const struct gs_timing_where *where)
{
    return (uintptr_t)where->stream <= GS_LAUNCH_LAST_SPECIAL;
}

/* Does the driver say that the stream is done? Default streams can be asked for where they are. */
static bool is_done(const struct gs_timing_where *where, CUcontext current)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    gs_fn_cuStreamQuery *query = cuda->cuStreamQuery;

    if (is_special(where)) {
        if (where->context != current ||
            where->id != gs_launch_id_of(where->stream, where->per_thread))
            return false;
        query = where->per_thread ? cuda->cuStreamQuery_ptsz : query;
    }
    return query != NULL && query(where->stream) == CUDA_SUCCESS;
}

/* The program has learnt of something, and nobody knows of what: which streams are done is the
 * driver's to say. Windows of those that are would last through the program's next pause. Not while
 * anything is recorded: a question to a stream that is, or that the default stream waits for, would
 * end that. */
static void see_done(void)
{
    static uint32_t from;
    CUcontext current = current_context();
    uint32_t busy = 0, begin = __atomic_fetch_add(&from, 1, __ATOMIC_RELAXED);
    struct gs_capture_relaxed relaxed;
    bool done;

    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS && busy < ASK_MOST && !gs_capture_any(); i++) {
        uint32_t at = (begin + i) % GS_LAUNCH_STREAMS;
        struct gs_launch_stream *s = &gs_launch_streams[at];
        uint64_t first = __atomic_load_n(&s->first_ns, __ATOMIC_RELAXED);
        struct gs_timing_where where = wheres[at];

        if (first == 0 || where.id != __atomic_load_n(&s->id, __ATOMIC_RELAXED))
            continue;
        relaxed = gs_capture_relax();
        done = is_done(&where, current);
        gs_capture_restore(&relaxed);
        if (done)
            see_window(s, first);
        else
            busy++;
    }
}

/* Windows of a context's streams. Default streams of one card have one name, whatever the context:
 * the entry is of the one that was there last. */
static void see_context(CUcontext context)
{
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++) {
        struct gs_launch_stream *s = &gs_launch_streams[i];

        if (wheres[i].context == context)
            see_window(s, __atomic_load_n(&s->first_ns, __ATOMIC_RELAXED));
    }
}

/* What events tell. */
static void settle_seen(void)
{
    struct gs_capture_relaxed relaxed;

    if (!gs_inflight_any() && !gs_mark_any())
        return;
    relaxed = gs_capture_relax();
    gs_mark_end_all();
    (void)gs_inflight_harvest();
    gs_capture_restore(&relaxed);
    for (uint32_t dev = 0; dev < gs_self.n_devices; dev++)
        gs_inflight_blind_seen(dev, gs_limiter_clock());
}

void gs_launch_seen(uint64_t id)
{
    struct gs_launch_stream *s = gs_launch_stream_of(id);
    const struct gs_timing_where *where = &wheres[s - gs_launch_streams];

    if (!gs_launch_is_seeing())
        return;
    settle_seen();
    if (__atomic_load_n(&s->id, __ATOMIC_RELAXED) == id && where->id == id &&
        (!is_special(where) || where->context == current_context()))
        see_window(s, __atomic_load_n(&s->first_ns, __ATOMIC_RELAXED));
    if (is_legacy(id))
        see_done(); /* it waits for others */
}

void gs_launch_seen_context(CUcontext context)
{
    if (!gs_launch_is_seeing())
        return;
    settle_seen();
    see_context(context != NULL ? context : current_context());
    see_done(); /* green contexts of it are done, too */
}

void gs_launch_seen_something(void)
{
    if (!gs_launch_is_seeing())
        return;
    settle_seen();
    see_done();
}

void gs_launch_harvest(void)
{
    struct gs_capture_relaxed relaxed;

    if (!gs_launch_is_seeing() || !gs_inflight_any())
        return;
    relaxed = gs_capture_relax();
    (void)gs_inflight_harvest();
    gs_capture_restore(&relaxed);
}

void gs_launch_code_gone(void)
{
    gs_cost_doubt();
}

void gs_launch_graph_changed(CUgraphExec exec)
{
    for (uint32_t dev = 0; dev < gs_self.n_devices; dev++)
        gs_cost_renew(gs_cost_key((uintptr_t)exec, GS_LAUNCH_GRAPH_SHAPE, 0, dev));
}

void gs_launch_graph_gone(CUgraphExec exec)
{
    for (uint32_t dev = 0; dev < gs_self.n_devices; dev++)
        gs_cost_drop(gs_cost_key((uintptr_t)exec, GS_LAUNCH_GRAPH_SHAPE, 0, dev));
}

void gs_launch_stream_gone(CUstream stream)
{
    struct gs_launch_stream *s = gs_launch_stream_of((uintptr_t)stream);

    (void)__atomic_fetch_add(&streams_gone, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&s->id, __ATOMIC_RELAXED) == (uintptr_t)stream) {
        (void)gs_mark_close(s);
        __atomic_store_n(&s->id, 0, __ATOMIC_RELAXED);
    }
}

static bool has_work(CUcontext context)
{
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++) {
        if (__atomic_load_n(&gs_launch_streams[i].first_ns, __ATOMIC_RELAXED) != 0 &&
            wheres[i].context == context)
            return true;
    }
    return gs_inflight_has(context);
}

/* The driver ends a context when all its work is done. We wait for that before, while events still
 * tell how long it took. */
static void finish_context(CUcontext context)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUcontext popped;

    if (cuda->cuCtxSynchronize == NULL || cuda->cuCtxPushCurrent_v2 == NULL ||
        cuda->cuCtxPopCurrent_v2 == NULL || cuda->cuCtxPushCurrent_v2(context) != CUDA_SUCCESS)
        return;
    (void)cuda->cuCtxSynchronize(); /* where it fails the clock tells */
    (void)cuda->cuCtxPopCurrent_v2(&popped);
}

void gs_launch_context_going(CUcontext context)
{
    struct gs_capture_relaxed relaxed = gs_capture_relax();

    if (has_work(context)) {
        finish_context(context);
        gs_launch_seen_context(context);
    }
    gs_mark_purge(context);
    gs_inflight_purge(context);
    gs_capture_restore(&relaxed);
}

void gs_launch_forget(void)
{
    memset(gs_launch_streams, 0, sizeof(gs_launch_streams));
    gs_room_forget();
    gs_fresh_forget();
    gs_cost_forget();
    gs_mark_forget();
    gs_inflight_forget();
    gs_capture_forget();
    (void)__atomic_fetch_add(&streams_gone, 1, __ATOMIC_RELAXED);
}
