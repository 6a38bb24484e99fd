#pragma once
/* A thin CUDA runtime over the public driver API, for programs that link libcudart dynamically
 * (PyTorch, CuPy, numba): NVIDIA's own runtime does not run on a driver that is not NVIDIA's (see
 * export_table.c).
 *
 * Built twice, with GS_CUDART_MAJOR 12 and 13: a few names changed their signature between the two.
 * Types: only what the binary interface fixes. Source: CUDA Runtime API reference 12.9 and 13.5,
 * driver_types.h. */

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/abi/cuda_types.h"

#define CUDA_HOOK(symbol, class, body, ret, params, args) ret symbol params;
#define CUDA_CALL(symbol, ret, params, reason)            ret symbol params;
#include "vendors/nvidia/abi/api.def"

#if GS_CUDART_MAJOR == 12
#define GS_CUDART_VERSION 12090
#else
#define GS_CUDART_VERSION 13000
#endif

/** Same numbers as CUresult, but for the few that only one side has. */
typedef int cudaError_t;

struct dim3 {
    unsigned int x, y, z;
};

/** Declares and defines an exported function in one go: each is known to its callers by NVIDIA's
 * header. */
#define RT(name, ...)                                                                              \
    GS_EXPORT cudaError_t name(__VA_ARGS__);                                                       \
    cudaError_t name(__VA_ARGS__)

/** A function that needs a context and is one driver call. */
#define RT_FORWARD(name, call, ...)                                                                \
    RT(name, __VA_ARGS__)                                                                          \
    {                                                                                              \
        cudaError_t e = gs_cudart_enter();                                                         \
        return gs_cudart_done(e ? e : (call));                                                     \
    }

/** The same under its name for the per-thread default stream (compiled with --default-stream
 * per-thread). */
#define RT_TWIN(name, suffix, args, ...)                                                           \
    RT(name##suffix, __VA_ARGS__)                                                                  \
    {                                                                                              \
        return name args;                                                                          \
    }

/** Initialise the driver and make the thread's device current. Returns an error of that. */
cudaError_t gs_cudart_enter(void);
/** Note `e` as the thread's last error if it is one; returns it. */
cudaError_t gs_cudart_done(cudaError_t e);
/** Primary context of a device, retained once per process. */
cudaError_t gs_cudart_primary(int device, CUcontext *ret);

/** Kernel behind a host function pointer or a cudaKernel_t; variable behind a host symbol. */
cudaError_t gs_cudart_kernel(const void *func, CUfunction *ret);
cudaError_t gs_cudart_symbol(const void *symbol, CUdeviceptr *ret_ptr, size_t *ret_bytes);

/** 2D and 3D copies of the runtime as the driver's. `kind`: 0 HtoH, 1 HtoD, 2 DtoH, 3 DtoD, 4 by
 * address. */
CUmemorytype gs_cudart_memory_type(int kind, int is_destination);
