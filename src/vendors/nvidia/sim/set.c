/* Fills. */

#include <string.h>

#include "vendors/nvidia/sim/capture_link.h"
#include "vendors/nvidia/sim/copy.h"
#include "vendors/nvidia/sim/managed.h"
#include "vendors/nvidia/sim/memory.h"

/* Bytes that such a node moves, for the cost model. */
static uint64_t bytes_of(const CUDA_MEMSET_NODE_PARAMS *set)
{
    return (uint64_t)set->width * set->height * set->elementSize;
}

static void fill_row(char *row, const CUDA_MEMSET_NODE_PARAMS *set)
{
    size_t n = set->width;
    if (set->elementSize == 1) {
        memset(row, (int)(set->value & 0xff), n);
    } else if (set->elementSize == 2) {
        uint16_t v = (uint16_t)set->value;
        for (size_t i = 0; i < n; i++)
            memcpy(row + 2 * i, &v, 2);
    } else {
        uint32_t v = set->value;
        for (size_t i = 0; i < n; i++)
            memcpy(row + 4 * i, &v, 4);
    }
}

/* Bytes from the first to the last of what is filled. Returns 0 where no memory is that long, or
 * rows lie in each other; a pitch counts where there are several. */
static int measure(const CUDA_MEMSET_NODE_PARAMS *set, size_t *ret_span)
{
    size_t row, before = 0;
    return !__builtin_mul_overflow(set->width, (size_t)set->elementSize, &row) &&
           (set->height <= 1 ||
            (set->pitch >= row && !__builtin_mul_overflow(set->height - 1, set->pitch, &before))) &&
           !__builtin_add_overflow(before, row, ret_span);
}

/* `recording`: memory of a graph has no bytes yet while the graph is made; it is checked when it
 * runs. */
static CUresult check(const CUDA_MEMSET_NODE_PARAMS *set, int recording)
{
    size_t span = 0;
    if ((set->elementSize != 1 && set->elementSize != 2 && set->elementSize != 4) ||
        set->dst % set->elementSize)
        return CUDA_ERROR_INVALID_VALUE;
    if (!set->width || !set->height)
        return CUDA_SUCCESS;
    if (!measure(set, &span) || (!recording && !gs_memory_is_valid(set->dst, span)))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

static void fill(const CUDA_MEMSET_NODE_PARAMS *set)
{
    char *start = (char *)(uintptr_t)set->dst;
    for (size_t y = 0; y < set->height; y++)
        fill_row(start + y * set->pitch, set);
}

static CUresult call(const CUDA_MEMSET_NODE_PARAMS *set, struct gs_sim_order order)
{
    GS_SIM_ENTER_CTX(ctx);
    int recording = order.async && gs_stream_is_capturing(order.stream);
    CUresult rc = check(set, recording);
    if (rc)
        return rc;
    if (recording) {
        CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
        node.memset = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = set->dst,
                                                   .pitch = set->pitch,
                                                   .value = set->value,
                                                   .elementSize = set->elementSize,
                                                   .width = set->width,
                                                   .height = set->height,
                                                   .ctx = (CUcontext)ctx};
        return gs_capture_add(order.stream, &node, NULL);
    }
    if (!set->width || !set->height)
        return CUDA_SUCCESS;
    /* Fills of device memory do not make the caller wait. */
    rc = gs_stream_submit(order.async ? order.stream : NULL, GS_STREAM_FILL, bytes_of(set));
    if (rc)
        return rc;
    fill(set);
    gs_managed_write(set->dst, bytes_of(set));
    return CUDA_SUCCESS;
}

/* The exported family of one element size. */
#define SETS(bits, type, sync1, async1, sync2, async2)                                             \
    CUresult sync1(CUdeviceptr dst, type v, size_t n)                                              \
    {                                                                                              \
        GS_SIM_ENTRY;                                                                              \
        CUDA_MEMSET_NODE_PARAMS set = {dst, 0, v, (bits) / 8, n, 1};                               \
        return call(&set, (struct gs_sim_order){NULL, 0});                                         \
    }                                                                                              \
    CUresult async1(CUdeviceptr dst, type v, size_t n, CUstream s)                                 \
    {                                                                                              \
        GS_SIM_ENTRY;                                                                              \
        CUDA_MEMSET_NODE_PARAMS set = {dst, 0, v, (bits) / 8, n, 1};                               \
        return call(&set, (struct gs_sim_order){s, 1});                                            \
    }                                                                                              \
    CUresult sync2(CUdeviceptr dst, size_t pitch, type v, size_t width, size_t height)             \
    {                                                                                              \
        GS_SIM_ENTRY;                                                                              \
        CUDA_MEMSET_NODE_PARAMS set = {dst, pitch, v, (bits) / 8, width, height};                  \
        return call(&set, (struct gs_sim_order){NULL, 0});                                         \
    }                                                                                              \
    CUresult async2(CUdeviceptr dst, size_t pitch, type v, size_t width, size_t height,            \
                    CUstream s)                                                                    \
    {                                                                                              \
        GS_SIM_ENTRY;                                                                              \
        CUDA_MEMSET_NODE_PARAMS set = {dst, pitch, v, (bits) / 8, width, height};                  \
        return call(&set, (struct gs_sim_order){s, 1});                                            \
    }

SETS(8, unsigned char, cuMemsetD8_v2, cuMemsetD8Async, cuMemsetD2D8_v2, cuMemsetD2D8Async)
SETS(16, unsigned short, cuMemsetD16_v2, cuMemsetD16Async, cuMemsetD2D16_v2, cuMemsetD2D16Async)
SETS(32, unsigned int, cuMemsetD32_v2, cuMemsetD32Async, cuMemsetD2D32_v2, cuMemsetD2D32Async)

CUresult cuMemsetD8(CUdeviceptr_v1 dstDevice, unsigned char uc, unsigned int N)
{
    return cuMemsetD8_v2(dstDevice, uc, N);
}

CUresult cuMemsetD32(CUdeviceptr_v1 dstDevice, unsigned int ui, unsigned int N)
{
    return cuMemsetD32_v2(dstDevice, ui, N);
}
