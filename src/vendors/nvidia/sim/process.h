#pragma once
/* This process among those that share the cards: slot, liveness of others, the fork rule.
 *
 * A process is dead when its byte in the file `alive` is unlocked (the kernel drops the lock as it
 * dies) or, seen from the same pid namespace, when no process of that pid and start time runs. The
 * descriptor of `alive` is never closed: closing any would drop all locks of the process. */

#include <pthread.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "vendors/nvidia/sim/sim.h"
#include "vendors/nvidia/sim/state.h"

/** This process. Fields are set once by gs_process_join(). */
struct gs_sim_self {
    pthread_mutex_t lock; /* bookkeeping of this process: contexts, allocations, pools, handles */
    uint32_t slot;        /* in gs_sim_state->proc; GS_SIM_NONE before cuInit */
    uint32_t group;
    uint32_t zero_cost; /* copy of the state's flag */
    uint32_t joined;    /* process id that joined; tells a forked child */
};
extern struct gs_sim_self gs_sim_self;

/** Open the state and take a slot (the work of cuInit apart from its argument). Idempotent, any
 *  thread. Returns 0; -ECHILD in a forked child of a process that had joined; -ENOSPC no slot or
 *  group left; or an error of gs_state_open(). */
GS_WUR int gs_process_join(void);

/** Whether the process in `slot` still runs. Lock held or not. */
int gs_process_is_alive(uint32_t slot);

/** Free what dead processes held. Lock held. `group` GS_SIM_NONE: all groups; `card` GS_SIM_NONE:
 *  all cards, else only processes that hold memory there are looked at (and then freed wholly).
 *  `thorough`: a process none of whose threads will ever run again counts as dead even before
 *  the kernel has dropped its locks (costs a look into /proc); else by gs_process_is_alive().
 *  Returns how many were found dead. */
unsigned gs_process_reap(uint32_t group, uint32_t card, int thorough);

/** Bytes charged to a process on a card. Lock held. */
uint64_t gs_process_used(uint32_t slot, uint32_t card);

/** Devices as this process numbers them (CUDA_VISIBLE_DEVICES). Until gs_process_set_visible() is
 *  called, which cuInit does once, ordinal = card. `card` of a bad ordinal: GS_SIM_NONE. */
int gs_process_device_count(void);
uint32_t gs_process_device_card(int device);
void gs_process_set_visible(const uint32_t *cards, int n);

/** Lock `self.lock` of this process. */
void gs_process_lock(void);
void gs_process_unlock(void);
