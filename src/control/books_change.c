/* What has changed, and when: for those who look again only at what did. */

#include "control/books_internal.h"

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
