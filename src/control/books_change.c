/* What has changed, and when: for those who look again only at what did. */

#include "control/books_internal.h"

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

void gs_books_unmark(struct gs_books *books, struct gs_books_node_entry *node)
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

uint64_t gs_books_change(const struct gs_books *books)
{
    return books->change;
}

/* This one, or the next that has devices and is not beyond `until`. */
static const struct gs_node *settle(struct gs_books *books, const struct gs_books_node_entry *node,
                                    uint64_t until, uint64_t *ret_change)
{
    while (node != NULL && node->node.n_dev == 0)
        node = node->change.next;
    if (node == NULL || node->changed > until)
        return NULL;
    *ret_change = node->changed;
    return gs_books_node(books, node->node.name);
}

const struct gs_node *gs_books_changed(struct gs_books *books, uint64_t since, uint64_t until,
                                       uint64_t *ret_change)
{
    const struct gs_books_node_entry *node = books->changes.last, *first = NULL;

    for (; node != NULL && node->changed > since; node = node->change.prev)
        first = node;
    return settle(books, first, until, ret_change);
}

const struct gs_node *gs_books_changed_next(struct gs_books *books, const struct gs_node *node,
                                            uint64_t until, uint64_t *ret_change)
{
    return settle(books, gs_books_entry_of(node)->change.next, until, ret_change);
}

uint64_t gs_books_quota_change(const struct gs_books *books, struct gs_str ns)
{
    const struct gs_books_ns_entry *entry = gs_map_find(&books->namespaces, ns);

    return entry != NULL && entry->quota != NULL ? entry->changed : books->change;
}
