#include "node/grants.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/map.h"
#include "cluster/sign.h"
#include "contract/names.h"
#include "core/size.h"
#include "kube/watch.h"

struct gs_grants {
    struct gs_grants_opt opt;
    struct gs_kube_watch *watch;
    struct gs_map pods;    /* by UID */
    struct gs_arena frame; /* of one event's view */
    uint64_t n_seen;
    char *selector;
    bool is_synced;
};

/* ---- reading a pod ---- */

static struct gs_str note(const struct gs_kube_pod *view, struct gs_str key)
{
    const struct gs_str *value = gs_kube_pairs_find(&view->meta.annotations, key);

    return value != NULL ? *value : (struct gs_str){0};
}

static bool asks_for(const struct gs_kube_container *c, struct gs_str resource)
{
    const struct gs_str *amount = gs_kube_pairs_find(&c->limits, resource);

    if (amount == NULL)
        amount = gs_kube_pairs_find(&c->requests, resource);
    return amount != NULL && !gs_str_eq_c(*amount, "0");
}

static int read_container(const struct gs_grants *grants, const struct gs_kube_container *from,
                          struct gs_arena *arena, struct gs_grants_container *ret)
{
    const char *const *name = grants->opt.env;
    int rc = 0;

    *ret = (struct gs_grants_container){
        .name = gs_arena_str(arena, from->name),
        .asks = asks_for(from, grants->opt.resource),
    };
    for (; rc == 0 && name != NULL && *name != NULL; name++)
        for (size_t i = 0; rc == 0 && i < from->n_env; i++)
            if (gs_str_eq_c(from->env[i].name, *name) && !from->env[i].is_ref)
                rc = gs_pairs_set(&ret->env, arena, gs_str_of(*name),
                                  gs_arena_str(arena, from->env[i].value));
    return rc;
}

/* What its owner wrote beside the signed annotations counts for nothing. */
static bool is_trusted(const struct gs_grants *grants, const struct gs_kube_pod *view)
{
    struct gs_sign *sign = grants->opt.sign;

    return sign == NULL ||
           (gs_sign_trusts(sign, view) && gs_sign_counts(sign, view, grants->opt.allocated));
}

/* A text that cannot be read is an empty grant. */
static int read_grant(struct gs_str text, struct gs_arena *arena, struct gs_grant *ret)
{
    struct gs_err err = {0};
    int rc = gs_grant_read(gs_arena_str(arena, text), arena, ret, &err);

    if (rc < 0)
        *ret = (struct gs_grant){0};
    return rc == -ENOMEM ? rc : 0;
}

static bool is_pending(const struct gs_kube_pod *view)
{
    return view->phase == GS_KUBE_PHASE_NONE || view->phase == GS_KUBE_PHASE_PENDING;
}

static int read_pod(const struct gs_grants *grants, const struct gs_kube_pod *view,
                    struct gs_grants_pod *pod)
{
    struct gs_arena *arena = &pod->arena;
    struct gs_str allocated = note(view, grants->opt.allocated), when;
    uint64_t bind_s = 0;
    int rc = 0;

    pod->uid = gs_arena_str(arena, view->meta.uid);
    pod->ns = gs_arena_str(arena, view->meta.ns);
    pod->name = gs_arena_str(arena, view->meta.name);
    pod->phase = gs_arena_str(arena, note(view, GS_STR(GS_NAME_BIND_PHASE)));
    when = note(view, GS_STR(GS_NAME_BIND_TIME));
    if (gs_size_parse_u64(when, &bind_s) == 0 && bind_s < INT64_MAX)
        pod->bind_s = (int64_t)bind_s;
    pod->is_over = view->phase == GS_KUBE_PHASE_SUCCEEDED || view->phase == GS_KUBE_PHASE_FAILED;
    pod->is_pending = is_pending(view);
    pod->has_grant = allocated.n > 0;
    pod->is_trusted = pod->has_grant && is_trusted(grants, view);
    pod->container = GS_ARENA_ARRAY(arena, view->n_containers, struct gs_grants_container);
    if (pod->container == NULL)
        return -ENOMEM;
    pod->n_containers = view->n_containers;
    for (size_t i = 0; rc == 0 && i < view->n_containers; i++)
        rc = read_container(grants, &view->container[i], arena, &pod->container[i]);
    if (rc == 0 && pod->is_trusted)
        rc = read_grant(allocated, arena, &pod->grant);
    if (rc == 0)
        rc = read_grant(note(view, grants->opt.to_allocate), arena, &pod->left);
    return rc < 0 ? rc : gs_arena_check(arena);
}

int gs_grants_read(const struct gs_grants *grants, const struct gs_kube_pod *view,
                   struct gs_grants_pod *ret)
{
    memset(ret, 0, sizeof(*ret));
    return read_pod(grants, view, ret);
}

void gs_grants_pod_fini(struct gs_grants_pod *pod)
{
    if (pod == NULL)
        return;
    gs_arena_fini(&pod->arena);
    memset(pod, 0, sizeof(*pod));
}

/* ---- the watch ---- */

static void drop(struct gs_grants_pod *pod)
{
    if (pod == NULL)
        return;
    gs_grants_pod_fini(pod);
    free(pod);
}

static void on_deleted(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    struct gs_grants *grants = arg;
    struct gs_grants_pod *pod = gs_map_remove(&grants->pods, key->uid);

    (void)last;
    if (pod == NULL)
        return;
    if (grants->opt.gone != NULL)
        grants->opt.gone(grants->opt.arg, pod->uid);
    drop(pod);
}

/* A tenant who spoils the signature of his pod later changes nothing. */
static bool is_spoilt(const struct gs_grants_pod *old, const struct gs_grants_pod *pod)
{
    return old != NULL && old->is_trusted && !pod->is_trusted;
}

static int put(struct gs_grants *grants, struct gs_grants_pod *pod)
{
    struct gs_grants_pod *old = gs_map_find(&grants->pods, pod->uid);
    int rc;

    if (is_spoilt(old, pod)) {
        GS_LOG_WARN("the grant of a pod is spoilt, what it was given before holds",
                    GS_LOG_STR("namespace", pod->ns), GS_LOG_STR("pod", pod->name));
        drop(pod);
        return 0;
    }
    pod->seen = old != NULL ? old->seen : ++grants->n_seen;
    (void)gs_map_remove(&grants->pods, pod->uid); /* its key goes with the old one */
    drop(old);
    rc = gs_map_set(&grants->pods, pod->uid, pod);
    if (rc < 0) {
        drop(pod);
        return rc;
    }
    if (grants->opt.changed != NULL)
        grants->opt.changed(grants->opt.arg, pod);
    return 0;
}

static void on_object(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    struct gs_grants *grants = arg;
    struct gs_grants_pod *pod = calloc(1, sizeof(*pod));
    struct gs_kube_pod view;
    struct gs_err err = {0};
    int rc = pod != NULL ? 0 : -ENOMEM;

    gs_arena_reset(&grants->frame);
    if (rc == 0)
        rc = gs_kube_view_pod(object, &grants->frame, &view, &err);
    if (rc == 0 && view.meta.uid.n == 0)
        rc = gs_err_set(&err, -EINVAL, "no metadata.uid");
    if (rc == 0)
        rc = read_pod(grants, &view, pod);
    if (rc == 0) {
        rc = put(grants, pod);
        pod = NULL;
    }
    if (rc < 0)
        GS_LOG_WARN("a pod of this node cannot be read", GS_LOG_STR("namespace", key->ns),
                    GS_LOG_STR("pod", key->name),
                    err.text[0] != '\0' ? GS_LOG_ERR(&err) : GS_LOG_RC(rc));
    drop(pod);
}

static void on_synced(void *arg)
{
    struct gs_grants *grants = arg;

    grants->is_synced = true;
    if (grants->opt.synced != NULL)
        grants->opt.synced(grants->opt.arg);
}

static void on_trouble(void *arg, const struct gs_err *why, uint32_t wait_ms)
{
    (void)arg;
    GS_LOG_WARN("pods of this node are not heard of", GS_LOG_ERR(why),
                GS_LOG_UINT("again_in_ms", wait_ms));
}

int gs_grants_new(struct gs_kube_client *client, const struct gs_grants_opt *opt,
                  struct gs_grants **ret, struct gs_err *err)
{
    static const struct gs_kube_watch_fns fns = {
        .added = on_object,
        .modified = on_object,
        .deleted = on_deleted,
        .synced = on_synced,
        .trouble = on_trouble,
    };
    struct gs_grants *grants = calloc(1, sizeof(*grants));
    int rc = grants != NULL ? 0 : -ENOMEM;

    if (rc == 0) {
        grants->opt = *opt;
        if (asprintf(&grants->selector, "spec.nodeName=%.*s", (int)opt->node.n, opt->node.p) < 0) {
            grants->selector = NULL;
            rc = -ENOMEM;
        }
    }
    if (rc == 0)
        rc = gs_kube_watch_new(
            client,
            &(struct gs_kube_watch_opt){.resource = &gs_kube_pods,
                                        .field_selector = gs_str_of(grants->selector)},
            &fns, grants, &grants->watch, err);
    if (rc < 0) {
        gs_grants_free(grants);
        return rc;
    }
    *ret = grants;
    return 0;
}

struct gs_grants *gs_grants_free(struct gs_grants *grants)
{
    size_t pos = 0;
    struct gs_grants_pod *pod;

    if (grants == NULL)
        return NULL;
    gs_kube_watch_free(grants->watch);
    while ((pod = gs_map_next(&grants->pods, &pos)) != NULL)
        drop(pod);
    gs_map_fini(&grants->pods);
    gs_arena_fini(&grants->frame);
    free(grants->selector);
    free(grants);
    return NULL;
}

/* ---- asking ---- */

bool gs_grants_is_synced(const struct gs_grants *grants)
{
    return grants->is_synced;
}

size_t gs_grants_count(const struct gs_grants *grants)
{
    return grants->pods.n;
}

const struct gs_grants_pod *gs_grants_find(const struct gs_grants *grants, struct gs_str uid)
{
    return gs_map_find(&grants->pods, uid);
}

const struct gs_grants_pod *gs_grants_next(const struct gs_grants *grants, size_t *pos)
{
    return gs_map_next(&grants->pods, pos);
}

/* Is each slot with something in it that of a container that asks for it? */
static bool is_in_place(const struct gs_grants_pod *pod)
{
    for (size_t s = 0; s < pod->grant.n; s++)
        if (pod->grant.slot[s].n > 0 && (s >= pod->n_containers || !pod->container[s].asks))
            return false;
    return true;
}

/* The k-th container that asks; n_containers: there are fewer. */
static size_t nth_asking(const struct gs_grants_pod *pod, size_t k)
{
    size_t i = 0;

    for (; i < pod->n_containers; i++)
        if (pod->container[i].asks && k-- == 0)
            break;
    return i;
}

int gs_grants_owner(const struct gs_grants_pod *pod, size_t slot)
{
    size_t rank = 0, owner = slot;

    if (slot >= pod->grant.n || pod->grant.slot[slot].n == 0)
        return -EINVAL;
    if (!is_in_place(pod)) {
        for (size_t s = 0; s < slot; s++)
            rank += pod->grant.slot[s].n > 0;
        owner = nth_asking(pod, rank);
    }
    return owner < pod->n_containers ? (int)owner : -EINVAL;
}

int gs_grants_slot(const struct gs_grants_pod *pod, struct gs_str container,
                   const struct gs_grant_slot **ret_slot, struct gs_err *err)
{
    size_t at = 0;

    while (at < pod->n_containers && !gs_str_eq(pod->container[at].name, container))
        at++;
    if (at == pod->n_containers)
        return gs_err_set(err, -ENOENT, "pod %.*s/%.*s has no container '%.*s'", (int)pod->ns.n,
                          pod->ns.p, (int)pod->name.n, pod->name.p, (int)container.n, container.p);
    if (!pod->has_grant)
        return gs_err_set(err, -ENODATA,
                          "pod %.*s/%.*s was given no card: was it bound by another scheduler?",
                          (int)pod->ns.n, pod->ns.p, (int)pod->name.n, pod->name.p);
    if (!pod->is_trusted)
        return gs_err_set(err, -EPERM, "the grant of pod %.*s/%.*s is not signed by our scheduler",
                          (int)pod->ns.n, pod->ns.p, (int)pod->name.n, pod->name.p);
    for (size_t s = 0; s < pod->grant.n; s++) {
        if (pod->grant.slot[s].n > 0 && gs_grants_owner(pod, s) == (int)at) {
            *ret_slot = &pod->grant.slot[s];
            return 0;
        }
    }
    if (pod->grant.n == 0 || !is_in_place(pod))
        return gs_err_set(err, -EINVAL, "the grant of pod %.*s/%.*s does not fit its containers",
                          (int)pod->ns.n, pod->ns.p, (int)pod->name.n, pod->name.p);
    return gs_err_set(err, -ENODEV, "the grant of pod %.*s/%.*s gives nothing to '%.*s'",
                      (int)pod->ns.n, pod->ns.p, (int)pod->name.n, pod->name.p, (int)container.n,
                      container.p);
}
