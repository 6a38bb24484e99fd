#include "vendors/nvidia/hook/context.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "hook/attach.h"
#include "hook/gate.h"
#include "hook/learn.h"
#include "hook/ring.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/launch.h"
#include "vendors/nvidia/hook/measure.h"
#include "vendors/nvidia/hook/pool.h"

/* "Learnt: nothing" in the ledger, where 0 means "not learnt". No card gives away single bytes. */
#define LEARNT_NOTHING 1u
/* A measured cost beyond this is somebody else's allocation (only the whole card's use was known).
 */
#define CREDIBLE_BYTES (2ull << 30)
#define BASE_UNIT      512u
#define BATCH          256

/* Guards of a card's first context and of its primary context's charge. Held across the driver's
 * call: the question "is it active?" and our answer must not be torn apart by another thread.
 * Nested calls never come here. */
static struct primary {
    uint32_t lock;
    uint32_t charged;
    CUcontext context;
} primaries[GS_DEVICE_ORDINALS];

static void lock(const struct gs_device *device)
{
    /* pairs with the release in unlock */
    while (__atomic_exchange_n(&primaries[device->ordinal].lock, 1, __ATOMIC_ACQUIRE) != 0)
        (void)sched_yield();
}

static void unlock(const struct gs_device *device)
{
    __atomic_store_n(&primaries[device->ordinal].lock, 0, __ATOMIC_RELEASE);
}

void gs_context_forget(void)
{
    memset(primaries, 0, sizeof(primaries));
}

/* ---- objects of a context ---- */

struct batch {
    uint64_t serial;
    uint32_t n;
    uint64_t key[BATCH];
};

static void collect(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct batch *batch = arg;

    if (obj->aux == batch->serial && batch->n < BATCH)
        batch->key[batch->n++] = key;
}

static void return_object(enum gs_obj_kind kind, uint64_t key, const struct gs_obj *obj)
{
    if (kind == GS_OBJ_LINEAR)
        gs_linear_context_gone(key, obj);
    else
        gs_gate_release(obj->dev, obj->bytes,
                        kind == GS_OBJ_MODULE ? GS_CHARGE_EXTRA : GS_CHARGE_HELD);
}

/* The context is gone and the driver freed all that was in it. */
static void return_objects(uint64_t serial)
{
    static const enum gs_obj_kind kinds[] = {GS_OBJ_LINEAR, GS_OBJ_ARRAY, GS_OBJ_MIPMAP,
                                             GS_OBJ_MODULE};
    struct batch batch;
    struct gs_obj obj;

    for (size_t k = 0; k < GS_ARRAY_LEN(kinds); k++) {
        do {
            batch.serial = serial;
            batch.n = 0;
            gs_track_each(kinds[k], collect, &batch);
            for (uint32_t i = 0; i < batch.n; i++) {
                if (gs_track_take(kinds[k], batch.key[i], &obj))
                    return_object(kinds[k], batch.key[i], &obj);
            }
        } while (batch.n == BATCH);
    }
}

static void context_gone(const struct gs_obj *context)
{
    gs_device_contexts_changed();
    return_objects(context->aux);
    gs_gate_release(context->dev, context->bytes, GS_CHARGE_EXTRA);
}

/* ---- what one costs ---- */

/* Reserve what one context costs; where even an empty slice had no room, the log says why. */
static int reserve_cost(const struct gs_device *device, uint64_t cost, const char *what)
{
    int rc = gs_pool_reserve(device->ledger, cost, GS_CHARGE_EXTRA, what);
    uint64_t limit = gs_gate_limit(device->ledger);

    if (rc == -ENOMEM && limit < cost)
        gs_ring_log(GS_REASON_CONTEXT_OVER_LIMIT, device->ledger, what,
                    (uint64_t[4]){cost, 0, limit, 0});
    return rc;
}

/* A context about to be made. */
struct making {
    const struct gs_device *device;
    const char *what;
    uint64_t reserved;
    bool learn;    /* the cost is not known: measure */
    bool turn;     /* nobody else of the slice learns meanwhile */
    bool measured; /* `before` is there */
    bool exact;    /* what was measured was this process alone */
    struct gs_measure before;
};

/* Closed: no context, whatever one costs here. A program that allocates nothing would launch
 * kernels on it as if there were no limits. */
static bool refuse_closed(const char *what)
{
    if (GS_LIKELY(!gs_attach_is_closed()))
        return false;
    gs_ring_log(GS_REASON_CONTEXT_CLOSED, GS_DEVICE_NONE, what, NULL);
    return true;
}

static CUresult begin(struct making *making)
{
    uint32_t dev = making->device->ledger;
    uint64_t cost;

    if (refuse_closed(making->what))
        return CUDA_ERROR_OUT_OF_MEMORY;
    making->turn = gs_learn_begin(dev) > 0;
    cost = gs_gate_context_bytes(dev);
    making->learn = cost == 0;
    if (making->learn) {
        making->measured = gs_measure_take(making->device, &making->before) == 0;
        return CUDA_SUCCESS;
    }
    making->reserved = cost == LEARNT_NOTHING ? 0 : cost;
    if (making->reserved == 0)
        return CUDA_SUCCESS;
    return gs_device_result(reserve_cost(making->device, making->reserved, making->what));
}

/* What a context costs is known now, or will be found out by another. */
static void end_turn(const struct making *making)
{
    if (making->turn)
        gs_learn_end(making->device->ledger);
}

static void cancel(const struct making *making)
{
    if (making->reserved != 0)
        gs_gate_release(making->device->ledger, making->reserved, GS_CHARGE_EXTRA);
}

/* The driver did not make it. */
static CUresult refused(const struct making *making, CUresult result)
{
    cancel(making);
    return gs_device_refused(result, making->device->ledger, making->reserved, making->what);
}

/* What the card lost to the context that was just made. */
static uint64_t cost_of(struct making *making)
{
    uint32_t dev = making->device->ledger;
    struct gs_measure after;
    uint64_t base = making->before.bytes;
    uint64_t cost;

    if (!making->measured || gs_measure_take(making->device, &after) < 0)
        return 0;
    if (after.own && !making->before.own)
        base = gs_gate_own(dev, GS_CHARGE_HELD) + gs_gate_own(dev, GS_CHARGE_EXTRA);
    else if (!after.own && making->before.own)
        return 0;
    making->exact = after.own;
    cost = after.bytes > base ? after.bytes - base : 0;
    return !after.own && cost > CREDIBLE_BYTES ? 0 : cost;
}

/* The driver made it: charge it. Otherwise the caller must destroy it again. */
static CUresult finish(struct making *making)
{
    uint32_t dev = making->device->ledger;
    uint64_t cost;
    uint64_t learnt;

    if (!making->learn)
        return CUDA_SUCCESS;
    cost = cost_of(making);
    learnt = gs_gate_context_bytes(dev);
    if (learnt == 0 && making->measured)
        gs_gate_set_context_bytes(dev, cost == 0 ? LEARNT_NOTHING : cost);
    else if (learnt != 0 && !making->exact)
        cost = learnt == LEARNT_NOTHING ? 0 : learnt; /* another process was faster */
    if (cost != 0 && reserve_cost(making->device, cost, making->what) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    making->reserved = cost;
    return CUDA_SUCCESS;
}

static int add_bytes(struct gs_obj *obj, void *arg)
{
    const uint64_t *bytes = arg;

    obj->bytes += *bytes;
    obj->refs += (uint32_t)(*bytes / BASE_UNIT);
    return 0;
}

/* Book it under its handle; keeps the serial of one that was seen before it was charged. */
static int book(const struct making *making, CUcontext context)
{
    struct gs_obj obj = {
        .bytes = making->reserved,
        .dev = making->device->ledger,
        .share = -1,
        .refs = (uint32_t)(making->reserved / BASE_UNIT),
    };
    uint64_t bytes = making->reserved;

    if (gs_track_update(GS_OBJ_CONTEXT, (uintptr_t)context, add_bytes, &bytes) >= 0)
        return 0;
    obj.aux = gs_device_new_serial();
    if (gs_track_put(GS_OBJ_CONTEXT, (uintptr_t)context, &obj) == 0)
        return 0;
    gs_ring_log(GS_REASON_TRACK_FULL, obj.dev, making->what, NULL);
    return -ENOMEM;
}

/* ---- create and destroy ---- */

/* One call of one of the four forms of cuCtxCreate. */
struct creation {
    CUresult (*call)(const struct creation *creation);
    void *real;
    CUcontext *pctx;
    unsigned int flags;
    CUdevice dev;
    void *params;
    int num_params;
};

static CUresult make(const struct creation *creation, struct making *making)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUresult result = begin(making);

    if (result != CUDA_SUCCESS)
        return result;
    result = creation->call(creation);
    gs_device_contexts_changed();
    if (result != CUDA_SUCCESS)
        return refused(making, result);
    result = finish(making);
    if (result == CUDA_SUCCESS && book(making, *creation->pctx) == 0)
        return CUDA_SUCCESS;
    if (cuda->cuCtxDestroy_v2 != NULL)
        (void)cuda->cuCtxDestroy_v2(*creation->pctx); /* refused or not, it must not stay */
    cancel(making);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create(const struct creation *creation)
{
    struct making making = {.device = gs_device_by_ordinal(creation->dev), .what = "cuCtxCreate"};
    CUresult result;

    if (making.device == NULL || creation->pctx == NULL)
        return creation->call(creation);
    lock(making.device);
    result = make(creation, &making);
    end_turn(&making);
    unlock(making.device);
    return result;
}

static CUresult call_create(const struct creation *creation)
{
    CUresult (*real)(CUcontext *, unsigned int, CUdevice) =
        (CUresult(*)(CUcontext *, unsigned int, CUdevice))(uintptr_t)creation->real;

    return real(creation->pctx, creation->flags, creation->dev);
}

CUresult gs_nv_ctx_create(CUresult (*real)(CUcontext *, unsigned int, CUdevice), CUcontext *pctx,
                          unsigned int flags, CUdevice dev)
{
    return create(&(struct creation){.call = call_create,
                                     .real = (void *)(uintptr_t)real,
                                     .pctx = pctx,
                                     .flags = flags,
                                     .dev = dev});
}

CUresult gs_nv_ctx_create_v1(CUresult (*real)(CUcontext *, unsigned int, CUdevice), CUcontext *pctx,
                             unsigned int flags, CUdevice dev)
{
    return gs_nv_ctx_create(real, pctx, flags, dev);
}

typedef CUresult create_v3(CUcontext *, CUexecAffinityParam *, int, unsigned int, CUdevice);

static CUresult call_create_v3(const struct creation *creation)
{
    create_v3 *real = (create_v3 *)(uintptr_t)creation->real;

    return real(creation->pctx, creation->params, creation->num_params, creation->flags,
                creation->dev);
}

CUresult gs_nv_ctx_create_v3(create_v3 *real, CUcontext *pctx, CUexecAffinityParam *paramsArray,
                             int numParams, unsigned int flags, CUdevice dev)
{
    return create(&(struct creation){.call = call_create_v3,
                                     .real = (void *)(uintptr_t)real,
                                     .pctx = pctx,
                                     .flags = flags,
                                     .dev = dev,
                                     .params = paramsArray,
                                     .num_params = numParams});
}

typedef CUresult create_v4(CUcontext *, CUctxCreateParams *, unsigned int, CUdevice);

static CUresult call_create_v4(const struct creation *creation)
{
    create_v4 *real = (create_v4 *)(uintptr_t)creation->real;

    return real(creation->pctx, creation->params, creation->flags, creation->dev);
}

CUresult gs_nv_ctx_create_v4(create_v4 *real, CUcontext *pctx, CUctxCreateParams *ctxCreateParams,
                             unsigned int flags, CUdevice dev)
{
    return create(&(struct creation){.call = call_create_v4,
                                     .real = (void *)(uintptr_t)real,
                                     .pctx = pctx,
                                     .flags = flags,
                                     .dev = dev,
                                     .params = ctxCreateParams});
}

/* The entry leaves first, because the driver may give the handle to another thread at once. */
CUresult gs_nv_ctx_destroy(CUresult (*real)(CUcontext), CUcontext ctx)
{
    struct gs_obj obj;
    bool known = gs_track_take(GS_OBJ_CONTEXT, (uintptr_t)ctx, &obj);
    CUresult result;

    gs_launch_context_going(ctx);
    result = real(ctx);

    if (result == CUDA_SUCCESS) {
        if (known)
            context_gone(&obj);
        else
            gs_device_contexts_changed();
        return result;
    }
    if (known)
        (void)!gs_track_put(GS_OBJ_CONTEXT, (uintptr_t)ctx, &obj); /* else it stays charged */
    return result;
}

/* Detach destroys with the last attachment; attachments are not ours to count, so the driver is
 * asked whether the context still is one. */
CUresult gs_nv_ctx_detach(CUresult (*real)(CUcontext), CUcontext ctx)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    unsigned int version = 0;
    struct gs_obj obj;
    CUresult result;

    gs_launch_context_going(ctx);
    result = real(ctx);
    if (result != CUDA_SUCCESS)
        return result;
    if (cuda->cuCtxGetApiVersion != NULL && cuda->cuCtxGetApiVersion(ctx, &version) == CUDA_SUCCESS)
        return result;
    if (gs_track_take(GS_OBJ_CONTEXT, (uintptr_t)ctx, &obj))
        context_gone(&obj);
    return result;
}

/* ---- primary contexts ---- */

static CUresult retain(CUresult (*real)(CUcontext *, CUdevice), CUcontext *pctx,
                       struct making *making, struct primary *primary)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    CUresult result;

    if (primary->charged)
        return real(pctx, making->device->ordinal);
    result = begin(making);
    if (result != CUDA_SUCCESS)
        return result;
    result = real(pctx, making->device->ordinal);
    gs_device_contexts_changed();
    if (result != CUDA_SUCCESS)
        return refused(making, result);
    result = finish(making);
    if (result == CUDA_SUCCESS && book(making, *pctx) == 0) {
        primary->charged = 1;
        primary->context = *pctx;
        return CUDA_SUCCESS;
    }
    if (cuda->cuDevicePrimaryCtxRelease_v2 != NULL)
        (void)cuda->cuDevicePrimaryCtxRelease_v2(making->device->ordinal);
    cancel(making);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult gs_nv_primary_ctx_retain(CUresult (*real)(CUcontext *, CUdevice), CUcontext *pctx,
                                  CUdevice dev)
{
    struct making making = {.device = gs_device_by_ordinal(dev),
                            .what = "cuDevicePrimaryCtxRetain"};
    CUresult result;

    if (making.device == NULL || pctx == NULL)
        return real(pctx, dev);
    lock(making.device);
    result = retain(real, pctx, &making, &primaries[dev]);
    end_turn(&making);
    unlock(making.device);
    return result;
}

/* Release and reset: the driver first, then what its own state says. */
static CUresult end_primary(CUresult (*real)(CUdevice), CUdevice dev, bool reset)
{
    const struct gs_device *device = gs_device_by_ordinal(dev);
    const struct gs_driver *cuda = gs_driver_cuda();
    struct primary *primary;
    unsigned int flags = 0;
    int active = 0;
    struct gs_obj obj;
    CUresult result;

    if (device == NULL)
        return real(dev);
    primary = &primaries[dev];
    lock(device);
    if (primary->context != NULL)
        gs_launch_context_going(primary->context);
    result = real(dev);
    if (result == CUDA_SUCCESS && primary->charged) {
        bool known = cuda->cuDevicePrimaryCtxGetState != NULL &&
                     cuda->cuDevicePrimaryCtxGetState(dev, &flags, &active) == CUDA_SUCCESS;

        if (known && !active) {
            primary->charged = 0;
            if (gs_track_take(GS_OBJ_CONTEXT, (uintptr_t)primary->context, &obj))
                context_gone(&obj);
        } else if (reset && gs_track_get(GS_OBJ_CONTEXT, (uintptr_t)primary->context, &obj)) {
            return_objects(obj.aux);
        }
    }
    unlock(device);
    return result;
}

CUresult gs_nv_primary_ctx_release(CUresult (*real)(CUdevice), CUdevice dev)
{
    return end_primary(real, dev, false);
}

CUresult gs_nv_primary_ctx_reset(CUresult (*real)(CUdevice), CUdevice dev)
{
    return end_primary(real, dev, true);
}

/* ---- limits that are memory ---- */

/* Bytes of the card behind one byte of a limit; 0: not memory of the card. */
static uint64_t weight(CUlimit limit, const struct gs_device *device)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    int threads = 0;
    int processors = 0;

    if (limit == CU_LIMIT_MALLOC_HEAP_SIZE || limit == CU_LIMIT_PRINTF_FIFO_SIZE)
        return 1;
    if (limit != CU_LIMIT_STACK_SIZE || cuda->cuDeviceGetAttribute == NULL)
        return 0;
    /* a stack for each thread that can be resident */
    if (cuda->cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
                                   device->ordinal) != CUDA_SUCCESS ||
        cuda->cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                                   device->ordinal) != CUDA_SUCCESS ||
        threads <= 0 || processors <= 0)
        return 0;
    return (uint64_t)threads * (uint64_t)processors;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static int grow_context(struct gs_obj *obj, void *arg)
{
    const uint64_t *bytes = arg;

    obj->bytes += *bytes;
    return 0;
}

/* Takes from the context's charge what a smaller limit frees, never the context's own part; `arg`
 * goes in as the wish and comes out as what there was. */
static int shrink_context(struct gs_obj *obj, void *arg)
{
    uint64_t *bytes = arg;
    uint64_t base = (uint64_t)obj->refs * BASE_UNIT;
    uint64_t most = obj->bytes > base ? obj->bytes - base : 0;

    if (*bytes > most)
        *bytes = most;
    obj->bytes -= *bytes;
    return 0;
}

static void shrink(const struct gs_device_here *here, uint64_t bytes)
{
    if (gs_track_update(GS_OBJ_CONTEXT, (uintptr_t)here->context, shrink_context, &bytes) >= 0)
        gs_gate_release(here->device->ledger, bytes, GS_CHARGE_EXTRA);
}

/* `growth` is reserved and the driver has said yes, perhaps to more than was asked: book what it
 * made. */
static int settle_growth(const struct gs_device_here *here, uint64_t growth, uint64_t actual)
{
    uint32_t dev = here->device->ledger;

    if (actual > growth &&
        gs_pool_reserve(dev, actual - growth, GS_CHARGE_EXTRA, "cuCtxSetLimit") != 0)
        return -ENOMEM;
    if (actual < growth)
        gs_gate_release(dev, growth - actual, GS_CHARGE_EXTRA);
    if (gs_track_update(GS_OBJ_CONTEXT, (uintptr_t)here->context, grow_context, &actual) < 0)
        gs_gate_release(dev, actual, GS_CHARGE_EXTRA); /* no such context any more */
    return 0;
}

/* One change of a limit that is memory. */
struct change {
    CUresult (*real)(CUlimit, size_t);
    CUlimit limit;
    size_t old;
    size_t value;
    uint64_t per_byte;
};

static CUresult change_limit(const struct change *change, const struct gs_device_here *here)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    uint32_t dev = here->device->ledger;
    uint64_t growth =
        change->value > change->old ? times(change->value - change->old, change->per_byte) : 0;
    size_t now = change->value;
    CUresult result;

    if (growth != 0 && gs_pool_reserve(dev, growth, GS_CHARGE_EXTRA, "cuCtxSetLimit") != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = change->real(change->limit, change->value);
    if (result != CUDA_SUCCESS) {
        gs_gate_release(dev, growth, GS_CHARGE_EXTRA);
        return gs_device_refused(result, dev, growth, "cuCtxSetLimit");
    }
    if (cuda->cuCtxGetLimit(&now, change->limit) != CUDA_SUCCESS)
        now = change->value;
    if (now < change->old) {
        gs_gate_release(dev, growth, GS_CHARGE_EXTRA);
        shrink(here, times(change->old - now, change->per_byte));
        return CUDA_SUCCESS;
    }
    if (settle_growth(here, growth, times(now - change->old, change->per_byte)) == 0)
        return CUDA_SUCCESS;
    (void)change->real(change->limit, change->old); /* it was the driver's own value */
    gs_gate_release(dev, growth, GS_CHARGE_EXTRA);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult gs_nv_ctx_set_limit(CUresult (*real)(CUlimit, size_t), CUlimit limit, size_t value)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    struct change change = {.real = real, .limit = limit, .value = value};
    struct gs_device_here here;

    if (cuda->cuCtxGetLimit == NULL || gs_device_current(&here) < 0)
        return real(limit, value);
    change.per_byte = weight(limit, here.device);
    if (change.per_byte == 0 || cuda->cuCtxGetLimit(&change.old, limit) != CUDA_SUCCESS)
        return real(limit, value);
    return change_limit(&change, &here);
}
