#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/atomics.h"
#include "hook/self.h"
#include "hook/share.h"
#include "vendors/nvidia/hook/vmm.h"

uint64_t gs_vmm_serial(uint64_t id)
{
    return ((uint64_t)gs_self.slot + 1) << 40 | (id & ((1ull << 40) - 1));
}

static bool is_ours(const struct gs_ledger_share *share, uint32_t slot)
{
    return (gs_atomic_load(&share->holders[slot / 64], __ATOMIC_ACQUIRE) >> slot % 64 & 1) != 0;
}

int gs_vmm_match(uint64_t bytes, uint32_t *ret_dev)
{
    const struct gs_self_state *self = &gs_self;
    uint64_t n;

    if (self->n_devices == 0)
        return -ENOENT;
    n = gs_atomic_load(&self->ledger->head.share_high, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < n && i < GS_LEDGER_SHARES; i++) {
        const struct gs_ledger_share *share = &self->ledger->share[i];
        struct gs_share_key key = {{gs_atomic_load(&share->key[0], __ATOMIC_RELAXED),
                                    gs_atomic_load(&share->key[1], __ATOMIC_RELAXED)}};
        uint32_t dev = __atomic_load_n(&share->device, __ATOMIC_RELAXED);
        int id;

        if ((gs_atomic_load(&share->state, __ATOMIC_ACQUIRE) & 0xff) != GS_SHARE_LIVE ||
            key.w[1] != GS_VMM_SHARE_TAG || dev >= self->n_devices || is_ours(share, self->slot) ||
            gs_atomic_load(&self->device[dev].share_bytes[i], __ATOMIC_RELAXED) != bytes)
            continue;
        id = gs_share_join(key); /* gone meanwhile: look on */
        if (id >= 0) {
            *ret_dev = dev;
            return id;
        }
    }
    return -ENOENT;
}
