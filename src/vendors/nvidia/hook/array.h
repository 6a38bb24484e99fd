#pragma once
/* Sizes of CUDA arrays from their descriptors. */

#include <stdint.h>

#include "vendors/nvidia/abi/cuda_types.h"

/** Bytes of one mip level, without padding; UINT64_MAX when that overflows.
 *  Formats this table does not know count as the largest texel they could have. */
uint64_t gs_array_level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int level);

/** Bytes of all levels, each aligned as textures are; 0 for arrays that get their memory later
 * (sparse, deferred mapping). */
uint64_t gs_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels);
