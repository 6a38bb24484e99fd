#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"

/* Contexts that come about by other calls than cuCtxCreate: green ones, and one beside a VDPAU
 * device. */

/* ---- green contexts ----
 *
 * A green context has no memory of its own, but holds the device's primary context (Driver
 * API 13.5, cuGreenCtxCreate). So the primary context is retained across the creation by the body
 * that charges it, and released again: if the green context was made, it stays active and charged.
 */

CUresult gs_nv_green_ctx_create(gs_fn_cuGreenCtxCreate *real, CUgreenCtx *phCtx,
                                CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUcontext primary = NULL;
    CUresult result;

    if (cuda->cuDevicePrimaryCtxRetain == NULL || cuda->cuDevicePrimaryCtxRelease_v2 == NULL)
        return real(phCtx, desc, dev, flags);
    result = gs_nv_primary_ctx_retain(cuda->cuDevicePrimaryCtxRetain, &primary, dev);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(phCtx, desc, dev, flags);
    (void)gs_nv_primary_ctx_release(cuda->cuDevicePrimaryCtxRelease_v2, dev);
    return result;
}

static CUresult nothing(CUdevice dev)
{
    (void)dev;
    return CUDA_SUCCESS;
}

/* Which device the green context was on is not asked: the body of a release looks whether the
 * primary context is still active, and does nothing where none is charged. */
CUresult gs_nv_green_ctx_destroy(gs_fn_cuGreenCtxDestroy *real, CUgreenCtx hCtx)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUresult result = real(hCtx);
    int count = 0;

    gs_device_contexts_changed();
    if (result != CUDA_SUCCESS || cuda->cuDeviceGetCount == NULL ||
        cuda->cuDeviceGetCount(&count) != CUDA_SUCCESS)
        return result;
    for (CUdevice dev = 0; dev < count; dev++)
        (void)gs_nv_primary_ctx_release(nothing, dev);
    return result;
}

/* ---- a context beside a VDPAU device ---- */

/* What cuVDPAUCtxCreate takes beyond cuCtxCreate, on its way round the body that charges contexts.
 */
static _Thread_local struct {
    gs_fn_cuVDPAUCtxCreate *real;
    VdpDevice device;
    VdpGetProcAddress *get;
} vdpau;

static CUresult create_vdpau(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return vdpau.real(pctx, flags, dev, vdpau.device, vdpau.get);
}

CUresult gs_nv_ctx_create_vdpau(gs_fn_cuVDPAUCtxCreate *real, CUcontext *pctx, unsigned int flags,
                                CUdevice dev, VdpDevice vdpDevice,
                                VdpGetProcAddress *vdpGetProcAddress)
{
    vdpau.real = real;
    vdpau.device = vdpDevice;
    vdpau.get = vdpGetProcAddress;
    return gs_nv_ctx_create(create_vdpau, pctx, flags, dev);
}
