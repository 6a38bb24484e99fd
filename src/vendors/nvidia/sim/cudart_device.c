/* What a device is, as the runtime tells it. */
#include <string.h>

#include "vendors/nvidia/sim/cudart.h"

RT_FORWARD(cudaDeviceGetAttribute, cuDeviceGetAttribute(value, attr, dev), int *value, int attr,
           int dev)
RT_FORWARD(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId(pciBusId, len, dev), char *pciBusId, int len,
           int dev)
RT_FORWARD(cudaDeviceGetByPCIBusId, cuDeviceGetByPCIBusId(dev, pciBusId), int *dev,
           const char *pciBusId)
RT_FORWARD(cudaDeviceCanAccessPeer, cuDeviceCanAccessPeer(canAccessPeer, dev, peerDevice),
           int *canAccessPeer, int dev, int peerDevice)
RT_FORWARD(cudaDeviceGetP2PAttribute,
           cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, srcDevice, dstDevice),
           int *value, int attr, int srcDevice, int dstDevice)
RT_FORWARD(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange(least, greatest),
           int *least, int *greatest)
RT_FORWARD(cudaDeviceSetLimit, cuCtxSetLimit((CUlimit)limit, value), int limit, size_t value)
RT_FORWARD(cudaDeviceGetLimit, cuCtxGetLimit(pValue, (CUlimit)limit), size_t *pValue, int limit)
RT_FORWARD(cudaDeviceSetCacheConfig, cuCtxSetCacheConfig((CUfunc_cache)config), int config)
RT_FORWARD(cudaDeviceGetCacheConfig, cuCtxGetCacheConfig(config), CUfunc_cache *config)
RT_FORWARD(cudaDeviceSetSharedMemConfig, cuCtxSetSharedMemConfig((CUsharedconfig)config),
           int config)
RT_FORWARD(cudaDeviceGetSharedMemConfig, cuCtxGetSharedMemConfig(config), CUsharedconfig *config)
RT_FORWARD(cudaCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache(), void)

RT(cudaDeviceEnablePeerAccess, int peerDevice, unsigned int flags)
{
    CUcontext peer;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_primary(peerDevice, &peer);
    return gs_cudart_done(e ? e : cuCtxEnablePeerAccess(peer, flags));
}

RT(cudaDeviceDisablePeerAccess, int peerDevice)
{
    CUcontext peer;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_primary(peerDevice, &peer);
    return gs_cudart_done(e ? e : cuCtxDisablePeerAccess(peer));
}

/* cudaDeviceProp: the field order of each major version; 13 dropped some fields and cut the
 * reserve. */
#if GS_CUDART_MAJOR == 12
#define ONLY_12(x) x
#define ONLY_13(x)
#define RESERVED 63
#else
#define ONLY_12(x)
#define ONLY_13(x) x
#define RESERVED   56
#endif

struct device_prop {
    char name[256];
    char uuid[16];
    char luid[8];
    unsigned int luidDeviceNodeMask;
    size_t totalGlobalMem, sharedMemPerBlock;
    int regsPerBlock, warpSize;
    size_t memPitch;
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
    ONLY_12(int clockRate;)
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    ONLY_12(int deviceOverlap;)
    int multiProcessorCount;
    ONLY_12(int kernelExecTimeoutEnabled;)
    int integrated, canMapHostMemory;
    ONLY_12(int computeMode;)
    int maxTexture1D, maxTexture1DMipmap;
    ONLY_12(int maxTexture1DLinear;)
    int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2];
    int maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2];
    int maxTexture2DLayered[3], maxTextureCubemapLayered[2];
    int maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2];
    int maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver;
    int asyncEngineCount, unifiedAddressing;
    ONLY_12(int memoryClockRate;)
    int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor;
    int streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID;
    int hostNativeAtomicSupported;
    ONLY_12(int singleToDoublePrecisionPerfRatio;)
    int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported;
    int canUseHostPointerForRegisteredMem, cooperativeLaunch;
    ONLY_12(int cooperativeMultiDeviceLaunch;)
    size_t sharedMemPerBlockOptin;
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost;
    int maxBlocksPerMultiProcessor, accessPolicyMaxWindowSize;
    size_t reservedSharedMemPerBlock;
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported;
    int timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;
    unsigned int gpuDirectRDMAFlushWritesOptions;
    int gpuDirectRDMAWritesOrdering;
    unsigned int memoryPoolSupportedHandleTypes;
    int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch;
    int unifiedFunctionPointers;
    ONLY_13(int deviceNumaConfig; int deviceNumaId; int mpsEnabled; int hostNumaId;
            unsigned int gpuPciDeviceID; unsigned int gpuPciSubsystemID;
            int hostNumaMultinodeIpcSupported;)
    int reserved[RESERVED];
};
/* sizeof(cudaDeviceProp) of the two headers */
_Static_assert(sizeof(struct device_prop) == (GS_CUDART_MAJOR == 12 ? 1032 : 1008),
               "cudaDeviceProp has another size");

static const struct {
    int attribute;
    size_t offset; /* of an int */
} ints[] = {
#define FIELD(attr, field)                                                                         \
    {                                                                                              \
        CU_DEVICE_ATTRIBUTE_##attr, offsetof(struct device_prop, field)                            \
    }
    FIELD(MAX_REGISTERS_PER_BLOCK, regsPerBlock),
    FIELD(WARP_SIZE, warpSize),
    FIELD(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
    FIELD(MAX_BLOCK_DIM_X, maxThreadsDim[0]),
    FIELD(MAX_BLOCK_DIM_Y, maxThreadsDim[1]),
    FIELD(MAX_BLOCK_DIM_Z, maxThreadsDim[2]),
    FIELD(MAX_GRID_DIM_X, maxGridSize[0]),
    FIELD(MAX_GRID_DIM_Y, maxGridSize[1]),
    FIELD(MAX_GRID_DIM_Z, maxGridSize[2]),
    FIELD(COMPUTE_CAPABILITY_MAJOR, major),
    FIELD(COMPUTE_CAPABILITY_MINOR, minor),
    FIELD(MULTIPROCESSOR_COUNT, multiProcessorCount),
    FIELD(INTEGRATED, integrated),
    FIELD(CAN_MAP_HOST_MEMORY, canMapHostMemory),
    FIELD(MAXIMUM_TEXTURE1D_WIDTH, maxTexture1D),
    FIELD(MAXIMUM_TEXTURE2D_WIDTH, maxTexture2D[0]),
    FIELD(MAXIMUM_TEXTURE2D_HEIGHT, maxTexture2D[1]),
    FIELD(MAXIMUM_TEXTURE3D_WIDTH, maxTexture3D[0]),
    FIELD(MAXIMUM_TEXTURE3D_HEIGHT, maxTexture3D[1]),
    FIELD(MAXIMUM_TEXTURE3D_DEPTH, maxTexture3D[2]),
    FIELD(CONCURRENT_KERNELS, concurrentKernels),
    FIELD(ECC_ENABLED, ECCEnabled),
    FIELD(PCI_BUS_ID, pciBusID),
    FIELD(PCI_DEVICE_ID, pciDeviceID),
    FIELD(PCI_DOMAIN_ID, pciDomainID),
    FIELD(ASYNC_ENGINE_COUNT, asyncEngineCount),
    FIELD(UNIFIED_ADDRESSING, unifiedAddressing),
    FIELD(GLOBAL_MEMORY_BUS_WIDTH, memoryBusWidth),
    FIELD(L2_CACHE_SIZE, l2CacheSize),
    FIELD(MAX_PERSISTING_L2_CACHE_SIZE, persistingL2CacheMaxSize),
    FIELD(MAX_THREADS_PER_MULTIPROCESSOR, maxThreadsPerMultiProcessor),
    FIELD(STREAM_PRIORITIES_SUPPORTED, streamPrioritiesSupported),
    FIELD(GLOBAL_L1_CACHE_SUPPORTED, globalL1CacheSupported),
    FIELD(LOCAL_L1_CACHE_SUPPORTED, localL1CacheSupported),
    FIELD(MAX_REGISTERS_PER_MULTIPROCESSOR, regsPerMultiprocessor),
    FIELD(MANAGED_MEMORY, managedMemory),
    FIELD(PAGEABLE_MEMORY_ACCESS, pageableMemoryAccess),
    FIELD(CONCURRENT_MANAGED_ACCESS, concurrentManagedAccess),
    FIELD(COMPUTE_PREEMPTION_SUPPORTED, computePreemptionSupported),
    FIELD(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, canUseHostPointerForRegisteredMem),
    FIELD(COOPERATIVE_LAUNCH, cooperativeLaunch),
    FIELD(MAX_BLOCKS_PER_MULTIPROCESSOR, maxBlocksPerMultiProcessor),
    FIELD(MAX_ACCESS_POLICY_WINDOW_SIZE, accessPolicyMaxWindowSize),
    FIELD(HOST_REGISTER_SUPPORTED, hostRegisterSupported),
    FIELD(MEMORY_POOLS_SUPPORTED, memoryPoolsSupported),
    FIELD(MEMPOOL_SUPPORTED_HANDLE_TYPES, memoryPoolSupportedHandleTypes),
    FIELD(IPC_EVENT_SUPPORTED, ipcEventSupported),
    FIELD(CLUSTER_LAUNCH, clusterLaunch),
    FIELD(UNIFIED_FUNCTION_POINTERS, unifiedFunctionPointers),
#if GS_CUDART_MAJOR == 12
    FIELD(CLOCK_RATE, clockRate),
    FIELD(GPU_OVERLAP, deviceOverlap),
    FIELD(MEMORY_CLOCK_RATE, memoryClockRate),
    FIELD(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, singleToDoublePrecisionPerfRatio),
#endif
#undef FIELD
};

static const struct {
    int attribute;
    size_t offset; /* of a size_t */
} sizes[] = {
#define FIELD(attr, field)                                                                         \
    {                                                                                              \
        CU_DEVICE_ATTRIBUTE_##attr, offsetof(struct device_prop, field)                            \
    }
    FIELD(MAX_SHARED_MEMORY_PER_BLOCK, sharedMemPerBlock),
    FIELD(MAX_PITCH, memPitch),
    FIELD(TOTAL_CONSTANT_MEMORY, totalConstMem),
    FIELD(TEXTURE_ALIGNMENT, textureAlignment),
    FIELD(TEXTURE_PITCH_ALIGNMENT, texturePitchAlignment),
    FIELD(SURFACE_ALIGNMENT, surfaceAlignment),
    FIELD(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, sharedMemPerMultiprocessor),
    FIELD(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, sharedMemPerBlockOptin),
    FIELD(RESERVED_SHARED_MEMORY_PER_BLOCK, reservedSharedMemPerBlock),
#undef FIELD
};

static cudaError_t properties(struct device_prop *prop, int dev)
{
    cudaError_t e = gs_cudart_enter();
    CUuuid uuid;
    if (!e && !prop)
        e = CUDA_ERROR_INVALID_VALUE;
    if (e)
        return e;
    memset(prop, 0, sizeof(*prop));
    e = cuDeviceGetName(prop->name, sizeof(prop->name), dev);
    if (!e)
        e = cuDeviceGetUuid_v2(&uuid, dev);
    if (!e)
        e = cuDeviceTotalMem_v2(&prop->totalGlobalMem, dev);
    if (e)
        return e;
    memcpy(prop->uuid, uuid.bytes, sizeof(prop->uuid));
    for (size_t i = 0; i < GS_ARRAY_LEN(ints); i++) {
        int v = 0;
        e = cuDeviceGetAttribute(&v, ints[i].attribute, dev);
        if (e)
            return e;
        memcpy((char *)prop + ints[i].offset, &v, sizeof(v));
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        int v = 0;
        e = cuDeviceGetAttribute(&v, sizes[i].attribute, dev);
        if (e)
            return e;
        size_t n = (size_t)v;
        memcpy((char *)prop + sizes[i].offset, &n, sizeof(n));
    }
    return CUDA_SUCCESS;
}

RT(cudaGetDeviceProperties_v2, struct device_prop *prop, int dev)
{
    return gs_cudart_done(properties(prop, dev));
}

#if GS_CUDART_MAJOR == 12
/* The structure of CUDA 11 is the head of today's, up to what 12.0 added. */
RT(cudaGetDeviceProperties, void *prop, int dev)
{
    struct device_prop full;
    cudaError_t e = properties(&full, dev);
    if (!e)
        memcpy(prop, &full, 728);
    return gs_cudart_done(e);
}
#else
RT(cudaGetDeviceProperties, struct device_prop *prop, int dev)
{
    return gs_cudart_done(properties(prop, dev));
}
#endif
