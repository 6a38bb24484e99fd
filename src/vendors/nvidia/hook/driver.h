#pragma once
/* The driver functions that bodies call on their own account.
 *
 * One list for each library; the prototypes are those of api.def. A member is NULL where the driver
 * in this process lacks the function: callers say what they do then. Addresses are the driver's
 * own, never our wrappers, so these calls do not come back to us. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/abi/nvml_types.h"

#define CUDA_HOOK(symbol, class, body, ret, params, args) typedef ret gs_fn_##symbol params;
#define CUDA_CALL(symbol, ret, params, reason)            typedef ret gs_fn_##symbol params;
#define NVML_HOOK(symbol, class, body, ret, params, args) typedef ret gs_fn_##symbol params;
#define NVML_CALL(symbol, ret, params, reason)            typedef ret gs_fn_##symbol params;
#include "vendors/nvidia/abi/api.def"

/** Index of each library in the vendor's table (engine.h). */
enum { GS_DRIVER_LIB_CUDA, GS_DRIVER_LIB_NVML };

/* Sorted. A new need is one line. */
#define GS_DRIVER_CUDA(X)                                                                          \
    X(cuArrayDestroy)                                                                              \
    X(cuCtxDestroy_v2)                                                                             \
    X(cuCtxFromGreenCtx)                                                                           \
    X(cuCtxGetApiVersion)                                                                          \
    X(cuCtxGetCurrent)                                                                             \
    X(cuCtxGetDevice)                                                                              \
    X(cuCtxGetLimit)                                                                               \
    X(cuCtxPopCurrent_v2)                                                                          \
    X(cuCtxPushCurrent_v2)                                                                         \
    X(cuCtxSetLimit)                                                                               \
    X(cuCtxSynchronize)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGetDefaultMemPool)                                                                   \
    X(cuDeviceGetGraphMemAttribute)                                                                \
    X(cuDeviceGetMemPool)                                                                          \
    X(cuDeviceGetUuid)                                                                             \
    X(cuDeviceGetUuid_v2)                                                                          \
    X(cuDeviceGraphMemTrim)                                                                        \
    X(cuDevicePrimaryCtxGetState)                                                                  \
    X(cuDevicePrimaryCtxRelease_v2)                                                                \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDeviceTotalMem_v2)                                                                         \
    X(cuEventCreate)                                                                               \
    X(cuEventDestroy_v2)                                                                           \
    X(cuEventElapsedTime)                                                                          \
    X(cuEventQuery)                                                                                \
    X(cuEventRecord)                                                                               \
    X(cuEventRecord_ptsz)                                                                          \
    X(cuGraphChildGraphNodeGetGraph)                                                               \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphGetNodes)                                                                             \
    X(cuGraphLaunch_ptsz)                                                                          \
    X(cuGraphMemAllocNodeGetParams)                                                                \
    X(cuGraphMemFreeNodeGetParams)                                                                 \
    X(cuGraphNodeGetDependencies)                                                                  \
    X(cuGraphNodeGetType)                                                                          \
    X(cuGraphUpload_ptsz)                                                                          \
    X(cuInit)                                                                                      \
    X(cuLaunchCooperativeKernel_ptsz)                                                              \
    X(cuLaunchHostFunc_ptsz)                                                                       \
    X(cuLaunchKernelEx_ptsz)                                                                       \
    X(cuLaunchKernel_ptsz)                                                                         \
    X(cuLibraryUnload)                                                                             \
    X(cuMemAdvise)                                                                                 \
    X(cuMemAllocAsync_ptsz)                                                                        \
    X(cuMemAllocFromPoolAsync_ptsz)                                                                \
    X(cuMemAllocManaged)                                                                           \
    X(cuMemFreeAsync)                                                                              \
    X(cuMemFree_v2)                                                                                \
    X(cuMemGetAddressRange_v2)                                                                     \
    X(cuMemGetAllocationGranularity)                                                               \
    X(cuMemGetInfo_v2)                                                                             \
    X(cuMemPoolDestroy)                                                                            \
    X(cuMemPoolGetAttribute)                                                                       \
    X(cuMemPoolTrimTo)                                                                             \
    X(cuMemRelease)                                                                                \
    X(cuMemUnmap)                                                                                  \
    X(cuMipmappedArrayDestroy)                                                                     \
    X(cuModuleUnload)                                                                              \
    X(cuPointerGetAttribute)                                                                       \
    X(cuStreamAddCallback_ptsz)                                                                    \
    X(cuStreamEndCapture_ptsz)                                                                     \
    X(cuStreamGetCtx)                                                                              \
    X(cuStreamGetCtx_v2)                                                                           \
    X(cuStreamGetDevice)                                                                           \
    X(cuStreamIsCapturing)                                                                         \
    X(cuStreamIsCapturing_ptsz)                                                                    \
    X(cuStreamQuery)                                                                               \
    X(cuStreamQuery_ptsz)                                                                          \
    X(cuStreamSynchronize_ptsz)                                                                    \
    X(cuThreadExchangeStreamCaptureMode)

#define GS_DRIVER_NVML(X)                                                                          \
    X(nvmlDeviceGetComputeRunningProcesses_v3)                                                     \
    X(nvmlDeviceGetCount_v2)                                                                       \
    X(nvmlDeviceGetHandleByIndex_v2)                                                               \
    X(nvmlDeviceGetHandleByUUID)                                                                   \
    X(nvmlDeviceGetMemoryInfo)                                                                     \
    X(nvmlDeviceGetMigDeviceHandleByIndex)                                                         \
    X(nvmlDeviceGetUUID)                                                                           \
    X(nvmlInit_v2)                                                                                 \
    X(nvmlShutdown)

struct gs_driver {
#define X(symbol) gs_fn_##symbol *symbol;
    GS_DRIVER_CUDA(X)
    GS_DRIVER_NVML(X)
#undef X
    uint32_t cuda_known; /**< 1: the CUDA members are final */
    uint32_t nvml_known;
};
extern struct gs_driver gs_driver_table;

void gs_driver_resolve_cuda(void);

/** The CUDA members. Never NULL. Any thread; the first call looks the addresses up. */
static inline const struct gs_driver *gs_driver_cuda(void)
{
    if (GS_UNLIKELY(__atomic_load_n(&gs_driver_table.cuda_known, __ATOMIC_ACQUIRE) == 0))
        gs_driver_resolve_cuda();
    return &gs_driver_table;
}

/** Open a session with NVML, loading and initialising it where the program has not: slow paths
 *  only.
 *  Returns  the NVML members, to be ended with gs_driver_nvml_end(); NULL where there is no
 *           NVML. */
const struct gs_driver *gs_driver_nvml_begin(void);
/** Close it. NVML counts its users, so the program's own session is not touched. */
void gs_driver_nvml_end(void);
/** The NVML members as they are, without a session: for bodies of NVML rows. */
const struct gs_driver *gs_driver_nvml(void);
