#include "vendors/nvidia/hook/meter.h"

#include <errno.h>

#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/pool.h"
#include "vendors/nvidia/hook/pool_map.h"
#include "vendors/nvidia/hook/vmm.h"

#define SHARED_KEY (1ull << 63) /* no handle has this bit: user addresses end at 2^57 */
#define TRIES      4
#define BATCH      64 /* meters looked at in one pass over the table */
#define LOCK_SPINS 100000
#define DIRTY_BITS 64 /* ledger indices: GS_LEDGER_DEVICES */

enum { COMMITTED = 0, OUTDATED = 2 };

static uint32_t any;     /* a meter exists, or existed */
static uint64_t dirty;   /* bit per ledger index: something was freed into a store there */
static uint32_t opening; /* guards look-then-put in gs_meter_open; no call is made under it */
static uint64_t epoch = 1;

bool gs_meter_any(void)
{
    return __atomic_load_n(&any, __ATOMIC_RELAXED) != 0;
}

void gs_meter_freed(void)
{
    if (__atomic_load_n(&dirty, __ATOMIC_RELAXED) != UINT64_MAX)
        __atomic_store_n(&dirty, UINT64_MAX, __ATOMIC_RELAXED);
}

uint64_t gs_meter_epoch(void)
{
    return __atomic_load_n(&epoch, __ATOMIC_ACQUIRE);
}

void gs_meter_trimmed(void)
{
    __atomic_fetch_add(&epoch, 1, __ATOMIC_RELEASE);
}

int gs_meter_open(struct gs_meter m, const struct gs_device *device, uint32_t flags)
{
    struct gs_obj obj;
    int rc = 0;

    if (gs_track_get(m.kind, m.key, &obj))
        return 0;
    /* Bounded: a forked child may inherit the word locked, and two puts of an empty meter at the
     * same time are harmless as long as neither has been reserved on, which takes far longer than
     * this. */
    for (uint32_t i = 0; i < LOCK_SPINS; i++)
        if (__atomic_exchange_n(&opening, 1, __ATOMIC_ACQUIRE) == 0)
            break;
    if (!gs_track_get(m.kind, m.key, &obj)) {
        obj = (struct gs_obj){
            .dev = device == NULL ? GS_DEVICE_NONE : device->ledger,
            .share = -1,
            .flags =
                flags | (device == NULL ? 0 : (uint32_t)device->ordinal << GS_METER_ORDINAL_SHIFT),
        };
        rc = gs_track_put(m.kind, m.key, &obj);
    }
    __atomic_store_n(&opening, 0, __ATOMIC_RELEASE);
    if (rc == 0 && (flags & GS_METER_EXEMPT) == 0)
        __atomic_store_n(&any, 1, __ATOMIC_RELAXED);
    return rc;
}

/* What the driver says the store holds. */
static bool read_store(struct gs_meter m, const struct gs_obj *obj, uint64_t *ret_bytes)
{
    const struct gs_driver *driver = gs_driver_cuda();

    if (m.kind == GS_OBJ_GRAPH)
        return driver->cuDeviceGetGraphMemAttribute != NULL &&
               driver->cuDeviceGetGraphMemAttribute((CUdevice)GS_METER_ORDINAL(obj->flags),
                                                    CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
                                                    ret_bytes) == CUDA_SUCCESS;
    return driver->cuMemPoolGetAttribute != NULL &&
           driver->cuMemPoolGetAttribute((CUmemoryPool)(uintptr_t)m.key,
                                         CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
                                         ret_bytes) == CUDA_SUCCESS;
}

static bool read_used(struct gs_meter m, const struct gs_obj *obj, uint64_t *ret_bytes)
{
    const struct gs_driver *driver = gs_driver_cuda();

    if (m.kind == GS_OBJ_GRAPH)
        return driver->cuDeviceGetGraphMemAttribute != NULL &&
               driver->cuDeviceGetGraphMemAttribute((CUdevice)GS_METER_ORDINAL(obj->flags),
                                                    CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT,
                                                    ret_bytes) == CUDA_SUCCESS;
    return driver->cuMemPoolGetAttribute != NULL &&
           driver->cuMemPoolGetAttribute((CUmemoryPool)(uintptr_t)m.key,
                                         CU_MEMPOOL_ATTR_USED_MEM_CURRENT,
                                         ret_bytes) == CUDA_SUCCESS;
}

/* The part of the store that is charged as shares. */
static uint64_t shared_bytes(struct gs_meter m)
{
    struct gs_obj obj;

    return gs_track_get(m.kind, m.key | SHARED_KEY, &obj) ? obj.bytes : 0;
}

struct change {
    uint64_t store; /* in: bytes the store holds beside shares */
    uint64_t done;  /* in: reservation that is over */
    uint32_t seq;   /* in: completions when the reading began */
    uint64_t up;    /* out: to be charged */
    uint64_t down;  /* out: to be released */
};

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static int commit(struct gs_obj *obj, void *arg)
{
    struct change *c = arg;
    uint64_t flying, want;

    if (obj->refs != c->seq)
        return OUTDATED;
    flying = less(obj->aux, c->done);
    /* Others in flight may have grown the store already: their reservations then count twice in
     * store + flying, so the old charge, which covers both, stays the ceiling. */
    want = c->store + flying;
    if (want > obj->bytes)
        want = obj->bytes;
    if (want < c->store)
        want = c->store;
    c->up = less(want, obj->bytes);
    c->down = less(obj->bytes, want);
    obj->bytes = want;
    obj->aux = flying;
    obj->refs++;
    return COMMITTED;
}

static int announce(struct gs_obj *obj, void *arg)
{
    const struct change *c = arg;

    obj->bytes += c->done;
    obj->aux += c->done;
    return COMMITTED;
}

static int withdraw(struct gs_obj *obj, void *arg)
{
    struct change *c = arg;

    c->down = obj->bytes < c->done ? obj->bytes : c->done;
    obj->bytes -= c->down;
    obj->aux = less(obj->aux, c->done);
    obj->refs++;
    return COMMITTED;
}

/* Keep the charge, end the flight. */
static int land(struct gs_obj *obj, void *arg)
{
    const struct change *c = arg;

    obj->aux = less(obj->aux, c->done);
    obj->refs++;
    return COMMITTED;
}

int gs_meter_reserve(struct gs_meter m, uint32_t dev, uint64_t bytes, const char *what)
{
    struct change c = {.done = bytes};
    int rc = gs_pool_reserve(dev, bytes, GS_CHARGE_HELD, what);

    if (rc != 0)
        return rc;
    if (gs_track_update(m.kind, m.key, announce, &c) != COMMITTED)
        gs_gate_release(dev, bytes,
                        GS_CHARGE_HELD); /* store destroyed meanwhile: the driver says so */
    return 0;
}

void gs_meter_cancel(struct gs_meter m, uint64_t bytes)
{
    struct change c = {.done = bytes};
    struct gs_obj obj;

    if (!gs_track_get(m.kind, m.key, &obj) ||
        gs_track_update(m.kind, m.key, withdraw, &c) != COMMITTED)
        return;
    gs_gate_release(obj.dev, c.down, GS_CHARGE_HELD);
}

int gs_meter_settle(struct gs_meter m, uint64_t bytes, const char *what)
{
    struct gs_obj obj;
    uint64_t held;

    for (uint32_t i = 0; i < TRIES; i++) {
        struct change c = {.done = bytes};

        if (!gs_track_get(m.kind, m.key, &obj) ||
            (obj.flags & (GS_METER_EXEMPT | GS_METER_ZOMBIE)) != 0)
            return 0;
        if (!read_store(m, &obj, &held))
            break;
        c.seq = obj.refs;
        c.store = less(held, shared_bytes(m));
        if (gs_track_update(m.kind, m.key, commit, &c) != COMMITTED)
            continue;
        if (c.down != 0)
            gs_gate_release(obj.dev, c.down, GS_CHARGE_HELD);
        if (c.down > bytes && m.kind == GS_OBJ_POOL)
            gs_pool_map_shrank(m);
        if (c.up == 0 ||
            (what != NULL && gs_gate_reserve(obj.dev, c.up, GS_CHARGE_HELD, what) == 0))
            return 0;
        gs_gate_force(obj.dev, c.up, GS_CHARGE_HELD);
        return what == NULL ? 0 : -ENOMEM;
    }
    if (bytes != 0) {
        struct change c = {.done = bytes};

        (void)gs_track_update(m.kind, m.key, land, &c); /* gone: nothing left to keep */
        gs_meter_freed();
    }
    return 0;
}

static int shrink(struct gs_obj *obj, void *arg)
{
    const struct change *c = arg;

    obj->bytes = less(obj->bytes, c->done);
    obj->refs++;
    return COMMITTED;
}

static int add_shared(struct gs_obj *obj, void *arg)
{
    obj->bytes += *(const uint64_t *)arg;
    return COMMITTED;
}

static int drop_shared(struct gs_obj *obj, void *arg)
{
    obj->bytes = less(obj->bytes, *(const uint64_t *)arg);
    return obj->bytes == 0 ? GS_TRACK_REMOVE : COMMITTED;
}

void gs_meter_shared(struct gs_meter m, uint64_t bytes, bool add)
{
    struct change c = {.done = bytes};

    if (!add) {
        (void)gs_track_update(m.kind, m.key | SHARED_KEY, drop_shared,
                              &bytes); /* unknown: no shares */
        return;
    }
    /* First the charge, then the sum of shares: a settle in between charges the bytes twice until
     * the next one; the other order would lose them. */
    (void)gs_track_update(m.kind, m.key, shrink, &c); /* destroyed meanwhile: nothing to shrink */
    if (gs_track_update(m.kind, m.key | SHARED_KEY, add_shared, &bytes) != COMMITTED) {
        struct gs_obj obj = {.bytes = bytes, .share = -1, .flags = GS_METER_EXEMPT};

        if (gs_track_put(m.kind, m.key | SHARED_KEY, &obj) != 0)
            gs_meter_freed(); /* no memory: the next reading charges these bytes twice, never less
                               */
    }
}

struct batch {
    uint32_t dev;
    uint32_t skip;
    uint32_t seen;
    uint32_t n;
    uint64_t key[BATCH];
};

static void collect(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct batch *b = arg;

    if (obj->dev != b->dev || (obj->flags & (GS_METER_EXEMPT | GS_METER_ZOMBIE)) != 0)
        return;
    if (b->seen++ < b->skip || b->n == BATCH)
        return;
    b->key[b->n++] = key;
}

static void each(enum gs_obj_kind kind, uint32_t dev, void (*fn)(struct gs_meter m))
{
    struct batch b = {.dev = dev};

    do {
        b.skip += b.n;
        b.seen = 0;
        b.n = 0;
        gs_track_each(kind, collect, &b);
        for (uint32_t i = 0; i < b.n; i++)
            fn((struct gs_meter){kind, b.key[i]});
    } while (b.n == BATCH);
}

static void look(struct gs_meter m)
{
    struct gs_obj obj;
    uint64_t used;

    (void)gs_meter_settle(m, 0, NULL); /* without `what` it cannot fail */
    /* Unused memory: the driver may give it back at any synchronisation. */
    if (gs_track_get(m.kind, m.key, &obj) && read_used(m, &obj, &used) && obj.bytes > used &&
        obj.dev < DIRTY_BITS)
        __atomic_fetch_or(&dirty, 1ull << obj.dev, __ATOMIC_RELAXED);
}

static void trim(struct gs_meter m)
{
    const struct gs_driver *driver = gs_driver_cuda();
    struct gs_obj obj;

    /* The answers do not matter: the look afterwards tells what went. */
    if (m.kind == GS_OBJ_POOL && driver->cuMemPoolTrimTo != NULL) {
        (void)driver->cuMemPoolTrimTo((CUmemoryPool)(uintptr_t)m.key, 0);
    } else if (m.kind == GS_OBJ_GRAPH && driver->cuDeviceGraphMemTrim != NULL &&
               gs_track_get(m.kind, m.key, &obj)) {
        gs_meter_trimmed();
        (void)driver->cuDeviceGraphMemTrim((CUdevice)GS_METER_ORDINAL(obj.flags));
    }
    (void)gs_meter_settle(m, 0, NULL); /* without `what` it cannot fail */
}

void gs_pool_reconcile(uint32_t dev)
{
    gs_vmm_look_at_exports();
    if (dev >= DIRTY_BITS || (__atomic_load_n(&dirty, __ATOMIC_RELAXED) >> dev & 1) == 0)
        return;
    __atomic_fetch_and(&dirty, ~(1ull << dev), __ATOMIC_RELAXED);
    each(GS_OBJ_POOL, dev, look);
    each(GS_OBJ_GRAPH, dev, look);
}

void gs_meter_synchronized(void)
{
    uint64_t left = __atomic_load_n(&dirty, __ATOMIC_RELAXED);

    if (GS_LIKELY(left == 0) || !gs_meter_any())
        return;
    for (uint32_t dev = 0; left != 0; dev++, left >>= 1)
        if ((left & 1) != 0)
            gs_pool_reconcile(dev);
}

bool gs_meter_has_room(uint32_t dev, uint64_t bytes)
{
    uint64_t limit = gs_gate_limit(dev);

    return limit == UINT64_MAX || (bytes <= limit && gs_gate_used(dev) <= limit - bytes);
}

int gs_pool_reserve(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what)
{
    int rc;

    if (GS_LIKELY(!gs_meter_any() && !gs_vmm_any_export()))
        return gs_gate_reserve(dev, bytes, charge, what);
    /* Look before asking: a refusal by the gate is logged and counted, one that a trim avoids is
     * none. */
    if (!gs_meter_has_room(dev, bytes) && bytes <= gs_gate_limit(dev))
        gs_vmm_look_at_exports();
    if (!gs_meter_has_room(dev, bytes) && bytes <= gs_gate_limit(dev)) {
        each(GS_OBJ_POOL, dev, look);
        each(GS_OBJ_GRAPH, dev, look);
        if (!gs_meter_has_room(dev, bytes)) {
            each(GS_OBJ_POOL, dev, trim);
            each(GS_OBJ_GRAPH, dev, trim);
        }
        return gs_gate_reserve(dev, bytes, charge, what);
    }
    rc = gs_gate_reserve(dev, bytes, charge, what);
    if (rc != -ENOMEM || bytes > gs_gate_limit(dev))
        return rc;
    each(GS_OBJ_POOL, dev, trim);
    each(GS_OBJ_GRAPH, dev, trim);
    return gs_gate_reserve(dev, bytes, charge, what);
}
