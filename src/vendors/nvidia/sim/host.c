/* Pinned and registered host memory. Not charged to a card. */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "vendors/nvidia/sim/capture_link.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/process.h"

#define PAGE           4096
#define HOST_FLAGS     0x07U /* portable, mapped, write-combined */
#define HOST_DEVICEMAP 0x02U
#define REGISTER_FLAGS 0x0fU /* portable, mapped, I/O memory, read-only */

static CUresult host_alloc(void **pp, size_t bytes, unsigned int flags)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!pp || !bytes || flags & ~HOST_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > SIZE_MAX - PAGE)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t length = gs_sim_align(bytes, PAGE);
    void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct gs_sim_range range = {.start = (CUdeviceptr)(uintptr_t)p,
                                 .size = bytes,
                                 .length = length,
                                 .kind = GS_SIM_RANGE_HOST,
                                 .card = GS_SIM_NONE,
                                 .device = ctx->device,
                                 .ctx = ctx,
                                 .id = {GS_SIM_NONE, 0},
                                 .flags = flags | HOST_DEVICEMAP};
    gs_process_lock();
    range.buffer_id = gs_memory_serial();
    uint32_t number = gs_memory_add(&range, 0, 0);
    gs_process_unlock();
    if (!number) {
        (void)munmap(p, length);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pp = p;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    GS_SIM_ENTRY;
    GS_CAPTURE_UNSAFE;
    return host_alloc(pp, bytesize, Flags);
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    GS_SIM_ENTRY;
    GS_CAPTURE_UNSAFE;
    return host_alloc(pp, bytesize, 0);
}

CUresult cuMemAllocHost(void **pp, unsigned int bytesize)
{
    GS_SIM_ENTRY;
    return host_alloc(pp, bytesize, 0);
}

/* Take the entry of a kind that starts exactly at `p` out of the table. */
static CUresult forget(const void *p, uint32_t kind, size_t *ret_length)
{
    uint32_t number = 0;
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    const struct gs_sim_range *r = gs_memory_at((CUdeviceptr)(uintptr_t)p, &number);
    if (r && r->kind == kind && r->start == (CUdeviceptr)(uintptr_t)p) {
        *ret_length = r->length;
        gs_memory_remove(number);
        rc = CUDA_SUCCESS;
    }
    gs_process_unlock();
    return rc;
}

CUresult cuMemFreeHost(void *p)
{
    GS_SIM_ENTER_READY();
    GS_CAPTURE_UNSAFE;
    size_t length = 0;
    CUresult rc = forget(p, GS_SIM_RANGE_HOST, &length);
    if (!rc)
        (void)munmap(p, length);
    return rc;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    GS_SIM_ENTER_CTX(ctx);
    GS_CAPTURE_UNSAFE;
    if (!p || !bytesize || Flags & ~REGISTER_FLAGS)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_sim_range range = {.start = (CUdeviceptr)(uintptr_t)p,
                                 .size = bytesize,
                                 .length = bytesize,
                                 .kind = GS_SIM_RANGE_REGISTERED,
                                 .card = GS_SIM_NONE,
                                 .device = ctx->device,
                                 .ctx = ctx,
                                 .id = {GS_SIM_NONE, 0},
                                 .flags = (Flags & 1U) | HOST_DEVICEMAP};
    CUresult rc = CUDA_SUCCESS;
    gs_process_lock();
    if (gs_memory_at(range.start, NULL) || gs_memory_at(range.start + bytesize - 1, NULL))
        rc = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    range.buffer_id = gs_memory_serial();
    if (!rc && !gs_memory_add(&range, 0, 0))
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    gs_process_unlock();
    return rc;
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
    GS_SIM_ENTER_READY();
    GS_CAPTURE_UNSAFE;
    size_t length = 0;
    return forget(p, GS_SIM_RANGE_REGISTERED, &length) ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
                                                       : CUDA_SUCCESS;
}

static int is_host(const struct gs_sim_range *r)
{
    return r->kind == GS_SIM_RANGE_HOST || r->kind == GS_SIM_RANGE_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    GS_SIM_ENTER_CTX(ctx);
    struct gs_sim_range r;
    if (!pdptr || Flags || gs_memory_find((CUdeviceptr)(uintptr_t)p, &r) || !is_host(&r))
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = (CUdeviceptr)(uintptr_t)p; /* unified addressing */
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *pdptr, void *p, unsigned int Flags)
{
    CUdeviceptr full = 0;
    CUresult rc = pdptr ? cuMemHostGetDevicePointer_v2(&full, p, Flags) : CUDA_ERROR_INVALID_VALUE;
    if (rc)
        return rc;
    if (full > UINT32_MAX)
        return CUDA_ERROR_NOT_SUPPORTED; /* no 32-bit name for it */
    *pdptr = (CUdeviceptr_v1)full;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_range r;
    if (!pFlags || gs_memory_find((CUdeviceptr)(uintptr_t)p, &r) || !is_host(&r))
        return CUDA_ERROR_INVALID_VALUE;
    *pFlags = r.flags;
    return CUDA_SUCCESS;
}
