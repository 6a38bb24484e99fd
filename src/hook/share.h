#pragma once
/* Memory that outlives its exporter: the charge belongs to whoever still holds it.
 *
 * The exporter publishes, which moves its bytes from `held` to the share; importers join by key.
 * The bytes count once while one holder lives. Keys are 128 bits that exporter and importer both
 * compute. */

#include <stdint.h>

#include "core/cleanup.h"

struct gs_share_key {
    uint64_t w[2];
};

/** Hash any handle bytes into a key. */
struct gs_share_key gs_share_key_of(const void *bytes, uint32_t n);

/** Publish `bytes` of `dev`, now in our `held`: they move to the share. Publishing a key that we
 *  hold already returns its id and changes nothing (no second leave is owed).
 *  Returns  id >= 0; -ENOSPC table full (the charge simply stays in `held`); -ENODEV bad device. */
GS_WUR int gs_share_publish(uint32_t dev, uint64_t bytes, struct gs_share_key key);
/** Give share `id`, which we hold, one more key to be joined by: pieces of one allocation of the
 *  driver are exported under a handle each and share its bytes.
 *  Returns  `id` where that is its key already; another id, which owes one leave; -ENOSPC table
 *           full; -ENOENT we do not hold it. */
GS_WUR int gs_share_name(int id, struct gs_share_key key);
/** Become a holder; each success owes one leave. Call it before the driver opens the memory and
 * leave after the driver has closed it (or failed to open): where the exporter dies in between, the
 * bytes are then counted for a moment too long instead of not at all. Returns id >= 0; -ENOENT
 * nobody in this slice published it (not charged here). */
GS_WUR int gs_share_join(struct gs_share_key key);
/** Stop holding, after the driver has let go; the last holder's leave returns the bytes to the
 * slice. */
void gs_share_leave(int id);
/** For the reaper, which holds the dead slot's byte lock: leave all its shares and finish what it
 * began. Idempotent, so that a killed reaper's successor may start again. */
void gs_share_reap(uint32_t slot);
/** Slot that a share's bytes are shown under: the creator while it holds, else the lowest holder;
 *  GS_LEDGER_SLOTS when nobody does. */
uint32_t gs_share_carrier(uint32_t id);
