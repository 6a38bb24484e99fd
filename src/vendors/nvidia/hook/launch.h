#pragma once
/* One launch of the program, limited: the slice pays for it before the driver sees it.
 *
 * Where the process limits anything (gs_engine.launch_free is 0) every row that makes the card work
 * comes by here. Most launches find their cost in a table and pay from the credit at hand: no
 * clock, no system call, no driver call. The others measure, mark what is in flight, and wait their
 * turn (docs/limiter.md). Kernels of a process with one card try launch_fast.h before.
 *
 *     if (gs_launch_pay(&launch))
 *         return gs_launch_paid(&launch, real(...));
 *     gs_launch_begin(&launch);
 *     return gs_launch_end(&launch, real(...)); */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "hook/engine.h"
#include "hook/limiter.h"
#include "hook/self.h"
#include "vendors/nvidia/hook/capture.h"
#include "vendors/nvidia/hook/cost.h"
#include "vendors/nvidia/hook/inflight.h"
#include "vendors/nvidia/hook/launch_stream.h"
#include "vendors/nvidia/hook/pocket.h"
#include "vendors/nvidia/hook/timing.h"

/** Shape word of an executable graph: no kernel has it. */
#define GS_LAUNCH_GRAPH_SHAPE 2u
/** Shape word of a copy (copy.h): likewise. */
#define GS_LAUNCH_COPY_SHAPE 4u

/** Not cleared as a whole: that alone would cost as much as the rest of the fast path. */
struct gs_launch {
    /* by the caller, all of them */
    const char *what; /**< driver function, static */
    CUstream stream;
    uint64_t handle;    /**< function, kernel, executable graph */
    uint64_t shape;     /**< gs_cost_shape(), GS_LAUNCH_GRAPH_SHAPE or _COPY_SHAPE */
    uint64_t blocks;    /**< of the grid; 0 a graph; bytes of a copy */
    uint32_t per_block; /**< threads of a block; of a copy what to expect, bytes per ns */
    uint32_t quarter;   /**< gs_cost_quarter() of the blocks */
    bool per_thread;    /**< the row is a `_ptsz` or `_ptds` twin */
    /* by pay and begin */
    bool measured;    /**< to be settled */
    bool pushed;      /**< the stream's context is not the thread's */
    bool is_due;      /**< a sample whose turn has come by chance */
    bool is_watched;  /**< looked at closely: measured like a long one */
    bool is_followed; /**< its stream has work, and a mark behind that (mark.h) */
    bool is_blind;    /**< nothing of it can be timed */
    uint32_t dev;
    uint32_t ask; /**< what other streams are asked for */
    uint64_t est_ns;
    uint64_t guess_ns; /**< of one that nothing is known of: by what is like it (fresh.h); 0 none */
    uint64_t ready_ns; /**< when it was about to go out */
    uint64_t paid_ns;  /**< 0: went straight through */
    struct gs_cost *cost;
    struct gs_inflight *entry;
    struct gs_timing_where where;
};

extern _Thread_local char gs_launch_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/** Ledger index of the card that a stream works on, or GS_DEVICE_NONE: with several cards. */
uint32_t gs_launch_device(CUstream stream);

static inline uint64_t gs_launch_stream_id(const struct gs_launch *l)
{
    uintptr_t handle = (uintptr_t)l->stream;

    if (handle > GS_LAUNCH_LAST_SPECIAL)
        return handle;
    if (handle == 2 || (handle == 0 && l->per_thread))
        return (uintptr_t)&gs_launch_thread;
    return (uint64_t)l->dev << 4 | 1u;
}

/** The first launch that is paid by its estimate since the stream was seen done is about to go:
 * from now on it may be working. */
void gs_launch_first(struct gs_launch_stream *stream, uint32_t dev);

/** A launch was paid by its estimate: the next sample of its kernel comes nearer, and the next
 * entry of its stream has more to account for. */
static inline void gs_launch_count(struct gs_cost *cost, struct gs_launch_stream *stream,
                                   uint64_t est_ns, uint32_t dev, bool is_copy)
{
    uint64_t since = __atomic_load_n(&stream->since, __ATOMIC_RELAXED);

    /* a copy is as long as its size, and what passes meanwhile is often the host's time */
    if (!is_copy && GS_UNLIKELY(__atomic_load_n(&stream->first_ns, __ATOMIC_RELAXED) == 0))
        gs_launch_first(stream, dev);
    gs_cost_count(cost, est_ns);
    __atomic_store_n(&stream->since, since + est_ns + GS_LAUNCH_ONE, __ATOMIC_RELAXED);
}

/** Without a slow path. True: paid. */
static inline bool gs_launch_pay(struct gs_launch *l)
{
    struct gs_launch_stream *stream;
    uint64_t id;

    l->dev = GS_LIKELY(gs_self.n_devices == 1) ? 0 : gs_launch_device(l->stream);
    if (GS_UNLIKELY(l->dev >= GS_LEDGER_DEVICES) || gs_capture_any())
        return false;
    l->cost = gs_cost_find(gs_cost_key(l->handle, l->shape, l->quarter, l->dev), l->quarter);
    id = gs_launch_stream_id(l);
    stream = gs_launch_stream_of(id);
    if (GS_UNLIKELY(__atomic_load_n(&stream->id, __ATOMIC_RELAXED) != id) ||
        GS_UNLIKELY(__atomic_load_n(&stream->want, __ATOMIC_RELAXED) != 0))
        return false;
    if (!gs_cost_is_estimated(l->cost, &l->est_ns) || !gs_pocket_spend(l->dev, l->est_ns))
        return false;
    gs_launch_count(l->cost, stream, l->est_ns, l->dev, l->shape == GS_LAUNCH_COPY_SHAPE);
    return true;
}

/** After gs_launch_pay(): the driver's answer. */
static inline CUresult gs_launch_paid(const struct gs_launch *l, CUresult result)
{
    if (GS_UNLIKELY(result != CUDA_SUCCESS))
        gs_limiter_cancel(l->dev, l->est_ns, false);
    return result;
}

/** The slow path: pay, and wait if need be. What cannot be limited is forwarded. */
void gs_launch_begin(struct gs_launch *launch);
CUresult gs_launch_end(struct gs_launch *launch, CUresult result);

/** Name of a stream. @per_thread the row is a `_ptsz` or `_ptds` twin. */
uint64_t gs_launch_id_of(CUstream stream, bool per_thread);
/** The program is about to wait for that: note its end where that may matter. */
void gs_launch_waiting(uint64_t id);
/** The program goes on without a word once the stream is done: note its end now. Not of a stream
 *  that is being captured. @per_thread as above. */
void gs_launch_telling(CUstream stream, bool per_thread);
/** The program saw that stream done: a wait, a question or a copy came back, and has not failed.
 * Settle what is done. */
void gs_launch_seen(uint64_t id);
/** The same of all streams of a context; NULL the current one. */
void gs_launch_seen_context(CUcontext context);
/** The same of an event, or one does not know of what. */
void gs_launch_seen_something(void);
/** Settle what is done, by a thread that waits in the limiter. */
void gs_launch_harvest(void);
/** Is there anything that gs_launch_seen() could settle? */
static inline bool gs_launch_is_seeing(void)
{
    return GS_UNLIKELY(__atomic_load_n(&gs_engine.launch_free, __ATOMIC_RELAXED) == 0);
}
/** Code is gone; its handles may come again for other code. */
void gs_launch_code_gone(void);
/** An executable graph is gone; its handle may come again. */
void gs_launch_graph_gone(CUgraphExec exec);
/** An executable graph may have changed. */
void gs_launch_graph_changed(CUgraphExec exec);
/** A stream is gone; its handle may come again. */
void gs_launch_stream_gone(CUstream stream);
/** A context is about to go: nothing of ours may stay in it. */
void gs_launch_context_going(CUcontext context);
/** Forked child. */
void gs_launch_forget(void);
