#include "vendors/nvidia/sim/device.h"

#include <stdio.h>
#include <string.h>

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/process.h"

/* Finds the card of a device, or leaves the function. */
#define CARD_OF(var, dev)                                                                          \
    uint32_t var = gs_process_device_card(dev);                                                    \
    if (var == GS_SIM_NONE)                                                                        \
    return CUDA_ERROR_INVALID_DEVICE

int gs_fault_current_card(void)
{
    struct gs_sim_ctx *ctx = gs_context_current();
    return ctx ? (int)gs_process_device_card(ctx->device) : -1;
}

CUresult cuDriverGetVersion(int *driverVersion)
{
    GS_SIM_ENTRY;
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = GS_DEVICE_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    GS_SIM_ENTER_READY();
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = gs_process_device_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    GS_SIM_ENTER_READY();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    if (ordinal < 0 || ordinal >= gs_process_device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    if (!name || len < 1)
        return CUDA_ERROR_INVALID_VALUE;
    CARD_OF(card, dev);
    snprintf(name, (size_t)len, "%s", gs_sim_state->card[card].name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    CARD_OF(card, dev);
    memcpy(uuid->bytes, gs_sim_state->card[card].uuid, sizeof(uuid->bytes));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    return cuDeviceGetUuid(uuid, dev);
}

CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    (void)luid;
    (void)deviceNodeMask;
    (void)dev;
    return CUDA_ERROR_NOT_SUPPORTED; /* Windows only */
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    if (!pi || attrib <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    CARD_OF(card, dev);
    *pi = gs_device_attribute(card, attrib);
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    CARD_OF(card, dev);
    *major = gs_device_attribute(card, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    *minor = gs_device_attribute(card, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    if (!prop)
        return CUDA_ERROR_INVALID_VALUE;
    CARD_OF(card, dev);
    *prop = (CUdevprop){.maxThreadsPerBlock = 1024,
                        .maxThreadsDim = {1024, 1024, 64},
                        .maxGridSize = {2147483647, 65535, 65535},
                        .sharedMemPerBlock = 49152,
                        .totalConstantMemory = 65536,
                        .SIMDWidth = 32,
                        .memPitch = 2147483647,
                        .regsPerBlock = 65536,
                        .textureAlign = 512};
    prop->clockRate = gs_device_attribute(card, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    if (!pciBusId || len < 1)
        return CUDA_ERROR_INVALID_VALUE;
    CARD_OF(card, dev);
    snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", gs_device_bus(card));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    GS_SIM_ENTER_READY();
    unsigned int domain = 0, bus = 0, slot = 0, function = 0;
    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    /* [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function] */
    if (sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = 0;
        if (sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) < 3)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < gs_process_device_count(); i++)
        if (!domain && !slot && !function && gs_device_bus(gs_process_device_card(i)) == bus) {
            *dev = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    GS_SIM_ENTER_READY();
    if (!canAccessPeer)
        return CUDA_ERROR_INVALID_VALUE;
    CARD_OF(a, dev);
    CARD_OF(b, peerDev);
    *canAccessPeer = a != b;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice)
{
    GS_SIM_ENTER_READY();
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    CARD_OF(a, srcDevice);
    CARD_OF(b, dstDevice);
    if (a == b)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attrib != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
             attrib != CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    (void)type;
    if (!pi)
        return CUDA_ERROR_INVALID_VALUE;
    CARD_OF(card, dev);
    (void)card;
    *pi = 0; /* only under MPS */
    return CUDA_SUCCESS;
}

CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope)
{
    GS_SIM_ENTER_READY();
    (void)target;
    (void)scope;
    return CUDA_SUCCESS;
}

CUresult cuGLGetDevices_v2(unsigned int *pCudaDeviceCount, CUdevice *pCudaDevices,
                           unsigned int cudaDeviceCount, unsigned int deviceList)
{
    GS_SIM_ENTER_READY();
    (void)pCudaDevices;
    (void)cudaDeviceCount;
    (void)deviceList;
    if (pCudaDeviceCount)
        *pCudaDeviceCount = 0;
    return CUDA_ERROR_NO_DEVICE; /* no OpenGL here */
}
