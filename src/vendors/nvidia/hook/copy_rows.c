#include <stddef.h>

#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/copy.h"

/* The COPY rows: how many bytes each call moves, which way, and on what stream. Calls that come
 * back when the copy is done work on the default stream, which `_ptds` twins take for the calling
 * thread's own (wrap.c). */

/* What a copy is taken for before one of its size was measured, bytes per nanosecond: PCIe 3.0 x16,
 * and the memory of a card, each about what the slower of today's cards reach. */
#define BUS_BYTES_PER_NS  12u
#define CARD_BYTES_PER_NS 500u
/* Copies up to here cost about the same: the set-up counts more than the bytes. */
#define LEAST_BYTES 4096u

/* Fill in what the row's arguments say. False: nothing to be paid for, no byte is copied.
 * @bytes  UINT64_MAX: more than that. */
static bool describe(struct gs_launch *copy, enum gs_copy_way way, uint64_t bytes, CUstream stream)
{
    if (way == GS_COPY_NOT || bytes == 0)
        return false;
    copy->stream = stream;
    copy->handle = way;
    copy->shape = GS_LAUNCH_COPY_SHAPE;
    copy->blocks = bytes;
    copy->per_block = way == GS_COPY_INSIDE ? CARD_BYTES_PER_NS : BUS_BYTES_PER_NS;
    copy->quarter = gs_cost_quarter(bytes / LEAST_BYTES);
    return true;
}

uint64_t gs_copy_least_ns(const struct gs_launch *copy)
{
    return gs_cost_prior_copy(copy->blocks,
                              copy->handle == GS_COPY_ANY ? CARD_BYTES_PER_NS : copy->per_block);
}

/* Way of a copy between two kinds of memory. */
static enum gs_copy_way way_of(CUmemorytype from, CUmemorytype to)
{
    if (from == CU_MEMORYTYPE_UNIFIED || to == CU_MEMORYTYPE_UNIFIED)
        return GS_COPY_ANY;
    if (from == CU_MEMORYTYPE_HOST)
        return to == CU_MEMORYTYPE_HOST ? GS_COPY_NOT : GS_COPY_UP;
    return to == CU_MEMORYTYPE_HOST ? GS_COPY_DOWN : GS_COPY_INSIDE;
}

bool gs_copy_begin(struct gs_launch *copy)
{
    if (gs_launch_pay(copy))
        return true;
    gs_launch_begin(copy);
    return false;
}

CUresult gs_copy_end(struct gs_launch *copy, bool paid, CUresult result)
{
    return paid ? gs_launch_paid(copy, result) : gs_launch_end(copy, result);
}

/* A row has all of its function's parameters, and needs few of them. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* clang-format off */
#define ROW(body, way, bytes, stream, ...)                                                         \
    bool gs_nv_##body(struct gs_launch *copy, __VA_ARGS__)                                         \
    {                                                                                              \
        return describe(copy, way, bytes, stream);                                         \
    }
/* The call that waits, and the one with a stream. */
#define ROWS(body, way, bytes, ...)                                                                \
    ROW(body, way, bytes, NULL, __VA_ARGS__)                                                       \
    ROW(body##_async, way, bytes, s, __VA_ARGS__, CUstream s)
/* The arguments stand in a structure. */
#define BOX(body, depth, stream, params)                                                           \
    bool gs_nv_##body params                                                                       \
    {                                                                                              \
        return c != NULL && /* else the driver knows the error to give */                          \
               describe(copy, way_of(c->srcMemoryType, c->dstMemoryType),          \
                                gs_copy_box(c->WidthInBytes, c->Height, depth), stream);           \
    }
#define BOXES(body, async, type, depth)                                                            \
    BOX(body, depth, NULL, (struct gs_launch *copy, const type *c))                                \
    BOX(async, depth, s, (struct gs_launch *copy, const type *c, CUstream s))
/* clang-format on */

/* A row has the parameters of the driver's function and reads those that tell how much. */
/* NOLINTBEGIN(misc-unused-parameters) */
ROWS(memcpy, GS_COPY_ANY, n, CUdeviceptr dst, CUdeviceptr src, size_t n)
ROWS(memcpy_htod, GS_COPY_UP, n, CUdeviceptr dst, const void *src, size_t n)
ROWS(memcpy_dtoh, GS_COPY_DOWN, n, void *dst, CUdeviceptr src, size_t n)
ROWS(memcpy_dtod, GS_COPY_INSIDE, n, CUdeviceptr dst, CUdeviceptr src, size_t n)
ROWS(memcpy_htoa, GS_COPY_UP, n, CUarray dst, size_t at, const void *src, size_t n)
ROWS(memcpy_atoh, GS_COPY_DOWN, n, void *dst, CUarray src, size_t at, size_t n)
ROW(memcpy_atoa, GS_COPY_INSIDE, n, NULL, CUarray dst, size_t to, CUarray src, size_t from,
    size_t n)
ROW(memcpy_atod, GS_COPY_INSIDE, n, NULL, CUdeviceptr dst, CUarray src, size_t at, size_t n)
ROW(memcpy_dtoa, GS_COPY_INSIDE, n, NULL, CUarray dst, size_t at, CUdeviceptr src, size_t n)
/* Between cards; the one whose stream it is pays. */
ROWS(memcpy_peer, GS_COPY_ANY, n, CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
     size_t n)

BOXES(memcpy_2d, memcpy_2d_async, CUDA_MEMCPY2D, 1)
BOXES(memcpy_3d, memcpy_3d_async, CUDA_MEMCPY3D, c->Depth)
BOXES(memcpy_3d_peer, memcpy_3d_peer_async, CUDA_MEMCPY3D_PEER, c->Depth)

ROWS(memset_d8, GS_COPY_INSIDE, n, CUdeviceptr dst, unsigned char v, size_t n)
ROWS(memset_d16, GS_COPY_INSIDE, gs_copy_box(n, 2, 1), CUdeviceptr dst, unsigned short v, size_t n)
ROWS(memset_d32, GS_COPY_INSIDE, gs_copy_box(n, 4, 1), CUdeviceptr dst, unsigned int v, size_t n)
ROWS(memset_2d_d8, GS_COPY_INSIDE, gs_copy_box(w, h, 1), CUdeviceptr dst, size_t pitch,
     unsigned char v, size_t w, size_t h)
ROWS(memset_2d_d16, GS_COPY_INSIDE, gs_copy_box(w, h, 2), CUdeviceptr dst, size_t pitch,
     unsigned short v, size_t w, size_t h)
ROWS(memset_2d_d32, GS_COPY_INSIDE, gs_copy_box(w, h, 4), CUdeviceptr dst, size_t pitch,
     unsigned int v, size_t w, size_t h)

/* Forms of before CUDA 3.2. */
BOXES(memcpy_2d_v1, memcpy_2d_async_v1, CUDA_MEMCPY2D_v1, 1)
BOXES(memcpy_3d_v1, memcpy_3d_async_v1, CUDA_MEMCPY3D_v1, c->Depth)
ROW(memcpy_htod_v1, GS_COPY_UP, n, NULL, CUdeviceptr_v1 dst, const void *src, unsigned int n)
ROW(memcpy_htod_async_v1, GS_COPY_UP, n, s, CUdeviceptr_v1 dst, const void *src, unsigned int n,
    CUstream s)
ROW(memcpy_dtoh_v1, GS_COPY_DOWN, n, NULL, void *dst, CUdeviceptr_v1 src, unsigned int n)
ROW(memcpy_dtoh_async_v1, GS_COPY_DOWN, n, s, void *dst, CUdeviceptr_v1 src, unsigned int n,
    CUstream s)
ROW(memcpy_dtod_v1, GS_COPY_INSIDE, n, NULL, CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int n)
ROW(memcpy_dtod_async_v1, GS_COPY_INSIDE, n, s, CUdeviceptr_v1 dst, CUdeviceptr_v1 src,
    unsigned int n, CUstream s)
ROW(memset_d8_v1, GS_COPY_INSIDE, n, NULL, CUdeviceptr_v1 dst, unsigned char v, unsigned int n)
ROW(memset_d32_v1, GS_COPY_INSIDE, gs_copy_box(n, 4, 1), NULL, CUdeviceptr_v1 dst, unsigned int v,
    unsigned int n)
/* NOLINTEND(misc-unused-parameters) */
