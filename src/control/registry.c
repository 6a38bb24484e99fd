#include "control/registry.h"

#include <errno.h>
#include <stdlib.h>

#include <yyjson.h>

#include "base/log.h"
#include "control/feed.h"
#include "kube/watch.h"
#include "model/node.h"
#include "net/loop.h"

enum { NODES, PODS, QUOTAS, KINDS };

struct gs_registry {
    struct gs_loop *loop;
    struct gs_books *books;
    struct gs_registry_opt opt;
    struct gs_kube_watch *watch[KINDS];
    struct gs_arena arena; /**< of one event */
    struct gs_feed feed;
    bool is_synced[KINDS];
    bool is_relisting[KINDS];
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

static void on_node(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    struct gs_registry *r = arg;
    struct gs_kube_node node;
    struct gs_node_view view;
    struct gs_err err = {0};
    int rc;

    r->node_events++;
    gs_arena_reset(&r->arena);
    rc = gs_feed_node(&r->feed, object, &node, &view, &err);
    if (rc < 0)
        cannot_read(r, "Node", key, &err);
    if (view.name.n == 0)
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
    if (r->opt.node_gone != NULL)
        r->opt.node_gone(r->opt.arg, key->name);
}

/* ---- pods ---- */

static void on_pod(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    struct gs_registry *r = arg;
    struct gs_feed_pod pod = {0};
    struct gs_err err = {0};
    int rc;

    r->pod_events++;
    gs_arena_reset(&r->arena);
    rc = gs_feed_pod(&r->feed, object, &pod, &err);
    if (rc < 0)
        cannot_read(r, "Pod", key, &err);
    r->untrusted += pod.is_untrusted;
    if (rc == 0 && r->opt.pod != NULL)
        r->opt.pod(r->opt.arg, &pod.pod);
    if (pod.is_over)
        freed(r);
}

static void on_pod_gone(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    struct gs_registry *r = arg;

    (void)last;
    r->pod_events++;
    gs_books_pod_deleted(r->books, key->uid, gs_loop_now_ms(r->loop));
    if (r->opt.pod_gone != NULL)
        r->opt.pod_gone(r->opt.arg, key);
    freed(r);
}

/* ---- quotas ---- */

static void on_quota(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    struct gs_registry *r = arg;
    struct gs_err err = {0};
    int rc;

    gs_arena_reset(&r->arena);
    rc = gs_feed_quota(&r->feed, object, &err);
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

static void relisted(struct gs_registry *r, unsigned kind)
{
    if (!r->is_relisting[kind])
        return;
    r->is_relisting[kind] = false;
    for (size_t i = 0; i < KINDS; i++)
        if (r->is_relisting[i])
            return;
    if (r->opt.relisted != NULL)
        r->opt.relisted(r->opt.arg);
}

static void nodes_relisted(void *arg)
{
    relisted(arg, NODES);
}

static void pods_relisted(void *arg)
{
    relisted(arg, PODS);
}

static void quotas_relisted(void *arg)
{
    relisted(arg, QUOTAS);
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
        [NODES] = {on_node, on_node, on_node_gone, nodes_synced, nodes_relisted, trouble},
        [PODS] = {on_pod, on_pod, on_pod_gone, pods_synced, pods_relisted, trouble},
        [QUOTAS] = {on_quota, on_quota, on_quota_gone, quotas_synced, quotas_relisted, trouble},
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
    r->loop = gs_kube_client_loop(client);
    r->books = books;
    r->opt = *opt;
    r->feed = (struct gs_feed){.books = books,
                               .arena = &r->arena,
                               .trusts = opt->trusts,
                               .arg = opt->arg,
                               .counts = opt->counts,
                               .bound = opt->bound};
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
        r->is_relisting[i] = true;
    for (size_t i = 0; i < KINDS; i++)
        gs_kube_watch_relist(r->watch[i]);
}
