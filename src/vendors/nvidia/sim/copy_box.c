/* Boxes: the general copy between host, device and arrays. */

#include <string.h>

#include "vendors/nvidia/sim/array.h"
#include "vendors/nvidia/sim/capture_link.h"
#include "vendors/nvidia/sim/copy.h"
#include "vendors/nvidia/sim/managed.h"
#include "vendors/nvidia/sim/memory.h"

/* One side of a copy. */
struct side {
    CUmemorytype type;
    CUdeviceptr address; /* host or device */
    CUarray array;
    size_t x, y, z, pitch, height;
};

/* One side as bytes: row r of slice s is at start + s * slice + r * pitch. */
struct plane {
    char *start;
    size_t pitch, slice;
};

/* For the cost model. */
static uint64_t bytes_of(const CUDA_MEMCPY3D *c)
{
    uint64_t bytes;
    if (!c->WidthInBytes || !c->Height || !c->Depth)
        return 0;
    return __builtin_mul_overflow(c->WidthInBytes, c->Height, &bytes) ||
                   __builtin_mul_overflow(bytes, c->Depth, &bytes)
               ? UINT64_MAX
               : bytes;
}

static CUresult resolve_array(const struct side *s, const CUDA_MEMCPY3D *c, struct plane *ret)
{
    const struct gs_sim_array *a = gs_array_get(s->array);
    if (!a)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->x > a->row_bytes || c->WidthInBytes > a->row_bytes - s->x || s->y > a->rows ||
        c->Height > a->rows - s->y || s->z > a->slices || c->Depth > a->slices - s->z)
        return CUDA_ERROR_INVALID_VALUE;
    ret->pitch = a->row_bytes;
    ret->slice = a->row_bytes * a->rows;
    ret->start = a->base + s->z * ret->slice + s->y * ret->pitch + s->x;
    return CUDA_SUCCESS;
}

/* Whether total = a * b + c has room for it. */
static int fits(size_t a, size_t b, size_t c, size_t *total)
{
    size_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(product, c, total);
}

/* The bytes from the first to the last of a side that is no array. Rows, and slices, must not lie
 * in each other where there are several. */
static int measure(const struct side *s, const CUDA_MEMCPY3D *c, struct plane *ret,
                   size_t *ret_span)
{
    size_t row, rows, at, span, end;
    if (!fits(1, s->x, c->WidthInBytes, &row) || !fits(1, s->y, c->Height, &rows))
        return 0;
    ret->pitch = s->pitch ? s->pitch : row;
    if (((c->Height > 1 || c->Depth > 1) && ret->pitch < row) ||
        (c->Depth > 1 && s->height && s->height < rows))
        return 0;
    if (!fits(ret->pitch, s->height ? s->height : rows, 0, &ret->slice) ||
        !fits(s->y, ret->pitch, s->x, &at) || !fits(s->z, ret->slice, at, &at) ||
        !fits(1, at, s->address, &at))
        return 0;
    if (!fits(c->Height - 1, ret->pitch, c->WidthInBytes, &span) ||
        !fits(c->Depth - 1, ret->slice, span, &span) || !fits(1, at, span, &end))
        return 0;
    ret->start = (char *)(uintptr_t)at;
    *ret_span = span;
    return 1;
}

/* By the type, or for unified memory by what is known of the address. */
static int is_device(const struct side *s, CUdeviceptr start)
{
    struct gs_sim_range r;
    if (s->type != CU_MEMORYTYPE_UNIFIED)
        return s->type == CU_MEMORYTYPE_DEVICE;
    return !gs_memory_find(start, &r) && r.kind != GS_SIM_RANGE_HOST &&
           r.kind != GS_SIM_RANGE_REGISTERED;
}

static CUresult resolve(const struct side *s, const CUDA_MEMCPY3D *c, struct plane *ret)
{
    size_t span;
    if (s->type == CU_MEMORYTYPE_ARRAY)
        return resolve_array(s, c, ret);
    if (!s->address || !measure(s, c, ret, &span))
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr start = (CUdeviceptr)(uintptr_t)ret->start;
    if (is_device(s, start) && !gs_memory_is_valid(start, span))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Unified memory is host memory unless it is known. */
static struct side source(const CUDA_MEMCPY3D *c)
{
    struct side s = {c->srcMemoryType, c->srcDevice, c->srcArray, c->srcXInBytes,
                     c->srcY,          c->srcZ,      c->srcPitch, c->srcHeight};
    if (s.type == CU_MEMORYTYPE_HOST)
        s.address = (CUdeviceptr)(uintptr_t)c->srcHost;
    return s;
}

static struct side target(const CUDA_MEMCPY3D *c)
{
    struct side s = {c->dstMemoryType, c->dstDevice, c->dstArray, c->dstXInBytes,
                     c->dstY,          c->dstZ,      c->dstPitch, c->dstHeight};
    if (s.type == CU_MEMORYTYPE_HOST)
        s.address = (CUdeviceptr)(uintptr_t)c->dstHost;
    return s;
}

static int is_type(CUmemorytype type)
{
    return type >= CU_MEMORYTYPE_HOST && type <= CU_MEMORYTYPE_UNIFIED;
}

static CUresult resolve_both(const CUDA_MEMCPY3D *c, struct plane *to, struct plane *from)
{
    struct side s = source(c), d = target(c);
    if (!is_type(s.type) || !is_type(d.type))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = resolve(&s, c, from);
    return rc ? rc : resolve(&d, c, to);
}

static void move(const CUDA_MEMCPY3D *c, const struct plane *to, const struct plane *from)
{
    for (size_t z = 0; z < c->Depth; z++)
        for (size_t y = 0; y < c->Height; y++)
            memmove(to->start + z * to->slice + y * to->pitch,
                    from->start + z * from->slice + y * from->pitch, c->WidthInBytes);
}

static enum gs_stream_work work_of(const CUDA_MEMCPY3D *c)
{
    if (c->srcMemoryType == CU_MEMORYTYPE_HOST)
        return GS_STREAM_COPY;
    return c->dstMemoryType == CU_MEMORYTYPE_HOST ? GS_STREAM_DOWN : GS_STREAM_FILL;
}

CUresult gs_copy_call(const CUDA_MEMCPY3D *copy, struct gs_sim_order order)
{
    struct plane to, from;
    struct gs_sim_ctx *ctx = gs_context_current();
    if (!bytes_of(copy))
        return CUDA_SUCCESS;
    /* Memory of a graph has no bytes yet while the graph is made: a recorded copy is checked when
     * it runs. */
    if (order.async && gs_stream_is_capturing(order.stream)) {
        if (!is_type(copy->srcMemoryType) || !is_type(copy->dstMemoryType))
            return CUDA_ERROR_INVALID_VALUE;
        CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
        node.memcpy.copyCtx = (CUcontext)ctx;
        node.memcpy.copyParams = *copy;
        return gs_capture_add(order.stream, &node, NULL);
    }
    CUresult rc = resolve_both(copy, &to, &from);
    if (rc)
        return rc;
    /* A copy inside the card does not make the caller wait. */
    enum gs_stream_work work = work_of(copy);
    if (order.async || work == GS_STREAM_FILL)
        rc = gs_stream_submit(order.async ? order.stream : NULL, work, bytes_of(copy));
    else
        rc = gs_stream_run(work, bytes_of(copy));
    if (rc)
        return rc;
    move(copy, &to, &from);
    gs_managed_write((CUdeviceptr)(uintptr_t)to.start, bytes_of(copy));
    return CUDA_SUCCESS;
}

static CUDA_MEMCPY3D from_2d(const CUDA_MEMCPY2D *p)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = p->srcXInBytes,
                           .srcY = p->srcY,
                           .srcMemoryType = p->srcMemoryType,
                           .srcHost = p->srcHost,
                           .srcDevice = p->srcDevice,
                           .srcArray = p->srcArray,
                           .srcPitch = p->srcPitch,
                           .dstXInBytes = p->dstXInBytes,
                           .dstY = p->dstY,
                           .dstMemoryType = p->dstMemoryType,
                           .dstHost = p->dstHost,
                           .dstDevice = p->dstDevice,
                           .dstArray = p->dstArray,
                           .dstPitch = p->dstPitch,
                           .WidthInBytes = p->WidthInBytes,
                           .Height = p->Height,
                           .Depth = 1};
}

static CUDA_MEMCPY2D from_2d_v1(const CUDA_MEMCPY2D_v1 *p)
{
    return (CUDA_MEMCPY2D){p->srcXInBytes, p->srcY,          p->srcMemoryType, p->srcHost,
                           p->srcDevice,   p->srcArray,      p->srcPitch,      p->dstXInBytes,
                           p->dstY,        p->dstMemoryType, p->dstHost,       p->dstDevice,
                           p->dstArray,    p->dstPitch,      p->WidthInBytes,  p->Height};
}

static CUresult call_2d(const CUDA_MEMCPY2D *p, struct gs_sim_order order)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D c = from_2d(p);
    return gs_copy_call(&c, order);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    GS_SIM_ENTRY;
    return call_2d(pCopy, (struct gs_sim_order){NULL, 0});
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    GS_SIM_ENTRY;
    return call_2d(pCopy, (struct gs_sim_order){NULL, 0});
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    GS_SIM_ENTRY;
    return call_2d(pCopy, (struct gs_sim_order){hStream, 1});
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *pCopy)
{
    GS_SIM_ENTRY;
    if (!pCopy)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY2D p = from_2d_v1(pCopy);
    return call_2d(&p, (struct gs_sim_order){NULL, 0});
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *pCopy)
{
    return cuMemcpy2D(pCopy);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *pCopy, CUstream hStream)
{
    GS_SIM_ENTRY;
    if (!pCopy)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY2D p = from_2d_v1(pCopy);
    return call_2d(&p, (struct gs_sim_order){hStream, 1});
}

static CUresult call_3d(const CUDA_MEMCPY3D *p, struct gs_sim_order order)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!p || p->srcLOD || p->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    return gs_copy_call(p, order);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    GS_SIM_ENTRY;
    return call_3d(pCopy, (struct gs_sim_order){NULL, 0});
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    GS_SIM_ENTRY;
    return call_3d(pCopy, (struct gs_sim_order){hStream, 1});
}

static CUDA_MEMCPY3D from_3d_v1(const CUDA_MEMCPY3D_v1 *p)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = p->srcXInBytes,
                           .srcY = p->srcY,
                           .srcZ = p->srcZ,
                           .srcLOD = p->srcLOD,
                           .srcMemoryType = p->srcMemoryType,
                           .srcHost = p->srcHost,
                           .srcDevice = p->srcDevice,
                           .srcArray = p->srcArray,
                           .srcPitch = p->srcPitch,
                           .srcHeight = p->srcHeight,
                           .dstXInBytes = p->dstXInBytes,
                           .dstY = p->dstY,
                           .dstZ = p->dstZ,
                           .dstLOD = p->dstLOD,
                           .dstMemoryType = p->dstMemoryType,
                           .dstHost = p->dstHost,
                           .dstDevice = p->dstDevice,
                           .dstArray = p->dstArray,
                           .dstPitch = p->dstPitch,
                           .dstHeight = p->dstHeight,
                           .WidthInBytes = p->WidthInBytes,
                           .Height = p->Height,
                           .Depth = p->Depth};
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *pCopy)
{
    GS_SIM_ENTRY;
    if (!pCopy)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D p = from_3d_v1(pCopy);
    return call_3d(&p, (struct gs_sim_order){NULL, 0});
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *pCopy, CUstream hStream)
{
    GS_SIM_ENTRY;
    if (!pCopy)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D p = from_3d_v1(pCopy);
    return call_3d(&p, (struct gs_sim_order){hStream, 1});
}

/* All cards are mapped side by side, so that a copy between them is one like any other. */
static CUresult call_peer(const CUDA_MEMCPY3D_PEER *p, struct gs_sim_order order)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D c;
    _Static_assert(sizeof(c) == sizeof(*p),
                   "the forms differ in the meaning of reserved words only");
    memcpy(&c, p, sizeof(c));
    c.reserved0 = NULL;
    c.reserved1 = NULL;
    return call_3d(&c, order);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
    GS_SIM_ENTRY;
    return call_peer(pCopy, (struct gs_sim_order){NULL, 0});
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
    GS_SIM_ENTRY;
    return call_peer(pCopy, (struct gs_sim_order){hStream, 1});
}
