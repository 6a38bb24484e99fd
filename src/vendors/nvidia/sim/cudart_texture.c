/* Textures and surfaces of the runtime: the driver's, with formats spelled as channels. */
#include "vendors/nvidia/sim/cudart_array.h"

/* CUDA_TEXTURE_DESC.flags (CUDA Driver API 13.5, CU_TRSF_*) */
enum {
    READ_AS_INTEGER = 0x01,
    NORMALIZED_COORDINATES = 0x02,
    SRGB = 0x10,
    NO_TRILINEAR_OPTIMIZATION = 0x20,
    SEAMLESS_CUBEMAP = 0x40
};

static cudaError_t resource_to_driver(const struct gs_cudart_resource *r, CUDA_RESOURCE_DESC *ret)
{
    CUDA_RESOURCE_DESC d = {.resType = r->type};
    cudaError_t e = CUDA_SUCCESS;
    switch (r->type) {
    case CU_RESOURCE_TYPE_ARRAY:
        d.res.array.hArray = r->res.array.array;
        break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        d.res.mipmap.hMipmappedArray = r->res.mipmap.mipmap;
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        d.res.linear.devPtr = (CUdeviceptr)(uintptr_t)r->res.linear.address;
        d.res.linear.sizeInBytes = r->res.linear.bytes;
        e = gs_cudart_array_format(&r->res.linear.channel, &d.res.linear.format,
                                   &d.res.linear.numChannels);
        break;
    case CU_RESOURCE_TYPE_PITCH2D:
        d.res.pitch2D.devPtr = (CUdeviceptr)(uintptr_t)r->res.pitch2d.address;
        d.res.pitch2D.width = r->res.pitch2d.width;
        d.res.pitch2D.height = r->res.pitch2d.height;
        d.res.pitch2D.pitchInBytes = r->res.pitch2d.pitch_bytes;
        e = gs_cudart_array_format(&r->res.pitch2d.channel, &d.res.pitch2D.format,
                                   &d.res.pitch2D.numChannels);
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
#if GS_CUDART_MAJOR >= 13
    d.flags = r->flags;
#endif
    if (!e)
        *ret = d;
    return e;
}

static cudaError_t resource_from_driver(const CUDA_RESOURCE_DESC *d, struct gs_cudart_resource *ret)
{
    struct gs_cudart_resource r = {.type = d->resType};
    cudaError_t e = CUDA_SUCCESS;
    switch (d->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        r.res.array.array = d->res.array.hArray;
        break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        r.res.mipmap.mipmap = d->res.mipmap.hMipmappedArray;
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        r.res.linear.address = (void *)(uintptr_t)d->res.linear.devPtr;
        r.res.linear.bytes = d->res.linear.sizeInBytes;
        e = gs_cudart_array_channel(d->res.linear.format, d->res.linear.numChannels,
                                    &r.res.linear.channel);
        break;
    case CU_RESOURCE_TYPE_PITCH2D:
        r.res.pitch2d.address = (void *)(uintptr_t)d->res.pitch2D.devPtr;
        r.res.pitch2d.width = d->res.pitch2D.width;
        r.res.pitch2d.height = d->res.pitch2D.height;
        r.res.pitch2d.pitch_bytes = d->res.pitch2D.pitchInBytes;
        e = gs_cudart_array_channel(d->res.pitch2D.format, d->res.pitch2D.numChannels,
                                    &r.res.pitch2d.channel);
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
#if GS_CUDART_MAJOR >= 13
    r.flags = d->flags;
#endif
    if (!e)
        *ret = r;
    return e;
}

static CUDA_TEXTURE_DESC texture_to_driver(const struct gs_cudart_texture *t)
{
    CUDA_TEXTURE_DESC d = {.filterMode = (CUfilter_mode)t->filter,
                           .maxAnisotropy = t->max_anisotropy,
                           .mipmapFilterMode = (CUfilter_mode)t->mipmap_filter,
                           .mipmapLevelBias = t->mipmap_bias,
                           .minMipmapLevelClamp = t->min_mipmap,
                           .maxMipmapLevelClamp = t->max_mipmap};
    d.flags = (t->read_mode ? 0U : READ_AS_INTEGER) |
              (t->normalized_coords ? NORMALIZED_COORDINATES : 0U) | (t->srgb ? SRGB : 0U) |
              (t->no_trilinear_optimization ? NO_TRILINEAR_OPTIMIZATION : 0U) |
              (t->seamless_cubemap ? SEAMLESS_CUBEMAP : 0U);
    for (int i = 0; i < 3; i++)
        d.addressMode[i] = (CUaddress_mode)t->address[i];
    for (int i = 0; i < 4; i++)
        d.borderColor[i] = t->border[i];
    return d;
}

static struct gs_cudart_texture texture_from_driver(const CUDA_TEXTURE_DESC *d)
{
    struct gs_cudart_texture t = {.filter = (int)d->filterMode,
                                  .read_mode = !(d->flags & READ_AS_INTEGER),
                                  .srgb = (d->flags & SRGB) != 0,
                                  .normalized_coords = (d->flags & NORMALIZED_COORDINATES) != 0,
                                  .max_anisotropy = d->maxAnisotropy,
                                  .mipmap_filter = (int)d->mipmapFilterMode,
                                  .mipmap_bias = d->mipmapLevelBias,
                                  .min_mipmap = d->minMipmapLevelClamp,
                                  .max_mipmap = d->maxMipmapLevelClamp,
                                  .no_trilinear_optimization =
                                      (d->flags & NO_TRILINEAR_OPTIMIZATION) != 0,
                                  .seamless_cubemap = (d->flags & SEAMLESS_CUBEMAP) != 0};
    for (int i = 0; i < 3; i++)
        t.address[i] = (int)d->addressMode[i];
    for (int i = 0; i < 4; i++)
        t.border[i] = d->borderColor[i];
    return t;
}

RT(cudaCreateTextureObject, CUtexObject *pTexObject, const struct gs_cudart_resource *pResDesc,
   const struct gs_cudart_texture *pTexDesc, const struct gs_cudart_view *pResViewDesc)
{
    CUDA_RESOURCE_DESC resource;
    CUDA_RESOURCE_VIEW_DESC view = {0};
    cudaError_t e = gs_cudart_enter();
    if (!e && (!pTexObject || !pResDesc || !pTexDesc))
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = resource_to_driver(pResDesc, &resource);
    if (e)
        return gs_cudart_done(e);
    if (pResViewDesc)
        view = (CUDA_RESOURCE_VIEW_DESC){.format = pResViewDesc->format,
                                         .width = pResViewDesc->width,
                                         .height = pResViewDesc->height,
                                         .depth = pResViewDesc->depth,
                                         .firstMipmapLevel = pResViewDesc->first_level,
                                         .lastMipmapLevel = pResViewDesc->last_level,
                                         .firstLayer = pResViewDesc->first_layer,
                                         .lastLayer = pResViewDesc->last_layer};
    CUDA_TEXTURE_DESC texture = texture_to_driver(pTexDesc);
    e = cuTexObjectCreate(pTexObject, &resource, &texture, pResViewDesc ? &view : NULL);
    return gs_cudart_done(e);
}

RT_FORWARD(cudaDestroyTextureObject, cuTexObjectDestroy(texObject), CUtexObject texObject)

RT(cudaGetTextureObjectResourceDesc, struct gs_cudart_resource *pResDesc, CUtexObject texObject)
{
    CUDA_RESOURCE_DESC d;
    cudaError_t e = gs_cudart_enter();
    if (!e && !pResDesc)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = cuTexObjectGetResourceDesc(&d, texObject);
    return gs_cudart_done(e ? e : resource_from_driver(&d, pResDesc));
}

RT(cudaGetTextureObjectTextureDesc, struct gs_cudart_texture *pTexDesc, CUtexObject texObject)
{
    CUDA_TEXTURE_DESC d;
    cudaError_t e = gs_cudart_enter();
    if (!e && !pTexDesc)
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = cuTexObjectGetTextureDesc(&d, texObject);
    if (!e)
        *pTexDesc = texture_from_driver(&d);
    return gs_cudart_done(e);
}

RT(cudaCreateSurfaceObject, CUsurfObject *pSurfObject, const struct gs_cudart_resource *pResDesc)
{
    CUDA_RESOURCE_DESC d;
    cudaError_t e = gs_cudart_enter();
    if (!e && (!pSurfObject || !pResDesc))
        e = CUDA_ERROR_INVALID_VALUE;
    if (!e)
        e = resource_to_driver(pResDesc, &d);
    return gs_cudart_done(e ? e : cuSurfObjectCreate(pSurfObject, &d));
}

RT_FORWARD(cudaDestroySurfaceObject, cuSurfObjectDestroy(surfObject), CUsurfObject surfObject)
