#pragma once
/* A CUDA program made of kernels of known length: what the limiter is judged with. This part finds
 * the driver as programs find it (dlopen, dlsym), makes the kernels and launches one of them in any
 * of the driver's ways.
 *
 * A kernel's name says how long it takes on a simulated card: k20us, k1ms, k1s. */

#include <stdint.h>

#include "vendors/nvidia/abi/cuda_work_types.h"

#define LOAD_KERNELS 16u
#define LOAD_THREADS 256u  /* of a block */
#define LOAD_BLOCKS  4096u /* fill any card */

enum load_api { API_KERNEL, API_EX, API_COOPERATIVE, API_GRID, API_PTSZ, API_EX_PTSZ, API_COUNT };

/** Driver functions, by the names a program of today asks for. */
struct load_driver {
    CUresult (*init)(unsigned int);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set)(CUcontext);
    CUresult (*sync_ctx)(void);
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*function)(CUfunction *, CUmodule, const char *);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream, void **, void **);
    CUresult (*launch_ptsz)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, CUstream, void **, void **);
    CUresult (*launch_ex)(const CUlaunchConfig *, CUfunction, void **, void **);
    CUresult (*launch_ex_ptsz)(const CUlaunchConfig *, CUfunction, void **, void **);
    CUresult (*launch_coop)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, CUstream, void **);
    CUresult (*launch_grid)(CUfunction, int, int, CUstream);
    CUresult (*block_shape)(CUfunction, int, int, int);
    CUresult (*stream_new)(CUstream *, unsigned int);
    CUresult (*stream_sync)(CUstream);
    CUresult (*stream_query)(CUstream);
    CUresult (*host_func)(CUstream, CUhostFn, void *);
    CUresult (*event_new)(CUevent *, unsigned int);
    CUresult (*event_record)(CUevent, CUstream);
    CUresult (*event_sync)(CUevent);
    CUresult (*event_query)(CUevent);
    CUresult (*event_elapsed)(float *, CUevent, CUevent);
    CUresult (*capture_begin)(CUstream, CUstreamCaptureMode);
    CUresult (*capture_end)(CUstream, CUgraph *);
    CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long);
    CUresult (*graph_launch)(CUgraphExec, CUstream);
};

/** The kernels of one process. */
struct load {
    struct load_driver drv;
    CUcontext ctx;
    uint32_t n;
    char name[LOAD_KERNELS][16];
    uint64_t ns[LOAD_KERNELS];
    CUfunction fn[LOAD_KERNELS];
    enum load_api api;
    unsigned blocks; /**< of a grid */
};

/** CLOCK_MONOTONIC, nanoseconds. */
uint64_t load_now(void);
/** Ends the program with a word on stderr unless `rc` is success. */
void load_must(CUresult rc, const char *what);
/** Note kernels "k20us,k1ms". Must come before load_open(): tells the simulated card their lengths.
 */
void load_name_kernels(struct load *l, const char *list);
/** Find the driver, make the primary context of `device` current and load the kernels. */
void load_open(struct load *l, int device);
/** Launch kernel `i` on `stream`. */
CUresult load_launch(const struct load *l, uint32_t i, CUstream stream);
