#include "vendors/nvidia/sim/errors.h"

#include <stddef.h>

const char *gs_errors_name(CUresult error)
{
    switch (error) {
#define GS_CUDA_RESULT(name, value)                                                                \
    case value:                                                                                    \
        return #name;
#include "vendors/nvidia/abi/cuda_results.def"
#undef GS_CUDA_RESULT
    default:
        return NULL;
    }
}
