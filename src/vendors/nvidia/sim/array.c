#include "vendors/nvidia/sim/array.h"

#include <stdlib.h>

#include "vendors/nvidia/sim/capture_link.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/process.h"

#define ARRAY_MAGIC  UINT64_C(0x79617272615f7367)
#define MIPMAP_MAGIC UINT64_C(0x70616d70696d7367)
#define LEVELS_MAX   32
/* Flags of CUDA_ARRAY3D_DESCRIPTOR (cuda.h): memory comes later, through cuMemMapArrayAsync. */
#define ARRAY3D_SPARSE   0x40U
#define ARRAY3D_DEFERRED 0x80U

struct gs_sim_mipmap {
    uint64_t magic;
    uint32_t levels;
    struct gs_sim_id id;
    uint64_t bytes;
    struct gs_sim_array level[LEVELS_MAX];
};

struct gs_sim_array *gs_array_get(CUarray handle)
{
    struct gs_sim_array *a = (struct gs_sim_array *)handle;
    return a && a->magic == ARRAY_MAGIC ? a : NULL;
}

/* Bits of one element with all its channels; 0 for a format that is unknown. */
static size_t element_bits(CUarray_format format, unsigned int channels)
{
    switch ((unsigned)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 8U * channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 16U * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 32U * channels;
    case CU_AD_FORMAT_NV12:
        return 12; /* two planes, the second of half the rows and pairs of half the columns */
    default:
        break;
    }
    if (format >= CU_AD_FORMAT_UNORM_INT8X1 && format <= CU_AD_FORMAT_SNORM_INT16X4) {
        static const unsigned char bits[] = {8, 16, 32, 16, 32, 64, 8, 16, 32, 16, 32, 64};
        return bits[format - CU_AD_FORMAT_UNORM_INT8X1];
    }
    if (format == CU_AD_FORMAT_BC1_UNORM || format == CU_AD_FORMAT_BC1_UNORM_SRGB ||
        format == CU_AD_FORMAT_BC4_UNORM || format == CU_AD_FORMAT_BC4_SNORM)
        return 4;
    if (format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_BC7_UNORM_SRGB)
        return 8;
    return 0;
}

static size_t at_least_one(size_t n)
{
    return n ? n : 1;
}

static CUresult describe(const CUDA_ARRAY3D_DESCRIPTOR *d, struct gs_sim_array *a)
{
    size_t bits = element_bits(d->Format, d->NumChannels);
    size_t row_bits = 0;
    if (!bits || !d->Width || !d->NumChannels || d->NumChannels > 4 ||
        __builtin_mul_overflow(d->Width, bits, &row_bits))
        return CUDA_ERROR_INVALID_VALUE;
    if (d->Flags & (ARRAY3D_SPARSE | ARRAY3D_DEFERRED))
        return CUDA_ERROR_NOT_SUPPORTED;
    a->desc = *d;
    a->element_bytes = bits / 8;
    a->row_bytes = row_bits / 8 + (row_bits % 8 != 0);
    a->rows = at_least_one(d->Height);
    a->slices = at_least_one(d->Depth);
    if (__builtin_mul_overflow(a->row_bytes, a->rows, &a->bytes) ||
        __builtin_mul_overflow(a->bytes, a->slices, &a->bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult take(struct gs_sim_ctx *ctx, uint64_t bytes, struct gs_sim_id *ret_id,
                     char **ret_base)
{
    uint32_t card = gs_process_device_card(ctx->device);
    struct gs_sim_take t = {card, GS_SIM_ARRAY, ctx->id, 1, bytes, bytes};
    CUresult rc = gs_card_take(&t, ret_id);
    if (rc)
        return rc;
    uint64_t unit = gs_sim_state->object[ret_id->index].first_unit;
    *ret_base = (char *)(uintptr_t)gs_memory_address(card, unit);
    if (*ret_base)
        return CUDA_SUCCESS;
    gs_card_drop(*ret_id);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult create(struct gs_sim_ctx *ctx, CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    struct gs_sim_array *a = calloc(1, sizeof(*a));
    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = describe(d, a);
    if (!rc)
        rc = take(ctx, a->bytes, &a->id, &a->base);
    if (rc) {
        free(a);
        return rc;
    }
    a->magic = ARRAY_MAGIC;
    a->ctx = ctx;
    a->device = ctx->device;
    *pHandle = (CUarray)a;
    return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    GS_SIM_ENTER_CTX(ctx);
    GS_CAPTURE_UNSAFE;
    if (!pHandle || !pAllocateArray)
        return CUDA_ERROR_INVALID_VALUE;
    return create(ctx, pHandle, pAllocateArray);
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *d)
{
    GS_SIM_ENTER_CTX(ctx);
    GS_CAPTURE_UNSAFE;
    if (!pHandle || !d)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {
        .Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    return create(ctx, pHandle, &full);
}

CUresult cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *d)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!pHandle || !d)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {d->Width,  d->Height,      d->Depth,
                                    d->Format, d->NumChannels, d->Flags};
    return create(ctx, pHandle, &full);
}

CUresult cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *d)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!pHandle || !d)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {
        .Width = d->Width, .Height = d->Height, .Format = d->Format, .NumChannels = d->NumChannels};
    return create(ctx, pHandle, &full);
}

CUresult cuArrayDestroy(CUarray hArray)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_array *a = gs_array_get(hArray);
    if (!a || a->level_of_other)
        return CUDA_ERROR_INVALID_HANDLE;
    a->magic = 0;
    gs_card_drop(a->id); /* gone already if its context died: identities are never reused */
    free(a);
    return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    GS_SIM_ENTER_READY();
    const struct gs_sim_array *a = gs_array_get(hArray);
    if (!a || !pArrayDescriptor)
        return a ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *pArrayDescriptor = a->desc;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR full;
    CUresult rc = d ? cuArray3DGetDescriptor_v2(&full, hArray) : CUDA_ERROR_INVALID_VALUE;
    if (!rc)
        *d = (CUDA_ARRAY_DESCRIPTOR){full.Width, full.Height, full.Format, full.NumChannels};
    return rc;
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *d, CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR full;
    CUresult rc = d ? cuArray3DGetDescriptor_v2(&full, hArray) : CUDA_ERROR_INVALID_VALUE;
    if (!rc)
        *d = (CUDA_ARRAY3D_DESCRIPTOR_v1){(unsigned)full.Width, (unsigned)full.Height,
                                          (unsigned)full.Depth, full.Format,
                                          full.NumChannels,     full.Flags};
    return rc;
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *d, CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR full;
    CUresult rc = d ? cuArray3DGetDescriptor_v2(&full, hArray) : CUDA_ERROR_INVALID_VALUE;
    if (!rc)
        *d = (CUDA_ARRAY_DESCRIPTOR_v1){(unsigned)full.Width, (unsigned)full.Height, full.Format,
                                        full.NumChannels};
    return rc;
}

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *r, uint64_t bytes, CUdevice device)
{
    if (!r)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_check_device(device);
    if (rc)
        return rc;
    uint64_t g = gs_card_granularity(gs_process_device_card(device));
    *r = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = gs_sim_align(bytes, g), .alignment = g};
    return CUDA_SUCCESS;
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                      CUarray array, CUdevice device)
{
    GS_SIM_ENTER_READY();
    const struct gs_sim_array *a = gs_array_get(array);
    return a ? requirements(memoryRequirements, a->bytes, device) : CUDA_ERROR_INVALID_HANDLE;
}

static struct gs_sim_mipmap *mipmap_get(CUmipmappedArray handle)
{
    struct gs_sim_mipmap *m = (struct gs_sim_mipmap *)handle;
    return m && m->magic == MIPMAP_MAGIC ? m : NULL;
}

static size_t half(size_t n, uint32_t level)
{
    return n ? at_least_one(n >> level) : 0;
}

static CUresult mipmap_describe(struct gs_sim_mipmap *m, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    int layered = (d->Flags & 1U) != 0; /* CUDA_ARRAY3D_LAYERED: depth counts layers */
    for (uint32_t i = 0; i < m->levels; i++) {
        CUDA_ARRAY3D_DESCRIPTOR level = *d;
        level.Width = at_least_one(d->Width >> i);
        level.Height = half(d->Height, i);
        level.Depth = layered ? d->Depth : half(d->Depth, i);
        CUresult rc = describe(&level, &m->level[i]);
        if (rc)
            return rc;
        if (__builtin_add_overflow(m->bytes, gs_sim_align(m->level[i].bytes, 512), &m->bytes))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels)
{
    GS_SIM_ENTER_CTX(ctx);
    char *base = NULL;
    if (!pHandle || !pMipmappedArrayDesc || !numMipmapLevels || numMipmapLevels > LEVELS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_sim_mipmap *m = calloc(1, sizeof(*m));
    if (!m)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->levels = numMipmapLevels;
    CUresult rc = mipmap_describe(m, pMipmappedArrayDesc);
    if (!rc)
        rc = take(ctx, m->bytes, &m->id, &base);
    if (rc) {
        free(m);
        return rc;
    }
    for (uint32_t i = 0; i < m->levels; i++) {
        struct gs_sim_array *a = &m->level[i];
        a->magic = ARRAY_MAGIC;
        a->base = base;
        a->id = m->id;
        a->ctx = ctx;
        a->device = ctx->device;
        a->level_of_other = 1;
        base += gs_sim_align(a->bytes, 512);
    }
    m->magic = MIPMAP_MAGIC;
    *pHandle = (CUmipmappedArray)m;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_mipmap *m = mipmap_get(hMipmappedArray);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    m->magic = 0;
    for (uint32_t i = 0; i < m->levels; i++)
        m->level[i].magic = 0;
    gs_card_drop(m->id);
    free(m);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                  unsigned int level)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_mipmap *m = mipmap_get(hMipmappedArray);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!pLevelArray || level >= m->levels)
        return CUDA_ERROR_INVALID_VALUE;
    *pLevelArray = (CUarray)&m->level[level];
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                               CUmipmappedArray mipmap, CUdevice device)
{
    GS_SIM_ENTER_READY();
    const struct gs_sim_mipmap *m = mipmap_get(mipmap);
    return m ? requirements(memoryRequirements, m->bytes, device) : CUDA_ERROR_INVALID_HANDLE;
}
