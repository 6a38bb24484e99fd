/* Arrays, textures and copies to and from them. */
#include <string.h>

#include "vendors/nvidia/sim/cudart.h"

#define PTR(p) ((CUdeviceptr)(uintptr_t)(p))

enum { CHANNEL_SIGNED = 0, CHANNEL_UNSIGNED = 1, CHANNEL_FLOAT = 2 };

struct channel {
    int x, y, z, w; /* bits */
    int kind;
};

struct extent {
    size_t width, height, depth;
};

struct pos {
    size_t x, y, z;
};

struct pitched {
    void *ptr;
    size_t pitch, xsize, ysize;
};

struct copy_3d {
    CUarray srcArray;
    struct pos srcPos;
    struct pitched srcPtr;
    CUarray dstArray;
    struct pos dstPos;
    struct pitched dstPtr;
    struct extent extent;
    int kind;
};

/* The driver's format of a channel description; 0 if there is none. */
static CUarray_format format_of(const struct channel *c, unsigned int *ret_channels)
{
    static const struct {
        int bits, kind;
        CUarray_format format;
    } formats[] = {
        {8, CHANNEL_UNSIGNED, CU_AD_FORMAT_UNSIGNED_INT8},
        {16, CHANNEL_UNSIGNED, CU_AD_FORMAT_UNSIGNED_INT16},
        {32, CHANNEL_UNSIGNED, CU_AD_FORMAT_UNSIGNED_INT32},
        {8, CHANNEL_SIGNED, CU_AD_FORMAT_SIGNED_INT8},
        {16, CHANNEL_SIGNED, CU_AD_FORMAT_SIGNED_INT16},
        {32, CHANNEL_SIGNED, CU_AD_FORMAT_SIGNED_INT32},
        {16, CHANNEL_FLOAT, CU_AD_FORMAT_HALF},
        {32, CHANNEL_FLOAT, CU_AD_FORMAT_FLOAT},
    };
    *ret_channels = c->w ? 4 : c->z ? 3 : c->y ? 2 : 1;
    for (size_t i = 0; i < GS_ARRAY_LEN(formats); i++)
        if (formats[i].bits == c->x && formats[i].kind == c->kind)
            return formats[i].format;
    return (CUarray_format)0;
}

static int bits_of(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 8;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16;
    default:
        return 32;
    }
}

/* Bytes of one element of an array; 1 for plain memory, whose positions are bytes. */
static size_t element_bytes(CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    if (!array || cuArray3DGetDescriptor_v2(&d, array))
        return 1;
    return (size_t)bits_of(d.Format) / 8 * d.NumChannels;
}

RT(cudaMalloc3DArray, CUarray *array, const struct channel *desc, struct extent extent,
   unsigned int flags)
{
    cudaError_t e = gs_cudart_enter();
    if (!e && (!array || !desc))
        e = CUDA_ERROR_INVALID_VALUE;
    if (e)
        return gs_cudart_done(e);
    CUDA_ARRAY3D_DESCRIPTOR d = {
        .Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};
    d.Format = format_of(desc, &d.NumChannels);
    if (!d.Format)
        return gs_cudart_done(CUDA_ERROR_INVALID_VALUE);
    return gs_cudart_done(cuArray3DCreate_v2(array, &d));
}

RT(cudaMallocArray, CUarray *array, const struct channel *desc, size_t width, size_t height,
   unsigned int flags)
{
    return cudaMalloc3DArray(array, desc, (struct extent){.width = width, .height = height}, flags);
}

RT(cudaFreeArray, CUarray array)
{
    cudaError_t e = gs_cudart_enter();
    return gs_cudart_done(e || !array ? e : cuArrayDestroy(array));
}

RT(cudaGetChannelDesc, struct channel *desc, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    cudaError_t e = gs_cudart_enter();
    if (!e && !desc)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = cuArray3DGetDescriptor_v2(&d, array);
    if (e)
        return gs_cudart_done(e);
    int bits = bits_of(d.Format);
    *desc = (struct channel){.x = bits,
                             .y = d.NumChannels > 1 ? bits : 0,
                             .z = d.NumChannels > 2 ? bits : 0,
                             .w = d.NumChannels > 3 ? bits : 0,
                             .kind = CHANNEL_UNSIGNED};
    if (d.Format == CU_AD_FORMAT_HALF || d.Format == CU_AD_FORMAT_FLOAT)
        desc->kind = CHANNEL_FLOAT;
    else if (d.Format >= CU_AD_FORMAT_SIGNED_INT8)
        desc->kind = CHANNEL_SIGNED;
    return CUDA_SUCCESS;
}

/* ---- copies ---- */

RT(cudaMemcpy3DAsync, const struct copy_3d *p, CUstream stream)
{
    cudaError_t e = gs_cudart_enter();
    if (!e && !p)
        e = CUDA_ERROR_INVALID_VALUE;
    if (e)
        return gs_cudart_done(e);
    size_t from = element_bytes(p->srcArray), to = element_bytes(p->dstArray);
    CUDA_MEMCPY3D c = {.srcXInBytes = p->srcPos.x * from,
                       .srcY = p->srcPos.y,
                       .srcZ = p->srcPos.z,
                       .srcMemoryType = gs_cudart_memory_type(p->kind, 0),
                       .srcHost = p->srcPtr.ptr,
                       .srcDevice = PTR(p->srcPtr.ptr),
                       .srcPitch = p->srcPtr.pitch,
                       .srcHeight = p->srcPtr.ysize,
                       .dstXInBytes = p->dstPos.x * to,
                       .dstY = p->dstPos.y,
                       .dstZ = p->dstPos.z,
                       .dstMemoryType = gs_cudart_memory_type(p->kind, 1),
                       .dstHost = p->dstPtr.ptr,
                       .dstDevice = PTR(p->dstPtr.ptr),
                       .dstPitch = p->dstPtr.pitch,
                       .dstHeight = p->dstPtr.ysize,
                       .WidthInBytes = p->extent.width * (p->srcArray ? from : to),
                       .Height = p->extent.height,
                       .Depth = p->extent.depth};
    if (p->srcArray) {
        c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
        c.srcArray = p->srcArray;
    }
    if (p->dstArray) {
        c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
        c.dstArray = p->dstArray;
    }
    return gs_cudart_done(cuMemcpy3DAsync_v2(&c, stream));
}
RT_TWIN(cudaMemcpy3DAsync, _ptsz, (p, stream), const struct copy_3d *p, CUstream stream)

RT(cudaMemcpy3D, const struct copy_3d *p)
{
    cudaError_t e = cudaMemcpy3DAsync(p, NULL);
    return gs_cudart_done(e ? e : cuStreamSynchronize(NULL));
}

RT(cudaMemcpy2DToArrayAsync, CUarray dst, size_t wOffset, size_t hOffset, const void *src,
   size_t spitch, size_t width, size_t height, int kind, CUstream stream)
{
    cudaError_t e = gs_cudart_enter();
    CUDA_MEMCPY2D c = {.srcMemoryType = gs_cudart_memory_type(kind, 0),
                       .srcHost = src,
                       .srcDevice = PTR(src),
                       .srcPitch = spitch,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = dst,
                       .dstXInBytes = wOffset,
                       .dstY = hOffset,
                       .WidthInBytes = width,
                       .Height = height};
    return gs_cudart_done(e ? e : cuMemcpy2DAsync_v2(&c, stream));
}

RT(cudaMemcpy2DToArray, CUarray dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
   size_t width, size_t height, int kind)
{
    cudaError_t e =
        cudaMemcpy2DToArrayAsync(dst, wOffset, hOffset, src, spitch, width, height, kind, NULL);
    return gs_cudart_done(e ? e : cuStreamSynchronize(NULL));
}

RT(cudaMemcpy2DFromArrayAsync, void *dst, size_t dpitch, CUarray src, size_t wOffset,
   size_t hOffset, size_t width, size_t height, int kind, CUstream stream)
{
    cudaError_t e = gs_cudart_enter();
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                       .srcArray = src,
                       .srcXInBytes = wOffset,
                       .srcY = hOffset,
                       .dstMemoryType = gs_cudart_memory_type(kind, 1),
                       .dstHost = dst,
                       .dstDevice = PTR(dst),
                       .dstPitch = dpitch,
                       .WidthInBytes = width,
                       .Height = height};
    return gs_cudart_done(e ? e : cuMemcpy2DAsync_v2(&c, stream));
}

RT(cudaMemcpy2DFromArray, void *dst, size_t dpitch, CUarray src, size_t wOffset, size_t hOffset,
   size_t width, size_t height, int kind)
{
    cudaError_t e =
        cudaMemcpy2DFromArrayAsync(dst, dpitch, src, wOffset, hOffset, width, height, kind, NULL);
    return gs_cudart_done(e ? e : cuStreamSynchronize(NULL));
}

/* ---- textures: descriptions that nothing samples ---- */

struct resource {
    int type; /* as CUresourcetype */
    union {
        void *handle; /* array or mipmapped array */
        struct {
            void *devPtr;
            struct channel desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void *devPtr;
            struct channel desc;
            size_t width, height, pitchInBytes;
        } pitch2D;
    } res;
};

static CUDA_RESOURCE_DESC resource_of(const struct resource *r)
{
    CUDA_RESOURCE_DESC d = {.resType = (CUresourcetype)r->type};
    unsigned int channels;
    switch (r->type) {
    case CU_RESOURCE_TYPE_LINEAR:
        d.res.linear.devPtr = PTR(r->res.linear.devPtr);
        d.res.linear.format = format_of(&r->res.linear.desc, &channels);
        d.res.linear.numChannels = channels;
        d.res.linear.sizeInBytes = r->res.linear.sizeInBytes;
        break;
    case CU_RESOURCE_TYPE_PITCH2D:
        d.res.pitch2D.devPtr = PTR(r->res.pitch2D.devPtr);
        d.res.pitch2D.format = format_of(&r->res.pitch2D.desc, &channels);
        d.res.pitch2D.numChannels = channels;
        d.res.pitch2D.width = r->res.pitch2D.width;
        d.res.pitch2D.height = r->res.pitch2D.height;
        d.res.pitch2D.pitchInBytes = r->res.pitch2D.pitchInBytes;
        break;
    default:
        d.res.array.hArray = r->res.handle;
    }
    return d;
}

RT(cudaCreateTextureObject, CUtexObject *ret, const struct resource *resource, const void *texture,
   const void *view)
{
    cudaError_t e = gs_cudart_enter();
    (void)view;
    if (!e && (!resource || !texture))
        e = CUDA_ERROR_INVALID_VALUE;
    if (e)
        return gs_cudart_done(e);
    CUDA_RESOURCE_DESC d = resource_of(resource);
    CUDA_TEXTURE_DESC t;
    memset(&t, 0, sizeof(t)); /* how it samples does not matter where nothing does */
    return gs_cudart_done(cuTexObjectCreate(ret, &d, &t, NULL));
}

RT(cudaCreateSurfaceObject, CUsurfObject *ret, const struct resource *resource)
{
    cudaError_t e = gs_cudart_enter();
    if (!e && !resource)
        e = CUDA_ERROR_INVALID_VALUE;
    if (e)
        return gs_cudart_done(e);
    CUDA_RESOURCE_DESC d = resource_of(resource);
    return gs_cudart_done(cuSurfObjectCreate(ret, &d));
}

RT_FORWARD(cudaDestroyTextureObject, cuTexObjectDestroy(object), CUtexObject object)
RT_FORWARD(cudaDestroySurfaceObject, cuSurfObjectDestroy(object), CUsurfObject object)

RT(cudaGetTextureObjectResourceDesc, struct resource *ret, CUtexObject object)
{
    CUDA_RESOURCE_DESC d;
    cudaError_t e = gs_cudart_enter();
    if (!e && !ret)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = cuTexObjectGetResourceDesc(&d, object);
    if (!e && d.resType > CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        e = CUDA_ERROR_NOT_SUPPORTED;
    if (!e) {
        memset(ret, 0, sizeof(*ret));
        ret->type = (int)d.resType;
        ret->res.handle = d.res.array.hArray;
    }
    return gs_cudart_done(e);
}

RT(cudaGetTextureObjectTextureDesc, void *ret, CUtexObject object)
{
    (void)ret;
    (void)object;
    return gs_cudart_done(CUDA_ERROR_NOT_SUPPORTED);
}
