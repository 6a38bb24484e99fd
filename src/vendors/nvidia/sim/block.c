#include "vendors/nvidia/sim/block.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_MAX 64

static struct gs_sim_block *kept; /* empty ones, all bits zero, for the next user of their size */
static unsigned n_kept;

static struct gs_sim_block *recycle(uint64_t bytes, uint64_t piece_bytes)
{
    for (struct gs_sim_block **at = &kept; *at; at = &(*at)->next) {
        struct gs_sim_block *b = *at;
        if (b->bytes != bytes || b->piece_bytes != piece_bytes)
            continue;
        *at = b->next;
        n_kept--;
        b->next = NULL;
        b->max_hole = b->n;
        b->first_free = 0;
        return b;
    }
    return NULL;
}

struct gs_sim_block *gs_block_new(uint64_t bytes, uint64_t piece_bytes)
{
    struct gs_sim_block *b = recycle(bytes, piece_bytes);
    if (b)
        return b;
    uint64_t n = bytes / piece_bytes;
    uint64_t words = (n + 63) / 64;
    b = calloc(1, sizeof(*b));
    if (!b)
        return NULL;
    b->bytes = bytes;
    b->piece_bytes = piece_bytes;
    b->shift = (uint32_t)__builtin_ctzll(piece_bytes);
    b->n = (uint32_t)n;
    b->max_hole = (uint32_t)n;
    b->used = calloc(words * 2, sizeof(*b->used));
    b->starts = b->used ? b->used + words : NULL;
    b->piece = calloc(n, sizeof(*b->piece));
    if (b->used && b->piece)
        return b;
    free(b->used);
    free(b->piece);
    free(b);
    return NULL;
}

void gs_block_free(struct gs_sim_block *b)
{
    if (!b)
        return;
    if (n_kept < KEPT_MAX && !b->live) {
        b->next = kept;
        b->prev = NULL;
        kept = b;
        n_kept++;
        return;
    }
    free(b->used);
    free(b->piece);
    free(b);
}

static uint32_t next_bit(const uint64_t *bits, uint32_t from, uint32_t n, uint64_t flip)
{
    while (from < n) {
        uint64_t word = (bits[from / 64] ^ flip) >> (from % 64);
        if (word) {
            uint32_t at = from + (uint32_t)__builtin_ctzll(word);
            return at < n ? at : n;
        }
        from = (from / 64 + 1) * 64;
    }
    return n;
}

static uint32_t next_free(const struct gs_sim_block *b, uint32_t from)
{
    return next_bit(b->used, from, b->n, ~UINT64_C(0));
}

static uint32_t next_used(const struct gs_sim_block *b, uint32_t from)
{
    return next_bit(b->used, from, b->n, 0);
}

static void write_word(uint64_t *word, uint64_t mask, int set)
{
    *word = set ? *word | mask : *word & ~mask;
}

static void write_bits(uint64_t *bits, uint32_t first, uint32_t n, int set)
{
    uint32_t word = first / 64, last = (first + n - 1) / 64;
    uint64_t head = ~UINT64_C(0) << (first % 64);
    uint64_t tail = ~UINT64_C(0) >> (63 - (first + n - 1) % 64);
    if (word == last) {
        write_word(&bits[word], head & tail, set);
        return;
    }
    write_word(&bits[word], head, set);
    memset(&bits[word + 1], set ? 0xff : 0, (last - word - 1) * sizeof(*bits));
    write_word(&bits[last], tail, set);
}

static uint32_t longest_hole(const struct gs_sim_block *b)
{
    uint32_t longest = 0;
    for (uint32_t at = next_free(b, b->first_free); at < b->n;) {
        uint32_t end = next_used(b, at);
        if (end - at > longest)
            longest = end - at;
        at = next_free(b, end);
    }
    return longest;
}

uint64_t gs_block_take(struct gs_sim_block *b, uint64_t size, uint64_t serial)
{
    if (size > b->bytes)
        return 0;
    uint32_t n = gs_block_pieces(b, size);
    if (n > b->max_hole)
        return 0;
    uint32_t at = 0, end = b->n;
    if (b->live) {
        at = b->first_free = next_free(b, b->first_free);
        end = next_used(b, at);
    }
    while (end - at < n) {
        at = next_free(b, end);
        end = next_used(b, at);
    }
    if (at <= b->first_free)
        b->first_free = at + n;
    write_bits(b->used, at, n, 1);
    b->starts[at / 64] |= UINT64_C(1) << (at % 64);
    b->piece[at] = (struct gs_sim_piece){size, serial};
    b->live++;
    b->used_bytes += gs_sim_align(size, 512);
    if (b->live == 1)
        b->max_hole = b->n - n;
    else if (end - at == b->max_hole)
        b->max_hole = longest_hole(b);
    return b->base + ((uint64_t)at << b->shift);
}

/* Start of the run of free pieces that ends just before `at`. */
static uint32_t hole_start(const struct gs_sim_block *b, uint32_t at)
{
    while (at) {
        uint32_t bit = (at - 1) % 64;
        uint64_t word = b->used[(at - 1) / 64] << (63 - bit);
        if (word)
            return at - (uint32_t)__builtin_clzll(word);
        at -= bit + 1;
    }
    return 0;
}

int gs_block_give(struct gs_sim_block *b, uint64_t address)
{
    uint64_t offset = address - b->base;
    uint32_t at = (uint32_t)(offset >> b->shift);
    if ((offset & (b->piece_bytes - 1)) || at >= b->n || !b->piece[at].size)
        return -EINVAL;
    uint64_t size = b->piece[at].size;
    uint32_t n = gs_block_pieces(b, size);
    write_bits(b->used, at, n, 0);
    b->starts[at / 64] &= ~(UINT64_C(1) << (at % 64));
    b->piece[at].size = 0;
    b->live--;
    if (at < b->first_free)
        b->first_free = at;
    b->used_bytes -= gs_sim_align(size, 512);
    uint32_t hole = b->live ? next_used(b, at + n) - hole_start(b, at) : b->n;
    if (hole > b->max_hole)
        b->max_hole = hole;
    return 0;
}

uint64_t gs_block_find(const struct gs_sim_block *b, uint64_t address, struct gs_sim_piece *ret)
{
    uint64_t offset = address - b->base;
    uint32_t at = (uint32_t)(offset >> b->shift);
    if (at >= b->n)
        return 0;
    uint32_t word = at / 64;
    uint64_t bits = b->starts[word] << (63 - at % 64) >> (63 - at % 64);
    while (!bits && word)
        bits = b->starts[--word];
    if (!bits)
        return 0;
    uint32_t start = word * 64 + 63 - (uint32_t)__builtin_clzll(bits);
    if (at >= start + gs_block_pieces(b, b->piece[start].size))
        return 0;
    *ret = b->piece[start];
    return b->base + ((uint64_t)start << b->shift);
}
