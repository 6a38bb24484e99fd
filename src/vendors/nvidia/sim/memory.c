#include "vendors/nvidia/sim/memory.h"

#include <string.h>
#include <sys/mman.h>

#include "vendors/nvidia/sim/block.h"
#include "vendors/nvidia/sim/import.h"
#include "vendors/nvidia/sim/low.h"
#include "vendors/nvidia/sim/managed.h"
#include "vendors/nvidia/sim/process.h"

#define RANGES_MAX (1U << 20)

/* Entries never move. Number 0 is never used; a free entry's `owner` is the next free number. */
static struct gs_sim_range *ranges;
static uint32_t ranges_top = 1;
static uint32_t ranges_free;

/* Granule of a card -> number of the range there. */
static uint32_t *units_of[GS_SIM_CARDS_MAX];

/* Numbers of ranges without a place in a card, by address. */
static uint32_t *by_address;
static uint32_t n_by_address;

static uint64_t serial;

static void *reserve(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static int prepare(uint32_t card)
{
    if (!ranges)
        ranges = reserve(RANGES_MAX * sizeof(*ranges));
    if (!by_address)
        by_address = reserve(RANGES_MAX * sizeof(*by_address));
    if (card != GS_SIM_NONE && !units_of[card])
        units_of[card] = reserve(gs_sim_state->card[card].span_units * sizeof(*units_of[card]));
    return ranges && by_address && (card == GS_SIM_NONE || units_of[card]);
}

/* First position whose range starts after `ptr`. */
static uint32_t position_after(CUdeviceptr ptr)
{
    uint32_t low = 0, high = n_by_address;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (ranges[by_address[mid]].start <= ptr)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

uint64_t gs_memory_serial(void)
{
    return ++serial;
}

CUdeviceptr gs_memory_address(uint32_t card, uint64_t unit)
{
    char *base = gs_card_base(card);
    return base ? (CUdeviceptr)(uintptr_t)(base + (unit << gs_sim_state->card[card].shift)) : 0;
}

uint32_t gs_memory_add(const struct gs_sim_range *range, uint64_t unit, uint64_t units)
{
    uint32_t number = ranges_free;
    if (!prepare(units ? range->card : GS_SIM_NONE))
        return 0;
    if (number)
        ranges_free = (uint32_t)(uintptr_t)ranges[number].owner;
    else if (ranges_top < RANGES_MAX)
        number = ranges_top++;
    else
        return 0;
    ranges[number] = *range;
    ranges[number].unit = unit;
    ranges[number].units = units;
    for (uint64_t u = unit; u < unit + units; u++)
        units_of[range->card][u] = number;
    if (!units) {
        uint32_t at = position_after(range->start);
        memmove(&by_address[at + 1], &by_address[at], (n_by_address - at) * sizeof(*by_address));
        by_address[at] = number;
        n_by_address++;
    }
    return number;
}

void gs_memory_remove(uint32_t number)
{
    struct gs_sim_range *r = &ranges[number];
    for (uint64_t u = r->unit; u < r->unit + r->units; u++)
        units_of[r->card][u] = 0;
    if (!r->units) {
        uint32_t at = position_after(r->start);
        while (at && by_address[at - 1] != number)
            at--;
        if (at) {
            memmove(&by_address[at - 1], &by_address[at],
                    (n_by_address - at) * sizeof(*by_address));
            n_by_address--;
        }
    }
    *r = (struct gs_sim_range){.owner = (void *)(uintptr_t)ranges_free};
    ranges_free = number;
}

static uint32_t number_in_card(CUdeviceptr ptr)
{
    for (uint32_t c = 0; c < gs_sim_state->n_cards; c++) {
        if (!units_of[c])
            continue;
        const struct gs_sim_card_state *card = &gs_sim_state->card[c];
        uint64_t unit = (ptr - (CUdeviceptr)(uintptr_t)gs_card_base(c)) >> card->shift;
        if (unit < card->span_units)
            return units_of[c][unit];
    }
    return 0;
}

struct gs_sim_range *gs_memory_at(CUdeviceptr ptr, uint32_t *ret_number)
{
    uint32_t number = number_in_card(ptr);
    if (!number) {
        uint32_t at = position_after(ptr);
        number = at ? by_address[at - 1] : 0;
    }
    if (!number || ptr - ranges[number].start >= ranges[number].length)
        return NULL;
    if (ret_number)
        *ret_number = number;
    return &ranges[number];
}

struct gs_sim_range *gs_memory_after(CUdeviceptr ptr, size_t size, uint32_t *ret_number)
{
    uint32_t at = ptr ? position_after(ptr - 1) : 0;
    if (at == n_by_address || ranges[by_address[at]].start - ptr >= size)
        return NULL;
    if (ret_number)
        *ret_number = by_address[at];
    return &ranges[by_address[at]];
}

struct gs_sim_range *gs_memory_entry(uint32_t number)
{
    return &ranges[number];
}

uint32_t gs_memory_next(uint32_t from, struct gs_sim_range **ret_range)
{
    for (uint32_t i = from + 1; i < ranges_top; i++)
        if (ranges[i].kind != GS_SIM_RANGE_NONE) {
            *ret_range = &ranges[i];
            return i;
        }
    return 0;
}

/* The piece of a block, told like an allocation of its own. */
static CUresult resolve(CUdeviceptr ptr, const struct gs_sim_range *r, struct gs_sim_range *ret)
{
    if (r->kind != GS_SIM_RANGE_BLOCK) {
        *ret = *r;
        return CUDA_SUCCESS;
    }
    const struct gs_sim_block *b = r->owner;
    struct gs_sim_piece piece;
    uint64_t start = gs_block_find(b, ptr, &piece);
    if (!start)
        return CUDA_ERROR_INVALID_VALUE;
    *ret = *r;
    ret->kind = b->piece_kind;
    ret->start = start;
    ret->size = piece.size;
    ret->length = gs_block_pieces(b, piece.size) * b->piece_bytes;
    ret->buffer_id = piece.serial;
    ret->owner = b->pool;
    return CUDA_SUCCESS;
}

CUresult gs_memory_find(CUdeviceptr ptr, struct gs_sim_range *ret)
{
    gs_process_lock();
    const struct gs_sim_range *r = gs_memory_at(ptr, NULL);
    CUresult rc = r ? resolve(ptr, r, ret) : CUDA_ERROR_INVALID_VALUE;
    gs_process_unlock();
    return rc;
}

int gs_memory_is_valid(CUdeviceptr ptr, size_t n)
{
    struct gs_sim_range r;
    CUdeviceptr end;
    if (__builtin_add_overflow(ptr, n, &end))
        return 0;
    while (ptr < end) {
        if (gs_memory_find(ptr, &r))
            return 0;
        if (r.kind == GS_SIM_RANGE_MAPPED && !r.flags)
            return 0; /* no access was given */
        CUdeviceptr stop = r.start + (r.kind == GS_SIM_RANGE_MAPPED ? r.length : r.size);
        if (stop >= end)
            return 1;
        if (r.kind != GS_SIM_RANGE_MAPPED || stop <= ptr)
            return 0; /* past the end, or in the rounding of an allocation */
        ptr = stop;
    }
    return 1;
}

void gs_memory_forget_context(struct gs_sim_ctx *ctx)
{
    struct gs_sim_range *r = NULL;
    gs_process_lock();
    gs_linear_forget(ctx);
    gs_import_forget(ctx);
    for (uint32_t i = gs_memory_next(0, &r); i; i = gs_memory_next(i, &r)) {
        if (r->ctx != ctx)
            continue;
        if (r->kind == GS_SIM_RANGE_DEVICE || r->kind == GS_SIM_RANGE_MANAGED) {
            struct gs_sim_id id = r->id;
            gs_managed_forget(r);
            gs_low_unmap(r);
            gs_memory_remove(i);
            gs_card_drop(id);
        }
    }
    gs_process_unlock();
}
