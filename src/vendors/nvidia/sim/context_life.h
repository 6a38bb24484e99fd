#pragma once
/* Birth and end of contexts, shared by plain (context.c) and primary ones (primary.c). */

#include "vendors/nvidia/sim/context.h"

/** A context that is not alive yet, in the list of the process for good; NULL without memory. */
struct gs_sim_ctx *gs_context_new(CUdevice device);

/** Charge the overhead, bring the API side up. On an error it stays dead. */
CUresult gs_context_start(struct gs_sim_ctx *ctx);

/** Everything it owns ends. */
void gs_context_end(struct gs_sim_ctx *ctx);
