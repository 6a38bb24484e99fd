#pragma once
/* What each effective row does: one function per body of api.def, `gs_nv_<body>(real, <the row's
 * own parameters>)`. Rows that share a body declare it alike.
 *
 *  @real    the driver's function of the row that was called; never NULL.
 *  Called   by the wrapper (wrap.c) for the outermost call only, between gs_engine_enter() and
 *           gs_engine_leave(): the engine has started, nested calls of the driver go straight
 *           through. A body neither enters nor leaves.
 *  Returns  what the caller of the driver gets.
 *
 * Bodies of launch rows are called only while the process's launches are held. Those of COPY rows
 * do not call the driver: they say what is copied (copy.h); false: go straight to the driver. */

#include <stdbool.h>

#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/abi/nvml_types.h"

struct gs_launch;

#define GS_NV_STRIP(...) __VA_ARGS__

#define GS_NV_BODY(body, ret, params) ret gs_nv_##body(ret(*real) params, GS_NV_STRIP params);
#define GS_NV_BODY_ALLOC              GS_NV_BODY
#define GS_NV_BODY_ARRAY              GS_NV_BODY
#define GS_NV_BODY_CAPTURE            GS_NV_BODY
#define GS_NV_BODY_CTX                GS_NV_BODY
#define GS_NV_BODY_FREE               GS_NV_BODY
#define GS_NV_BODY_GRAPH              GS_NV_BODY
#define GS_NV_BODY_INIT               GS_NV_BODY
#define GS_NV_BODY_IPC                GS_NV_BODY
#define GS_NV_BODY_LAUNCH             GS_NV_BODY
#define GS_NV_BODY_LOOKUP             GS_NV_BODY
#define GS_NV_BODY_MODULE             GS_NV_BODY
#define GS_NV_BODY_POOL               GS_NV_BODY
#define GS_NV_BODY_QUERY              GS_NV_BODY
#define GS_NV_BODY_SYNC               GS_NV_BODY
#define GS_NV_BODY_VMM                GS_NV_BODY
#define GS_NV_BODY_COPY(body, ret, params)                                                         \
    bool gs_nv_##body(struct gs_launch *copy, GS_NV_STRIP params);
/* A row without parameters: "(void)" cannot follow another one. */
#define GS_NV_BODY_SYNC_VOID(body, ret, params) ret gs_nv_##body(ret(*real) params);

#define CUDA_HOOK(symbol, class, body, ret, params, args) GS_NV_BODY_##class(body, ret, params)
#define NVML_HOOK(symbol, class, body, ret, params, args) GS_NV_BODY_##class(body, ret, params)
#include "vendors/nvidia/abi/api.def"
