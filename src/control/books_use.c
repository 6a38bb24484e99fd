/* Adding up: what the pods on a node take of its devices. */

#include <errno.h>
#include <stdlib.h>

#include "control/books_internal.h"
#include "model/node.h"
#include "model/usage.h"

bool gs_books_is_counted(const struct gs_books *books, const struct gs_books_pod_entry *pod)
{
    return !pod->is_hold || (!pod->is_lifted && gs_map_find(&books->pods, pod->uid) == NULL);
}

struct gs_tenant gs_books_tenant(const struct gs_books_pod_entry *pod,
                                 const struct gs_books_share *share)
{
    return (struct gs_tenant){
        .uid = pod->uid,
        .slots = share->slots,
        .mem_mib = share->mem_mib,
        .cores = share->cores,
        .tag = pod->tag != NULL ? pod->tag[share->policy] : 0,
        .place_start = share->place_start,
        .place_size = share->place_size,
    };
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

/* Find every share's device, and count the tenants of each. Number of all. */
static size_t find_devices(struct gs_books *books, struct gs_books_node_entry *node)
{
    size_t n = 0;

    for (const struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = p->on_node.next) {
        bool counts = gs_books_is_counted(books, p);

        for (uint32_t i = 0; i < p->n_shares; i++) {
            struct gs_books_share *share = &p->share[i];
            const struct gs_policy *policy = books->policies->at[share->policy];

            share->dev = (uint32_t)(counts ? gs_books_device(&node->node, policy, share->uuid)
                                           : node->node.n_dev);
            if (share->dev == node->node.n_dev)
                continue;
            node->use[share->dev].n_tenants++;
            n++;
        }
    }
    return n;
}

static int make_room(struct gs_books_node_entry *node, size_t wanted)
{
    void *more;

    if (wanted <= node->cap_tenants)
        return 0;
    more = realloc(node->tenant, wanted * 2 * sizeof(*node->tenant));
    if (more == NULL)
        return -ENOMEM;
    node->tenant = more;
    node->cap_tenants = wanted * 2;
    return 0;
}

/* Every device's tenants lie together. */
static void lay_out(struct gs_books_node_entry *node)
{
    struct gs_tenant *at = node->tenant;

    for (size_t i = 0; i < node->node.n_dev && at != NULL; i++) {
        node->use[i].tenant = at;
        at += node->use[i].n_tenants;
        node->use[i].n_tenants = 0;
    }
}

static void add_tenants(struct gs_books *books, struct gs_books_node_entry *node,
                        const struct gs_books_pod_entry *p)
{
    for (uint32_t i = 0; i < p->n_shares; i++) {
        const struct gs_books_share *share = &p->share[i];
        const struct gs_policy *policy = books->policies->at[share->policy];
        struct gs_use *use = &node->use[share->dev];
        struct gs_tenant *tenant;

        if (share->dev == node->node.n_dev)
            continue;
        tenant = &node->tenant[(size_t)(use->tenant - node->tenant) + use->n_tenants++];
        *tenant = gs_books_tenant(p, share);
        gs_usage_count(policy, &node->node.dev[share->dev], use, tenant);
    }
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
    node->refused_ask = 0;
    for (size_t i = 0; i < node->node.n_dev; i++)
        node->use[i] = (struct gs_use){0};
    if (make_room(node, find_devices(books, node)) < 0)
        return -ENOMEM;
    lay_out(node);
    for (const struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = p->on_node.next)
        add_tenants(books, node, p);
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
