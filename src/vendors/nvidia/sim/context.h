#pragma once
/* Contexts of this process. A CUcontext is the address of one of these; they are never returned to
 * the heap, so that a stale handle is found dead rather than read wild. Guard: gs_sim_self.lock. */

#include <stdint.h>

#include "vendors/nvidia/sim/card.h"
#include "vendors/nvidia/sim/sim.h"

#define GS_SIM_LIMIT_COUNT 11

struct gs_sim_small;

struct gs_sim_ctx {
    uint64_t magic;          /* tells a context from anything else */
    struct gs_sim_ctx *next; /* all contexts of the process, dead ones too */
    CUdevice device;
    uint32_t id; /* unique in the process; also the object's `context` */
    uint32_t flags;
    uint32_t alive; /* atomic: any thread may ask, see gs_context_is_alive() */
    uint32_t primary;
    uint32_t refs;    /* retains of a primary context; attach count of a plain one */
    uint32_t version; /* of the API it was created with, as cuCtxGetApiVersion tells it */
    uint32_t cache_config;
    uint32_t shared_config;
    struct gs_sim_id overhead; /* charged memory; index GS_SIM_NONE: none */
    uint64_t peers;            /* bit per device with access enabled */
    size_t limit[GS_SIM_LIMIT_COUNT];
    struct gs_sim_small *small; /* blocks for small allocations (linear.c) */
    void *api;                  /* streams, modules, context-local storage (simulated API side) */
};

/** Not destroyed (yet). Acquire: pairs with the release at the end of its creation. */
static inline int gs_context_is_alive(const struct gs_sim_ctx *ctx)
{
    return __atomic_load_n(&ctx->alive, __ATOMIC_ACQUIRE) != 0;
}

/** Context current to the calling thread, or NULL. */
struct gs_sim_ctx *gs_context_current(void);

/** Context of a handle (NULL = the current one).
 *  Returns CUDA_ERROR_INVALID_CONTEXT for none or a stale one, CUDA_ERROR_CONTEXT_IS_DESTROYED for
 *  one that was destroyed while current. */
CUresult gs_context_get(CUcontext handle, struct gs_sim_ctx **ret_ctx);

/** Primary context of a device, live or not (its handle never changes). */
struct gs_sim_ctx *gs_context_primary(CUdevice device);

/** Walk the live contexts of a device (-1: any). `prev` NULL starts. */
struct gs_sim_ctx *gs_context_next(struct gs_sim_ctx *prev, CUdevice device);

/** Checks a device ordinal: CUDA_SUCCESS or CUDA_ERROR_INVALID_DEVICE. */
CUresult gs_context_check_device(CUdevice device);

/** Entry check that also finds the current context; for functions that need one. */
#define GS_SIM_ENTER_CTX(var)                                                                      \
    GS_SIM_ENTER_READY();                                                                          \
    struct gs_sim_ctx *var = gs_context_current();                                                 \
    do {                                                                                           \
        if (GS_UNLIKELY(!var))                                                                     \
            return CUDA_ERROR_INVALID_CONTEXT;                                                     \
        if (GS_UNLIKELY(!gs_context_is_alive(var)))                                                \
            return CUDA_ERROR_CONTEXT_IS_DESTROYED;                                                \
    } while (0)

/* Implemented on the API side (streams, modules); weak empty defaults exist. No lock held. */

/** A context came to life; set ctx->api. An error undoes the creation. */
CUresult gs_sim_api_ctx_created(struct gs_sim_ctx *ctx);
/** A context is about to die: wait for its streams, run context-local destructors, free ctx->api.
 */
void gs_sim_api_ctx_destroyed(struct gs_sim_ctx *ctx);
/** Wait for all work of a context. */
CUresult gs_sim_api_ctx_synchronize(struct gs_sim_ctx *ctx);
