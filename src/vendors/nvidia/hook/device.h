#pragma once
/* Which card of the ledger a call is about.
 *
 * The driver names cards by ordinal (after CUDA_VISIBLE_DEVICES), by the calling thread's current
 * context and by NVML handle; the ledger by UUID. What is learnt about an ordinal stays for the
 * life of the process, because the driver's own numbering does. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "hook/gate.h"
#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/abi/nvml_types.h"

struct gs_hook_card;

/** Not in the grant, or no ledger. The gate takes it like any index and answers by the policy. */
#define GS_DEVICE_NONE     UINT32_MAX
#define GS_DEVICE_ORDINALS 128u

struct gs_device {
    uint64_t granularity;    /**< bytes in which the card gives memory away; never 0 */
    uint64_t physical_bytes; /**< of the whole card; 0 unknown */
    uint32_t ledger;         /**< index in the ledger or GS_DEVICE_NONE */
    CUdevice ordinal;
    char uuid[48]; /**< as the ledger spells it: "GPU-…" or "MIG-…" */
};

/** Where the calling thread works. */
struct gs_device_here {
    const struct gs_device *device;
    CUcontext context;
    uint64_t serial; /**< of the context, never used twice; tracked objects carry it in `aux` */
};

/** Card of the calling thread's current context.
 *  Returns  0; -ENXIO no current context: forward the call, the driver knows the error to give.
 *  Shape    where there is a context but the driver fails to name its card, `device` is one outside
 *           the grant (ledger GS_DEVICE_NONE, ordinal -1).
 *  Threads  any; one driver call (cuCtxGetCurrent) while the thread stays in one context. */
GS_WUR int gs_device_current(struct gs_device_here *ret_here);

/** Card with this CUDA ordinal; NULL when the driver refuses the ordinal or is not initialised:
 * forward. A card it fails to name is one outside the grant. The pointer stays valid. */
const struct gs_device *gs_device_by_ordinal(CUdevice ordinal);
/** Card number `i` as learnt so far, NULL when nothing is known about it: asks nobody. */
const struct gs_device *gs_device_known(uint32_t ordinal);

/** Ledger index of an NVML handle, or GS_DEVICE_NONE; asks NVML for the UUID each time. */
uint32_t gs_device_by_nvml(nvmlDevice_t device);

/** A context came or went: what threads remember about contexts is void. */
void gs_device_contexts_changed(void);
/** Forked child: nothing is known about any card or context. */
void gs_device_forget(void);
/** A fresh serial for a context. */
uint64_t gs_device_new_serial(void);

/** Round up to the card's granularity; UINT64_MAX when that overflows. */
static inline uint64_t gs_device_round(const struct gs_device *device, uint64_t bytes)
{
    uint64_t g = device->granularity;
    uint64_t rest = (g & (g - 1)) == 0 ? bytes & (g - 1) : bytes % g;

    if (rest == 0)
        return bytes;
    return bytes > UINT64_MAX - (g - rest) ? UINT64_MAX : bytes + (g - rest);
}

/** What a refusal of the gate is called in CUDA: 0 success, everything else out of memory. */
static inline CUresult gs_device_result(int rc)
{
    return rc == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/** After the driver refused what was granted and is given back: `result`, told in the slice's log
 * where the card itself was full. */
static inline CUresult gs_device_refused(CUresult result, uint32_t dev, uint64_t bytes,
                                         const char *what)
{
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        gs_gate_card_full(dev, bytes, what);
    return result;
}

/** The vendor's `enumerate` (hook/engine.h): all cards NVML shows, in its order, MIG instances in
 * place of the card they divide; CUDA's own list where there is no NVML. */
int gs_device_enumerate(struct gs_hook_card *ret_cards, uint32_t max);
