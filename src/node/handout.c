#include "node/handout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/buf.h"
#include "base/log.h"
#include "cluster/lock.h"
#include "contract/names.h"
#include "core/list.h"
#include "kube/json.h"
#include "kube/patch.h"
#include "kube/view.h"
#include "net/loop.h"
#include "node/edits.h"
#include "node/grants.h"
#include "node/provision.h"

#define CALL_MS            5000u
#define TO_ALLOCATE_SUFFIX "-devices-to-allocate"

/* A lock on its way back. */
struct farewell {
    GS_LINK(struct farewell) link;
    struct gs_handout *handout;
    struct gs_lock_op *op;
};

struct gs_handout_op {
    GS_LINK(struct gs_handout_op) link;
    struct gs_handout *handout;
    struct gs_arena arena;
    size_t *n_ids; /* of each container */
    size_t n;
    gs_handout_fn *fn; /* NULL: nobody wants to know any more */
    void *arg;
    uint64_t ticket;
    struct gs_str ns, pod; /* found; empty: not yet */
    struct gs_str uid;
    struct gs_edits *edits; /* [n] */
    bool is_last;           /* nothing of the pod is left to be handed out */
};

struct gs_handout {
    struct gs_handout_opt opt;
    GS_LIST(struct gs_handout_op) queue; /* the first is being served */
    GS_LIST(struct farewell) farewells;
    struct gs_loop_task task;
    struct gs_handout_stats stats;
};

int gs_handout_new(const struct gs_handout_opt *opt, struct gs_handout **ret)
{
    struct gs_handout *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return -ENOMEM;
    h->opt = *opt;
    *ret = h;
    return 0;
}

static void free_op(struct gs_handout_op *op)
{
    struct gs_handout *h = op->handout;

    GS_LIST_REMOVE(&h->queue, op, link);
    h->stats.waiting--;
    gs_arena_fini(&op->arena);
    free(op);
}

struct gs_handout *gs_handout_free(struct gs_handout *h)
{
    struct gs_err err = {0};

    if (h == NULL)
        return NULL;
    (void)gs_err_set(&err, -ECANCELED, "the plugin stops");
    gs_loop_task_cancel(gs_kube_client_loop(h->opt.client), &h->task);
    while (h->queue.first != NULL) {
        struct gs_handout_op *op = h->queue.first;

        gs_kube_client_cancel(h->opt.client, op->ticket);
        if (op->fn != NULL)
            op->fn(op->arg, -ECANCELED, NULL, 0, &err);
        free_op(op);
    }
    while (h->farewells.first != NULL) {
        struct farewell *f = h->farewells.first;

        gs_lock_cancel(f->op);
        GS_LIST_REMOVE(&h->farewells, f, link);
        free(f);
    }
    free(h);
    return NULL;
}

/* ---- the end ---- */

static void serve(struct gs_handout *h);

static void on_next(void *user)
{
    serve(user);
}

static void on_given(void *arg, int rc, struct gs_str value, const struct gs_err *err)
{
    struct farewell *f = arg;
    struct gs_handout *h = f->handout;

    (void)value;
    if (rc < 0)
        GS_LOG_WARN("node lock not given back, it runs out by itself", GS_LOG_ERR(err));
    GS_LIST_REMOVE(&h->farewells, f, link);
    free(f);
}

static void give_lock(struct gs_handout *h, struct gs_str ns, struct gs_str pod)
{
    struct farewell *f = calloc(1, sizeof(*f));
    struct gs_err err = {0};

    if (f == NULL)
        return; /* the lock runs out by itself */
    f->handout = h;
    GS_LIST_APPEND(&h->farewells, f, link);
    if (gs_lock_give(
            h->opt.client,
            &(struct gs_lock_want){
                .node = h->opt.node, .ns = ns, .pod = pod, .timeout_ms = h->opt.lock_timeout_ms},
            on_given, f, &f->op, &err) < 0)
        on_given(f, -EIO, (struct gs_str){0}, &err);
}

static void on_phase(void *arg, const struct gs_kube_result *result)
{
    (void)arg;
    if (result->rc < 0 && result->rc != -ENOENT)
        GS_LOG_WARN("bind phase not written", GS_LOG_ERR(result->err));
}

static int patch_pod(struct gs_handout_op *op, const struct gs_str *left, const char *phase,
                     gs_kube_fn *fn, void *arg)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf body = {0};
    struct gs_kube_merge merge;
    int rc;

    gs_kube_merge_init(&merge);
    gs_kube_merge_uid(&merge, op->uid);
    if (left != NULL)
        gs_kube_merge_annotation(&merge, op->handout->opt.kit->vendor->to_allocate, *left);
    if (phase != NULL)
        gs_kube_merge_annotation(&merge, GS_STR(GS_NAME_BIND_PHASE), gs_str_of(phase));
    rc = gs_kube_merge_text(&merge, &body);
    gs_kube_merge_fini(&merge);
    if (rc < 0)
        return rc;
    return gs_kube_client_send(op->handout->opt.client,
                               &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                     .resource = &gs_kube_pods,
                                                     .ns = op->ns,
                                                     .name = op->pod,
                                                     .body = gs_buf_str(&body),
                                                     .timeout_ms = CALL_MS,
                                                     .is_idempotent = true},
                               fn, arg, arg == op ? &op->ticket : NULL, NULL);
}

/* Answer, give the lock back where the pod has all, or will get nothing; on to the next. */
static void finish(struct gs_handout_op *op, int rc, const struct gs_err *err)
{
    struct gs_handout *h = op->handout;

    if (op->pod.n > 0 && (rc < 0 || op->is_last)) {
        if (rc < 0)
            (void)patch_pod(op, NULL, "failed", on_phase, NULL); /* best effort */
        give_lock(h, op->ns, op->pod);
    }
    h->stats.failed += rc < 0;
    if (op->fn != NULL)
        op->fn(op->arg, rc, rc < 0 ? NULL : op->edits, rc < 0 ? 0 : op->n, err);
    free_op(op);
    gs_loop_defer(gs_kube_client_loop(h->opt.client), &h->task, on_next, h);
}

static void fail(struct gs_handout_op *op, int rc, const char *text)
{
    struct gs_err err = {0};

    (void)gs_err_set(&err, rc, "%s", text);
    finish(op, rc, &err);
}

/* ---- handing out ---- */

/* Is anything of a to-allocate annotation still to be handed out? */
static bool is_left(struct gs_str text)
{
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] != ';' && text.p[i] != ' ')
            return true;
    return false;
}

/* Does a plugin of another vendor still have something of this pod to hand out? */
static bool others_wait(const struct gs_handout_op *op, const struct gs_kube_pod *view)
{
    static const char suffix[] = TO_ALLOCATE_SUFFIX;
    size_t n = sizeof(suffix) - 1;

    for (size_t i = 0; i < view->meta.annotations.n; i++) {
        const struct gs_kube_pair *pair = &view->meta.annotations.at[i];

        if (pair->key.n > n && memcmp(pair->key.p + pair->key.n - n, suffix, n) == 0 &&
            !gs_str_eq(pair->key, op->handout->opt.kit->vendor->to_allocate) &&
            is_left(pair->value))
            return true;
    }
    return false;
}

/* One container: the next slot, and what was granted there by the annotation that is signed. */
static int hand_out(struct gs_handout_op *op, struct gs_grants_pod *pod, size_t i,
                    struct gs_err *err)
{
    struct gs_handout *h = op->handout;
    size_t slot = 0;
    int owner;

    if (!gs_grant_pop(&pod->left, &slot))
        return gs_err_set(err, -ENODATA, "pod %.*s/%.*s waits for no devices", (int)pod->ns.n,
                          pod->ns.p, (int)pod->name.n, pod->name.p);
    owner = gs_grants_owner(pod, slot);
    if (owner < 0)
        return gs_err_set(err, -EINVAL, "the grant of pod %.*s/%.*s does not fit its containers",
                          (int)pod->ns.n, pod->ns.p, (int)pod->name.n, pod->name.p);
    if (pod->grant.slot[slot].n != op->n_ids[i])
        return gs_err_set(err, -EINVAL, "device number not matched");
    gs_edits_init(&op->edits[i], &op->arena);
    return gs_provision_container(
        &(struct gs_provision_for){.kit = h->opt.kit,
                                   .folders = h->opt.folders,
                                   .pod = pod,
                                   .container = pod->container[owner].name,
                                   .begins = true},
        &op->edits[i], err);
}

static void on_taken(void *arg, const struct gs_kube_result *result)
{
    struct gs_handout_op *op = arg;

    op->ticket = 0;
    finish(op, result->rc, result->err);
}

static int serve_pod(struct gs_handout_op *op, const struct gs_kube_pod *view,
                     struct gs_grants_pod *pod, struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf left = {0};
    struct gs_str text;
    int rc = 0;

    if (!gs_str_eq(view->node_name, op->handout->opt.node))
        return gs_err_set(err, -EINVAL, "pod %.*s/%.*s is not bound to this node", (int)pod->ns.n,
                          pod->ns.p, (int)pod->name.n, pod->name.p);
    if (pod->has_grant && !pod->is_trusted)
        return gs_err_set(err, -EPERM, "the grant of pod %.*s/%.*s is not signed by our scheduler",
                          (int)pod->ns.n, pod->ns.p, (int)pod->name.n, pod->name.p);
    for (size_t i = 0; rc == 0 && i < op->n; i++)
        rc = hand_out(op, pod, i, err);
    if (rc < 0)
        return rc;
    gs_grant_write(&pod->left, &left);
    rc = gs_buf_check(&left);
    if (rc < 0)
        return rc;
    text = gs_buf_str(&left);
    op->is_last = !is_left(text) && !others_wait(op, view);
    return patch_pod(op, &text, op->is_last ? "success" : NULL, on_taken, op);
}

static void on_pod(void *arg, const struct gs_kube_result *result)
{
    struct gs_handout_op *op = arg;
    struct gs_grants_pod pod = {0};
    struct gs_kube_pod view;
    struct gs_err err = {0};
    int rc = result->rc;

    op->ticket = 0;
    if (rc < 0) {
        finish(op, rc, result->err);
        return;
    }
    rc = gs_kube_view_pod(result->root, &op->arena, &view, &err);
    if (rc == 0)
        rc = gs_grants_read(op->handout->opt.grants, &view, &pod);
    if (rc == 0) {
        op->uid = gs_arena_str(&op->arena, pod.uid);
        rc = serve_pod(op, &view, &pod, &err);
    }
    gs_grants_pod_fini(&pod);
    if (rc < 0)
        finish(op, rc, &err);
}

/* ---- finding the pod ---- */

static bool waits(const struct gs_grants_pod *pod)
{
    if (!pod->is_pending ||
        (!gs_str_eq_c(pod->phase, "allocating") && !gs_str_eq_c(pod->phase, "success")))
        return false;
    for (size_t s = 0; s < pod->left.n; s++)
        if (pod->left.slot[s].n > 0)
            return true;
    return false;
}

/* Nobody has the lock: the pod that was bound first, of those that wait. */
static const struct gs_grants_pod *first_waiting(const struct gs_grants *grants)
{
    const struct gs_grants_pod *pod, *first = NULL;
    size_t pos = 0;

    while ((pod = gs_grants_next(grants, &pos)) != NULL)
        if (waits(pod) && (first == NULL || pod->bind_s < first->bind_s ||
                           (pod->bind_s == first->bind_s && pod->seen < first->seen)))
            first = pod;
    return first;
}

static void on_node(void *arg, const struct gs_kube_result *result)
{
    struct gs_handout_op *op = arg;
    struct gs_handout *h = op->handout;
    struct gs_loop *loop = gs_kube_client_loop(h->opt.client);
    struct gs_lock_view lock = {.state = GS_LOCK_FREE};
    struct gs_err err = {0};
    int rc = result->rc;

    op->ticket = 0;
    if (rc < 0) {
        finish(op, rc, result->err);
        return;
    }
    yyjson_val *notes = yyjson_obj_get(yyjson_obj_get(result->root, "metadata"), "annotations");
    struct gs_str value = gs_kube_json_text(yyjson_obj_get(notes, GS_NAME_LOCK));

    if (value.n > 0)
        lock = gs_lock_look(&value, (struct gs_str){0}, (struct gs_str){0}, gs_loop_unix_us(loop),
                            h->opt.lock_timeout_ms * 1000);
    if (lock.owner_pod.n > 0) {
        op->ns = gs_arena_str(&op->arena, lock.owner_ns);
        op->pod = gs_arena_str(&op->arena, lock.owner_pod);
    } else {
        const struct gs_grants_pod *pod = first_waiting(h->opt.grants);

        if (pod == NULL) {
            (void)gs_err_set(&err, -ENODATA, "no binding pod found on node %.*s",
                             (int)h->opt.node.n, h->opt.node.p);
            finish(op, -ENODATA, &err);
            return;
        }
        op->ns = gs_arena_str(&op->arena, pod->ns);
        op->pod = gs_arena_str(&op->arena, pod->name);
    }
    if (gs_arena_check(&op->arena) < 0) {
        fail(op, -ENOMEM, "no memory");
        return;
    }
    rc = gs_kube_client_send(h->opt.client,
                             &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                                   .resource = &gs_kube_pods,
                                                   .ns = op->ns,
                                                   .name = op->pod,
                                                   .timeout_ms = CALL_MS},
                             on_pod, op, &op->ticket, &err);
    if (rc < 0)
        finish(op, rc, &err);
}

static void serve(struct gs_handout *h)
{
    struct gs_handout_op *op = h->queue.first;
    struct gs_err err = {0};
    int rc;

    if (op == NULL || op->ticket != 0)
        return;
    rc = gs_kube_client_send(h->opt.client,
                             &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                                   .resource = &gs_kube_nodes,
                                                   .name = h->opt.node,
                                                   .timeout_ms = CALL_MS},
                             on_node, op, &op->ticket, &err);
    if (rc < 0)
        finish(op, rc, &err);
}

int gs_handout_begin(struct gs_handout *h, const struct gs_handout_want *want,
                     struct gs_handout_op **ret_op, struct gs_err *err)
{
    struct gs_handout_op *op;

    if (want->n == 0)
        return gs_err_set(err, -EINVAL, "no container");
    for (size_t i = 0; i < want->n; i++)
        if (want->ids[i].n == 0)
            return gs_err_set(err, -EINVAL, "a container with no device ids");
    op = calloc(1, sizeof(*op));
    if (op == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    *op = (struct gs_handout_op){.handout = h, .n = want->n, .fn = want->fn, .arg = want->arg};
    op->n_ids = GS_ARENA_ARRAY(&op->arena, want->n, size_t);
    op->edits = GS_ARENA_ARRAY(&op->arena, want->n, struct gs_edits);
    if (op->n_ids == NULL || op->edits == NULL) {
        gs_arena_fini(&op->arena);
        free(op);
        return gs_err_set(err, -ENOMEM, "no memory");
    }
    for (size_t i = 0; i < want->n; i++)
        op->n_ids[i] = want->ids[i].n;
    GS_LIST_APPEND(&h->queue, op, link);
    h->stats.begun++;
    h->stats.waiting++;
    if (h->queue.first == op)
        gs_loop_defer(gs_kube_client_loop(h->opt.client), &h->task, on_next, h);
    *ret_op = op;
    return 0;
}

void gs_handout_cancel(struct gs_handout_op *op)
{
    op->fn = NULL;
}

void gs_handout_stats(const struct gs_handout *h, struct gs_handout_stats *ret)
{
    *ret = h->stats;
}
