#pragma once
/* One look at one container's file, ours or HAMi's: by pread, nothing in it trusted. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/ledger.h"
#include "contract/reason.h"
#include "core/cleanup.h"
#include "monitor/region.h"

#define GS_READING_UNKNOWN UINT64_MAX

enum gs_reading_kind {
    GS_READING_NONE,    /**< no file, or one that is being made: no program has used a card yet */
    GS_READING_LEDGER,  /**< ours */
    GS_READING_REGION,  /**< HAMi's */
    GS_READING_DAMAGED, /**< what it says counts for nothing */
};

struct gs_reading_device {
    char uuid[96];        /**< its tenant's word; printable, not empty */
    uint64_t limit_bytes; /**< UINT64_MAX none; its tenant's word */
    uint64_t used_bytes;
    uint64_t context_bytes, module_bytes, buffer_bytes, offset_bytes; /**< parts of that */
    uint32_t core_pct;
    uint64_t sm_pct; /**< as HAMi's processes say of themselves; GS_READING_UNKNOWN of ours */
    /** Of ours alone. */
    uint64_t refusals, waits, waited_ns;
    uint32_t used_10s_bp; /**< card time in the last ten seconds, in 1/10000 */
};

struct gs_reading {
    enum gs_reading_kind kind;
    char why[64]; /**< of a damaged one, for people */
    uint64_t dev, ino;
    struct gs_reading_device *device; /**< heap; by their places in the file */
    size_t n_devices;
    int32_t *pid; /**< heap: live processes. Of ours as the kernel names them in our pid namespace
                     (0 it cannot), of HAMi's what it was told */
    size_t n_pids;
    bool is_locked; /**< of a damaged one: somebody holds a lock on it, as every process of a ledger
                       does */
    struct gs_region_words words;
    enum gs_region_layout layout; /**< of HAMi's */
};

/** The log of a ledger, its lines counted by reason. Zeroed, it begins with what is there. */
struct gs_reading_log {
    uint64_t dev, ino, next;
    uint64_t count[GS_REASON_COUNT];
};
/** What a look needs beside its result, 4 MiB of address space of which little is touched. */
struct gs_reader;
GS_WUR int gs_reader_new(struct gs_reader **ret);
/** Accepts NULL; returns NULL. */
struct gs_reader *gs_reader_free(struct gs_reader *reader);

/** Look at a file of a container's folder.
 *  @name    NULL: there is none, and the reading says so.
 *  @now_ns  CLOCK_MONOTONIC.
 *  @log     of the same container, counted on where it is a ledger; may be NULL.
 *  Returns  0, a damaged file included; -ENOMEM; -EMFILE and the like: nothing is known.
 *  Owner    caller, gs_reading_fini(). */
GS_WUR int gs_reader_read(struct gs_reader *reader, int dir_fd, const char *name, uint64_t now_ns,
                          struct gs_reading_log *log, struct gs_reading *ret);
void gs_reading_fini(struct gs_reading *reading);

/** Does a process of it live? Of HAMi's by the pids it has: one that does not tell may live. Of a
 *  damaged one by the locks on it. */
bool gs_reading_is_live(const struct gs_reading *reading);
