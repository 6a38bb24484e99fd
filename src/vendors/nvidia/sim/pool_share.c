/* Pools and pointers between processes. The importer of a pointer keeps its whole chunk alive. */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vendors/nvidia/sim/import.h"
#include "vendors/nvidia/sim/pool.h"
#include "vendors/nvidia/sim/process.h"

#define POOL_FD_MAGIC UINT64_C(0x6466706f6f6c)
#define POINTER_MAGIC UINT64_C(0x72746e696f70)

/* What the descriptor of an exported pool says. */
struct pool_travel {
    uint64_t magic;
    uint64_t nonce;
    uint32_t card;
    uint32_t slot;
    uint64_t serial;
    CUmemPoolProps props;
};

/* The 64 bytes of a CUmemPoolPtrExportData. */
struct pointer_travel {
    uint64_t magic;
    uint64_t nonce;
    struct gs_sim_id id;
    uint64_t offset;
    uint64_t size;
    uint64_t serial; /* of the pool */
    uint64_t zero[2];
};
_Static_assert(sizeof(struct pointer_travel) == sizeof(CUmemPoolPtrExportData), "fits");

static int write_fd(const struct pool_travel *t)
{
    int fd = memfd_create("gpuslice-sim-pool", MFD_CLOEXEC);
    if (fd >= 0 && pwrite(fd, t, sizeof(*t), 0) != (ssize_t)sizeof(*t)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags)
{
    GS_SIM_ENTER_READY();
    struct pool_travel t = {
        .magic = POOL_FD_MAGIC, .nonce = gs_sim_state->nonce, .slot = gs_sim_self.slot};
    if (!handle_out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    const struct gs_sim_pool *p = gs_pool_get(pool);
    if (p) {
        t.card = p->card;
        t.serial = p->serial;
        t.props = p->props;
    }
    gs_process_unlock();
    if (!p || !((unsigned)t.props.handleTypes & (unsigned)handleType))
        return CUDA_ERROR_INVALID_VALUE;
    int fd = write_fd(&t);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    memcpy(handle_out, &fd, sizeof(fd));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags)
{
    GS_SIM_ENTER_READY();
    struct pool_travel t;
    if (!pool_out || flags || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        pread((int)(intptr_t)handle, &t, sizeof(t), 0) != (ssize_t)sizeof(t) ||
        t.magic != POOL_FD_MAGIC || t.nonce != gs_sim_state->nonce)
        return CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    struct gs_sim_pool *p = gs_pool_new(&t.props);
    if (p) {
        p->is_imported = 1;
        p->serial = t.serial;
    }
    gs_process_unlock();
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pool_out = (CUmemoryPool)p;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_range r;
    if (!shareData_out || gs_memory_find(ptr, &r) || r.kind != GS_SIM_RANGE_POOL ||
        r.card == GS_SIM_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    const struct gs_sim_pool *p = r.owner;
    if (!p->props.handleTypes)
        return CUDA_ERROR_INVALID_VALUE;
    const struct gs_sim_object *o = &gs_sim_state->object[r.id.index];
    struct pointer_travel t = {.magic = POINTER_MAGIC,
                               .nonce = gs_sim_state->nonce,
                               .id = r.id,
                               .offset = r.start - gs_memory_address(r.card, o->first_unit),
                               .size = r.size,
                               .serial = p->serial};
    memcpy(shareData_out, &t, sizeof(t));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                CUmemPoolPtrExportData *shareData)
{
    GS_SIM_ENTER_READY();
    struct pointer_travel t;
    if (!ptr_out || !shareData)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&t, shareData, sizeof(t));
    gs_process_lock();
    const struct gs_sim_pool *p = gs_pool_get(pool);
    CUdevice device = p ? p->device : 0;
    int fits = p && p->is_imported && t.magic == POINTER_MAGIC && t.nonce == gs_sim_state->nonce &&
               t.serial == p->serial;
    gs_process_unlock();
    if (!fits)
        return CUDA_ERROR_INVALID_VALUE;
    return gs_import_open(t.id, NULL, device, t.offset, ptr_out);
}
