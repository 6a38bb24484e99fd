#pragma once
/* Memory that outlives its exporter: the charge belongs to whoever still holds it.
 *
 * The exporter publishes, which moves its bytes from `held` to the share; importers join by key. The
 * bytes count once while one holder lives. Keys are 128 bits that exporter and importer both compute. */

#include <stdint.h>

#include "core/cleanup.h"

struct gs_share_key {
    uint64_t w[2];
};

/** Hash any handle bytes into a key. */
struct gs_share_key gs_share_key_of(const void *bytes, uint32_t n);

/** Publish `bytes` of `dev`, now in our `held`. Publishing a key twice returns the same id.
 *  Returns  id >= 0; -ENOSPC table full (the charge simply stays in `held`). */
GS_WUR int gs_share_publish(uint32_t dev, uint64_t bytes, struct gs_share_key key);
/** Become a holder. Returns id >= 0; -ENOENT nobody in this slice published it (not charged here). */
GS_WUR int gs_share_join(struct gs_share_key key);
/** Stop holding; the last holder's leave returns the bytes to the slice. */
void gs_share_leave(int id);
