#pragma once
/* What a watch remembers: for each object its key, UID and resourceVersion, and whether the list
 * that is under way has shown it. Inside the room only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/key.h"

struct gs_kube_entry {
    struct gs_kube_entry *next; /**< in a chain of those to be forgotten */
    uint64_t version;           /**< of its resourceVersion */
    uint32_t mark;
    uint32_t ns_n, name_n, uid_n;
    char text[]; /**< "ns/name", then the UID; no NULs */
};

struct gs_kube_keys {
    struct gs_map map;
    size_t bytes; /**< of all entries, without the table */
    uint32_t mark;
};

void gs_kube_keys_fini(struct gs_kube_keys *keys);
struct gs_kube_key gs_kube_keys_key(const struct gs_kube_entry *entry);
/** NULL: not known. */
struct gs_kube_entry *gs_kube_keys_find(const struct gs_kube_keys *keys, struct gs_str ns,
                                        struct gs_str name);
/** Add one that is not known. -ENOMEM; -ENAMETOOLONG. */
GS_WUR int gs_kube_keys_add(struct gs_kube_keys *keys, const struct gs_kube_key *key,
                            uint64_t version);
/** Take out; the caller frees it with gs_kube_keys_drop() after its last use. */
void gs_kube_keys_take(struct gs_kube_keys *keys, struct gs_kube_entry *entry);
void gs_kube_keys_drop(struct gs_kube_entry *entry);
/** Take out all that do not carry the mark of now: a chain. */
struct gs_kube_entry *gs_kube_keys_take_unmarked(struct gs_kube_keys *keys);
/** Only to be compared with others: equal where the resourceVersions are. */
uint64_t gs_kube_keys_version(struct gs_str resource_version);
