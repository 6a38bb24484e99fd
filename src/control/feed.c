#include "control/feed.h"

#include <errno.h>

#include "cluster/pairs.h"
#include "control/convert.h"
#include "model/node.h"
#include "model/quantity.h"

static int view_of(const struct gs_kube_node *node, struct gs_arena *arena,
                   struct gs_node_view *ret)
{
    struct gs_pairs *pairs = GS_ARENA_ARRAY(arena, 4, struct gs_pairs);
    int rc = pairs != NULL ? 0 : -ENOMEM;

    if (rc == 0)
        rc = gs_pairs_convert(&node->meta.annotations, arena, &pairs[0]);
    if (rc == 0)
        rc = gs_pairs_convert(&node->meta.labels, arena, &pairs[1]);
    if (rc == 0)
        rc = gs_pairs_convert(&node->capacity, arena, &pairs[2]);
    if (rc == 0)
        rc = gs_pairs_convert(&node->allocatable, arena, &pairs[3]);
    if (rc == 0)
        *ret = (struct gs_node_view){node->meta.name, &pairs[0], &pairs[1], &pairs[2], &pairs[3]};
    return rc;
}

int gs_feed_node(const struct gs_feed *feed, struct yyjson_val *object,
                 struct gs_kube_node *ret_node, struct gs_node_view *ret_view, struct gs_err *err)
{
    int rc = gs_kube_view_node(object, feed->arena, ret_node, err);

    *ret_view = (struct gs_node_view){0};
    if (rc == 0)
        rc = view_of(ret_node, feed->arena, ret_view);
    return rc == 0 ? gs_books_node_set(feed->books, ret_view, err) : rc;
}

/* A grant that is not believed. True: the books keep what they knew. */
static bool distrust(const struct gs_feed *feed, struct gs_books_pod *entry, bool *ret_untrusted)
{
    size_t n = gs_books_policies(feed->books)->n;
    struct gs_books_holder holder;

    for (size_t i = 0; i < n; i++)
        *ret_untrusted |= entry->grant[i].n > 0 || entry->placements[i].n > 0;
    if (!entry->is_over && gs_books_holder(feed->books, entry->uid, &holder))
        return true;
    entry->grant = GS_ARENA_ARRAY(feed->arena, n, struct gs_str);
    entry->placements = NULL;
    return false;
}

/* What its owner wrote beside what he was given. */
static int drop_unsigned(const struct gs_feed *feed, const struct gs_kube_pod *pod,
                         struct gs_books_pod *entry)
{
    const struct gs_policies *policies = gs_books_policies(feed->books);
    struct gs_str *grant = GS_ARENA_ARRAY(feed->arena, policies->n, struct gs_str);
    struct gs_str *placements = GS_ARENA_ARRAY(feed->arena, policies->n, struct gs_str);

    if (grant == NULL || placements == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < policies->n; i++) {
        const struct gs_keys *keys = &policies->at[i]->keys;

        if (entry->grant[i].n > 0 && feed->counts(feed->arg, pod, keys->allocated))
            grant[i] = entry->grant[i];
        if (entry->placements[i].n > 0 && feed->counts(feed->arg, pod, keys->placements))
            placements[i] = entry->placements[i];
    }
    entry->grant = grant;
    entry->placements = placements;
    return 0;
}

int gs_feed_pod(const struct gs_feed *feed, struct yyjson_val *object, struct gs_feed_pod *ret,
                struct gs_err *err)
{
    const struct gs_policies *policies = gs_books_policies(feed->books);
    struct gs_feed_pod got = {0};
    struct gs_books_holder holder;
    struct gs_books_pod entry;
    bool is_kept = false;
    int rc = gs_kube_view_pod(object, feed->arena, &got.pod, err);

    if (rc == 0)
        rc = gs_convert_pod(&got.pod, feed->arena, &got.model);
    if (rc == 0)
        rc = gs_convert_books_pod(&got.pod, &got.model, policies, feed->arena, &entry);
    if (rc < 0)
        return rc;
    got.is_over = entry.is_over;
    if (entry.node.n > 0 && feed->bound != NULL &&
        gs_books_holder(feed->books, entry.uid, &holder) && holder.is_reservation)
        feed->bound(feed->arg, &got.pod);
    if (entry.node.n > 0 && feed->trusts != NULL && !feed->trusts(feed->arg, &got.pod)) {
        is_kept = distrust(feed, &entry, &got.is_untrusted);
        rc = gs_arena_check(feed->arena);
    } else if (entry.node.n > 0 && feed->counts != NULL) {
        rc = drop_unsigned(feed, &got.pod, &entry);
    }
    if (rc == 0 && !is_kept)
        rc = gs_books_pod_set(feed->books, &entry, err);
    if (rc == 0)
        *ret = got;
    return rc;
}

/* hard["limits.<resource>"] as a plain number; -1: none, or none that HAMi would take. */
static int64_t limit_of(const struct gs_kube_quota *quota, struct gs_str resource,
                        struct gs_arena *arena)
{
    const struct gs_str *text;
    int64_t limit;

    if (resource.n == 0)
        return -1;
    text = gs_kube_pairs_find(&quota->hard,
                              gs_arena_printf(arena, "limits.%.*s", (int)resource.n, resource.p));
    return text != NULL && gs_quantity_int(*text, &limit) == 0 && limit >= 0 ? limit : -1;
}

int gs_feed_quota(const struct gs_feed *feed, struct yyjson_val *object, struct gs_err *err)
{
    const struct gs_policies *policies = gs_books_policies(feed->books);
    int64_t *mem = GS_ARENA_ARRAY(feed->arena, policies->n, int64_t);
    int64_t *core = GS_ARENA_ARRAY(feed->arena, policies->n, int64_t);
    struct gs_kube_quota quota;
    int rc = gs_kube_view_quota(object, feed->arena, &quota, err);

    if (rc == 0 && (mem == NULL || core == NULL))
        rc = -ENOMEM;
    for (size_t i = 0; rc == 0 && i < policies->n; i++) {
        mem[i] = limit_of(&quota, policies->at[i]->names.mem, feed->arena);
        core[i] = limit_of(&quota, policies->at[i]->names.core, feed->arena);
    }
    if (rc == 0)
        rc = gs_arena_check(feed->arena);
    if (rc == 0)
        rc = gs_books_quota_set(feed->books, quota.meta.ns, quota.meta.name, mem, core);
    return rc;
}
