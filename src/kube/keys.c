#include "kube/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/size.h"

/* The API's own limit of a name is 253, of a namespace 63; others' servers may differ. */
#define PART_MAX  1024
#define ON_STACK  (2 * PART_MAX + 1)
#define HASH_SEED 0x7276u

void gs_kube_keys_fini(struct gs_kube_keys *keys)
{
    struct gs_kube_entry *entry;
    size_t pos = 0;

    while ((entry = gs_map_next(&keys->map, &pos)) != NULL)
        free(entry);
    gs_map_fini(&keys->map);
    keys->bytes = 0;
}

struct gs_kube_key gs_kube_keys_key(const struct gs_kube_entry *entry)
{
    const char *name = entry->text + entry->ns_n + 1;

    return (struct gs_kube_key){
        .ns = {entry->text, entry->ns_n},
        .name = {name, entry->name_n},
        .uid = {name + entry->name_n, entry->uid_n},
    };
}

static struct gs_str map_key(const struct gs_kube_entry *entry)
{
    return (struct gs_str){entry->text, (size_t)entry->ns_n + 1 + entry->name_n};
}

static size_t size_of(const struct gs_kube_entry *entry)
{
    return sizeof(*entry) + entry->ns_n + 1 + entry->name_n + entry->uid_n;
}

struct gs_kube_entry *gs_kube_keys_find(const struct gs_kube_keys *keys, struct gs_str ns,
                                        struct gs_str name)
{
    char text[ON_STACK];

    if (ns.n > PART_MAX || name.n > PART_MAX)
        return NULL; /* such a one was never added */
    if (ns.n > 0)
        memcpy(text, ns.p, ns.n);
    text[ns.n] = '/';
    if (name.n > 0)
        memcpy(text + ns.n + 1, name.p, name.n);
    return gs_map_find(&keys->map, (struct gs_str){text, ns.n + 1 + name.n});
}

int gs_kube_keys_add(struct gs_kube_keys *keys, const struct gs_kube_key *key, uint64_t version)
{
    struct gs_kube_entry *entry;
    int rc;

    if (key->ns.n > PART_MAX || key->name.n > PART_MAX || key->uid.n > PART_MAX)
        return -ENAMETOOLONG;
    entry = calloc(1, sizeof(*entry) + key->ns.n + 1 + key->name.n + key->uid.n);
    if (!entry)
        return -ENOMEM;
    entry->version = version;
    entry->mark = keys->mark;
    entry->ns_n = (uint32_t)key->ns.n;
    entry->name_n = (uint32_t)key->name.n;
    entry->uid_n = (uint32_t)key->uid.n;
    if (key->ns.n > 0)
        memcpy(entry->text, key->ns.p, key->ns.n);
    entry->text[key->ns.n] = '/';
    if (key->name.n > 0)
        memcpy(entry->text + key->ns.n + 1, key->name.p, key->name.n);
    if (key->uid.n > 0)
        memcpy(entry->text + key->ns.n + 1 + key->name.n, key->uid.p, key->uid.n);
    rc = gs_map_set(&keys->map, map_key(entry), entry);
    if (rc < 0) {
        free(entry);
        return rc;
    }
    keys->bytes += size_of(entry);
    return 0;
}

void gs_kube_keys_take(struct gs_kube_keys *keys, struct gs_kube_entry *entry)
{
    (void)gs_map_remove(&keys->map, map_key(entry)); /* it is the entry itself */
    keys->bytes -= size_of(entry);
}

void gs_kube_keys_drop(struct gs_kube_entry *entry)
{
    free(entry);
}

struct gs_kube_entry *gs_kube_keys_take_unmarked(struct gs_kube_keys *keys)
{
    struct gs_kube_entry *chain = NULL, *entry;
    size_t pos = 0;

    while ((entry = gs_map_next(&keys->map, &pos)) != NULL)
        if (entry->mark != keys->mark) {
            entry->next = chain;
            chain = entry;
        }
    for (entry = chain; entry; entry = entry->next)
        gs_kube_keys_take(keys, entry);
    return chain;
}

uint64_t gs_kube_keys_version(struct gs_str resource_version)
{
    uint64_t number;

    if (gs_size_parse_u64(resource_version, &number) == 0)
        return number;
    return gs_hash_bytes(resource_version.p, resource_version.n, HASH_SEED);
}
