#include "vendors/nvidia/hook/pool_map.h"

#include <stddef.h>
#include <sys/mman.h>

#include "hook/sys.h"
#include "hook/track.h"

#define CHUNK_BIT (1ull << 61) /* addresses end at 2^57 */
#define ALONE     (1u << 31)
/* Sleeping waits: on a busy machine whoever is in may not run for many time slices, and going ahead
 * without it breaks a prediction. */
#define ENTER_US     500000u
#define ALONE_US     50000u
#define MAX_CHUNKS   128u
#define MAX_POINTERS 65536u
#define GRAIN        512u   /* the least the driver cuts */
#define MAX_PIECES   65536u /* pieces of a large chunk are coarser than the grain */

struct pointer {
    uint64_t start;
    uint64_t bytes;
};

struct chunk {
    uint64_t start;
    uint64_t bytes;
    uint32_t live;
};

struct map {
    uint64_t pool;
    uint32_t n_chunks;
    uint32_t n;
    bool full; /* more than there is room for */
    struct chunk chunk[MAX_CHUNKS];
    struct pointer pointer[MAX_POINTERS];
};

static uint32_t flights; /* calls under way; ALONE: one of them, or about to be */
static uint32_t waiting; /* calls kept out by ALONE: the next that wants to be alone lets them in */

bool gs_pool_map_enter(void)
{
    struct gs_sys_wait wait = {0, 0};
    bool entered = true;

    /* pairs with the release in gs_pool_map_leave_alone */
    if (GS_LIKELY((__atomic_fetch_add(&flights, 1, __ATOMIC_ACQUIRE) & ALONE) == 0))
        return true;
    __atomic_fetch_add(&waiting, 1, __ATOMIC_RELAXED);
    do {
        __atomic_fetch_sub(&flights, 1, __ATOMIC_RELAXED);
        while (entered && (__atomic_load_n(&flights, __ATOMIC_RELAXED) & ALONE) != 0)
            entered = gs_sys_wait(&wait, ENTER_US) != 0;
    } while (entered && (__atomic_fetch_add(&flights, 1, __ATOMIC_ACQUIRE) & ALONE) != 0);
    __atomic_fetch_sub(&waiting, 1, __ATOMIC_RELAXED);
    return entered;
}

void gs_pool_map_leave(bool entered)
{
    if (entered) /* pairs with the acquire in gs_pool_map_enter_alone */
        __atomic_fetch_sub(&flights, 1, __ATOMIC_RELEASE);
}

bool gs_pool_map_enter_alone(void)
{
    struct gs_sys_wait wait = {0, 0};

    while (__atomic_load_n(&waiting, __ATOMIC_RELAXED) != 0)
        if (gs_sys_wait(&wait, ALONE_US) == 0)
            return false;
    while ((__atomic_fetch_or(&flights, ALONE, __ATOMIC_ACQUIRE) & ALONE) != 0)
        if (gs_sys_wait(&wait, ALONE_US) == 0)
            return false;
    /* pairs with the release in gs_pool_map_leave */
    while (__atomic_load_n(&flights, __ATOMIC_ACQUIRE) != ALONE)
        if (gs_sys_wait(&wait, ALONE_US) == 0) {
            gs_pool_map_leave_alone();
            return false;
        }
    return true;
}

void gs_pool_map_leave_alone(void)
{
    __atomic_fetch_and(&flights, ~ALONE, __ATOMIC_RELEASE);
}

void gs_pool_map_grew(struct gs_meter pool, uint64_t ptr, uint64_t bytes)
{
    struct gs_obj obj = {.bytes = bytes,
                         .aux = pool.key,
                         .dev = GS_DEVICE_NONE,
                         .share = -1,
                         .flags = GS_METER_EXEMPT};

    if (gs_track_put(GS_OBJ_POOL, ptr | CHUNK_BIT, &obj) != 0)
        gs_meter_freed(); /* not known, so never predicted */
}

static void add_chunk(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct map *map = arg;

    if ((key & CHUNK_BIT) == 0 || obj->aux != map->pool)
        return;
    if (map->n_chunks == MAX_CHUNKS) {
        map->full = true;
        return;
    }
    map->chunk[map->n_chunks++] = (struct chunk){key & ~CHUNK_BIT, obj->bytes, 0};
}

static void add_pointer(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct map *map = arg;

    if (obj->aux != map->pool)
        return;
    if (map->n == MAX_POINTERS) {
        map->full = true;
        return;
    }
    map->pointer[map->n++] = (struct pointer){key, obj->bytes};
}

static bool is_in(const struct chunk *chunk, uint64_t at)
{
    return at >= chunk->start && at - chunk->start < chunk->bytes;
}

/* In place and without memory of its own, as a hook must. */
static void sort(struct pointer *p, uint32_t n)
{
    for (uint32_t gap = n / 2; gap != 0; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            struct pointer x = p[i];
            uint32_t k = i;

            for (; k >= gap && p[k - gap].start > x.start; k -= gap)
                p[k] = p[k - gap];
            p[k] = x;
        }
}

static struct map *map_new(struct gs_meter pool)
{
    struct map *map =
        mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        return NULL;
    map->pool = pool.key;
    gs_track_each(GS_OBJ_POOL, add_chunk, map);
    if (map->n_chunks != 0)
        gs_track_each(GS_OBJ_ASYNC, add_pointer, map);
    return map;
}

/* Count the pointers of each chunk. False: one lies in none of them. That chunk is one whose
 * beginning was not seen, and what is known may be of a chunk that is gone and had the same
 * addresses. */
static bool count_live(struct map *map)
{
    bool all_placed = true;

    for (uint32_t k = 0; k < map->n; k++) {
        bool placed = false;

        for (uint32_t i = 0; i < map->n_chunks; i++) {
            struct chunk *chunk = &map->chunk[i];

            if (!is_in(chunk, map->pointer[k].start))
                continue;
            chunk->live++;
            placed = placed ||
                     map->pointer[k].bytes <= chunk->bytes - (map->pointer[k].start - chunk->start);
        }
        all_placed = all_placed && placed;
    }
    return all_placed;
}

/* Forget chunks without pointers: a trim took them, or may at any time. */
static void drop_empty(struct map *map)
{
    for (uint32_t i = 0; i < map->n_chunks;) {
        struct gs_obj gone;

        if (map->chunk[i].live != 0) {
            i++;
            continue;
        }
        (void)gs_track_take(GS_OBJ_POOL, map->chunk[i].start | CHUNK_BIT, &gone);
        map->chunk[i] = map->chunk[--map->n_chunks];
    }
}

/* Is the map what the pool holds? Without chunks that a trim took, if need be. */
static bool match(struct map *map, uint64_t reserved)
{
    uint64_t all = 0, occupied = 0;

    if (!count_live(map))
        return false;
    for (uint32_t i = 0; i < map->n_chunks; i++) {
        all += map->chunk[i].bytes;
        occupied += map->chunk[i].live != 0 ? map->chunk[i].bytes : 0;
    }
    if (all == reserved)
        return true;
    if (occupied != reserved)
        return false;
    drop_empty(map);
    return true;
}

void gs_pool_map_shrank(struct gs_meter pool)
{
    struct map *map = map_new(pool);

    if (map == NULL)
        return;
    (void)count_live(map); /* only whether there are any matters */
    if (!map->full)
        drop_empty(map);
    munmap(map, sizeof(*map));
}

static uint64_t up(uint64_t v, uint64_t to)
{
    return (v + to - 1) / to * to;
}

static bool chunk_has_hole(const struct map *map, const struct chunk *chunk, uint64_t bytes)
{
    uint64_t piece = GRAIN, at = 0;

    while (chunk->bytes / piece > MAX_PIECES)
        piece *= 2;
    if (bytes > chunk->bytes)
        return false;
    bytes = up(bytes, piece);
    for (uint32_t i = 0; i < map->n; i++) {
        uint64_t start;

        if (!is_in(chunk, map->pointer[i].start))
            continue;
        start = map->pointer[i].start - chunk->start;
        if (start >= at && start - at >= bytes)
            return true;
        at = up(start + map->pointer[i].bytes, piece);
    }
    return chunk->bytes >= at && chunk->bytes - at >= bytes;
}

bool gs_pool_map_has_hole(struct gs_meter pool, uint64_t reserved, uint64_t bytes)
{
    struct map *map = map_new(pool);
    bool found = false;

    if (map == NULL)
        return false;
    if (!map->full && map->n_chunks != 0 && match(map, reserved)) {
        sort(map->pointer, map->n);
        for (uint32_t i = 0; i < map->n_chunks && !found; i++)
            found = map->chunk[i].live != 0 && chunk_has_hole(map, &map->chunk[i], bytes);
    }
    munmap(map, sizeof(*map));
    return found;
}

struct search {
    uint64_t pool;
    uint64_t ptr;
    struct chunk found;
    uint32_t n;
    uint64_t key[MAX_CHUNKS];
};

static void find_chunk(uint64_t key, const struct gs_obj *obj, void *arg)
{
    struct search *s = arg;
    struct chunk chunk = {key & ~CHUNK_BIT, obj->bytes, 0};

    if ((key & CHUNK_BIT) == 0 || obj->aux != s->pool)
        return;
    if (is_in(&chunk, s->ptr))
        s->found = chunk;
    if (s->n < MAX_CHUNKS)
        s->key[s->n++] = key;
}

uint64_t gs_pool_map_chunk(struct gs_meter pool, uint64_t ptr, uint64_t *ret_start)
{
    struct search s = {.pool = pool.key, .ptr = ptr};

    gs_track_each(GS_OBJ_POOL, find_chunk, &s);
    *ret_start = s.found.start;
    return s.found.bytes;
}

void gs_pool_map_forget(struct gs_meter pool)
{
    struct search s = {.pool = pool.key};
    struct gs_obj gone;

    do {
        s.n = 0;
        gs_track_each(GS_OBJ_POOL, find_chunk, &s);
        for (uint32_t i = 0; i < s.n; i++)
            (void)gs_track_take(GS_OBJ_POOL, s.key[i], &gone);
    } while (s.n == MAX_CHUNKS);
}
