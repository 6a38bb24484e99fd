#pragma once
/* CUDA arrays: plain rows in device memory, no tiling. */

#include "vendors/nvidia/sim/card.h"
#include "vendors/nvidia/sim/context.h"

struct gs_sim_array {
    uint64_t magic;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    char *base;
    size_t element_bytes; /* all channels */
    size_t row_bytes;
    size_t rows;   /* per slice, at least 1 */
    size_t slices; /* depth or layers, at least 1 */
    size_t bytes;
    struct gs_sim_id id; /* of the first level only */
    struct gs_sim_ctx *ctx;
    CUdevice device;
    uint32_t level_of_other; /* belongs to a mipmapped array: not destroyed on its own */
};

/** The array of a handle, or NULL. */
struct gs_sim_array *gs_array_get(CUarray handle);
