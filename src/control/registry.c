#include "control/registry.h"

#include <errno.h>
#include <stdlib.h>

#include <yyjson.h>

#include "base/log.h"
#include "control/pod.h"
#include "kube/view.h"
#include "kube/watch.h"
#include "model/quantity.h"

enum { NODES, PODS, QUOTAS, KINDS };

struct gs_registry {
    struct gs_books *books;
    struct gs_registry_opt opt;
    struct gs_kube_watch *watch[KINDS];
    struct gs_arena arena; /**< of one event */
    bool is_synced[KINDS];
    uint64_t node_events, pod_events, unreadable, untrusted;
};

static void cannot_read(struct gs_registry *r, const char *kind, const struct gs_kube_key *key,
                        const struct gs_err *err)
{
    r->unreadable++;
    GS_LOG_WARN("object not understood", GS_LOG_CSTR("kind", kind), GS_LOG_STR("ns", key->ns),
                GS_LOG_STR("name", key->name), GS_LOG_ERR(err));
}

static void freed(struct gs_registry *r)
{
    if (r->opt.freed != NULL)
        r->opt.freed(r->opt.arg);
}

/* ---- nodes ---- */

static int node_view(struct gs_registry *r, const struct gs_kube_node *node, struct gs_pairs *pairs,
                     struct gs_node_view *ret)
{
    int rc = gs_control_pairs(&node->meta.annotations, &r->arena, &pairs[0]);

    if (rc == 0)
        rc = gs_control_pairs(&node->meta.labels, &r->arena, &pairs[1]);
    if (rc == 0)
        rc = gs_control_pairs(&node->capacity, &r->arena, &pairs[2]);
    if (rc == 0)
        rc = gs_control_pairs(&node->allocatable, &r->arena, &pairs[3]);
    *ret = (struct gs_node_view){node->meta.name, &pairs[0], &pairs[1], &pairs[2], &pairs[3]};
    return rc;
}

static void on_node(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    struct gs_registry *r = arg;
    struct gs_kube_node node;
    struct gs_node_view view;
    struct gs_pairs pairs[4];
    struct gs_err err = {0};
    int rc;

    r->node_events++;
    gs_arena_reset(&r->arena);
    rc = gs_kube_view_node(object, &r->arena, &node, &err);
    if (rc == 0)
        rc = node_view(r, &node, pairs, &view);
    if (rc == 0)
        rc = gs_books_node_set(r->books, &view, &err);
    if (rc < 0)
        cannot_read(r, "Node", key, &err);
    if (rc < 0 && rc != -EINVAL)
        return;
    if (r->opt.node != NULL)
        r->opt.node(r->opt.arg, &node, &view);
    freed(r);
}

static void on_node_gone(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    struct gs_registry *r = arg;

    (void)last;
    r->node_events++;
    gs_books_node_gone(r->books, key->name);
}

/* ---- pods ---- */

static void on_pod(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    struct gs_registry *r = arg;
    struct gs_kube_pod pod;
    struct gs_pod placed;
    struct gs_books_pod entry;
    struct gs_err err = {0};
    int rc;

    r->pod_events++;
    gs_arena_reset(&r->arena);
    rc = gs_kube_view_pod(object, &r->arena, &pod, &err);
    if (rc == 0)
        rc = gs_control_pod(&pod, &r->arena, &placed);
    if (rc == 0)
        rc = gs_control_books_pod(&pod, &placed, gs_books_policies(r->books), &r->arena, &entry);
    if (rc == 0 && entry.node.n > 0 && r->opt.trusts != NULL && !r->opt.trusts(r->opt.arg, &pod)) {
        r->untrusted++;
        entry.grant = GS_ARENA_ARRAY(&r->arena, gs_books_policies(r->books)->n, struct gs_str);
        rc = gs_arena_check(&r->arena);
    }
    if (rc == 0)
        rc = gs_books_pod_set(r->books, &entry, &err);
    if (rc < 0)
        cannot_read(r, "Pod", key, &err);
    if (rc == 0 && entry.is_over)
        freed(r);
}

static void on_pod_gone(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    struct gs_registry *r = arg;

    (void)last;
    r->pod_events++;
    gs_books_pod_gone(r->books, key->uid);
    freed(r);
}

/* ---- quotas ---- */

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

static void on_quota(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    struct gs_registry *r = arg;
    const struct gs_policies *policies = gs_books_policies(r->books);
    struct gs_kube_quota quota;
    struct gs_err err = {0};
    int64_t *mem, *core;
    int rc;

    gs_arena_reset(&r->arena);
    rc = gs_kube_view_quota(object, &r->arena, &quota, &err);
    mem = GS_ARENA_ARRAY(&r->arena, policies->n, int64_t);
    core = GS_ARENA_ARRAY(&r->arena, policies->n, int64_t);
    if (rc == 0 && (mem == NULL || core == NULL))
        rc = -ENOMEM;
    for (size_t i = 0; rc == 0 && i < policies->n; i++) {
        mem[i] = limit_of(&quota, policies->at[i]->names.mem, &r->arena);
        core[i] = limit_of(&quota, policies->at[i]->names.core, &r->arena);
    }
    if (rc == 0)
        rc = gs_books_quota_set(r->books, key->ns, key->name, mem, core);
    if (rc < 0)
        cannot_read(r, "ResourceQuota", key, &err);
    freed(r);
}

static void on_quota_gone(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    struct gs_registry *r = arg;

    (void)last;
    gs_books_quota_gone(r->books, key->ns, key->name);
    freed(r);
}

/* ---- watches ---- */

static void nodes_synced(void *arg)
{
    ((struct gs_registry *)arg)->is_synced[NODES] = true;
}

static void pods_synced(void *arg)
{
    ((struct gs_registry *)arg)->is_synced[PODS] = true;
}

static void quotas_synced(void *arg)
{
    ((struct gs_registry *)arg)->is_synced[QUOTAS] = true;
}

static void trouble(void *arg, const struct gs_err *why, uint32_t wait_ms)
{
    (void)arg;
    GS_LOG_WARN("watch interrupted, trying again", GS_LOG_ERR(why),
                GS_LOG_UINT("wait_ms", wait_ms));
}

int gs_registry_new(struct gs_kube_client *client, struct gs_books *books,
                    const struct gs_registry_opt *opt, struct gs_registry **ret, struct gs_err *err)
{
    static const struct gs_kube_watch_fns fns[KINDS] = {
        [NODES] = {on_node, on_node, on_node_gone, nodes_synced, NULL, trouble},
        [PODS] = {on_pod, on_pod, on_pod_gone, pods_synced, NULL, trouble},
        [QUOTAS] = {on_quota, on_quota, on_quota_gone, quotas_synced, NULL, trouble},
    };
    const struct gs_kube_watch_opt what[KINDS] = {
        [NODES] = {.resource = &gs_kube_nodes, .label_selector = opt->node_selector},
        [PODS] = {.resource = &gs_kube_pods},
        [QUOTAS] = {.resource = &gs_kube_quotas},
    };
    struct gs_registry *r = calloc(1, sizeof(*r));
    int rc = 0;

    if (r == NULL)
        return -ENOMEM;
    r->books = books;
    r->opt = *opt;
    for (size_t i = 0; rc == 0 && i < KINDS; i++)
        rc = gs_kube_watch_new(client, &what[i], &fns[i], r, &r->watch[i], err);
    if (rc < 0) {
        gs_registry_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

struct gs_registry *gs_registry_free(struct gs_registry *r)
{
    if (r == NULL)
        return NULL;
    for (size_t i = 0; i < KINDS; i++)
        gs_kube_watch_free(r->watch[i]);
    gs_arena_fini(&r->arena);
    free(r);
    return NULL;
}

bool gs_registry_is_synced(const struct gs_registry *r)
{
    return r->is_synced[NODES] && r->is_synced[PODS] && r->is_synced[QUOTAS];
}

void gs_registry_stats(const struct gs_registry *r, struct gs_registry_stats *ret)
{
    *ret = (struct gs_registry_stats){.is_synced = gs_registry_is_synced(r),
                                      .node_events = r->node_events,
                                      .pod_events = r->pod_events,
                                      .unreadable = r->unreadable,
                                      .untrusted = r->untrusted,
                                      .heard_ms = INT64_MAX};
    for (size_t i = 0; i < KINDS; i++) {
        struct gs_kube_watch_stats stats;

        gs_kube_watch_stats(r->watch[i], &stats);
        if (stats.heard_ms < ret->heard_ms)
            ret->heard_ms = stats.heard_ms;
    }
}

void gs_registry_relist(struct gs_registry *r)
{
    for (size_t i = 0; i < KINDS; i++)
        gs_kube_watch_relist(r->watch[i]);
}
