#include "base/map.h"

#include <errno.h>
#include <stdlib.h>

#include "core/hash.h"

#define FIRST_CAP 16u
#define SEED      0x6770u

void gs_map_init(struct gs_map *map)
{
    *map = (struct gs_map){0};
}

void gs_map_fini(struct gs_map *map)
{
    if (map == NULL)
        return;
    free(map->slot);
    *map = (struct gs_map){0};
}

/* The key's slot, or the free one where it would go. The table is never full. */
static struct gs_map_slot *slot_of(const struct gs_map *map, struct gs_str key, uint64_t hash)
{
    size_t mask = map->cap - 1;

    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct gs_map_slot *s = &map->slot[i];

        if (s->value == NULL || (s->hash == hash && gs_str_eq(s->key, key)))
            return s;
    }
}

void *gs_map_find(const struct gs_map *map, struct gs_str key)
{
    return map->n == 0 ? NULL : slot_of(map, key, gs_hash_bytes(key.p, key.n, SEED))->value;
}

#define AHEAD                                                                                      \
    32u /* keys looked up side by side: enough to hide memory behind, few enough to stay */

void gs_map_find_many(const struct gs_map *map, const struct gs_str *key, size_t n, void **value)
{
    uint64_t hash[AHEAD];

    for (size_t from = 0, part; from < n; from += part) {
        part = n - from < AHEAD ? n - from : AHEAD;
        if (map->n == 0) {
            for (size_t i = 0; i < part; i++)
                value[from + i] = NULL;
            continue;
        }
        for (size_t i = 0; i < part; i++) {
            hash[i] = gs_hash_bytes(key[from + i].p, key[from + i].n, SEED);
            __builtin_prefetch(&map->slot[hash[i] & (map->cap - 1)]);
        }
        for (size_t i = 0; i < part; i++) {
            const struct gs_map_slot *s = &map->slot[hash[i] & (map->cap - 1)];

            __builtin_prefetch(s->key.p);
            __builtin_prefetch(s->value);
        }
        for (size_t i = 0; i < part; i++)
            value[from + i] = slot_of(map, key[from + i], hash[i])->value;
    }
}

static int grow(struct gs_map *map)
{
    struct gs_map bigger = {.cap = map->cap == 0 ? FIRST_CAP : map->cap * 2, .n = map->n};

    bigger.slot = calloc(bigger.cap, sizeof(*bigger.slot));
    if (bigger.slot == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < map->cap; i++)
        if (map->slot[i].value != NULL)
            *slot_of(&bigger, map->slot[i].key, map->slot[i].hash) = map->slot[i];
    free(map->slot);
    *map = bigger;
    return 0;
}

int gs_map_set(struct gs_map *map, struct gs_str key, void *value)
{
    uint64_t hash = gs_hash_bytes(key.p, key.n, SEED);
    struct gs_map_slot *s;

    if (map->n + 1 > map->cap / 4 * 3) {
        int rc = grow(map);

        if (rc < 0)
            return rc;
    }
    s = slot_of(map, key, hash);
    if (s->value == NULL)
        map->n++;
    *s = (struct gs_map_slot){key, value, hash};
    return 0;
}

/* Linear probing without tombstones: move back what had been pushed on by the removed entry. */
void *gs_map_make(struct gs_map *map, struct gs_str key, size_t size, struct gs_str *ret_key)
{
    char *block = calloc(1, size + key.n + 1), *text = block + size;

    if (block == NULL)
        return NULL;
    *ret_key = gs_str_keep(key, &text);
    if (gs_map_set(map, *ret_key, block) < 0) {
        free(block);
        return NULL;
    }
    return block;
}

void *gs_map_remove(struct gs_map *map, struct gs_str key)
{
    size_t mask = map->cap - 1, hole;
    struct gs_map_slot *s;
    void *value;

    if (map->n == 0)
        return NULL;
    s = slot_of(map, key, gs_hash_bytes(key.p, key.n, SEED));
    value = s->value;
    if (value == NULL)
        return NULL;
    hole = (size_t)(s - map->slot);
    for (size_t i = (hole + 1) & mask; map->slot[i].value != NULL; i = (i + 1) & mask) {
        size_t home = map->slot[i].hash & mask;

        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slot[hole] = map->slot[i];
            hole = i;
        }
    }
    map->slot[hole] = (struct gs_map_slot){0};
    map->n--;
    return value;
}

void *gs_map_next(const struct gs_map *map, size_t *pos)
{
    while (*pos < map->cap) {
        struct gs_map_slot *s = &map->slot[(*pos)++];

        if (s->value != NULL)
            return s->value;
    }
    return NULL;
}
