#include "vendors/nvidia/hook/bodies.h"

#include <stddef.h>

#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/launch.h"

/* The launch rows: what of each call's arguments says how large the launch is, and where it goes.
 * Reached only while the process limits something (wrap.c). */

static inline void kernel(struct gs_launch *l, const char *what, CUfunction f,
                          const unsigned int grid[3], const unsigned int block[3],
                          unsigned int shared)
{
    l->what = what;
    l->stream = NULL;
    l->handle = (uintptr_t)f;
    l->shape = gs_cost_shape(block[0], block[1], block[2], shared);
    l->blocks = gs_cost_blocks(grid[0], grid[1], grid[2]);
    l->per_block = block[0] * block[1] * block[2];
    l->quarter = gs_cost_quarter(l->blocks);
    l->per_thread = false;
}

CUresult gs_nv_launch_kernel(gs_fn_cuLaunchKernel *real, CUfunction f, unsigned int gridDimX,
                             unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX,
                             unsigned int blockDimY, unsigned int blockDimZ,
                             unsigned int sharedMemBytes, CUstream hStream, void **kernelParams,
                             void **extra)
{
    struct gs_launch l;

    kernel(&l, "cuLaunchKernel", f, (unsigned[3]){gridDimX, gridDimY, gridDimZ},
           (unsigned[3]){blockDimX, blockDimY, blockDimZ}, sharedMemBytes);
    l.stream = hStream;
    l.per_thread = real == gs_driver_cuda()->cuLaunchKernel_ptsz;
    if (GS_LIKELY(gs_launch_pay(&l)))
        return gs_launch_paid(&l, real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                       blockDimZ, sharedMemBytes, hStream, kernelParams, extra));
    gs_launch_begin(&l);
    return gs_launch_end(&l, real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                  sharedMemBytes, hStream, kernelParams, extra));
}

CUresult gs_nv_launch_cooperative(gs_fn_cuLaunchCooperativeKernel *real, CUfunction f,
                                  unsigned int gridDimX, unsigned int gridDimY,
                                  unsigned int gridDimZ, unsigned int blockDimX,
                                  unsigned int blockDimY, unsigned int blockDimZ,
                                  unsigned int sharedMemBytes, CUstream hStream,
                                  void **kernelParams)
{
    struct gs_launch l;

    kernel(&l, "cuLaunchCooperativeKernel", f, (unsigned[3]){gridDimX, gridDimY, gridDimZ},
           (unsigned[3]){blockDimX, blockDimY, blockDimZ}, sharedMemBytes);
    l.stream = hStream;
    l.per_thread = real == gs_driver_cuda()->cuLaunchCooperativeKernel_ptsz;
    if (GS_LIKELY(gs_launch_pay(&l)))
        return gs_launch_paid(&l, real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                       blockDimZ, sharedMemBytes, hStream, kernelParams));
    gs_launch_begin(&l);
    return gs_launch_end(&l, real(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                  sharedMemBytes, hStream, kernelParams));
}

CUresult gs_nv_launch_kernel_ex(gs_fn_cuLaunchKernelEx *real, const CUlaunchConfig *config,
                                CUfunction f, void **kernelParams, void **extra)
{
    struct gs_launch l;

    if (config == NULL)
        return real(config, f, kernelParams, extra);
    kernel(&l, "cuLaunchKernelEx", f,
           (unsigned[3]){config->gridDimX, config->gridDimY, config->gridDimZ},
           (unsigned[3]){config->blockDimX, config->blockDimY, config->blockDimZ},
           config->sharedMemBytes);
    l.stream = config->hStream;
    l.per_thread = real == gs_driver_cuda()->cuLaunchKernelEx_ptsz;
    if (GS_LIKELY(gs_launch_pay(&l)))
        return gs_launch_paid(&l, real(config, f, kernelParams, extra));
    gs_launch_begin(&l);
    return gs_launch_end(&l, real(config, f, kernelParams, extra));
}

/* Each card pays for its part. The parts beyond go unpaid: the driver has at most 16 cards here. */
#define PARTS 32u

CUresult gs_nv_launch_multi(gs_fn_cuLaunchCooperativeKernelMultiDevice *real,
                            CUDA_LAUNCH_PARAMS *launchParamsList, unsigned int numDevices,
                            unsigned int flags)
{
    struct gs_launch parts[PARTS];
    uint32_t n = launchParamsList == NULL ? 0 : numDevices < PARTS ? numDevices : PARTS;
    CUresult result;

    for (uint32_t i = 0; i < n; i++) {
        const CUDA_LAUNCH_PARAMS *p = &launchParamsList[i];

        kernel(&parts[i], "cuLaunchCooperativeKernelMultiDevice", p->function,
               (unsigned[3]){p->gridDimX, p->gridDimY, p->gridDimZ},
               (unsigned[3]){p->blockDimX, p->blockDimY, p->blockDimZ}, p->sharedMemBytes);
        parts[i].stream = p->hStream;
        parts[i].dev = gs_self.n_devices == 1 ? 0 : gs_launch_device(p->hStream);
        gs_launch_begin(&parts[i]);
    }
    result = real(launchParamsList, numDevices, flags);
    for (uint32_t i = 0; i < n; i++)
        (void)gs_launch_end(&parts[i], result);
    return result;
}

/* The calls of CUDA 3. The block was set on the function before, so the function stands for it. */
static void old(struct gs_launch *l, const char *what, CUfunction f, int width, int height)
{
    const unsigned int grid[3] = {width > 0 ? (unsigned)width : 1,
                                  height > 0 ? (unsigned)height : 1, 1};

    kernel(l, what, f, grid, (unsigned[3]){1, 1, 1}, 0);
}

CUresult gs_nv_launch_old(gs_fn_cuLaunch *real, CUfunction f)
{
    struct gs_launch l;

    old(&l, "cuLaunch", f, 1, 1);
    if (gs_launch_pay(&l))
        return gs_launch_paid(&l, real(f));
    gs_launch_begin(&l);
    return gs_launch_end(&l, real(f));
}

CUresult gs_nv_launch_grid(gs_fn_cuLaunchGrid *real, CUfunction f, int grid_width, int grid_height)
{
    struct gs_launch l;

    old(&l, "cuLaunchGrid", f, grid_width, grid_height);
    if (gs_launch_pay(&l))
        return gs_launch_paid(&l, real(f, grid_width, grid_height));
    gs_launch_begin(&l);
    return gs_launch_end(&l, real(f, grid_width, grid_height));
}

CUresult gs_nv_launch_grid_async(gs_fn_cuLaunchGridAsync *real, CUfunction f, int grid_width,
                                 int grid_height, CUstream hStream)
{
    struct gs_launch l;

    old(&l, "cuLaunchGridAsync", f, grid_width, grid_height);
    l.stream = hStream;
    if (gs_launch_pay(&l))
        return gs_launch_paid(&l, real(f, grid_width, grid_height, hStream));
    gs_launch_begin(&l);
    return gs_launch_end(&l, real(f, grid_width, grid_height, hStream));
}
