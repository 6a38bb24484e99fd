/* Who has what of a node: for those who ask what would be if some of them left. */

#include <errno.h>

#include "control/books_internal.h"

static enum gs_books_guest_kind kind_of(const struct gs_books_pod_entry *pod)
{
    return pod->is_hold          ? GS_BOOKS_GUEST_HOLD
           : pod->is_reservation ? GS_BOOKS_GUEST_RESERVATION
           : pod->is_leftover    ? GS_BOOKS_GUEST_LEFTOVER
                                 : GS_BOOKS_GUEST_POD;
}

static void add_guest(const struct gs_books_pod_entry *pod, struct gs_books_guest *ret)
{
    *ret = (struct gs_books_guest){
        .uid = pod->uid,
        .ns = pod->ns,
        .name = pod->name,
        .labels = &pod->labels,
        .kind = kind_of(pod),
        .priority = pod->priority,
        .start_us = pod->start_us,
        /* by itself: nobody has to leave in its place */
        .ends_us = pod->is_leftover && pod->until_ms > 0 ? INT64_MAX : pod->ends_us,
    };
}

/* Stakes in one device. */
static size_t add_stakes(const struct gs_books *books, const struct gs_books_node_entry *node,
                         size_t dev, struct gs_books_stake *at)
{
    uint32_t guest = 0;
    size_t n = 0;

    for (const struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = p->on_node.next) {
        if (!gs_books_is_counted(books, p))
            continue;
        for (uint32_t i = 0; i < p->n_shares; i++) {
            const struct gs_books_share *share = &p->share[i];

            if (gs_books_device(&node->node, books->policies->at[share->policy], share->uuid) ==
                dev)
                at[n++] = (struct gs_books_stake){
                    .dev = (uint32_t)dev,
                    .guest = guest,
                    .tenant = gs_books_tenant(p, share),
                };
        }
        guest++;
    }
    return n;
}

bool gs_books_lowest_on(const struct gs_books *books, struct gs_str name, int32_t *ret)
{
    const struct gs_books_node_entry *node = gs_map_find(&books->nodes, name);
    bool is_there = false;

    for (const struct gs_books_pod_entry *p = node != NULL ? node->pods.first : NULL; p != NULL;
         p = p->on_node.next)
        if (gs_books_may_go(p) && (!is_there || p->priority < *ret)) {
            is_there = true;
            *ret = p->priority;
        }
    return is_there;
}

static bool is_same(const struct gs_books_instance *a, const struct gs_books_instance *b)
{
    return gs_str_eq(a->mig_uuid, b->mig_uuid);
}

size_t gs_books_instances(const struct gs_node *node, size_t dev, struct gs_books_instance *ret,
                          size_t cap)
{
    const struct gs_books_node_entry *entry = gs_books_entry_of(node);
    size_t n = 0;

    for (const struct gs_books_pod_entry *p = entry->pods.first; p != NULL; p = p->on_node.next)
        for (uint32_t i = 0; i < p->n_shares && n < cap; i++) {
            size_t k = 0;

            if (p->share[i].made == NULL || p->share[i].dev != dev)
                continue;
            while (k < n && !is_same(&ret[k], p->share[i].made))
                k++;
            if (k == n)
                ret[n++] = *p->share[i].made;
        }
    return n;
}

int gs_books_guests(struct gs_books *books, struct gs_str name, struct gs_arena *arena,
                    struct gs_books_guests *ret)
{
    const struct gs_books_node_entry *node = gs_map_find(&books->nodes, name);
    struct gs_books_guest *guest;
    struct gs_books_stake *stake;
    size_t n = 0, n_shares = 0, n_stakes = 0;
    bool *is_shut;

    if (gs_books_node(books, name) == NULL)
        return -ENOENT;
    for (const struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = p->on_node.next)
        n_shares += p->n_shares;
    guest = GS_ARENA_ARRAY(arena, node->n_pods, struct gs_books_guest);
    stake = GS_ARENA_ARRAY(arena, n_shares, struct gs_books_stake);
    is_shut = GS_ARENA_ARRAY(arena, node->node.n_dev, bool);
    if (guest == NULL || stake == NULL || is_shut == NULL)
        return -ENOMEM;
    for (const struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = p->on_node.next)
        if (gs_books_is_counted(books, p))
            add_guest(p, &guest[n++]);
    for (const struct gs_books_part *part = node->part; part != NULL; part = part->next)
        for (uint32_t i = part->group.first; i < part->group.first + part->group.n; i++)
            is_shut[i] = gs_books_is_shut(node, part, &node->node.dev[i]);
    for (size_t dev = 0; dev < node->node.n_dev; dev++)
        n_stakes += add_stakes(books, node, dev, &stake[n_stakes]);
    *ret = (struct gs_books_guests){&node->node, is_shut, guest, n, stake, n_stakes};
    return 0;
}
