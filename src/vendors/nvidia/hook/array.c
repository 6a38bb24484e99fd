#include "vendors/nvidia/hook/bodies.h"

#include <stdint.h>

#include "hook/gate.h"
#include "hook/ring.h"
#include "hook/track.h"
#include "vendors/nvidia/hook/array.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/pool.h"
#include "vendors/nvidia/hook/vmm.h"

/* Flags of CUDA_ARRAY3D_DESCRIPTOR. */
#define LAYERED          0x01u
#define CUBEMAP          0x04u
#define SPARSE           0x40u
#define DEFERRED_MAPPING 0x80u

/* Each mip level starts on its own texture alignment (CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT). */
#define LEVEL_ALIGNMENT 512u

/* How a format stores a texel. */
struct texel {
    uint32_t bits;     /* of one channel, or of the whole texel or block */
    uint32_t channels; /* 1: bits times the channels of the descriptor */
    uint32_t block;    /* edge of the square that shares `bits` */
};

static struct texel texel_of(CUarray_format format)
{
    uint32_t f = (uint32_t)format;

    switch (f) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return (struct texel){8, 1, 1};
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return (struct texel){16, 1, 1};
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return (struct texel){32, 1, 1};
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
        return (struct texel){8, 0, 1};
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
        return (struct texel){16, 0, 1};
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT_101010_2:
        return (struct texel){32, 0, 1};
    case CU_AD_FORMAT_UNORM_INT16X4:
    case CU_AD_FORMAT_SNORM_INT16X4:
        return (struct texel){64, 0, 1};
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
        return (struct texel){64, 0, 4};
    case CU_AD_FORMAT_NV12:
    case CU_AD_FORMAT_UINT8_SEMIPLANAR_420:
    case CU_AD_FORMAT_UINT8_PLANAR_420:
        return (struct texel){12, 0, 1};
    case CU_AD_FORMAT_P010:
    case CU_AD_FORMAT_P016:
    case CU_AD_FORMAT_UINT16_SEMIPLANAR_420:
    case CU_AD_FORMAT_UINT16_PLANAR_420:
        return (struct texel){24, 0, 1};
    default:
        break;
    }
    if (f >= CU_AD_FORMAT_BC2_UNORM && f <= CU_AD_FORMAT_BC7_UNORM_SRGB)
        return (struct texel){128, 0, 4};
    /* Remaining video formats and those not known yet: no texel is larger than four 16-bit channels
     * of the first or four 32-bit channels of the second. */
    return f >= 0x9f && f <= 0xb5 ? (struct texel){64, 0, 1} : (struct texel){32, 1, 1};
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Bytes of one mip level, without padding; UINT64_MAX when that overflows.
 * Formats this table does not know count as the largest texel they could have. */
static uint64_t level_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int level)
{
    struct texel texel = texel_of(desc->Format);
    bool layered = (desc->Flags & (LAYERED | CUBEMAP)) != 0;
    uint64_t width = level < 64 ? desc->Width >> level : 0;
    uint64_t height = level < 64 ? desc->Height >> level : 0;
    uint64_t depth = layered ? desc->Depth : level < 64 ? desc->Depth >> level : 0;
    uint64_t bits = texel.channels != 0 ? times(texel.bits, desc->NumChannels) : texel.bits;
    uint64_t cells;

    width = width == 0 ? 1 : width;
    height = height == 0 ? 1 : height;
    depth = depth == 0 ? 1 : depth;
    width = width / texel.block + (width % texel.block != 0);
    height = height / texel.block + (height % texel.block != 0);
    cells = times(times(width, height), depth);
    if (cells == UINT64_MAX || bits == UINT64_MAX)
        return UINT64_MAX;
    bits = times(cells, bits);
    return bits == UINT64_MAX ? UINT64_MAX : bits / 8 + (bits % 8 != 0);
}

uint64_t gs_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
    uint64_t sum = 0;

    /* Memory comes later, by cuMemMapArrayAsync or an external object. */
    if ((desc->Flags & (SPARSE | DEFERRED_MAPPING)) != 0)
        return 0;
    /* More levels than halvings of a 64-bit edge do not exist; the driver refuses them. */
    for (unsigned int level = 0; level < levels && level < 64; level++) {
        uint64_t bytes = level_bytes(desc, level);

        if (levels > 1 && bytes <= UINT64_MAX - LEVEL_ALIGNMENT)
            bytes = (bytes + LEVEL_ALIGNMENT - 1) / LEVEL_ALIGNMENT * LEVEL_ALIGNMENT;
        sum = bytes > UINT64_MAX - sum ? UINT64_MAX : sum + bytes;
    }
    return sum;
}

/* One call of any of the creating rows. */
struct creation {
    const char *what;
    CUresult (*call)(const struct creation *creation);
    void *real;
    void *handle; /* where the driver stores it: CUarray or CUmipmappedArray, both pointers */
    const void *desc;
    unsigned int levels;
    enum gs_obj_kind kind;
};

static void destroy(const struct creation *creation)
{
    const struct gs_driver *cuda = gs_driver_cuda();

    if (creation->kind == GS_OBJ_ARRAY && cuda->cuArrayDestroy != NULL)
        (void)cuda->cuArrayDestroy(*(CUarray *)creation->handle);
    if (creation->kind == GS_OBJ_MIPMAP && cuda->cuMipmappedArrayDestroy != NULL)
        (void)cuda->cuMipmappedArrayDestroy(*(CUmipmappedArray *)creation->handle);
}

static CUresult create(const struct creation *creation, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    struct gs_device_here here;
    struct gs_obj obj = {.share = -1, .refs = 1};
    uint64_t bytes;
    CUresult result;

    if (creation->handle == NULL || desc == NULL || gs_device_current(&here) < 0)
        return creation->call(creation);
    bytes = gs_array_bytes(desc, creation->levels);
    if (bytes == 0)
        return creation->call(creation);
    obj.bytes = gs_device_round(here.device, bytes);
    obj.aux = here.serial;
    obj.dev = here.device->ledger;
    if (gs_pool_reserve(obj.dev, obj.bytes, GS_CHARGE_HELD, creation->what) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = creation->call(creation);
    if (result == CUDA_SUCCESS) {
        if (gs_track_put(creation->kind, *(uintptr_t *)creation->handle, &obj) == 0)
            return CUDA_SUCCESS;
        gs_ring_log(GS_REASON_TRACK_FULL, obj.dev, creation->what, NULL);
        destroy(creation);
        gs_gate_release(obj.dev, obj.bytes, GS_CHARGE_HELD);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    gs_gate_release(obj.dev, obj.bytes, GS_CHARGE_HELD);
    return gs_device_refused(result, obj.dev, bytes, creation->what);
}

/* ---- rows ---- */

typedef CUresult create_3d(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR *);
typedef CUresult create_3d_v1(CUarray *, const CUDA_ARRAY3D_DESCRIPTOR_v1 *);
typedef CUresult create_2d(CUarray *, const CUDA_ARRAY_DESCRIPTOR *);
typedef CUresult create_2d_v1(CUarray *, const CUDA_ARRAY_DESCRIPTOR_v1 *);
typedef CUresult create_mipmap(CUmipmappedArray *, const CUDA_ARRAY3D_DESCRIPTOR *, unsigned int);

static CUresult call_3d(const struct creation *c)
{
    return ((create_3d *)(uintptr_t)c->real)(c->handle, c->desc);
}

CUresult gs_nv_array_3d_create(create_3d *real, CUarray *pHandle,
                               const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    return create(&(struct creation){"cuArray3DCreate", call_3d, (void *)(uintptr_t)real, pHandle,
                                     pAllocateArray, 1, GS_OBJ_ARRAY},
                  pAllocateArray);
}

static CUresult call_3d_v1(const struct creation *c)
{
    return ((create_3d_v1 *)(uintptr_t)c->real)(c->handle, c->desc);
}

CUresult gs_nv_array_3d_create_v1(create_3d_v1 *real, CUarray *pHandle,
                                  const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
    const CUDA_ARRAY3D_DESCRIPTOR_v1 *d = pAllocateArray;
    CUDA_ARRAY3D_DESCRIPTOR desc = {0};

    if (d != NULL)
        desc = (CUDA_ARRAY3D_DESCRIPTOR){d->Width,  d->Height,      d->Depth,
                                         d->Format, d->NumChannels, d->Flags};
    return create(&(struct creation){"cuArray3DCreate", call_3d_v1, (void *)(uintptr_t)real,
                                     pHandle, d, 1, GS_OBJ_ARRAY},
                  d == NULL ? NULL : &desc);
}

static CUresult call_2d(const struct creation *c)
{
    return ((create_2d *)(uintptr_t)c->real)(c->handle, c->desc);
}

CUresult gs_nv_array_create(create_2d *real, CUarray *pHandle,
                            const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    const CUDA_ARRAY_DESCRIPTOR *d = pAllocateArray;
    CUDA_ARRAY3D_DESCRIPTOR desc = {0};

    if (d != NULL)
        desc = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
    return create(&(struct creation){"cuArrayCreate", call_2d, (void *)(uintptr_t)real, pHandle, d,
                                     1, GS_OBJ_ARRAY},
                  d == NULL ? NULL : &desc);
}

static CUresult call_2d_v1(const struct creation *c)
{
    return ((create_2d_v1 *)(uintptr_t)c->real)(c->handle, c->desc);
}

CUresult gs_nv_array_create_v1(create_2d_v1 *real, CUarray *pHandle,
                               const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
    const CUDA_ARRAY_DESCRIPTOR_v1 *d = pAllocateArray;
    CUDA_ARRAY3D_DESCRIPTOR desc = {0};

    if (d != NULL)
        desc = (CUDA_ARRAY3D_DESCRIPTOR){d->Width, d->Height, 0, d->Format, d->NumChannels, 0};
    return create(&(struct creation){"cuArrayCreate", call_2d_v1, (void *)(uintptr_t)real, pHandle,
                                     d, 1, GS_OBJ_ARRAY},
                  d == NULL ? NULL : &desc);
}

static CUresult call_mipmap(const struct creation *c)
{
    return ((create_mipmap *)(uintptr_t)c->real)(c->handle, c->desc, c->levels);
}

CUresult gs_nv_mipmapped_array_create(create_mipmap *real, CUmipmappedArray *pHandle,
                                      const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                      unsigned int numMipmapLevels)
{
    return create(&(struct creation){"cuMipmappedArrayCreate", call_mipmap, (void *)(uintptr_t)real,
                                     pHandle, pMipmappedArrayDesc, numMipmapLevels, GS_OBJ_MIPMAP},
                  pMipmappedArrayDesc);
}

/* The entry leaves before the driver is asked, because the handle may be given again at once. */
CUresult gs_nv_array_destroy(CUresult (*real)(CUarray), CUarray hArray)
{
    struct gs_obj obj;
    bool known = gs_track_take(GS_OBJ_ARRAY, (uintptr_t)hArray, &obj);
    CUresult result = real(hArray);

    if (result == CUDA_SUCCESS)
        gs_vmm_array_gone((uintptr_t)hArray);
    if (!known)
        return result;
    if (result == CUDA_SUCCESS)
        gs_gate_release(obj.dev, obj.bytes, GS_CHARGE_HELD);
    else
        (void)!gs_track_put(GS_OBJ_ARRAY, (uintptr_t)hArray, &obj); /* else it stays charged */
    return result;
}

CUresult gs_nv_mipmapped_array_destroy(CUresult (*real)(CUmipmappedArray),
                                       CUmipmappedArray hMipmappedArray)
{
    struct gs_obj obj;
    bool known = gs_track_take(GS_OBJ_MIPMAP, (uintptr_t)hMipmappedArray, &obj);
    CUresult result = real(hMipmappedArray);

    if (result == CUDA_SUCCESS)
        gs_vmm_array_gone((uintptr_t)hMipmappedArray);
    if (!known)
        return result;
    if (result == CUDA_SUCCESS)
        gs_gate_release(obj.dev, obj.bytes, GS_CHARGE_HELD);
    else
        (void)!gs_track_put(GS_OBJ_MIPMAP, (uintptr_t)hMipmappedArray, &obj); /* stays charged */
    return result;
}
