#pragma once
/* HAMi's shared region as HAMi's own libvgpu writes it, in both of its layouts, and as our ledgers
 * mirror it: read from outside by pread, nothing in it trusted. A monitor writes two words into it.
 * Source  spec/control-plane.md 6.3; the newer layout is contract/hami_region.h. */

#include <stdbool.h>
#include <stdint.h>

#include "contract/hami_region.h"
#include "core/cleanup.h"

/** Size of a file of the older layout; one of the newer has GS_HAMI_REGION_BYTES at least. */
#define GS_REGION_OLD_BYTES 1197896u
/** So much of a UUID counts, as in HAMi's monitor. */
#define GS_REGION_UUID 40

enum gs_region_layout {
    GS_REGION_OLD, /**< without version words */
    GS_REGION_NEW,
};

struct gs_region_device {
    char uuid[GS_REGION_UUID + 1]; /**< empty: not set, or no text */
    uint64_t limit_bytes;          /**< UINT64_MAX none */
    uint32_t core_pct;             /**< 0..100 */
    /** Sums over the processes that run; they saturate. */
    uint64_t context_bytes, module_bytes, buffer_bytes, offset_bytes, used_bytes;
    uint64_t sm_pct;
};

/** What a monitor steers by. */
struct gs_region_words {
    int32_t utilization_switch; /**< 1: hold the share */
    int32_t recent_kernel;      /**< above 0: it has launched lately; below 0: it must not */
    int32_t priority;           /**< 0 high */
    int64_t last_kernel_unix_s; /**< 0 not known */
};

struct gs_region {
    enum gs_region_layout layout;
    uint32_t n_devices;
    struct gs_region_device device[GS_HAMI_DEVICES];
    struct gs_region_words words;
    uint32_t n_processes;
    int32_t
        host_pid[GS_HAMI_SLOTS]; /**< of the first n_processes; 0 not known; its tenant's word */
};

/** Which layout an open file has. Returns 0; -ENODATA empty; -EPROTO neither; -errno of the kernel.
 */
GS_WUR int gs_region_check(int fd, enum gs_region_layout *ret_layout);
/** Read all of it. Returns 0 or as gs_region_check(); *ret is undefined then. 8 KiB of stack. */
GS_WUR int gs_region_read(int fd, struct gs_region *ret);
/** The words alone, of a file that was checked. Returns 0; -EPROTO the file has shrunk; -errno. */
GS_WUR int gs_region_read_words(int fd, enum gs_region_layout layout, struct gs_region_words *ret);
/** Write utilization_switch and recent_kernel, each where it differs from `before`: the program may
 *  have changed the other since. Returns 0 or -errno. */
GS_WUR int gs_region_write_words(int fd, enum gs_region_layout layout,
                                 const struct gs_region_words *before,
                                 const struct gs_region_words *now);
