/* Properties of functions, launches, occupancy. */
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/capture.h"
#include "vendors/nvidia/sim/device.h"
#include "vendors/nvidia/sim/managed.h"
#include "vendors/nvidia/sim/module.h"
#include "vendors/nvidia/sim/stream_object.h"

/* A wave is what the card runs at once; it takes this long, and a launch this long by itself. */
#define WAVE_NS   5000u
#define LAUNCH_NS 2000u

#define FUNCTION_OF(var, handle)                                                                   \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_function *var = (struct gs_function *)handle;                                        \
    if (GS_UNLIKELY(!gs_object_is(var, GS_OBJECT_FUNCTION) &&                                      \
                    !gs_object_is(var, GS_OBJECT_KERNEL)))                                         \
    return CUDA_ERROR_INVALID_HANDLE

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    FUNCTION_OF(f, hfunc);
    if (!pi || (unsigned int)attrib >= GS_FUNCTION_ATTRIBUTES)
        return CUDA_ERROR_INVALID_VALUE;
    *pi = f->attribute[attrib];
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    FUNCTION_OF(f, hfunc);
    /* From 8 on attributes can be set; those before describe the code. */
    if ((unsigned int)attrib >= GS_FUNCTION_ATTRIBUTES ||
        attrib < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        int max = gs_device_attribute(0, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        if (value < 0 || value > max - f->attribute[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES])
            return CUDA_ERROR_INVALID_VALUE;
    }
    f->attribute[attrib] = value;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    FUNCTION_OF(f, hfunc);
    if (!hmod)
        return CUDA_ERROR_INVALID_VALUE;
    *hmod = (CUmodule)f->module;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
    FUNCTION_OF(f, hfunc);
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = f->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                            size_t *paramSize)
{
    FUNCTION_OF(f, func);
    if (!paramOffset || paramIndex >= f->n_params)
        return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = f->param[paramIndex].offset;
    if (paramSize)
        *paramSize = f->param[paramIndex].size;
    return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    FUNCTION_OF(f, function);
    (void)f;
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction function)
{
    FUNCTION_OF(f, function);
    (void)f;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    FUNCTION_OF(f, hfunc);
    (void)f;
    return (unsigned int)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
                                                             : CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    FUNCTION_OF(f, hfunc);
    (void)f;
    (void)config;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
    FUNCTION_OF(f, hfunc);
    if (x < 1 || y < 1 || z < 1)
        return CUDA_ERROR_INVALID_VALUE;
    f->block[0] = (uint32_t)x;
    f->block[1] = (uint32_t)y;
    f->block[2] = (uint32_t)z;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
    FUNCTION_OF(f, hfunc);
    (void)f;
    (void)bytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
    FUNCTION_OF(f, hfunc);
    (void)f;
    (void)numbytes;
    return CUDA_SUCCESS;
}

CUresult cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
    FUNCTION_OF(f, hfunc);
    (void)f;
    (void)value;
    return offset < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuParamSetf(CUfunction hfunc, int offset, float value)
{
    FUNCTION_OF(f, hfunc);
    (void)f;
    (void)value;
    return offset < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
    FUNCTION_OF(f, hfunc);
    (void)f;
    (void)numbytes;
    return offset < 0 || !ptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* A variable read once. */
struct setting {
    const char *variable;
    const char *text;
    int known;
};

/* GPUSLICE_SIM_KERNEL_NS, GPUSLICE_SIM_KERNEL_OCC (percent of the card): one number for all
 * kernels, or NAME=N[,NAME=N...][,N]. 0: nothing is said of this kernel. */
static uint64_t forced(struct setting *setting, const char *name)
{
    if (!__atomic_load_n(&setting->known, __ATOMIC_ACQUIRE)) {
        setting->text = getenv(setting->variable);
        __atomic_store_n(&setting->known, 1, __ATOMIC_RELEASE);
    }
    const char *text = setting->text;
    uint64_t for_all = 0;
    for (const char *p = text; p && *p;) {
        size_t n = strcspn(p, ",");
        const char *eq = memchr(p, '=', n);
        if (!eq)
            for_all = strtoull(p, NULL, 10);
        else if ((size_t)(eq - p) == strlen(name) && !strncmp(p, name, (size_t)(eq - p)))
            return strtoull(eq + 1, NULL, 10);
        p += n;
        p += *p == ',';
    }
    return for_all;
}

void gs_launch_cost(const struct gs_function *f, const unsigned int grid[3],
                    const unsigned int block[3], uint64_t *ret_ns, uint32_t *ret_load)
{
    static struct setting cost = {.variable = "GPUSLICE_SIM_KERNEL_NS"};
    static struct setting occupancy = {.variable = "GPUSLICE_SIM_KERNEL_OCC"};
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    uint64_t threads = blocks * block[0] * block[1] * block[2];
    uint64_t at_once =
        (uint64_t)gs_device_attribute(0, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) * 2048;
    uint64_t ns = forced(&cost, f->name), pct = forced(&occupancy, f->name);
    uint64_t load = GS_CLOCK_FULL;
    if (pct)
        load = pct < 100 ? (pct * GS_CLOCK_FULL + 99) / 100 : GS_CLOCK_FULL;
    else if (!ns && threads < at_once)
        load = (threads * GS_CLOCK_FULL + at_once - 1) / at_once;
    *ret_ns = ns ? ns : LAUNCH_NS + (threads + at_once - 1) / at_once * WAVE_NS;
    *ret_load = (uint32_t)load;
}

/* What the driver checks before it queues a kernel. */
static CUresult check_launch(const struct gs_function *f, const unsigned int grid[3],
                             const unsigned int block[3], unsigned int shared)
{
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (!grid[0] || !grid[1] || !grid[2] || !threads || grid[0] > INT32_MAX || grid[1] > 65535 ||
        grid[2] > 65535 || block[0] > 1024 || block[1] > 1024 || block[2] > 64 || threads > 1024)
        return CUDA_ERROR_INVALID_VALUE;
    if (threads > (uint64_t)f->attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
        return CUDA_ERROR_INVALID_VALUE;
    if (shared > (unsigned int)f->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES])
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* One launch, whichever call it came by. */
static CUresult launch(const CUDA_KERNEL_NODE_PARAMS_v3 *k, CUstream hStream)
{
    const struct gs_function *f = gs_module_function_of(k->func, k->kern);
    const unsigned int grid[3] = {k->gridDimX, k->gridDimY, k->gridDimZ};
    const unsigned int block[3] = {k->blockDimX, k->blockDimY, k->blockDimZ};
    CUresult error;
    if (GS_UNLIKELY(!f))
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = check_launch(f, grid, block, k->sharedMemBytes);
    if (GS_UNLIKELY(r))
        return r;
    if (GS_UNLIKELY(f->sizes_known && f->n_params && !k->kernelParams && !k->extra))
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_stream *s = gs_stream_of(hStream, &error);
    if (GS_UNLIKELY(!s))
        return error;
    if (GS_UNLIKELY(s->capture != NULL)) {
        CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
        p.kernel = *k;
        return gs_capture_add(hStream, &p, NULL);
    }
    r = gs_capture_check_legacy(s);
    if (GS_UNLIKELY(r))
        return r;
    if (!gs_sim_self.zero_cost) {
        uint64_t cost;
        uint32_t load;
        gs_launch_cost(f, grid, block, &cost, &load);
        gs_stream_queue_wait(s->card);
        gs_stream_add_kernel(s, cost + gs_managed_launch(s->card), load);
        gs_stream_queue_note(s->card, s->tag);
    }
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra)
{
    GS_SIM_ENTER_READY();
    CUDA_KERNEL_NODE_PARAMS_v3 k = {.func = f,
                                    .gridDimX = gridDimX,
                                    .gridDimY = gridDimY,
                                    .gridDimZ = gridDimZ,
                                    .blockDimX = blockDimX,
                                    .blockDimY = blockDimY,
                                    .blockDimZ = blockDimZ,
                                    .sharedMemBytes = sharedMemBytes,
                                    .kernelParams = kernelParams,
                                    .extra = extra};
    return launch(&k, hStream);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX,
                                   unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream,
                                   void **kernelParams)
{
    GS_SIM_ENTRY;
    return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                          sharedMemBytes, hStream, kernelParams, NULL);
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                              unsigned int numDevices, unsigned int flags)
{
    GS_SIM_ENTER_READY();
    (void)flags;
    if (!launchParamsList || !numDevices)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < numDevices; i++) {
        const CUDA_LAUNCH_PARAMS *l = &launchParamsList[i];
        CUresult r = cuLaunchKernel(l->function, l->gridDimX, l->gridDimY, l->gridDimZ,
                                    l->blockDimX, l->blockDimY, l->blockDimZ, l->sharedMemBytes,
                                    l->hStream, l->kernelParams, NULL);
        if (r)
            return r;
    }
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                          void **extra)
{
    GS_SIM_ENTRY;
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    return cuLaunchKernel(f, config->gridDimX, config->gridDimY, config->gridDimZ,
                          config->blockDimX, config->blockDimY, config->blockDimZ,
                          config->sharedMemBytes, config->hStream, kernelParams, extra);
}

/* The calls of CUDA 3: block and parameters were set on the function before. */
static CUresult launch_old(CUfunction hfunc, int width, int height, CUstream hStream)
{
    FUNCTION_OF(f, hfunc);
    static char no_params[1];
    if (width < 1 || height < 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_KERNEL_NODE_PARAMS_v3 k = {.func = hfunc,
                                    .gridDimX = (unsigned int)width,
                                    .gridDimY = (unsigned int)height,
                                    .gridDimZ = 1,
                                    .blockDimX = f->block[0],
                                    .blockDimY = f->block[1],
                                    .blockDimZ = f->block[2],
                                    .extra = (void **)(void *)no_params};
    return launch(&k, hStream);
}

CUresult cuLaunch(CUfunction f)
{
    return launch_old(f, 1, 1, NULL);
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    return launch_old(f, grid_width, grid_height, NULL);
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    return launch_old(f, grid_width, grid_height, hStream);
}

/* ---- occupancy: threads, registers and shared memory of one multiprocessor ---- */

static int blocks_per_sm(const struct gs_function *f, int block_size, size_t dynamic)
{
    if (block_size > f->attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
        return 0;
    int warps = (block_size + 31) / 32;
    int regs = f->attribute[CU_FUNC_ATTRIBUTE_NUM_REGS];
    int by_threads = 64 / warps;
    int by_regs = regs > 0 ? 65536 / (((regs + 7) / 8 * 8) * 32 * warps) : 32;
    size_t shared = dynamic + (size_t)f->attribute[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES] + 1024;
    size_t by_shared =
        (size_t)gs_device_attribute(0, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) /
        shared;
    int n = by_threads < 32 ? by_threads : 32;
    n = by_regs < n ? by_regs : n;
    return by_shared < (size_t)n ? (int)by_shared : n;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                              int blockSize, size_t dynamicSMemSize,
                                                              unsigned int flags)
{
    FUNCTION_OF(f, func);
    if (!numBlocks || blockSize < 1 || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    *numBlocks = blocks_per_sm(f, blockSize, dynamicSMemSize);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                dynamicSMemSize, 0);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
                                                   CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit,
                                                   unsigned int flags)
{
    FUNCTION_OF(f, func);
    if (!minGridSize || !blockSize || flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    int max = f->attribute[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK], best = 0, best_block = 0;
    if (blockSizeLimit > 0 && blockSizeLimit < max)
        max = blockSizeLimit;
    /* The largest block among those that keep most threads running. */
    for (int b = (max + 31) / 32 * 32; b > 0; b -= 32) {
        int size = b > max ? max : b;
        size_t dynamic =
            blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size) : dynamicSMemSize;
        int threads = size * blocks_per_sm(f, size, dynamic);
        if (threads > best) {
            best = threads;
            best_block = size;
        }
    }
    if (!best)
        return CUDA_ERROR_INVALID_VALUE;
    *blockSize = best_block;
    *minGridSize =
        best / best_block * gs_device_attribute(0, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                          size_t dynamicSMemSize, int blockSizeLimit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func,
                                                     blockSizeToDynamicSMemSize, dynamicSMemSize,
                                                     blockSizeLimit, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
                                                 int numBlocks, int blockSize)
{
    FUNCTION_OF(f, func);
    if (!dynamicSmemSize || numBlocks < 1 || blockSize < 1)
        return CUDA_ERROR_INVALID_VALUE;
    long per_sm = gs_device_attribute(0, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    long each = per_sm / numBlocks - 1024 - f->attribute[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES];
    long max = f->attribute[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES];
    each = each > max ? max : each;
    *dynamicSmemSize = (size_t)(each > 0 ? each : 0);
    return CUDA_SUCCESS;
}
