#pragma once
/* Virtual memory management: handles of cuMemCreate, and their mappings into reservations. */

#include "vendors/nvidia/sim/memory.h"

/** Physical memory as this process names it. Lives while somebody has the handle or maps it. */
struct gs_sim_handle {
    uint64_t magic;
    struct gs_sim_handle *next;
    CUmemAllocationProp prop;
    struct gs_sim_id id; /* index GS_SIM_NONE: host memory */
    int fd;              /* of host memory, else -1 */
    uint32_t card;
    size_t size;
    uint32_t refs;
    uint32_t mappings;
};

/** Mapping of handles (map.c). Process lock held. */
struct gs_sim_handle *gs_vmm_get(CUmemGenericAllocationHandle handle);
/** One reference less (of a handle or a mapping); the last one gives the memory back. */
void gs_vmm_unref(struct gs_sim_handle *h, int mapping);
