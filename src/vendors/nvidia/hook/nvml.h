#pragma once
/* NVML handles and the ledger. */

#include <stdbool.h>
#include <stdint.h>

#include "vendors/nvidia/abi/nvml_types.h"

/** Ledger index of an NVML handle or GS_DEVICE_NONE; remembered for handles that have one.
 *  Threads  any; asks NVML for the UUID the first time. */
uint32_t gs_nvml_device(nvmlDevice_t device);

/** Does NVML's true answer stand for this handle? It does for cards that are not in the grant, and
 *  where nothing is held; not where the grant is unusable. *ret_dev as gs_nvml_device(). */
bool gs_nvml_is_foreign(nvmlDevice_t device, uint32_t *ret_dev);
