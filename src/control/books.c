#include "control/books.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/books_internal.h"
#include "core/hash.h"
#include "model/node.h"

int gs_books_new(const struct gs_policies *policies, struct gs_books **ret)
{
    struct gs_books *books = calloc(1, sizeof(*books));

    if (books == NULL)
        return -ENOMEM;
    books->policies = policies;
    *ret = books;
    return 0;
}

const struct gs_policies *gs_books_policies(const struct gs_books *books)
{
    return books->policies;
}

struct gs_books *gs_books_free(struct gs_books *books)
{
    size_t pos = 0;
    void *entry;

    if (books == NULL)
        return NULL;
    while ((entry = gs_map_next(&books->pods, &pos)) != NULL)
        free(entry);
    for (pos = 0; (entry = gs_map_next(&books->nodes, &pos)) != NULL;)
        gs_books_free_node(entry);
    for (pos = 0; (entry = gs_map_next(&books->namespaces, &pos)) != NULL;)
        gs_books_free_ns(entry);
    for (pos = 0; (entry = gs_map_next(&books->holds, &pos)) != NULL;)
        free(entry);
    gs_books_free_claims(books);
    gs_map_fini(&books->pods);
    gs_map_fini(&books->holds);
    gs_map_fini(&books->nodes);
    gs_map_fini(&books->namespaces);
    gs_arena_fini(&books->scratch);
    free(books->by_name);
    free(books);
    return NULL;
}

/* ---- nodes ---- */

/* Nothing is known of the node's devices. */
static void forget_devices(struct gs_books *books, struct gs_books_node_entry *node)
{
    for (const struct gs_books_part *p = node->part; p != NULL; p = p->next)
        gs_books_unclaim(books, node, p);
    books->n_claimed_twice -= node->n_claimed_twice;
    node->n_claimed_twice = 0;
    gs_books_free_parts(node);
    books->n_devices -= node->node.n_dev;
    books->is_unsorted |= node->node.n_dev > 0;
    node->node = (struct gs_node){.name = node->node.name};
}

/* One contiguous view of all parts. Unchanged when there is no memory. */
static int join_parts(struct gs_books *books, struct gs_books_node_entry *node)
{
    size_t n_dev = 0, n_groups = 0, bytes;
    struct gs_device *dev;
    struct gs_group *group;
    struct gs_room *room;
    struct gs_use *use;
    char *block;

    for (const struct gs_books_part *p = node->part; p != NULL; p = p->next) {
        n_dev += p->group.n;
        n_groups++;
    }
    bytes = n_dev * (sizeof(*dev) + sizeof(*use)) + n_groups * (sizeof(*group) + sizeof(*room));
    block = calloc(1, bytes > 0 ? bytes : 1);
    if (block == NULL)
        return -ENOMEM;
    dev = (struct gs_device *)(void *)block;
    use = (struct gs_use *)(void *)(dev + n_dev);
    group = (struct gs_group *)(void *)(use + n_dev);
    room = (struct gs_room *)(void *)(group + n_groups);
    books->n_devices += n_dev - node->node.n_dev;
    books->is_unsorted |= (n_dev > 0) != (node->node.n_dev > 0);
    free(node->view_block);
    node->view_block = block;
    node->use = use;
    node->room = room;
    node->node = (struct gs_node){.name = node->node.name,
                                  .dev = dev,
                                  .use = use,
                                  .n_dev = n_dev,
                                  .group = group,
                                  .n_groups = n_groups};
    n_dev = n_groups = 0;
    for (struct gs_books_part *p = node->part; p != NULL; p = p->next) {
        p->group.first = (uint32_t)n_dev;
        p->group.policy = books->policies->at[p->policy];
        memcpy(dev + n_dev, p->dev, p->group.n * sizeof(*dev));
        n_dev += p->group.n;
        group[n_groups++] = p->group;
    }
    (void)gs_books_see_claims(books, node); /* marked below, whatever has changed */
    gs_books_mark(books, node);
    return 0;
}

static bool has_same_ids(const struct gs_books_part *a, const struct gs_books_part *b)
{
    if (a->group.n != b->group.n)
        return false;
    for (uint32_t i = 0; i < a->group.n; i++)
        if (!gs_str_eq(a->dev[i].id, b->dev[i].id))
            return false;
    return true;
}

/* A vendor's part of a node in place of another, either of which may be none. */
static int exchange_claims(struct gs_books *books, struct gs_books_node_entry *node,
                           const struct gs_books_part *old, const struct gs_books_part *part)
{
    if (old != NULL && part != NULL && has_same_ids(old, part))
        return 0;
    if (part != NULL && gs_books_claim(books, node, part) < 0)
        return -ENOMEM;
    if (old != NULL)
        gs_books_unclaim(books, node, old);
    return 0;
}

/* Read one vendor's devices anew. 1: something may have changed, 0: this vendor is not here. */
static int read_part(struct gs_books *books, struct gs_books_node_entry *node,
                     const struct gs_node_view *view, uint32_t policy, struct gs_books_part **at,
                     struct gs_err *err)
{
    const struct gs_policy *p = books->policies->at[policy];
    struct gs_books_part *old = *at != NULL && (*at)->policy == policy ? *at : NULL;
    struct gs_books_part *part = calloc(1, sizeof(*part));
    int rc;

    if (part == NULL)
        return -ENOMEM;
    part->policy = policy;
    rc = gs_node_read(p, view, &part->arena, &part->dev, &part->group, err);
    if (rc < 0 && rc != -ENOENT) {
        gs_books_free_part(part); /* unreadable: what was known holds */
        return rc;
    }
    if (rc == -ENOENT || part->group.n == 0)
        part = gs_books_free_part(part);
    rc = exchange_claims(books, node, old, part);
    if (rc < 0) {
        gs_books_free_part(part);
        return rc;
    }
    if (part != NULL) {
        part->is_muted = old != NULL && old->is_muted;
        part->next = old != NULL ? old->next : *at;
        *at = part;
    }
    if (part == NULL && old != NULL)
        *at = old->next;
    gs_books_free_part(old);
    return part != NULL || old != NULL;
}

/* What cannot be read changes nothing. */
static int read_notes(struct gs_books *books, struct gs_books_node_entry *node,
                      const struct gs_node_view *view, struct gs_err *err)
{
    struct gs_arena arena = {0};
    struct gs_untracked notes;
    int rc = gs_untracked_read(view->annotations, books->policies, &arena, &notes, err);

    if (rc < 0) {
        gs_arena_fini(&arena);
        return rc == -ENOMEM ? rc : -EINVAL;
    }
    gs_arena_fini(&node->notes_arena);
    node->notes_arena = arena;
    node->notes = notes;
    return gs_books_count_leftovers(books, node, err);
}

/* What is said of it everywhere. NULL: nothing is wrong any more. */
static void note_unreadable(struct gs_books *books, struct gs_books_node_entry *node,
                            const char *why)
{
    books->n_unreadable -= node->unreadable != NULL;
    free(node->unreadable);
    node->unreadable = why != NULL ? strdup(why) : NULL; /* no memory: the log has it */
    books->n_unreadable += node->unreadable != NULL;
}

const char *gs_books_unreadable(const struct gs_books *books, struct gs_str name)
{
    const struct gs_books_node_entry *node =
        books->n_unreadable > 0 ? gs_map_find(&books->nodes, name) : NULL;

    return node != NULL ? node->unreadable : NULL;
}

const char *gs_books_next_unreadable(const struct gs_books *books, size_t *pos,
                                     struct gs_str *ret_name)
{
    const struct gs_books_node_entry *node;

    while ((node = gs_map_next(&books->nodes, pos)) != NULL)
        if (node->unreadable != NULL) {
            *ret_name = node->node.name;
            return node->unreadable;
        }
    return NULL;
}

int gs_books_node_set(struct gs_books *books, const struct gs_node_view *view, struct gs_err *err)
{
    struct gs_books_node_entry *node = gs_books_node_entry(books, view->name);
    struct gs_books_part **at;
    struct gs_err why = {0};
    int rc, first = 0;

    if (node == NULL)
        return -ENOMEM;
    node->is_there = true;
    at = &node->part;
    for (uint32_t i = 0; i < books->policies->n; i++) {
        rc = read_part(books, node, view, i, at, first == 0 ? &why : NULL);
        first = rc < 0 && first == 0 ? rc : first;
        if (*at != NULL && (*at)->policy == i)
            at = &(*at)->next;
    }
    rc = read_notes(books, node, view, first == 0 ? &why : NULL);
    first = rc < 0 && first == 0 ? rc : first;
    note_unreadable(books, node, first < 0 && first != -ENOMEM ? why.text : NULL);
    if (first < 0 && err != NULL)
        *err = why;
    rc = join_parts(books, node);
    if (rc < 0)
        forget_devices(books, node); /* the old view is of parts that are gone */
    return rc < 0 ? rc : first;
}

void gs_books_node_gone(struct gs_books *books, struct gs_str name)
{
    struct gs_books_node_entry *node = gs_map_find(&books->nodes, name);

    if (node == NULL)
        return;
    forget_devices(books, node);
    node->notes = (struct gs_untracked){0};
    gs_arena_fini(&node->notes_arena);
    note_unreadable(books, node, NULL);
    (void)gs_books_count_leftovers(books, node, NULL); /* nobody is named: nothing can fail */
    node->is_there = false;
    gs_books_drop_node_if_unused(books, node);
}

void gs_books_node_mute(struct gs_books *books, struct gs_str name, const struct gs_policy *policy,
                        bool is_muted)
{
    struct gs_books_node_entry *node = gs_map_find(&books->nodes, name);

    for (struct gs_books_part *p = node != NULL ? node->part : NULL; p != NULL; p = p->next)
        if (books->policies->at[p->policy] == policy && p->is_muted != is_muted) {
            p->is_muted = is_muted;
            gs_books_mark(books, node);
        }
}

static int by_name(const void *a, const void *b)
{
    const struct gs_books_node_entry *const *x = a, *const *y = b;

    return gs_str_cmp((*x)->node.name, (*y)->node.name);
}

static int sort_nodes(struct gs_books *books)
{
    struct gs_books_node_entry *node;
    size_t pos = 0;

    if (!books->is_unsorted)
        return 0;
    if (books->cap_by_name < books->nodes.n) {
        size_t cap = books->nodes.n * 2;
        void *more = realloc(books->by_name, cap * sizeof(*books->by_name));

        if (more == NULL) {
            books->n_by_name = 0; /* it may name nodes that are gone */
            return -ENOMEM;
        }
        books->by_name = more;
        books->cap_by_name = cap;
    }
    books->n_by_name = 0;
    while ((node = gs_map_next(&books->nodes, &pos)) != NULL)
        if (node->node.n_dev > 0)
            books->by_name[books->n_by_name++] = node;
    if (books->n_by_name > 0)
        qsort(books->by_name, books->n_by_name, sizeof(*books->by_name), by_name);
    for (size_t i = 0; i < books->n_by_name; i++)
        books->by_name[i]->rank = i;
    books->is_unsorted = false;
    return 0;
}

static void bring_up_to_date(struct gs_books *books)
{
    (void)sort_nodes(books); /* without memory the old ranks stay: ties fall elsewhere, no more */
    while (books->dirty != NULL) {
        struct gs_books_node_entry *node = books->dirty;

        books->dirty = node->next_dirty;
        node->is_dirty = false;
        if (gs_books_derive(books, node) < 0)
            for (size_t i = 0; i < node->node.n_dev; i++)
                node->use[i].is_closed = true; /* better nobody than one too many */
    }
}

const struct gs_node *gs_books_node(struct gs_books *books, struct gs_str name)
{
    struct gs_books_node_entry *node;

    if (books->dirty != NULL || books->is_unsorted)
        bring_up_to_date(books);
    node = gs_map_find(&books->nodes, name);
    return node != NULL && node->node.n_dev > 0 ? &node->node : NULL;
}

void gs_books_nodes(struct gs_books *books, const struct gs_str *name, size_t n,
                    const struct gs_node **ret)
{
    void *entry[64];

    if (books->dirty != NULL || books->is_unsorted)
        bring_up_to_date(books);
    for (size_t from = 0, part; from < n; from += part) {
        part = n - from < GS_ARRAY_LEN(entry) ? n - from : GS_ARRAY_LEN(entry);
        gs_map_find_many(&books->nodes, name + from, part, entry);
        for (size_t i = 0; i < part; i++) {
            const struct gs_books_node_entry *node = entry[i];

            ret[from + i] = node != NULL && node->node.n_dev > 0 ? &node->node : NULL;
            if (ret[from + i] == NULL)
                continue;
            __builtin_prefetch(node->node.room); /* the caller looks there next */
            __builtin_prefetch(node->node.group);
        }
    }
}

const struct gs_books_refusal *gs_books_note_refusal(const struct gs_node *node, uint64_t ask,
                                                     const struct gs_reasons *reasons)
{
    struct gs_books_node_entry *entry =
        (struct gs_books_node_entry *)(uintptr_t)gs_books_entry_of(node);

    entry->refused_ask = ask;
    entry->refused = (struct gs_books_refusal){
        gs_hash_bytes(reasons, offsetof(struct gs_reasons, best_device), 0),
        gs_shortage_lack(reasons), *reasons};
    return &entry->refused;
}

const struct gs_books_refusal *gs_books_refusal(const struct gs_node *node, uint64_t ask)
{
    const struct gs_books_node_entry *entry = gs_books_entry_of(node);

    return ask != 0 && entry->refused_ask == ask ? &entry->refused : NULL;
}

size_t gs_books_rank(const struct gs_node *node)
{
    return gs_books_entry_of(node)->rank;
}

const struct gs_node *gs_books_next(struct gs_books *books, size_t *pos)
{
    if (books->dirty != NULL || books->is_unsorted)
        bring_up_to_date(books);
    return *pos < books->n_by_name ? &books->by_name[(*pos)++]->node : NULL;
}

struct gs_books_counts gs_books_counts(const struct gs_books *books)
{
    struct gs_books_counts counts = {.devices = books->n_devices,
                                     .pods = books->pods.n,
                                     .reservations = books->n_reservations,
                                     .holds = books->holds.n};
    const struct gs_books_node_entry *node;
    size_t pos = 0;

    while ((node = gs_map_next(&books->nodes, &pos)) != NULL) {
        counts.nodes += node->node.n_dev > 0;
        counts.bare += node->is_there && node->node.n_dev == 0;
    }
    return counts;
}
