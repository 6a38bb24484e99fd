#pragma once
/* Names of result codes. */

#include "vendors/nvidia/abi/cuda_types.h"

/** Name of a CUresult ("CUDA_ERROR_OUT_OF_MEMORY"), or NULL. */
const char *gs_errors_name(CUresult error);
