#pragma once
/* Sizes of CUDA arrays from their descriptors. */

#include <stdint.h>

#include "vendors/nvidia/abi/cuda_types.h"

/** Bytes of all levels, each aligned as textures are; 0 for arrays that get their memory later
 * (sparse, deferred mapping). */
uint64_t gs_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels);
