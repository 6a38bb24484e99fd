#pragma once
/* Life of an object in the shared tables: place, charge, owner, holds, exported descriptors.
 * Everything here needs the lock of all processes. Linked into libcuda and libnvidia-ml, because
 * each of them frees what the dead left behind. */

#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/sim/state.h"

/** An unused entry with its generation already raised, kind still GS_SIM_FREE.
 *  Returns its index or -ENOSPC. */
GS_WUR int64_t gs_holders_new(void);

/** Find `units` granules in a card's span and mark them. Returns the first or -ENOSPC. */
GS_WUR int64_t gs_holders_place(uint32_t card, uint64_t units);

/** Add an object to the sums of its card, group and process. */
void gs_holders_charge(const struct gs_sim_object *o);

/** Change what an object is charged for (managed memory moves). */
void gs_holders_resize(uint32_t index, uint64_t bytes);

/** Raise the peaks of card and of all groups to what they have now. */
void gs_holders_raise_peaks(uint32_t card);

/** Process `slot` gives up one reference (all: every reference) of an object.
 *  The last holder of all frees the object. */
void gs_holders_drop(uint32_t index, uint32_t slot, int all);

/** One more reference of process `slot` to a live object. Returns 0 or -ENOSPC. */
GS_WUR int gs_holders_add(uint32_t index, uint32_t slot);

/** All references of a process to anything are gone (it died or is leaving). */
void gs_holders_forget(uint32_t slot);

/** Exported descriptors that are closed everywhere no longer hold their objects. */
void gs_holders_sweep(void);

/** Name of the file behind an exported descriptor. */
void gs_holders_export_name(char *buf, size_t n, uint32_t index, uint32_t generation);

/** Give the pages of a range back to the system (not in zero-cost mode). Lock not needed. */
void gs_holders_punch(uint32_t card, uint64_t first, uint64_t units);

/** Descriptor of the file `memory.<card>`, opened and sized at first use; or a negative errno. */
int gs_holders_card_fd(uint32_t card);
