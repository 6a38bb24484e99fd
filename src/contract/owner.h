#pragma once
/* Which process: a pid alone is not an identity, because pids return. Identity = (pid, start time).
 */

#include <stdint.h>

#include "core/cleanup.h"

struct gs_owner {
    uint32_t pid;
    uint64_t start_ticks; /**< clock ticks since boot, /proc/<pid>/stat field 22 */
};

/** Identity of the calling process. Returns 0; -ENOENT and others when /proc cannot be read. */
GS_WUR int gs_owner_self(struct gs_owner *ret);
/** Start time of a process that is neither zombie nor dead.
 *  Returns 0; -ESRCH there is none; other -errno /proc cannot tell (counts as alive for a reaper).
 */
GS_WUR int gs_owner_start(uint32_t pid, uint64_t *ret_start_ticks);
/** 1 this very process runs; 0 it does not; -errno cannot tell. */
int gs_owner_is_alive(const struct gs_owner *owner);

/** The owner word of a ledger slot: never 0 for a real process. */
static inline uint64_t gs_owner_word(const struct gs_owner *owner)
{
    return (uint64_t)owner->pid << 32 | (uint32_t)owner->start_ticks;
}
