#pragma once
/* Streams: order and modelled time of what a process submits.
 *
 * A simulated device does its bytes at once (copies are done when the call returns) and its *time*
 * later: each piece of work gets a tag of the card's clock (clock.h), and whoever waits, waits
 * until the card is there. Both default streams and every created stream of a context have their
 * own last tag. Host functions run on one thread of the process in order.
 *
 * Memory code calls gs_stream_submit() for each asynchronous operation before or after moving the
 * bytes, or gs_stream_capture() first where the stream may be recording a graph. */

#include <stdint.h>

#include "vendors/nvidia/abi/cuda_types.h"

/** Handles with a meaning of their own (cuda.h: CU_STREAM_LEGACY, CU_STREAM_PER_THREAD). */
#define GS_STREAM_LEGACY     ((CUstream)(uintptr_t)1)
#define GS_STREAM_PER_THREAD ((CUstream)(uintptr_t)2)

/** Why a piece takes time. */
enum gs_stream_work {
    GS_STREAM_NOTHING, /**< markers, allocations: no card time */
    GS_STREAM_COPY,    /**< `amount` bytes over the bus to the card */
    GS_STREAM_DOWN,    /**< `amount` bytes over the bus from the card */
    GS_STREAM_FILL,    /**< `amount` bytes inside the card (sets, device to device) */
};

/** Account one piece of work on `h` of the current context.
 *  Returns  CUDA_SUCCESS; CUDA_ERROR_INVALID_CONTEXT without a current context;
 * CUDA_ERROR_INVALID_HANDLE for a stream that does not exist; CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
 * while `h` records (capture it first). */
CUresult gs_stream_submit(CUstream h, enum gs_stream_work work, uint64_t amount);

/** Wait as a synchronous call does: account the work on the legacy stream, then wait for it. */
CUresult gs_stream_run(enum gs_stream_work work, uint64_t amount);

/** 1 when `h` is recording a graph: the operation must become a node, see gs_capture_add() in
 * capture.h. */
int gs_stream_is_capturing(CUstream h);

/** Wait until the process's time on a card has reached `tag` (clock.h); the last `spin_ns` are
 * spent awake. */
void gs_stream_wait(uint32_t card, uint64_t tag, uint64_t spin_ns);

/** How long the calling thread's context likes to wait awake (CU_CTX_SCHED_*), ns. */
uint64_t gs_stream_spin_ns(void);

/** The context is going away: its streams and events with it. */
void gs_stream_forget_context(CUcontext ctx);
