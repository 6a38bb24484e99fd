#pragma once
/* What became of a slice's share on one card, as a reader outside finds it in the ledger: by pread,
 * nothing in it trusted. */

#include <stdint.h>

#include "contract/ledger.h"
#include "core/cleanup.h"

struct gs_meter {
    uint64_t used_1s_ns;    /**< card time used in the last second, refunds taken off */
    uint64_t used_10s_ns;   /**< and in the last ten; both end at the last full bin */
    uint64_t used_ns;       /**< since the ledger was made, refunds not taken off */
    uint64_t waits;         /**< launches that had to wait */
    uint64_t waited_ns;     /**< sum of their waits, those that still last included */
    uint64_t managed_bytes; /**< device memory of live processes that lies elsewhere now */
};

/** Read one device's meter from a ledger that gs_ledger_read() has just accepted.
 *  @snapshot  tells the live slots; @dev < its n_devices.
 *  @now_ns    CLOCK_MONOTONIC.
 *  Returns    0; -EPROTO the file has shrunk; -errno from the kernel. */
GS_WUR int gs_meter_read(int fd, const struct gs_ledger_snapshot *snapshot, uint32_t dev,
                         uint64_t now_ns, struct gs_meter *ret);
