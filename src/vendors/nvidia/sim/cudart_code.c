/* Code that the compiler registers at start-up, and launches of it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/cudart.h"

#define INVALID_DEVICE_FUNCTION 98
#define INVALID_SYMBOL          13

/* One fat binary; loaded as a library at the first use of anything in it. */
struct binary {
    const void *image;
    CUlibrary library;
    cudaError_t error;
};

/* A host address that stands for a kernel or a variable. */
struct entry {
    const void *host;
    const char *name; /* lies in the program's image */
    struct binary *binary;
    CUkernel kernel;
    size_t bytes; /* of a variable */
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct entry *table; /* open addressing; size is a power of two */
static size_t table_size, table_used;

static size_t slot_of(const struct entry *t, size_t size, const void *host)
{
    size_t i = (size_t)(((uintptr_t)host >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (size - 1);
    while (t[i].host && t[i].host != host)
        i = (i + 1) & (size - 1);
    return i;
}

static int grow(void)
{
    size_t size = table_size ? table_size * 2 : 1024;
    struct entry *t = calloc(size, sizeof(*t));
    if (!t)
        return -1;
    for (size_t i = 0; i < table_size; i++)
        if (table[i].host)
            t[slot_of(t, size, table[i].host)] = table[i];
    free(table);
    table = t;
    table_size = size;
    return 0;
}

static void add(void **handle, const void *host, const char *name, size_t bytes)
{
    pthread_rwlock_wrlock(&lock);
    if (table_used * 2 < table_size || !grow()) {
        struct entry *e = &table[slot_of(table, table_size, host)];
        table_used += !e->host;
        *e = (struct entry){
            .host = host, .name = name, .binary = (struct binary *)(void *)handle, .bytes = bytes};
    }
    pthread_rwlock_unlock(&lock);
}

/* Copy of the entry of a host address; 0 if there is none. */
static int find(const void *host, struct entry *ret)
{
    int found = 0;
    pthread_rwlock_rdlock(&lock);
    if (table_size) {
        const struct entry *e = &table[slot_of(table, table_size, host)];
        found = e->host != NULL && host;
        if (found)
            *ret = *e;
    }
    pthread_rwlock_unlock(&lock);
    return found;
}

static cudaError_t load(struct binary *b)
{
    static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&load_lock);
    if (!b->library && !b->error)
        b->error = cuLibraryLoadData(&b->library, b->image, NULL, NULL, 0, NULL, NULL, 0);
    pthread_mutex_unlock(&load_lock);
    return b->error;
}

cudaError_t gs_cudart_kernel(const void *func, CUfunction *ret)
{
    struct entry e;
    if (!find(func, &e)) {
        /* Not registered: perhaps a cudaKernel_t or cudaFunction_t. The driver tells. */
        const char *name;
        CUfunction f = (CUfunction)(uintptr_t)func;
        if (!func || (uintptr_t)func % 8 || cuFuncGetName(&name, f))
            return INVALID_DEVICE_FUNCTION;
        *ret = f;
        return CUDA_SUCCESS;
    }
    if (!e.kernel) {
        cudaError_t r = load(e.binary);
        if (!r)
            r = cuLibraryGetKernel(&e.kernel, e.binary->library, e.name);
        if (r)
            return r == CUDA_ERROR_NOT_FOUND ? INVALID_DEVICE_FUNCTION : r;
        pthread_rwlock_wrlock(&lock);
        table[slot_of(table, table_size, func)].kernel = e.kernel;
        pthread_rwlock_unlock(&lock);
    }
    *ret = (CUfunction)(void *)e.kernel;
    return CUDA_SUCCESS;
}

cudaError_t gs_cudart_symbol(const void *symbol, CUdeviceptr *ret_ptr, size_t *ret_bytes)
{
    struct entry e;
    if (!find(symbol, &e) || !e.bytes)
        return INVALID_SYMBOL;
    cudaError_t r = load(e.binary);
    if (!r)
        r = cuLibraryGetGlobal(ret_ptr, ret_bytes, e.binary->library, e.name);
    return r == CUDA_ERROR_NOT_FOUND ? INVALID_SYMBOL : r;
}

GS_EXPORT void **__cudaRegisterFatBinary(void *fatCubin);
void **__cudaRegisterFatBinary(void *fatCubin)
{
    struct binary *b = calloc(1, sizeof(*b));
    if (b)
        b->image = fatCubin;
    return (void **)(void *)b;
}

GS_EXPORT void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
void __cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
    (void)fatCubinHandle;
}

/* At exit the driver may be gone before us: nothing is unloaded, the process's end does that. */
GS_EXPORT void __cudaUnregisterFatBinary(void **fatCubinHandle);
void __cudaUnregisterFatBinary(void **fatCubinHandle)
{
    (void)fatCubinHandle;
}

GS_EXPORT char __cudaInitModule(void **fatCubinHandle);
char __cudaInitModule(void **fatCubinHandle)
{
    (void)fatCubinHandle;
    return 1;
}

GS_EXPORT void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                                      const char *deviceName, int thread_limit, void *tid,
                                      void *bid, void *bDim, void *gDim, int *wSize);
void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, void *tid, void *bid,
                            void *bDim, void *gDim, int *wSize)
{
    (void)deviceFun;
    (void)thread_limit;
    (void)tid;
    (void)bid;
    (void)bDim;
    (void)gDim;
    (void)wSize;
    add(fatCubinHandle, hostFun, deviceName, 0);
}

GS_EXPORT void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                                 const char *deviceName, int ext, size_t size, int constant,
                                 int global);
void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                       const char *deviceName, int ext, size_t size, int constant, int global)
{
    (void)deviceAddress;
    (void)ext;
    (void)constant;
    (void)global;
    add(fatCubinHandle, hostVar, deviceName, size);
}

GS_EXPORT void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress,
                                        char *deviceAddress, const char *deviceName, int ext,
                                        size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global)
{
    (void)deviceAddress;
    (void)ext;
    (void)constant;
    (void)global;
    add(fatCubinHandle, hostVarPtrAddress, deviceName, size);
}

GS_EXPORT void __cudaRegisterHostVar(void **fatCubinHandle, const char *deviceName, char *hostVar,
                                     size_t size);
void __cudaRegisterHostVar(void **fatCubinHandle, const char *deviceName, char *hostVar,
                           size_t size)
{
    (void)fatCubinHandle;
    (void)deviceName;
    (void)hostVar;
    (void)size;
}

/* ---- launches ---- */

/* <<<grid, block, shared, stream>>> is passed from the caller to the stub through the thread. */
#define CONFIG_DEPTH 16
static _Thread_local struct {
    struct dim3 grid, block;
    size_t shared;
    CUstream stream;
} config[CONFIG_DEPTH];
static _Thread_local unsigned int config_depth;

GS_EXPORT unsigned int __cudaPushCallConfiguration(struct dim3 gridDim, struct dim3 blockDim,
                                                   size_t sharedMem, CUstream stream);
unsigned int __cudaPushCallConfiguration(struct dim3 gridDim, struct dim3 blockDim,
                                         size_t sharedMem, CUstream stream)
{
    if (config_depth >= CONFIG_DEPTH)
        return 1;
    config[config_depth].grid = gridDim;
    config[config_depth].block = blockDim;
    config[config_depth].shared = sharedMem;
    config[config_depth++].stream = stream;
    return 0;
}

RT(__cudaPopCallConfiguration, struct dim3 *gridDim, struct dim3 *blockDim, size_t *sharedMem,
   void *stream)
{
    if (!config_depth)
        return gs_cudart_done(CUDA_ERROR_UNKNOWN);
    config_depth--;
    *gridDim = config[config_depth].grid;
    *blockDim = config[config_depth].block;
    *sharedMem = config[config_depth].shared;
    *(CUstream *)stream = config[config_depth].stream;
    return CUDA_SUCCESS;
}

RT(cudaLaunchKernel, const void *func, struct dim3 gridDim, struct dim3 blockDim, void **args,
   size_t sharedMem, CUstream stream)
{
    CUfunction f;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_kernel(func, &f);
    if (!e)
        e = cuLaunchKernel(f, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z,
                           (unsigned int)sharedMem, stream, args, NULL);
    return gs_cudart_done(e);
}
RT_TWIN(cudaLaunchKernel, _ptsz, (func, gridDim, blockDim, args, sharedMem, stream),
        const void *func, struct dim3 gridDim, struct dim3 blockDim, void **args, size_t sharedMem,
        CUstream stream)

RT(cudaLaunchCooperativeKernel, const void *func, struct dim3 gridDim, struct dim3 blockDim,
   void **args, size_t sharedMem, CUstream stream)
{
    return cudaLaunchKernel(func, gridDim, blockDim, args, sharedMem, stream);
}
RT_TWIN(cudaLaunchCooperativeKernel, _ptsz, (func, gridDim, blockDim, args, sharedMem, stream),
        const void *func, struct dim3 gridDim, struct dim3 blockDim, void **args, size_t sharedMem,
        CUstream stream)

RT(__cudaLaunchKernel, const void *kernel, struct dim3 gridDim, struct dim3 blockDim, void **args,
   size_t sharedMem, CUstream stream)
{
    return cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem, stream);
}
RT_TWIN(__cudaLaunchKernel, _ptsz, (kernel, gridDim, blockDim, args, sharedMem, stream),
        const void *kernel, struct dim3 gridDim, struct dim3 blockDim, void **args,
        size_t sharedMem, CUstream stream)

struct launch_config {
    struct dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    CUstream stream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
};

RT(cudaLaunchKernelExC, const struct launch_config *c, const void *func, void **args)
{
    if (!c)
        return gs_cudart_done(CUDA_ERROR_INVALID_VALUE);
    return cudaLaunchKernel(func, c->gridDim, c->blockDim, args, c->dynamicSmemBytes, c->stream);
}
RT_TWIN(cudaLaunchKernelExC, _ptsz, (c, func, args), const struct launch_config *c,
        const void *func, void **args)

RT(cudaGetFuncBySymbol, CUfunction *ret, const void *symbol)
{
    CUfunction f;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_kernel(symbol, &f);
    return gs_cudart_done(e ? e : cuKernelGetFunction(ret, (CUkernel)(void *)f));
}

RT(cudaGetKernel, CUkernel *ret, const void *entry)
{
    CUfunction f;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_kernel(entry, &f);
    if (!e)
        *ret = (CUkernel)(void *)f;
    return gs_cudart_done(e);
}

RT(__cudaGetKernel, CUkernel *ret, const void *entry)
{
    return cudaGetKernel(ret, entry);
}

struct func_attributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
    int maxDynamicSharedSizeBytes, preferredShmemCarveout, clusterDimMustBeSet;
    int requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
    int clusterSchedulingPolicyPreference, nonPortableClusterSizeAllowed;
    int reserved[16];
};

RT(cudaFuncGetAttributes, struct func_attributes *attr, const void *func)
{
    CUfunction f;
    int v[16] = {0};
    cudaError_t e = gs_cudart_enter();
    if (!e && !attr)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = gs_cudart_kernel(func, &f);
    for (int i = 0; !e && i < 16; i++)
        e = cuFuncGetAttribute(&v[i], (CUfunction_attribute)i, f);
    if (!e)
        *attr = (struct func_attributes){.maxThreadsPerBlock = v[0],
                                         .sharedSizeBytes = (size_t)v[1],
                                         .constSizeBytes = (size_t)v[2],
                                         .localSizeBytes = (size_t)v[3],
                                         .numRegs = v[4],
                                         .ptxVersion = v[5],
                                         .binaryVersion = v[6],
                                         .cacheModeCA = v[7],
                                         .maxDynamicSharedSizeBytes = v[8],
                                         .preferredShmemCarveout = v[9]};
    return gs_cudart_done(e);
}

RT(cudaFuncSetAttribute, const void *func, int attr, int value)
{
    CUfunction f;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_kernel(func, &f);
    return gs_cudart_done(e ? e : cuFuncSetAttribute(f, (CUfunction_attribute)attr, value));
}

RT(cudaFuncSetCacheConfig, const void *func, int cacheConfig)
{
    CUfunction f;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_kernel(func, &f);
    return gs_cudart_done(e ? e : cuFuncSetCacheConfig(f, (CUfunc_cache)cacheConfig));
}

RT(cudaFuncSetSharedMemConfig, const void *func, int config_value)
{
    CUfunction f;
    (void)config_value;
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(e ? e : gs_cudart_kernel(func, &f));
}

RT(cudaFuncGetName, const char **name, const void *func)
{
    CUfunction f;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_kernel(func, &f);
    return gs_cudart_done(e ? e : cuFuncGetName(name, f));
}

RT(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *numBlocks, const void *func,
   int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
    CUfunction f;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_kernel(func, &f);
    if (!e)
        e = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, f, blockSize,
                                                                 dynamicSMemSize, flags);
    return gs_cudart_done(e);
}

RT(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int *numBlocks, const void *func, int blockSize,
   size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                  dynamicSMemSize, 0);
}

RT(cudaOccupancyAvailableDynamicSMemPerBlock, size_t *dynamicSmemSize, const void *func,
   int numBlocks, int blockSize)
{
    CUfunction f;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_kernel(func, &f);
    return gs_cudart_done(
        e ? e : cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, f, numBlocks, blockSize));
}

RT(cudaGetSymbolAddress, void **devPtr, const void *symbol)
{
    CUdeviceptr p;
    size_t n;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_symbol(symbol, &p, &n);
    if (!e)
        *devPtr = (void *)(uintptr_t)p;
    return gs_cudart_done(e);
}

RT(cudaGetSymbolSize, size_t *size, const void *symbol)
{
    CUdeviceptr p;
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(e ? e : gs_cudart_symbol(symbol, &p, size));
}

/* ---- libraries ---- */

RT_FORWARD(cudaLibraryLoadData,
           cuLibraryLoadData(library, code, jitOptions, jitOptionsValues, numJitOptions,
                             libraryOptions, libraryOptionValues, numLibraryOptions),
           CUlibrary *library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
           unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
           unsigned int numLibraryOptions)
RT_FORWARD(cudaLibraryLoadFromFile,
           cuLibraryLoadFromFile(library, fileName, jitOptions, jitOptionsValues, numJitOptions,
                                 libraryOptions, libraryOptionValues, numLibraryOptions),
           CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
           void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
           void **libraryOptionValues, unsigned int numLibraryOptions)
RT_FORWARD(cudaLibraryUnload, cuLibraryUnload(library), CUlibrary library)
RT_FORWARD(cudaLibraryGetKernel, cuLibraryGetKernel(kernel, library, name), CUkernel *kernel,
           CUlibrary library, const char *name)
RT_FORWARD(cudaLibraryGetKernelCount, cuLibraryGetKernelCount(count, lib), unsigned int *count,
           CUlibrary lib)
RT_FORWARD(cudaLibraryEnumerateKernels, cuLibraryEnumerateKernels(kernels, numKernels, lib),
           CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
RT_FORWARD(cudaLibraryGetGlobal, cuLibraryGetGlobal(dptr, bytes, library, name), CUdeviceptr *dptr,
           size_t *bytes, CUlibrary library, const char *name)
RT_FORWARD(cudaLibraryGetManaged, cuLibraryGetManaged(dptr, bytes, library, name),
           CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
