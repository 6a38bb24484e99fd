#pragma once
/* Faults on demand: any process that can write the card file may tell the others' drivers to fail.
 *
 * Every entry point starts with GS_SIM_ENTRY: one load and a branch that is never taken while no
 * fault is set. Lock order: none; rules are published by their `armed` count (release) and read
 * with acquire. */

#include <stdint.h>

#include "core/cleanup.h"

#define GS_FAULT_RULES    32
#define GS_FAULT_NAME_MAX 64
#define GS_FAULT_XIDS     64

/** Calls of `name` (base form, without _ptds/_ptsz): the `nth` from now (1 = the next; 0 = every
 * one) returns `code`; each waits `slow_ns` first. A rule with code 0 only slows. */
struct gs_fault_rule {
    char name[GS_FAULT_NAME_MAX];
    uint64_t nth;
    uint64_t calls; /**< seen since the rule was set */
    uint64_t slow_ns;
    int32_t code;
    uint32_t used; /**< 1 = rule is valid; written last */
};

/** One XID error: `seq` counts from 1 over all cards and is written last. */
struct gs_fault_xid {
    uint64_t seq;
    uint64_t xid;
    uint32_t card;
    uint32_t part; /**< 1 + number of the MIG device it struck; 0: the card */
};

/** Part of the card file; zeroed memory means no faults. */
struct gs_fault {
    uint64_t armed;     /**< number of reasons to look closer: rules and lost cards */
    uint64_t lost_mask; /**< bit i = card i has fallen off the bus */
    uint64_t n_xids;
    uint32_t nvml_absent;    /**< 1 = NVML cannot be initialised; atomic */
    uint32_t driver_stopped; /**< 1 = the driver is not loaded; atomic */
    uint32_t
        driver_starts;  /**< times it was loaded again: a session of NVML outlives none; atomic */
    uint32_t nvml_lies; /**< 1 + percent: what NVML says of every use; atomic */
    uint32_t reserved;
    struct gs_fault_xid xid[GS_FAULT_XIDS];
    struct gs_fault_rule rule[GS_FAULT_RULES];
};

/** The state in force; an empty one until gs_fault_attach(). Never NULL. */
extern struct gs_fault *gs_fault_state;

/** Use `f`, which outlives the process's use of the driver (NULL: back to the empty state). */
void gs_fault_attach(struct gs_fault *f);

/** Slow path of GS_SIM_ENTRY: 0 or the code to return. Waits where a rule says so. */
int gs_fault_hit(const char *name);

/** 1 when card `card` is lost. */
static inline int gs_fault_is_lost(uint32_t card)
{
    return (int)(__atomic_load_n(&gs_fault_state->lost_mask, __ATOMIC_RELAXED) >> (card & 63)) & 1;
}

/** What NVML is to say instead of `pct`. */
static inline uint32_t gs_fault_pct(uint32_t pct)
{
    uint32_t lie = __atomic_load_n(&gs_fault_state->nvml_lies, __ATOMIC_RELAXED);
    return lie ? lie - 1 : pct;
}

static inline int gs_fault_enter(const char *name)
{
    if (GS_LIKELY(!__atomic_load_n(&gs_fault_state->armed, __ATOMIC_RELAXED)))
        return 0;
    return gs_fault_hit(name);
}

/** First line of every exported function that returns a status. */
#define GS_SIM_ENTRY                                                                               \
    do {                                                                                           \
        int fault_ = gs_fault_enter(__func__);                                                     \
        if (GS_UNLIKELY(fault_))                                                                   \
            return fault_;                                                                         \
    } while (0)

/** Card of the calling thread's current context, or -1. Supplied by each library (NVML has none).
 */
int gs_fault_current_card(void);

/** Control side (any process). Each returns 0, -ENOSPC (table full) or -EINVAL (name too long, card
 * > 63). */
GS_WUR int gs_fault_set(struct gs_fault *f, const char *name, uint64_t nth, int32_t code,
                        uint64_t slow_ns);
GS_WUR int gs_fault_lose(struct gs_fault *f, uint32_t card);
GS_WUR int gs_fault_nvml_absent(struct gs_fault *f);
GS_WUR int gs_fault_nvml_lies(struct gs_fault *f, uint32_t pct);
/** Bring a lost card back. */
GS_WUR int gs_fault_return(struct gs_fault *f, uint32_t card);
/** Unload the driver: every call fails, NVML's with NVML_ERROR_DRIVER_NOT_LOADED. */
void gs_fault_driver_stop(struct gs_fault *f);
/** Load it (again): sessions of NVML from before answer NVML_ERROR_UNKNOWN until they are closed.
 *  What programs have on cards stays: a real driver is not unloaded under them. */
void gs_fault_driver_start(struct gs_fault *f);
/** @part  1 + number of the MIG device; 0: the card. */
GS_WUR int gs_fault_raise_xid(struct gs_fault *f, uint32_t card, uint64_t xid, uint32_t part);
/** Forget all rules, bring all cards and the driver back; XIDs already raised stay in the ring. */
void gs_fault_reset(struct gs_fault *f);
