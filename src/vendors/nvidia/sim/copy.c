#include "vendors/nvidia/sim/copy.h"

#include "vendors/nvidia/sim/array.h"
#include "vendors/nvidia/sim/memory.h"

/* What a linear copy starts from or goes to. */
struct end {
    CUmemorytype type;
    CUdeviceptr address;
    CUarray array;
    size_t offset;
};

static struct end host(const void *p)
{
    return (struct end){.type = CU_MEMORYTYPE_HOST, .address = (CUdeviceptr)(uintptr_t)p};
}

static struct end device(CUdeviceptr p)
{
    return (struct end){.type = CU_MEMORYTYPE_DEVICE, .address = p};
}

static struct end array(CUarray a, size_t offset)
{
    return (struct end){.type = CU_MEMORYTYPE_ARRAY, .array = a, .offset = offset};
}

/* Memory that is not known is host memory: unified addressing covers all of the process. */
static struct end any(CUdeviceptr p)
{
    struct gs_sim_range r;
    if (gs_memory_find(p, &r) || r.kind == GS_SIM_RANGE_HOST || r.kind == GS_SIM_RANGE_REGISTERED)
        return host((const void *)(uintptr_t)p);
    return device(p);
}

/* A linear copy touches an array's rows as if they were one. */
static CUresult flatten(struct end *e, size_t n)
{
    if (e->type != CU_MEMORYTYPE_ARRAY)
        return CUDA_SUCCESS;
    const struct gs_sim_array *a = gs_array_get(e->array);
    if (!a)
        return CUDA_ERROR_INVALID_HANDLE;
    if (e->offset > a->bytes || n > a->bytes - e->offset)
        return CUDA_ERROR_INVALID_VALUE;
    e->address = (CUdeviceptr)(uintptr_t)a->base + e->offset;
    e->type = CU_MEMORYTYPE_UNIFIED;
    return CUDA_SUCCESS;
}

static CUresult copy(struct end to, struct end from, size_t n, struct gs_sim_order order)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!n)
        return CUDA_SUCCESS;
    CUresult rc = flatten(&to, n);
    if (!rc)
        rc = flatten(&from, n);
    if (rc)
        return rc;
    CUDA_MEMCPY3D c = {.srcMemoryType = from.type,
                       .srcHost = (const void *)(uintptr_t)from.address,
                       .srcDevice = from.address,
                       .dstMemoryType = to.type,
                       .dstHost = (void *)(uintptr_t)to.address,
                       .dstDevice = to.address,
                       .WidthInBytes = n,
                       .Height = 1,
                       .Depth = 1};
    return gs_copy_call(&c, order);
}

#define SYNC       ((struct gs_sim_order){NULL, 0})
#define ON(stream) ((struct gs_sim_order){(stream), 1})
/* One exported copy: parameters, ends, order. */
#define COPY(name, params, to, from, n, order)                                                     \
    CUresult name params                                                                           \
    {                                                                                              \
        GS_SIM_ENTRY;                                                                              \
        return copy(to, from, n, order);                                                           \
    }

COPY(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t n), any(dst), any(src), n, SYNC)
COPY(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s), any(dst), any(src), n,
     ON(s))
COPY(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src, size_t n), device(dst), host(src), n, SYNC)
COPY(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src, size_t n, CUstream s), device(dst),
     host(src), n, ON(s))
COPY(cuMemcpyDtoH_v2, (void *dst, CUdeviceptr src, size_t n), host(dst), device(src), n, SYNC)
COPY(cuMemcpyDtoHAsync_v2, (void *dst, CUdeviceptr src, size_t n, CUstream s), host(dst),
     device(src), n, ON(s))
COPY(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n), device(dst), device(src), n,
     SYNC)
COPY(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s), device(dst),
     device(src), n, ON(s))
COPY(cuMemcpyAtoA_v2, (CUarray dst, size_t to, CUarray src, size_t from, size_t n), array(dst, to),
     array(src, from), n, SYNC)
COPY(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src, size_t from, size_t n), device(dst),
     array(src, from), n, SYNC)
COPY(cuMemcpyDtoA_v2, (CUarray dst, size_t to, CUdeviceptr src, size_t n), array(dst, to),
     device(src), n, SYNC)
COPY(cuMemcpyAtoH_v2, (void *dst, CUarray src, size_t from, size_t n), host(dst), array(src, from),
     n, SYNC)
COPY(cuMemcpyAtoHAsync_v2, (void *dst, CUarray src, size_t from, size_t n, CUstream s), host(dst),
     array(src, from), n, ON(s))
COPY(cuMemcpyHtoA_v2, (CUarray dst, size_t to, const void *src, size_t n), array(dst, to),
     host(src), n, SYNC)
COPY(cuMemcpyHtoAAsync_v2, (CUarray dst, size_t to, const void *src, size_t n, CUstream s),
     array(dst, to), host(src), n, ON(s))

/* Forms of before CUDA 3.2; their addresses have 32 bits, so that only low memory can be named. */
COPY(cuMemcpyHtoD, (CUdeviceptr_v1 dst, const void *src, unsigned int n), device(dst), host(src), n,
     SYNC)
COPY(cuMemcpyHtoDAsync, (CUdeviceptr_v1 dst, const void *src, unsigned int n, CUstream s),
     device(dst), host(src), n, ON(s))
COPY(cuMemcpyDtoH, (void *dst, CUdeviceptr_v1 src, unsigned int n), host(dst), device(src), n, SYNC)
COPY(cuMemcpyDtoHAsync, (void *dst, CUdeviceptr_v1 src, unsigned int n, CUstream s), host(dst),
     device(src), n, ON(s))
COPY(cuMemcpyDtoD, (CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int n), device(dst),
     device(src), n, SYNC)
COPY(cuMemcpyDtoDAsync, (CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int n, CUstream s),
     device(dst), device(src), n, ON(s))

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                      CUcontext srcContext, size_t ByteCount)
{
    GS_SIM_ENTRY;
    (void)dstContext, (void)srcContext; /* all cards are mapped side by side */
    return copy(device(dstDevice), device(srcDevice), ByteCount, SYNC);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
    GS_SIM_ENTRY;
    (void)dstContext, (void)srcContext;
    return copy(device(dstDevice), device(srcDevice), ByteCount, ON(hStream));
}
