/* Contexts that come about by other calls than cuCtxCreate: green ones, and those beside a graphics
 * API. */
#include <stdlib.h>

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/sim.h"

/* Multiprocessors are given out in groups of eight, as on Hopper (Driver API 13.5, green contexts).
 */
#define SM_GROUP    8u
#define GREEN_MAGIC 0x6e6565726775u
#define DESC_MAGIC  0x6373656475u

/* Never freed, so that a stale handle is found dead rather than read wild. */
struct green {
    uint64_t magic;
    CUdevice device;
    uint32_t alive;
    CUcontext primary;
};

struct desc {
    uint64_t magic;
    unsigned int sm_count;
};

CUresult cuGLCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return cuCtxCreate(pctx, flags, dev);
}

CUresult cuGLCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuVDPAUCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev, VdpDevice vdpDevice,
                          VdpGetProcAddress *vdpGetProcAddress)
{
    (void)vdpDevice, (void)vdpGetProcAddress;
    return cuCtxCreate(pctx, flags, dev);
}

CUresult cuVDPAUCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev, VdpDevice vdpDevice,
                             VdpGetProcAddress *vdpGetProcAddress)
{
    (void)vdpDevice, (void)vdpGetProcAddress;
    return cuCtxCreate_v2(pctx, flags, dev);
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    GS_SIM_ENTER_READY();
    int count = 0;
    CUresult rc = resource ? gs_context_check_device(device) : CUDA_ERROR_INVALID_VALUE;
    if (rc)
        return rc;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_NOT_SUPPORTED;
    rc = cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    if (rc)
        return rc;
    *resource = (CUdevResource){.type = type};
    resource->sm.smCount = (unsigned int)count;
    resource->sm.minSmPartitionSize = SM_GROUP;
    resource->sm.smCoscheduledAlignment = SM_GROUP;
    return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
                                     const CUdevResource *input, CUdevResource *remainder,
                                     unsigned int flags, unsigned int minCount)
{
    GS_SIM_ENTER_READY();
    (void)flags;
    if (!nbGroups || !input || input->type != CU_DEV_RESOURCE_TYPE_SM ||
        minCount > input->sm.smCount)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned int each = minCount ? (minCount + SM_GROUP - 1) / SM_GROUP * SM_GROUP : SM_GROUP;
    unsigned int n = input->sm.smCount / each;
    if (!n)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (!result) {
        *nbGroups = n;
        return CUDA_SUCCESS;
    }
    if (n > *nbGroups)
        n = *nbGroups;
    for (unsigned int i = 0; i < n; i++) {
        result[i] = *input;
        result[i].sm.smCount = each;
    }
    if (remainder) {
        *remainder = *input;
        remainder->sm.smCount = input->sm.smCount - n * each;
    }
    *nbGroups = n;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
                                   unsigned int nbResources)
{
    GS_SIM_ENTER_READY();
    if (!phDesc || !resources || !nbResources)
        return CUDA_ERROR_INVALID_VALUE;
    struct desc *desc = calloc(1, sizeof(*desc));
    if (!desc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    desc->magic = DESC_MAGIC;
    for (unsigned int i = 0; i < nbResources; i++)
        desc->sm_count += resources[i].sm.smCount;
    *phDesc = (CUdevResourceDesc)desc;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags)
{
    GS_SIM_ENTER_READY();
    struct desc *d = (struct desc *)desc;
    if (!phCtx || !d || d->magic != DESC_MAGIC || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    struct green *green = calloc(1, sizeof(*green));
    if (!green)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = cuDevicePrimaryCtxRetain(&green->primary, dev);
    if (rc) {
        free(green);
        return rc;
    }
    green->magic = GREEN_MAGIC;
    green->device = dev;
    green->alive = 1;
    *phCtx = (CUgreenCtx)green;
    return CUDA_SUCCESS;
}

static struct green *green_of(CUgreenCtx handle)
{
    struct green *green = (struct green *)handle;
    return green && green->magic == GREEN_MAGIC && __atomic_load_n(&green->alive, __ATOMIC_ACQUIRE)
               ? green
               : NULL;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    GS_SIM_ENTER_READY();
    struct green *green = green_of(hCtx);
    if (!green || !__atomic_exchange_n(&green->alive, 0, __ATOMIC_ACQ_REL))
        return CUDA_ERROR_INVALID_VALUE;
    return cuDevicePrimaryCtxRelease_v2(green->device);
}

/* The handle is that of the primary context: work on either is the same to this card. */
CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
    GS_SIM_ENTER_READY();
    struct green *green = green_of(hCtx);
    if (!pContext || !green)
        return CUDA_ERROR_INVALID_VALUE;
    *pContext = green->primary;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                                int priority)
{
    GS_SIM_ENTER_READY();
    struct green *green = green_of(greenCtx);
    if (!phStream || !green || flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext before;
    CUresult rc = cuCtxPushCurrent_v2(green->primary);
    if (rc)
        return rc;
    rc = cuStreamCreateWithPriority(phStream, flags, priority);
    (void)cuCtxPopCurrent_v2(&before);
    return rc;
}
