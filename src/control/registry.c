#include "control/registry.h"

#include <errno.h>
#include <stdlib.h>

#include <yyjson.h>

#include "base/log.h"
#include "control/doubt.h"
#include "control/feed.h"
#include "kube/json.h"
#include "kube/watch.h"
#include "model/node.h"
#include "net/loop.h"

/** One kind of object, and how far its watch is. */
struct source {
    struct gs_registry *registry;
    const struct gs_kube_resource *resource;
    struct gs_kube_watch *watch;
    bool is_synced, is_relisting;
};

#define SOURCES 3 /* nodes, pods, quotas */
#define PODS    1

struct gs_registry {
    struct gs_loop *loop;
    struct gs_books *books;
    struct gs_registry_opt opt;
    struct source source[SOURCES];
    struct gs_arena arena; /**< of one event */
    struct gs_feed feed;
    struct gs_doubt doubt;
    uint64_t node_events, pod_events, unreadable, untrusted;
    size_t claimed_twice; /**< devices, when they were told of last */
};

static void cannot_read(const struct source *s, const struct gs_kube_key *key,
                        const struct gs_err *err)
{
    s->registry->unreadable++;
    GS_LOG_WARN("object not understood", GS_LOG_CSTR("kind", s->resource->kind),
                GS_LOG_STR("ns", key->ns), GS_LOG_STR("name", key->name), GS_LOG_ERR(err));
}

/* ---- nodes ---- */

/* Said once for each change, by the node that made it. */
static void tell_claims(struct gs_registry *r, struct gs_str node)
{
    size_t n = gs_books_claimed_twice(r->books), before = r->claimed_twice;
    struct gs_str id, rival;

    r->claimed_twice = n;
    if (n > before && gs_books_rival(r->books, node, &id, &rival))
        GS_LOG_WARN("cards that two entries claim to be: nobody is given them",
                    GS_LOG_STR("card", id), GS_LOG_STR("node", node), GS_LOG_STR("rival", rival),
                    GS_LOG_UINT("cards", n));
    else if (n == 0 && before > 0)
        GS_LOG_INFO("no card is claimed twice any more", GS_LOG_STR("node", node));
}

static void on_node(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    const struct source *s = arg;
    struct gs_registry *r = s->registry;
    struct gs_kube_node node;
    struct gs_node_view view;
    struct gs_err err = {0};
    int rc;

    r->node_events++;
    gs_arena_reset(&r->arena);
    rc = gs_feed_node(&r->feed, object, &node, &view, &err);
    if (rc < 0)
        cannot_read(s, key, &err);
    if (view.name.n == 0)
        return;
    tell_claims(r, view.name);
    if (r->opt.node != NULL)
        r->opt.node(r->opt.arg, &node, &view);
}

static void on_node_gone(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    struct gs_registry *r = ((const struct source *)arg)->registry;

    (void)last;
    r->node_events++;
    gs_books_node_gone(r->books, key->name);
    tell_claims(r, key->name);
    if (r->opt.node_gone != NULL)
        r->opt.node_gone(r->opt.arg, key->name);
}

/* ---- pods ---- */

static void on_pod(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    const struct source *s = arg;
    struct gs_registry *r = s->registry;
    struct gs_feed_pod pod = {0};
    struct gs_err err = {0};
    int rc;

    r->pod_events++;
    gs_arena_reset(&r->arena);
    rc = gs_feed_pod(&r->feed, object, &pod, &err);
    if (rc < 0)
        cannot_read(s, key, &err);
    r->untrusted += pod.is_untrusted;
    if (rc == 0)
        gs_doubt_saw(&r->doubt, key->uid, key->ns, key->name, pod.is_untrusted && !pod.is_over);
    if (rc == 0 && r->opt.pod != NULL)
        r->opt.pod(r->opt.arg, &pod.pod);
}

static void on_pod_gone(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    struct gs_registry *r = ((const struct source *)arg)->registry;
    yyjson_val *node = yyjson_obj_get(yyjson_obj_get(last, "spec"), "nodeName");

    r->pod_events++;
    gs_doubt_saw(&r->doubt, key->uid, key->ns, key->name, false);
    if (last != NULL && gs_kube_json_text(node).n == 0) /* it never had one, whatever was sent */
        gs_books_pod_gone(r->books, key->uid);
    else
        gs_books_pod_deleted(r->books, key->uid, gs_loop_now_ms(r->loop));
    if (r->opt.pod_gone != NULL)
        r->opt.pod_gone(r->opt.arg, key);
}

/* ---- quotas ---- */

static void on_quota(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    const struct source *s = arg;
    struct gs_registry *r = s->registry;
    struct gs_err err = {0};
    int rc;

    gs_arena_reset(&r->arena);
    rc = gs_feed_quota(&r->feed, object, &err);
    if (rc < 0)
        cannot_read(s, key, &err);
}

static void on_quota_gone(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    struct gs_registry *r = ((const struct source *)arg)->registry;

    (void)last;
    gs_books_quota_gone(r->books, key->ns, key->name);
}

/* ---- watches ---- */

static void on_synced(void *arg)
{
    ((struct source *)arg)->is_synced = true;
}

/* Somebody who asked for it hears when the last of all is through. */
static void on_relisted(void *arg)
{
    struct source *s = arg;
    struct gs_registry *r = s->registry;

    if (!s->is_relisting)
        return;
    s->is_relisting = false;
    for (size_t i = 0; i < SOURCES; i++)
        if (r->source[i].is_relisting)
            return;
    if (r->opt.relisted != NULL)
        r->opt.relisted(r->opt.arg);
}

static void on_trouble(void *arg, const struct gs_err *why, uint32_t wait_ms)
{
    (void)arg;
    GS_LOG_WARN("watch interrupted, trying again", GS_LOG_ERR(why),
                GS_LOG_UINT("wait_ms", wait_ms));
}

int gs_registry_new(struct gs_kube_client *client, struct gs_books *books,
                    const struct gs_registry_opt *opt, struct gs_registry **ret, struct gs_err *err)
{
    static const struct gs_kube_watch_fns fns[SOURCES] = {
        {on_node, on_node, on_node_gone, on_synced, on_relisted, on_trouble},
        {on_pod, on_pod, on_pod_gone, on_synced, on_relisted, on_trouble},
        {on_quota, on_quota, on_quota_gone, on_synced, on_relisted, on_trouble},
    };
    const struct gs_kube_watch_opt what[SOURCES] = {
        {.resource = &gs_kube_nodes, .label_selector = opt->node_selector},
        [PODS] = {.resource = &gs_kube_pods},
        {.resource = &gs_kube_quotas},
    };
    struct gs_registry *r = calloc(1, sizeof(*r));
    int rc = 0;

    if (r == NULL)
        return -ENOMEM;
    r->loop = gs_kube_client_loop(client);
    r->doubt.loop = r->loop;
    r->books = books;
    r->opt = *opt;
    r->feed = (struct gs_feed){.books = books,
                               .arena = &r->arena,
                               .trusts = opt->trusts,
                               .arg = opt->arg,
                               .counts = opt->counts,
                               .bound = opt->bound};
    for (size_t i = 0; rc == 0 && i < SOURCES; i++) {
        struct source *s = &r->source[i];

        *s = (struct source){.registry = r, .resource = what[i].resource};
        rc = gs_kube_watch_new(client, &what[i], &fns[i], s, &s->watch, err);
    }
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
    for (size_t i = 0; i < SOURCES; i++)
        gs_kube_watch_free(r->source[i].watch);
    gs_doubt_fini(&r->doubt);
    gs_arena_fini(&r->arena);
    free(r);
    return NULL;
}

bool gs_registry_is_synced(const struct gs_registry *r)
{
    for (size_t i = 0; i < SOURCES; i++)
        if (!r->source[i].is_synced)
            return false;
    return true;
}

void gs_registry_stats(const struct gs_registry *r, struct gs_registry_stats *ret)
{
    *ret = (struct gs_registry_stats){.is_synced = gs_registry_is_synced(r),
                                      .node_events = r->node_events,
                                      .pod_events = r->pod_events,
                                      .unreadable = r->unreadable,
                                      .untrusted = r->untrusted,
                                      .untrusted_pods = r->doubt.pod.n,
                                      .heard_ms = INT64_MAX};
    for (size_t i = 0; i < SOURCES; i++) {
        struct gs_kube_watch_stats stats;

        gs_kube_watch_stats(r->source[i].watch, &stats);
        if (stats.heard_ms < ret->heard_ms)
            ret->heard_ms = stats.heard_ms;
        if (i == PODS)
            ret->listed_ms = stats.listed_ms;
    }
}

void gs_registry_relist_pods(struct gs_registry *r)
{
    gs_kube_watch_relist(r->source[PODS].watch);
}

void gs_registry_relist(struct gs_registry *r)
{
    for (size_t i = 0; i < SOURCES; i++)
        r->source[i].is_relisting = true;
    for (size_t i = 0; i < SOURCES; i++)
        gs_kube_watch_relist(r->source[i].watch);
}
