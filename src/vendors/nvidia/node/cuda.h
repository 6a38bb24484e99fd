#pragma once
/* The few functions of the CUDA driver that the node side calls, found by dlopen, and the cards as
 * that library has them: what is left to ask where NVML does not answer. */

#include "core/cleanup.h"
#include "vendors/nvidia/abi/cuda_types.h"

struct gs_err;
struct gs_probe;
struct gs_probe_vendor;

#define GS_CUDA_NEEDED(F)                                                                          \
    F(cuInit, (unsigned int))                                                                      \
    F(cuDeviceGetCount, (int *))                                                                   \
    F(cuDeviceGet, (CUdevice *, int))                                                              \
    F(cuDeviceGetName, (char *, int, CUdevice))                                                    \
    F(cuDeviceGetUuid, (CUuuid *, CUdevice))                                                       \
    F(cuDeviceTotalMem_v2, (size_t *, CUdevice))                                                   \
    F(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))

struct gs_cuda {
    void *handle;
#define GS_CUDA_MEMBER(name, params) CUresult(*name) params;
    GS_CUDA_NEEDED(GS_CUDA_MEMBER)
#undef GS_CUDA_MEMBER
};

/** Load the library; it stays loaded. Nothing is initialised. Returns 0; -ENODEV no library;
 *  -ELIBBAD it lacks a function. */
GS_WUR int gs_cuda_open(struct gs_cuda *ret_cuda, struct gs_err *err);

/** Append the cards that libcuda finds, as cards of `vendor`, by the PCI bus as NVML counts,
 * whatever CUDA_VISIBLE_DEVICES leaves of them. What is in use on them, how busy they are and who
 * uses them libcuda does not tell: GS_PROBE_UNKNOWN, and no processes. A child process asks, once:
 * it takes seconds on some machines, and cards do not change under a loaded driver.
 *  Returns  0; -ENODEV no library; other negative errno. On failure nothing was appended.
 *  Threads  one at a time. */
GS_WUR int gs_cuda_add_cards(const struct gs_probe_vendor *vendor, struct gs_probe *probe,
                             struct gs_err *err);
