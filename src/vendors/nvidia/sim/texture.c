#include "vendors/nvidia/sim/texture.h"

#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/object.h"

struct texture {
    struct gs_object object;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC how; /* this and the next: of textures only */
    CUDA_RESOURCE_VIEW_DESC view;
};

static CUresult create(enum gs_object_kind kind, const CUDA_RESOURCE_DESC *desc,
                       unsigned long long *ret)
{
    struct texture *t;
    if (!ret || !desc)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->resType == CU_RESOURCE_TYPE_PITCH2D &&
        (!desc->res.pitch2D.devPtr || desc->res.pitch2D.devPtr % 512 ||
         desc->res.pitch2D.pitchInBytes % 32))
        return CUDA_ERROR_INVALID_VALUE;
    if ((desc->resType == CU_RESOURCE_TYPE_LINEAR && !desc->res.linear.devPtr) ||
        (desc->resType == CU_RESOURCE_TYPE_ARRAY && !desc->res.array.hArray) ||
        (unsigned int)desc->resType > CU_RESOURCE_TYPE_PITCH2D)
        return CUDA_ERROR_INVALID_VALUE;
    t = gs_object_new(kind, sizeof(*t));
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->resource = *desc;
    *ret = (uintptr_t)t;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                           const CUDA_TEXTURE_DESC *pTexDesc,
                           const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
    GS_SIM_ENTER_CTX(ctx);
    (void)ctx;
    if (!pTexDesc)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = create(GS_OBJECT_TEXTURE, pResDesc, pTexObject);
    if (!r) {
        struct texture *t = (struct texture *)(uintptr_t)*pTexObject;
        t->how = *pTexDesc;
        if (pResViewDesc)
            t->view = *pResViewDesc;
    }
    return r;
}

CUresult cuTexObjectDestroy(CUtexObject texObject)
{
    GS_SIM_ENTER_READY();
    if (!gs_object_is((void *)(uintptr_t)texObject, GS_OBJECT_TEXTURE))
        return CUDA_ERROR_INVALID_VALUE;
    gs_object_free((void *)(uintptr_t)texObject);
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
    GS_SIM_ENTER_READY();
    struct texture *t = (struct texture *)(uintptr_t)texObject;
    if (!pResDesc || !gs_object_is(t, GS_OBJECT_TEXTURE))
        return CUDA_ERROR_INVALID_VALUE;
    *pResDesc = t->resource;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
    GS_SIM_ENTER_READY();
    struct texture *t = (struct texture *)(uintptr_t)texObject;
    if (!pTexDesc || !gs_object_is(t, GS_OBJECT_TEXTURE))
        return CUDA_ERROR_INVALID_VALUE;
    *pTexDesc = t->how;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
                                        CUtexObject texObject)
{
    GS_SIM_ENTER_READY();
    struct texture *t = (struct texture *)(uintptr_t)texObject;
    if (!pResViewDesc || !gs_object_is(t, GS_OBJECT_TEXTURE))
        return CUDA_ERROR_INVALID_VALUE;
    *pResViewDesc = t->view;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
    GS_SIM_ENTER_READY();
    struct texture *t = (struct texture *)(uintptr_t)surfObject;
    if (!pResDesc || !gs_object_is(t, GS_OBJECT_SURFACE))
        return CUDA_ERROR_INVALID_VALUE;
    *pResDesc = t->resource;
    return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
    GS_SIM_ENTER_CTX(ctx);
    (void)ctx;
    if (!pResDesc || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    return create(GS_OBJECT_SURFACE, pResDesc, pSurfObject);
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
    GS_SIM_ENTER_READY();
    if (!gs_object_is((void *)(uintptr_t)surfObject, GS_OBJECT_SURFACE))
        return CUDA_ERROR_INVALID_VALUE;
    gs_object_free((void *)(uintptr_t)surfObject);
    return CUDA_SUCCESS;
}

CUresult cuTexRefCreate(CUtexref *pTexRef)
{
    GS_SIM_ENTER_READY();
    if (!pTexRef)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_object *o = gs_object_new(GS_OBJECT_TEXREF, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pTexRef = (CUtexref)o;
    return CUDA_SUCCESS;
}

static CUresult check(CUtexref h)
{
    return gs_object_is(h, GS_OBJECT_TEXREF) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexRefDestroy(CUtexref hTexRef)
{
    GS_SIM_ENTER_READY();
    CUresult r = check(hTexRef);
    if (!r)
        gs_object_free(hTexRef);
    return r;
}

CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes)
{
    GS_SIM_ENTER_READY();
    (void)dptr;
    (void)bytes;
    if (ByteOffset)
        *ByteOffset = 0;
    return check(hTexRef);
}

CUresult cuTexRefSetAddress(unsigned int *ByteOffset, CUtexref hTexRef, CUdeviceptr_v1 dptr,
                            unsigned int bytes)
{
    GS_SIM_ENTER_READY();
    (void)dptr;
    (void)bytes;
    if (ByteOffset)
        *ByteOffset = 0;
    return check(hTexRef);
}

CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am)
{
    GS_SIM_ENTER_READY();
    (void)dim;
    (void)am;
    return check(hTexRef);
}

CUresult cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags)
{
    GS_SIM_ENTER_READY();
    (void)Flags;
    return hArray ? check(hTexRef) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
    GS_SIM_ENTER_READY();
    (void)fm;
    return check(hTexRef);
}

CUresult cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags)
{
    GS_SIM_ENTER_READY();
    (void)Flags;
    return check(hTexRef);
}

CUresult cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents)
{
    GS_SIM_ENTER_READY();
    (void)fmt;
    (void)NumPackedComponents;
    return check(hTexRef);
}
