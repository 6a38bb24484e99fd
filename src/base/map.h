#pragma once
/* Hash table from text to pointer: open addressing, keys borrowed from their values' owner. For
 * daemons: iteration order is that of insertion where nothing was removed since the last growth,
 * and is not to be relied on. */

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_map_slot {
    struct gs_str key;
    void *value; /**< NULL: slot is free */
    uint64_t hash;
};

struct gs_map {
    struct gs_map_slot *slot; /**< [cap], cap a power of two; NULL while empty */
    size_t cap, n;
};

void gs_map_init(struct gs_map *map);
/** Frees the table, not the values. Accepts NULL and zeroed objects. */
void gs_map_fini(struct gs_map *map);
/** NULL: not there. */
void *gs_map_find(const struct gs_map *map, struct gs_str key);
/** Many keys at once: value[i] of key[i], NULL where it is not there. What is looked at is fetched
 *  ahead, key and value included, so that a table larger than the cache costs little more than one
 *  that fits. */
void gs_map_find_many(const struct gs_map *map, const struct gs_str *key, size_t n, void **value);
/** Add or replace. `key` must live as long as the entry; `value` is not NULL. 0 or -ENOMEM. */
GS_WUR int gs_map_set(struct gs_map *map, struct gs_str key, void *value);
/** Add a new zeroed block of `size` bytes with the key's text behind it, under that text: *ret_key.
 *  The key is not there yet; whoever removes the block frees it. NULL: no memory. */
GS_WUR void *gs_map_make(struct gs_map *map, struct gs_str key, size_t size,
                         struct gs_str *ret_key);
/** The value that was there, or NULL. */
void *gs_map_remove(struct gs_map *map, struct gs_str key);
/** Walk: start with *pos = 0; NULL at the end. Nothing may be added or removed meanwhile. */
void *gs_map_next(const struct gs_map *map, size_t *pos);
