#pragma once
/* Attach this process to its slice: limits -> ledger -> slot.
 *
 * Called by the engine under its once-only initialisation, before any gate function and again in a
 * forked child. Everything here belongs to the process, not to the ledger. */

#include <stdint.h>

#include "contract/ledger.h"
#include "contract/reason.h"
#include "core/cleanup.h"

enum gs_attach_state_kind {
    GS_ATTACH_NONE,   /**< not tried yet */
    GS_ATTACH_READY,  /**< limits known, ledger mapped, slot ours */
    GS_ATTACH_CLOSED, /**< unusable: device memory is refused */
    GS_ATTACH_OPEN,   /**< unusable, and the quota says that is no reason to refuse: nothing is held
                       */
};

/** A lock of this process, on a line of its own. 0 free, 1 taken. */
struct gs_attach_spin {
    _Alignas(64) uint64_t word;
};

/** What the gate needs at hand. Written by gs_attach() alone, before the engine publishes `ready`;
 *  afterwards only the locks, share_refs and fd change. */
struct gs_attach_state {
    uint32_t n_devices; /**< 0 unless READY, so that one comparison guards the hot path */
    uint32_t slot;
    struct gs_ledger *ledger;
    struct gs_ledger_device *device;
    struct gs_hami_slot *mirror; /**< our slot of HAMi's region */
    struct gs_hami_region *region;
    /** Ours, not the ledger's: a tenant can write there. 0: in the ledger but not in our grant. */
    uint64_t limit_bytes[GS_LEDGER_DEVICES];
    struct gs_attach_spin spin[GS_LEDGER_DEVICES]; /**< one announcer per device and process */
    struct gs_attach_spin share_spin;
    struct gs_attach_spin reap_spin;
    uint16_t share_refs[GS_LEDGER_SHARES]; /**< how often we hold each share; under share_spin */
    uint64_t query_reap_ms;      /**< CLOCK_MONOTONIC when a query may next look for the dead */
    uint32_t state;              /**< enum gs_attach_state_kind */
    int fd;                      /**< the ledger's only descriptor; 0 none */
    uint64_t file_dev, file_ino; /**< what fd must be, since programs close what is not theirs */
    uint32_t pid;
    uint64_t start_ticks;
    uint64_t owner_word;
    uint64_t map_bytes;
    uint32_t n_mapped; /**< devices in the mapping; the ledger's own count can be overwritten by a
                          tenant */
    char uuid[GS_LEDGER_DEVICES][96];
    /* why not READY */
    uint32_t reason; /**< enum gs_reason */
    uint64_t reason_arg[4];
    char reason_what[40];
    char path[512]; /**< the ledger's */
};

#ifdef GS_ATOMICS_SHIM
/* The explorer runs several "processes" in one and switches between their states. */
extern struct gs_attach_state *gs_attach_shim_self;
#define gs_attach_self (*gs_attach_shim_self)
#else
extern struct gs_attach_state gs_attach_self __attribute__((visibility("hidden")));
#endif

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
/** Number of devices in the grant, and their UUIDs (NULL beyond); 0 unless attached. */
uint32_t gs_attach_n_devices(void);
const char *gs_attach_uuid(uint32_t dev);
/** Why not attached; GS_REASON_NONE when attached. */
enum gs_reason gs_attach_reason(void);

/** For the files of this module: note why the slice cannot be used. Returns -ESHUTDOWN. */
int gs_attach_fail(enum gs_reason reason, const char *what, uint64_t arg0, uint64_t arg1);
