#pragma once
/* The driver's address of a function -> our wrapper for it.
 *
 * Filled while a driver library is resolved (under the engine's lock), read by any thread without
 * one. Fixed size, nothing is ever removed: driver libraries are pinned before they get in here. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"

/** Room for every row of every library of one vendor, at most half full. */
#define GS_XLATE_SLOTS 1024u

/** Remember a pair; an address that is known keeps its first wrapper. One writer at a time.
 *  Returns 0; -ENOSPC half of the table is in use. */
GS_WUR int gs_xlate_put(const void *real, void *wrapper);
/** The wrapper, or NULL. */
void *gs_xlate_get(const void *real);
