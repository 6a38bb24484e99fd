#pragma once
/* Attach this process to its slice: limits -> ledger -> slot.
 *
 * Called by the engine under its once-only initialisation, before any gate function and again in a
 * forked child. Everything here belongs to the process, not to the ledger. */

#include <stdbool.h>
#include <stdint.h>

#include "contract/reason.h"

/** Read the limits, open or create the ledger, claim a slot, fill HAMi's mirror.
 *  Returns  0 attached; -ESHUTDOWN closed: device memory will be refused (the reason is kept,
 * logged to $GPUSLICE_LOG and, where a ledger is there, to its ring); 1 unusable but the quota says
 *           `fail open`; -EAGAIN the vendor cannot list its cards yet: nothing was logged, forget
 * and try again later. Never aborts. */
int gs_attach(void);
/** In a forked child, before gs_attach(): forget the parent's slot, mapping, descriptor and locks.
 */
void gs_attach_forget(void);
/** Ledger index of a UUID. -ENODEV not in the grant; -ESHUTDOWN closed; -ENOENT nothing is held. */
int gs_attach_device(const char *uuid);
/** No usable limits or ledger, and the policy is not to go on without. */
bool gs_attach_is_closed(void);
/** Number of devices in the grant, and their UUIDs (NULL beyond); 0 unless attached. */
uint32_t gs_attach_n_devices(void);
const char *gs_attach_uuid(uint32_t dev);
/** Why not attached; GS_REASON_NONE when attached. */
enum gs_reason gs_attach_reason(void);
