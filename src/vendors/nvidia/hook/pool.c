#include "vendors/nvidia/hook/pool.h"

#include <errno.h>
#include <stddef.h>

#include "hook/track.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/graph.h"
#include "vendors/nvidia/hook/meter.h"
#include "vendors/nvidia/hook/pool_map.h"
#include "vendors/nvidia/hook/pool_ptr.h"
#include "vendors/nvidia/hook/stream.h"

/* Bodies of the stream-ordered allocator. A pool's charge is what it has reserved on the card, not
 * what its pointers use; the pointers tell where there is room left (pool_map.h). */

/* Real pools take 32 MiB for a small request (RESERVED_MEM_CURRENT after the first allocation,
 * drivers 470 to 550) and what a large one needs. Assumed until this card has shown its own way: a
 * slice with less room than that cannot start a pool, as on a card with less memory. */
#define USUAL_CHUNK (32ull << 20)

/* What was learnt, per ordinal: 0 nothing yet. */
static uint64_t small_chunk[GS_DEVICE_ORDINALS]; /* most that a small request made a pool grow by */
static uint64_t large_step[GS_DEVICE_ORDINALS];  /* large requests are rounded up to this */
static uint32_t mistrusted[GS_DEVICE_ORDINALS];  /* the driver grew a pool where a hole was seen */

struct request {
    gs_fn_cuMemAllocAsync *plain; /* one of the two is set */
    gs_fn_cuMemAllocFromPoolAsync *pooled;
    CUdeviceptr *dptr;
    uint64_t bytes;
    CUmemoryPool pool;
    CUstream stream;
    const char *what;
};

static CUresult forward(const struct request *r)
{
    return r->plain != NULL ? r->plain(r->dptr, r->bytes, r->stream)
                            : r->pooled(r->dptr, r->bytes, r->pool, r->stream);
}

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    uint64_t rest = bytes % step;

    if (rest == 0)
        return bytes;
    return bytes > UINT64_MAX - (step - rest) ? UINT64_MAX : bytes + (step - rest);
}

/* The most that the pool may grow by for this request. */
static uint64_t worst_case(const struct gs_device *device, uint64_t bytes)
{
    uint64_t least = gs_device_round(device, bytes);
    uint64_t chunk = __atomic_load_n(&small_chunk[device->ordinal], __ATOMIC_RELAXED);
    uint64_t step = __atomic_load_n(&large_step[device->ordinal], __ATOMIC_RELAXED);

    if (bytes > USUAL_CHUNK)
        return step == 0 ? least : round_up(least, step);
    if (chunk == 0)
        chunk = gs_device_round(device, USUAL_CHUNK);
    return least > chunk ? least : chunk;
}

/* Learn from a request that alone made the pool grow by `grown`. */
static void learn(const struct gs_device *device, uint64_t bytes, uint64_t grown)
{
    uint64_t least = gs_device_round(device, bytes);
    uint64_t step = device->granularity;

    if (grown < least)
        return; /* some of it was there */
    if (bytes <= USUAL_CHUNK) {
        if (grown > __atomic_load_n(&small_chunk[device->ordinal], __ATOMIC_RELAXED))
            __atomic_store_n(&small_chunk[device->ordinal], grown, __ATOMIC_RELAXED);
        return;
    }
    while (step < grown && round_up(least, step) < grown)
        step *= 2;
    if (step > __atomic_load_n(&large_step[device->ordinal], __ATOMIC_RELAXED))
        __atomic_store_n(&large_step[device->ordinal], step, __ATOMIC_RELAXED);
}

/* No room for growth, but for this request within what the pool has? Then the driver is asked
 * without a reservation; should it grow the pool all the same, that is undone and not tried again.
 */
static bool fits_inside(const struct request *r, const struct gs_device *device, struct gs_meter m)
{
    const struct gs_driver *driver = gs_driver_cuda();
    uint64_t reserved;

    return __atomic_load_n(&mistrusted[device->ordinal], __ATOMIC_RELAXED) == 0 &&
           driver->cuMemPoolGetAttribute != NULL &&
           driver->cuMemPoolGetAttribute(r->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                         &reserved) == CUDA_SUCCESS &&
           gs_pool_map_has_hole(m, reserved, r->bytes);
}

/* The pool had to grow beyond the limit: take the allocation back. */
static CUresult undo(const struct request *r, struct gs_meter m)
{
    const struct gs_driver *driver = gs_driver_cuda();

    if (driver->cuMemFreeAsync != NULL)
        (void)driver->cuMemFreeAsync(*r->dptr, r->stream); /* else it stays charged */
    if (driver->cuMemPoolTrimTo != NULL)
        (void)driver->cuMemPoolTrimTo(r->pool, 0); /* the settle tells what came back */
    (void)gs_meter_settle(m, 0, NULL);             /* without `what` it cannot fail */
    gs_meter_freed();
    *r->dptr = 0;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The driver has given the memory: books, and what there is to learn. */
static CUresult book(const struct request *r, const struct gs_device *device, struct gs_meter m,
                     const struct gs_obj *before, uint64_t reserved)
{
    struct gs_obj after;
    int rc = gs_meter_settle(m, reserved, r->what);
    int noted = rc == 0 ? gs_pool_ptr_note(*r->dptr, r->bytes, m, device) : 0;

    if (rc != 0 && reserved == 0)
        __atomic_store_n(&mistrusted[device->ordinal], 1, __ATOMIC_RELAXED);
    /* Growth has one cause where no other call was under way since before. */
    if (gs_track_get(m.kind, m.key, &after) && after.refs == before->refs + 1 && before->aux == 0 &&
        after.aux == 0 && after.bytes > before->bytes) {
        learn(device, r->bytes, after.bytes - before->bytes);
        if (rc == 0 && noted == 0) /* after the pointer: an empty chunk may be forgotten */
            gs_pool_map_grew(m, *r->dptr, after.bytes - before->bytes);
    }
    if (rc != 0 || noted != 0)
        return undo(r, m);
    return CUDA_SUCCESS;
}

/* Near the limit. False: no hole that can be relied on. */
static bool alloc_in_hole(const struct request *r, const struct gs_device *device,
                          struct gs_meter m, const struct gs_obj *pool, CUresult *ret_result)
{
    bool fits;

    if (!gs_pool_map_enter_alone())
        return false;
    fits = fits_inside(r, device, m);
    if (fits) {
        *ret_result = forward(r);
        *ret_result = *ret_result == CUDA_SUCCESS
                          ? book(r, device, m, pool, 0)
                          : gs_device_refused(*ret_result, pool->dev, r->bytes, r->what);
    }
    gs_pool_map_leave_alone();
    return fits;
}

static CUresult alloc_charged(const struct request *r, const struct gs_device *device,
                              struct gs_meter m, const struct gs_obj *pool)
{
    uint64_t worst = worst_case(device, r->bytes);
    struct gs_obj before;
    CUresult result;
    bool entered;
    int rc;

    if (!gs_meter_has_room(pool->dev, worst) && alloc_in_hole(r, device, m, pool, &result))
        return result;
    rc = gs_meter_reserve(m, pool->dev, worst, r->what);
    if (rc != 0)
        return gs_device_result(rc);
    entered = gs_pool_map_enter();
    if (!gs_track_get(m.kind, m.key, &before))
        before = *pool; /* destroyed meanwhile: the driver says so */
    before.bytes -= before.bytes < worst ? before.bytes : worst;
    before.aux -= before.aux < worst ? before.aux : worst;
    result = forward(r);
    if (result == CUDA_SUCCESS) {
        result = book(r, device, m, &before, worst);
    } else {
        gs_meter_cancel(m, worst);
        result = gs_device_refused(result, pool->dev, r->bytes, r->what);
    }
    gs_pool_map_leave(entered);
    return result;
}

static bool is_host(CUmemLocationType type)
{
    return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* Which card an unknown pool is on; NULL with *ret_exempt set for host memory. */
static const struct gs_device *pool_device(CUmemoryPool pool, const struct gs_device *here,
                                           bool *ret_exempt)
{
    const struct gs_driver *driver = gs_driver_cuda();
    uint64_t type = CU_MEM_LOCATION_TYPE_DEVICE, id = 0;
    CUmemoryPool other;
    int n = 0;

    *ret_exempt = false;
    /* Both attributes came with CUDA 13, and host pools that a program has not made with it. */
    if (driver->cuMemPoolGetAttribute != NULL &&
        driver->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_LOCATION_TYPE, &type) == CUDA_SUCCESS &&
        driver->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_LOCATION_ID, &id) == CUDA_SUCCESS) {
        *ret_exempt = is_host((CUmemLocationType)(uint32_t)type);
        if ((uint32_t)type == CU_MEM_LOCATION_TYPE_DEVICE)
            return gs_device_by_ordinal((CUdevice)(uint32_t)id);
        return *ret_exempt ? NULL : here;
    }
    if (driver->cuDeviceGetCount == NULL || driver->cuDeviceGetDefaultMemPool == NULL ||
        driver->cuDeviceGetCount(&n) != CUDA_SUCCESS)
        return here;
    for (CUdevice i = 0; i < n; i++)
        if (driver->cuDeviceGetDefaultMemPool(&other, i) == CUDA_SUCCESS && other == pool)
            return gs_device_by_ordinal(i);
    return here;
}

static CUresult alloc_from(const struct request *r, const struct gs_device *here)
{
    struct gs_meter m = {GS_OBJ_POOL, (uint64_t)(uintptr_t)r->pool};
    const struct gs_device *device;
    struct gs_obj pool;

    if (!gs_track_get(m.kind, m.key, &pool)) {
        bool exempt;

        device = pool_device(r->pool, here, &exempt);
        if (gs_meter_open(m, device, exempt ? GS_METER_EXEMPT : 0) != 0)
            return CUDA_ERROR_OUT_OF_MEMORY;
        if (!gs_track_get(m.kind, m.key, &pool))
            return forward(r); /* destroyed meanwhile: the driver says so */
    }
    if ((pool.flags & GS_METER_EXEMPT) != 0)
        return forward(r);
    device = gs_device_known(GS_METER_ORDINAL(pool.flags));
    return alloc_charged(r, device == NULL ? here : device, m, &pool);
}

CUresult gs_nv_mem_alloc_async(gs_fn_cuMemAllocAsync *real, CUdeviceptr *dptr, size_t bytesize,
                               CUstream hStream)
{
    const struct gs_driver *driver = gs_driver_cuda();
    struct request r = {real, NULL, dptr, bytesize, NULL, hStream, "cuMemAllocAsync"};
    const struct gs_device *device;
    CUresult result;

    if (dptr == NULL || bytesize == 0 || (device = gs_stream_device(hStream)) == NULL)
        return forward(&r);
    if (gs_stream_is_capturing(hStream, real == driver->cuMemAllocAsync_ptsz)) {
        result = gs_graph_capture_alloc(device, bytesize, r.what);
        return result != CUDA_SUCCESS ? result : forward(&r);
    }
    /* from a pool that cannot be named memory would be taken that nobody counts */
    if (driver->cuDeviceGetMemPool == NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    result = driver->cuDeviceGetMemPool(&r.pool, device->ordinal);
    return result != CUDA_SUCCESS ? result : alloc_from(&r, device);
}

CUresult gs_nv_mem_alloc_from_pool_async(gs_fn_cuMemAllocFromPoolAsync *real, CUdeviceptr *dptr,
                                         size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    const struct gs_driver *driver = gs_driver_cuda();
    struct request r = {NULL, real, dptr, bytesize, pool, hStream, "cuMemAllocFromPoolAsync"};
    const struct gs_device *device;

    if (dptr == NULL || bytesize == 0 || (device = gs_stream_device(hStream)) == NULL)
        return forward(&r);
    if (gs_stream_is_capturing(hStream, real == driver->cuMemAllocFromPoolAsync_ptsz)) {
        CUresult result = gs_graph_capture_alloc(device, bytesize, r.what);

        return result != CUDA_SUCCESS ? result : forward(&r);
    }
    return alloc_from(&r, device);
}

CUresult gs_nv_mem_pool_create(gs_fn_cuMemPoolCreate *real, CUmemoryPool *pool,
                               const CUmemPoolProps *poolProps)
{
    const struct gs_driver *driver = gs_driver_cuda();
    const struct gs_device *device = NULL;
    struct gs_device_here here;
    CUresult result = real(pool, poolProps);
    uint32_t flags = 0;
    struct gs_meter m;

    if (result != CUDA_SUCCESS || pool == NULL || poolProps == NULL)
        return result;
    if (is_host(poolProps->location.type))
        flags |= GS_METER_EXEMPT;
    else if (poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        device = gs_device_by_ordinal(poolProps->location.id);
    else if (gs_device_current(&here) == 0) /* managed without a preferred place */
        device = here.device;
    m = (struct gs_meter){GS_OBJ_POOL, (uint64_t)(uintptr_t)*pool};
    if (gs_meter_open(m, device, flags) != 0) {
        if (driver->cuMemPoolDestroy != NULL)
            (void)driver->cuMemPoolDestroy(*pool); /* out of memory either way */
        *pool = NULL;
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult gs_nv_mem_pool_destroy(gs_fn_cuMemPoolDestroy *real, CUmemoryPool pool)
{
    struct gs_meter m = {GS_OBJ_POOL, (uint64_t)(uintptr_t)pool};
    struct gs_obj obj;
    CUresult result;

    (void)gs_meter_settle(m, 0, NULL); /* last chance to ask; without `what` it cannot fail */
    if (!gs_track_take(m.kind, m.key, &obj))
        return real(pool);
    result = real(pool);
    if (result != CUDA_SUCCESS) {
        if (gs_track_put(m.kind, m.key, &obj) != 0)
            gs_gate_release(obj.dev, obj.bytes, GS_CHARGE_HELD); /* can no longer be followed */
        return result;
    }
    if ((obj.flags & GS_METER_EXEMPT) == 0)
        gs_pool_ptr_orphan(m, &obj);
    return result;
}

CUresult gs_nv_mem_pool_set_attribute(gs_fn_cuMemPoolSetAttribute *real, CUmemoryPool pool,
                                      CUmemPool_attribute attr, void *value)
{
    struct gs_meter m = {GS_OBJ_POOL, (uint64_t)(uintptr_t)pool};
    CUresult result = real(pool, attr, value);

    /* A lower release threshold may let memory go at the next synchronisation. */
    if (result == CUDA_SUCCESS && attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && gs_meter_any()) {
        (void)gs_meter_settle(m, 0, NULL); /* without `what` it cannot fail */
        gs_meter_freed();
    }
    return result;
}

CUresult gs_nv_mem_pool_trim_to(gs_fn_cuMemPoolTrimTo *real, CUmemoryPool pool,
                                size_t minBytesToKeep)
{
    struct gs_meter m = {GS_OBJ_POOL, (uint64_t)(uintptr_t)pool};
    CUresult result = real(pool, minBytesToKeep);

    if (gs_meter_any())
        (void)gs_meter_settle(m, 0, NULL); /* without `what` it cannot fail */
    return result;
}
