#include "vendors/nvidia/sim/apictx.h"

#include <stdlib.h>

#include "vendors/nvidia/sim/graph_memory.h"

CUresult gs_sim_api_ctx_created(struct gs_sim_ctx *ctx)
{
    struct gs_apictx *a = calloc(1, sizeof(*a));
    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&a->lock, NULL);
    ctx->api = a;
    return CUDA_SUCCESS;
}

void gs_sim_api_ctx_destroyed(struct gs_sim_ctx *ctx)
{
    struct gs_apictx *a = ctx->api;
    if (!a)
        return;
    (void)gs_sim_api_ctx_synchronize(ctx);
    gs_export_table_forget_context(ctx);
    gs_module_forget_context(ctx);
    gs_graph_memory_forget_context(ctx);
    gs_stream_forget_context((CUcontext)ctx);
    ctx->api = NULL;
    pthread_mutex_destroy(&a->lock);
    free(a);
}

struct tail {
    uint64_t tag;
    uint64_t host_seq;
};

static void add_tail(struct gs_stream *s, void *arg)
{
    struct tail *t = arg;
    uint64_t tag = __atomic_load_n(&s->tag, __ATOMIC_ACQUIRE);
    uint64_t seq = __atomic_load_n(&s->host_seq, __ATOMIC_ACQUIRE);
    t->tag = tag > t->tag ? tag : t->tag;
    t->host_seq = seq > t->host_seq ? seq : t->host_seq;
}

CUresult gs_sim_api_ctx_synchronize(struct gs_sim_ctx *ctx)
{
    struct tail t = {0, 0};
    if (!ctx->api)
        return CUDA_SUCCESS;
    gs_stream_each(ctx, add_tail, &t);
    gs_stream_await(gs_apictx_card(ctx), t.tag, t.host_seq, gs_stream_spin_ns());
    return CUDA_SUCCESS;
}
