#pragma once
/* NVML handles and the ledger. */

#include <stdint.h>

#include "vendors/nvidia/abi/nvml_types.h"

/** Ledger index of an NVML handle or GS_DEVICE_NONE; remembered for handles that have one.
 *  Threads  any; asks NVML for the UUID the first time. */
uint32_t gs_nvml_device(nvmlDevice_t device);
