#pragma once
/* Device memory below 4 GiB (low.c). */

#include "vendors/nvidia/sim/memory.h"

/** Undo the low mapping of an allocation that has one. */
void gs_low_unmap(const struct gs_sim_range *range);
