#include "vendors/nvidia/hook/block.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "contract/ledger.h"

#define PLACES    (GS_LEDGER_DEVICES + 1) /* the last one: cards outside the grant */
#define FIRST_CAP 64u
#define CHUNK     (256u << 10)
#define MAX_UNITS (1u << 18) /* a block larger than 128 MiB is not mapped: no prediction there */
#define ALONE     0x80000000u
#define SPINS     64

/* One block. `used` has a bit per unit and is absent (n_units 0) where blocks are too large. */
struct block {
    uint64_t key; /* address / granularity */
    uint64_t serial;
    struct block *next_free;
    uint32_t family;
    uint32_t pieces;
    uint32_t n_units;
    uint32_t hole; /* no hole is larger than this, units */
    int32_t share;
    uint32_t n_words;
    uint64_t used[];
};

/* All of one card, under `spin`. The table is open addressing with linear probing, at most half
 * full; a removed entry is closed by shifting its followers. */
struct place {
    _Alignas(64) uint32_t users; /* pieces under way, or ALONE */
    _Alignas(64) uint32_t spin;
    uint32_t mistrusted;
    struct block **table;
    uint64_t cap;
    uint64_t count;
    struct block *free_list; /* of blocks with free_words words */
    uint64_t free_words;
};

static struct place places[PLACES];

/* Ours to carve blocks from; shared by all cards. */
static struct {
    uint32_t spin;
    char *at;
    char *end;
} slab;

static void spin_lock(uint32_t *word)
{
    int turn = 0;

    /* pairs with the release in spin_unlock */
    while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE) != 0) {
        while (__atomic_load_n(word, __ATOMIC_RELAXED) != 0) {
            if (++turn % SPINS == 0)
                (void)sched_yield(); /* the holder may have lost its processor */
        }
    }
}

static void spin_unlock(uint32_t *word)
{
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

static struct place *place_of(uint32_t dev)
{
    return &places[dev < GS_LEDGER_DEVICES ? dev : GS_LEDGER_DEVICES];
}

void gs_block_enter(uint32_t dev)
{
    struct place *place = place_of(dev);
    int turn = 0;

    /* pairs with the release in gs_block_leave_alone */
    while (GS_UNLIKELY(__atomic_fetch_add(&place->users, 1, __ATOMIC_ACQUIRE) & ALONE)) {
        __atomic_fetch_sub(&place->users, 1, __ATOMIC_RELAXED);
        while (__atomic_load_n(&place->users, __ATOMIC_RELAXED) & ALONE) {
            if (++turn % SPINS == 0)
                (void)sched_yield();
        }
    }
}

void gs_block_leave(uint32_t dev)
{
    /* pairs with the acquire in gs_block_enter_alone */
    __atomic_fetch_sub(&place_of(dev)->users, 1, __ATOMIC_RELEASE);
}

void gs_block_enter_alone(uint32_t dev)
{
    struct place *place = place_of(dev);
    int turn = 0;

    while (__atomic_fetch_or(&place->users, ALONE, __ATOMIC_ACQUIRE) & ALONE) {
        if (++turn % SPINS == 0)
            (void)sched_yield();
    }
    /* pairs with the release in gs_block_leave: what those before us did to the map is visible */
    while (__atomic_load_n(&place->users, __ATOMIC_ACQUIRE) != ALONE) {
        if (++turn % SPINS == 0)
            (void)sched_yield();
    }
}

void gs_block_leave_alone(uint32_t dev)
{
    __atomic_fetch_and(&place_of(dev)->users, ~ALONE, __ATOMIC_RELEASE);
}

/* ---- memory ---- */

static void *map_pages(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static void *carve(uint64_t bytes)
{
    void *p = NULL;

    spin_lock(&slab.spin);
    if ((uint64_t)(slab.end - slab.at) < bytes) {
        char *chunk = map_pages(bytes > CHUNK ? bytes : CHUNK);

        if (chunk != NULL) {
            slab.at = chunk;
            slab.end = chunk + (bytes > CHUNK ? bytes : CHUNK);
        }
    }
    if ((uint64_t)(slab.end - slab.at) >= bytes) {
        p = slab.at;
        slab.at += bytes;
    }
    spin_unlock(&slab.spin);
    return p;
}

static struct block *block_new(struct place *place, const struct gs_block_owner *owner,
                               uint64_t key)
{
    uint64_t units = owner->granularity / GS_BLOCK_UNIT;
    uint64_t words = units > MAX_UNITS ? 0 : (units + 63) / 64;
    struct block *block = place->free_list;

    if (block != NULL && block->n_words == words) {
        place->free_list = block->next_free;
    } else {
        block = carve(sizeof(*block) + words * sizeof(uint64_t));
        if (block == NULL)
            return NULL;
    }
    /* `used` is clear already: fresh pages, or a block whose last piece was removed */
    memset(block, 0, sizeof(*block));
    block->key = key;
    block->serial = owner->serial;
    block->family = owner->family;
    block->n_units = words == 0 ? 0 : (uint32_t)units;
    block->n_words = (uint32_t)words;
    block->hole = block->n_units;
    block->share = -1;
    return block;
}

/* ---- table ---- */

static uint64_t home(const struct place *place, uint64_t key)
{
    return (key * 0x9e3779b97f4a7c15ull >> 20) & (place->cap - 1);
}

/* Granules are powers of two on all cards but not in all tests. */
static uint64_t key_of(uint64_t ptr, uint64_t granularity)
{
    if (GS_LIKELY((granularity & (granularity - 1)) == 0))
        return ptr >> __builtin_ctzll(granularity);
    return ptr / granularity;
}

static struct block *find(const struct place *place, uint64_t key)
{
    if (place->cap == 0)
        return NULL;
    for (uint64_t i = home(place, key);; i = (i + 1) & (place->cap - 1)) {
        struct block *block = place->table[i];

        if (block == NULL || block->key == key)
            return block;
    }
}

static void insert(struct place *place, struct block *block)
{
    uint64_t i = home(place, block->key);

    while (place->table[i] != NULL)
        i = (i + 1) & (place->cap - 1);
    place->table[i] = block;
    place->count++;
}

static int grow(struct place *place)
{
    struct block **old = place->table;
    uint64_t old_cap = place->cap;
    uint64_t cap = old_cap == 0 ? FIRST_CAP : old_cap * 2;
    struct block **table = map_pages(cap * sizeof(struct block *));

    if (table == NULL)
        return -ENOMEM;
    place->table = table;
    place->cap = cap;
    place->count = 0;
    for (uint64_t i = 0; i < old_cap; i++) {
        if (old[i] != NULL)
            insert(place, old[i]);
    }
    if (old != NULL)
        (void)munmap(old, old_cap * sizeof(struct block *)); /* cannot fail on a mapping of ours */
    return 0;
}

static void drop(struct place *place, struct block *block)
{
    uint64_t mask = place->cap - 1;
    uint64_t hole = home(place, block->key);

    while (place->table[hole] != block)
        hole = (hole + 1) & mask;
    for (uint64_t i = (hole + 1) & mask; place->table[i] != NULL; i = (i + 1) & mask) {
        uint64_t want = home(place, place->table[i]->key);

        /* move it into the hole unless its home lies behind the hole */
        if (((i - want) & mask) >= ((i - hole) & mask)) {
            place->table[hole] = place->table[i];
            hole = i;
        }
    }
    place->table[hole] = NULL;
    place->count--;
    block->next_free = place->free_list;
    place->free_list = block;
}

/* ---- pieces ---- */

struct range {
    uint32_t first;
    uint32_t end;
};

/* Units that [ptr, ptr + bytes) touches, as far as they lie in the block. */
static struct range range_of(const struct block *block, uint64_t granularity, uint64_t ptr,
                             uint64_t bytes)
{
    uint64_t offset = ptr - block->key * granularity;
    uint64_t first = offset / GS_BLOCK_UNIT;
    uint64_t end = (offset + bytes + GS_BLOCK_UNIT - 1) / GS_BLOCK_UNIT;

    if (first > block->n_units)
        first = block->n_units;
    if (end > block->n_units)
        end = block->n_units;
    return (struct range){(uint32_t)first, (uint32_t)end};
}

/* Bits [from, to) of one word, to <= 64. */
static void mark_word(uint64_t *word, uint32_t from, uint32_t to, bool used)
{
    uint64_t mask = (UINT64_MAX << from) & (UINT64_MAX >> (64 - to));

    *word = used ? *word | mask : *word & ~mask;
}

static void mark(struct block *block, struct range range, bool used)
{
    uint32_t first = range.first / 64;
    uint32_t last;

    if (range.first >= range.end)
        return;
    last = (range.end - 1) / 64;
    if (first == last) {
        mark_word(&block->used[first], range.first % 64, (range.end - 1) % 64 + 1, used);
        return;
    }
    mark_word(&block->used[first], range.first % 64, 64, used);
    memset(&block->used[first + 1], used ? 0xff : 0, (last - first - 1) * sizeof(uint64_t));
    mark_word(&block->used[last], 0, (range.end - 1) % 64 + 1, used);
}

int gs_block_add(const struct gs_block_owner *owner, uint64_t ptr, uint64_t bytes)
{
    struct place *place = place_of(owner->dev);
    uint64_t key = key_of(ptr, owner->granularity);
    struct block *block;
    int rc = 0;

    spin_lock(&place->spin);
    block = find(place, key);
    if (block == NULL) {
        rc = place->count * 2 >= place->cap ? grow(place) : 0;
        block = rc == 0 ? block_new(place, owner, key) : NULL;
        if (block == NULL) {
            spin_unlock(&place->spin);
            return -ENOMEM;
        }
        insert(place, block);
        rc = 1;
    }
    block->pieces++;
    mark(block, range_of(block, owner->granularity, ptr, bytes), true);
    spin_unlock(&place->spin);
    return rc;
}

struct gs_block_gone gs_block_remove(uint32_t dev, uint64_t granularity, uint64_t ptr,
                                     uint64_t bytes)
{
    struct place *place = place_of(dev);
    struct gs_block_gone gone = {.block = false, .share = -1};
    struct block *block;

    spin_lock(&place->spin);
    block = find(place, key_of(ptr, granularity));
    if (block != NULL) {
        mark(block, range_of(block, granularity, ptr, bytes), false);
        block->hole = block->n_units;
        if (--block->pieces == 0) {
            gone.block = true;
            gone.share = block->share;
            drop(place, block);
        }
    }
    spin_unlock(&place->spin);
    return gone;
}

/* Longest run of free units; stops at the first that is long enough. */
static uint32_t longest_hole(const struct block *block, uint32_t enough)
{
    uint32_t best = 0;
    uint32_t run = 0;

    for (uint32_t unit = 0; unit < block->n_units && best < enough;) {
        uint64_t word = block->used[unit / 64] >> (unit % 64);
        uint32_t left = 64 - unit % 64;
        uint32_t n;

        if (word & 1) {
            uint64_t free_bits = ~word;

            n = free_bits == 0 ? left : (uint32_t)__builtin_ctzll(free_bits);
            run = 0;
        } else {
            n = word == 0 ? left : (uint32_t)__builtin_ctzll(word);
            run += n < block->n_units - unit ? n : block->n_units - unit;
        }
        unit += n < left ? n : left;
        if (run > best)
            best = run;
    }
    return best;
}

bool gs_block_has_hole(const struct gs_block_owner *owner, uint64_t bytes)
{
    struct place *place = place_of(owner->dev);
    uint64_t units = (bytes + GS_BLOCK_UNIT - 1) / GS_BLOCK_UNIT;
    bool found = false;

    if (bytes > owner->granularity)
        return false;
    spin_lock(&place->spin);
    for (uint64_t i = 0; i < place->cap && !found && place->mistrusted == 0; i++) {
        struct block *block = place->table[i];

        if (block == NULL || block->serial != owner->serial || block->family != owner->family ||
            block->hole < units)
            continue;
        block->hole = longest_hole(block, block->n_units);
        found = block->hole >= units;
    }
    spin_unlock(&place->spin);
    return found;
}

void gs_block_mistrust(uint32_t dev)
{
    struct place *place = place_of(dev);

    spin_lock(&place->spin);
    place->mistrusted = 1;
    spin_unlock(&place->spin);
}

int gs_block_share(uint32_t dev, uint64_t granularity, uint64_t ptr)
{
    struct place *place = place_of(dev);
    const struct block *block;
    int share;

    spin_lock(&place->spin);
    block = find(place, key_of(ptr, granularity));
    share = block == NULL ? -ENOENT : block->share;
    spin_unlock(&place->spin);
    return share;
}

void gs_block_set_share(uint32_t dev, uint64_t granularity, uint64_t ptr, int share)
{
    struct place *place = place_of(dev);
    struct block *block;

    spin_lock(&place->spin);
    block = find(place, key_of(ptr, granularity));
    if (block != NULL)
        block->share = share;
    spin_unlock(&place->spin);
}

/* The mappings stay: the threads that could have been inside them do not exist in the child, but a
 * second fork from a signal handler might. */
void gs_block_forget(void)
{
    memset(places, 0, sizeof(places));
    memset(&slab, 0, sizeof(slab));
}
