/* The binder's node locks: who waits for which, in what order. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "contract/names.h"
#include "control/bind_internal.h"
#include "model/node.h"

/* A waiter looks by itself so often: for owners that need the lock no more, which no event tells.
 */
#define LOOK_MS 1000
/* How long a decision outlives the end of a wait. */
#define SETTLE_MS 30000

static void try_lock(struct gs_bind_op *op);

/* ---- nodes ---- */

/* For a pod, by the lock that names one. */
static bool is_locked(const struct gs_bind_node *node)
{
    return node->seen[0].text != NULL;
}

static void free_node(struct gs_bind_node *node)
{
    gs_loop_task_cancel(node->binder->loop, &node->lead);
    gs_lock_cancel(node->sweep);
    if (is_locked(node))
        GS_LIST_REMOVE(&node->binder->locked, node, locked);
    for (uint32_t k = 0; k < GS_BIND_LOCKS; k++)
        free(node->seen[k].text);
    free(node);
}

void gs_bind_free_nodes(struct gs_binder *b)
{
    struct gs_bind_node *node;
    size_t pos = 0;

    while ((node = gs_map_next(&b->nodes, &pos)) != NULL)
        free_node(node);
}

static void drop_if_unused(struct gs_bind_node *node)
{
    if (node->is_there || node->queue.first != NULL || node->sweep != NULL)
        return;
    (void)gs_map_remove(&node->binder->nodes, node->name);
    free_node(node);
}

static struct gs_bind_node *node_of(struct gs_binder *b, struct gs_str name)
{
    struct gs_bind_node *node = gs_map_find(&b->nodes, name);

    if (node != NULL)
        return node;
    node = gs_map_make(&b->nodes, name, sizeof(*node), &name);
    if (node == NULL)
        return NULL;
    node->binder = b;
    node->name = name;
    node->needs_lock = true; /* until the node says otherwise */
    return node;
}

/* Is the value one that this bind could not take at once? */
static bool is_others(const struct gs_bind_op *op, uint32_t k)
{
    const struct gs_bind_seen *seen = &op->node->seen[k];
    struct gs_str value = gs_str_of(seen->text);

    return seen->text != NULL &&
           gs_lock_look(&value, op->what.ns, op->what.pod, 0, INT64_MAX).state != GS_LOCK_OURS;
}

static void see(struct gs_bind_node *node, uint32_t k, const struct gs_str *value)
{
    struct gs_bind_seen *seen = &node->seen[k];
    bool is_free = value == NULL || value->n == 0, was_locked = is_locked(node);

    if (!is_free && seen->text != NULL && gs_str_eq_c(*value, seen->text))
        return;
    free(seen->text);
    seen->text = is_free ? NULL : strndup(value->p, value->n); /* no memory: taken for free */
    seen->since_ms = gs_loop_now_ms(node->binder->loop);
    if (was_locked && !is_locked(node))
        GS_LIST_REMOVE(&node->binder->locked, node, locked);
    else if (!was_locked && is_locked(node))
        GS_LIST_PUSH(&node->binder->locked, node, locked);
}

void gs_binder_saw_node(struct gs_binder *b, const struct gs_node_view *view, struct gs_str version)
{
    struct gs_bind_node *node = node_of(b, view->name);
    const struct gs_str *identity = gs_pairs_find(view->annotations, GS_STR(GS_NAME_IDENTITY));

    if (node == NULL)
        return;
    node->is_there = true;
    if (gs_str_to_field(version, node->version, sizeof(node->version)) < 0)
        node->version[0] = '\0';
    node->needs_lock = identity == NULL || !gs_str_eq_c(*identity, GS_NAME_IDENTITY_PRESTART);
    for (uint32_t k = 0; k < b->n_locks; k++)
        see(node, k, gs_pairs_find(view->annotations, b->lock_key[k]));
    if (node->queue.first != NULL && node->queue.first->step == GS_BIND_WAITING &&
        !is_others(node->queue.first, node->queue.first->trying))
        try_lock(node->queue.first);
}

void gs_binder_node_gone(struct gs_binder *b, struct gs_str name)
{
    struct gs_bind_node *node = gs_map_find(&b->nodes, name);

    if (node == NULL)
        return;
    node->is_there = false;
    node->version[0] = '\0';
    for (uint32_t k = 0; k < b->n_locks; k++)
        see(node, k, NULL);
    if (node->queue.first != NULL && node->queue.first->step == GS_BIND_WAITING)
        try_lock(node->queue.first); /* it will hear that there is no such node */
    drop_if_unused(node);
}

bool gs_bind_has_node(const struct gs_binder *b, struct gs_str name)
{
    const struct gs_bind_node *node = gs_map_find(&b->nodes, name);

    return node != NULL && node->is_there;
}

const char *gs_bind_no_node(struct gs_bind_op *op)
{
    struct gs_str text = gs_arena_printf(&op->arena, "failed to get node %.*s",
                                         (int)op->what.node.n, op->what.node.p);

    return text.n > 0 ? text.p : "failed to get node";
}

/* ---- locks of pods that are gone ---- */

static void on_swept(void *arg, int rc, struct gs_str value, const struct gs_err *err)
{
    struct gs_bind_node *node = arg;

    (void)value;
    node->sweep = NULL;
    if (rc < 0)
        GS_LOG_WARN("lock of a pod that is gone not given back", GS_LOG_STR("node", node->name),
                    GS_LOG_ERR(err));
    else
        node->binder->stats.swept++;
    drop_if_unused(node);
}

void gs_binder_pod_gone(struct gs_binder *b, struct gs_str ns, struct gs_str pod)
{
    struct gs_bind_node *next;

    for (struct gs_bind_node *node = b->locked.first; node != NULL; node = next) {
        struct gs_str value = gs_str_of(node->seen[0].text);

        next = node->locked.next;
        if (gs_lock_look(&value, ns, pod, 0, INT64_MAX).state != GS_LOCK_OURS)
            continue;
        if (node->queue.first != NULL && node->queue.first->step == GS_BIND_WAITING)
            try_lock(node->queue.first);
        else if (node->queue.first == NULL && node->sweep == NULL &&
                 gs_bind_leads(b) == GS_LEADER_YES &&
                 gs_lock_give(b->client,
                              &(struct gs_lock_want){.node = node->name, .ns = ns, .pod = pod},
                              on_swept, node, &node->sweep, NULL) < 0)
            GS_LOG_WARN("lock of a pod that is gone not given back",
                        GS_LOG_STR("node", node->name));
    }
}

/* ---- the queue ---- */

static void give_up(struct gs_bind_op *op, const char *why)
{
    struct gs_err err = {0};

    if (op->binder->opt.lock_retry_ms > 0)
        (void)gs_err_set(&err, -ETIMEDOUT,
                         "timed out after %llds waiting for node %.*s to be unlocked: %s",
                         (long long)(op->binder->opt.lock_retry_ms / 1000), (int)op->what.node.n,
                         op->what.node.p, why);
    gs_bind_fail(op, err.code < 0 ? err.text : why);
}

static void on_give_up(void *user)
{
    give_up(user, "node lock contention");
}

static void on_look(void *user)
{
    struct gs_bind_op *op = user;

    if (gs_loop_now_ms(op->binder->loop) >= op->give_up_ms)
        on_give_up(op);
    else
        try_lock(op);
}

/* Look again in a while, unless something tells before. */
static void wait(struct gs_bind_op *op, uint32_t ms)
{
    struct gs_binder *b = op->binder;
    int64_t left = op->give_up_ms - gs_loop_now_ms(b->loop);

    op->step = GS_BIND_WAITING;
    gs_loop_timer_in(b->loop, &op->timer, left < (int64_t)ms ? (uint64_t)left : ms, on_look, op);
}

static bool is_lasting(int rc)
{
    return rc == -EPERM || rc == -EACCES || rc == -EINVAL || rc == -ENOMEM || rc == -EBADMSG;
}

static void on_lock(void *arg, int rc, struct gs_str value, const struct gs_err *err)
{
    struct gs_bind_op *op = arg;
    struct gs_binder *b = op->binder;
    const char *why = err != NULL && err->text[0] != '\0' ? err->text : "node not locked";

    op->lock = NULL;
    if (rc == 0) {
        op->holds |= 1u << op->trying;
        op->held[op->trying] = gs_arena_str(&op->arena, value);
        b->stats.locks++;
        if (op->holds != op->wants)
            try_lock(op);
        else
            gs_bind_post(op);
    } else if (rc == -ENOENT) {
        gs_bind_fail(op, gs_bind_no_node(op));
    } else if (is_lasting(rc)) {
        gs_bind_fail(op, why);
    } else if (gs_loop_now_ms(b->loop) >= op->give_up_ms) {
        give_up(op, why);
    } else if (rc == -EBUSY) {
        wait(op, LOOK_MS + gs_kube_client_jitter(b->client, LOOK_MS / 4));
    } else {
        wait(op, 50 + gs_kube_client_jitter(b->client, 200));
    }
}

static void try_lock(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;
    const struct gs_bind_seen *seen;
    struct gs_err err = {0};
    uint32_t k = 0;

    while ((op->wants & ~op->holds & (1u << k)) == 0)
        k++;
    seen = &op->node->seen[k];
    op->trying = k;
    op->step = GS_BIND_LOCKING;
    gs_loop_timer_cancel(b->loop, &op->timer);
    if (gs_lock_take(b->client,
                     &(struct gs_lock_want){
                         .node = op->what.node,
                         .ns = op->what.ns,
                         .pod = op->what.pod,
                         .key = b->lock_key[k],
                         .timeout_ms = b->opt.lock_timeout_ms,
                         .seen = gs_str_of(seen->text),
                         .seen_ms = gs_loop_now_ms(b->loop) - seen->since_ms,
                         .version = gs_str_of(seen->text == NULL ? op->node->version : "")},
                     on_lock, op, &op->lock, &err) < 0)
        gs_bind_fail(op, err.text);
}

/* Whoever is first now goes for the lock, unless the watch has just shown it with somebody else. */
static void on_lead(void *user)
{
    struct gs_bind_node *node = user;
    struct gs_bind_op *op = node->queue.first;

    if (op == NULL) {
        drop_if_unused(node);
        return;
    }
    if (op->step != GS_BIND_QUEUED)
        return;
    if ((op->wants & 1u) != 0 && is_others(op, 0) &&
        gs_loop_now_ms(node->binder->loop) - node->seen[0].since_ms < LOOK_MS &&
        gs_loop_now_ms(node->binder->loop) < op->give_up_ms)
        wait(op, LOOK_MS + gs_kube_client_jitter(node->binder->client, LOOK_MS / 4));
    else
        try_lock(op);
}

/* Locks that the plugins of this pod's vendors go by. */
static uint32_t locks_of(const struct gs_binder *b, const struct gs_books_reservation *r)
{
    const struct gs_policies *policies = gs_books_policies(b->books);
    uint32_t wants = 0;

    for (size_t i = 0; i < policies->n; i++) {
        const struct gs_keys *keys = &policies->at[i]->keys;
        const struct gs_str *grant = gs_pairs_find(&r->annotations, keys->allocated);

        if (keys->lock.n == 0 || grant == NULL || memchr(grant->p, ',', grant->n) == NULL)
            continue; /* no device of this vendor in any slot */
        for (uint32_t k = 0; k < b->n_locks; k++)
            if (gs_str_eq(keys->lock, b->lock_key[k]))
                wants |= 1u << k;
    }
    return wants;
}

void gs_bind_lock(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;
    struct gs_bind_node *node = node_of(b, op->what.node);
    struct gs_books_reservation r;

    op->step = GS_BIND_QUEUED;
    if (node == NULL) {
        gs_bind_fail(op, "no memory");
        return;
    }
    if (!op->is_plain && !node->is_there) {
        drop_if_unused(node);
        gs_bind_fail(op, gs_bind_no_node(op));
        return;
    }
    if (gs_books_reserved(b->books, op->what.uid, &r))
        op->wants = locks_of(b, &r);
    if (!node->needs_lock || op->wants == 0) {
        drop_if_unused(node);
        gs_bind_post(op);
        return;
    }
    op->give_up_ms = gs_loop_now_ms(b->loop) + b->opt.lock_retry_ms;
    gs_books_prolong(b->books, op->what.uid, op->give_up_ms + SETTLE_MS);
    op->node = node;
    GS_LIST_APPEND(&node->queue, op, queued);
    gs_loop_timer_in(b->loop, &op->timer, (uint64_t)b->opt.lock_retry_ms + 1, on_give_up, op);
    if (node->queue.first == op)
        gs_loop_defer(b->loop, &node->lead, on_lead, node);
}

void gs_bind_leave(struct gs_bind_op *op)
{
    struct gs_bind_node *node = op->node;
    bool was_first;

    if (node == NULL)
        return;
    was_first = node->queue.first == op;
    GS_LIST_REMOVE(&node->queue, op, queued);
    op->node = NULL;
    if (was_first) /* from the loop: one failing after the other would go deep */
        gs_loop_defer(node->binder->loop, &node->lead, on_lead, node);
}

static void on_given(void *arg, int rc, struct gs_str value, const struct gs_err *err)
{
    struct gs_bind_op *op = arg;

    (void)value;
    op->lock = NULL;
    if (rc < 0)
        GS_LOG_WARN("node lock not given back; it will be taken over", GS_LOG_ERR(err));
    op->holds &= ~(1u << op->trying);
    gs_bind_unlock(op);
}

void gs_bind_unlock(struct gs_bind_op *op)
{
    struct gs_binder *b = op->binder;

    if (op->lock != NULL) { /* was on its way: it may have been written */
        op->lock = gs_lock_cancel(op->lock);
        op->holds |= 1u << op->trying;
    }
    while (op->holds != 0) {
        uint32_t k = 0;

        while ((op->holds & (1u << k)) == 0)
            k++;
        op->trying = k;
        if (gs_lock_give(b->client,
                         &(struct gs_lock_want){.node = op->what.node,
                                                .ns = op->what.ns,
                                                .pod = op->what.pod,
                                                .key = b->lock_key[k],
                                                .seen = op->held[k]},
                         on_given, op, &op->lock, NULL) == 0)
            return; /* first in its queue still: nobody else tries meanwhile */
        op->holds &= ~(1u << k);
    }
    gs_bind_leave(op);
    gs_bind_over(op);
}
