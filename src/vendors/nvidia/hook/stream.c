#include "vendors/nvidia/hook/stream.h"

#include <stddef.h>
#include <stdint.h>

#include "vendors/nvidia/hook/driver.h"

#define LAST_SPECIAL 2u /* 0 default, 1 CU_STREAM_LEGACY, 2 CU_STREAM_PER_THREAD: no objects */

static int n_devices; /* 0 not asked yet; constant for the life of the process */

static bool has_one_device(const struct gs_driver *driver)
{
    int n = __atomic_load_n(&n_devices, __ATOMIC_RELAXED);

    if (n == 0 && driver->cuDeviceGetCount != NULL && driver->cuDeviceGetCount(&n) == CUDA_SUCCESS)
        __atomic_store_n(&n_devices, n, __ATOMIC_RELAXED);
    return n == 1;
}

/* Since 12.5 a stream of a green context has to be asked for by the second form. */
CUcontext gs_stream_context(CUstream stream)
{
    const struct gs_driver *driver = gs_driver_cuda();
    CUcontext ctx = NULL;
    CUgreenCtx green = NULL;

    if ((uintptr_t)stream <= LAST_SPECIAL)
        return NULL;
    if (driver->cuStreamGetCtx_v2 != NULL &&
        driver->cuStreamGetCtx_v2(stream, &ctx, &green) == CUDA_SUCCESS) {
        if (ctx != NULL)
            return ctx;
        if (green != NULL && driver->cuCtxFromGreenCtx != NULL &&
            driver->cuCtxFromGreenCtx(&ctx, green) == CUDA_SUCCESS)
            return ctx;
    }
    if (driver->cuStreamGetCtx == NULL || driver->cuStreamGetCtx(stream, &ctx) != CUDA_SUCCESS)
        return NULL;
    return ctx;
}

const struct gs_device *gs_stream_device(CUstream stream)
{
    const struct gs_driver *driver = gs_driver_cuda();
    struct gs_device_here here;
    CUcontext ctx;
    CUdevice ordinal = 0;

    if (gs_device_current(&here) != 0)
        here =
            (struct gs_device_here){NULL, NULL, 0}; /* the stream may have a context of its own */
    if ((uintptr_t)stream <= LAST_SPECIAL || (here.device != NULL && has_one_device(driver)))
        return here.device;
    /* A stream of another context may be used; its card is the one that pays. */
    ctx = gs_stream_context(stream);
    if (ctx == NULL || ctx == here.context)
        return here.device;
    if (has_one_device(driver))
        return gs_device_by_ordinal(0);
    if (driver->cuStreamGetDevice != NULL &&
        driver->cuStreamGetDevice(stream, &ordinal) == CUDA_SUCCESS)
        return gs_device_by_ordinal(ordinal);
    if (driver->cuCtxPushCurrent_v2 == NULL || driver->cuCtxPopCurrent_v2 == NULL ||
        driver->cuCtxPushCurrent_v2(ctx) != CUDA_SUCCESS)
        return here.device;
    if (gs_device_current(&here) != 0)
        here.device = NULL;
    (void)driver->cuCtxPopCurrent_v2(&ctx); /* pops what was pushed two lines up */
    return here.device;
}

bool gs_stream_is_capturing(CUstream stream, bool per_thread)
{
    const struct gs_driver *driver = gs_driver_cuda();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;

    if (per_thread && driver->cuStreamIsCapturing_ptsz != NULL)
        result = driver->cuStreamIsCapturing_ptsz(stream, &status);
    else if (driver->cuStreamIsCapturing != NULL)
        result = driver->cuStreamIsCapturing(stream, &status);
    return result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}
