/* Doors to other APIs: graphics interoperability does not exist here, profiling does nothing,
 * external memory can be a file. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/object.h"

CUresult cuProfilerStart(void)
{
    GS_SIM_ENTER_CTX(ctx);
    (void)ctx;
    return CUDA_SUCCESS;
}

CUresult cuProfilerStop(void)
{
    GS_SIM_ENTER_CTX(ctx);
    (void)ctx;
    return CUDA_SUCCESS;
}

/* No resource was ever registered, so every handle is a wrong one. */
CUresult cuGraphicsMapResources(unsigned int count, CUgraphicsResource *resources, CUstream hStream)
{
    GS_SIM_ENTER_READY();
    (void)hStream;
    return count && resources ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphicsUnmapResources(unsigned int count, CUgraphicsResource *resources,
                                  CUstream hStream)
{
    GS_SIM_ENTER_READY();
    (void)hStream;
    return count && resources ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphicsUnregisterResource(CUgraphicsResource resource)
{
    GS_SIM_ENTER_READY();
    (void)resource;
    return CUDA_ERROR_INVALID_HANDLE;
}

struct external {
    struct gs_object object;
    void *map;
    size_t size;
};

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    GS_SIM_ENTER_CTX(ctx);
    struct stat st;
    (void)ctx;
    if (!extMem_out || !memHandleDesc || !memHandleDesc->size)
        return CUDA_ERROR_INVALID_VALUE;
    if (memHandleDesc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD &&
        memHandleDesc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    int fd = memHandleDesc->handle.fd;
    if (fstat(fd, &st) || st.st_size < 0 || (uint64_t)st.st_size < memHandleDesc->size)
        return CUDA_ERROR_INVALID_HANDLE;
    struct external *e = gs_object_new(GS_OBJECT_EXTERNAL, sizeof(*e));
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->size = memHandleDesc->size;
    e->map = mmap(NULL, e->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (e->map == MAP_FAILED) {
        gs_object_free(e);
        return CUDA_ERROR_INVALID_HANDLE;
    }
    (void)close(fd); /* documented: the import owns the descriptor */
    *extMem_out = (CUexternalMemory)e;
    return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    GS_SIM_ENTER_READY();
    struct external *e = (struct external *)extMem;
    if (!gs_object_is(e, GS_OBJECT_EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!devPtr || !bufferDesc || bufferDesc->offset > e->size ||
        bufferDesc->size > e->size - bufferDesc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    *devPtr = (uintptr_t)e->map + bufferDesc->offset;
    return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
    GS_SIM_ENTER_READY();
    struct external *e = (struct external *)extMem;
    if (!gs_object_is(e, GS_OBJECT_EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    (void)munmap(e->map, e->size);
    gs_object_free(e);
    return CUDA_SUCCESS;
}
