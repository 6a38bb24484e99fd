#pragma once
/* Memory as this process sees it: address -> allocation. Device memory lies in the mapping of its
 * card (address = base + offset) or, for virtual-memory mappings, in reserved ranges; host memory
 * that was pinned or registered is known too. Guard: gs_sim_self.lock. */

#include <stdint.h>

#include "vendors/nvidia/sim/card.h"
#include "vendors/nvidia/sim/context.h"

/** One allocation, as the pointer queries report it. */
struct gs_sim_range {
    CUdeviceptr start;
    size_t size;   /* as asked for */
    size_t length; /* address space taken */
    uint32_t kind; /* enum gs_sim_range_kind */
    uint32_t card;
    CUdevice device;
    struct gs_sim_ctx *ctx; /* may be NULL */
    struct gs_sim_id id;    /* physical memory; index GS_SIM_NONE: none */
    uint32_t flags;         /* of the host allocation, or of the reservation */
    uint64_t buffer_id;     /* unique in the process */
    uint64_t unit;          /* place in its card, set by gs_memory_add() */
    uint64_t units;         /* 0: found by address */
    void *owner;            /* of its kind: block of pieces, pool, reservation */
};

enum gs_sim_range_kind {
    GS_SIM_RANGE_NONE = 0,
    GS_SIM_RANGE_BLOCK,  /* cut into pieces (block.h); queries tell the piece */
    GS_SIM_RANGE_DEVICE, /* cuMemAlloc, pitch */
    GS_SIM_RANGE_MANAGED,
    GS_SIM_RANGE_POOL,       /* cuMemAllocAsync */
    GS_SIM_RANGE_IMPORT,     /* cuIpcOpenMemHandle, cuMemPoolImportPointer */
    GS_SIM_RANGE_MAPPED,     /* cuMemMap */
    GS_SIM_RANGE_HOST,       /* cuMemHostAlloc, cuMemAllocHost */
    GS_SIM_RANGE_REGISTERED, /* cuMemHostRegister */
};

/** The allocation that contains `ptr`. Takes the process lock.
 *  Returns CUDA_SUCCESS with a copy in *ret, or CUDA_ERROR_INVALID_VALUE. */
CUresult gs_memory_find(CUdeviceptr ptr, struct gs_sim_range *ret);

/** Whether [ptr, ptr + n) lies wholly in one known allocation, or in neighbouring mappings. */
int gs_memory_is_valid(CUdeviceptr ptr, size_t n);

/** Memory of a module's global variables or a stream-private need: plain device memory of a
 *  context, freed by gs_memory_free() or with the context. */
CUresult gs_memory_alloc(struct gs_sim_ctx *ctx, size_t bytes, CUdeviceptr *ret_ptr);
CUresult gs_memory_free(CUdeviceptr ptr);

/** Called at synchronisation points of a context (stream, event, context): pools of the device
 *  return what exceeds their release threshold. */
void gs_memory_synchronized(struct gs_sim_ctx *ctx);

/* The table itself, for the files that make and end allocations. gs_sim_self.lock held. */

/** Enter an allocation. Memory with a place in its card is found through the card's mapping
 *  (`unit` of `units` granules), anything else by its address (units 0).
 *  Returns its number (> 0), or 0 when the table is full. */
uint32_t gs_memory_add(const struct gs_sim_range *range, uint64_t unit, uint64_t units);
void gs_memory_remove(uint32_t number);

/** Entry that contains `ptr`, blocks not resolved; NULL if none. `ret_number` may be NULL. */
struct gs_sim_range *gs_memory_at(CUdeviceptr ptr, uint32_t *ret_number);

/** First entry found by address that starts in [ptr, ptr + size); NULL if none. */
struct gs_sim_range *gs_memory_after(CUdeviceptr ptr, size_t size, uint32_t *ret_number);

/** Entry of a number. */
struct gs_sim_range *gs_memory_entry(uint32_t number);

/** Address of granule `unit` of a card in this process; 0 if it cannot be mapped. */
CUdeviceptr gs_memory_address(uint32_t card, uint64_t unit);

/** Next number for buffer_id. */
uint64_t gs_memory_serial(void);

/** Walk all entries (`from` 0 starts). Returns the number of the next one in use, 0 at the end. */
uint32_t gs_memory_next(uint32_t from, struct gs_sim_range **ret_range);

/** End everything a context owns (lock not held). */
void gs_memory_forget_context(struct gs_sim_ctx *ctx);

/** Device or managed memory (`kind`: GS_SIM_RANGE_DEVICE or _MANAGED) of a context (linear.c; lock
 *  not held). */
CUresult gs_linear_alloc(struct gs_sim_ctx *ctx, size_t bytes, uint32_t kind, CUdeviceptr *ret_ptr);

/** End the small blocks of a context (linear.c; lock held). */
void gs_linear_forget(struct gs_sim_ctx *ctx);
