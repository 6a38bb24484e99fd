#include "vendors/nvidia/hook/init.h"

#include <stddef.h>

#include "hook/engine.h"
#include "vendors/nvidia/hook/block.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/context.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/launch.h"
#include "vendors/nvidia/hook/vmm.h"

void gs_init_forget(void)
{
    gs_block_forget();
    gs_context_forget();
    gs_device_forget();
    gs_launch_forget();
    gs_vmm_forget();
}

/* The wrapper has attached the ledger by now, or could not before this call (-EAGAIN of
 * gs_hook_vendor.enumerate). The driver's answer is the answer. */
CUresult gs_nv_init(CUresult (*real)(unsigned int), unsigned int Flags)
{
    CUresult result = real(Flags);

    if (result == CUDA_SUCCESS)
        gs_engine_start();
    return result;
}

/* The driver chooses version and stream mode and reports the status; only the address is
 * translated, also that of cuGetProcAddress itself. */
CUresult gs_nv_get_proc_address(CUresult (*real)(const char *, void **, int, cuuint64_t),
                                const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    CUresult result = real(symbol, pfn, cudaVersion, flags);

    if (result == CUDA_SUCCESS && pfn != NULL && *pfn != NULL)
        *pfn = gs_engine_translate(*pfn);
    return result;
}

CUresult gs_nv_get_proc_address_v2(CUresult (*real)(const char *, void **, int, cuuint64_t,
                                                    CUdriverProcAddressQueryResult *),
                                   const char *symbol, void **pfn, int cudaVersion,
                                   cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
    CUresult result = real(symbol, pfn, cudaVersion, flags, symbolStatus);

    if (result == CUDA_SUCCESS && pfn != NULL && *pfn != NULL)
        *pfn = gs_engine_translate(*pfn);
    return result;
}
