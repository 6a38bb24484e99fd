#include <string.h>

#include "vendors/nvidia/sim/device.h"
#include "vendors/nvidia/sim/sim.h"

/* Addresses under names of their own, so that no prototype is in the way. The library is linked
 * with -Bsymbolic: these are its own functions, whatever a preloaded library exports. */
#define GS_CUDA_VERSION(name, version, twin, symbol)                                               \
    extern const char gs_proc_address_##symbol[] __asm__(#symbol);
#include "vendors/nvidia/abi/cuda_versions.def"
#undef GS_CUDA_VERSION

struct form {
    const char *name;
    int version;
    int twin; /* of the per-thread default stream */
    const char *address;
};

static const struct form forms[] = {
#define GS_CUDA_VERSION(name, version, twin, symbol)                                               \
    {#name, version, twin, gs_proc_address_##symbol},
#include "vendors/nvidia/abi/cuda_versions.def"
#undef GS_CUDA_VERSION
};

#define FLAG_LEGACY     1u
#define FLAG_PER_THREAD 2u

/* Index of the first form of `name`, or of where it would stand. */
static size_t lower_bound(const char *name)
{
    size_t lo = 0, hi = GS_ARRAY_LEN(forms);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(forms[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static CUdriverProcAddressQueryResult find(const char *name, int version, int per_thread,
                                           void **ret_fn)
{
    const struct form *best = NULL;
    size_t i = lower_bound(name);
    if (i == GS_ARRAY_LEN(forms) || strcmp(forms[i].name, name) != 0)
        return CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    /* Rows of one name: plain forms first, then twins, each oldest first: a later row that fits is
     * the better one. */
    for (; i < GS_ARRAY_LEN(forms) && !strcmp(forms[i].name, name); i++)
        if (forms[i].version <= version && (!forms[i].twin || per_thread))
            best = &forms[i];
    if (!best)
        return CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    *ret_fn = (void *)(uintptr_t)best->address;
    return CU_GET_PROC_ADDRESS_SUCCESS;
}

static CUresult look_up(const char *symbol, void **pfn, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *ret_status)
{
    if (!symbol || !pfn || (flags & ~(cuuint64_t)(FLAG_LEGACY | FLAG_PER_THREAD)) ||
        flags == (FLAG_LEGACY | FLAG_PER_THREAD) || version > GS_DEVICE_LOOKUP_VERSION)
        return CUDA_ERROR_INVALID_VALUE;
    *pfn = NULL;
    *ret_status = find(symbol, version, (flags & FLAG_PER_THREAD) != 0, pfn);
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    GS_SIM_ENTRY;
    CUdriverProcAddressQueryResult status;
    CUresult r = look_up(symbol, pfn, cudaVersion, flags, &status);
    if (r)
        return r;
    /* CUDA 11.3 to 11.8: the only way to tell is the code. */
    return status == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    GS_SIM_ENTRY;
    CUdriverProcAddressQueryResult status;
    CUresult r = look_up(symbol, pfn, cudaVersion, flags, &status);
    if (!r && symbolStatus)
        *symbolStatus = status;
    return r;
}
