#pragma once
/* Which process: a pid alone is not an identity, because pids return. Identity = (pid, start time).
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

struct gs_owner {
    uint32_t pid;
    uint64_t start_ticks; /**< clock ticks since boot, /proc/<pid>/stat field 22 */
    uint64_t image;       /**< gs_owner_image() */
    uint64_t once;        /**< random bytes that the kernel gave this image; 0 none. A process can
                             tell its own images apart by them even where addresses are fixed */
};

/** Identity of the calling process. Returns 0; -ENOENT and others when /proc cannot be read. */
GS_WUR int gs_owner_self(struct gs_owner *ret);
/** Start time of a process that is neither zombie nor dead.
 *  Returns 0; -ESRCH there is none; other -errno /proc cannot tell (counts as alive for a reaper).
 */
GS_WUR int gs_owner_start(uint32_t pid, uint64_t *ret_start_ticks);
/** Which program image the process runs, by where the kernel put it: exec keeps pid and start time,
 * and ends everything that the program had. 0: /proc does not tell. */
uint64_t gs_owner_image(uint32_t pid);
/** Has the process of an owner word ended, or begun another image than `image` (0: not known)?
 *  False where /proc cannot tell. */
bool gs_owner_has_ended(uint64_t word, uint64_t image);
/** 1 this very process runs; 0 it does not; -errno cannot tell. */
int gs_owner_is_alive(const struct gs_owner *owner);

/** The owner word of a ledger slot: never 0 for a real process. */
static inline uint64_t gs_owner_word(const struct gs_owner *owner)
{
    return (uint64_t)owner->pid << 32 | (uint32_t)owner->start_ticks;
}
