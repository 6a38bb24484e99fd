/* Defaults for the API side, replaced by strong definitions where that part is built in. */

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/stream.h"

#define WEAK __attribute__((weak))

WEAK CUresult gs_sim_api_ctx_created(struct gs_sim_ctx *ctx)
{
    (void)ctx;
    return CUDA_SUCCESS;
}

WEAK void gs_sim_api_ctx_destroyed(struct gs_sim_ctx *ctx)
{
    (void)ctx;
}

WEAK CUresult gs_sim_api_ctx_synchronize(struct gs_sim_ctx *ctx)
{
    (void)ctx;
    return CUDA_SUCCESS;
}

WEAK CUresult gs_stream_submit(CUstream h, enum gs_stream_work work, uint64_t amount)
{
    (void)h, (void)work, (void)amount;
    return CUDA_SUCCESS;
}

WEAK CUresult gs_stream_run(enum gs_stream_work work, uint64_t amount)
{
    (void)work, (void)amount;
    return CUDA_SUCCESS;
}

WEAK int gs_stream_is_capturing(CUstream h)
{
    (void)h;
    return 0;
}

CUresult gs_capture_add(CUstream h, CUgraphNodeParams *params, CUgraphNode *ret_node);
WEAK CUresult gs_capture_add(CUstream h, CUgraphNodeParams *params, CUgraphNode *ret_node)
{
    (void)h, (void)params, (void)ret_node;
    return CUDA_ERROR_NOT_SUPPORTED;
}

WEAK CUresult cuInit(unsigned int Flags)
{
    return Flags || gs_process_join() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

void gs_memory_synchronized(struct gs_sim_ctx *ctx);
WEAK void gs_memory_synchronized(struct gs_sim_ctx *ctx)
{
    (void)ctx;
}
