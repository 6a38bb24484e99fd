/* Exported functions on pools, except sharing (pool_share.c). */

#include <string.h>

#include "vendors/nvidia/sim/capture_link.h"
#include "vendors/nvidia/sim/graph_memory.h"
#include "vendors/nvidia/sim/pool.h"
#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/stream.h"

static CUresult capture_alloc(struct gs_sim_ctx *ctx, CUstream stream, size_t bytes,
                              CUdeviceptr *dptr)
{
    CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    node.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    node.alloc.poolProps.location =
        (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ctx->device};
    node.alloc.bytesize = bytes;
    CUresult rc = gs_capture_add(stream, &node, NULL);
    if (!rc)
        *dptr = node.alloc.dptr;
    return rc;
}

static CUresult alloc_async(struct gs_sim_ctx *ctx, CUdeviceptr *dptr, size_t bytes,
                            CUmemoryPool pool, CUstream stream)
{
    if (!dptr || !bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (gs_stream_is_capturing(stream))
        return capture_alloc(ctx, stream, bytes, dptr);
    CUresult rc = gs_stream_submit(stream, GS_STREAM_NOTHING, 0);
    if (rc)
        return rc;
    gs_process_lock();
    struct gs_sim_pool *p = pool ? gs_pool_get(pool) : gs_pool_current(ctx->device);
    if (!p || p->is_imported)
        rc = pool ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    else
        rc = gs_pool_take(p, bytes, dptr);
    gs_process_unlock();
    return rc;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    GS_SIM_ENTER_CTX(ctx);
    return alloc_async(ctx, dptr, bytesize, NULL, hStream);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream)
{
    GS_SIM_ENTER_CTX(ctx);
    return pool ? alloc_async(ctx, dptr, bytesize, pool, hStream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!dptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (gs_stream_is_capturing(hStream)) {
        CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE};
        node.free.dptr = dptr;
        return gs_capture_add(hStream, &node, NULL);
    }
    CUresult rc = gs_stream_submit(hStream, GS_STREAM_NOTHING, 0);
    if (!rc)
        rc = gs_pool_free(dptr);
    /* Plain memory may be freed in stream order too, and a graph's. */
    if (rc == CUDA_ERROR_INVALID_VALUE)
        rc = gs_memory_free(dptr);
    return rc == CUDA_ERROR_INVALID_VALUE && gs_graph_memory_free(dptr) ? CUDA_SUCCESS : rc;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    GS_SIM_ENTER_READY();
    if (!pool || !poolProps || poolProps->allocType == CU_MEM_ALLOCATION_TYPE_INVALID)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)poolProps->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
        CUresult rc = gs_context_check_device(poolProps->location.id);
        if (rc)
            return rc;
    }
    gs_process_lock();
    struct gs_sim_pool *p = gs_pool_new(poolProps);
    gs_process_unlock();
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pool = (CUmemoryPool)p;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    GS_SIM_ENTER_READY();
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    struct gs_sim_pool *p = gs_pool_get(pool);
    if (p && !p->is_default) {
        gs_pool_destroy(p);
        rc = CUDA_SUCCESS;
    }
    gs_process_unlock();
    return rc;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    GS_SIM_ENTER_READY();
    gs_process_lock();
    struct gs_sim_pool *p = gs_pool_get(pool);
    if (p)
        (void)gs_pool_trim(p, minBytesToKeep);
    gs_process_unlock();
    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_word(const struct gs_sim_pool *p, CUmemPool_attribute attr, uint32_t *v)
{
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *v = p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_ALLOCATION_TYPE:
        *v = p->props.allocType;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES:
        *v = p->props.handleTypes;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_LOCATION_ID:
        *v = (uint32_t)p->props.location.id;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_LOCATION_TYPE:
        *v = p->props.location.type;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED:
        *v = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult get_size(const struct gs_sim_pool *p, CUmemPool_attribute attr, uint64_t *v)
{
    switch (attr) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        *v = p->threshold;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        *v = p->reserved;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        *v = p->reserved_high;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        *v = p->used;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        *v = p->used_high;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_MAX_POOL_SIZE:
        *v = p->max_bytes;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    GS_SIM_ENTER_READY();
    uint64_t size = 0;
    uint32_t word = 0;
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    if (!value)
        return rc;
    gs_process_lock();
    const struct gs_sim_pool *p = gs_pool_get(pool);
    if (p && !get_size(p, attr, &size)) {
        memcpy(value, &size, sizeof(size));
        rc = CUDA_SUCCESS;
    } else if (p && !get_word(p, attr, &word)) {
        memcpy(value, &word, sizeof(word));
        rc = CUDA_SUCCESS;
    }
    gs_process_unlock();
    return rc;
}

static CUresult set_attribute(struct gs_sim_pool *p, CUmemPool_attribute attr, const void *value)
{
    uint64_t size = 0;
    uint32_t word = 0;
    if (attr >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
        attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
        memcpy(&word, value, sizeof(word));
        p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = word != 0;
        return CUDA_SUCCESS;
    }
    memcpy(&size, value, sizeof(size));
    if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
        p->threshold = size;
        return CUDA_SUCCESS;
    }
    /* The high marks can only be set back to what is. */
    if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !size)
        p->reserved_high = p->reserved;
    else if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !size)
        p->used_high = p->used;
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    GS_SIM_ENTER_READY();
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    struct gs_sim_pool *p = gs_pool_get(pool);
    CUresult rc = p ? set_attribute(p, attr, value) : CUDA_ERROR_INVALID_VALUE;
    gs_process_unlock();
    return rc;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    GS_SIM_ENTER_READY();
    if (!map || !count)
        return CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    const struct gs_sim_pool *p = gs_pool_get(pool);
    CUresult rc = p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !rc && i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            continue;
        rc = gs_context_check_device(map[i].location.id);
        /* A pool's own device cannot lose its access. */
        if (!rc && map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && p->card != GS_SIM_NONE &&
            map[i].location.id == p->device)
            rc = CUDA_ERROR_INVALID_DEVICE;
    }
    gs_process_unlock();
    return rc;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    GS_SIM_ENTER_READY();
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    const struct gs_sim_pool *p = gs_pool_get(memPool);
    gs_process_unlock();
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE; /* all cards are mapped side by side */
    return CUDA_SUCCESS;
}

/* Pool of a place: the device's first or current one, or that of the host. */
static CUresult pool_at(CUmemoryPool *ret, const CUmemLocation *location, int current)
{
    struct gs_sim_pool *p = NULL;
    if (!ret || !location)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE) {
        CUresult rc = gs_context_check_device(location->id);
        if (rc)
            return rc;
    }
    gs_process_lock();
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        p = gs_pool_host();
    else
        p = current ? gs_pool_current(location->id) : gs_pool_default(location->id);
    gs_process_unlock();
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *ret = (CUmemoryPool)p;
    return CUDA_SUCCESS;
}

static CUmemLocation on_device(CUdevice dev)
{
    return (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev};
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    CUmemLocation location = on_device(dev);
    return pool_at(pool_out, &location, 0);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    CUmemLocation location = on_device(dev);
    return pool_at(pool, &location, 1);
}

static CUresult set_pool(CUdevice dev, CUmemoryPool pool)
{
    CUresult rc = gs_context_check_device(dev);
    if (rc)
        return rc;
    gs_process_lock();
    struct gs_sim_pool *p = gs_pool_get(pool);
    if (!p || p->is_imported)
        rc = CUDA_ERROR_INVALID_VALUE;
    else if (p->card == GS_SIM_NONE || p->device != dev)
        rc = CUDA_ERROR_INVALID_DEVICE;
    else
        gs_pool_set_current(dev, p);
    gs_process_unlock();
    return rc;
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    GS_SIM_ENTER_READY();
    return set_pool(dev, pool);
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                CUmemAllocationType type)
{
    GS_SIM_ENTER_READY();
    (void)type;
    return pool_at(pool_out, location, 0);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    GS_SIM_ENTER_READY();
    (void)type;
    return pool_at(pool, location, 1);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    GS_SIM_ENTER_READY();
    (void)type;
    if (!location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return set_pool(location->id, pool);
}
