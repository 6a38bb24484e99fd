/* Address space: reservations, and what is mapped into them. */

#include <stdlib.h>
#include <sys/mman.h>

#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/vmm.h"

#define PAGE 4096

struct reservation {
    struct reservation *next;
    CUdeviceptr start;
    size_t size;
};

static struct reservation *reservations; /* guard: gs_sim_self.lock */

static struct reservation **find(CUdeviceptr ptr)
{
    struct reservation **at = &reservations;
    while (*at && ptr - (*at)->start >= (*at)->size)
        at = &(*at)->next;
    return at;
}

/* Address space without access, `size` bytes on an `align` boundary; the rest goes back. */
static void *reserve(size_t size, size_t align, CUdeviceptr hint)
{
    size_t room = size + align;
    char *p = mmap((void *)(uintptr_t)hint, room, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *at = (char *)(uintptr_t)gs_sim_align((uint64_t)(uintptr_t)p, align);
    if (at > p)
        (void)munmap(p, (size_t)(at - p));
    if (p + room > at + size)
        (void)munmap(at + size, (size_t)(p + room - (at + size)));
    return at;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    GS_SIM_ENTER_READY();
    size_t align = alignment > (2U << 20) ? alignment : 2U << 20;
    if (!ptr || !size || flags || size % PAGE || (alignment & (alignment - 1)) ||
        size > SIZE_MAX / 2 || align > SIZE_MAX / 4)
        return CUDA_ERROR_INVALID_VALUE;
    struct reservation *r = malloc(sizeof(*r));
    void *p = r ? reserve(size, align, addr) : NULL;
    if (!p) {
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    r->start = (CUdeviceptr)(uintptr_t)p;
    r->size = size;
    gs_process_lock();
    r->next = reservations;
    reservations = r;
    gs_process_unlock();
    *ptr = r->start;
    return CUDA_SUCCESS;
}

/* Lowest mapping that touches [ptr, ptr + size), or NULL. */
static struct gs_sim_range *first_in(CUdeviceptr ptr, size_t size, uint32_t *ret_number)
{
    struct gs_sim_range *r = gs_memory_at(ptr, ret_number);
    return r ? r : gs_memory_after(ptr, size, ret_number);
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    GS_SIM_ENTER_READY();
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    struct reservation **at = find(ptr);
    struct reservation *r = *at;
    if (r && r->start == ptr && r->size == size && !first_in(ptr, size, NULL)) {
        *at = r->next;
        (void)munmap((void *)(uintptr_t)ptr, size);
        free(r);
        rc = CUDA_SUCCESS;
    }
    gs_process_unlock();
    return rc;
}

static CUresult map_locked(CUdeviceptr ptr, size_t size, CUmemGenericAllocationHandle handle)
{
    struct gs_sim_handle *h = gs_vmm_get(handle);
    const struct reservation *res = *find(ptr);
    if (!h || !res || size > res->size - (ptr - res->start) || size > h->size ||
        first_in(ptr, size, NULL))
        return CUDA_ERROR_INVALID_VALUE;
    int fd = h->fd;
    off_t at = 0;
    if (fd < 0) {
        fd = gs_card_fd(h->card);
        at = (off_t)(gs_sim_state->object[h->id.index].first_unit * gs_card_granularity(h->card));
    }
    struct gs_sim_range range = {.start = ptr,
                                 .size = size,
                                 .length = size,
                                 .kind = GS_SIM_RANGE_MAPPED,
                                 .card = h->card,
                                 .device = h->fd < 0 ? h->prop.location.id : 0,
                                 .id = h->id,
                                 .buffer_id = gs_memory_serial(),
                                 .owner = h};
    if (fd < 0 ||
        mmap((void *)(uintptr_t)ptr, size, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, at) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!gs_memory_add(&range, 0, 0))
        return CUDA_ERROR_OUT_OF_MEMORY;
    h->mappings++;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    GS_SIM_ENTER_READY();
    /* An offset other than zero is not served by real drivers either (Driver API, cuMemMap). */
    if (!ptr || !size || offset || flags || ptr % PAGE || size % PAGE)
        return CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    CUresult rc = map_locked(ptr, size, handle);
    gs_process_unlock();
    return rc;
}

/* Whether [ptr, ptr + size) consists of whole mappings, or (whole = 0) lies in mappings. */
static int is_mapped(CUdeviceptr ptr, size_t size, int whole)
{
    CUdeviceptr at = ptr;
    while (at < ptr + size) {
        const struct gs_sim_range *r = gs_memory_at(at, NULL);
        if (!r || r->kind != GS_SIM_RANGE_MAPPED || (whole && r->start != at))
            return 0;
        at = r->start + r->length;
    }
    return !whole || at == ptr + size;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    GS_SIM_ENTER_READY();
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    if (size && is_mapped(ptr, size, 1)) {
        uint32_t number = 0;
        (void)mmap((void *)(uintptr_t)ptr, size, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        for (CUdeviceptr at = ptr; at < ptr + size;) {
            struct gs_sim_range *r = gs_memory_at(at, &number);
            struct gs_sim_handle *h = r->owner;
            at += r->length;
            gs_memory_remove(number);
            gs_vmm_unref(h, 1);
        }
        rc = CUDA_SUCCESS;
    }
    gs_process_unlock();
    return rc;
}

/* All cards are one process' memory here: the widest access of any location holds. */
static uint32_t widest(const CUmemAccessDesc *desc, size_t count)
{
    uint32_t flags = 0;
    for (size_t i = 0; i < count; i++)
        flags |= (uint32_t)desc[i].flags;
    return flags;
}

static int protection(uint32_t flags)
{
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        return PROT_READ | PROT_WRITE;
    return flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? PROT_READ : PROT_NONE;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    GS_SIM_ENTER_READY();
    CUresult rc = CUDA_ERROR_INVALID_VALUE;
    if (!size || !desc || !count)
        return rc;
    for (size_t i = 0; i < count; i++)
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            gs_context_check_device(desc[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
    uint32_t flags = widest(desc, count);
    gs_process_lock();
    if (is_mapped(ptr, size, 0) && !mprotect((void *)(uintptr_t)ptr, size, protection(flags))) {
        for (CUdeviceptr at = ptr; at < ptr + size;) {
            struct gs_sim_range *r = gs_memory_at(at, NULL);
            r->flags = flags;
            at = r->start + r->length;
        }
        rc = CUDA_SUCCESS;
    }
    gs_process_unlock();
    return rc;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    GS_SIM_ENTER_READY();
    struct gs_sim_range r;
    if (!flags || !location || gs_memory_find(ptr, &r) || r.kind != GS_SIM_RANGE_MAPPED)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = r.flags;
    return CUDA_SUCCESS;
}
