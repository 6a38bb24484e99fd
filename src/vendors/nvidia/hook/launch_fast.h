#pragma once
/* The fast path of kernel launches where the process has one card: what a limited launch costs that
 * need not wait.
 *
 * It runs before the row's body, outside gs_engine_enter(), and leaves the arguments where they
 * are: a launch that is paid goes on to the driver by a jump, and nobody looks at the driver's
 * answer. (One that fails has been charged. It is like launches that went well, and what the card
 * did not do comes back with the next measurement of its stream.)
 *
 * No locked instruction, and no line that other threads of the program write, but where they use
 * the same kernel or stream: a thread pays from its pocket, into which it takes small pieces of the
 * process's credit. All else are plain loads and stores of words that other threads may change
 * meanwhile: a lost update costs a sample, as in cost.h. Whatever is not plain sailing returns
 * false, and the body finds out why. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "hook/engine.h"
#include "vendors/nvidia/hook/capture.h"
#include "vendors/nvidia/hook/cost.h"
#include "vendors/nvidia/hook/launch.h"
#include "vendors/nvidia/hook/pocket.h"

/** Pay for one kernel. True: go to the driver. */
static inline bool gs_nv_fast_launch_kernel(bool per_thread, CUfunction f, unsigned int gx,
                                            unsigned int gy, unsigned int gz, unsigned int bx,
                                            unsigned int by, unsigned int bz, unsigned int shared,
                                            CUstream handle, void **params, void **extra)
{
    struct gs_pocket *pocket = &gs_pocket;
    struct gs_launch_stream *stream;
    uint64_t id, key, est;
    uint32_t quarter;
    struct gs_cost *cost;

    (void)params, (void)extra;
    /* something has changed, or never was: suspend, new limits, fork, several cards */
    if (GS_UNLIKELY(pocket->epoch != __atomic_load_n(&gs_engine.launch_epoch, __ATOMIC_RELAXED)))
        return false;
    /* a call of the driver's own, or one that may be recorded instead of run */
    if (GS_UNLIKELY(gs_engine_depth != 0) || gs_capture_any())
        return false;
    /* an event belongs behind this launch */
    id = gs_launch_stream_id(&(const struct gs_launch){.stream = handle, .per_thread = per_thread});
    stream = gs_launch_stream_of(id);
    if (GS_UNLIKELY(__atomic_load_n(&stream->id, __ATOMIC_RELAXED) != id) ||
        GS_UNLIKELY(__atomic_load_n(&stream->want, __ATOMIC_RELAXED) != 0))
        return false;
    /* cost unknown, long, or to be sampled */
    quarter = gs_cost_quarter(gs_cost_blocks(gx, gy, gz));
    key = gs_cost_key((uintptr_t)f, gs_cost_shape(bx, by, bz, shared), quarter, 0);
    cost = gs_cost_home(key);
    if (GS_UNLIKELY(__atomic_load_n(&cost->key, __ATOMIC_RELAXED) != key) ||
        GS_UNLIKELY(!gs_cost_is_estimated(cost, &est)) ||
        (GS_UNLIKELY(pocket->ns < (int64_t)est) && !gs_pocket_refill(est)))
        return false;
    pocket->ns -= (int64_t)est;
    gs_launch_count(cost, stream, est, 0, false);
    return true;
}

/* The others that wrap.c calls, by the names of the bodies in api.def. The calls of CUDA 3, and
 * launches on several cards at once, have no fast path. */

static inline bool gs_nv_fast_launch_cooperative(bool per_thread, CUfunction f, unsigned int gx,
                                                 unsigned int gy, unsigned int gz, unsigned int bx,
                                                 unsigned int by, unsigned int bz,
                                                 unsigned int shared, CUstream stream,
                                                 void **params)
{
    return gs_nv_fast_launch_kernel(per_thread, f, gx, gy, gz, bx, by, bz, shared, stream, params,
                                    NULL);
}

static inline bool gs_nv_fast_launch_kernel_ex(bool per_thread, const CUlaunchConfig *c,
                                               CUfunction f, void **params, void **extra)
{
    return c != NULL &&
           gs_nv_fast_launch_kernel(per_thread, f, c->gridDimX, c->gridDimY, c->gridDimZ,
                                    c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes,
                                    c->hStream, params, extra);
}

#define gs_nv_fast_launch_grid(...)       false
#define gs_nv_fast_launch_grid_async(...) false
#define gs_nv_fast_launch_multi(...)      false
#define gs_nv_fast_launch_old(...)        false
