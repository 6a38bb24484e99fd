#pragma once
/* Recording of streams into a graph. Guard of all captures: one lock in capture.c, taken after no
 * other but the graph lock. */

#include "vendors/nvidia/sim/apictx.h"
#include "vendors/nvidia/sim/capture_link.h"
#include "vendors/nvidia/sim/stream_object.h"

/** Result of a call that a recording stream does not allow: the capture becomes invalid. */
CUresult gs_capture_refuse(struct gs_stream *s);

/** Event recorded in / waited for by a stream of which at least one side records. */
CUresult gs_capture_record(struct gs_stream *s, struct gs_event *e);
CUresult gs_capture_wait(struct gs_stream *s, struct gs_event *e);

/** Use of the legacy stream of `ctx`: it would join all its blocking streams, and so those that
 *  record. Returns CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and their captures are invalid, or
 *  CUDA_SUCCESS where none records. */
CUresult gs_capture_legacy(struct gs_sim_ctx *ctx);

/** Wait for, or query, all of `ctx`: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the captures are
 *  invalid, where one of its streams records. */
CUresult gs_capture_broad(struct gs_sim_ctx *ctx);

/** gs_capture_legacy() if `s` is that stream. */
static inline CUresult gs_capture_check_legacy(const struct gs_stream *s)
{
    if (GS_LIKELY(!__atomic_load_n(&gs_capture_live, __ATOMIC_RELAXED)))
        return CUDA_SUCCESS;
    return s == gs_apictx_of(s->ctx)->legacy ? gs_capture_legacy(s->ctx) : CUDA_SUCCESS;
}

/** The event no longer stands for a place in a capture. */
void gs_capture_forget_event(struct gs_event *e);
/** The stream is destroyed. */
void gs_capture_forget_stream(struct gs_stream *s);
