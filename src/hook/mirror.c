#include "hook/mirror.h"

#include <string.h>

#include "hook/share.h"

/** HAMi has 0 for "no limit". */
static uint64_t hami_limit(uint64_t limit_bytes)
{
    if (limit_bytes == 0)
        return 1; /* taken out of the grant while the slice ran */
    return limit_bytes == UINT64_MAX ? 0 : limit_bytes;
}

void gs_mirror_create(struct gs_hami_region *region, const struct gs_ledger *ledger,
                      const struct gs_ledger_device *devices, bool is_high)
{
    uint32_t n =
        ledger->head.n_devices < GS_HAMI_DEVICES ? ledger->head.n_devices : GS_HAMI_DEVICES;

    region->major = GS_HAMI_MAJOR;
    region->minor = GS_HAMI_MINOR;
    region->n_devices = n;
    for (uint32_t i = 0; i < n; i++) {
        memcpy(region->uuid[i], devices[i].uuid, sizeof(region->uuid[i]));
        region->limit_bytes[i] = hami_limit(devices[i].limit_bytes);
        region->sm_limit_pct[i] = devices[i].core_pct;
    }
    region->priority = is_high ? 0 : 1;
    /* its monitor takes the region for ready once it sees this */
    __atomic_store_n(&region->init_flag, GS_HAMI_MAGIC, __ATOMIC_RELEASE);
}

void gs_mirror_limit(uint32_t dev, uint64_t limit_bytes)
{
    if (dev < GS_HAMI_DEVICES)
        __atomic_store_n(&gs_self.region->limit_bytes[dev], hami_limit(limit_bytes),
                         __ATOMIC_RELAXED);
}

void gs_mirror_core(uint32_t dev, uint32_t core_pct)
{
    if (dev < GS_HAMI_DEVICES)
        __atomic_store_n(&gs_self.region->sm_limit_pct[dev], core_pct, __ATOMIC_RELAXED);
}

void gs_mirror_priority(bool is_high)
{
    __atomic_store_n(&gs_self.region->priority, is_high ? 0 : 1, __ATOMIC_RELAXED);
}

bool gs_mirror_is_high(void)
{
    return __atomic_load_n(&gs_self.region->priority, __ATOMIC_RELAXED) == 0;
}

/** The monitor reads slots 0..n_slots-1. */
static void raise_n_slots(struct gs_hami_region *region, uint32_t slot)
{
    int32_t n = __atomic_load_n(&region->n_slots, __ATOMIC_RELAXED);

    while (n <= (int32_t)slot &&
           !__atomic_compare_exchange_n(&region->n_slots, &n, (int32_t)slot + 1, 0,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

void gs_mirror_claim(void)
{
    struct gs_self_state *self = &gs_self;

    self->mirror = &self->region->slot[self->slot];
    memset(self->mirror, 0, sizeof(*self->mirror));
    self->mirror->pid = (int32_t)self->pid;
    __atomic_store_n(&self->mirror->status, GS_HAMI_RUNNING, __ATOMIC_RELEASE);
    raise_n_slots(self->region, self->slot);
}

void gs_mirror_wipe(uint32_t slot)
{
    struct gs_hami_slot *m = &gs_self.region->slot[slot];

    __atomic_store_n(&m->status, GS_HAMI_DEAD, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < GS_HAMI_DEVICES; i++) {
        struct gs_hami_memory *mem = &m->used[i];

        __atomic_store_n(&mem->total_bytes, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&mem->data_bytes, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&mem->context_bytes, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&mem->module_bytes, 0, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&m->pid, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&m->host_pid, 0, __ATOMIC_RELAXED);
}

/** One pass; false when everything was right already. */
static bool settle_once(struct gs_self_state *self, uint32_t dev)
{
    struct gs_ledger_device *d = &self->device[dev];
    uint64_t n = __atomic_load_n(&self->ledger->head.share_high, __ATOMIC_ACQUIRE);
    uint64_t sums[GS_LEDGER_SLOTS] = {0};
    bool changed = false;

    for (uint32_t i = 0; i < n && i < GS_LEDGER_SHARES; i++) {
        uint64_t bytes = __atomic_load_n(&d->share_bytes[i], __ATOMIC_ACQUIRE);
        uint32_t carrier = bytes != 0 ? gs_share_carrier(i) : GS_LEDGER_SLOTS;

        if (carrier < GS_LEDGER_SLOTS)
            sums[carrier] += bytes;
    }
    n = __atomic_load_n(&self->ledger->head.slot_high, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n && i < GS_LEDGER_SLOTS; i++) {
        struct gs_hami_memory *mem = &self->region->slot[i].used[dev];
        uint64_t total = sums[i] + __atomic_load_n(&d->held[i], __ATOMIC_ACQUIRE) +
                         __atomic_load_n(&d->extra[i], __ATOMIC_ACQUIRE);

        if (__atomic_load_n(&mem->module_bytes, __ATOMIC_RELAXED) == sums[i] &&
            __atomic_load_n(&mem->total_bytes, __ATOMIC_RELAXED) == total)
            continue;
        __atomic_store_n(&mem->module_bytes, sums[i], __ATOMIC_RELAXED);
        __atomic_store_n(&mem->total_bytes, total, __ATOMIC_RELAXED);
        changed = true;
    }
    return changed;
}

void gs_mirror_settle(uint32_t dev)
{
    struct gs_self_state *self = &gs_self;

    /* several processes may settle at once: each looks again after its last store, so that the last
     * store of all is of the present */
    for (int i = 0; i < 16 && dev < GS_HAMI_DEVICES && dev < self->n_mapped; i++) {
        if (!settle_once(self, dev))
            break;
    }
}
