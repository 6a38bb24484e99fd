#pragma once
/* What this process knows of its slice: the floor that limits, file, slot, gate and shares stand
 * on. */

#include <stdint.h>

#include "contract/ledger.h"
#include "contract/reason.h"

enum gs_self_kind {
    GS_SELF_NONE,   /**< not tried yet */
    GS_SELF_READY,  /**< limits known, ledger mapped, slot ours */
    GS_SELF_CLOSED, /**< unusable: device memory is refused */
    GS_SELF_OPEN,   /**< unusable, and the quota says that is no reason to refuse: nothing is held
                     */
};

#define GS_SELF_PATH 512

/** A lock of this process, on a line of its own. 0 free, 1 taken. */
struct gs_self_spin {
    _Alignas(64) uint64_t word;
};

/** Which quota file the limits in force came from; resize.c's. */
struct gs_self_quota {
    uint64_t seen;          /**< ledger.head.quota_wanted up to which it was looked at */
    uint64_t due_ns;        /**< when a slow path may look at the file itself again */
    uint64_t busy;          /**< 1: a thread is reading it */
    uint64_t file[4];       /**< identity of the file read: device, inode, change time */
    uint32_t from_env;      /**< 1: limits are from variables and stay as they are */
    char dir[GS_SELF_PATH]; /**< the folder; empty: none, or too long to remember */
};

/** What the gate needs at hand. Written by gs_attach() alone, before the engine publishes `ready`;
 *  afterwards only the locks, share_refs, fd and, when the quota has changed, limits and quota. */
struct gs_self_state {
    uint32_t n_devices; /**< 0 unless READY, so that one comparison guards the hot path */
    uint32_t slot;
    struct gs_ledger *ledger;
    struct gs_ledger_device *device;
    struct gs_hami_slot *mirror; /**< our slot of HAMi's region */
    struct gs_hami_region *region;
    uint64_t quota_seen; /**< ledger.head.quota_wanted up to which the quota was looked at */
    /** Ours, not the ledger's: a tenant can write there. 0: in the ledger but not in our grant. */
    uint64_t limit_bytes[GS_LEDGER_DEVICES];
    uint32_t core_pct[GS_LEDGER_DEVICES];        /**< 1..100; 100 none */
    uint32_t policy[GS_LEDGER_DEVICES];          /**< enum gs_policy */
    uint32_t priority;                           /**< enum gs_priority */
    uint32_t oversubscribe;                      /**< 1: memory beyond the card is managed memory */
    uint32_t limit_copies;                       /**< 1: copies and fills are held like launches */
    struct gs_self_spin spin[GS_LEDGER_DEVICES]; /**< one announcer per device and process */
    struct gs_self_spin share_spin;
    struct gs_self_spin reap_spin;
    uint16_t share_refs[GS_LEDGER_SHARES]; /**< how often we hold each share; under share_spin */
    uint64_t query_reap_ms;      /**< CLOCK_MONOTONIC when a query may next look for the dead */
    uint32_t state;              /**< enum gs_self_kind */
    int fd;                      /**< the ledger's only descriptor; 0 none */
    uint64_t file_dev, file_ino; /**< what fd must be, since programs close what is not theirs */
    uint32_t pid;
    uint64_t start_ticks;
    uint64_t owner_word;
    uint64_t image, once; /**< struct gs_owner */
    uint64_t map_bytes;
    uint32_t n_mapped; /**< devices in the mapping; the ledger's own count can be overwritten by a
                          tenant */
    char uuid[GS_LEDGER_DEVICES][96];
    struct gs_self_quota quota;
    /* why not READY */
    uint32_t reason; /**< enum gs_reason */
    uint64_t reason_arg[4];
    char reason_what[40];
    char path[GS_SELF_PATH]; /**< the ledger's */
};

#ifdef GS_ATOMICS_SHIM
/* The explorer runs several "processes" in one and switches between their states. */
extern struct gs_self_state *gs_self_shim;
#define gs_self (*gs_self_shim)
#else
extern struct gs_self_state gs_self __attribute__((visibility("hidden")));
#endif

/** Note why the slice cannot be used; the first cause is kept. Returns -ESHUTDOWN. */
int gs_self_fail(enum gs_reason reason, const char *what, uint64_t arg0, uint64_t arg1);
