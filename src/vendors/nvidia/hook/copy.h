#pragma once
/* Copies and fills, limited like launches where the slice's owner asks for it
 * (GPUSLICE_LIMIT_COPIES). Their card time is learnt by direction and size.
 *
 * A body of a COPY row, gs_nv_<body>(copy, <the row's parameters>) in copy_rows.c, says only what
 * is copied; all rows then do the same:
 *
 *     paid = gs_copy_begin(&copy);
 *     return gs_copy_end(&copy, paid, real(...));
 *
 * Threads: any; reached only while the process's copies are held (wrap.c). */

#include <stdbool.h>
#include <stdint.h>

#include "hook/engine.h"
#include "hook/self.h"
#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/hook/launch.h"

/** Where the bytes go; the `handle` of the launch. */
enum gs_copy_way {
    GS_COPY_NOT = 0, /**< the card has no part in it */
    GS_COPY_UP,      /**< host to device */
    GS_COPY_DOWN,    /**< device to host */
    GS_COPY_INSIDE,  /**< device to device, and fills */
    GS_COPY_ANY,     /**< addresses alone are given */
};

/** May copies go straight to the driver? Asks for the wish itself, too: in a process whose state
 * the kernel cannot wipe at a fork, gs_engine says nothing. */
static inline bool gs_copy_is_free(void)
{
    return __atomic_load_n(&gs_engine.copies_free, __ATOMIC_RELAXED) != 0 ||
           gs_self.limit_copies == 0;
}

/** What a copy takes of any card of today, ns: of one that may lie inside the card not what the bus
 * would take. */
uint64_t gs_copy_least_ns(const struct gs_launch *copy);

/** Bytes of a box; saturates instead of wrapping. */
static inline uint64_t gs_copy_box(uint64_t width, uint64_t height, uint64_t depth)
{
    uint64_t bytes;

    return __builtin_mul_overflow(width, height, &bytes) ||
                   __builtin_mul_overflow(bytes, depth, &bytes)
               ? UINT64_MAX
               : bytes;
}

/** Pay, and wait if need be. @copy has been described, and `what` and `per_thread` are set.
 *  Returns what gs_copy_end() is to know: true, it was paid without a slow path. */
bool gs_copy_begin(struct gs_launch *copy);
CUresult gs_copy_end(struct gs_launch *copy, bool paid, CUresult result);
