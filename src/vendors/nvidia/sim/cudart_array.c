#include "vendors/nvidia/sim/cudart_array.h"

enum kind {
    KIND_SIGNED = 0,
    KIND_UNSIGNED = 1,
    KIND_FLOAT = 2,
    KIND_NV12 = 4,
    KIND_NORMALIZED = 5,
    KIND_COMPRESSED = 17,
    KIND_1010102 = 31,
    KIND_VIDEO = 32 /* since 13.0 */
};

/* ---- formats ---- */

/* Kinds that name a whole format: both lists count in the same order. */
static const struct span {
    enum kind kind;
    unsigned int count;
    CUarray_format first;
} spans[] = {
    {KIND_NV12, 1, CU_AD_FORMAT_NV12},
    {KIND_NORMALIZED, 12, CU_AD_FORMAT_UNORM_INT8X1},
    {KIND_COMPRESSED, 14, CU_AD_FORMAT_BC1_UNORM},
    {KIND_1010102, 1, CU_AD_FORMAT_UNORM_INT_101010_2},
#if GS_CUDART_MAJOR >= 13
    {KIND_VIDEO, 14, CU_AD_FORMAT_UINT8_PACKED_422},
#endif
};

/* Kinds that need the number of bits. */
static const struct {
    enum kind kind;
    int bits;
    CUarray_format format;
} plain[] = {
    {KIND_SIGNED, 8, CU_AD_FORMAT_SIGNED_INT8},
    {KIND_SIGNED, 16, CU_AD_FORMAT_SIGNED_INT16},
    {KIND_SIGNED, 32, CU_AD_FORMAT_SIGNED_INT32},
    {KIND_UNSIGNED, 8, CU_AD_FORMAT_UNSIGNED_INT8},
    {KIND_UNSIGNED, 16, CU_AD_FORMAT_UNSIGNED_INT16},
    {KIND_UNSIGNED, 32, CU_AD_FORMAT_UNSIGNED_INT32},
    {KIND_FLOAT, 16, CU_AD_FORMAT_HALF},
    {KIND_FLOAT, 32, CU_AD_FORMAT_FLOAT},
};

/* Channels in use, or 0 if there is a gap between them. */
static unsigned int count_channels(const struct gs_cudart_channel *c)
{
    const int bits[] = {c->x, c->y, c->z, c->w};
    unsigned int n = 0;
    while (n < 4 && bits[n] > 0)
        n++;
    for (unsigned int i = n; i < 4; i++)
        if (bits[i])
            return 0;
    return n;
}

static int is_even(const struct gs_cudart_channel *c, unsigned int n)
{
    return (n < 2 || c->y == c->x) && (n < 3 || c->z == c->x) && (n < 4 || c->w == c->x);
}

cudaError_t gs_cudart_array_format(const struct gs_cudart_channel *c, CUarray_format *ret_format,
                                   unsigned int *ret_channels)
{
    unsigned int n = count_channels(c);
    if (!n)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < GS_ARRAY_LEN(spans); i++) {
        unsigned int at = (unsigned int)c->kind - spans[i].kind; /* wraps below the first */
        if (at < spans[i].count) {
            *ret_format = (CUarray_format)(spans[i].first + at);
            *ret_channels = n;
            return CUDA_SUCCESS;
        }
    }
    if (!is_even(c, n) || n == 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < GS_ARRAY_LEN(plain); i++)
        if ((int)plain[i].kind == c->kind && plain[i].bits == c->x) {
            *ret_format = plain[i].format;
            *ret_channels = n;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

/* Bits of a channel of a format out of `spans`; the packed one is not even and not asked here. */
static int span_bits(CUarray_format f)
{
    if (f >= CU_AD_FORMAT_UNORM_INT8X1 && f <= CU_AD_FORMAT_SNORM_INT16X4)
        return (f - CU_AD_FORMAT_UNORM_INT8X1) % 6 < 3 ? 8 : 16;
    if (f == CU_AD_FORMAT_BC6H_UF16 || f == CU_AD_FORMAT_BC6H_SF16)
        return 16;
    if (f >= CU_AD_FORMAT_UINT8_SEMIPLANAR_420 && f <= CU_AD_FORMAT_UINT16_PLANAR_444)
        return (f - CU_AD_FORMAT_UINT8_SEMIPLANAR_420) % 2 ? 16 : 8;
    return 8;
}

static struct gs_cudart_channel channel_of(int kind, unsigned int channels, int bits)
{
    struct gs_cudart_channel c = {.x = bits, .kind = kind};
    c.y = channels > 1 ? bits : 0;
    c.z = channels > 2 ? bits : 0;
    c.w = channels > 3 ? bits : 0;
    return c;
}

cudaError_t gs_cudart_array_channel(CUarray_format format, unsigned int channels,
                                    struct gs_cudart_channel *ret)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(plain); i++)
        if (plain[i].format == format) {
            *ret = channel_of((int)plain[i].kind, channels, plain[i].bits);
            return CUDA_SUCCESS;
        }
    for (size_t i = 0; i < GS_ARRAY_LEN(spans); i++) {
        unsigned int at = (unsigned int)format - spans[i].first;
        if (at < spans[i].count) {
            *ret = channel_of((int)(spans[i].kind + at), channels, span_bits(format));
            if (spans[i].kind == KIND_1010102)
                *ret = (struct gs_cudart_channel){10, 10, 10, 2, KIND_1010102};
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- arrays ---- */

/* The runtime's flags are the driver's, number by number. */
static cudaError_t array_new(CUarray *array, const struct gs_cudart_channel *desc,
                             struct gs_cudart_extent extent, unsigned int flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {
        .Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};
    cudaError_t e = gs_cudart_enter();
    if (!e && (!array || !desc))
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = gs_cudart_array_format(desc, &d.Format, &d.NumChannels);
    return gs_cudart_done(e ? e : cuArray3DCreate_v2(array, &d));
}

RT(cudaMallocArray, CUarray *array, const struct gs_cudart_channel *desc, size_t width,
   size_t height, unsigned int flags)
{
    return array_new(array, desc, (struct gs_cudart_extent){width, height, 0}, flags);
}

RT(cudaMalloc3DArray, CUarray *array, const struct gs_cudart_channel *desc,
   struct gs_cudart_extent extent, unsigned int flags)
{
    return array_new(array, desc, extent, flags);
}

RT(cudaFreeArray, CUarray array)
{
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(e || !array ? e : cuArrayDestroy(array));
}

RT(cudaGetChannelDesc, struct gs_cudart_channel *desc, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t e = gs_cudart_enter();
    if (!e && !desc)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = cuArray3DGetDescriptor_v2(&d, array);
    return gs_cudart_done(e ? e : gs_cudart_array_channel(d.Format, d.NumChannels, desc));
}

/* ---- copies of rows ---- */

static void copy_from(CUDA_MEMCPY2D *c, const void *src, size_t pitch, int kind)
{
    c->srcMemoryType = gs_cudart_memory_type(kind, 0);
    c->srcHost = src;
    c->srcDevice = (CUdeviceptr)(uintptr_t)src;
    c->srcPitch = pitch;
}

static void copy_to(CUDA_MEMCPY2D *c, void *dst, size_t pitch, int kind)
{
    c->dstMemoryType = gs_cudart_memory_type(kind, 1);
    c->dstHost = dst;
    c->dstDevice = (CUdeviceptr)(uintptr_t)dst;
    c->dstPitch = pitch;
}

/* An array is on the device whatever `kind` says of its side; the other side follows `kind`. */
static cudaError_t copy_2d(const CUDA_MEMCPY2D *c, int kind)
{
    cudaError_t e = gs_cudart_enter();
    if (!e && (kind < 0 || kind > 4))
        e = 21; /* cudaErrorInvalidMemcpyDirection */
    return gs_cudart_done(e || !c->WidthInBytes || !c->Height ? e : cuMemcpy2DUnaligned_v2(c));
}

static cudaError_t copy_2d_async(const CUDA_MEMCPY2D *c, int kind, CUstream stream)
{
    cudaError_t e = gs_cudart_enter();
    if (!e && (kind < 0 || kind > 4))
        e = 21;
    return gs_cudart_done(e || !c->WidthInBytes || !c->Height ? e : cuMemcpy2DAsync_v2(c, stream));
}

#define TO_ARRAY                                                                                   \
    {                                                                                              \
        .dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = dst, .dstXInBytes = wOffset,             \
        .dstY = hOffset, .WidthInBytes = width, .Height = height                                   \
    }
#define FROM_ARRAY                                                                                 \
    {                                                                                              \
        .srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = src, .srcXInBytes = wOffset,             \
        .srcY = hOffset, .WidthInBytes = width, .Height = height                                   \
    }

RT(cudaMemcpy2DToArray, CUarray dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
   size_t width, size_t height, int kind)
{
    CUDA_MEMCPY2D c = TO_ARRAY;
    copy_from(&c, src, spitch, kind);
    return copy_2d(&c, kind);
}
RT_TWIN(cudaMemcpy2DToArray, _ptds, (dst, wOffset, hOffset, src, spitch, width, height, kind),
        CUarray dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width,
        size_t height, int kind)

RT(cudaMemcpy2DToArrayAsync, CUarray dst, size_t wOffset, size_t hOffset, const void *src,
   size_t spitch, size_t width, size_t height, int kind, CUstream stream)
{
    CUDA_MEMCPY2D c = TO_ARRAY;
    copy_from(&c, src, spitch, kind);
    return copy_2d_async(&c, kind, stream);
}
RT_TWIN(cudaMemcpy2DToArrayAsync, _ptsz,
        (dst, wOffset, hOffset, src, spitch, width, height, kind, stream), CUarray dst,
        size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width, size_t height,
        int kind, CUstream stream)

RT(cudaMemcpy2DFromArray, void *dst, size_t dpitch, CUarray src, size_t wOffset, size_t hOffset,
   size_t width, size_t height, int kind)
{
    CUDA_MEMCPY2D c = FROM_ARRAY;
    copy_to(&c, dst, dpitch, kind);
    return copy_2d(&c, kind);
}
RT_TWIN(cudaMemcpy2DFromArray, _ptds, (dst, dpitch, src, wOffset, hOffset, width, height, kind),
        void *dst, size_t dpitch, CUarray src, size_t wOffset, size_t hOffset, size_t width,
        size_t height, int kind)

RT(cudaMemcpy2DFromArrayAsync, void *dst, size_t dpitch, CUarray src, size_t wOffset,
   size_t hOffset, size_t width, size_t height, int kind, CUstream stream)
{
    CUDA_MEMCPY2D c = FROM_ARRAY;
    copy_to(&c, dst, dpitch, kind);
    return copy_2d_async(&c, kind, stream);
}
RT_TWIN(cudaMemcpy2DFromArrayAsync, _ptsz,
        (dst, dpitch, src, wOffset, hOffset, width, height, kind, stream), void *dst, size_t dpitch,
        CUarray src, size_t wOffset, size_t hOffset, size_t width, size_t height, int kind,
        CUstream stream)

/* ---- copies of boxes ---- */

/* Bytes of one element. Formats whose elements are no whole bytes (compressed, planar) have no copy
 * counted in elements here. */
static cudaError_t element_bytes(CUarray array, size_t *ret)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    struct gs_cudart_channel c;
    cudaError_t e = cuArray3DGetDescriptor_v2(&d, array);
    if (!e)
        e = gs_cudart_array_channel(d.Format, d.NumChannels, &c);
    if (e)
        return e;
    if (c.kind == KIND_NV12 || (c.kind >= KIND_COMPRESSED && c.kind != KIND_1010102))
        return CUDA_ERROR_NOT_SUPPORTED;
    *ret = (size_t)(c.x + c.y + c.z + c.w) / 8;
    return CUDA_SUCCESS;
}

/* Exactly one of array and pointer per side; two arrays have elements of one size. `ret_unit` is
 * what the width counts: an element, or a byte without arrays. */
static cudaError_t check_sides(const struct gs_cudart_copy3d *p, size_t *ret_unit)
{
    size_t from = 1, to = 1;
    cudaError_t e = CUDA_SUCCESS;
    if (!p->src.array == !p->src.pointer.ptr || !p->dst.array == !p->dst.pointer.ptr)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->src.array)
        e = element_bytes(p->src.array, &from);
    if (!e && p->dst.array)
        e = element_bytes(p->dst.array, &to);
    if (e)
        return e;
    if (p->src.array && p->dst.array && from != to)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_unit = p->src.array ? from : to;
    return CUDA_SUCCESS;
}

static void from_side(CUDA_MEMCPY3D *c, const struct gs_cudart_side *s, int kind, size_t unit)
{
    c->srcMemoryType = s->array ? CU_MEMORYTYPE_ARRAY : gs_cudart_memory_type(kind, 0);
    c->srcArray = s->array;
    c->srcHost = s->pointer.ptr;
    c->srcDevice = (CUdeviceptr)(uintptr_t)s->pointer.ptr;
    c->srcPitch = s->pointer.pitch;
    c->srcHeight = s->pointer.ysize;
    c->srcXInBytes = s->pos.x * (s->array ? unit : 1);
    c->srcY = s->pos.y;
    c->srcZ = s->pos.z;
}

static void to_side(CUDA_MEMCPY3D *c, const struct gs_cudart_side *s, int kind, size_t unit)
{
    c->dstMemoryType = s->array ? CU_MEMORYTYPE_ARRAY : gs_cudart_memory_type(kind, 1);
    c->dstArray = s->array;
    c->dstHost = s->pointer.ptr;
    c->dstDevice = (CUdeviceptr)(uintptr_t)s->pointer.ptr;
    c->dstPitch = s->pointer.pitch;
    c->dstHeight = s->pointer.ysize;
    c->dstXInBytes = s->pos.x * (s->array ? unit : 1);
    c->dstY = s->pos.y;
    c->dstZ = s->pos.z;
}

static cudaError_t describe_3d(const struct gs_cudart_copy3d *p, CUDA_MEMCPY3D *ret)
{
    size_t unit = 1;
    CUDA_MEMCPY3D c = {0};
    cudaError_t e = gs_cudart_enter();
    if (e)
        return e;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->kind < 0 || p->kind > 4)
        return 21;
    e = check_sides(p, &unit);
    if (e)
        return e;
    if (p->src.pos.x > SIZE_MAX / unit || p->dst.pos.x > SIZE_MAX / unit)
        return CUDA_ERROR_INVALID_VALUE;
    from_side(&c, &p->src, p->kind, unit);
    to_side(&c, &p->dst, p->kind, unit);
    if (__builtin_mul_overflow(p->extent.width, unit, &c.WidthInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    c.Height = p->extent.height;
    c.Depth = p->extent.depth;
    *ret = c;
    return CUDA_SUCCESS;
}

static int is_empty(const CUDA_MEMCPY3D *c)
{
    return !c->WidthInBytes || !c->Height || !c->Depth;
}

RT(cudaMemcpy3D, const struct gs_cudart_copy3d *p)
{
    CUDA_MEMCPY3D c;
    cudaError_t e = describe_3d(p, &c);
    return gs_cudart_done(e || is_empty(&c) ? e : cuMemcpy3D_v2(&c));
}
RT_TWIN(cudaMemcpy3D, _ptds, (p), const struct gs_cudart_copy3d *p)

RT(cudaMemcpy3DAsync, const struct gs_cudart_copy3d *p, CUstream stream)
{
    CUDA_MEMCPY3D c;
    cudaError_t e = describe_3d(p, &c);
    return gs_cudart_done(e || is_empty(&c) ? e : cuMemcpy3DAsync_v2(&c, stream));
}
RT_TWIN(cudaMemcpy3DAsync, _ptsz, (p, stream), const struct gs_cudart_copy3d *p, CUstream stream)
