#pragma once
/* HAMi's region, kept true for HAMi's own monitor. Relaxed stores by the slot's owner (by the
 * reaper once it is dead); our own decisions never read it. */

#include <stdbool.h>
#include <stdint.h>

#include "hook/self.h"

struct gs_hami_region;

/** Creator, file still private: fill head, devices and limits. */
void gs_mirror_create(struct gs_hami_region *region, const struct gs_ledger *ledger,
                      const struct gs_ledger_device *devices, bool is_high);
/** A device's limit changed. */
void gs_mirror_limit(uint32_t dev, uint64_t limit_bytes);
/** A device's share of compute changed. */
void gs_mirror_core(uint32_t dev, uint32_t core_pct);
/** The slice's priority, which HAMi has as 0 high, 1 low. */
void gs_mirror_priority(bool is_high);
bool gs_mirror_is_high(void);
/** We own `self->slot` now. */
void gs_mirror_claim(void);
/** Clear a dead slot. */
void gs_mirror_wipe(uint32_t slot);
/** Shares of `dev` changed hands: show their bytes under the slots that carry them now. Any holder
 * or reaper; `module_bytes` is the field, because the owner itself never writes that one. */
void gs_mirror_settle(uint32_t dev);

/** Our sums on `dev` changed; the caller holds self->spin[dev]. */
static inline void gs_mirror_use(struct gs_self_state *self, uint32_t dev, uint64_t held,
                                 uint64_t extra)
{
    struct gs_hami_memory *mem;

    if (dev >= GS_HAMI_DEVICES)
        return;
    mem = &self->mirror->used[dev];
    __atomic_store_n(&mem->data_bytes, held, __ATOMIC_RELAXED);
    __atomic_store_n(&mem->context_bytes, extra, __ATOMIC_RELAXED);
    __atomic_store_n(&mem->total_bytes,
                     held + extra + __atomic_load_n(&mem->module_bytes, __ATOMIC_RELAXED),
                     __ATOMIC_RELAXED);
}
