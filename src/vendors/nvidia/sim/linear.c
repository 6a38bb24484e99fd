/* cuMemAlloc and what shares its way of taking memory. Small requests (at most half a granule) are
 * cut from granules of their context; larger ones take granules of their own. */

#include <limits.h>
#include <stdlib.h>

#include "vendors/nvidia/sim/block.h"
#include "vendors/nvidia/sim/capture_link.h"
#include "vendors/nvidia/sim/context.h"
#include "vendors/nvidia/sim/graph_memory.h"
#include "vendors/nvidia/sim/low.h"
#include "vendors/nvidia/sim/managed.h"
#include "vendors/nvidia/sim/memory.h"
#include "vendors/nvidia/sim/pool.h"
#include "vendors/nvidia/sim/process.h"

#define PIECE       512
#define SMALL_WORDS 17 /* for granules of 32 MiB, the largest there are */

/* Blocks of one context that have a hole, listed by the length of their longest one, so that any
 * hole that is long enough is found before a new block is taken. */
struct gs_sim_small {
    uint32_t n; /* pieces of a block = number of the last list */
    uint32_t n_words;
    uint32_t n_listed;
    struct gs_sim_block **list;  /* n + 1 */
    uint64_t *map;               /* bit per list that is not empty */
    uint64_t words[SMALL_WORDS]; /* bit per word of `map` that is not zero */
};

static struct gs_sim_small *small_new(uint64_t granularity)
{
    struct gs_sim_small *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->n = (uint32_t)(granularity / PIECE);
    s->n_words = s->n / 64 + 1;
    s->list = calloc((size_t)s->n + 1, sizeof(struct gs_sim_block *));
    s->map = calloc(s->n_words, sizeof(*s->map));
    if (s->list && s->map)
        return s;
    free(s->list);
    free(s->map);
    free(s);
    return NULL;
}

static void list_add(struct gs_sim_small *s, struct gs_sim_block *b)
{
    uint32_t k = b->max_hole;
    if (!k)
        return;
    b->prev = NULL;
    b->next = s->list[k];
    if (b->next)
        b->next->prev = b;
    s->list[k] = b;
    s->map[k / 64] |= UINT64_C(1) << (k % 64);
    s->words[k / 4096] |= UINT64_C(1) << (k / 64 % 64);
    s->n_listed++;
}

static void list_remove(struct gs_sim_small *s, struct gs_sim_block *b, uint32_t k)
{
    if (!k)
        return;
    if (b->next)
        b->next->prev = b->prev;
    if (b->prev)
        b->prev->next = b->next;
    else
        s->list[k] = b->next;
    if (!s->list[k])
        s->map[k / 64] &= ~(UINT64_C(1) << (k % 64));
    if (!s->map[k / 64])
        s->words[k / 4096] &= ~(UINT64_C(1) << (k / 64 % 64));
    s->n_listed--;
}

/* First word of the map from `word` on that is not zero; n_words or more if there is none. */
static uint32_t next_word(const struct gs_sim_small *s, uint32_t word)
{
    for (uint32_t i = word / 64; i < SMALL_WORDS; i++) {
        uint64_t bits = s->words[i];
        if (i == word / 64)
            bits = bits >> (word % 64) << (word % 64);
        if (bits)
            return i * 64 + (uint32_t)__builtin_ctzll(bits);
    }
    return UINT32_MAX;
}

static struct gs_sim_block *find_hole(const struct gs_sim_small *s, uint32_t pieces)
{
    if (!s->n_listed)
        return NULL;
    uint32_t word = pieces / 64;
    uint64_t bits = s->map[word] >> (pieces % 64) << (pieces % 64);
    if (!bits) {
        word = next_word(s, word + 1);
        if (word >= s->n_words)
            return NULL;
        bits = s->map[word];
    }
    return s->list[word * 64 + (uint32_t)__builtin_ctzll(bits)];
}

static CUresult block_take(struct gs_sim_ctx *ctx, uint32_t card, struct gs_sim_block **ret)
{
    uint64_t g = gs_card_granularity(card);
    struct gs_sim_take take = {card, GS_SIM_BLOCK, ctx->id, 1, g, g};
    struct gs_sim_id id;
    CUresult rc = gs_card_take(&take, &id);
    if (rc)
        return rc;
    struct gs_sim_block *b = gs_block_new(g, PIECE);
    uint64_t unit = gs_sim_state->object[id.index].first_unit;
    struct gs_sim_range range = {.start = gs_memory_address(card, unit),
                                 .size = g,
                                 .length = g,
                                 .kind = GS_SIM_RANGE_BLOCK,
                                 .card = card,
                                 .device = ctx->device,
                                 .ctx = ctx,
                                 .id = id,
                                 .owner = b};
    uint32_t number = b && range.start ? gs_memory_add(&range, unit, 1) : 0;
    if (!number) {
        gs_block_free(b);
        gs_card_drop(id);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    b->base = range.start;
    b->range = number;
    b->id = id;
    b->card = card;
    b->device = ctx->device;
    b->ctx = ctx;
    b->pool = NULL;
    b->piece_kind = GS_SIM_RANGE_DEVICE;
    *ret = b;
    return CUDA_SUCCESS;
}

static CUresult small_alloc(struct gs_sim_ctx *ctx, uint32_t card, size_t bytes, CUdeviceptr *ret)
{
    if (!ctx->small)
        ctx->small = small_new(gs_card_granularity(card));
    if (!ctx->small)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct gs_sim_small *s = ctx->small;
    struct gs_sim_block *b = find_hole(s, (uint32_t)((bytes + PIECE - 1) / PIECE));
    if (b) {
        list_remove(s, b, b->max_hole);
    } else {
        CUresult rc = block_take(ctx, card, &b);
        if (rc)
            return rc;
    }
    *ret = gs_block_take(b, bytes, gs_memory_serial());
    list_add(s, b);
    return CUDA_SUCCESS;
}

static CUresult small_free(struct gs_sim_block *b, CUdeviceptr ptr)
{
    struct gs_sim_small *s = b->ctx->small;
    uint32_t hole = b->max_hole;
    if (gs_block_give(b, ptr))
        return CUDA_ERROR_INVALID_VALUE;
    if (b->live && b->max_hole == hole)
        return CUDA_SUCCESS;
    list_remove(s, b, hole);
    if (b->live) {
        list_add(s, b);
        return CUDA_SUCCESS;
    }
    struct gs_sim_id id = b->id;
    gs_memory_remove(b->range);
    gs_block_free(b);
    gs_card_drop(id);
    return CUDA_SUCCESS;
}

static CUresult large_alloc(struct gs_sim_ctx *ctx, uint32_t card, size_t bytes, uint32_t kind,
                            CUdeviceptr *ret)
{
    struct gs_sim_take take = {
        card, kind == GS_SIM_RANGE_MANAGED ? GS_SIM_MANAGED : GS_SIM_LINEAR, ctx->id, 1, bytes,
        bytes};
    struct gs_sim_id id;
    CUresult rc = gs_card_take(&take, &id);
    if (rc)
        return rc;
    const struct gs_sim_object *o = &gs_sim_state->object[id.index];
    struct gs_sim_range range = {.start = gs_memory_address(card, o->first_unit),
                                 .size = bytes,
                                 .length = o->units << gs_sim_state->card[card].shift,
                                 .kind = kind,
                                 .card = card,
                                 .device = ctx->device,
                                 .ctx = ctx,
                                 .id = id,
                                 .buffer_id = gs_memory_serial()};
    if (!range.start || !gs_memory_add(&range, o->first_unit, o->units)) {
        gs_card_drop(id);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ret = range.start;
    return CUDA_SUCCESS;
}

CUresult gs_linear_alloc(struct gs_sim_ctx *ctx, size_t bytes, uint32_t kind, CUdeviceptr *ret_ptr)
{
    CUdeviceptr ptr = 0;
    uint32_t card = gs_process_device_card(ctx->device);
    gs_process_lock();
    CUresult rc = kind == GS_SIM_RANGE_DEVICE && bytes <= gs_card_granularity(card) / 2
                      ? small_alloc(ctx, card, bytes, &ptr)
                      : large_alloc(ctx, card, bytes, kind, &ptr);
    gs_process_unlock();
    if (!rc)
        *ret_ptr = ptr;
    return rc;
}

CUresult gs_memory_alloc(struct gs_sim_ctx *ctx, size_t bytes, CUdeviceptr *ret_ptr)
{
    return gs_linear_alloc(ctx, bytes, GS_SIM_RANGE_DEVICE, ret_ptr);
}

static CUresult free_locked(CUdeviceptr ptr)
{
    uint32_t number = 0;
    struct gs_sim_range *r = gs_memory_at(ptr, &number);
    if (!r)
        return CUDA_ERROR_INVALID_VALUE;
    if (r->kind == GS_SIM_RANGE_BLOCK) {
        struct gs_sim_block *b = r->owner;
        return b->pool ? CUDA_ERROR_INVALID_VALUE : small_free(b, ptr);
    }
    if ((r->kind != GS_SIM_RANGE_DEVICE && r->kind != GS_SIM_RANGE_MANAGED) || r->start != ptr)
        return CUDA_ERROR_INVALID_VALUE;
    struct gs_sim_id id = r->id;
    gs_managed_forget(r);
    gs_low_unmap(r);
    gs_memory_remove(number);
    gs_card_drop(id);
    return CUDA_SUCCESS;
}

CUresult gs_memory_free(CUdeviceptr ptr)
{
    gs_process_lock();
    CUresult rc = free_locked(ptr);
    gs_process_unlock();
    return rc;
}

void gs_linear_forget(struct gs_sim_ctx *ctx)
{
    struct gs_sim_range *r = NULL;
    for (uint32_t i = gs_memory_next(0, &r); i; i = gs_memory_next(i, &r)) {
        struct gs_sim_block *b = r->kind == GS_SIM_RANGE_BLOCK ? r->owner : NULL;
        if (!b || b->ctx != ctx || b->pool)
            continue;
        gs_memory_remove(i);
        gs_card_drop(b->id);
        gs_block_free(b);
    }
    if (ctx->small) {
        free(ctx->small->list);
        free(ctx->small->map);
        free(ctx->small);
        ctx->small = NULL;
    }
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    GS_SIM_ENTER_CTX(ctx);
    GS_CAPTURE_UNSAFE;
    if (!dptr || !bytesize)
        return CUDA_ERROR_INVALID_VALUE;
    return gs_linear_alloc(ctx, bytesize, GS_SIM_RANGE_DEVICE, dptr);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes)
{
    GS_SIM_ENTER_CTX(ctx);
    GS_CAPTURE_UNSAFE;
    size_t total = 0;
    if (!dptr || !pPitch || !WidthInBytes || !Height ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16) ||
        WidthInBytes > SIZE_MAX - PIECE)
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = gs_sim_align(WidthInBytes, PIECE);
    if (__builtin_mul_overflow(pitch, Height, &total))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult rc = gs_linear_alloc(ctx, total, GS_SIM_RANGE_DEVICE, dptr);
    if (!rc)
        *pPitch = pitch;
    return rc;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    GS_SIM_ENTER_CTX(ctx);
    GS_CAPTURE_UNSAFE;
    if (!dptr)
        return CUDA_SUCCESS;
    CUresult rc = gs_memory_free(dptr);
    /* Stream-ordered memory may be freed like this too, and a graph's. */
    if (rc == CUDA_ERROR_INVALID_VALUE)
        rc = gs_pool_free(dptr);
    return rc == CUDA_ERROR_INVALID_VALUE && gs_graph_memory_free(dptr) ? CUDA_SUCCESS : rc;
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    GS_SIM_ENTER_CTX(ctx);
    uint64_t free_bytes, total_bytes;
    if (!free || !total)
        return CUDA_ERROR_INVALID_VALUE;
    gs_card_info(gs_process_device_card(ctx->device), &free_bytes, &total_bytes);
    *free = free_bytes;
    *total = total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    size_t free_bytes, total_bytes;
    if (!free || !total)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = cuMemGetInfo_v2(&free_bytes, &total_bytes);
    if (rc)
        return rc;
    *free = free_bytes < UINT_MAX ? (unsigned int)free_bytes : UINT_MAX;
    *total = total_bytes < UINT_MAX ? (unsigned int)total_bytes : UINT_MAX;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    GS_SIM_ENTER_READY();
    uint64_t free_bytes, total_bytes;
    CUresult rc = bytes ? gs_context_check_device(dev) : CUDA_ERROR_INVALID_VALUE;
    if (rc)
        return rc;
    gs_card_info(gs_process_device_card(dev), &free_bytes, &total_bytes);
    *bytes = total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    size_t total_bytes;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = cuDeviceTotalMem_v2(&total_bytes, dev);
    if (rc)
        return rc;
    *bytes = total_bytes < UINT_MAX ? (unsigned int)total_bytes : UINT_MAX;
    return CUDA_SUCCESS;
}
