#pragma once
/* What every file of the simulated driver needs: prototypes of the exported functions, the entry
 * check, and the list of files by owner.
 *
 *   state    the shared file `cards`: layout, creation, lock, repair
 *   process  this process in that file: slot, liveness, fork rule, reaping of the dead
 *   card     physical memory of a card: taken, held by several processes, given back
 *   memory   where this process sees memory: pointer -> allocation
 *   context  CUcontext: primary and plain contexts, the current stack of a thread
 *   linear, managed, array, vmm, pool, ipc, copy, pointer, host   the functions on memory
 *   clock, fault, stream, capture, ...   time, order and everything else (see there) */

#include "core/cleanup.h"
#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/sim/fault.h"

/* Prototypes of all rows with a signature. A function nobody defines answers
 * CUDA_ERROR_NOT_SUPPORTED (a generated weak definition); writing a strong one is all it takes. */
#define CUDA_HOOK(symbol, class, body, ret, params, args) GS_EXPORT ret symbol params;
#define CUDA_CALL(symbol, ret, params, reason)            GS_EXPORT ret symbol params;
#include "vendors/nvidia/abi/api.def"

/** GS_SIM_ENTRY (fault.h), then the error of a process that has not initialised or is a forked
 *  child of one that had. First line of every exported function but cuInit and pure queries. */
#define GS_SIM_ENTER_READY()                                                                       \
    do {                                                                                           \
        GS_SIM_ENTRY;                                                                              \
        if (GS_UNLIKELY(!gs_process_is_ready()))                                                   \
            return gs_process_not_ready();                                                         \
    } while (0)

/** A word that reads 1 between a successful cuInit and the end of the process, and 0 in a forked
 *  child (the page is wiped on fork). */
extern const uint32_t *gs_process_ready_word;

static inline int gs_process_is_ready(void)
{
    return gs_process_ready_word && __atomic_load_n(gs_process_ready_word, __ATOMIC_ACQUIRE) == 1;
}

/** Why this process is not ready: always CUDA_ERROR_NOT_INITIALIZED today; never success. */
CUresult gs_process_not_ready(void);
