#pragma once
/* Memory pools. A pool takes chunks from its card (32 MiB, or as much as one request needs) and
 * cuts allocations from them; what the card lost is the sum of the chunks. Guard: gs_sim_self.lock.
 */

#include "vendors/nvidia/sim/block.h"
#include "vendors/nvidia/sim/memory.h"

struct gs_sim_pool {
    uint64_t magic;
    struct gs_sim_pool *next;
    CUmemPoolProps props;
    CUdevice device;
    uint32_t card; /* GS_SIM_NONE: host memory */
    uint32_t is_default;
    uint32_t is_imported; /* pointers only, no allocation */
    uint32_t is_dying;    /* destroyed while allocations live */
    uint64_t serial;
    struct gs_sim_block *chunks; /* oldest first */
    uint32_t n_empty;
    uint64_t reserved, reserved_high;
    uint64_t used, used_high;
    uint64_t threshold;
    uint64_t max_bytes; /* 0: no bound */
    uint32_t reuse[3];
};

/** New pool for a device (card) or host memory; enters the list. NULL without memory. */
struct gs_sim_pool *gs_pool_new(const CUmemPoolProps *props);
/** Pool of a handle, or NULL. */
struct gs_sim_pool *gs_pool_get(CUmemoryPool handle);
/** Remove it, or mark it to go with its last allocation. */
void gs_pool_destroy(struct gs_sim_pool *p);

/** The pool a device had from the start (made at first use). */
struct gs_sim_pool *gs_pool_default(CUdevice device);
struct gs_sim_pool *gs_pool_host(void);
/** The pool cuMemAllocAsync takes from. */
struct gs_sim_pool *gs_pool_current(CUdevice device);
void gs_pool_set_current(CUdevice device, struct gs_sim_pool *p);

/** Cut an allocation. CUDA_ERROR_OUT_OF_MEMORY if card or bound are full. */
CUresult gs_pool_take(struct gs_sim_pool *p, size_t bytes, CUdeviceptr *ret_ptr);
/** Return empty chunks while more than `keep` bytes would remain. Returns bytes returned. */
uint64_t gs_pool_trim(struct gs_sim_pool *p, uint64_t keep);

/** Free stream-ordered or imported memory (lock not held); used by cuMemFree too. */
CUresult gs_pool_free(CUdeviceptr ptr);
