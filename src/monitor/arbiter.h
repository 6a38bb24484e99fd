#pragma once
/* What each slice on one card may do now, from what the slices' processes say of themselves: the
 * lending of idle shares, priority, and how much of the time that processes found themselves busy
 * was in truth the neighbours' turn (docs/protocol/board.md).
 *
 * Pure: no clock, no system call, no allocation. One gs_arbiter per card, all zero at first; the
 * caller fills the inputs marked (in), keeps the objects between calls, and reads what is marked
 * (out). Every input from a ledger may be any number. Units: ns of CLOCK_MONOTONIC; basis points of
 * one card. One thread at a time. */

#include <stdbool.h>
#include <stdint.h>

#include "contract/board.h"
#include "contract/ledger.h"
#include "core/cleanup.h"

/** Bins are taken for final when they are so many bins old: by then short work has been reported.
 */
#define GS_ARBITER_LAG_BINS 10u
/** A slice that has asked for nothing for so long is idle, and its share lent. */
#define GS_ARBITER_IDLE_NS 60000000u
/** A process that waits says so every 50 ms. One that has not for so long is stopped, or the wait
 * was left by a jump: it asks for nothing. */
#define GS_ARBITER_WAIT_NS 200000000u
/** Slices of low priority yield until a high one has asked for nothing for so long. */
#define GS_ARBITER_PRIORITY_NS 1000000000u
/** A queue that is said to last longer than this from now on is not believed in. */
#define GS_ARBITER_QUEUE_NS 60000000000u
/** Processes with work in one bin that are told apart; more are taken to have none. */
#define GS_ARBITER_ACTIVE 4096u
/** Processes outside every ledger. */
#define GS_ARBITER_FOREIGN 64u
/** Processes that ended, remembered per slice until their last bins are final. */
#define GS_ARBITER_GHOSTS 8u

/** One process of a slice on the card. */
struct gs_arbiter_process {
    uint64_t owner;                 /**< (in) its slot's owner word; 0 none */
    uint64_t active_ns;             /**< (in) as in struct gs_ledger_use, as the rest of these */
    uint64_t wait_since_ns;         /**< (in) the caller leaves it out where the process is dead */
    uint64_t busy_until_ns;         /**< (in) */
    uint64_t managed_bytes;         /**< (in) */
    uint64_t bin[GS_LEDGER_BINS];   /**< (in) */
    uint64_t known[GS_LEDGER_BINS]; /**< (in) */
    uint64_t presumed;              /**< bit k: its queue was said to last beyond epoch - k */
    uint64_t epoch;                 /**< of bit 0; 0 not looked at yet */
    double mean; /**< of its density over the last third of a second or so of final bins */
};

/** One slice on the card. */
struct gs_arbiter_slice {
    uint64_t ledger_dev, ledger_ino;    /**< (in) */
    uint32_t core_bp;                   /**< (in) promised; GS_SHARE_ALL_BP none asked */
    uint32_t policy;                    /**< (in) enum gs_policy */
    bool is_high;                       /**< (in) goes first */
    bool is_ranked;                     /**< (in) has a priority, high or low */
    bool is_parked;                     /**< (in) another has the turn in memory: it cannot use its
                                           share now, and nobody has to yield to it */
    uint64_t cover[GS_LEDGER_COVER];    /**< (in) as in struct gs_ledger_device */
    uint64_t crowd[GS_LEDGER_COVER];    /**< (in) likewise */
    uint32_t n_processes;               /**< (in) */
    struct gs_arbiter_process *process; /**< (in) caller's; kept as they are between calls */
    struct gs_arbiter_process ghost[GS_ARBITER_GHOSTS]; /**< see gs_arbiter_forget_process() */
    uint32_t n_ghosts;                                  /**< so far; the oldest gives way */
    double ahead_ns;    /**< neighbours had so much more of shared time than even turns take */
    uint32_t n_active;  /**< (out) its processes that ask for the card, and could have it */
    uint64_t demand_ns; /**< (out) newest known demand, at most now; 0 never */
    uint32_t share_bp;  /**< (out) */
    uint32_t flags;     /**< (out) GS_BOARD_YIELD, GS_BOARD_SHARED */
    uint32_t others; /**< (out) processes beside this slice's that have asked for the card lately */
    uint64_t refund_ns; /**< (out) cumulative; the caller sets it once, where it starts */
};

struct gs_arbiter {
    struct gs_arbiter_slice *slice[GS_BOARD_SLICES]; /**< (in) */
    uint32_t n_slices;                               /**< (in) */
    uint64_t refund_bin; /**< newest bin whose refunds are in; 0 none yet; of the writer before us
                          */
    uint32_t n_foreign;
    double foreign[GS_ARBITER_FOREIGN]; /**< densities */
    double density[GS_ARBITER_ACTIVE + GS_ARBITER_FOREIGN];
    double part[GS_ARBITER_ACTIVE + GS_ARBITER_FOREIGN];
    /** What the bin at hand is made of: one entry for a slice that noted its steps, else one for
     *  each whole process's worth of density. */
    uint16_t owner[GS_ARBITER_ACTIVE]; /**< slice of each */
    double mean[GS_ARBITER_ACTIVE];    /**< its density in the steps in which it had work */
    uint64_t steps[GS_ARBITER_ACTIVE]; /**< which these are; 0: any */
    double mates[GS_ARBITER_ACTIVE];   /**< that had work in these steps beside one, on average */
    double lost[GS_ARBITER_ACTIVE];    /**< to others, ns */
    /** Of that time so much, of 1, is known from the slice's own measurements; */
    double known[GS_ARBITER_ACTIVE];
    double claim[GS_ARBITER_ACTIVE]; /**< had, as it says, of each step it shared, of 1 or so */
    double known_lost[GS_ARBITER_ACTIVE]; /**< what of it was not its own, ns; */
    double known_own[GS_ARBITER_ACTIVE];  /**< and what it had of each step beside others, of 1 */
};

/** One step, about every GS_BOARD_TICK_NS: all that is marked (out). A clock that went back costs
 *  refunds, nothing else. */
void gs_arbiter_step(struct gs_arbiter *arbiter, uint64_t now_ns);

/** What the driver says of processes that are in no ledger, or in one that reports nothing. Holds
 *  until the next call; call it with none where the driver has stopped answering.
 *  @util_pct  their parts of the card's time. A value above 100 is no answer, and one that the card
 *             cannot have given beside our own busy processes is not believed; both are left out.
 */
void gs_arbiter_take_foreign(struct gs_arbiter *arbiter, const uint32_t *util_pct, uint32_t n);

/** The process is gone, or another has its slot: keep its bins until they are final, zero *p. */
void gs_arbiter_forget_process(struct gs_arbiter_slice *slice, struct gs_arbiter_process *p);

/** Does the process wait for the card now, as far as can be believed? */
bool gs_arbiter_is_waiting(const struct gs_arbiter_process *process, uint64_t now_ns);

/** True where the slice's hooks report what they do: it has a share to keep, or goes first. */
bool gs_arbiter_is_reporting(const struct gs_arbiter_slice *slice);
