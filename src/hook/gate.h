#pragma once
/* The gate: reserve before the driver is asked, release after the driver has freed.
 *
 * Announce-check-commit without locks: see contract/ledger.h and docs/protocol/ledger.md. `dev` is
 * an index in the ledger's device table, never a CUDA ordinal or an NVML index; the vendor maps.
 * All functions: any thread, no system call and no allocation unless the answer is a refusal. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

/** Which of a slot's two sums carries the bytes. */
enum gs_charge {
    GS_CHARGE_HELD,  /**< allocations */
    GS_CHARGE_EXTRA, /**< contexts, modules, heaps: the driver's own */
};

/** Reserve `bytes` of device `dev` for this process.
 *  @what    the driver function, for the log when refused; static string.
 *  Returns  0; -ENOMEM the slice has no room (after reaping the dead once); -ENODEV the device is
 * not in the grant; -ESHUTDOWN no usable quota or ledger and the policy is closed. With no limit on
 * the device the bytes are still counted and never refused. */
GS_WUR int gs_gate_reserve(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what);

/** gs_gate_reserve() for callers who have another way: answers -ENOMEM at the first sight of no
 * room, without looking for the dead and without a line in the log about that. */
GS_WUR int gs_gate_try(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what);

/** Give back what a reserve took. Saturates at zero and counts the mismatch. */
void gs_gate_release(uint32_t dev, uint64_t bytes, enum gs_charge charge);

/** The driver had no room on the card for what the slice was granted, and the grant is given back:
 * counted and logged as a refusal, so that nobody blames the limit.
 *  @bytes  0 where it is not known how much it is. */
void gs_gate_card_full(uint32_t dev, uint64_t bytes, const char *what);

/** Add to the books what the driver has already taken (no refusal possible any more). */
void gs_gate_force(uint32_t dev, uint64_t bytes, enum gs_charge charge);

/** Sum over the slice's live processes and shares, bytes. */
uint64_t gs_gate_used(uint32_t dev);
/** This process's own held, or extra, bytes. */
uint64_t gs_gate_own(uint32_t dev, enum gs_charge charge);
/** UINT64_MAX where there is none; 0 where the device is not granted or the grant is unusable. */
uint64_t gs_gate_limit(uint32_t dev);

/** Does the quota let the slice have memory beyond the card? */
bool gs_gate_is_oversubscribed(void);
/** So many bytes of what this process holds came to be, or ended as, managed memory: told to others
 * in gs_ledger_use.managed_bytes, charged with everything else. */
void gs_gate_managed(uint32_t dev, int64_t bytes);

/** Remember / recall what a context costs on this card, slice-wide. */
void gs_gate_set_context_bytes(uint32_t dev, uint64_t bytes);
uint64_t gs_gate_context_bytes(uint32_t dev);
/** Likewise the card's own size, which caps what capacity queries may show; 0 until learnt. */
void gs_gate_set_physical_bytes(uint32_t dev, uint64_t bytes);
uint64_t gs_gate_physical_bytes(uint32_t dev);
