#include "vendors/nvidia/sim/pool.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "vendors/nvidia/sim/import.h"
#include "vendors/nvidia/sim/process.h"

#define POOL_MAGIC   UINT64_C(0x6c6f6f7070706f6f)
#define CHUNK_BYTES  (UINT64_C(32) << 20)
#define HOST_GRANULE (UINT64_C(2) << 20)
#define PIECES_MAX   65536

static struct gs_sim_pool *pools;
static struct gs_sim_pool *defaults[GS_SIM_CARDS_MAX];
static struct gs_sim_pool *currents[GS_SIM_CARDS_MAX];
static struct gs_sim_pool *host_pool;
static uint32_t n_empty_chunks; /* of all pools: nothing to do at most synchronisation points */

struct gs_sim_pool *gs_pool_get(CUmemoryPool handle)
{
    struct gs_sim_pool *p = pools;
    while (p && (CUmemoryPool)p != handle)
        p = p->next;
    return p && !p->is_dying ? p : NULL;
}

struct gs_sim_pool *gs_pool_new(const CUmemPoolProps *props)
{
    struct gs_sim_pool *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    int device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    p->magic = POOL_MAGIC;
    p->props = *props;
    p->device = device ? props->location.id : 0;
    p->card = device ? gs_process_device_card(p->device) : GS_SIM_NONE;
    p->max_bytes = props->maxSize;
    p->serial = gs_memory_serial();
    for (int i = 0; i < 3; i++)
        p->reuse[i] = 1;
    p->next = pools;
    pools = p;
    return p;
}

static struct gs_sim_pool *make_default(CUmemLocationType type, int id)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = type, .id = id}};
    struct gs_sim_pool *p = gs_pool_new(&props);
    if (p)
        p->is_default = 1;
    return p;
}

struct gs_sim_pool *gs_pool_default(CUdevice device)
{
    if (!defaults[device])
        defaults[device] = make_default(CU_MEM_LOCATION_TYPE_DEVICE, device);
    return defaults[device];
}

struct gs_sim_pool *gs_pool_host(void)
{
    if (!host_pool)
        host_pool = make_default(CU_MEM_LOCATION_TYPE_HOST, 0);
    return host_pool;
}

struct gs_sim_pool *gs_pool_current(CUdevice device)
{
    return currents[device] ? currents[device] : gs_pool_default(device);
}

void gs_pool_set_current(CUdevice device, struct gs_sim_pool *p)
{
    currents[device] = p;
}

static uint64_t pool_granularity(const struct gs_sim_pool *p)
{
    return p->card == GS_SIM_NONE ? HOST_GRANULE : gs_card_granularity(p->card);
}

/* Memory of a chunk: from the card, or of the host. */
static CUresult chunk_memory(const struct gs_sim_pool *p, struct gs_sim_block *b)
{
    if (p->card == GS_SIM_NONE) {
        void *m = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        b->base = m == MAP_FAILED ? 0 : (uint64_t)(uintptr_t)m;
        b->id = (struct gs_sim_id){GS_SIM_NONE, 0};
        return b->base ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct gs_sim_take take = {p->card, GS_SIM_CHUNK, 0, 1, b->bytes, b->bytes};
    CUresult rc = gs_card_take(&take, &b->id);
    if (rc)
        return rc;
    b->base = gs_memory_address(p->card, gs_sim_state->object[b->id.index].first_unit);
    if (!b->base)
        gs_card_drop(b->id);
    return b->base ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static void chunk_give(const struct gs_sim_pool *p, struct gs_sim_block *b)
{
    if (p->card == GS_SIM_NONE)
        (void)munmap((void *)(uintptr_t)b->base, b->bytes);
    else
        gs_card_drop(b->id);
}

static CUresult chunk_enter(struct gs_sim_pool *p, struct gs_sim_block *b)
{
    uint64_t unit = 0, units = 0;
    if (p->card != GS_SIM_NONE) {
        unit = gs_sim_state->object[b->id.index].first_unit;
        units = gs_sim_state->object[b->id.index].units;
    }
    struct gs_sim_range range = {.start = b->base,
                                 .size = b->bytes,
                                 .length = b->bytes,
                                 .kind = GS_SIM_RANGE_BLOCK,
                                 .card = p->card,
                                 .device = p->device,
                                 .id = b->id,
                                 .owner = b};
    b->range = gs_memory_add(&range, unit, units);
    return b->range ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult grow(struct gs_sim_pool *p, uint64_t bytes, struct gs_sim_block **ret)
{
    uint64_t piece = 512, g = pool_granularity(p);
    if (p->max_bytes && (p->reserved > p->max_bytes || bytes > p->max_bytes - p->reserved))
        return CUDA_ERROR_OUT_OF_MEMORY;
    while (piece < g && bytes / piece > PIECES_MAX)
        piece *= 2;
    struct gs_sim_block *b = gs_block_new(bytes, piece);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = chunk_memory(p, b);
    if (!rc) {
        rc = chunk_enter(p, b);
        if (rc)
            chunk_give(p, b);
    }
    if (rc) {
        gs_block_free(b);
        return rc;
    }
    b->card = p->card;
    b->device = p->device;
    b->ctx = NULL;
    b->pool = p;
    b->piece_kind = GS_SIM_RANGE_POOL;
    b->next = NULL;
    struct gs_sim_block **at = &p->chunks;
    while (*at)
        at = &(*at)->next;
    *at = b;
    p->n_empty++;
    (void)__atomic_add_fetch(&n_empty_chunks, 1, __ATOMIC_RELAXED);
    p->reserved += bytes;
    if (p->reserved > p->reserved_high)
        p->reserved_high = p->reserved;
    *ret = b;
    return CUDA_SUCCESS;
}

/* A new chunk; if there is no room, what the pools of this process keep idle on the card goes
 * first. */
static CUresult grow_or_trim(struct gs_sim_pool *p, size_t bytes, struct gs_sim_block **ret)
{
    uint64_t g = pool_granularity(p), wanted = 0;
    if (bytes > UINT64_MAX - g)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t exact = gs_sim_align(bytes, g);
    wanted = exact > CHUNK_BYTES ? exact : gs_sim_align(CHUNK_BYTES, g);
    if (p->max_bytes && p->reserved <= p->max_bytes && wanted > p->max_bytes - p->reserved)
        wanted = exact;
    CUresult rc = grow(p, wanted, ret);
    uint64_t freed = 0;
    for (struct gs_sim_pool *q = pools; rc && q; q = q->next)
        if (q->card == p->card)
            freed += gs_pool_trim(q, 0);
    return freed ? grow(p, wanted, ret) : rc;
}

CUresult gs_pool_take(struct gs_sim_pool *p, size_t bytes, CUdeviceptr *ret_ptr)
{
    uint64_t serial = gs_memory_serial();
    uint64_t at = 0;
    struct gs_sim_block *b = p->chunks;
    for (; b; b = b->next) {
        at = gs_block_take(b, bytes, serial);
        if (at)
            break;
    }
    if (!at) {
        CUresult rc = grow_or_trim(p, bytes, &b);
        if (rc)
            return rc;
        at = gs_block_take(b, bytes, serial);
    }
    if (b->live == 1) {
        p->n_empty--;
        (void)__atomic_sub_fetch(&n_empty_chunks, 1, __ATOMIC_RELAXED);
    }
    p->used += gs_sim_align(bytes, 512);
    if (p->used > p->used_high)
        p->used_high = p->used;
    *ret_ptr = at;
    return CUDA_SUCCESS;
}

uint64_t gs_pool_trim(struct gs_sim_pool *p, uint64_t keep)
{
    uint64_t freed = 0;
    struct gs_sim_block **at = &p->chunks;
    while (*at && p->n_empty) {
        struct gs_sim_block *b = *at;
        if (b->live || p->reserved < keep + b->bytes) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        p->n_empty--;
        (void)__atomic_sub_fetch(&n_empty_chunks, 1, __ATOMIC_RELAXED);
        p->reserved -= b->bytes;
        freed += b->bytes;
        gs_memory_remove(b->range);
        chunk_give(p, b);
        gs_block_free(b);
    }
    return freed;
}

static void unlink_pool(struct gs_sim_pool *p)
{
    struct gs_sim_pool **at = &pools;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p);
}

void gs_pool_destroy(struct gs_sim_pool *p)
{
    for (int i = 0; i < GS_SIM_CARDS_MAX; i++)
        if (currents[i] == p)
            currents[i] = NULL;
    (void)gs_pool_trim(p, 0);
    p->is_dying = 1;
    if (!p->chunks)
        unlink_pool(p);
}

/* Give one back to its pool, which keeps the chunk. CUDA_ERROR_INVALID_VALUE for other pointers.
 */
static CUresult give_back(CUdeviceptr ptr)
{
    const struct gs_sim_range *r = gs_memory_at(ptr, NULL);
    struct gs_sim_block *b = r && r->kind == GS_SIM_RANGE_BLOCK ? r->owner : NULL;
    struct gs_sim_pool *p = b ? b->pool : NULL;
    struct gs_sim_piece piece;
    if (!p || gs_block_find(b, ptr, &piece) != ptr || gs_block_give(b, ptr))
        return CUDA_ERROR_INVALID_VALUE;
    p->used -= gs_sim_align(piece.size, 512);
    if (!b->live) {
        p->n_empty++;
        (void)__atomic_add_fetch(&n_empty_chunks, 1, __ATOMIC_RELAXED);
    }
    if (p->is_dying) {
        (void)gs_pool_trim(p, 0);
        if (!p->chunks)
            unlink_pool(p);
    }
    return CUDA_SUCCESS;
}

CUresult gs_pool_free(CUdeviceptr ptr)
{
    gs_process_lock();
    CUresult rc = give_back(ptr);
    gs_process_unlock();
    return rc ? gs_import_close(ptr) : rc;
}

void gs_memory_synchronized(struct gs_sim_ctx *ctx)
{
    if (!__atomic_load_n(&n_empty_chunks, __ATOMIC_RELAXED))
        return;
    gs_process_lock();
    for (struct gs_sim_pool *p = pools; p; p = p->next)
        if (p->n_empty && p->device == ctx->device && p->reserved > p->threshold)
            (void)gs_pool_trim(p, p->threshold);
    gs_process_unlock();
}
