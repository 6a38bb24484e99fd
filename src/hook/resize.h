#pragma once
/* New limits while the program runs. */

#include <stdint.h>

/** Read the quota again where a newer one is wanted (gs_ledger_head.quota_wanted), or half a second
 *  has passed since the last look, and take over its limits; ends in gs_limiter_configure() where
 *  shares may have changed. Cheap when there is nothing to do.
 *  @now_ns  gs_limiter_clock().  Slow paths only; keeps errno. Threads: any. */
void gs_resize_poll(uint64_t now_ns);
