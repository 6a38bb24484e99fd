#pragma once
/* The quota file: what one slice may use. Written by `gpuslice run` or a device plugin, read by the
 * hook in a folder it sees read-only.
 *
 *     gpuslice-quota 1
 *     generation 7
 *     fail closed
 *     priority 0
 *     oversubscribe on
 *     device GPU-2a6f… memory=4294967296 cores=30 policy=fixed
 *     device GPU-77e1… memory=none cores=none policy=off
 *
 * Lines end with \n; words are separated by one blank; every line above is required except that
 * `priority` (0 high, 1 low) and `oversubscribe on` may be left out, and the number of devices is
 * 0..GS_LEDGER_DEVICES; UUIDs are unique. Nothing else is accepted. */

#include <stddef.h>
#include <stdint.h>

#include "contract/ledger.h"
#include "core/cleanup.h"
#include "core/str.h"

/** Larger files are refused before they are parsed. */
#define GS_QUOTA_MAX_BYTES 16384u

/** How compute is shared. Numbers go into ledgers. */
enum gs_policy {
    GS_POLICY_FIXED,   /**< never more than the share */
    GS_POLICY_ELASTIC, /**< idle shares are lent */
    GS_POLICY_OFF,     /**< not held */
    GS_POLICY_COUNT
};

/** Who goes first where slices share a card. */
enum gs_priority {
    GS_PRIORITY_NONE, /**< nothing said: low where its compute is held, else it takes no part */
    GS_PRIORITY_LOW,  /**< `priority 1`: yields, without a share too */
    GS_PRIORITY_HIGH, /**< `priority 0` */
};

/** What happens when quota or ledger cannot be used. */
enum gs_fail {
    GS_FAIL_CLOSED, /**< device memory is refused */
    GS_FAIL_OPEN,   /**< device memory is not held */
};

struct gs_quota_device {
    char uuid[96];        /**< NUL padded */
    uint64_t limit_bytes; /**< > 0; UINT64_MAX none */
    uint32_t core_pct;    /**< 1..100; 100 none. 0 would stop programs for good: refused */
    uint32_t policy;      /**< enum gs_policy */
};

struct gs_quota {
    uint64_t generation;
    uint32_t fail; /**< enum gs_fail */
    uint32_t n_devices;
    uint32_t priority;      /**< enum gs_priority */
    uint32_t oversubscribe; /**< 1: memory beyond the card is served from managed memory */
    struct gs_quota_device device[GS_LEDGER_DEVICES];
};

/** Parse a whole file.
 *  Returns  0; -EINVAL bad line (its number in *ret_line, from 1); -EFBIG too long; -E2BIG more
 * than GS_LEDGER_DEVICES devices; -EEXIST a UUID twice. On failure *ret_quota is undefined: it is
 *           7 KiB and parsed in place.
 *  Threads  pure. */
GS_WUR int gs_quota_parse(struct gs_str text, struct gs_quota *ret_quota, uint32_t *ret_line);
/** Write the file's text, NUL-terminated. Returns its length or -ENOSPC, -EINVAL (a value the
 * parser would refuse). */
GS_WUR int gs_quota_format(const struct gs_quota *quota, char *buf, size_t cap);
/** "fixed", "elastic", "off"; "?" outside the table. */
const char *gs_quota_policy_name(uint32_t policy);
/** "none", "low", "high"; "?" outside the table. */
const char *gs_quota_priority_name(uint32_t priority);
