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

struct gs_view_slice {
    const struct gs_slice *slice;
    struct gs_book book; /**< zeroed while there is no ledger */
    struct gs_view_process *process;
    size_t n_processes;
    size_t cap_processes;
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
uint64_t gs_view_promised(const struct gs_view *view, const char *uuid);

/** Append all of a view as one line of JSON; `slices` alone without @cards. Returns 0 or -ENOMEM.
 */
GS_WUR int gs_view_json(const struct gs_view *view, bool cards, struct gs_buf *buf);
