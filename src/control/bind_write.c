/* The binder's one write, and finding out how it ended. */

#include <errno.h>
#include <stdio.h>

#include <yyjson.h>

#include "base/log.h"
#include "contract/names.h"
#include "control/bind_internal.h"
#include "control/fence.h"
#include "kube/json.h"
#include "kube/patch.h"
#include "kube/view.h"

#define POST_MS         2000
#define LABEL_VALUE_MAX 63
/* How long a decision outlives its Binding, until the watch has shown the pod bound. */
#define SETTLE_MS 30000
#define LOOK_MS   500
/* How often a Binding is written where its pod changes under our hands. */
#define POSTS_MAX 4
/* The caller is told that nobody knows after so long; we go on looking. */
#define UNSURE_MS 15000

static uint32_t deadline_of(const struct gs_binder *b)
{
    return b->opt.post_ms != 0 ? b->opt.post_ms : POST_MS;
}

/* ---- the label ---- */

static void on_label(void *arg, const struct gs_kube_result *result)
{
    (void)arg;
    if (result->rc < 0 && result->rc != -ENOENT && result->rc != -EBUSY)
        GS_LOG_WARN("label of a bound pod not written", GS_LOG_ERR(result->err));
}

static void patch_label(struct gs_binder *b, const struct gs_kube_meta *pod, struct gs_str node)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf body = {0};
    struct gs_kube_merge merge;
    struct gs_err err = {0};

    gs_kube_merge_init(&merge);
    gs_kube_merge_uid(&merge, pod->uid);
    gs_kube_merge_label(&merge, GS_STR(GS_NAME_NODE), node);
    if (gs_kube_merge_text(&merge, &body) == 0 &&
        gs_kube_client_send(b->client,
                            &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                  .resource = &gs_kube_pods,
                                                  .ns = pod->ns,
                                                  .name = pod->name,
                                                  .body = gs_buf_str(&body)},
                            on_label, NULL, NULL, &err) < 0)
        GS_LOG_WARN("label of a bound pod not written", GS_LOG_ERR(&err));
    gs_kube_merge_fini(&merge);
}

/* ---- the end ---- */

static void succeed(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;

    /* the reservation stands until the watch shows the pod where it is now */
    gs_books_prolong(b->books, op->what.uid, gs_loop_now_ms(b->loop) + SETTLE_MS);
    gs_books_pin(b->books, op->what.uid, false);
    gs_loop_timer_cancel(b->loop, &op->timer);
    op->step = GS_BIND_ENDING;
    gs_bind_tell(op, "");
    gs_bind_leave(op); /* the lock is the plugin's to give back */
    gs_bind_over(op);
}

/* Bound where and as we asked? By the mark that our Binding carried. */
static bool is_ours(const struct gs_bind_op *op, struct gs_str uid, struct gs_str node,
                    struct gs_str time)
{
    const struct gs_str *ours = gs_pairs_find(&op->annotations, GS_STR(GS_NAME_BIND_TIME));

    return gs_str_eq(uid, op->what.uid) && gs_str_eq(node, op->what.node) &&
           (op->is_plain || (ours != NULL && gs_str_eq(time, *ours)));
}

void gs_binder_saw_bound(struct gs_binder *b, const struct gs_kube_pod *pod)
{
    struct gs_bind_op *op = gs_map_find(&b->by_uid, pod->meta.uid);
    const struct gs_str *time =
        gs_kube_pairs_find(&pod->meta.annotations, GS_STR(GS_NAME_BIND_TIME));
    const struct gs_str *node = gs_kube_pairs_find(&pod->meta.annotations, GS_STR(GS_NAME_NODE));

    if (op != NULL && op->step == GS_BIND_LOOKING &&
        is_ours(op, pod->meta.uid, pod->node_name, time != NULL ? *time : (struct gs_str){0})) {
        gs_kube_client_cancel(b->client, op->ticket);
        succeed(op);
    }
    if (node != NULL && node->n > 0 && node->n <= LABEL_VALUE_MAX &&
        gs_str_eq(*node, pod->node_name) &&
        gs_kube_pairs_find(&pod->meta.labels, GS_STR(GS_NAME_NODE)) == NULL)
        patch_label(b, &pod->meta, *node);
}

/* ---- looking ---- */

static void look(struct gs_bind_op *op);
static void fence(struct gs_bind_op *op);

static void on_again(void *user)
{
    look(user);
}

static void look_later(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;
    int64_t since = gs_loop_now_ms(b->loop) - op->posted_ms;
    uint32_t ms = since < UNSURE_MS ? LOOK_MS : 10 * LOOK_MS;

    if (since >= UNSURE_MS)
        gs_bind_tell(op, "the API server did not say whether the pod is bound");
    gs_loop_timer_in(b->loop, &op->timer, ms + gs_kube_client_jitter(b->client, ms / 4), on_again,
                     op);
}

static struct gs_str text_of(yyjson_val *obj, const char *key)
{
    return gs_kube_json_text(yyjson_obj_get(obj, key));
}

/* It ended otherwise than we asked, or nobody knows yet: the watch will tell. A pod that is gone
 * may have been bound before, and its containers may run on; one that is bound may be so by an
 * earlier write of ours; a write that was given up may yet come to pass where the pod cannot be
 * written to. Until then the cards are taken, and the same Binding is sent when the pod comes
 * again. */
static void lose(struct gs_bind_op *op, const char *text)
{
    op->keeps_decision = true;
    gs_books_prolong(op->binder->books, op->what.uid, gs_loop_now_ms(op->binder->loop) + SETTLE_MS);
    gs_bind_fail(op, text);
}

/* It has no node, and is not as our Bindings name it: none of them can come to pass. */
static void on_unbound(struct gs_bind_op *op, yyjson_val *root)
{
    op->is_certain = true;
    if (!op->is_refused || op->n_posts == POSTS_MAX) {
        gs_bind_fail(op, "the API server did not take the Binding");
    } else if (gs_bind_take(op, root)) {
        op->binder->stats.rewritten++;
        gs_bind_post(op);
    }
}

static void on_bound(struct gs_bind_op *op, struct gs_str node)
{
    if (gs_str_eq(node, op->what.node)) {
        lose(op, "the pod is bound by somebody else");
        return;
    }
    op->is_certain = true;
    gs_bind_fail(op, "the pod is bound by somebody else");
}

/* The answer to the write was lost, or the pod has a node already: by us? Only the pod can tell,
 * and where it is not bound, only when the write cannot come to pass any more. */
static void on_look(void *arg, const struct gs_kube_result *result)
{
    struct gs_bind_op *op = arg;
    yyjson_val *meta = yyjson_obj_get(result->root, "metadata");
    struct gs_str node = text_of(yyjson_obj_get(result->root, "spec"), "nodeName");
    int64_t since = gs_loop_now_ms(op->binder->loop) - op->posted_ms;

    if (result->rc == -ENOENT) {
        lose(op, "the pod is gone");
    } else if (result->rc < 0) {
        op->cannot_fence |= op->is_fencing && (result->rc == -EPERM || result->rc == -EINVAL);
        look_later(op);
    } else if (is_ours(op, text_of(meta, "uid"), node,
                       text_of(yyjson_obj_get(meta, "annotations"), GS_NAME_BIND_TIME))) {
        succeed(op);
    } else if (!gs_str_eq(text_of(meta, "uid"), op->what.uid)) {
        lose(op, "the pod is another by now");
    } else if (node.n > 0) {
        on_bound(op, node);
    } else if (!gs_str_eq_c(text_of(meta, "resourceVersion"), op->version)) {
        on_unbound(op, result->root);
    } else if (!op->cannot_fence) {
        fence(op);
    } else if (since >= 2 * (int64_t)deadline_of(op->binder)) {
        lose(op, "the API server did not take the Binding");
    } else {
        look_later(op);
    }
}

/* Where it was refused, the next Binding names what this write makes of the pod. */
static void fence(struct gs_bind_op *op)
{
    op->is_fencing = true;
    if (gs_fence_write(op->binder->opt.fence,
                       &(struct gs_fence_write){.pod = {op->what.ns, op->what.pod, op->what.uid},
                                                .opens = op->is_refused && op->n_posts < POSTS_MAX,
                                                .timeout_ms = deadline_of(op->binder)},
                       on_look, op, &op->ticket) < 0)
        look_later(op);
}

static void look(struct gs_bind_op *op)
{
    op->is_fencing = false;
    if (gs_kube_client_send(op->binder->client,
                            &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                                  .resource = &gs_kube_pods,
                                                  .ns = op->what.ns,
                                                  .name = op->what.pod,
                                                  .timeout_ms = deadline_of(op->binder)},
                            on_look, op, &op->ticket, NULL) < 0)
        look_later(op);
}

/* A conflict says nothing: kube/client.h, gs_kube_binding. */
static void on_posted(void *arg, const struct gs_kube_result *result)
{
    struct gs_bind_op *op = arg;

    if (result->rc == 0) {
        succeed(op);
    } else if (result->did_nothing && result->status != 409) {
        gs_bind_fail(op, result->err->text);
    } else {
        op->binder->stats.unsure += result->status != 409;
        op->step = GS_BIND_LOOKING;
        op->is_refused = result->status == 409;
        look(op);
    }
}

/* ---- writing ---- */

static int add(struct gs_bind_op *op, const char *key, struct gs_str value)
{
    return gs_pairs_set(&op->annotations, &op->arena, gs_str_of(key), value);
}

/* The grant as decided, and the marks of HAMi's protocol. Everything is copied: the reservation may
 * go meanwhile. */
static int collect(struct gs_bind_op *op, const struct gs_books_reservation *r)
{
    const struct gs_binder *b = op->binder;
    int64_t now_s = gs_loop_unix_us(b->loop) / 1000000;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < r->annotations.n; i++)
        rc = gs_pairs_set(&op->annotations, &op->arena,
                          gs_arena_str(&op->arena, r->annotations.at[i].key),
                          gs_arena_str(&op->arena, r->annotations.at[i].value));
    if (rc == 0)
        rc = add(op, GS_NAME_BIND_PHASE, GS_STR("allocating"));
    if (rc == 0)
        rc = add(op, GS_NAME_BIND_TIME, gs_arena_printf(&op->arena, "%lld", (long long)now_s));
    if (rc == 0 && b->opt.seal != NULL)
        rc = b->opt.seal(b->opt.arg, &op->what, &op->arena, &op->annotations);
    return rc < 0 ? rc : gs_arena_check(&op->arena);
}

static int send_binding(struct gs_bind_op *op, struct gs_err *err)
{
    struct gs_str label_key = GS_STR(GS_NAME_NODE), *key, *value;
    size_t n = op->annotations.n;

    key = GS_ARENA_ARRAY(&op->arena, n, struct gs_str);
    value = GS_ARENA_ARRAY(&op->arena, n, struct gs_str);
    if (key == NULL || value == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    for (size_t i = 0; i < n; i++) {
        key[i] = op->annotations.at[i].key;
        value[i] = op->annotations.at[i].value;
    }
    return gs_kube_client_bind(op->binder->client,
                               &(struct gs_kube_binding){
                                   .ns = op->what.ns,
                                   .pod = op->what.pod,
                                   .uid = op->what.uid,
                                   .node = op->what.node,
                                   .version = gs_str_of(op->version),
                                   .annotation_key = key,
                                   .annotation_value = value,
                                   .n_annotations = n,
                                   .label_key = &label_key,
                                   .label_value = &op->what.node,
                                   .n_labels = !op->is_plain && op->what.node.n <= LABEL_VALUE_MAX,
                                   .timeout_ms = deadline_of(op->binder),
                               },
                               on_posted, op, &op->ticket, err);
}

/* The write itself, for the pod in op->version. */
static void post(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;
    struct gs_books_reservation r;
    struct gs_err err = {0};

    op->is_resent = !op->is_plain && !op->is_certain &&
                    gs_books_reserved(b->books, op->what.uid, &r) && r.is_sent;
    if (send_binding(op, &err) < 0) {
        gs_bind_fail(op, err.text);
        return;
    }
    op->step = GS_BIND_POSTING;
    op->is_posted = true;
    op->is_certain = false;
    op->n_posts++;
    op->posted_ms = gs_loop_now_ms(b->loop);
    gs_books_pin(b->books, op->what.uid, true);
}

/* ---- may a Binding name it? ---- */

static void on_opened(void *arg, const struct gs_kube_result *result)
{
    struct gs_bind_op *op = arg;

    if (result->rc == -ENOENT) {
        gs_bind_fail(op, "pod not found");
    } else if (result->rc < 0) {
        gs_bind_fail(op, result->err->text);
    } else if (gs_bind_take(op, result->root)) {
        op->is_certain = true; /* it had no node when it changed */
        if (op->is_closed)
            gs_bind_fail(op, "the annotation " GS_NAME_FENCE " of the pod is taken away");
        else
            gs_bind_post(op);
    }
}

static void open_pod(struct gs_bind_op *op)
{
    op->step = GS_BIND_OPENING;
    if (gs_fence_write(op->binder->opt.fence,
                       &(struct gs_fence_write){.pod = {op->what.ns, op->what.pod, op->what.uid},
                                                .opens = true,
                                                .timeout_ms = deadline_of(op->binder)},
                       on_opened, op, &op->ticket) < 0)
        gs_bind_fail(op, "no memory");
}

static void on_leader(void *arg, const struct gs_kube_result *result)
{
    struct gs_bind_op *op = arg;

    op->is_proven = op->binder->opt.proves(op->binder->opt.arg, result);
    if (op->is_proven)
        gs_bind_post(op);
    else
        gs_bind_fail(op, result->rc < 0 ? result->err->text : "another replica leads");
}

static void prove(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;
    struct gs_kube_req req;

    op->is_proven = b->opt.ask == NULL || !b->opt.ask(b->opt.arg, &req);
    if (op->is_proven) {
        gs_bind_post(op);
        return;
    }
    op->step = GS_BIND_PROVING;
    req.timeout_ms = deadline_of(b);
    if (gs_kube_client_send(b->client, &req, on_leader, op, &op->ticket, NULL) < 0)
        gs_bind_fail(op, "no memory");
}

void gs_bind_post(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;
    struct gs_books_reservation r;
    int rc = 0;

    gs_loop_timer_cancel(b->loop, &op->timer);
    if (!op->is_plain &&
        (!gs_books_reserved(b->books, op->what.uid, &r) || !gs_str_eq(r.node, op->what.node))) {
        gs_bind_fail(op, "the decision is void meanwhile");
        return;
    }
    if (!op->is_plain && !op->is_read) {
        (void)snprintf(op->version, sizeof(op->version), "%llu", (unsigned long long)r.version);
        op->is_closed = r.is_closed;
        op->is_proven = true;
    }
    if (gs_bind_leads(b) != GS_LEADER_YES) {
        gs_bind_fail(op, "another replica leads");
        return;
    }
    if (!op->is_plain && op->is_closed) {
        open_pod(op);
        return;
    }
    if (!op->is_plain && !op->is_proven) {
        prove(op);
        return;
    }
    if (!op->is_plain)
        rc = collect(op, &r);
    if (rc < 0 || op->version[0] == '\0') {
        gs_bind_fail(op, "the grant could not be written down");
        return;
    }
    post(op);
}
