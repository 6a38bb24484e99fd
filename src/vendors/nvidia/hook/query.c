#include "vendors/nvidia/hook/bodies.h"

#include "hook/gate.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/oversub.h"
#include "vendors/nvidia/hook/pool.h"

/* The driver is asked first, always: its error is the answer, and what is physically free bounds
 * what the slice can still get. */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The slice's answer; false: no limit, the card's own numbers stand. */
static bool limited(const struct gs_device *device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    uint64_t limit = gs_gate_limit(device->ledger);
    uint64_t used;

    if (limit == UINT64_MAX)
        return false;
    gs_pool_reconcile(device->ledger);
    used = gs_gate_used(device->ledger);
    gs_oversub_answer(gs_oversub_is_on(device->ledger, device->ordinal), limit, used, total_bytes,
                      free_bytes);
    return true;
}

CUresult gs_nv_mem_get_info(CUresult (*real)(size_t *, size_t *), size_t *free, size_t *total)
{
    CUresult result = real(free, total);
    struct gs_device_here here;
    uint64_t free_bytes;
    uint64_t total_bytes;

    if (result != CUDA_SUCCESS || gs_device_current(&here) < 0)
        return result;
    total_bytes = total != NULL ? *total : here.device->physical_bytes;
    free_bytes = free != NULL ? *free : 0;
    if (!limited(here.device, &free_bytes, &total_bytes))
        return result;
    if (free != NULL)
        *free = free_bytes;
    if (total != NULL)
        *total = total_bytes;
    return result;
}

static uint64_t shown_total(const struct gs_device *device, uint64_t physical)
{
    uint64_t limit = gs_gate_limit(device->ledger);

    if (limit != UINT64_MAX && gs_oversub_is_on(device->ledger, device->ordinal))
        return limit;
    return least(physical, limit);
}

static unsigned int saturate(uint64_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

/* The 32-bit form of the driver has its own way with large cards; ours saturates what the current
 * form says. Without a limit it is left alone. */
CUresult gs_nv_mem_get_info_v1(CUresult (*real)(unsigned int *, unsigned int *), unsigned int *free,
                               unsigned int *total)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUresult result = real(free, total);
    struct gs_device_here here;
    size_t physical_free = 0;
    size_t physical_total = 0;
    uint64_t free_bytes;
    uint64_t total_bytes;

    if (result != CUDA_SUCCESS || gs_device_current(&here) < 0 || cuda->cuMemGetInfo_v2 == NULL ||
        cuda->cuMemGetInfo_v2(&physical_free, &physical_total) != CUDA_SUCCESS)
        return result;
    free_bytes = physical_free;
    total_bytes = physical_total;
    if (!limited(here.device, &free_bytes, &total_bytes))
        return result;
    if (free != NULL)
        *free = saturate(free_bytes);
    if (total != NULL)
        *total = saturate(total_bytes);
    return result;
}

CUresult gs_nv_device_total_mem(CUresult (*real)(size_t *, CUdevice), size_t *bytes, CUdevice dev)
{
    CUresult result = real(bytes, dev);
    const struct gs_device *device;

    if (result != CUDA_SUCCESS || bytes == NULL)
        return result;
    device = gs_device_by_ordinal(dev);
    if (device != NULL)
        *bytes = shown_total(device, *bytes);
    return result;
}

CUresult gs_nv_device_total_mem_v1(CUresult (*real)(unsigned int *, CUdevice), unsigned int *bytes,
                                   CUdevice dev)
{
    CUresult result = real(bytes, dev);
    const struct gs_device *device;
    uint64_t limit;

    if (result != CUDA_SUCCESS || bytes == NULL)
        return result;
    device = gs_device_by_ordinal(dev);
    if (device == NULL)
        return result;
    limit = gs_gate_limit(device->ledger);
    if (limit != UINT64_MAX)
        *bytes = saturate(shown_total(device, device->physical_bytes));
    return result;
}
