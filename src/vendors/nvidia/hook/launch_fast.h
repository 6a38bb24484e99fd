#pragma once
/* The fast path of kernel launches where the process has one card: what a limited launch costs that
 * need not wait.
 *
 * It runs before the row's body, outside gs_engine_enter(), and leaves the arguments where they
 * are: a launch that is paid goes on to the driver by a jump, and nobody looks at the driver's
 * answer. (One that fails has been charged. It is like launches that went well, and what the card
 * did not do comes back with the next measurement of its stream.)
 *
 * No locked instruction, and no hashing: a thread pays from its pocket, into which it takes small
 * pieces of the process's credit, and remembers its last kernels with where their costs stand. All
 * else are plain loads and stores of words that other threads may change meanwhile: a lost update
 * costs a sample, as in cost.h. Whatever is not plain sailing returns false, and the body finds out
 * why. */

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
    const struct gs_pocket_kernel *kernel = gs_pocket_kernel_of(pocket, (uintptr_t)f, gx);
    struct gs_launch_stream *stream;
    uint64_t est;

    (void)params, (void)extra;
    __asm__("" : "+r"(kernel)); /* else gcc works the address out anew for each comparison */
    /* something has changed, or never was: suspend, new limits, fork, several cards */
    if (GS_UNLIKELY(pocket->epoch != __atomic_load_n(&gs_engine.launch_epoch, __ATOMIC_RELAXED)))
        return false;
    /* a call of the driver's own, or one that may be recorded instead of run */
    if (GS_UNLIKELY(gs_engine_depth != 0) || gs_capture_any())
        return false;
    /* not one of the last kernels */
    if (kernel->function != (uintptr_t)f || kernel->stream != (uintptr_t)handle ||
        kernel->grid[0] != gx || kernel->grid[1] != gy || kernel->grid[2] != gz ||
        kernel->block[0] != bx || kernel->block[1] != by || kernel->block[2] != bz ||
        kernel->shared != shared || kernel->per_thread != per_thread)
        return false;
    /* an event belongs behind this launch */
    stream = gs_launch_stream_of(kernel->stream_id);
    if (GS_UNLIKELY(__atomic_load_n(&stream->id, __ATOMIC_RELAXED) != kernel->stream_id) ||
        GS_UNLIKELY(__atomic_load_n(&stream->want, __ATOMIC_RELAXED) != 0))
        return false;
    /* cost long, or to be sampled */
    if (GS_UNLIKELY(!gs_cost_is_estimated(kernel->cost, &est)) ||
        GS_UNLIKELY(pocket->ns < (int64_t)est))
        return false;
    pocket->ns -= (int64_t)est;
    gs_launch_count(kernel->cost, stream, est);
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
