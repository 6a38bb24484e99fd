#include "vendors/nvidia/sim/vmm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vendors/nvidia/sim/process.h"

#define HANDLE_MAGIC UINT64_C(0x656c646e61686d76)
#define TYPES_SERVED ((unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)

/* What travels with an exported descriptor. */
struct travel {
    struct gs_sim_id id;
    uint32_t card;
    uint32_t reserved;
    uint64_t size;
    CUmemAllocationProp prop;
};

static struct gs_sim_handle *handles; /* guard: gs_sim_self.lock */

struct gs_sim_handle *gs_vmm_get(CUmemGenericAllocationHandle handle)
{
    struct gs_sim_handle *h = handles;
    while (h && (CUmemGenericAllocationHandle)(uintptr_t)h != handle)
        h = h->next;
    return h;
}

void gs_vmm_unref(struct gs_sim_handle *h, int mapping)
{
    if (mapping)
        h->mappings--;
    else
        h->refs--;
    if (h->refs || h->mappings)
        return;
    struct gs_sim_handle **at = &handles;
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    if (h->id.index != GS_SIM_NONE)
        gs_card_drop(h->id);
    if (h->fd >= 0)
        (void)close(h->fd);
    free(h);
}

static struct gs_sim_handle *handle_new(const CUmemAllocationProp *prop, size_t size)
{
    struct gs_sim_handle *h = calloc(1, sizeof(*h));
    if (!h)
        return NULL;
    h->magic = HANDLE_MAGIC;
    h->prop = *prop;
    h->size = size;
    h->id.index = GS_SIM_NONE;
    h->fd = -1;
    h->card = GS_SIM_NONE;
    h->refs = 1;
    return h;
}

static CUmemGenericAllocationHandle publish(struct gs_sim_handle *h)
{
    gs_process_lock();
    h->next = handles;
    handles = h;
    gs_process_unlock();
    return (CUmemGenericAllocationHandle)(uintptr_t)h;
}

static int is_host(const CUmemAllocationProp *prop)
{
    return prop->location.type == CU_MEM_LOCATION_TYPE_HOST ||
           prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

/* Checks what cuMemCreate and the granularity query have in common. */
static CUresult check_prop(const CUmemAllocationProp *prop, size_t *ret_granularity)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (is_host(prop)) {
        *ret_granularity = (size_t)2 << 20;
        return CUDA_SUCCESS;
    }
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = gs_context_check_device(prop->location.id);
    if (rc)
        return rc;
    *ret_granularity = gs_card_granularity(gs_process_device_card(prop->location.id));
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    GS_SIM_ENTER_READY();
    size_t g = 0;
    if (!granularity || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = check_prop(prop, &g);
    if (!rc)
        *granularity = g;
    return rc;
}

static CUresult fill_host(struct gs_sim_handle *h)
{
    h->fd = memfd_create("gpuslice-sim-host", MFD_CLOEXEC);
    if (h->fd < 0 || ftruncate(h->fd, (off_t)h->size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

static CUresult fill_device(struct gs_sim_handle *h)
{
    h->card = gs_process_device_card(h->prop.location.id);
    struct gs_sim_take take = {h->card, GS_SIM_HANDLE, 0, 1, h->size, h->size};
    return gs_card_take(&take, &h->id);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    GS_SIM_ENTER_READY();
    size_t g = 0;
    if (!handle || !size || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = check_prop(prop, &g);
    if (rc)
        return rc;
    if (size % g)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)prop->requestedHandleTypes & ~TYPES_SERVED)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct gs_sim_handle *h = handle_new(prop, size);
    if (!h)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = is_host(prop) ? fill_host(h) : fill_device(h);
    if (rc) {
        if (h->fd >= 0)
            (void)close(h->fd);
        free(h);
        return rc;
    }
    *handle = publish(h);
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    GS_SIM_ENTER_READY();
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    struct gs_sim_handle *h = gs_vmm_get(handle);
    if (h && h->refs) {
        gs_vmm_unref(h, 0);
        rc = CUDA_SUCCESS;
    }
    gs_process_unlock();
    return rc;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    GS_SIM_ENTER_READY();
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    const struct gs_sim_handle *h = prop ? gs_vmm_get(handle) : NULL;
    if (h) {
        *prop = h->prop;
        rc = CUDA_SUCCESS;
    }
    gs_process_unlock();
    return rc;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    GS_SIM_ENTER_READY();
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    const struct gs_sim_range *r = gs_memory_at((CUdeviceptr)(uintptr_t)addr, NULL);
    if (handle && r && r->kind == GS_SIM_RANGE_MAPPED) {
        struct gs_sim_handle *h = r->owner;
        h->refs++;
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)h;
        rc = CUDA_SUCCESS;
    }
    gs_process_unlock();
    return rc;
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags)
{
    GS_SIM_ENTER_READY();
    if (!shareableHandle || flags)
        return CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    const struct gs_sim_handle *h = gs_vmm_get(handle);
    struct travel t = {{GS_SIM_NONE, 0}, 0, 0, 0, {0}};
    if (h)
        t = (struct travel){h->id, h->card, 0, h->size, h->prop};
    gs_process_unlock();
    if (!h || !((unsigned)t.prop.requestedHandleTypes & (unsigned)handleType))
        return CUDA_ERROR_INVALID_VALUE;
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || t.id.index == GS_SIM_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    int fd = gs_card_export_fd(t.id, &t, sizeof(t));
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    memcpy(shareableHandle, &fd, sizeof(fd));
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    GS_SIM_ENTER_READY();
    struct travel t;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (gs_card_import_fd((int)(intptr_t)osHandle, &t, sizeof(t)) ||
        t.card >= gs_sim_state->n_cards)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_sim_handle *h = handle_new(&t.prop, t.size);
    if (!h)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = gs_card_hold(t.id);
    if (rc) {
        free(h);
        return rc;
    }
    h->id = t.id;
    h->card = t.card;
    *handle = publish(h);
    return CUDA_SUCCESS;
}
