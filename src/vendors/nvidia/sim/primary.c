/* Primary contexts: one per device of the process, alive while somebody retains it. Its handle
 * never changes, also over a reset. */

#include <pthread.h>

#include "vendors/nvidia/sim/context_life.h"
#include "vendors/nvidia/sim/process.h"

static struct gs_sim_ctx *primary[GS_SIM_CARDS_MAX];
static pthread_mutex_t primary_lock = PTHREAD_MUTEX_INITIALIZER; /* taken before all others */

static struct gs_sim_ctx *get(CUdevice device)
{
    if (!primary[device]) {
        struct gs_sim_ctx *ctx = gs_context_new(device);
        if (ctx) {
            ctx->primary = 1;
            ctx->version = 3020;
            primary[device] = ctx;
        }
    }
    return primary[device];
}

struct gs_sim_ctx *gs_context_primary(CUdevice device)
{
    (void)pthread_mutex_lock(&primary_lock);
    struct gs_sim_ctx *ctx = get(device);
    (void)pthread_mutex_unlock(&primary_lock);
    return ctx;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_check_device(dev);
    if (rc)
        return rc;
    (void)pthread_mutex_lock(&primary_lock);
    struct gs_sim_ctx *ctx = get(dev);
    if (!ctx)
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    else if (!ctx->refs)
        rc = gs_context_start(ctx);
    if (!rc) {
        ctx->refs++;
        *pctx = (CUcontext)ctx;
    }
    (void)pthread_mutex_unlock(&primary_lock);
    return rc;
}

static CUresult release(CUdevice dev, int all)
{
    CUresult rc = gs_context_check_device(dev);
    if (rc)
        return rc;
    (void)pthread_mutex_lock(&primary_lock);
    struct gs_sim_ctx *ctx = primary[dev];
    uint32_t refs = ctx ? ctx->refs : 0;
    if (!refs)
        rc = all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    else if (all || refs == 1)
        gs_context_end(ctx);
    if (refs)
        ctx->refs = all ? 0 : refs - 1;
    (void)pthread_mutex_unlock(&primary_lock);
    return rc;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    GS_SIM_ENTER_READY();
    return release(dev, 0);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    GS_SIM_ENTER_READY();
    return release(dev, 0);
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    GS_SIM_ENTER_READY();
    return release(dev, 1);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    GS_SIM_ENTER_READY();
    return release(dev, 1);
}

static CUresult set_flags(CUdevice dev, unsigned int flags)
{
    CUresult rc = gs_context_check_device(dev);
    if (rc)
        return rc;
    struct gs_sim_ctx *ctx = gs_context_primary(dev);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    GS_SIM_ENTER_READY();
    return set_flags(dev, flags);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    GS_SIM_ENTER_READY();
    return set_flags(dev, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    GS_SIM_ENTER_READY();
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_check_device(dev);
    if (rc)
        return rc;
    (void)pthread_mutex_lock(&primary_lock);
    *flags = primary[dev] ? primary[dev]->flags : 0;
    *active = primary[dev] && primary[dev]->refs;
    (void)pthread_mutex_unlock(&primary_lock);
    return CUDA_SUCCESS;
}
