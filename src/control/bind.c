#include "control/bind.h"

#include <errno.h>
#include <stdlib.h>

#include "contract/names.h"
#include "control/bind_internal.h"
#include "control/convert.h"

enum gs_leader_state gs_bind_leads(const struct gs_binder *b)
{
    return b->opt.leads != NULL ? b->opt.leads(b->opt.arg) : GS_LEADER_YES;
}

/* Lock annotations of the vendors that are served: HAMi's common one first, then others. */
static void collect_keys(struct gs_binder *b)
{
    const struct gs_policies *policies = gs_books_policies(b->books);

    b->lock_key[b->n_locks++] = GS_STR(GS_NAME_LOCK);
    for (size_t i = 0; i < policies->n; i++) {
        struct gs_str key = policies->at[i]->keys.lock;
        uint32_t k = 0;

        while (k < b->n_locks && !gs_str_eq(b->lock_key[k], key))
            k++;
        if (key.n > 0 && k == b->n_locks && k < GS_BIND_LOCKS)
            b->lock_key[b->n_locks++] = key;
    }
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
    collect_keys(b);
    *ret = b;
    return 0;
}

/* ---- ends ---- */

static void free_op(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;

    gs_loop_timer_cancel(b->loop, &op->timer);
    gs_loop_task_cancel(b->loop, &op->tell);
    gs_kube_client_cancel(b->client, op->ticket);
    gs_lock_cancel(op->lock);
    GS_LIST_REMOVE(&b->ops, op, all);
    if (gs_map_find(&b->by_uid, op->what.uid) == op)
        (void)gs_map_remove(&b->by_uid, op->what.uid);
    b->stats.under_way--;
    gs_arena_fini(&op->arena);
    free(op);
}

struct gs_binder *gs_binder_free(struct gs_binder *b)
{
    if (b == NULL)
        return NULL;
    while (b->ops.first != NULL)
        free_op(b->ops.first);
    gs_bind_free_nodes(b);
    gs_map_fini(&b->nodes);
    gs_map_fini(&b->by_uid);
    free(b);
    return NULL;
}

static void on_tell(void *user)
{
    struct gs_bind_op *op = user;
    gs_binder_done *done = op->done;
    void *arg = op->arg;
    char error[GS_ERR_TEXT] = "bind failed";

    (void)gs_str_to_field(gs_str_of(op->error), error, sizeof(error));
    op->is_told = true;
    if (op->is_over)
        free_op(op);
    done(arg, error);
}

void gs_bind_tell(struct gs_bind_op *op, const char *error)
{
    struct gs_binder *b = op->binder;
    struct gs_str copy;

    if (op->error != NULL)
        return;
    copy = gs_arena_str(&op->arena, gs_str_of(error));
    op->error = error[0] == '\0' ? "" : copy.n > 0 ? copy.p : "bind failed";
    if (error[0] == '\0')
        b->stats.bound++;
    else
        b->stats.failed++;
    gs_loop_defer(b->loop, &op->tell, on_tell, op);
}

void gs_bind_over(struct gs_bind_op *op)
{
    op->is_over = true;
    if (op->is_told)
        free_op(op);
}

/* An earlier bind sent this decision, and nobody knows how that ended: this one's end says nothing
 * about it. */
static bool was_sent_before(const struct gs_bind_op *op)
{
    struct gs_books_reservation r;

    if (op->is_certain)
        return false;
    if (op->is_posted)
        return op->is_resent;
    return gs_books_reserved(op->binder->books, op->what.uid, &r) && r.is_sent;
}

void gs_bind_fail(struct gs_bind_op *op, const char *text)
{
    struct gs_binder *b = op->binder;
    bool is_latest = gs_map_find(&b->by_uid, op->what.uid) == op;
    bool decided = op->step != GS_BIND_GATED && op->step != GS_BIND_READING;

    gs_bind_tell(op, text);
    gs_loop_timer_cancel(b->loop, &op->timer);
    gs_kube_client_cancel(b->client, op->ticket); /* an answer now would bring it back to life */
    op->ticket = 0;
    if (is_latest && decided) {
        gs_books_pin(b->books, op->what.uid, false);
        if (!op->keeps_decision && !was_sent_before(op))
            (void)gs_books_release(b->books, op->what.uid);
    }
    op->step = GS_BIND_ENDING;
    gs_bind_unlock(op);
}

/* ---- without a reservation ---- */

static bool is_reserved(const struct gs_bind_op *op, struct gs_books_reservation *ret)
{
    const struct gs_extender_binding *w = &op->what;

    return gs_books_reserved(op->binder->books, w->uid, ret) && gs_str_eq(ret->node, w->node) &&
           gs_str_eq(ret->ns, w->ns) && gs_str_eq(ret->name, w->pod);
}

/* What was decided for the pod is not undone by a bind that says otherwise: it is a late one, of a
 * decision that is void, or a caller's who made it up. Where kube-scheduler chooses the node it may
 * have chosen another by now; what was sent stands. */
static int check_decision(const struct gs_binder *b, const struct gs_extender_binding *w,
                          struct gs_err *err)
{
    struct gs_books_reservation r;

    if (!gs_books_reserved(b->books, w->uid, &r))
        return 0;
    if (!gs_str_eq(r.ns, w->ns) || !gs_str_eq(r.name, w->pod))
        return gs_err_set(err, -ESTALE, "pod has another uid");
    if (gs_str_eq(r.node, w->node))
        return 0;
    if (r.is_sent)
        return gs_err_set(err, -EBUSY, "a Binding of the pod to node %.*s was sent", (int)r.node.n,
                          r.node.p);
    if (b->opt.filter->leaves_node_choice)
        return 0;
    return gs_err_set(err, -ESTALE, "the filter chose node %.*s for the pod", (int)r.node.n,
                      r.node.p);
}

static int decide(struct gs_bind_op *op, struct yyjson_val *root, struct gs_err *err)
{
    struct gs_binder *b = op->binder;
    struct gs_books_reservation r;
    struct gs_kube_pod pod;
    struct gs_pod placed;
    int rc = gs_kube_view_pod(root, &op->arena, &pod, err);

    if (rc == 0)
        rc = gs_convert_pod(&pod, &op->arena, &placed);
    if (rc < 0)
        return rc;
    /* Nothing is released or given on the word of a caller whose names do not belong together. */
    if (!gs_str_eq(pod.meta.uid, op->what.uid))
        return gs_err_set(err, -ESTALE, "pod has another uid");
    if (pod.node_name.n > 0)
        return gs_err_set(err, -EEXIST, "pod is bound already");
    if (pod.meta.deletion_us != GS_KUBE_NO_TIME)
        return gs_err_set(err, -ESTALE, "pod is being deleted");
    if (pod.meta.resource_version.n == 0 ||
        gs_str_to_field(pod.meta.resource_version, op->version, sizeof(op->version)) < 0)
        return gs_err_set(err, -EBADMSG, "pod without a resourceVersion");
    op->is_read = true;
    op->is_closed = placed.is_closed;
    op->is_proven = false;
    rc = check_decision(b, &op->what, err);
    if (rc < 0)
        return rc;
    if (is_reserved(op, &r)) /* by a version of the pod that nobody knows: this may have more */
        return gs_pod_check_room(&placed, gs_pod_grant_room(&r.annotations), err);
    rc = gs_filter_reserve(&(struct gs_filter_env){.books = b->books,
                                                   .conf = b->opt.filter,
                                                   .now = gs_moment_now(b->loop),
                                                   .arena = &op->arena},
                           &placed, pod.priority, op->what.node, err);
    if (rc == -ENODATA) {
        op->is_plain = true;
        return 0;
    }
    if (rc == -ENOENT && !gs_bind_has_node(b, op->what.node))
        return gs_err_set(err, rc, "%s", gs_bind_no_node(op));
    b->stats.redecided += rc == 0;
    return rc;
}

bool gs_bind_take(struct gs_bind_op *op, struct yyjson_val *root)
{
    struct gs_err err = {0};
    int rc = decide(op, root, &err);

    if (rc < 0)
        gs_bind_fail(op, err.text[0] != '\0' ? err.text : "the pod could not be read");
    return rc == 0;
}

static void on_pod(void *arg, const struct gs_kube_result *result)
{
    struct gs_bind_op *op = arg;

    if (result->rc < 0)
        gs_bind_fail(op, result->rc == -ENOENT ? "pod not found" : "the pod could not be read");
    else if (gs_bind_take(op, result->root))
        gs_bind_lock(op);
}

static void read_pod(struct gs_bind_op *op)
{
    struct gs_err err = {0};

    op->step = GS_BIND_READING;
    gs_loop_timer_cancel(op->binder->loop, &op->timer);
    if (gs_kube_client_send(op->binder->client,
                            &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                                  .resource = &gs_kube_pods,
                                                  .ns = op->what.ns,
                                                  .name = op->what.pod},
                            on_pod, op, &op->ticket, &err) < 0)
        gs_bind_fail(op, err.text);
}

/* ---- the call ---- */

static void on_gate_closed(void *user)
{
    gs_bind_fail(user, "this replica does not lead yet");
}

static void begin(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;
    struct gs_books_reservation r;

    switch (gs_bind_leads(b)) {
    case GS_LEADER_NO:
        gs_bind_fail(op, "another replica leads");
        break;
    case GS_LEADER_NOT_YET:
        gs_loop_timer_in(b->loop, &op->timer, (uint64_t)b->opt.lock_retry_ms, on_gate_closed, op);
        break;
    case GS_LEADER_YES:
        if (is_reserved(op, &r) && r.version != 0)
            gs_bind_lock(op);
        else
            read_pod(op);
        break;
    }
}

void gs_binder_go(struct gs_binder *b)
{
    for (struct gs_bind_op *op = b->ops.first; op != NULL; op = op->all.next)
        if (op->step == GS_BIND_GATED && op->error == NULL)
            read_pod(op);
}

/* One bind per pod: kube-scheduler gave the first up (its call timed out) and decided anew. */
static int supersede(struct gs_bind_op *old, struct gs_err *err)
{
    if (old->step >= GS_BIND_OPENING && old->step <= GS_BIND_LOOKING)
        return gs_err_set(err, -EBUSY, "a bind of this pod is being written");
    (void)gs_map_remove(&old->binder->by_uid,
                        old->what.uid); /* the reservation is not its any more */
    if (old->step != GS_BIND_ENDING) {
        old->binder->stats.superseded++;
        gs_bind_fail(old, "asked again: the new bind counts");
    }
    return 0;
}

static int new_op(struct gs_binder *b, const struct gs_extender_binding *binding,
                  struct gs_bind_op **ret)
{
    struct gs_bind_op *op = calloc(1, sizeof(*op));

    if (op == NULL)
        return -ENOMEM;
    op->binder = b;
    op->what = (struct gs_extender_binding){
        gs_arena_str(&op->arena, binding->pod), gs_arena_str(&op->arena, binding->ns),
        gs_arena_str(&op->arena, binding->uid), gs_arena_str(&op->arena, binding->node)};
    if (gs_arena_check(&op->arena) < 0 || gs_map_set(&b->by_uid, op->what.uid, op) < 0) {
        gs_arena_fini(&op->arena);
        free(op);
        return -ENOMEM;
    }
    GS_LIST_PUSH(&b->ops, op, all);
    b->stats.under_way++;
    *ret = op;
    return 0;
}

int gs_binder_bind(struct gs_binder *b, const struct gs_extender_binding *binding,
                   gs_binder_done *done, void *arg, struct gs_err *err)
{
    struct gs_bind_op *op = gs_map_find(&b->by_uid, binding->uid);
    int rc = check_decision(b, binding, err);

    if (rc == 0 && op != NULL)
        rc = supersede(op, err);
    if (rc < 0)
        return rc;
    if (new_op(b, binding, &op) < 0)
        return gs_err_set(err, -ENOMEM, "no memory");
    op->done = done;
    op->arg = arg;
    begin(op);
    return 0;
}

void gs_binder_stats(const struct gs_binder *b, struct gs_binder_stats *ret)
{
    *ret = b->stats;
    ret->waiting = 0;
    for (const struct gs_bind_op *op = b->ops.first; op != NULL; op = op->all.next)
        ret->waiting += op->step >= GS_BIND_QUEUED && op->step <= GS_BIND_WAITING;
}
