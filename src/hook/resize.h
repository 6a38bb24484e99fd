#pragma once
/* Limits that change while the program runs: a new quota file is taken over, nothing is freed.
 *
 * Who writes the file (a rename) then raises ledger.head.quota_wanted: the gate compares that word
 * on each reserve, one load. A file changed by somebody who cannot write the ledger is found by the
 * slow paths, within half a second (docs/protocol/quota.md). */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "hook/self.h"

/** How often a slow path looks at the file itself. */
#define GS_RESIZE_POLL_NS 500000000u

/** Attaching is done: find out whether the file has changed meanwhile, before a ledger was there to
 * say so in. */
void gs_resize_attached(void);

/** Slow paths: look whether a new quota is announced and, twice a second, whether there is one.
 *  @now_ns  CLOCK_MONOTONIC.
 *  Threads  any; one reads, others go on with what is in force. Keeps errno. */
void gs_resize_poll(uint64_t now_ns);

/** Take over the quota file as it is now. */
void gs_resize_now(void);

/** Has somebody announced a quota that this process has not looked at? Attached processes only. */
static inline bool gs_resize_is_due(const struct gs_self_state *self)
{
    return __atomic_load_n(&self->ledger->head.quota_wanted, __ATOMIC_RELAXED) !=
           __atomic_load_n(&self->quota_seen, __ATOMIC_RELAXED);
}
