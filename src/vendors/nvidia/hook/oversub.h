#pragma once
/* Device memory beyond the card, served from managed memory (docs/oversubscription.md).
 *
 * Where the slice's quota says `oversubscribe on`, a linear allocation that the slice may have and
 * the card refuses becomes managed memory that prefers the card. The charge is the same. Pools,
 * virtual memory, arrays and graphs stay device memory. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "hook/gate.h"
#include "vendors/nvidia/hook/device.h"

/** May this card be oversubscribed by the slice?
 *  @ledger   its index; GS_DEVICE_NONE: no.
 *  @ordinal  as CUDA numbers it; -1 where the caller has none: then what is known counts, and a
 *            card nobody has asked about counts as able.
 *  Threads  any; one driver call per card and process. */
bool gs_oversub_is_on(uint32_t ledger, CUdevice ordinal);

/** The card refused `bytes`: get them as managed memory that prefers it.
 *  Returns  CUDA_SUCCESS; CUDA_ERROR_OUT_OF_MEMORY (the card's own refusal) when it may not, or
 * cannot, be done. */
CUresult gs_oversub_allocate(const struct gs_device_here *here, uint64_t bytes, const char *what,
                             CUdeviceptr *ret_ptr);

/** What a capacity query says, from what the driver said: total = min(limit, physical) and free at
 * most what is physically free; beyond the card total = limit and free = limit - used. */
static inline void gs_oversub_answer(bool is_on, uint64_t limit, uint64_t used, uint64_t *total,
                                     uint64_t *free)
{
    uint64_t room;

    if (is_on || *total > limit)
        *total = limit;
    room = used < *total ? *total - used : 0;
    if (is_on || *free > room)
        *free = room;
}
