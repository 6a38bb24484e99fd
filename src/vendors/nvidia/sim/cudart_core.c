#include <pthread.h>
#include <string.h>

#include "vendors/nvidia/sim/cudart.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[64];
static int initialised; /* 1 after cuInit; guard: lock for writing */
static cudaError_t init_error;
static _Thread_local int device;
static _Thread_local cudaError_t last_error;

cudaError_t gs_cudart_done(cudaError_t e)
{
    if (GS_UNLIKELY(e))
        last_error = e;
    return e;
}

static cudaError_t init(void)
{
    if (GS_LIKELY(__atomic_load_n(&initialised, __ATOMIC_ACQUIRE)))
        return init_error;
    pthread_mutex_lock(&lock);
    if (!initialised) {
        init_error = cuInit(0);
        __atomic_store_n(&initialised, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return init_error;
}

cudaError_t gs_cudart_primary(int dev, CUcontext *ret)
{
    if (dev < 0 || dev >= 64)
        return CUDA_ERROR_INVALID_DEVICE;
    cudaError_t e = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (!primary[dev])
        e = cuDevicePrimaryCtxRetain(&primary[dev], dev);
    if (!e)
        *ret = primary[dev];
    pthread_mutex_unlock(&lock);
    return e;
}

cudaError_t gs_cudart_enter(void)
{
    CUcontext ctx = NULL;
    cudaError_t e = init();
    if (GS_UNLIKELY(e))
        return e;
    e = cuCtxGetCurrent(&ctx);
    if (GS_LIKELY(!e && ctx))
        return CUDA_SUCCESS;
    e = gs_cudart_primary(device, &ctx);
    return e ? e : cuCtxSetCurrent(ctx);
}

/* Device of the calling thread, valid after gs_cudart_enter(). */
static int own_device(void)
{
    CUdevice d;
    return cuCtxGetDevice(&d) ? device : d;
}

RT(cudaGetLastError, void)
{
    cudaError_t e = last_error;
    last_error = CUDA_SUCCESS;
    return e;
}

RT(cudaPeekAtLastError, void)
{
    return last_error;
}

RT(cudaDriverGetVersion, int *driverVersion)
{
    cudaError_t e = cuDriverGetVersion(driverVersion);
    return gs_cudart_done(e);
}

RT(cudaRuntimeGetVersion, int *runtimeVersion)
{
    if (!runtimeVersion)
        return gs_cudart_done(CUDA_ERROR_INVALID_VALUE);
    *runtimeVersion = GS_CUDART_VERSION;
    return CUDA_SUCCESS;
}

RT(cudaGetDeviceCount, int *count)
{
    cudaError_t e = init();
    return gs_cudart_done(e ? e : cuDeviceGetCount(count));
}

RT(cudaGetDevice, int *ret)
{
    cudaError_t e = init();
    if (!e && !ret)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        *ret = own_device();
    return gs_cudart_done(e);
}

RT(cudaSetDevice, int dev)
{
    CUcontext ctx;
    int n = 0;
    cudaError_t e = init();
    if (!e)
        e = cuDeviceGetCount(&n);
    if (!e && (dev < 0 || dev >= n))
        e = CUDA_ERROR_INVALID_DEVICE;
    if (!e) {
        device = dev;
        e = gs_cudart_primary(dev, &ctx);
    }
    return gs_cudart_done(e ? e : cuCtxSetCurrent(ctx));
}

RT(cudaInitDevice, int dev, unsigned int deviceFlags, unsigned int flags)
{
    CUcontext ctx;
    (void)deviceFlags;
    (void)flags;
    cudaError_t e = init();
    return gs_cudart_done(e ? e : gs_cudart_primary(dev, &ctx));
}

RT(cudaSetValidDevices, const int *device_arr, int len)
{
    cudaError_t e = init();
    return gs_cudart_done(e ? e : device_arr && len > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

RT(cudaChooseDevice, int *ret, const void *prop)
{
    cudaError_t e = init();
    if (!e && (!ret || !prop))
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        *ret = 0;
    return gs_cudart_done(e);
}

RT(cudaSetDeviceFlags, unsigned int flags)
{
    cudaError_t e = init();
    return gs_cudart_done(e ? e : cuDevicePrimaryCtxSetFlags_v2(device, flags));
}

RT(cudaGetDeviceFlags, unsigned int *flags)
{
    int active;
    cudaError_t e = init();
    return gs_cudart_done(e ? e : cuDevicePrimaryCtxGetState(device, flags, &active));
}

RT(cudaDeviceReset, void)
{
    cudaError_t e = init();
    int dev = own_device();
    if (e)
        return gs_cudart_done(e);
    pthread_mutex_lock(&lock);
    if (primary[dev]) {
        e = cuDevicePrimaryCtxReset_v2(dev);
        (void)cuDevicePrimaryCtxRelease_v2(dev); /* may be gone with the reset */
        primary[dev] = NULL;
        (void)cuCtxSetCurrent(NULL);
    }
    pthread_mutex_unlock(&lock);
    return gs_cudart_done(e);
}

RT(cudaThreadExit, void)
{
    return cudaDeviceReset();
}

RT_FORWARD(cudaDeviceSynchronize, cuCtxSynchronize(), void)
RT_FORWARD(cudaThreadSynchronize, cuCtxSynchronize(), void)

RT(cudaGetDriverEntryPointByVersion, const char *symbol, void **funcPtr, unsigned int cudaVersion,
   unsigned long long flags, CUdriverProcAddressQueryResult *driverStatus)
{
    cudaError_t e = cuGetProcAddress_v2(symbol, funcPtr, (int)cudaVersion, flags, driverStatus);
    return gs_cudart_done(e);
}
RT_TWIN(cudaGetDriverEntryPointByVersion, _ptsz,
        (symbol, funcPtr, cudaVersion, flags, driverStatus), const char *symbol, void **funcPtr,
        unsigned int cudaVersion, unsigned long long flags,
        CUdriverProcAddressQueryResult *driverStatus)

RT(cudaGetDriverEntryPoint, const char *symbol, void **funcPtr, unsigned long long flags,
   CUdriverProcAddressQueryResult *driverStatus)
{
    return cudaGetDriverEntryPointByVersion(symbol, funcPtr, GS_CUDART_VERSION, flags,
                                            driverStatus);
}
RT_TWIN(cudaGetDriverEntryPoint, _ptsz, (symbol, funcPtr, flags, driverStatus), const char *symbol,
        void **funcPtr, unsigned long long flags, CUdriverProcAddressQueryResult *driverStatus)

RT(cudaGetExportTable, const void **ppExportTable, const CUuuid *pExportTableId)
{
    return gs_cudart_done(cuGetExportTable(ppExportTable, pExportTableId));
}

RT_FORWARD(cudaProfilerStart, cuProfilerStart(), void)
RT_FORWARD(cudaProfilerStop, cuProfilerStop(), void)

/* ---- names of errors ---- */

static const struct {
    cudaError_t code;
    const char *name;
} names[] = {
    {0, "cudaSuccess"},
    {1, "cudaErrorInvalidValue"},
    {2, "cudaErrorMemoryAllocation"},
    {3, "cudaErrorInitializationError"},
    {4, "cudaErrorCudartUnloading"},
    {34, "cudaErrorStubLibrary"},
    {35, "cudaErrorInsufficientDriver"},
    {36, "cudaErrorCallRequiresNewerDriver"},
    {46, "cudaErrorDevicesUnavailable"},
    {98, "cudaErrorInvalidDeviceFunction"},
    {100, "cudaErrorNoDevice"},
    {101, "cudaErrorInvalidDevice"},
    {200, "cudaErrorInvalidKernelImage"},
    {201, "cudaErrorDeviceUninitialized"},
    {209, "cudaErrorNoKernelImageForDevice"},
    {217, "cudaErrorPeerAccessUnsupported"},
    {218, "cudaErrorInvalidPtx"},
    {304, "cudaErrorOperatingSystem"},
    {400, "cudaErrorInvalidResourceHandle"},
    {401, "cudaErrorIllegalState"},
    {500, "cudaErrorSymbolNotFound"},
    {600, "cudaErrorNotReady"},
    {700, "cudaErrorIllegalAddress"},
    {701, "cudaErrorLaunchOutOfResources"},
    {704, "cudaErrorPeerAccessAlreadyEnabled"},
    {705, "cudaErrorPeerAccessNotEnabled"},
    {709, "cudaErrorContextIsDestroyed"},
    {712, "cudaErrorHostMemoryAlreadyRegistered"},
    {713, "cudaErrorHostMemoryNotRegistered"},
    {719, "cudaErrorLaunchFailure"},
    {800, "cudaErrorNotPermitted"},
    {801, "cudaErrorNotSupported"},
    {802, "cudaErrorSystemNotReady"},
    {803, "cudaErrorSystemDriverMismatch"},
    {900, "cudaErrorStreamCaptureUnsupported"},
    {901, "cudaErrorStreamCaptureInvalidated"},
    {902, "cudaErrorStreamCaptureMerge"},
    {903, "cudaErrorStreamCaptureUnmatched"},
    {904, "cudaErrorStreamCaptureUnjoined"},
    {905, "cudaErrorStreamCaptureIsolation"},
    {906, "cudaErrorStreamCaptureImplicit"},
    {907, "cudaErrorCapturedEvent"},
    {908, "cudaErrorStreamCaptureWrongThread"},
    {909, "cudaErrorTimeout"},
    {910, "cudaErrorGraphExecUpdateFailure"},
    {999, "cudaErrorUnknown"},
};

GS_EXPORT const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (names[i].code == error)
            return names[i].name;
    return "unrecognized error code";
}

GS_EXPORT const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error)
{
    const char *text = NULL;
    if (error == 98)
        return "invalid device function";
    return cuGetErrorString(error, &text) || !text ? "unrecognized error code" : text;
}
