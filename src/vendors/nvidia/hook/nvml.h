#pragma once
/* NVML handles and the ledger. */

#include <stdbool.h>
#include <stdint.h>

#include "vendors/nvidia/abi/nvml_types.h"

/** Does NVML's true answer stand for this handle? It does for cards that are not in the grant, and
 *  where nothing is held; not where the grant is unusable. *ret_dev: its ledger index, or
 *  GS_DEVICE_NONE. */
bool gs_nvml_is_foreign(nvmlDevice_t device, uint32_t *ret_dev);
