#pragma once
/* Simulated NVML: prototypes of the exported functions, and the entry check. */

#include "core/cleanup.h"
#include "vendors/nvidia/abi/nvml_types.h"
#include "vendors/nvidia/sim/fault.h"
#include "vendors/nvidia/sim/state.h"

#define NVML_HOOK(symbol, class, body, ret, params, args) GS_EXPORT ret symbol params;
#define NVML_CALL(symbol, ret, params, reason)            GS_EXPORT ret symbol params;
#include "vendors/nvidia/abi/api.def"

#define GS_NVML_DRIVER_VERSION "580.65.06"

/** 1 between nvmlInit and the last nvmlShutdown. */
int gs_nvml_is_ready(void);

/** Card of a handle.
 *  Returns NVML_SUCCESS, NVML_ERROR_INVALID_ARGUMENT (no such handle) or NVML_ERROR_GPU_IS_LOST. */
nvmlReturn_t gs_nvml_card(nvmlDevice_t device, uint32_t *ret_card);

/** Handle of card `card`. */
nvmlDevice_t gs_nvml_handle(uint32_t card);

/** Copy a text as NVML does: NVML_ERROR_INSUFFICIENT_SIZE if it does not fit. */
nvmlReturn_t gs_nvml_text(char *to, unsigned int length, const char *from);

#define GS_NVML_ENTER()                                                                            \
    GS_SIM_ENTRY;                                                                                  \
    if (!gs_nvml_is_ready())                                                                       \
    return NVML_ERROR_UNINITIALIZED

/** Entry of a function on a device: `var` is its card. */
#define GS_NVML_ENTER_CARD(var, device)                                                            \
    GS_NVML_ENTER();                                                                               \
    uint32_t var;                                                                                  \
    nvmlReturn_t var##_error = gs_nvml_card(device, &var);                                         \
    if (var##_error)                                                                               \
    return var##_error
