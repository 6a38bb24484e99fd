/* Allocation functions of before CUDA 3.2: addresses have 32 bits. The memory gets a second mapping
 * in the low part of the address space; everything else takes 64-bit addresses as they come. */

#include <sys/mman.h>

#include "vendors/nvidia/sim/low.h"
#include "vendors/nvidia/sim/process.h"

#ifndef MAP_32BIT
#define MAP_32BIT 0 /* elsewhere the kernel may still grant a low hint, or the call fails */
#endif

static CUresult map_low(struct gs_sim_ctx *ctx, uint32_t card, struct gs_sim_id id, size_t bytes,
                        CUdeviceptr_v1 *ret_ptr)
{
    const struct gs_sim_object *o = &gs_sim_state->object[id.index];
    int fd = gs_card_fd(card);
    void *p = fd < 0 ? MAP_FAILED
                     : mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_32BIT, fd,
                            (off_t)(o->first_unit << gs_sim_state->card[card].shift));
    struct gs_sim_range range = {.start = (CUdeviceptr)(uintptr_t)p,
                                 .size = bytes,
                                 .length = o->bytes,
                                 .kind = GS_SIM_RANGE_DEVICE,
                                 .card = card,
                                 .device = ctx->device,
                                 .ctx = ctx,
                                 .id = id};
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    gs_process_lock();
    range.buffer_id = gs_memory_serial();
    int entered = range.start <= UINT32_MAX - o->bytes && gs_memory_add(&range, 0, 0);
    gs_process_unlock();
    if (!entered) {
        (void)munmap(p, o->bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret_ptr = (CUdeviceptr_v1)range.start;
    return CUDA_SUCCESS;
}

static CUresult alloc(struct gs_sim_ctx *ctx, size_t bytes, CUdeviceptr_v1 *ret_ptr)
{
    uint32_t card = gs_process_device_card(ctx->device);
    struct gs_sim_take take = {card, GS_SIM_LINEAR, ctx->id, 1, bytes, bytes};
    struct gs_sim_id id;
    CUresult rc = gs_card_take(&take, &id);
    if (rc)
        return rc;
    rc = map_low(ctx, card, id, bytes, ret_ptr);
    if (rc)
        gs_card_drop(id);
    return rc;
}

void gs_low_unmap(const struct gs_sim_range *range)
{
    if (!range->units)
        (void)munmap((void *)(uintptr_t)range->start, range->length);
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!dptr || !bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    return alloc(ctx, bytesize, dptr);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
                         unsigned int Height, unsigned int ElementSizeBytes)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!dptr || !pPitch || !WidthInBytes || !Height || WidthInBytes > UINT32_MAX - 511 ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t pitch = gs_sim_align(WidthInBytes, 512);
    CUresult rc = alloc(ctx, pitch * Height, dptr);
    if (!rc)
        *pPitch = (unsigned int)pitch;
    return rc;
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
    return cuMemFree_v2(dptr);
}
