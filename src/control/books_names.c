/* Entries by name, of nodes and of namespaces: made when first spoken of, gone when nothing speaks
 * of them; and which nodes have changed. */

#include <stdlib.h>

#include "control/books_internal.h"

struct gs_books_part *gs_books_free_part(struct gs_books_part *part)
{
    if (part != NULL)
        gs_arena_fini(&part->arena);
    free(part);
    return NULL;
}

void gs_books_free_parts(struct gs_books_node_entry *node)
{
    while (node->part != NULL) {
        struct gs_books_part *part = node->part;

        node->part = part->next;
        gs_books_free_part(part);
    }
}

void gs_books_free_node(struct gs_books_node_entry *node)
{
    gs_books_free_parts(node);
    gs_arena_fini(&node->notes_arena);
    free(node->view_block);
    free(node->tenant);
    free(node->unreadable);
    free(node);
}

void gs_books_free_ns(struct gs_books_ns_entry *ns)
{
    while (ns->quota != NULL) {
        struct gs_books_quota_entry *quota = ns->quota;

        ns->quota = quota->next;
        free(quota);
    }
    free(ns);
}

struct gs_books_node_entry *gs_books_node_entry(struct gs_books *books, struct gs_str name)
{
    struct gs_books_node_entry *node = gs_map_find(&books->nodes, name);

    if (node != NULL)
        return node;
    node = gs_map_make(&books->nodes, name, sizeof(*node), &name);
    if (node != NULL)
        node->node.name = name;
    return node;
}

/* Out of both orders: of changes, and of what is to be added up. */
static void unmark(struct gs_books *books, struct gs_books_node_entry *node)
{
    struct gs_books_node_entry **at = &books->dirty;

    if (node->changed != 0)
        GS_LIST_REMOVE(&books->changes, node, change);
    if (!node->is_dirty)
        return;
    while (*at != node)
        at = &(*at)->next_dirty;
    *at = node->next_dirty;
    node->is_dirty = false;
}

void gs_books_drop_node_if_unused(struct gs_books *books, struct gs_books_node_entry *node)
{
    if (node == NULL || node->is_there || node->n_pods > 0)
        return;
    unmark(books, node);
    (void)gs_map_remove(&books->nodes, node->node.name);
    books->is_unsorted = true;
    gs_books_free_node(node);
}

struct gs_books_ns_entry *gs_books_ns_entry(struct gs_books *books, struct gs_str name)
{
    struct gs_books_ns_entry *ns = gs_map_find(&books->namespaces, name);
    size_t n = books->policies->n;

    if (ns != NULL)
        return ns;
    ns = gs_map_make(&books->namespaces, name, sizeof(*ns) + 2 * n * sizeof(*ns->sums), &name);
    if (ns == NULL)
        return NULL;
    ns->mem_used = ns->sums;
    ns->core_used = ns->sums + n;
    ns->name = name;
    return ns;
}

void gs_books_drop_ns_if_unused(struct gs_books *books, struct gs_books_ns_entry *ns)
{
    if (ns == NULL || ns->n_pods > 0 || ns->quota != NULL)
        return;
    (void)gs_map_remove(&books->namespaces, ns->name);
    gs_books_free_ns(ns);
}

/* ---- changes ---- */

const struct gs_books_node_entry *gs_books_entry_of(const struct gs_node *node)
{
    return (const struct gs_books_node_entry *)(const void *)((const char *)node -
                                                              offsetof(struct gs_books_node_entry,
                                                                       node));
}

void gs_books_mark_dirty(struct gs_books *books, struct gs_books_node_entry *node)
{
    if (node == NULL || node->is_dirty)
        return;
    node->is_dirty = true;
    node->next_dirty = books->dirty;
    books->dirty = node;
}

void gs_books_mark(struct gs_books *books, struct gs_books_node_entry *node)
{
    if (node == NULL)
        return;
    gs_books_mark_dirty(books, node);
    if (node->changed != 0)
        GS_LIST_REMOVE(&books->changes, node, change);
    node->changed = ++books->change;
    GS_LIST_APPEND(&books->changes, node, change);
}
