/* Weak stand-ins for the pool rows while they are being written. */
#include "vendors/nvidia/hook/pool.h"

#define WEAK __attribute__((weak))

WEAK int gs_pool_reserve(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what)
{
    return gs_gate_reserve(dev, bytes, charge, what);
}
WEAK void gs_pool_reconcile(uint32_t dev)
{
    (void)dev;
}
WEAK bool gs_pool_free_sync(CUresult (*real)(CUdeviceptr), CUdeviceptr ptr, CUresult *ret_result)
{
    (void)real, (void)ptr, (void)ret_result;
    return false;
}
