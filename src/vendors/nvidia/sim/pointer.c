/* What is known of an address. */

#include <string.h>

#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/pool.h"
#include "vendors/nvidia/sim/vmm.h"

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    GS_SIM_ENTER_CTX(ctx);
    struct gs_sim_range r;
    if (gs_memory_find(dptr, &r))
        return CUDA_ERROR_NOT_FOUND;
    if (pbase)
        *pbase = r.start;
    if (psize)
        *psize = r.kind == GS_SIM_RANGE_MAPPED ? r.length : r.size;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult rc = cuMemGetAddressRange_v2(&base, &size, dptr);
    if (rc)
        return rc;
    if (pbase)
        *pbase = (CUdeviceptr_v1)base;
    if (psize)
        *psize = size > UINT32_MAX ? UINT32_MAX : (unsigned int)size;
    return CUDA_SUCCESS;
}

static int is_host(const struct gs_sim_range *r)
{
    return r->kind == GS_SIM_RANGE_HOST || r->kind == GS_SIM_RANGE_REGISTERED ||
           (r->kind == GS_SIM_RANGE_POOL && r->card == GS_SIM_NONE);
}

static void put(void *data, const void *value, size_t n)
{
    memcpy(data, value, n);
}

static void put_u32(void *data, uint32_t v)
{
    put(data, &v, sizeof(v));
}

static void put_u64(void *data, uint64_t v)
{
    put(data, &v, sizeof(v));
}

/* Attributes that are flags (unsigned int or bool, both read as their first byte or word). */
static CUresult flag_attribute(void *data, CUpointer_attribute a, const struct gs_sim_range *r)
{
    unsigned char yes = 1;
    switch (a) {
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        put_u32(data, r->kind == GS_SIM_RANGE_MANAGED);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        put_u32(data, 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        yes = r->kind == GS_SIM_RANGE_DEVICE;
        put(data, &yes, 1);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        put(data, &yes, 1);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        yes = 0;
        put(data, &yes, 1);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        put_u64(data,
                r->kind == GS_SIM_RANGE_MAPPED || r->kind == GS_SIM_RANGE_POOL ? r->flags : 0);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        put_u32(data, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult attribute(void *data, CUpointer_attribute a, CUdeviceptr ptr,
                          const struct gs_sim_range *r)
{
    switch (a) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        /* Memory of no context (pools, mappings) answers with none. */
        put_u64(data, (uintptr_t)r->ctx);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        put_u32(data, is_host(r) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        put_u64(data, ptr);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!is_host(r) && r->kind != GS_SIM_RANGE_MANAGED)
            return CUDA_ERROR_INVALID_VALUE;
        put_u64(data, ptr);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        put_u64(data, r->buffer_id);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        put_u32(data, (uint32_t)r->device);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        put_u64(data, r->start);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        put_u64(data, r->kind == GS_SIM_RANGE_MAPPED ? r->length : r->size);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        put_u64(data, r->kind == GS_SIM_RANGE_POOL ? (uintptr_t)r->owner : 0);
        return CUDA_SUCCESS;
    default:
        return flag_attribute(data, a, r);
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute a, CUdeviceptr ptr)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_range r;
    if (!data)
        return CUDA_ERROR_INVALID_VALUE;
    if (gs_memory_find(ptr, &r))
        return CUDA_ERROR_INVALID_VALUE;
    return attribute(data, a, ptr, &r);
}

/* Bytes an attribute takes: what an unknown address answers is that many zero bytes. */
static size_t attribute_bytes(CUpointer_attribute a)
{
    switch (a) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        return 4;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return 1;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
        return 16;
    default:
        return 8;
    }
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr ptr)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_range r;
    if (!numAttributes || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    int known = !gs_memory_find(ptr, &r);
    for (unsigned int i = 0; i < numAttributes; i++) {
        if (!data[i])
            return CUDA_ERROR_INVALID_VALUE;
        if (known && !attribute(data[i], attributes[i], ptr, &r))
            continue;
        memset(data[i], 0, attribute_bytes(attributes[i]));
        if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            put_u32(data[i], (uint32_t)-2); /* CU_DEVICE_INVALID */
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute a, CUdeviceptr ptr)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_range r;
    if (!value || a != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || gs_memory_find(ptr, &r))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS; /* copies are complete when they return */
}
