/* Properties of the current context. */

#include "vendors/nvidia/sim/capture.h"
#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/process.h"

CUresult cuCtxGetDevice(CUdevice *device)
{
    GS_SIM_ENTER_READY();
    const struct gs_sim_ctx *ctx = gs_context_current();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = ctx->device;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_ctx *ctx = NULL;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_get(handle, &ctx);
    if (!rc)
        *device = ctx->device;
    return rc;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_ctx *ctx = NULL;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_get(handle, &ctx);
    if (!rc)
        *version = ctx->version;
    return rc;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long *ctxId)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_ctx *ctx = NULL;
    if (!ctxId)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_get(handle, &ctx);
    if (!rc)
        *ctxId = ctx->id;
    return rc;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = ctx->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    GS_SIM_ENTER_CTX(ctx);
    ctx->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!pconfig)
        return CUDA_ERROR_INVALID_VALUE;
    *pconfig = (CUfunc_cache)ctx->cache_config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    GS_SIM_ENTER_CTX(ctx);
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->cache_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!pConfig)
        return CUDA_ERROR_INVALID_VALUE;
    *pConfig = (CUsharedconfig)ctx->shared_config;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    GS_SIM_ENTER_CTX(ctx);
    if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        return CUDA_ERROR_INVALID_VALUE;
    ctx->shared_config = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!pvalue)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)limit >= GS_SIM_LIMIT_COUNT)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *pvalue = ctx->limit[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    GS_SIM_ENTER_CTX(ctx);
    if ((unsigned)limit >= GS_SIM_LIMIT_COUNT)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    /* The device heap grows in the card when a kernel that uses it is loaded; no kernel here does,
     * so the value is kept and nothing is charged. */
    ctx->limit[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    GS_SIM_ENTER_CTX(ctx);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    GS_SIM_ENTER_CTX(ctx);
    if (leastPriority)
        *leastPriority = 0;
    if (greatestPriority)
        *greatestPriority = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext handle)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_ctx *ctx = NULL;
    CUresult rc = gs_context_get(handle, &ctx);
    if (!rc)
        rc = gs_capture_broad(ctx);
    if (!rc)
        rc = gs_sim_api_ctx_synchronize(ctx);
    if (!rc)
        gs_memory_synchronized(ctx);
    return rc;
}

CUresult cuCtxSynchronize(void)
{
    return cuCtxSynchronize_v2(NULL);
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    GS_SIM_ENTER_CTX(ctx);
    struct gs_sim_ctx *peer = NULL;
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_get(peerContext, &peer);
    if (rc)
        return rc;
    if (peer == ctx || peer->device == ctx->device)
        return CUDA_ERROR_INVALID_DEVICE;
    uint64_t bit = UINT64_C(1) << peer->device;
    return __atomic_fetch_or(&ctx->peers, bit, __ATOMIC_RELAXED) & bit
               ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
               : CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
    GS_SIM_ENTER_CTX(ctx);
    struct gs_sim_ctx *peer = NULL;
    CUresult rc = gs_context_get(peerContext, &peer);
    if (rc)
        return rc;
    uint64_t bit = UINT64_C(1) << peer->device;
    return __atomic_fetch_and(&ctx->peers, ~bit, __ATOMIC_RELAXED) & bit
               ? CUDA_SUCCESS
               : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
