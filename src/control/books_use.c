/* Adding up: what the pods on a node take of its devices. */

#include <errno.h>
#include <stdlib.h>

#include "control/books_internal.h"
#include "model/order.h"

/* The device of a share; n_dev: none of this node (the card left, the pod stays). */
static size_t device_of(const struct gs_node *node, const struct gs_policy *policy,
                        struct gs_str uuid)
{
    const struct gs_group *group = gs_node_group(node, policy);

    for (uint32_t i = 0; group != NULL && i < group->n; i++)
        if (gs_str_eq(node->dev[group->first + i].id, uuid))
            return group->first + i;
    return node->n_dev;
}

static void add(const struct gs_policy *policy, const struct gs_device *dev, struct gs_use *use,
                const struct gs_books_share *share, size_t index)
{
    struct gs_pick pick = {.dev = (uint32_t)index,
                           .mem_mib = share->mem_mib,
                           .cores = share->cores,
                           .place_start = share->place_start,
                           .place_size = share->place_size};

    if (share->slots == 0)
        return; /* a placement alone: its amounts are in the grant's own share */
    if (policy->ops->book != NULL) {
        policy->ops->book(policy, dev, use, &pick);
        use->slots = (int32_t)(use->slots + share->slots - 1);
        return;
    }
    if (__builtin_add_overflow(use->slots, share->slots, &use->slots))
        use->slots = INT32_MAX;
    if (__builtin_add_overflow(use->mem_mib, share->mem_mib, &use->mem_mib))
        use->mem_mib = INT32_MAX;
    if (__builtin_add_overflow(use->cores, share->cores, &use->cores))
        use->cores = INT32_MAX;
}

static int make_room(struct gs_books_node_entry *node)
{
    size_t wanted = 0;
    void *more;

    for (const struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = p->node_next)
        wanted += p->n_shares;
    if (wanted <= node->cap_tenants)
        return 0;
    more = realloc(node->tenant, wanted * 2 * sizeof(*node->tenant));
    if (more == NULL)
        return -ENOMEM;
    node->tenant = more;
    node->cap_tenants = wanted * 2;
    return 0;
}

/* Tenants of one device behind those that are there already. */
static size_t add_tenants(struct gs_books *books, struct gs_books_node_entry *node, size_t dev,
                          size_t n)
{
    struct gs_use *use = &node->use[dev];

    use->tenant = node->tenant + n;
    for (const struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = p->node_next)
        for (uint32_t i = 0; i < p->n_shares; i++) {
            const struct gs_books_share *share = &p->share[i];
            const struct gs_policy *policy = books->policies->at[share->policy];

            if (device_of(&node->node, policy, share->uuid) != dev)
                continue;
            add(policy, &node->node.dev[dev], use, share, dev);
            node->tenant[n++] = (struct gs_tenant){
                .uid = p->uid,
                .slots = share->slots,
                .mem_mib = share->mem_mib,
                .cores = share->cores,
                .tag = p->tag != NULL ? p->tag[share->policy] : 0,
                .place_start = share->place_start,
                .place_size = share->place_size,
            };
            use->n_tenants++;
        }
    return n;
}

int gs_books_derive(struct gs_books *books, struct gs_books_node_entry *node)
{
    size_t n = 0;

    for (size_t i = 0; i < node->node.n_dev; i++)
        node->use[i] = (struct gs_use){0};
    if (make_room(node) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < node->node.n_dev; i++)
        n = add_tenants(books, node, i, n);
    for (const struct gs_books_part *part = node->part; part != NULL; part = part->next) {
        const struct gs_policy *policy = books->policies->at[part->policy];

        for (uint32_t i = part->group.first; i < part->group.first + part->group.n; i++) {
            node->use[i].is_closed |= part->is_muted;
            if (policy->ops->audit != NULL)
                policy->ops->audit(policy, &node->node.dev[i], &node->use[i]);
        }
    }
    node->score = gs_node_score(&node->node);
    return 0;
}
