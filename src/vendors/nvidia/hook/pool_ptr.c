#include "vendors/nvidia/hook/pool_ptr.h"

#include <errno.h>
#include <stddef.h>

#include "hook/share.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/pool.h"
#include "vendors/nvidia/hook/pool_map.h"

#define GRAIN      512u /* what the driver rounds a pool's allocations to */
#define BATCH      64
#define ZOMBIE_KEY (1ull << 62) /* no handle has this bit */

static uint32_t followed; /* pointers of this module were ever noted */
static uint64_t next_zombie = 1;

/* The stream of the cuMemFreeAsync under way: lets the synchronous body free on a stream. */
static _Thread_local struct {
    gs_fn_cuMemFreeAsync *real;
    CUstream stream;
} free_async __attribute__((tls_model("initial-exec")));

int gs_pool_ptr_note(CUdeviceptr ptr, uint64_t bytes, struct gs_meter pool,
                     const struct gs_device *device)
{
    struct gs_obj obj = {
        .bytes = bytes > UINT64_MAX - GRAIN ? bytes : (bytes + GRAIN - 1) / GRAIN * GRAIN,
        .aux = pool.key,
        .dev = device->ledger,
        .share = -1,
    };

    __atomic_store_n(&followed, 1, __ATOMIC_RELAXED);
    return gs_track_put(GS_OBJ_ASYNC, ptr, &obj);
}

struct pointers {
    uint64_t pool;
    uint32_t n;
    uint64_t total;
    uint64_t key[BATCH];
};

static void collect(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct pointers *p = arg;

    if (obj->aux != p->pool)
        return;
    if (p->n < BATCH)
        p->key[p->n++] = key;
    p->total++;
}

static int set_aux(struct gs_obj *obj, void *arg)
{
    obj->aux = *(uint64_t *)arg;
    return 0;
}

void gs_pool_ptr_orphan(struct gs_meter pool, const struct gs_obj *obj)
{
    uint64_t zombie = ZOMBIE_KEY | __atomic_fetch_add(&next_zombie, 1, __ATOMIC_RELAXED);
    struct pointers p = {.pool = pool.key};
    struct gs_obj dead = *obj;

    gs_pool_map_forget(pool);
    gs_track_each(GS_OBJ_ASYNC, collect, &p);
    dead.flags |= GS_METER_ZOMBIE;
    dead.refs = (uint32_t)p.total;
    dead.aux = 0;
    if (p.total == 0 || gs_track_put(GS_OBJ_POOL, zombie, &dead) != 0) {
        gs_gate_release(obj->dev, obj->bytes, GS_CHARGE_HELD);
        return;
    }
    while (p.n != 0) {
        for (uint32_t i = 0; i < p.n; i++)
            (void)gs_track_update(GS_OBJ_ASYNC, p.key[i], set_aux,
                                  &zombie); /* freed: none to mark */
        p.n = 0;
        gs_track_each(GS_OBJ_ASYNC, collect, &p);
    }
}

struct shared {
    uint64_t pool;
    uint64_t start;
    uint64_t bytes;
    bool found;
};

static void find_shared(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct shared *s = arg;

    if (obj->aux == s->pool && obj->refs != 0 && key >= s->start && key - s->start < s->bytes)
        s->found = true;
}

/* Does an exported pointer answer for this chunk already? */
static bool is_shared(struct gs_meter pool, uint64_t start, uint64_t bytes)
{
    struct shared s = {pool.key, start, bytes, false};

    gs_track_each(GS_OBJ_ASYNC, find_shared, &s);
    return s.found;
}

static int drop_ref(struct gs_obj *obj, void *arg)
{
    if (obj->refs > 1) {
        obj->refs--;
        return 0;
    }
    *(uint64_t *)arg = obj->bytes;
    return GS_TRACK_REMOVE;
}

/* The driver has freed a followed pointer. */
static void gone(const struct gs_obj *obj)
{
    struct gs_meter pool = {GS_OBJ_POOL, obj->aux};
    uint64_t bytes = 0;

    gs_meter_freed();
    if (obj->share >= 0) {
        /* The pool still holds the page: back into its charge before the share goes. */
        gs_meter_shared(pool, (uint64_t)obj->refs * GRAIN, false);
        (void)gs_meter_settle(pool, 0, NULL); /* without `what` it cannot fail */
        gs_share_leave(obj->share);
    }
    if ((obj->aux & ZOMBIE_KEY) != 0 &&
        gs_track_update(GS_OBJ_POOL, obj->aux, drop_ref, &bytes) == GS_TRACK_REMOVE)
        gs_gate_release(obj->dev, bytes, GS_CHARGE_HELD);
}

static CUresult on_stream(CUdeviceptr ptr)
{
    return free_async.real(ptr, free_async.stream);
}

/* After a synchronous free the pools may have shrunk at once. */
static void look_after(gs_fn_cuMemFree_v2 *real)
{
    struct gs_device_here here;

    gs_meter_freed();
    if (real != on_stream && gs_device_current(&here) == 0)
        gs_pool_reconcile(here.device->ledger);
}

bool gs_pool_free_sync(gs_fn_cuMemFree_v2 *real, CUdeviceptr ptr, CUresult *ret_result)
{
    enum gs_obj_kind kind = GS_OBJ_ASYNC;
    struct gs_obj obj;
    bool known = false, entered;

    if (__atomic_load_n(&followed, __ATOMIC_RELAXED) == 0 && !gs_meter_any())
        return false;
    /* Taken before the call, because the driver may hand the same address out again within it. */
    entered = gs_pool_map_enter();
    known = gs_track_take(GS_OBJ_ASYNC, ptr, &obj);
    if (!known && gs_track_get(GS_OBJ_IMPORT, ptr, &obj) && (obj.flags & GS_IMPORT_POOL) != 0) {
        kind = GS_OBJ_IMPORT;
        known = gs_track_take(kind, ptr, &obj);
    }
    *ret_result = real(ptr);
    gs_pool_map_leave(entered);
    if (*ret_result != CUDA_SUCCESS) {
        if (known && gs_track_put(kind, ptr, &obj) != 0 && kind == GS_OBJ_IMPORT)
            gs_share_leave(obj.share); /* can no longer be followed */
        return true;
    }
    if (known && kind == GS_OBJ_ASYNC)
        gone(&obj);
    else if (known)
        gs_share_leave(obj.share);
    look_after(real);
    return true;
}

CUresult gs_nv_mem_free_async(gs_fn_cuMemFreeAsync *real, CUdeviceptr dptr, CUstream hStream)
{
    /* A synchronous allocation may be freed this way too, so the body of cuMemFree does it all,
     * with the stream put where its call finds it. */
    free_async.real = real;
    free_async.stream = hStream;
    return gs_nv_mem_free(on_stream, dptr);
}

struct mark {
    int32_t share;
    uint32_t grains;
};

static int set_share(struct gs_obj *obj, void *arg)
{
    const struct mark *mark = arg;

    obj->share = mark->share;
    obj->refs = mark->grains;
    return 0;
}

/* Bytes that stay on the card with an exported pointer: its chunk, which the first exported pointer
 * of the chunk answers for. */
static uint64_t kept_by(struct gs_meter pool, CUdeviceptr ptr, const struct gs_obj *obj)
{
    const struct gs_device *device;
    struct gs_obj meter;
    uint64_t start, bytes = gs_pool_map_chunk(pool, ptr, &start);

    if (bytes != 0)
        return is_shared(pool, start, bytes) ? 0 : bytes;
    if (!gs_track_get(pool.kind, pool.key, &meter) ||
        (device = gs_device_known(GS_METER_ORDINAL(meter.flags))) == NULL)
        return obj->bytes;
    return gs_device_round(device, obj->bytes);
}

CUresult gs_nv_mem_pool_export_pointer(gs_fn_cuMemPoolExportPointer *real,
                                       CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    CUresult result = real(shareData_out, ptr);
    struct gs_meter pool = {GS_OBJ_POOL, 0};
    struct gs_obj obj;
    struct mark mark;
    uint64_t bytes;

    if (result != CUDA_SUCCESS || shareData_out == NULL || !gs_track_get(GS_OBJ_ASYNC, ptr, &obj) ||
        obj.share >= 0 || (obj.aux & ZOMBIE_KEY) != 0)
        return result;
    pool.key = obj.aux;
    bytes = kept_by(pool, ptr, &obj);
    mark.share =
        gs_share_publish(obj.dev, bytes, gs_share_key_of(shareData_out, sizeof(*shareData_out)));
    if (mark.share < 0)
        return result; /* no room in the table: the charge stays with this process */
    mark.grains = (uint32_t)(bytes / GRAIN);
    gs_meter_shared(pool, bytes, true);
    (void)gs_track_update(GS_OBJ_ASYNC, ptr, set_share,
                          &mark);         /* freed meanwhile: a caller's race */
    (void)gs_meter_settle(pool, 0, NULL); /* without `what` it cannot fail */
    return result;
}

CUresult gs_nv_mem_pool_import_pointer(gs_fn_cuMemPoolImportPointer *real, CUdeviceptr *ptr_out,
                                       CUmemoryPool pool, CUmemPoolPtrExportData *shareData)
{
    struct gs_obj obj = {.refs = 1, .share = -1, .flags = GS_IMPORT_POOL};
    CUresult result;

    if (shareData != NULL) /* before the call: the exporter may die within it */
        obj.share = gs_share_join(gs_share_key_of(shareData, sizeof(*shareData)));
    result = real(ptr_out, pool, shareData);
    if (obj.share < 0)
        return result; /* nobody in this slice made it */
    __atomic_store_n(&followed, 1, __ATOMIC_RELAXED);
    /* If it cannot be followed, the exporter keeps the charge. */
    if (result != CUDA_SUCCESS || ptr_out == NULL ||
        gs_track_put(GS_OBJ_IMPORT, *ptr_out, &obj) != 0)
        gs_share_leave(obj.share);
    return result;
}

CUresult gs_nv_mem_pool_export(gs_fn_cuMemPoolExportToShareableHandle *real, void *handle_out,
                               CUmemoryPool pool, CUmemAllocationHandleType handleType,
                               unsigned long long flags)
{
    /* The pool itself is not what changes hands: each pointer is published when it is exported. */
    return real(handle_out, pool, handleType, flags);
}

CUresult gs_nv_mem_pool_import(gs_fn_cuMemPoolImportFromShareableHandle *real,
                               CUmemoryPool *pool_out, void *handle,
                               CUmemAllocationHandleType handleType, unsigned long long flags)
{
    CUresult result = real(pool_out, handle, handleType, flags);
    struct gs_meter m = {GS_OBJ_POOL, 0};

    if (result != CUDA_SUCCESS || pool_out == NULL)
        return result;
    /* Its memory is the exporter's, and nothing can be allocated from it: known as not charged.
     * Should that not be noted, nothing else changes. */
    m.key = (uint64_t)(uintptr_t)*pool_out;
    if (gs_meter_open(m, NULL, GS_METER_EXEMPT) != 0)
        gs_meter_freed();
    return result;
}
