#pragma once
/* A card, a driver and a ledger, small enough to be seen through, for the tests of the bodies.
 *
 * The card rounds as real ones do: allocations up to half a granule are cut from blocks of one
 * granule at the lowest free 512 bytes of the context's oldest block with room, larger ones take
 * whole granules. It is written from that sentence, not from the code under test. */

#include <stdint.h>

#include "hook/gate.h"
#include "hook/track.h"
#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/abi/nvml_types.h"

#define FAKE_DEVICES  4
#define FAKE_CONTEXTS 16

/** What the ledger says of a card, and what the card has really lost. */
struct fake_device {
    uint64_t limit;
    uint64_t held;
    uint64_t extra;
    uint64_t context_bytes; /**< learnt */
    uint64_t taken;         /**< from the card, contexts included */
    uint64_t peak;          /**< of taken */
    uint64_t granularity;
    uint64_t overhead; /**< what a context costs */
    uint64_t physical;
    int primary_refs;
    uint64_t managed; /**< as told to the gate */
};

struct fake_world {
    struct fake_device device[FAKE_DEVICES];
    int n_devices;
    int visible[FAKE_DEVICES]; /**< ordinal -> card, as CUDA_VISIBLE_DEVICES orders them */
    int granted[FAKE_DEVICES]; /**< card -> ledger index, -1 not in the grant */
    int mig;                   /**< UUIDs are of MIG instances */
    int fail_at;               /**< the n-th driver call that could take or free fails; 0: none */
    int calls;
    int frees;           /**< calls of the driver's free */
    int worst_placement; /**< the driver cuts each piece from a fresh block */
    int no_nvml;
    int nvml_knows_pid;
    uint64_t module_bytes; /**< what loading code takes */
    size_t heap_limit;
    int track_full;
    uint32_t n_full;     /* times that the gate was told of a full card */
    uint64_t full_bytes; /* what there was no room for, last */
    uint64_t full_held;  /* what was charged then */
    int closed;          /**< the limits cannot be used, so that nothing is given */
    int oversubscribe;
    int no_migration;    /**< the cards have no concurrent managed access */
    int managed_calls;   /**< of the driver's cuMemAllocManaged that succeeded */
    unsigned int advice; /**< bit per CUmem_advise given */
    int last_reason;     /**< written to the log */
};
extern struct fake_world fake;

/** One card of 1 GiB, granule 2 MiB, limit 64 MiB, a context current to the thread. */
int fake_setup(void **state);
/** Nothing stays booked once everything is freed: checked by tests that freed everything. */
void fake_assert_books_match(int device);

CUcontext fake_context(int index);
void fake_make_current(CUcontext context);

CUresult fake_mem_alloc(CUdeviceptr *dptr, size_t bytes);
CUresult fake_mem_alloc_pitch(CUdeviceptr *dptr, size_t *pitch, size_t width, size_t height,
                              unsigned int element);
CUresult fake_mem_free(CUdeviceptr dptr);
CUresult fake_ctx_create(CUcontext *pctx, unsigned int flags, CUdevice dev);
CUresult fake_ctx_destroy(CUcontext ctx);
CUresult fake_primary_retain(CUcontext *pctx, CUdevice dev);
CUresult fake_primary_release(CUdevice dev);
CUresult fake_primary_reset(CUdevice dev);
CUresult fake_ctx_set_limit(CUlimit limit, size_t value);
CUresult fake_mem_get_info(size_t *ret_free, size_t *ret_total);
CUresult fake_total_mem(size_t *ret_bytes, CUdevice dev);
CUresult fake_array_create(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc);
CUresult fake_array_destroy(CUarray array);
CUresult fake_module_load(CUmodule *module, const void *image);
CUresult fake_module_unload(CUmodule module);
