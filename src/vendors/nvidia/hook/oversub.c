#include "vendors/nvidia/hook/oversub.h"

#include <stddef.h>

#include "hook/ring.h"
#include "vendors/nvidia/hook/driver.h"

/* CU_MEM_ATTACH_GLOBAL: any stream of any card may use it. */
#define ATTACH_GLOBAL 1u

/* Per card of the ledger. 0: not asked; the card's own nature, so it holds in a forked child too.
 */
enum { ABLE_UNKNOWN, ABLE_YES, ABLE_NO };
static uint32_t able[GS_LEDGER_DEVICES];
/* 1: the slice's owner has been told. */
static uint32_t told[GS_LEDGER_DEVICES];

/* Only pages that migrate on fault can exceed the card: without concurrent access from the host
 * (virtual GPUs, WSL) managed memory lies on the card whole.
 * Source: CUDA Driver API, cuMemAllocManaged, "Device memory oversubscription is possible for GPUs
 * that have a non-zero value for ... CONCURRENT_MANAGED_ACCESS". */
static uint32_t ask(CUdevice ordinal)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    int yes = 0;

    if (cuda->cuMemAllocManaged == NULL || cuda->cuMemAdvise == NULL ||
        cuda->cuDeviceGetAttribute == NULL)
        return ABLE_NO;
    if (cuda->cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, ordinal) !=
        CUDA_SUCCESS)
        return ABLE_UNKNOWN; /* asked too early, or in a bad moment */
    return yes != 0 ? ABLE_YES : ABLE_NO;
}

bool gs_oversub_is_on(uint32_t ledger, CUdevice ordinal)
{
    uint32_t answer;

    if (ledger >= GS_LEDGER_DEVICES || !gs_gate_is_oversubscribed())
        return false;
    answer = __atomic_load_n(&able[ledger], __ATOMIC_RELAXED);
    if (answer == ABLE_UNKNOWN && ordinal >= 0) {
        answer = ask(ordinal);
        if (answer == ABLE_NO && __atomic_load_n(&able[ledger], __ATOMIC_RELAXED) != ABLE_NO)
            gs_ring_log(GS_REASON_OVERSUBSCRIBE_CANNOT, ledger, NULL, NULL);
        __atomic_store_n(&able[ledger], answer, __ATOMIC_RELAXED);
    }
    return answer != ABLE_NO;
}

/* Hints only: without them the memory is right and slower. With the card as preferred place a fault
 * of the card brings the page, and thrash detection does not pin it to the host; the mapping for
 * the card spares faults on pages that are evicted and read little.
 * Source: CUDA Driver API, cuMemAdvise. */
static void advise(const struct gs_driver *cuda, CUdeviceptr ptr, uint64_t bytes, CUdevice ordinal)
{
    (void)cuda->cuMemAdvise(ptr, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, ordinal);
    (void)cuda->cuMemAdvise(ptr, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, ordinal);
}

CUresult gs_oversub_allocate(const struct gs_device_here *here, uint64_t bytes, const char *what,
                             CUdeviceptr *ret_ptr)
{
    const struct gs_device *device = here->device;
    const struct gs_driver *cuda = gs_driver_cuda();
    CUdeviceptr ptr = 0;

    if (!gs_oversub_is_on(device->ledger, device->ordinal) || cuda->cuMemAllocManaged == NULL ||
        cuda->cuMemAllocManaged(&ptr, bytes, ATTACH_GLOBAL) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (cuda->cuMemAdvise != NULL)
        advise(cuda, ptr, bytes, device->ordinal);
    if (__atomic_exchange_n(&told[device->ledger], 1, __ATOMIC_RELAXED) == 0)
        gs_ring_log(GS_REASON_OVERSUBSCRIBED, device->ledger, what, (uint64_t[4]){bytes, 0, 0, 0});
    *ret_ptr = ptr;
    return CUDA_SUCCESS;
}
