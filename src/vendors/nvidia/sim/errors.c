#include "vendors/nvidia/sim/errors.h"

#include <stddef.h>

#include "vendors/nvidia/sim/sim.h"

/* Texts of cuGetErrorString: what the code's comment in the driver API reference says, in our
 * words. Codes without one get their name. */
static const char *text_of(CUresult error)
{
    switch (error) {
    case CUDA_SUCCESS:
        return "no error";
    case CUDA_ERROR_INVALID_VALUE:
        return "invalid argument";
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "out of memory";
    case CUDA_ERROR_NOT_INITIALIZED:
        return "initialization error";
    case CUDA_ERROR_DEINITIALIZED:
        return "driver shutting down";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
        return "CUDA-capable device(s) is/are busy or unavailable";
    case CUDA_ERROR_NO_DEVICE:
        return "no CUDA-capable device is detected";
    case CUDA_ERROR_INVALID_DEVICE:
        return "invalid device ordinal";
    case CUDA_ERROR_INVALID_IMAGE:
        return "device kernel image is invalid";
    case CUDA_ERROR_INVALID_CONTEXT:
        return "invalid device context";
    case CUDA_ERROR_INVALID_HANDLE:
        return "invalid resource handle";
    case CUDA_ERROR_NOT_FOUND:
        return "named symbol not found";
    case CUDA_ERROR_NOT_READY:
        return "device not ready";
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return "context is destroyed";
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
        return "too many resources requested for launch";
    case CUDA_ERROR_NOT_SUPPORTED:
        return "operation not supported";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
        return "operation not permitted when stream is capturing";
    case CUDA_ERROR_UNKNOWN:
        return "unknown error";
    default:
        return NULL;
    }
}

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = gs_errors_name(error);
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    const char *text = text_of(error);
    *pStr = text ? text : gs_errors_name(error);
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
