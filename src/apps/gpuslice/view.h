#pragma once
/* One look at everything: cards, slices, processes, and which process belongs where. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "apps/gpuslice/book.h"
#include "apps/gpuslice/slice.h"
#include "base/err.h"
#include "base/proc.h"
#include "node/probe.h"

struct yyjson_mut_doc;
struct yyjson_mut_val;

struct gs_view_process {
    uint32_t pid;
    uint64_t used_bytes; /**< GS_PROBE_UNKNOWN where neither ledger nor driver knows */
    bool held;
    char comm[16];
};

/** Compute of one card of a slice; UINT64_MAX where it is not known. */
struct gs_view_share {
    uint64_t used_1s_permille;  /**< of the card, in the last second */
    uint64_t used_10s_permille; /**< in the last ten, or since the slice began */
    uint64_t now_permille;      /**< what it may use now: with idle shares that are lent to it */
    /** How much of the last interval launches of a process waited, at most 1000: the mean of those
     * processes that launched in it. */
    uint64_t wait_ms_per_s;
    uint64_t managed_bytes; /**< of its device memory, what lies in the host's now */
};

struct gs_view_slice {
    const struct gs_slice *slice;
    struct gs_book book; /**< zeroed while there is no ledger */
    bool is_unused;      /**< there is none yet: no program of it has used a card */
    struct gs_view_process *process;
    size_t n_processes;
    size_t cap_processes;
    uint64_t now_permille[GS_LEDGER_DEVICES];  /**< by place in the quota; see gs_view_share */
    uint64_t wait_ms_per_s[GS_LEDGER_DEVICES]; /**< by place in the book; gs_view_pace() */
};

struct gs_view {
    struct gs_probe probe;
    struct gs_err no_cards; /**< why the probe is empty */
    struct gs_proc_table procs;
    struct gs_slices slices;
    struct gs_view_slice *slice;  /**< one for each of slices.p */
    struct gs_view_slice outside; /**< processes on a card that belong to no slice we can see */
};

/** Collect dead slices, then read. Only @probe: ask the driver (`ls` does without).
 *  Returns  0, also without any card; negative errno with err set.
 *  Owner    caller; gs_view_fini(). */
GS_WUR int gs_view_read(bool probe, struct gs_view *ret_view, struct gs_err *err);
void gs_view_fini(struct gs_view *view);

/** Bytes of `uuid` in use by the slice, 0 without a ledger. */
uint64_t gs_view_used(const struct gs_view_slice *slice, const char *uuid);
/** Compute of the card used by the slice's processes in percent, GS_PROBE_UNKNOWN where the driver
 * does not say. */
uint64_t gs_view_core_pct(const struct gs_view *view, const struct gs_view_slice *slice,
                          const char *uuid);
/** Sum of the limits of live slices on a card, bytes. */
uint64_t gs_view_promised(const struct gs_view *view, const struct gs_card *card);
/** Sum of the shares of compute promised on a card, percent; more than 100 where slices were told
 * to oversubscribe. */
uint64_t gs_view_promised_cores(const struct gs_view *view, const struct gs_card *card);
/** "running", "suspended", ... */
const char *gs_view_state_text(const struct gs_view_slice *slice);
/** True where the quota holds the device's launches, or gives them a place in a queue. */
bool gs_view_is_held(const struct gs_view_slice *slice, const struct gs_quota_device *device);
/** What the ledger tells of one device of the quota. */
struct gs_view_share gs_view_share(const struct gs_view_slice *slice,
                                   const struct gs_quota_device *device);
/** Waits are counted up; what they are per second is known from two views. @before the older one.
 */
void gs_view_pace(struct gs_view *view, const struct gs_view *before);
/** True where a launch of some slice has ever waited: then a second view tells more. */
bool gs_view_has_waits(const struct gs_view *view);

/** Append all of a view as one line of JSON; `slices` alone without @cards. Returns 0 or -ENOMEM.
 */
GS_WUR int gs_view_json(const struct gs_view *view, bool cards, struct gs_buf *buf);
