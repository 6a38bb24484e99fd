#pragma once
/* What the API side keeps per context, behind gs_sim_ctx.api. */

#include <pthread.h>

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/stream_object.h"

struct gs_module;
struct gs_export_value;

struct gs_apictx {
    pthread_mutex_t lock; /**< of the lists below; taken after nothing, released before callbacks */
    struct gs_stream *streams; /**< all, default ones too */
    struct gs_stream *legacy;
    uint64_t blocking_tag; /**< last tag of all streams that the legacy one waits for; atomic */
    struct gs_module *modules;
    struct gs_export_value *values; /**< context-local storage of the runtime (export_table.c) */
};

static inline struct gs_apictx *gs_apictx_of(struct gs_sim_ctx *ctx)
{
    return ctx->api;
}

/** Card of a context. */
static inline uint32_t gs_apictx_card(const struct gs_sim_ctx *ctx)
{
    return gs_process_device_card(ctx->device);
}

/** Called by apictx.c as a context ends; each frees its own. */
void gs_module_forget_context(struct gs_sim_ctx *ctx);
void gs_export_table_forget_context(struct gs_sim_ctx *ctx);
