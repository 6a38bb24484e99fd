/* Adding up: what the pods on a node take of its devices. */

#include <errno.h>
#include <stdlib.h>

#include "control/books_internal.h"
#include "model/usage.h"

bool gs_books_counts_not(const struct gs_books *books, const struct gs_books_pod_entry *pod)
{
    return pod->is_hold && (pod->is_lifted || gs_map_find(&books->pods, pod->uid) != NULL);
}

size_t gs_books_device(const struct gs_node *node, const struct gs_policy *policy,
                       struct gs_str uuid)
{
    const struct gs_group *group = gs_node_group(node, policy);

    for (uint32_t i = 0; group != NULL && i < group->n; i++)
        if (gs_str_eq(node->dev[group->first + i].id, uuid))
            return group->first + i;
    return node->n_dev;
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
    for (const struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = p->node_next) {
        if (gs_books_counts_not(books, p))
            continue;
        for (uint32_t i = 0; i < p->n_shares; i++) {
            const struct gs_books_share *share = &p->share[i];
            const struct gs_policy *policy = books->policies->at[share->policy];

            if (gs_books_device(&node->node, policy, share->uuid) != dev)
                continue;
            node->tenant[n] = (struct gs_tenant){
                .uid = p->uid,
                .slots = share->slots,
                .mem_mib = share->mem_mib,
                .cores = share->cores,
                .tag = p->tag != NULL ? p->tag[share->policy] : 0,
                .place_start = share->place_start,
                .place_size = share->place_size,
            };
            gs_usage_count(policy, &node->node.dev[dev], use, &node->tenant[n++]);
            use->n_tenants++;
        }
    }
    return n;
}

bool gs_books_is_shut(const struct gs_books_node_entry *node, const struct gs_books_part *part,
                      const struct gs_device *dev)
{
    for (size_t i = 0; i < node->notes.n_cards; i++)
        if (gs_str_eq(node->notes.card[i], dev->id))
            return true;
    return part->is_muted;
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
            node->use[i].is_closed |= gs_books_is_shut(node, part, &node->node.dev[i]);
            if (policy->ops->audit != NULL)
                policy->ops->audit(policy, &node->node.dev[i], &node->use[i]);
        }
    }
    gs_usage_settle(&node->node, node->room);
    return 0;
}
