#include "hook/track.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* Linear probing with backward shift, so that a table that has seen many frees is as short as a new
 * one. The first table of every shard comes from one mapping made by the first put: later calls
 * that do not grow a shard make no system call. */

#define N_SHARDS    64u
#define FIRST_SLOTS 64u /* of each shard; a power of two */
#define SPINS       100u

struct entry {
    uint64_t key;
    uint32_t kind; /* 0: empty */
    uint32_t hash; /* so that a shift or a growth computes nothing */
    struct gs_obj obj;
};

struct shard {
    _Alignas(64) uint32_t lock; /* 1 taken */
    uint32_t n_used;
    uint32_t n_slots; /* a power of two; 0: `slots` not there yet */
    struct entry *slots;
};

static struct shard shards[N_SHARDS];
static struct entry *first; /* N_SHARDS x FIRST_SLOTS */

static uint64_t hash_of(enum gs_obj_kind kind, uint64_t key)
{
    uint64_t h = key ^ ((uint64_t)kind << 57);
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 29);
}

static struct shard *lock_shard(uint64_t hash)
{
    struct shard *shard = &shards[hash >> 58];
    uint32_t spins = 0;
    /* acquire: pairs with the release in unlock_shard */
    while (__atomic_exchange_n(&shard->lock, 1, __ATOMIC_ACQUIRE) != 0) {
        while (__atomic_load_n(&shard->lock, __ATOMIC_RELAXED) != 0)
            if (++spins % SPINS == 0)
                (void)sched_yield(); /* the holder may want our processor; it cannot fail */
    }
    return shard;
}

static void unlock_shard(struct shard *shard)
{
    __atomic_store_n(&shard->lock, 0, __ATOMIC_RELEASE);
}

static struct entry *map_slots(size_t n)
{
    const int saved = errno;
    void *at = mmap(NULL, n * sizeof(struct entry), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    return at != MAP_FAILED ? at : NULL;
}

/** The common first mapping; racing threads agree on one. */
static struct entry *first_slots(void)
{
    struct entry *mine;
    struct entry *seen = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
    if (seen != NULL)
        return seen;
    mine = map_slots((size_t)N_SHARDS * FIRST_SLOTS);
    if (mine == NULL)
        return NULL;
    if (__atomic_compare_exchange_n(&first, &seen, mine, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return mine;
    (void)munmap(mine, sizeof(struct entry) * N_SHARDS * FIRST_SLOTS); /* leaks at worst */
    return seen;
}

static bool is_first(const struct shard *shard)
{
    return shard->n_slots == FIRST_SLOTS;
}

/** The entry's slot, or the empty one where it would go. */
static uint32_t find_slot(const struct shard *shard, uint32_t hash, enum gs_obj_kind kind,
                          uint64_t key)
{
    const uint32_t mask = shard->n_slots - 1;
    uint32_t i = hash & mask;
    while (shard->slots[i].kind != 0 &&
           (shard->slots[i].key != key || shard->slots[i].kind != (uint32_t)kind))
        i = (i + 1) & mask;
    return i;
}

static int grow(struct shard *shard)
{
    struct entry *old = shard->slots;
    const uint32_t n_old = shard->n_slots;
    if (n_old == 0) {
        struct entry *base = first_slots();
        if (base == NULL)
            return -ENOMEM;
        shard->slots = base + (size_t)(shard - shards) * FIRST_SLOTS;
        shard->n_slots = FIRST_SLOTS;
        return 0;
    }
    if (n_old > UINT32_MAX / 2)
        return -ENOMEM;
    struct entry *slots = map_slots((size_t)n_old * 2);
    if (slots == NULL)
        return -ENOMEM;
    const bool was_first = is_first(shard);
    shard->slots = slots;
    shard->n_slots = n_old * 2;
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].kind != 0)
            slots[find_slot(shard, old[i].hash, (enum gs_obj_kind)old[i].kind, old[i].key)] =
                old[i];
    if (!was_first)
        (void)munmap(old, n_old * sizeof *old); /* leaks at worst */
    return 0;
}

/** Empty slot i and close the gap: move back every follower whose home is not after the gap. */
static void remove_slot(struct shard *shard, uint32_t i)
{
    const uint32_t mask = shard->n_slots - 1;
    for (uint32_t next = (i + 1) & mask; shard->slots[next].kind != 0; next = (next + 1) & mask) {
        uint32_t home = shard->slots[next].hash & mask;
        if (((next - home) & mask) >= ((next - i) & mask)) {
            shard->slots[i] = shard->slots[next];
            i = next;
        }
    }
    shard->slots[i].kind = 0;
    shard->n_used--;
}

/** Lock the key's shard and find its entry; NULL when unknown. The shard stays locked. */
static struct entry *lock_entry(enum gs_obj_kind kind, uint64_t key, struct shard **ret_shard)
{
    const uint64_t hash = hash_of(kind, key);
    struct shard *shard = lock_shard(hash);
    *ret_shard = shard;
    if (shard->n_used == 0)
        return NULL;
    struct entry *entry = &shard->slots[find_slot(shard, (uint32_t)hash, kind, key)];
    return entry->kind != 0 ? entry : NULL;
}

int gs_track_put(enum gs_obj_kind kind, uint64_t key, const struct gs_obj *obj)
{
    const uint64_t hash = hash_of(kind, key);
    struct shard *shard = lock_shard(hash);
    int rc = 0;
    if (shard->n_used >= shard->n_slots / 4 * 3)
        rc = grow(shard);
    if (rc == 0) {
        struct entry *entry = &shard->slots[find_slot(shard, (uint32_t)hash, kind, key)];
        shard->n_used += entry->kind == 0;
        *entry = (struct entry){key, (uint32_t)kind, (uint32_t)hash, *obj};
    }
    unlock_shard(shard);
    return rc;
}

bool gs_track_take(enum gs_obj_kind kind, uint64_t key, struct gs_obj *ret_obj)
{
    struct shard *shard;
    struct entry *entry = lock_entry(kind, key, &shard);
    if (entry != NULL) {
        *ret_obj = entry->obj;
        remove_slot(shard, (uint32_t)(entry - shard->slots));
    }
    unlock_shard(shard);
    return entry != NULL;
}

bool gs_track_get(enum gs_obj_kind kind, uint64_t key, struct gs_obj *ret_obj)
{
    struct shard *shard;
    struct entry *entry = lock_entry(kind, key, &shard);
    if (entry != NULL)
        *ret_obj = entry->obj;
    unlock_shard(shard);
    return entry != NULL;
}

int gs_track_update(enum gs_obj_kind kind, uint64_t key, int (*fn)(struct gs_obj *obj, void *arg),
                    void *arg)
{
    struct shard *shard;
    struct entry *entry = lock_entry(kind, key, &shard);
    int rc = -ENOENT;
    if (entry != NULL) {
        rc = fn(&entry->obj, arg);
        if (rc == GS_TRACK_REMOVE)
            remove_slot(shard, (uint32_t)(entry - shard->slots));
    }
    unlock_shard(shard);
    return rc;
}

/** Copy a shard's entries of one kind. Returns how many; 0 also where memory for the copy is
 * missing. */
static uint32_t snapshot(uint32_t index, enum gs_obj_kind kind, struct entry **ret_copy,
                         uint32_t *ret_room)
{
    struct shard *shard = lock_shard((uint64_t)index << 58);
    uint32_t n = 0;
    if (shard->n_used != 0 && (*ret_copy = map_slots(shard->n_used)) != NULL) {
        *ret_room = shard->n_used;
        for (uint32_t i = 0; i < shard->n_slots; i++)
            if (shard->slots[i].kind == (uint32_t)kind)
                (*ret_copy)[n++] = shard->slots[i];
    }
    unlock_shard(shard);
    return n;
}

void gs_track_each(enum gs_obj_kind kind,
                   void (*fn)(uint64_t key, const struct gs_obj *obj, void *arg), void *arg)
{
    for (uint32_t i = 0; i < N_SHARDS; i++) {
        struct entry *copy = NULL;
        uint32_t room = 0;
        uint32_t n = snapshot(i, kind, &copy, &room);
        for (uint32_t j = 0; j < n; j++)
            fn(copy[j].key, &copy[j].obj, arg);
        if (copy != NULL)
            (void)munmap(copy, room * sizeof *copy); /* leaks at worst */
    }
}

void gs_track_reset(void)
{
    for (uint32_t i = 0; i < N_SHARDS; i++)
        if (shards[i].n_slots != 0 && !is_first(&shards[i]))
            (void)munmap(shards[i].slots, shards[i].n_slots * sizeof(struct entry));
    if (first != NULL)
        (void)munmap(first, sizeof(struct entry) * N_SHARDS * FIRST_SLOTS);
    first = NULL;
    memset(shards, 0, sizeof shards);
}
