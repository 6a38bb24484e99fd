#include "vendors/nvidia/sim/context.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/context_life.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/process.h"

#define CTX_MAGIC UINT64_C(0x7478656374786572)
static struct gs_sim_ctx *all; /* newest first */
static uint32_t last_id;

/* Contexts below the current one of a thread; on the heap, so that the library needs little of the
 * static thread-local space that a late dlopen finds. */
struct stack {
    uint32_t n, room;
    struct gs_sim_ctx *below[];
};

#define LOCAL static __thread __attribute__((tls_model("initial-exec")))
LOCAL struct gs_sim_ctx *current;
LOCAL struct stack *stack;

static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

struct gs_sim_ctx *gs_context_current(void)
{
    return current;
}

static void make_key(void)
{
    (void)pthread_key_create(&stack_key, free);
}

static CUresult push(struct gs_sim_ctx *ctx)
{
    if (current) {
        if (!stack || stack->n == stack->room) {
            uint32_t room = stack ? stack->room * 2 : 8;
            struct stack *more = realloc(stack, sizeof(*more) + room * sizeof(more->below[0]));
            if (!more)
                return CUDA_ERROR_OUT_OF_MEMORY;
            more->n = stack ? more->n : 0;
            more->room = room;
            stack = more;
            (void)pthread_once(&stack_once, make_key);
            (void)pthread_setspecific(stack_key, more);
        }
        stack->below[stack->n++] = current;
    }
    current = ctx;
    return CUDA_SUCCESS;
}

static void pop(void)
{
    current = stack && stack->n ? stack->below[--stack->n] : NULL;
}

static int is_known(const struct gs_sim_ctx *ctx)
{
    for (const struct gs_sim_ctx *c = __atomic_load_n(&all, __ATOMIC_ACQUIRE); c; c = c->next)
        if (c == ctx)
            return c->magic == CTX_MAGIC;
    return 0;
}

CUresult gs_context_get(CUcontext handle, struct gs_sim_ctx **ret_ctx)
{
    struct gs_sim_ctx *ctx = (struct gs_sim_ctx *)handle;
    if (!ctx)
        ctx = gs_context_current();
    else if (!is_known(ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!gs_context_is_alive(ctx))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *ret_ctx = ctx;
    return CUDA_SUCCESS;
}

struct gs_sim_ctx *gs_context_next(struct gs_sim_ctx *prev, CUdevice device)
{
    struct gs_sim_ctx *c = prev ? prev->next : __atomic_load_n(&all, __ATOMIC_ACQUIRE);
    while (c && (!gs_context_is_alive(c) || (device >= 0 && c->device != device)))
        c = c->next;
    return c;
}

CUresult gs_context_check_device(CUdevice device)
{
    if (device < 0 || device >= gs_process_device_count())
        return CUDA_ERROR_INVALID_DEVICE;
    return CUDA_SUCCESS;
}

struct gs_sim_ctx *gs_context_new(CUdevice device)
{
    struct gs_sim_ctx *ctx = calloc(1, sizeof(*ctx));
    if (!ctx)
        return NULL;
    ctx->magic = CTX_MAGIC;
    ctx->device = device;
    ctx->overhead.index = GS_SIM_NONE;
    gs_process_lock();
    ctx->next = all;
    __atomic_store_n(&all, ctx, __ATOMIC_RELEASE);
    gs_process_unlock();
    return ctx;
}

static void default_limits(struct gs_sim_ctx *ctx)
{
    memset(ctx->limit, 0, sizeof(ctx->limit));
    ctx->limit[CU_LIMIT_STACK_SIZE] = 1024;
    ctx->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    ctx->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    ctx->limit[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    ctx->limit[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    ctx->limit[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

/* Live contexts per card, for the reports of other processes. */
static void count(const struct gs_sim_ctx *ctx, int up)
{
    struct gs_sim_proc *p = &gs_sim_state->proc[gs_sim_self.slot];
    uint32_t card = gs_process_device_card(ctx->device);
    gs_state_lock();
    p->contexts += up ? 1 : UINT32_MAX;
    if (up)
        p->card_mask |= UINT64_C(1) << card;
    else if (!gs_context_next(NULL, ctx->device))
        p->card_mask &= ~(UINT64_C(1) << card);
    gs_state_unlock();
}

CUresult gs_context_start(struct gs_sim_ctx *ctx)
{
    uint64_t overhead = gs_sim_state->overhead_bytes;
    uint32_t card = gs_process_device_card(ctx->device);
    CUresult rc = CUDA_SUCCESS;
    ctx->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    ctx->overhead.index = GS_SIM_NONE;
    if (overhead) {
        struct gs_sim_take take = {card, GS_SIM_CONTEXT, ctx->id, 0, overhead, overhead};
        rc = gs_card_take(&take, &ctx->overhead);
    }
    if (rc)
        return rc;
    default_limits(ctx);
    ctx->peers = 0;
    ctx->cache_config = CU_FUNC_CACHE_PREFER_NONE;
    ctx->shared_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    __atomic_store_n(&ctx->alive, 1, __ATOMIC_RELEASE);
    rc = gs_sim_api_ctx_created(ctx);
    if (rc) {
        __atomic_store_n(&ctx->alive, 0, __ATOMIC_RELEASE);
        if (ctx->overhead.index != GS_SIM_NONE)
            gs_card_drop(ctx->overhead);
        return rc;
    }
    count(ctx, 1);
    return CUDA_SUCCESS;
}

void gs_context_end(struct gs_sim_ctx *ctx)
{
    gs_sim_api_ctx_destroyed(ctx);
    __atomic_store_n(&ctx->alive, 0, __ATOMIC_RELEASE);
    gs_memory_forget_context(ctx);
    gs_card_drop_context(ctx->id);
    ctx->overhead.index = GS_SIM_NONE;
    count(ctx, 0);
}

static CUresult create(CUcontext *pctx, unsigned int flags, CUdevice dev, uint32_t version)
{
    if (!pctx || flags & ~0xffU)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_check_device(dev);
    if (rc)
        return rc;
    struct gs_sim_ctx *ctx = gs_context_new(dev);
    if (!ctx)
        return CUDA_ERROR_OUT_OF_MEMORY;
    ctx->flags = flags;
    ctx->refs = 1;
    ctx->version = version;
    rc = gs_context_start(ctx);
    if (rc)
        return rc; /* stays in the list as a dead one */
    rc = push(ctx);
    if (rc) {
        gs_context_end(ctx);
        return rc;
    }
    *pctx = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    return create(pctx, flags, dev, 3010);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    return create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                        unsigned int flags, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    if (numParams < 0 || (numParams && !paramsArray))
        return CUDA_ERROR_INVALID_VALUE;
    return create(pctx, flags, dev, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                        CUdevice dev)
{
    GS_SIM_ENTER_READY();
    (void)ctxCreateParams; /* affinity and graphics sharing change nothing here */
    return create(pctx, flags, dev, 3020);
}

static CUresult destroy(CUcontext handle)
{
    struct gs_sim_ctx *ctx = NULL;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_get(handle, &ctx);
    if (rc)
        return rc;
    if (ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    gs_context_end(ctx);
    if (current == ctx)
        pop();
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    GS_SIM_ENTER_READY();
    return destroy(ctx);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    GS_SIM_ENTER_READY();
    return destroy(ctx);
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!pctx || flags)
        return CUDA_ERROR_INVALID_VALUE;
    (void)__atomic_add_fetch(&ctx->refs, 1, __ATOMIC_RELAXED);
    *pctx = (CUcontext)ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext handle)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_ctx *ctx = NULL;
    CUresult rc = gs_context_get(handle, &ctx);
    if (rc)
        return rc;
    if (ctx != gs_context_current() || ctx->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    return __atomic_sub_fetch(&ctx->refs, 1, __ATOMIC_RELAXED) ? CUDA_SUCCESS : destroy(handle);
}

static CUresult push_current(CUcontext handle)
{
    struct gs_sim_ctx *ctx = (struct gs_sim_ctx *)handle;
    if (!ctx)
        return CUDA_ERROR_INVALID_VALUE;
    if (!is_known(ctx) || (!gs_context_is_alive(ctx) && !ctx->primary))
        return CUDA_ERROR_INVALID_CONTEXT;
    return push(ctx);
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    GS_SIM_ENTER_READY();
    return push_current(ctx);
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    GS_SIM_ENTER_READY();
    return push_current(ctx);
}

static CUresult pop_current(CUcontext *pctx)
{
    if (!current)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx)
        *pctx = (CUcontext)current;
    pop();
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
    GS_SIM_ENTER_READY();
    return pop_current(pctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    GS_SIM_ENTER_READY();
    return pop_current(pctx);
}

CUresult cuCtxSetCurrent(CUcontext handle)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_ctx *ctx = (struct gs_sim_ctx *)handle;
    if (!ctx) {
        if (current)
            pop();
        return CUDA_SUCCESS;
    }
    /* The runtime makes a primary context current before it retains it. */
    if (!is_known(ctx) || (!gs_context_is_alive(ctx) && !ctx->primary))
        return CUDA_ERROR_INVALID_CONTEXT;
    current = ctx;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    GS_SIM_ENTER_READY();
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = (CUcontext)gs_context_current();
    return CUDA_SUCCESS;
}
