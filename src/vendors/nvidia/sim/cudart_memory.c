/* Memory of the runtime: allocations, copies, sets, pools, pointers. */
#include <string.h>

#include "vendors/nvidia/sim/cudart.h"

#define PTR(p) ((CUdeviceptr)(uintptr_t)(p))

/* ---- allocations ---- */

RT(cudaMalloc, void **devPtr, size_t size)
{
    CUdeviceptr p = 0;
    cudaError_t e = gs_cudart_enter();
    if (!e && !devPtr)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e && size)
        e = cuMemAlloc_v2(&p, size);
    if (!e)
        *devPtr = (void *)(uintptr_t)p;
    return gs_cudart_done(e);
}

RT(cudaFree, void *devPtr)
{
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(e || !devPtr ? e : cuMemFree_v2(PTR(devPtr)));
}

RT(cudaMallocManaged, void **devPtr, size_t size, unsigned int flags)
{
    CUdeviceptr p = 0;
    cudaError_t e = gs_cudart_enter();
    if (!e && (!devPtr || !size))
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = cuMemAllocManaged(&p, size, flags);
    if (!e)
        *devPtr = (void *)(uintptr_t)p;
    return gs_cudart_done(e);
}

RT(cudaMallocPitch, void **devPtr, size_t *pitch, size_t width, size_t height)
{
    CUdeviceptr p = 0;
    cudaError_t e = gs_cudart_enter();
    if (!e && (!devPtr || !pitch))
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e && width && height)
        e = cuMemAllocPitch_v2(&p, pitch, width, height, 4);
    if (!e)
        *devPtr = (void *)(uintptr_t)p;
    return gs_cudart_done(e);
}

RT(cudaHostAlloc, void **pHost, size_t size, unsigned int flags)
{
    cudaError_t e = gs_cudart_enter();
    if (!e && !pHost)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e && !size)
        *pHost = NULL;
    return gs_cudart_done(e || !size ? e : cuMemHostAlloc(pHost, size, flags));
}

RT(cudaMallocHost, void **ptr, size_t size)
{
    return cudaHostAlloc(ptr, size, 0);
}

RT(cudaFreeHost, void *ptr)
{
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(e || !ptr ? e : cuMemFreeHost(ptr));
}

RT_FORWARD(cudaHostRegister, cuMemHostRegister_v2(ptr, size, flags), void *ptr, size_t size,
           unsigned int flags)
RT_FORWARD(cudaHostUnregister, cuMemHostUnregister(ptr), void *ptr)
RT_FORWARD(cudaHostGetFlags, cuMemHostGetFlags(pFlags, pHost), unsigned int *pFlags, void *pHost)

RT(cudaHostGetDevicePointer, void **pDevice, void *pHost, unsigned int flags)
{
    CUdeviceptr p = 0;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = cuMemHostGetDevicePointer_v2(&p, pHost, flags);
    if (!e)
        *pDevice = (void *)(uintptr_t)p;
    return gs_cudart_done(e);
}

RT_FORWARD(cudaMemGetInfo, cuMemGetInfo_v2(free, total), size_t *free, size_t *total)

RT(cudaMallocAsync, void **devPtr, size_t size, CUstream hStream)
{
    CUdeviceptr p = 0;
    cudaError_t e = gs_cudart_enter();
    if (!e && !devPtr)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e && size)
        e = cuMemAllocAsync(&p, size, hStream);
    if (!e)
        *devPtr = (void *)(uintptr_t)p;
    return gs_cudart_done(e);
}
RT_TWIN(cudaMallocAsync, _ptsz, (devPtr, size, hStream), void **devPtr, size_t size,
        CUstream hStream)

RT(cudaMallocFromPoolAsync, void **ptr, size_t size, CUmemoryPool memPool, CUstream stream)
{
    CUdeviceptr p = 0;
    cudaError_t e = gs_cudart_enter();
    if (!e && size)
        e = cuMemAllocFromPoolAsync(&p, size, memPool, stream);
    if (!e)
        *ptr = (void *)(uintptr_t)p;
    return gs_cudart_done(e);
}
RT_TWIN(cudaMallocFromPoolAsync, _ptsz, (ptr, size, memPool, stream), void **ptr, size_t size,
        CUmemoryPool memPool, CUstream stream)

RT(cudaFreeAsync, void *devPtr, CUstream hStream)
{
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(e || !devPtr ? e : cuMemFreeAsync(PTR(devPtr), hStream));
}
RT_TWIN(cudaFreeAsync, _ptsz, (devPtr, hStream), void *devPtr, CUstream hStream)

/* ---- pools ---- */

RT_FORWARD(cudaDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool(memPool, dev),
           CUmemoryPool *memPool, int dev)
RT_FORWARD(cudaDeviceGetMemPool, cuDeviceGetMemPool(memPool, dev), CUmemoryPool *memPool, int dev)
RT_FORWARD(cudaDeviceSetMemPool, cuDeviceSetMemPool(dev, memPool), int dev, CUmemoryPool memPool)
RT_FORWARD(cudaMemPoolCreate, cuMemPoolCreate(memPool, poolProps), CUmemoryPool *memPool,
           const CUmemPoolProps *poolProps)
RT_FORWARD(cudaMemPoolDestroy, cuMemPoolDestroy(memPool), CUmemoryPool memPool)
RT_FORWARD(cudaMemPoolTrimTo, cuMemPoolTrimTo(memPool, minBytesToKeep), CUmemoryPool memPool,
           size_t minBytesToKeep)
RT_FORWARD(cudaMemPoolSetAttribute,
           cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value), CUmemoryPool memPool,
           int attr, void *value)
RT_FORWARD(cudaMemPoolGetAttribute,
           cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value), CUmemoryPool memPool,
           int attr, void *value)
RT_FORWARD(cudaMemPoolSetAccess, cuMemPoolSetAccess(memPool, descList, count), CUmemoryPool memPool,
           const CUmemAccessDesc *descList, size_t count)
RT_FORWARD(cudaMemPoolGetAccess, cuMemPoolGetAccess(flags, memPool, location),
           CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
RT_FORWARD(cudaMemPoolExportToShareableHandle,
           cuMemPoolExportToShareableHandle(handle, memPool, (CUmemAllocationHandleType)type,
                                            flags),
           void *handle, CUmemoryPool memPool, int type, unsigned int flags)
RT_FORWARD(cudaMemPoolImportFromShareableHandle,
           cuMemPoolImportFromShareableHandle(memPool, handle, (CUmemAllocationHandleType)type,
                                              flags),
           CUmemoryPool *memPool, void *handle, int type, unsigned int flags)
RT_FORWARD(cudaMemPoolExportPointer, cuMemPoolExportPointer(exportData, PTR(ptr)),
           CUmemPoolPtrExportData *exportData, void *ptr)
RT_FORWARD(cudaMemPoolImportPointer,
           cuMemPoolImportPointer((CUdeviceptr *)(void *)ptr, memPool, exportData), void **ptr,
           CUmemoryPool memPool, CUmemPoolPtrExportData *exportData)

/* ---- copies ---- */

CUmemorytype gs_cudart_memory_type(int kind, int is_destination)
{
    static const CUmemorytype types[5][2] = {{CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_HOST},
                                             {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
                                             {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
                                             {CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
                                             {CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED}};
    return types[kind >= 0 && kind < 4 ? kind : 4][is_destination != 0];
}

RT(cudaMemcpy, void *dst, const void *src, size_t count, int kind)
{
    cudaError_t e = gs_cudart_enter();
    if (!e && (kind < 0 || kind > 4))
        e = 21; /* cudaErrorInvalidMemcpyDirection */
    if (e || !count)
        return gs_cudart_done(e);
    switch (kind) {
    case 1:
        e = cuMemcpyHtoD_v2(PTR(dst), src, count);
        break;
    case 2:
        e = cuMemcpyDtoH_v2(dst, PTR(src), count);
        break;
    case 3:
        e = cuMemcpyDtoD_v2(PTR(dst), PTR(src), count);
        break;
    default:
        e = cuMemcpy(PTR(dst), PTR(src), count);
    }
    return gs_cudart_done(e);
}
RT_TWIN(cudaMemcpy, _ptds, (dst, src, count, kind), void *dst, const void *src, size_t count,
        int kind)

RT(cudaMemcpyAsync, void *dst, const void *src, size_t count, int kind, CUstream stream)
{
    cudaError_t e = gs_cudart_enter();
    if (!e && (kind < 0 || kind > 4))
        e = 21;
    if (e || !count)
        return gs_cudart_done(e);
    switch (kind) {
    case 1:
        e = cuMemcpyHtoDAsync_v2(PTR(dst), src, count, stream);
        break;
    case 2:
        e = cuMemcpyDtoHAsync_v2(dst, PTR(src), count, stream);
        break;
    case 3:
        e = cuMemcpyDtoDAsync_v2(PTR(dst), PTR(src), count, stream);
        break;
    default:
        e = cuMemcpyAsync(PTR(dst), PTR(src), count, stream);
    }
    return gs_cudart_done(e);
}
RT_TWIN(cudaMemcpyAsync, _ptsz, (dst, src, count, kind, stream), void *dst, const void *src,
        size_t count, int kind, CUstream stream)

RT(cudaMemcpyPeerAsync, void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
   CUstream stream)
{
    CUcontext to, from;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_primary(dstDevice, &to);
    if (!e)
        e = gs_cudart_primary(srcDevice, &from);
    return gs_cudart_done(
        e || !count ? e : cuMemcpyPeerAsync(PTR(dst), to, PTR(src), from, count, stream));
}

RT(cudaMemcpyPeer, void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
    CUcontext to, from;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_primary(dstDevice, &to);
    if (!e)
        e = gs_cudart_primary(srcDevice, &from);
    return gs_cudart_done(e || !count ? e : cuMemcpyPeer(PTR(dst), to, PTR(src), from, count));
}

/* One description serves host and device: the union of addresses follows the type. */
static CUDA_MEMCPY2D copy_2d(void *dst, size_t dpitch, const void *src, size_t spitch, int kind)
{
    CUDA_MEMCPY2D c = {.srcMemoryType = gs_cudart_memory_type(kind, 0),
                       .dstMemoryType = gs_cudart_memory_type(kind, 1),
                       .srcHost = src,
                       .srcDevice = PTR(src),
                       .srcPitch = spitch,
                       .dstHost = dst,
                       .dstDevice = PTR(dst),
                       .dstPitch = dpitch};
    return c;
}

RT(cudaMemcpy2DAsync, void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
   size_t height, int kind, CUstream stream)
{
    cudaError_t e = gs_cudart_enter();
    CUDA_MEMCPY2D c = copy_2d(dst, dpitch, src, spitch, kind);
    c.WidthInBytes = width;
    c.Height = height;
    return gs_cudart_done(e || !width || !height ? e : cuMemcpy2DAsync_v2(&c, stream));
}
RT_TWIN(cudaMemcpy2DAsync, _ptsz, (dst, dpitch, src, spitch, width, height, kind, stream),
        void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
        int kind, CUstream stream)

RT(cudaMemcpy2D, void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
   size_t height, int kind)
{
    cudaError_t e = gs_cudart_enter();
    CUDA_MEMCPY2D c = copy_2d(dst, dpitch, src, spitch, kind);
    c.WidthInBytes = width;
    c.Height = height;
    return gs_cudart_done(e || !width || !height ? e : cuMemcpy2DUnaligned_v2(&c));
}

RT(cudaMemcpyToSymbolAsync, const void *symbol, const void *src, size_t count, size_t offset,
   int kind, CUstream stream)
{
    CUdeviceptr p;
    size_t n;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_symbol(symbol, &p, &n);
    if (!e && (offset > n || count > n - offset))
        e = CUDA_ERROR_INVALID_VALUE;
    return gs_cudart_done(
        e ? e : cudaMemcpyAsync((void *)(uintptr_t)(p + offset), src, count, kind, stream));
}

RT(cudaMemcpyToSymbol, const void *symbol, const void *src, size_t count, size_t offset, int kind)
{
    cudaError_t e = cudaMemcpyToSymbolAsync(symbol, src, count, offset, kind, NULL);
    return gs_cudart_done(e ? e : cuStreamSynchronize(NULL));
}

RT(cudaMemcpyFromSymbolAsync, void *dst, const void *symbol, size_t count, size_t offset, int kind,
   CUstream stream)
{
    CUdeviceptr p;
    size_t n;
    cudaError_t e = gs_cudart_enter();
    if (!e)
        e = gs_cudart_symbol(symbol, &p, &n);
    if (!e && (offset > n || count > n - offset))
        e = CUDA_ERROR_INVALID_VALUE;
    return gs_cudart_done(
        e ? e : cudaMemcpyAsync(dst, (const void *)(uintptr_t)(p + offset), count, kind, stream));
}

RT(cudaMemcpyFromSymbol, void *dst, const void *symbol, size_t count, size_t offset, int kind)
{
    cudaError_t e = cudaMemcpyFromSymbolAsync(dst, symbol, count, offset, kind, NULL);
    return gs_cudart_done(e ? e : cuStreamSynchronize(NULL));
}

/* ---- sets ---- */

RT(cudaMemset, void *devPtr, int value, size_t count)
{
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(e || !count ? e
                                      : cuMemsetD8_v2(PTR(devPtr), (unsigned char)value, count));
}
RT_TWIN(cudaMemset, _ptds, (devPtr, value, count), void *devPtr, int value, size_t count)

RT(cudaMemsetAsync, void *devPtr, int value, size_t count, CUstream stream)
{
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(
        e || !count ? e : cuMemsetD8Async(PTR(devPtr), (unsigned char)value, count, stream));
}
RT_TWIN(cudaMemsetAsync, _ptsz, (devPtr, value, count, stream), void *devPtr, int value,
        size_t count, CUstream stream)

RT_FORWARD(cudaMemset2D, cuMemsetD2D8_v2(PTR(devPtr), pitch, (unsigned char)value, width, height),
           void *devPtr, size_t pitch, int value, size_t width, size_t height)
RT_FORWARD(cudaMemset2DAsync,
           cuMemsetD2D8Async(PTR(devPtr), pitch, (unsigned char)value, width, height, stream),
           void *devPtr, size_t pitch, int value, size_t width, size_t height, CUstream stream)

/* ---- advice: locations became structures in 13 ---- */

static CUmemLocation device_location(int dev)
{
    CUmemLocation l = {.type = dev >= 0 ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST};
    l.id = dev >= 0 ? dev : 0;
    return l;
}

RT_FORWARD(cudaMemPrefetchAsync_v2,
           cuMemPrefetchAsync_v2(PTR(devPtr), count, location, flags, stream), const void *devPtr,
           size_t count, CUmemLocation location, unsigned int flags, CUstream stream)
RT_FORWARD(cudaMemAdvise_v2, cuMemAdvise_v2(PTR(devPtr), count, (CUmem_advise)advice, location),
           const void *devPtr, size_t count, int advice, CUmemLocation location)
#if GS_CUDART_MAJOR == 12
RT(cudaMemPrefetchAsync, const void *devPtr, size_t count, int dstDevice, CUstream stream)
{
    return cudaMemPrefetchAsync_v2(devPtr, count, device_location(dstDevice), 0, stream);
}

RT(cudaMemAdvise, const void *devPtr, size_t count, int advice, int dev)
{
    return cudaMemAdvise_v2(devPtr, count, advice, device_location(dev));
}
#else
RT(cudaMemPrefetchAsync, const void *devPtr, size_t count, CUmemLocation location,
   unsigned int flags, CUstream stream)
{
    return cudaMemPrefetchAsync_v2(devPtr, count, location, flags, stream);
}

RT(cudaMemAdvise, const void *devPtr, size_t count, int advice, CUmemLocation location)
{
    return cudaMemAdvise_v2(devPtr, count, advice, location);
}

RT(cudaMemGetDefaultMemPool, CUmemoryPool *memPool, CUmemLocation *location, int type)
{
    (void)device_location;
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(e ? e
                            : cuMemGetDefaultMemPool(memPool, location, (CUmemAllocationType)type));
}
#endif

/* ---- pointers ---- */

struct pointer_attributes {
    int type; /* 0 unregistered, 1 host, 2 device, 3 managed */
    int device;
    void *devicePointer;
    void *hostPointer;
#if GS_CUDART_MAJOR >= 13
    long localityDomainOrdinal;
    long reserved[7];
#endif
};

RT(cudaPointerGetAttributes, struct pointer_attributes *attributes, const void *ptr)
{
    CUmemorytype type = (CUmemorytype)0;
    int managed = 0, ordinal = -2;
    CUdeviceptr on_device = 0;
    void *on_host = NULL;
    CUpointer_attribute which[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *data[] = {&type, &managed, &ordinal, &on_device, &on_host};
    cudaError_t e = gs_cudart_enter();
    if (!e && !attributes)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = cuPointerGetAttributes(5, which, data, PTR(ptr));
    if (e)
        return gs_cudart_done(e);
    memset(attributes, 0, sizeof(*attributes));
    attributes->type = managed ? 3 : type == CU_MEMORYTYPE_DEVICE ? 2 : type ? 1 : 0;
    attributes->device = attributes->type ? ordinal : -2; /* cudaInvalidDeviceId */
    attributes->devicePointer = (void *)(uintptr_t)on_device;
    attributes->hostPointer = attributes->type ? on_host : (void *)(uintptr_t)ptr;
#if GS_CUDART_MAJOR >= 13
    attributes->localityDomainOrdinal = -1;
#endif
    return CUDA_SUCCESS;
}

/* ---- sharing between processes ---- */

RT_FORWARD(cudaIpcGetMemHandle, cuIpcGetMemHandle(handle, PTR(devPtr)), CUipcMemHandle *handle,
           void *devPtr)
RT_FORWARD(cudaIpcOpenMemHandle,
           cuIpcOpenMemHandle_v2((CUdeviceptr *)(void *)devPtr, handle, flags), void **devPtr,
           CUipcMemHandle handle, unsigned int flags)
RT_FORWARD(cudaIpcCloseMemHandle, cuIpcCloseMemHandle(PTR(devPtr)), void *devPtr)
RT_FORWARD(cudaIpcGetEventHandle, cuIpcGetEventHandle(handle, event), CUipcEventHandle *handle,
           CUevent event)
RT_FORWARD(cudaIpcOpenEventHandle, cuIpcOpenEventHandle(event, handle), CUevent *event,
           CUipcEventHandle handle)
