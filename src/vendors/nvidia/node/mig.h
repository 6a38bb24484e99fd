#pragma once
/* MIG devices that somebody made on a card beforehand. */

#include "core/cleanup.h"
#include "vendors/nvidia/abi/nvml_types.h"

struct gs_inventory_card;
struct gs_inventory_tell;
struct gs_nvml;

/** Fill `is_split` and the parts of a card. What cannot be asked is told and left out. */
void gs_nvidia_mig_read(const struct gs_nvml *nvml, nvmlDevice_t device,
                        const struct gs_inventory_tell *tell, struct gs_inventory_card *card);
