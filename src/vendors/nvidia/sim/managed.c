/* Managed memory: takes addresses and host memory when it is allocated, and memory of the card
 * while it lies there (residency.h). Which memory a kernel touches is not known, so each launch
 * uses all managed memory of its process that does not prefer another place; what the CPU touches
 * is not seen, so data counts as being in the host until the card uses it. Rules: CUDA Driver API,
 * "Memory Management" (cuMemAllocManaged) and "Unified Addressing" (cuMemAdvise,
 * cuMemPrefetchAsync, cuMemRangeGetAttribute). */

#include "vendors/nvidia/sim/managed.h"

#include <stdlib.h>
#include <string.h>

#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/residency.h"
#include "vendors/nvidia/sim/stream.h"

#define ATTACH_GLOBAL 1U
#define ATTACH_HOST   2U

/* As the old forms of the functions spell it. */
#define DEVICE_CPU  (-1)
#define DEVICE_NONE (-2)

#define PAGE 4096u

/* Advice for [start, end), kept in order without gaps. */
struct piece {
    CUdeviceptr start, end;
    CUmemLocation preferred; /* type 0: none */
    CUmemLocation prefetched;
    uint64_t accessed_by; /* bit per device */
    uint32_t accessed_by_cpu;
    uint32_t read_mostly;
};

/* What gs_sim_range.owner of managed memory points to. Guard: gs_sim_self.lock. */
struct managed {
    struct managed *next, *prev;
    struct gs_sim_id id;
    uint32_t card;
    CUdevice device;
    size_t n;
    struct piece *piece;
};
static struct managed *all;

static CUresult remember(CUdeviceptr ptr, size_t bytes)
{
    struct managed *m = calloc(1, sizeof(*m));
    struct piece *p = malloc(sizeof(*p));
    gs_process_lock();
    struct gs_sim_range *r = gs_memory_at(ptr, NULL);
    if (!m || !p || !r) {
        gs_process_unlock();
        free(m);
        free(p);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *p = (struct piece){.start = ptr, .end = ptr + gs_sim_align(bytes, PAGE)};
    *m = (struct managed){
        .next = all, .id = r->id, .card = r->card, .device = r->device, .n = 1, .piece = p};
    if (all)
        all->prev = m;
    r->owner = m;
    __atomic_store_n(&all, m, __ATOMIC_RELAXED);
    gs_process_unlock();
    return CUDA_SUCCESS;
}

void gs_managed_forget(const struct gs_sim_range *range)
{
    struct managed *m = range->kind == GS_SIM_RANGE_MANAGED ? range->owner : NULL;
    if (!m)
        return;
    if (m->next)
        m->next->prev = m->prev;
    if (m->prev)
        m->prev->next = m->next;
    else
        __atomic_store_n(&all, m->next, __ATOMIC_RELAXED);
    free(m->piece);
    free(m);
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    GS_SIM_ENTER_CTX(ctx);
    if (!dptr || !bytesize || (flags != ATTACH_GLOBAL && flags != ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr ptr = 0;
    CUresult rc = gs_linear_alloc(ctx, bytesize, GS_SIM_RANGE_MANAGED, &ptr);
    if (rc)
        return rc;
    rc = remember(ptr, bytesize);
    if (rc) {
        (void)gs_memory_free(ptr);
        return rc;
    }
    *dptr = ptr;
    return CUDA_SUCCESS;
}

/* ---- advice ---- */

/* The managed memory that [ptr, ptr + count) lies in. Process lock held. */
static struct managed *find(CUdeviceptr ptr, size_t count)
{
    const struct gs_sim_range *r = ptr && count ? gs_memory_at(ptr, NULL) : NULL;
    if (!r || r->kind != GS_SIM_RANGE_MANAGED || count > r->size ||
        ptr - r->start > r->size - count)
        return NULL;
    return r->owner;
}

/* Make `at` a border between two pieces. Returns 0 when there is no memory for it. */
static int split(struct managed *m, CUdeviceptr at)
{
    size_t i = 0;
    while (i < m->n && m->piece[i].end <= at)
        i++;
    if (i == m->n || m->piece[i].start >= at)
        return 1;
    struct piece *more = realloc(m->piece, (m->n + 1) * sizeof(*more));
    if (!more)
        return 0;
    m->piece = more;
    memmove(&more[i + 1], &more[i], (m->n - i) * sizeof(*more));
    more[i].end = at;
    more[i + 1].start = at;
    m->n++;
    return 1;
}

static void advise_piece(struct piece *p, CUmem_advise advice, CUmemLocation where)
{
    uint64_t bit = where.type == CU_MEM_LOCATION_TYPE_DEVICE ? UINT64_C(1) << where.id : 0;
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        p->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        p->preferred = where;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        p->preferred = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_INVALID};
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        p->accessed_by |= bit;
        p->accessed_by_cpu |= !bit;
        break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
    default:
        p->accessed_by &= ~bit;
        p->accessed_by_cpu &= bit != 0;
        break;
    }
}

static CUresult check_place(CUmemLocation where)
{
    switch (where.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return gs_context_check_device(where.id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
        return where.id < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult check_advice(CUmem_advise advice, CUmemLocation where)
{
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        return CUDA_ERROR_INVALID_VALUE;
    if (advice == CU_MEM_ADVISE_SET_ACCESSED_BY || advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY) {
        if (where.type != CU_MEM_LOCATION_TYPE_DEVICE && where.type != CU_MEM_LOCATION_TYPE_HOST)
            return CUDA_ERROR_INVALID_VALUE;
        return check_place(where);
    }
    /* The other advices do not look at the place. */
    return advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? check_place(where) : CUDA_SUCCESS;
}

static CUresult advise(CUdeviceptr ptr, size_t count, CUmem_advise advice, CUmemLocation where)
{
    GS_SIM_ENTER_CTX(ctx);
    CUresult rc = check_advice(advice, where);
    if (rc)
        return rc;
    gs_process_lock();
    struct managed *m = find(ptr, count);
    CUdeviceptr start = ptr & ~(CUdeviceptr)(PAGE - 1), end = gs_sim_align(ptr + count, PAGE);
    rc = !m                                   ? CUDA_ERROR_INVALID_VALUE
         : !split(m, start) || !split(m, end) ? CUDA_ERROR_OUT_OF_MEMORY
                                              : CUDA_SUCCESS;
    for (size_t i = 0; !rc && i < m->n; i++)
        if (m->piece[i].start >= start && m->piece[i].end <= end)
            advise_piece(&m->piece[i], advice, where);
    gs_process_unlock();
    return rc;
}

/* A place as the old forms name it. */
static CUmemLocation place_of(CUdevice device)
{
    return (CUmemLocation){.type = device == DEVICE_CPU ? CU_MEM_LOCATION_TYPE_HOST
                                                        : CU_MEM_LOCATION_TYPE_DEVICE,
                           .id = device == DEVICE_CPU ? 0 : device};
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    return advise(devPtr, count, advice, place_of(device));
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location)
{
    return advise(devPtr, count, advice, location);
}

/* ---- moving ---- */

/* Bytes that a kernel on the card would bring there: those that prefer it, and those without a
 * preference unless the card has them mapped where they are. */
static uint64_t wanted(const struct managed *m)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->n; i++) {
        const struct piece *p = &m->piece[i];
        int here =
            p->preferred.type == CU_MEM_LOCATION_TYPE_INVALID
                ? !(p->accessed_by >> m->device & 1)
                : p->preferred.type == CU_MEM_LOCATION_TYPE_DEVICE && p->preferred.id == m->device;
        if (here)
            bytes += p->end - p->start;
    }
    return bytes;
}

uint64_t gs_managed_launch(uint32_t card)
{
    uint64_t moved = 0;
    if (GS_LIKELY(!__atomic_load_n(&all, __ATOMIC_RELAXED)))
        return 0;
    gs_process_lock();
    gs_state_lock();
    /* A kernel uses all of it at about the same time: none of it is older than the rest. */
    for (const struct managed *m = all; m; m = m->next)
        if (m->card == card)
            gs_residency_use(m->id.index);
    for (const struct managed *m = all; m; m = m->next)
        if (m->card == card)
            moved += gs_residency_load(m->id.index, wanted(m), 1);
    gs_state_unlock();
    gs_process_unlock();
    return moved * 1000 / GS_RESIDENCY_BYTES_PER_US;
}

void gs_managed_write(CUdeviceptr ptr, size_t n)
{
    if (GS_LIKELY(!__atomic_load_n(&all, __ATOMIC_RELAXED)))
        return;
    gs_process_lock();
    const struct managed *m = find(ptr, 1);
    if (m && wanted(m)) {
        gs_state_lock();
        (void)gs_residency_load(m->id.index, gs_sim_state->object[m->id.index].bytes + n, 0);
        gs_state_unlock();
    }
    gs_process_unlock();
}

/* Returns how many bytes cross the bus. Process lock held. */
static uint64_t bring(const struct managed *m, size_t count, CUmemLocation where)
{
    uint32_t i = m->id.index;
    gs_state_lock();
    uint64_t n = where.type == CU_MEM_LOCATION_TYPE_DEVICE && where.id == m->device
                     ? gs_residency_load(i, gs_sim_state->object[i].bytes + count, 1)
                     : gs_residency_unload(i, count);
    gs_state_unlock();
    return n;
}

static CUresult prefetch(CUdeviceptr ptr, size_t count, CUmemLocation where, CUstream stream)
{
    GS_SIM_ENTER_CTX(ctx);
    CUresult rc = check_place(where);
    if (!rc)
        rc = gs_stream_submit(stream, GS_STREAM_NOTHING, 0);
    if (rc)
        return rc;
    uint64_t bytes = 0;
    gs_process_lock();
    struct managed *m = find(ptr, count);
    CUdeviceptr start = ptr & ~(CUdeviceptr)(PAGE - 1), end = gs_sim_align(ptr + count, PAGE);
    rc = !m                                   ? CUDA_ERROR_INVALID_VALUE
         : !split(m, start) || !split(m, end) ? CUDA_ERROR_OUT_OF_MEMORY
                                              : CUDA_SUCCESS;
    for (size_t i = 0; !rc && i < m->n; i++)
        if (m->piece[i].start >= start && m->piece[i].end <= end)
            m->piece[i].prefetched = where;
    if (!rc)
        bytes = bring(m, count, where);
    gs_process_unlock();
    return rc || !bytes ? rc : gs_stream_submit(stream, GS_STREAM_COPY, bytes);
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    return prefetch(devPtr, count, place_of(dstDevice), hStream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream)
{
    GS_SIM_ENTER_READY();
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    return prefetch(devPtr, count, location, hStream);
}

/* ---- questions ---- */

/* Place of a piece, as one of the two kinds an attribute asks for. */
static CUmemLocation place(const struct piece *p, CUmem_range_attribute a)
{
    return a == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION ||
                   a == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE ||
                   a == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID
               ? p->preferred
               : p->prefetched;
}

static int is_same_place(CUmemLocation a, CUmemLocation b)
{
    int has_id = a.type == CU_MEM_LOCATION_TYPE_DEVICE || a.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    return a.type == b.type && (!has_id || a.id == b.id);
}

static int32_t place_value(CUmemLocation where, CUmem_range_attribute a)
{
    int is_device = where.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (a == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE ||
        a == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE)
        return (int32_t)where.type;
    if (a == CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID ||
        a == CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
        return is_device || where.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? where.id : DEVICE_NONE;
    return is_device                                    ? where.id
           : where.type == CU_MEM_LOCATION_TYPE_INVALID ? DEVICE_NONE
                                                        : DEVICE_CPU;
}

/* What holds for all pieces from `first` to `last`. */
static struct piece common(const struct piece *first, const struct piece *last,
                           CUmem_range_attribute a)
{
    struct piece sum = *first;
    CUmemLocation where = place(first, a);
    for (const struct piece *p = first + 1; p <= last; p++) {
        sum.accessed_by &= p->accessed_by;
        sum.accessed_by_cpu &= p->accessed_by_cpu;
        sum.read_mostly &= p->read_mostly;
        if (!is_same_place(where, place(p, a)))
            where = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_INVALID};
    }
    sum.preferred = where;
    return sum;
}

static void list_accessors(const struct piece *sum, int32_t *ret, size_t n)
{
    size_t used = 0;
    if (sum->accessed_by_cpu)
        ret[used++] = DEVICE_CPU;
    for (int32_t d = 0; d < 64 && used < n; d++)
        if (sum->accessed_by >> d & 1)
            ret[used++] = d;
    while (used < n)
        ret[used++] = DEVICE_NONE;
}

static CUresult answer(void *data, size_t size, CUmem_range_attribute a, const struct piece *sum)
{
    int32_t value[65];
    size_t n = size / sizeof(value[0]);
    if (a == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY) {
        if (!n || size % sizeof(value[0]))
            return CUDA_ERROR_INVALID_VALUE;
        list_accessors(sum, value, GS_ARRAY_LEN(value));
        for (size_t i = 0; i < n; i++) {
            int32_t one = i < GS_ARRAY_LEN(value) ? value[i] : DEVICE_NONE;
            memcpy((char *)data + i * sizeof(one), &one, sizeof(one));
        }
        return CUDA_SUCCESS;
    }
    if (size != sizeof(value[0]))
        return CUDA_ERROR_INVALID_VALUE;
    value[0] = a == CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ? (int32_t)sum->read_mostly
                                                       : place_value(sum->preferred, a);
    memcpy(data, value, size);
    return CUDA_SUCCESS;
}

static CUresult range_attribute(void *data, size_t size, CUmem_range_attribute attribute,
                                CUdeviceptr ptr, size_t count)
{
    if (!data || attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
        attribute > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
        return CUDA_ERROR_INVALID_VALUE;
    gs_process_lock();
    const struct managed *m = find(ptr, count);
    if (!m) {
        gs_process_unlock();
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t first = 0, last;
    while (m->piece[first].end <= ptr)
        first++;
    for (last = first; m->piece[last].end < ptr + count;)
        last++;
    struct piece sum = common(&m->piece[first], &m->piece[last], attribute);
    gs_process_unlock();
    return answer(data, size, attribute, &sum);
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, size_t count)
{
    GS_SIM_ENTER_READY();
    return range_attribute(data, dataSize, attribute, devPtr, count);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
    GS_SIM_ENTER_READY();
    CUresult rc =
        data && dataSizes && attributes && numAttributes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !rc && i < numAttributes; i++)
        rc = range_attribute(data[i], dataSizes[i], attributes[i], devPtr, count);
    return rc;
}
