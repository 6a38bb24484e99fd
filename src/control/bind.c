#include "control/bind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "contract/names.h"
#include "control/lock.h"
#include "control/pod.h"
#include "kube/patch.h"
#include "net/loop.h"

#define POST_MS         2000
#define LABEL_VALUE_MAX 63
/* How long a decision outlives its Binding, until the watch has shown the pod bound. */
#define SETTLE_MS 30000
/* A waiter looks by itself so often: for owners that are gone, which no event of the node tells. */
#define LOOK_MS 1000

struct op;

/** A node whose plugin needs the lock, or that somebody waits for. */
struct node {
    char *name_text;
    struct gs_str name;
    bool needs_lock;
    struct op *first, **last; /**< those that want its lock, in the order they came */
};

struct op {
    struct gs_binder *binder;
    struct op *next, **prev; /**< of all that are under way */
    struct op *next_waiting; /**< of its node */
    struct node *node;       /**< while it waits for the lock or tries for it */
    struct gs_arena arena;   /**< everything below that is text */
    struct gs_extender_binding what;
    struct gs_pairs annotations;
    bool has_lock;
    bool is_waiting; /**< at the head, until the node changes */
    int64_t give_up_ms;
    struct gs_lock_op *lock;
    struct gs_loop_timer timer;
    uint64_t ticket;
    gs_binder_done *done;
    void *arg;
    struct gs_loop_task task; /**< to tell the end from the loop */
    const char *error;
};

struct gs_binder {
    struct gs_kube_client *client;
    struct gs_loop *loop;
    struct gs_books *books;
    struct gs_binder_opt opt;
    struct gs_map nodes;
    struct op *ops;
    struct gs_binder_stats stats;
};

static int64_t now_ms(const struct gs_binder *b)
{
    return (int64_t)(gs_loop_now_ns(b->loop) / GS_CLOCK_MS);
}

static struct gs_moment now_of(const struct gs_binder *b)
{
    return (struct gs_moment){.unix_ns = (int64_t)gs_clock_real_ns(gs_loop_clock(b->loop)),
                              .mono_ms = now_ms(b)};
}

int gs_binder_new(struct gs_kube_client *client, struct gs_books *books,
                  const struct gs_binder_opt *opt, struct gs_binder **ret)
{
    struct gs_binder *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return -ENOMEM;
    b->client = client;
    b->loop = gs_kube_client_loop(client);
    b->books = books;
    b->opt = *opt;
    *ret = b;
    return 0;
}

/* ---- ends ---- */

static void lead_queue(struct node *node);

static void leave_queue(struct op *op)
{
    struct node *node = op->node;
    struct op **at;
    bool was_head;

    if (node == NULL)
        return;
    was_head = node->first == op;
    for (at = &node->first; *at != op; at = &(*at)->next_waiting) {
    }
    *at = op->next_waiting;
    if (node->last == &op->next_waiting)
        node->last = at;
    op->node = NULL;
    if (was_head)
        lead_queue(node);
}

static void free_op(struct op *op)
{
    struct gs_binder *b = op->binder;

    gs_loop_timer_cancel(b->loop, &op->timer);
    gs_loop_task_cancel(b->loop, &op->task);
    gs_kube_client_cancel(b->client, op->ticket);
    gs_lock_cancel(op->lock);
    *op->prev = op->next;
    if (op->next != NULL)
        op->next->prev = op->prev;
    b->stats.under_way--;
    gs_arena_fini(&op->arena);
    free(op);
}

struct gs_binder *gs_binder_free(struct gs_binder *b)
{
    size_t pos = 0;
    struct node *node;

    if (b == NULL)
        return NULL;
    while (b->ops != NULL)
        free_op(b->ops);
    while ((node = gs_map_next(&b->nodes, &pos)) != NULL) {
        free(node->name_text);
        free(node);
    }
    gs_map_fini(&b->nodes);
    free(b);
    return NULL;
}

static void tell(void *user)
{
    struct op *op = user;
    gs_binder_done *done = op->done;
    void *arg = op->arg;
    char error[GS_ERR_TEXT];

    (void)gs_str_to_field(gs_str_of(op->error), error, sizeof(error));
    free_op(op);
    done(arg, error);
}

static void end(struct op *op, const char *error)
{
    struct gs_binder *b = op->binder;

    leave_queue(op);
    op->error = error;
    if (error[0] == '\0')
        b->stats.bound++;
    else
        b->stats.failed++;
    gs_loop_defer(b->loop, &op->task, tell, op);
}

/* It will not be bound by us now: what was decided is void, the lock goes back. */
static void fail(struct op *op, const struct gs_err *err)
{
    struct gs_binder *b = op->binder;
    struct gs_str text = gs_arena_str(&op->arena, gs_str_of(err->text));

    (void)gs_books_release(b->books, op->what.uid);
    if (op->has_lock)
        gs_lock_release(b->client, op->what.node, op->what.ns, op->what.pod);
    end(op, text.n > 0 ? text.p : "bind failed");
}

static void fail_with(struct op *op, int rc, const char *what)
{
    struct gs_err err = {0};

    (void)gs_err_set(&err, rc, "%s", what);
    fail(op, &err);
}

/* ---- the write ---- */

static void on_label(void *arg, const struct gs_kube_result *result)
{
    (void)arg;
    if (result->rc < 0)
        GS_LOG_WARN("label of a bound pod not written", GS_LOG_ERR(result->err));
}

static void patch_label(const struct op *op)
{
    struct gs_kube_merge merge;
    struct gs_buf body = {0};
    struct gs_err err = {0};

    gs_kube_merge_init(&merge);
    gs_kube_merge_uid(&merge, op->what.uid);
    gs_kube_merge_label(&merge, GS_STR(GS_NAME_NODE), op->what.node);
    if (gs_kube_merge_text(&merge, &body) == 0 &&
        gs_kube_client_send(op->binder->client,
                            &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                  .resource = &gs_kube_pods,
                                                  .ns = op->what.ns,
                                                  .name = op->what.pod,
                                                  .body = {gs_buf_text(&body), body.n}},
                            on_label, NULL, NULL, &err) < 0)
        GS_LOG_WARN("label of a bound pod not written", GS_LOG_ERR(&err));
    gs_kube_merge_fini(&merge);
    gs_buf_fini(&body);
}

static void succeed(struct op *op)
{
    struct gs_binder *b = op->binder;

    /* the reservation stands until the watch shows the pod where it is now */
    gs_books_prolong(b->books, op->what.uid, now_ms(b) + SETTLE_MS);
    if (b->opt.patches_label && op->what.node.n <= LABEL_VALUE_MAX)
        patch_label(op);
    end(op, "");
}

/* The answer to the write was lost, or the pod has a node already: by us? Only the pod can tell. */
static void on_look(void *arg, const struct gs_kube_result *result)
{
    struct op *op = arg;
    const struct gs_str *ours = gs_pairs_find(&op->annotations, GS_STR(GS_NAME_BIND_TIME));
    yyjson_val *meta = yyjson_obj_get(result->root, "metadata");
    const char *node =
        yyjson_get_str(yyjson_obj_get(yyjson_obj_get(result->root, "spec"), "nodeName"));
    const char *uid = yyjson_get_str(yyjson_obj_get(meta, "uid"));
    const char *time =
        yyjson_get_str(yyjson_obj_get(yyjson_obj_get(meta, "annotations"), GS_NAME_BIND_TIME));

    if (result->rc < 0 && result->rc != -ENOENT) {
        /* Unknown still. The reservation holds the cards until its lease ends or the watch tells.
         */
        end(op, "the API server did not say whether the pod is bound");
        return;
    }
    if (result->rc == 0 && node != NULL && uid != NULL && time != NULL && ours != NULL &&
        gs_str_eq_c(op->what.node, node) && gs_str_eq_c(op->what.uid, uid) &&
        gs_str_eq_c(*ours, time))
        succeed(op);
    else
        fail_with(op, -EBUSY, "the pod is bound by somebody else, or gone");
}

static void look(struct op *op)
{
    struct gs_err err = {0};

    if (gs_kube_client_send(op->binder->client,
                            &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                                  .resource = &gs_kube_pods,
                                                  .ns = op->what.ns,
                                                  .name = op->what.pod},
                            on_look, op, &op->ticket, &err) < 0)
        end(op, "the API server did not say whether the pod is bound");
}

static void on_bound(void *arg, const struct gs_kube_result *result)
{
    struct op *op = arg;

    if (result->rc == 0)
        succeed(op);
    else if (result->status == 0 || result->status >= 500 || result->rc == -EBUSY ||
             result->rc == -EEXIST)
        look(op);
    else
        fail(op, result->err);
}

static int add(struct op *op, const char *key, struct gs_str value)
{
    return gs_pairs_set(&op->annotations, &op->arena, gs_str_of(key), value);
}

/* The grant as decided, and the marks of HAMi's protocol. Everything is copied: the reservation may
 * go meanwhile. */
static int collect(struct op *op, const struct gs_books_reservation *r)
{
    struct gs_moment now = now_of(op->binder);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < r->annotations.n; i++)
        rc = gs_pairs_set(&op->annotations, &op->arena,
                          gs_arena_str(&op->arena, r->annotations.at[i].key),
                          gs_arena_str(&op->arena, r->annotations.at[i].value));
    if (rc == 0)
        rc = add(op, GS_NAME_BIND_PHASE, GS_STR("allocating"));
    if (rc == 0)
        rc = add(op, GS_NAME_BIND_TIME,
                 gs_arena_printf(&op->arena, "%lld", (long long)(now.unix_ns / 1000000000)));
    if (rc == 0 && op->binder->opt.seal != NULL)
        rc = op->binder->opt.seal(op->binder->opt.arg, &op->what, &op->arena, &op->annotations);
    return rc < 0 ? rc : gs_arena_check(&op->arena);
}

static void post(struct op *op)
{
    struct gs_binder *b = op->binder;
    uint32_t deadline = b->opt.post_ms != 0 ? b->opt.post_ms : POST_MS;
    struct gs_str label_key = GS_STR(GS_NAME_NODE), *key, *value;
    struct gs_books_reservation r;
    struct gs_err err = {0};
    size_t n;
    int rc;

    if (!gs_books_reserved(b->books, op->what.uid, &r) || !gs_str_eq(r.node, op->what.node)) {
        fail_with(op, -EAGAIN, "the decision is void meanwhile");
        return;
    }
    rc = collect(op, &r);
    n = op->annotations.n;
    key = GS_ARENA_ARRAY(&op->arena, n, struct gs_str);
    value = GS_ARENA_ARRAY(&op->arena, n, struct gs_str);
    if (rc < 0 || key == NULL || value == NULL) {
        fail_with(op, -ENOMEM, "no memory");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        key[i] = op->annotations.at[i].key;
        value[i] = op->annotations.at[i].value;
    }
    if (b->opt.leads != NULL && !b->opt.leads(b->opt.arg)) {
        fail_with(op, -EPERM, "another replica leads");
        return;
    }
    gs_books_prolong(b->books, op->what.uid, now_ms(b) + deadline + SETTLE_MS);
    rc = gs_kube_client_bind(b->client,
                             &(struct gs_kube_binding){
                                 .ns = op->what.ns,
                                 .pod = op->what.pod,
                                 .uid = op->what.uid,
                                 .node = op->what.node,
                                 .annotation_key = key,
                                 .annotation_value = value,
                                 .n_annotations = n,
                                 .label_key = &label_key,
                                 .label_value = &op->what.node,
                                 .n_labels = op->what.node.n <= LABEL_VALUE_MAX,
                                 .timeout_ms = deadline,
                             },
                             on_bound, op, &op->ticket, &err);
    if (rc < 0)
        fail(op, &err);
}

/* ---- the lock ---- */

static void try_lock(struct op *op);

static void on_timer(void *user)
{
    try_lock(user);
}

static void on_lock(void *arg, int rc, const struct gs_err *err)
{
    struct op *op = arg;
    struct gs_binder *b = op->binder;

    op->lock = NULL;
    if (rc == 0) {
        op->has_lock = true;
        leave_queue(op);
        post(op);
    } else if ((rc == -EBUSY || rc == -EAGAIN) && now_ms(b) < op->give_up_ms) {
        op->is_waiting = true;
        gs_loop_timer_in(b->loop, &op->timer,
                         rc == -EAGAIN ? 10 + gs_kube_client_jitter(b->client, 40) : LOOK_MS,
                         on_timer, op);
    } else {
        fail(op, err);
    }
}

static void try_lock(struct op *op)
{
    struct gs_binder *b = op->binder;
    struct gs_err err = {0};

    op->is_waiting = false;
    gs_loop_timer_cancel(b->loop, &op->timer);
    if (gs_lock_take(b->client,
                     &(struct gs_lock_want){.node = op->what.node,
                                            .ns = op->what.ns,
                                            .pod = op->what.pod,
                                            .timeout_ms = b->opt.lock_timeout_ms},
                     on_lock, op, &op->lock, &err) < 0)
        fail(op, &err);
}

/* Whoever is first now goes for the lock. */
static void lead_queue(struct node *node)
{
    if (node->first != NULL)
        try_lock(node->first);
}

static struct node *node_of(struct gs_binder *b, struct gs_str name)
{
    struct node *node = gs_map_find(&b->nodes, name);

    if (node != NULL)
        return node;
    node = calloc(1, sizeof(*node));
    if (node == NULL || (node->name_text = strndup(name.p, name.n)) == NULL) {
        free(node);
        return NULL;
    }
    node->name = (struct gs_str){node->name_text, name.n};
    node->last = &node->first;
    node->needs_lock = true; /* until the node says otherwise */
    if (gs_map_set(&b->nodes, node->name, node) < 0) {
        free(node->name_text);
        free(node);
        return NULL;
    }
    return node;
}

static void go_on(struct op *op)
{
    struct gs_binder *b = op->binder;
    struct node *node = node_of(b, op->what.node);

    if (node == NULL) {
        fail_with(op, -ENOMEM, "no memory");
        return;
    }
    if (!node->needs_lock) {
        post(op);
        return;
    }
    op->give_up_ms = now_ms(b) + b->opt.lock_retry_ms;
    gs_books_prolong(b->books, op->what.uid, op->give_up_ms + SETTLE_MS);
    op->node = node;
    *node->last = op;
    node->last = &op->next_waiting;
    if (node->first == op)
        try_lock(op);
}

void gs_binder_saw_node(struct gs_binder *b, struct gs_str name, struct gs_str lock,
                        bool needs_lock)
{
    struct node *node = node_of(b, name);

    if (node == NULL)
        return;
    node->needs_lock = needs_lock;
    if (lock.n == 0 && node->first != NULL && node->first->is_waiting)
        try_lock(node->first);
}

/* ---- without a reservation ---- */

static void on_pod(void *arg, const struct gs_kube_result *result)
{
    struct op *op = arg;
    struct gs_binder *b = op->binder;
    struct gs_kube_pod pod;
    struct gs_pod placed;
    struct gs_err err = {0};
    int rc = result->rc;

    if (rc < 0) {
        end(op, result->rc == -ENOENT ? "pod not found" : "the pod could not be read");
        return;
    }
    rc = gs_kube_view_pod(result->root, &op->arena, &pod, &err);
    if (rc == 0)
        rc = gs_control_pod(&pod, &op->arena, &placed);
    if (rc < 0) {
        end(op, "the pod could not be read");
        return;
    }
    /* Nothing is released or given on the word of a caller whose names do not belong together. */
    if (!gs_str_eq(pod.meta.uid, op->what.uid)) {
        end(op, "pod has another uid");
        return;
    }
    if (pod.node_name.n > 0) {
        end(op, "pod is bound already");
        return;
    }
    rc = gs_filter_reserve(&(struct gs_filter_env){b->books, b->opt.filter, now_of(b), &op->arena},
                           &placed, op->what.node, &err);
    if (rc < 0) {
        fail(op, &err);
        return;
    }
    b->stats.redecided++;
    go_on(op);
}

static void read_pod(struct op *op)
{
    struct gs_err err = {0};

    if (gs_kube_client_send(op->binder->client,
                            &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                                  .resource = &gs_kube_pods,
                                                  .ns = op->what.ns,
                                                  .name = op->what.pod},
                            on_pod, op, &op->ticket, &err) < 0)
        end(op, "the pod could not be read");
}

int gs_binder_bind(struct gs_binder *b, const struct gs_extender_binding *binding,
                   gs_binder_done *done, void *arg, struct gs_err *err)
{
    struct op *op = calloc(1, sizeof(*op));
    struct gs_books_reservation r;

    if (op == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    op->binder = b;
    op->what = (struct gs_extender_binding){
        gs_arena_str(&op->arena, binding->pod), gs_arena_str(&op->arena, binding->ns),
        gs_arena_str(&op->arena, binding->uid), gs_arena_str(&op->arena, binding->node)};
    if (gs_arena_check(&op->arena) < 0) {
        gs_arena_fini(&op->arena);
        free(op);
        return gs_err_set(err, -ENOMEM, "no memory");
    }
    op->done = done;
    op->arg = arg;
    op->prev = &b->ops;
    op->next = b->ops;
    if (op->next != NULL)
        op->next->prev = &op->next;
    b->ops = op;
    b->stats.under_way++;
    if (gs_books_reserved(b->books, op->what.uid, &r) && gs_str_eq(r.node, op->what.node) &&
        gs_str_eq(r.ns, op->what.ns) && gs_str_eq(r.name, op->what.pod))
        go_on(op);
    else
        read_pod(op);
    return 0;
}

void gs_binder_stats(const struct gs_binder *b, struct gs_binder_stats *ret)
{
    *ret = b->stats;
    ret->waiting = 0;
    for (const struct op *op = b->ops; op != NULL; op = op->next)
        ret->waiting += op->node != NULL;
}
