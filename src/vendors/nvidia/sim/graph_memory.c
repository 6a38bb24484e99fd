#include "vendors/nvidia/sim/graph_memory.h"

#include <pthread.h>
#include <stdlib.h>

#include "vendors/nvidia/sim/process.h"

struct gs_graph_block {
    struct gs_graph_block *next;
    CUmemGenericAllocationHandle handle;
    size_t bytes;
    CUdevice device;
    struct gs_graph_alloc *user; /* range it is mapped at */
    uint32_t used;
};

struct account {
    uint64_t used, used_high, reserved, reserved_high;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gs_graph_alloc *allocs;
static struct gs_graph_block *blocks;
static struct account accounts[GS_SIM_CARDS_MAX];

static CUmemAllocationProp device_memory(CUdevice device)
{
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = device;
    return p;
}

CUresult gs_graph_memory_reserve(struct gs_sim_ctx *ctx, size_t bytes, struct gs_graph_alloc **ret)
{
    uint64_t g = gs_card_granularity(gs_process_device_card(ctx->device));
    if (!bytes || bytes > SIZE_MAX - g)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_graph_alloc *a = calloc(1, sizeof(*a));
    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    a->bytes = (bytes + g - 1) / g * g;
    a->device = ctx->device;
    a->ctx = ctx;
    a->refs = 1;
    CUresult r = cuMemAddressReserve(&a->ptr, a->bytes, 0, 0, 0);
    if (r) {
        free(a);
        return r;
    }
    pthread_mutex_lock(&lock);
    a->next = allocs;
    allocs = a;
    pthread_mutex_unlock(&lock);
    *ret = a;
    return CUDA_SUCCESS;
}

struct gs_graph_alloc *gs_graph_memory_ref(struct gs_graph_alloc *a)
{
    pthread_mutex_lock(&lock);
    a->refs++;
    pthread_mutex_unlock(&lock);
    return a;
}

/* Lock held. */
static void unmap(struct gs_graph_block *b)
{
    if (!b->user)
        return;
    (void)cuMemUnmap(b->user->ptr, b->user->bytes);
    b->user->block = NULL;
    b->user = NULL;
}

/* Lock held. */
static void give(struct gs_graph_alloc *a)
{
    if (!a->live)
        return;
    a->live = 0;
    if (a->block && a->block->used) {
        a->block->used = 0;
        accounts[a->device].used -= a->block->bytes;
    }
}

void gs_graph_memory_unref(struct gs_graph_alloc *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&lock);
    /* Memory that is still allocated outlives its graph, until it is freed. */
    if (--a->refs || a->live) {
        pthread_mutex_unlock(&lock);
        return;
    }
    if (a->block)
        unmap(a->block);
    struct gs_graph_alloc **p = &allocs;
    while (*p && *p != a)
        p = &(*p)->next;
    if (*p)
        *p = a->next;
    pthread_mutex_unlock(&lock);
    (void)cuMemAddressFree(a->ptr, a->bytes);
    free(a);
}

static struct gs_graph_alloc *at(CUdeviceptr ptr)
{
    struct gs_graph_alloc *a = allocs;
    while (a && a->ptr != ptr)
        a = a->next;
    return a;
}

struct gs_graph_alloc *gs_graph_memory_at(CUdeviceptr ptr)
{
    pthread_mutex_lock(&lock);
    struct gs_graph_alloc *a = at(ptr);
    pthread_mutex_unlock(&lock);
    return a;
}

/* Give blocks nobody uses back to the card; returns how many. Lock held. */
static unsigned trim(CUdevice device)
{
    unsigned n = 0;
    struct gs_graph_block **p = &blocks;
    while (*p) {
        struct gs_graph_block *b = *p;
        if (b->used || b->device != device) {
            p = &b->next;
            continue;
        }
        unmap(b);
        (void)cuMemRelease(b->handle);
        accounts[device].reserved -= b->bytes;
        *p = b->next;
        free(b);
        n++;
    }
    return n;
}

/* A block nobody uses, the one last mapped here if possible; else a new one. Lock held. */
static CUresult find_block(struct gs_graph_alloc *a, struct gs_graph_block **ret)
{
    struct account *acc = &accounts[a->device];
    if (a->block && !a->block->used) {
        *ret = a->block;
        return CUDA_SUCCESS;
    }
    for (struct gs_graph_block *b = blocks; b; b = b->next)
        if (!b->used && b->device == a->device && b->bytes == a->bytes) {
            *ret = b;
            return CUDA_SUCCESS;
        }
    struct gs_graph_block *b = calloc(1, sizeof(*b));
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUmemAllocationProp prop = device_memory(a->device);
    CUresult r = cuMemCreate(&b->handle, a->bytes, &prop, 0);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && trim(a->device))
        r = cuMemCreate(&b->handle, a->bytes, &prop, 0);
    if (r) {
        free(b);
        return r;
    }
    b->bytes = a->bytes;
    b->device = a->device;
    b->next = blocks;
    blocks = b;
    acc->reserved += b->bytes;
    if (acc->reserved > acc->reserved_high)
        acc->reserved_high = acc->reserved;
    *ret = b;
    return CUDA_SUCCESS;
}

CUresult gs_graph_memory_back(struct gs_graph_alloc *a)
{
    struct gs_graph_block *b = NULL;
    CUresult r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (a->live)
        goto out;
    r = find_block(a, &b);
    if (r)
        goto out;
    if (b->user != a) {
        unmap(b);
        if (a->block)
            unmap(a->block);
        CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.location.id = a->device;
        r = cuMemMap(a->ptr, a->bytes, 0, b->handle, 0);
        if (!r)
            r = cuMemSetAccess(a->ptr, a->bytes, &access, 1);
        if (r)
            goto out;
        b->user = a;
        a->block = b;
    }
    b->used = 1;
    a->live = 1;
    struct account *acc = &accounts[a->device];
    acc->used += b->bytes;
    if (acc->used > acc->used_high)
        acc->used_high = acc->used;
out:
    pthread_mutex_unlock(&lock);
    return r;
}

void gs_graph_memory_give(struct gs_graph_alloc *a)
{
    pthread_mutex_lock(&lock);
    give(a);
    pthread_mutex_unlock(&lock);
}

int gs_graph_memory_free(CUdeviceptr ptr)
{
    pthread_mutex_lock(&lock);
    struct gs_graph_alloc *a = at(ptr);
    int found = a && a->live;
    if (found) {
        give(a);
        a->refs++;
    }
    pthread_mutex_unlock(&lock);
    if (found)
        gs_graph_memory_unref(a);
    return found;
}

void gs_graph_memory_forget_context(struct gs_sim_ctx *ctx)
{
    pthread_mutex_lock(&lock);
    for (struct gs_graph_alloc *a = allocs; a; a = a->next)
        if (a->ctx == ctx)
            give(a);
    (void)trim(ctx->device);
    pthread_mutex_unlock(&lock);
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    GS_SIM_ENTER_READY();
    if (gs_process_device_card(device) == GS_SIM_NONE)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    (void)trim(device);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    GS_SIM_ENTER_READY();
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    if (gs_process_device_card(device) == GS_SIM_NONE)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = CUDA_SUCCESS;
    cuuint64_t *v = value;
    pthread_mutex_lock(&lock);
    const struct account *acc = &accounts[device];
    switch (attr) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        *v = acc->used;
        break;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        *v = acc->used_high;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        *v = acc->reserved;
        break;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        *v = acc->reserved_high;
        break;
    default:
        r = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    return r;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    GS_SIM_ENTER_READY();
    if (gs_process_device_card(device) == GS_SIM_NONE)
        return CUDA_ERROR_INVALID_DEVICE;
    /* Only the two high marks can be set, and only to zero (= to now). */
    if (!value || *(const cuuint64_t *)value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct account *acc = &accounts[device];
    CUresult r = CUDA_SUCCESS;
    if (attr == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
        acc->used_high = acc->used;
    else if (attr == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
        acc->reserved_high = acc->reserved;
    else
        r = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&lock);
    return r;
}
