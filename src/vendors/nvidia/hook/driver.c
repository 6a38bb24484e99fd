#include "vendors/nvidia/hook/driver.h"

#include "hook/engine.h"

struct gs_driver gs_driver_table;

/* Racing threads look up and store the same addresses; the word that says so is stored last. */
void gs_driver_resolve_cuda(void)
{
#define X(symbol)                                                                                  \
    gs_driver_table.symbol =                                                                       \
        (gs_fn_##symbol *)(uintptr_t)gs_engine_symbol(GS_DRIVER_LIB_CUDA, #symbol);
    GS_DRIVER_CUDA(X)
#undef X
    /* pairs with the acquire in gs_driver_cuda */
    __atomic_store_n(&gs_driver_table.cuda_known, gs_driver_table.cuInit != NULL, __ATOMIC_RELEASE);
}

const struct gs_driver *gs_driver_nvml(void)
{
    if (__atomic_load_n(&gs_driver_table.nvml_known, __ATOMIC_ACQUIRE) != 0)
        return &gs_driver_table;
#define X(symbol)                                                                                  \
    gs_driver_table.symbol =                                                                       \
        (gs_fn_##symbol *)(uintptr_t)gs_engine_symbol(GS_DRIVER_LIB_NVML, #symbol);
    GS_DRIVER_NVML(X)
#undef X
    /* pairs with the acquire above; stays 0 until the library is there */
    __atomic_store_n(&gs_driver_table.nvml_known, gs_driver_table.nvmlInit_v2 != NULL,
                     __ATOMIC_RELEASE);
    return &gs_driver_table;
}

const struct gs_driver *gs_driver_nvml_begin(void)
{
    const struct gs_driver *nvml = gs_driver_nvml();

    if (nvml->nvmlInit_v2 == NULL) {
        if (gs_engine_load(GS_DRIVER_LIB_NVML) < 0)
            return NULL;
        nvml = gs_driver_nvml();
    }
    if (nvml->nvmlInit_v2 == NULL || nvml->nvmlShutdown == NULL)
        return NULL;
    return nvml->nvmlInit_v2() == NVML_SUCCESS ? nvml : NULL;
}

void gs_driver_nvml_end(void)
{
    (void)gs_driver_table.nvmlShutdown(); /* the session was ours; nothing to do about a failure */
}
