#include "vendors/nvidia/hook/nvml.h"

#include <stdbool.h>
#include <stddef.h>

#include "hook/attach.h"
#include "hook/gate.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/oversub.h"
#include "vendors/nvidia/hook/pool.h"

/* Memory of a card as NVML tells it: the slice's, where the card is in the grant. A card that is
 * not granted keeps its true answers. */

#define HANDLES                                                                                    \
    128u /* cards and MIG instances of the largest machine; more are asked each time               \
          */

/* NVML's handles stay what they are for the life of the process. An entry is written once: `handle`
 * last, with release, pairs with the acquire in device_of. */
static struct {
    nvmlDevice_t handle;
    uint32_t claimed;
    uint32_t dev;
} handles[HANDLES];

/* Ledger index of an NVML handle or GS_DEVICE_NONE; remembered for handles that have one.
 * Threads  any; asks NVML for the UUID the first time. */
static uint32_t device_of(nvmlDevice_t device)
{
    uint32_t dev, i;

    if (device == NULL)
        return GS_DEVICE_NONE;
    for (i = 0; i < HANDLES; i++) {
        nvmlDevice_t seen = __atomic_load_n(&handles[i].handle, __ATOMIC_ACQUIRE);

        if (seen == device)
            return handles[i].dev;
        if (seen == NULL)
            break;
    }
    dev = gs_device_by_nvml(device);
    if (dev == GS_DEVICE_NONE || i == HANDLES ||
        __atomic_exchange_n(&handles[i].claimed, 1, __ATOMIC_ACQUIRE) != 0)
        return dev; /* the next call remembers it */
    handles[i].dev = dev;
    __atomic_store_n(&handles[i].handle, device, __ATOMIC_RELEASE);
    return dev;
}

bool gs_nvml_is_foreign(nvmlDevice_t device, uint32_t *ret_dev)
{
    *ret_dev = device_of(device);
    return *ret_dev == GS_DEVICE_NONE &&
           (gs_attach_n_devices() != 0 || gs_gate_limit(GS_DEVICE_NONE) != 0);
}

/* Replace what the card says by what the slice has. */
static void limit_answer(uint32_t dev, unsigned long long *total, unsigned long long *free,
                         unsigned long long *used)
{
    uint64_t limit = gs_gate_limit(dev), shown_total = *total, shown_free = *free;
    bool beyond = limit != UINT64_MAX && gs_oversub_is_on(dev, -1);

    gs_pool_reconcile(dev);
    gs_oversub_answer(beyond, limit, gs_gate_used(dev), &shown_total, &shown_free);
    *total = shown_total;
    *free = shown_free;
    *used = *total - *free;
}

nvmlReturn_t gs_nv_nvml_memory_info(gs_fn_nvmlDeviceGetMemoryInfo *real, nvmlDevice_t device,
                                    nvmlMemory_t *memory)
{
    nvmlReturn_t result = real(device, memory);
    uint32_t dev;

    if (result == NVML_SUCCESS && memory != NULL && !gs_nvml_is_foreign(device, &dev))
        limit_answer(dev, &memory->total, &memory->free, &memory->used);
    return result;
}

nvmlReturn_t gs_nv_nvml_memory_info_v2(gs_fn_nvmlDeviceGetMemoryInfo_v2 *real, nvmlDevice_t device,
                                       nvmlMemory_v2_t *memory)
{
    nvmlReturn_t result = real(device, memory); /* it checks the version */
    uint32_t dev;

    if (result == NVML_SUCCESS && memory != NULL && !gs_nvml_is_foreign(device, &dev)) {
        limit_answer(dev, &memory->total, &memory->free, &memory->used);
        memory->reserved = 0;
    }
    return result;
}
