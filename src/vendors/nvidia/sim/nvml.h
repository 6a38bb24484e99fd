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

/** NVML_SUCCESS between nvmlInit and the last nvmlShutdown; NVML_ERROR_UNINITIALIZED;
 *  NVML_ERROR_DRIVER_NOT_LOADED; NVML_ERROR_UNKNOWN where the driver was loaded anew since. */
nvmlReturn_t gs_nvml_ready(void);

/** Number of a handle that is of a card as a whole. */
#define GS_NVML_WHOLE UINT32_MAX

/** Card of a handle, and which of its MIG devices it is (or GS_NVML_WHOLE).
 *  Returns NVML_SUCCESS, NVML_ERROR_INVALID_ARGUMENT (no such handle) or NVML_ERROR_GPU_IS_LOST. */
nvmlReturn_t gs_nvml_find(nvmlDevice_t device, uint32_t *ret_card, uint32_t *ret_part);
/** The same for what only a whole card answers: NVML_ERROR_NOT_SUPPORTED of a MIG device. */
nvmlReturn_t gs_nvml_card(nvmlDevice_t device, uint32_t *ret_card);

/** Handle of card `card`, and of MIG device `part` of it. */
nvmlDevice_t gs_nvml_handle(uint32_t card);
nvmlDevice_t gs_nvml_part_handle(uint32_t card, uint32_t part);
/** The numbers NVML gives the instances of MIG device `part`: GPU instances from 1 on, and of each
 *  compute instance 0. */
uint32_t gs_nvml_instance(uint32_t part);
/** Text of the UUID; of a MIG device "MIG-...", made of the card's. */
void gs_nvml_uuid(uint32_t card, uint32_t part, char *ret_text, size_t n);

/** Copy a text as NVML does: NVML_ERROR_INSUFFICIENT_SIZE if it does not fit. */
nvmlReturn_t gs_nvml_text(char *to, unsigned int length, const char *from);

#define GS_NVML_ENTER()                                                                            \
    GS_SIM_ENTRY;                                                                                  \
    nvmlReturn_t not_ready_ = gs_nvml_ready();                                                     \
    if (not_ready_)                                                                                \
    return not_ready_

/** Entry of a function on a card or a MIG device. */
#define GS_NVML_ENTER_PART(var, part, device)                                                      \
    GS_NVML_ENTER();                                                                               \
    uint32_t var, part;                                                                            \
    nvmlReturn_t var##_error = gs_nvml_find(device, &var, &part);                                  \
    if (var##_error)                                                                               \
    return var##_error

/** Entry of a function on a device: `var` is its card. */
#define GS_NVML_ENTER_CARD(var, device)                                                            \
    GS_NVML_ENTER();                                                                               \
    uint32_t var;                                                                                  \
    nvmlReturn_t var##_error = gs_nvml_card(device, &var);                                         \
    if (var##_error)                                                                               \
    return var##_error
