#pragma once
/* Managed memory of this process: advice by range, and what its use does to the card. */

#include "vendors/nvidia/sim/memory.h"

/** A kernel of this process starts on `card`: managed memory of the process that belongs there
 *  comes, and others' goes. Returns the nanoseconds this holds the kernel up; 0 with nothing to
 *  move. Locks not held. */
uint64_t gs_managed_launch(uint32_t card);

/** The card writes `n` bytes at `ptr` (a copy to, a fill of it): they lie there afterwards, unless
 *  the memory prefers the host. Anything but managed memory is left alone. Locks not held. */
void gs_managed_write(CUdeviceptr ptr, size_t n);

/** The range ends: forget its advice. gs_sim_self.lock held. */
void gs_managed_forget(const struct gs_sim_range *range);
