#pragma once
/* HAMi-core's shared region, version 1.2, as its node monitor reads it. We only mirror into it: our
 * own decisions never read it back. glibc's sem_t is 32 bytes on LP64; we keep the bytes and never
 * use it. Source: spec sheet of the layout (compiled equivalent of HAMi-core 8f3a89c). */

#include <stddef.h>
#include <stdint.h>

#define GS_HAMI_MAGIC        19920718
#define GS_HAMI_MAJOR        1
#define GS_HAMI_MINOR        2
#define GS_HAMI_DEVICES      16u
#define GS_HAMI_SLOTS        1024u
#define GS_HAMI_REGION_BYTES 2008952u

#define GS_HAMI_DEAD      0
#define GS_HAMI_RUNNING   1
#define GS_HAMI_SUSPENDED 2

struct gs_hami_memory {
    uint64_t context_bytes;
    uint64_t module_bytes;
    uint64_t data_bytes;
    uint64_t offset_bytes;
    uint64_t total_bytes;
    uint64_t unused[3];
};

struct gs_hami_util {
    uint64_t decoder_pct;
    uint64_t encoder_pct;
    uint64_t sm_pct;
    uint64_t unused[3];
};

struct gs_hami_slot {
    int32_t pid;
    int32_t host_pid;
    struct gs_hami_memory used[GS_HAMI_DEVICES];
    uint64_t monitor_used_bytes[GS_HAMI_DEVICES];
    struct gs_hami_util util[GS_HAMI_DEVICES];
    int32_t status; /**< GS_HAMI_DEAD, _RUNNING, _SUSPENDED */
    int32_t pad;
    uint64_t seqlock; /**< even: stable. We leave it even for ever */
    uint64_t unused[2];
};

struct gs_hami_region {
    int32_t init_flag; /**< GS_HAMI_MAGIC when ready */
    uint32_t major;
    uint32_t minor;
    int32_t sm_init_flag;
    uint64_t owner_pid;
    uint8_t sem[32];
    uint64_t n_devices;
    char uuid[GS_HAMI_DEVICES][96];
    uint64_t limit_bytes[GS_HAMI_DEVICES]; /**< 0 none */
    uint64_t sm_limit_pct[GS_HAMI_DEVICES];
    struct gs_hami_slot slot[GS_HAMI_SLOTS];
    int32_t n_slots; /**< the monitor reads slots 0..n_slots-1 */
    int32_t utilization_switch;
    int32_t recent_kernel;
    int32_t priority;
    int64_t last_kernel_unix_s;
    uint8_t sem_postinit[32];
};

_Static_assert(offsetof(struct gs_hami_region, uuid) == 64, "region layout");
_Static_assert(offsetof(struct gs_hami_region, limit_bytes) == 1600, "region layout");
_Static_assert(offsetof(struct gs_hami_region, sm_limit_pct) == 1728, "region layout");
_Static_assert(offsetof(struct gs_hami_region, slot) == 1856, "region layout");
_Static_assert(sizeof(struct gs_hami_slot) == 1960, "slot layout");
_Static_assert(offsetof(struct gs_hami_slot, monitor_used_bytes) == 1032, "slot layout");
_Static_assert(offsetof(struct gs_hami_slot, util) == 1160, "slot layout");
_Static_assert(offsetof(struct gs_hami_slot, status) == 1928, "slot layout");
_Static_assert(offsetof(struct gs_hami_region, n_slots) == 2008896, "region layout");
_Static_assert(offsetof(struct gs_hami_region, last_kernel_unix_s) == 2008912, "region layout");
_Static_assert(sizeof(struct gs_hami_region) == GS_HAMI_REGION_BYTES, "region size");
