#include "control/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <yyjson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "contract/names.h"
#include "kube/patch.h"
#include "kube/stamp.h"
#include "net/loop.h"

#define TRIES 5

struct gs_lock_view gs_lock_look(const struct gs_str *value, struct gs_str ns, struct gs_str pod,
                                 int64_t now_us, int64_t timeout_us)
{
    struct gs_lock_view view = {.state = GS_LOCK_FREE};
    struct gs_str rest, part[3] = {{0}};
    int64_t since;

    if (value == NULL || value->n == 0)
        return view;
    rest = *value;
    for (struct gs_str p; gs_str_cut(&rest, ',', &p); view.parts++)
        if (view.parts < 3)
            part[view.parts] = p;
    view.state = GS_LOCK_BAD;
    if ((view.parts != 1 && view.parts != 3) || gs_kube_stamp_parse(part[0], &since) < 0)
        return view;
    view.owner_ns = part[1];
    view.owner_pod = part[2];
    if (view.parts == 3 && gs_str_eq(part[1], ns) && gs_str_eq(part[2], pod))
        view.state = GS_LOCK_OURS;
    else
        view.state = now_us - since > timeout_us ? GS_LOCK_EXPIRED : GS_LOCK_HELD;
    return view;
}

struct gs_lock_op {
    struct gs_kube_client *client;
    char *text; /**< owns the strings of `want` */
    struct gs_lock_want want;
    bool gives; /**< give back, not take */
    unsigned tries;
    gs_lock_fn *fn;
    void *arg;
    uint64_t ticket;
    char version[64]; /**< of the node as it was read */
};

static void get_node(struct gs_lock_op *op);

static void free_op(struct gs_lock_op *op)
{
    free(op->text);
    free(op);
}

static void finish(struct gs_lock_op *op, int rc, const struct gs_err *err)
{
    gs_lock_fn *fn = op->fn;
    void *arg = op->arg;

    free_op(op);
    if (fn != NULL)
        fn(arg, rc, err);
}

static void fail(struct gs_lock_op *op, int rc, const char *what)
{
    struct gs_err err = {0};

    (void)gs_err_set(&err, rc, "node %.*s: %s", (int)op->want.node.n, op->want.node.p, what);
    finish(op, rc, &err);
}

static void send(struct gs_lock_op *op, const struct gs_kube_req *req, gs_kube_fn *fn)
{
    struct gs_err err = {0};
    int rc = gs_kube_client_send(op->client, req, fn, op, &op->ticket, &err);

    if (rc < 0)
        finish(op, rc, &err);
}

/* Somebody changed the node meanwhile: read it again, a few times. */
static void again(struct gs_lock_op *op, const struct gs_kube_result *result)
{
    if ((result->rc == -EBUSY || result->rc == -EIO || result->rc == -ETIMEDOUT) &&
        ++op->tries < TRIES)
        get_node(op);
    else
        finish(op, result->rc == -EBUSY ? -EAGAIN : result->rc, result->err);
}

static void on_patched(void *arg, const struct gs_kube_result *result)
{
    struct gs_lock_op *op = arg;

    if (result->rc == 0)
        finish(op, 0, result->err);
    else
        again(op, result);
}

/* Write the annotation, or take it away, against the version that was read. */
static void patch_node(struct gs_lock_op *op)
{
    const struct gs_lock_want *w = &op->want;
    struct gs_kube_merge merge;
    struct gs_buf body = {0}, value = {0};
    char stamp[GS_KUBE_STAMP_TEXT];
    const struct gs_clock *clock = gs_loop_clock(gs_kube_client_loop(op->client));

    gs_buf_addf(&value, "%s,%.*s,%.*s",
                gs_kube_stamp_text((int64_t)(gs_clock_real_ns(clock) / 1000), false, stamp),
                (int)w->ns.n, w->ns.p, (int)w->pod.n, w->pod.p);
    gs_kube_merge_init(&merge);
    if (op->gives)
        gs_kube_merge_annotation_null(&merge, GS_STR(GS_NAME_LOCK));
    else
        gs_kube_merge_annotation(&merge, GS_STR(GS_NAME_LOCK),
                                 (struct gs_str){gs_buf_text(&value), value.n});
    gs_kube_merge_version(&merge, gs_str_of(op->version));
    if (gs_kube_merge_text(&merge, &body) < 0)
        fail(op, -ENOMEM, "no memory");
    else
        send(op,
             &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                   .resource = &gs_kube_nodes,
                                   .name = w->node,
                                   .body = {gs_buf_text(&body), body.n},
                                   .is_single_try = true},
             on_patched);
    gs_kube_merge_fini(&merge);
    gs_buf_fini(&body);
    gs_buf_fini(&value);
}

static void on_owner(void *arg, const struct gs_kube_result *result)
{
    struct gs_lock_op *op = arg;

    if (result->rc == -ENOENT) /* whoever took it is gone: nobody will give it back */
        patch_node(op);
    else if (result->rc == 0)
        fail(op, -EBUSY, "locked by another pod: node lock contention");
    else
        finish(op, result->rc, result->err);
}

static void decide(struct gs_lock_op *op, const struct gs_str *value)
{
    const struct gs_clock *clock = gs_loop_clock(gs_kube_client_loop(op->client));
    struct gs_lock_view view =
        gs_lock_look(value, op->want.ns, op->want.pod, (int64_t)(gs_clock_real_ns(clock) / 1000),
                     op->want.timeout_ms * 1000);

    if (op->gives) {
        /* A legacy lock names nobody: whoever is done gives it back. */
        if (view.state == GS_LOCK_OURS || (value != NULL && value->n > 0 && view.parts == 1))
            patch_node(op);
        else
            finish(op, 0, NULL);
        return;
    }
    switch (view.state) {
    case GS_LOCK_OURS:
        finish(op, 0, NULL);
        break;
    case GS_LOCK_FREE:
    case GS_LOCK_EXPIRED:
        patch_node(op);
        break;
    case GS_LOCK_BAD:
        fail(op, -EINVAL, "malformed lock annotation");
        break;
    case GS_LOCK_HELD:
        if (view.owner_pod.n == 0)
            fail(op, -EBUSY, "locked: node lock contention");
        else
            send(op,
                 &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                       .resource = &gs_kube_pods,
                                       .ns = view.owner_ns,
                                       .name = view.owner_pod},
                 on_owner);
        break;
    }
}

static void on_node(void *arg, const struct gs_kube_result *result)
{
    struct gs_lock_op *op = arg;
    yyjson_val *meta, *val;
    struct gs_str value = {0};

    if (result->rc < 0) {
        if (op->gives && result->rc == -ENOENT)
            finish(op, 0, NULL);
        else
            finish(op, result->rc, result->err);
        return;
    }
    meta = yyjson_obj_get(result->root, "metadata");
    val = yyjson_obj_get(meta, "resourceVersion");
    if (!yyjson_is_str(val) || yyjson_get_len(val) >= sizeof(op->version)) {
        fail(op, -EBADMSG, "node without resourceVersion");
        return;
    }
    memcpy(op->version, yyjson_get_str(val), yyjson_get_len(val) + 1);
    val = yyjson_obj_get(yyjson_obj_get(meta, "annotations"), GS_NAME_LOCK);
    if (yyjson_is_str(val))
        value = (struct gs_str){yyjson_get_str(val), yyjson_get_len(val)};
    decide(op, yyjson_is_str(val) ? &value : NULL);
}

static void get_node(struct gs_lock_op *op)
{
    send(op,
         &(struct gs_kube_req){
             .verb = GS_KUBE_GET, .resource = &gs_kube_nodes, .name = op->want.node},
         on_node);
}

static struct gs_lock_op *new_op(struct gs_kube_client *client, const struct gs_lock_want *want)
{
    struct gs_lock_op *op = calloc(1, sizeof(*op));
    size_t bytes = want->node.n + want->ns.n + want->pod.n + 1;
    char *at;

    if (op == NULL)
        return NULL;
    op->client = client;
    op->want = *want;
    op->text = at = malloc(bytes);
    if (at == NULL) {
        free(op);
        return NULL;
    }
    op->want.node.p = memcpy(at, want->node.p, want->node.n);
    at += want->node.n;
    op->want.ns.p = memcpy(at, want->ns.p, want->ns.n);
    at += want->ns.n;
    op->want.pod.p = memcpy(at, want->pod.p, want->pod.n);
    return op;
}

int gs_lock_take(struct gs_kube_client *client, const struct gs_lock_want *want, gs_lock_fn *fn,
                 void *arg, struct gs_lock_op **ret, struct gs_err *err)
{
    struct gs_lock_op *op = new_op(client, want);
    int rc;

    if (op == NULL)
        return -ENOMEM;
    op->fn = fn;
    op->arg = arg;
    rc = gs_kube_client_send(client,
                             &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                                   .resource = &gs_kube_nodes,
                                                   .name = op->want.node},
                             on_node, op, &op->ticket, err);
    if (rc < 0) {
        free_op(op);
        return rc;
    }
    *ret = op;
    return 0;
}

struct gs_lock_op *gs_lock_cancel(struct gs_lock_op *op)
{
    if (op == NULL)
        return NULL;
    gs_kube_client_cancel(op->client, op->ticket);
    free_op(op);
    return NULL;
}

static void on_given_back(void *arg, int rc, const struct gs_err *err)
{
    (void)arg;
    if (rc < 0 && err != NULL)
        GS_LOG_WARN("node lock not given back; it will expire", GS_LOG_ERR(err));
}

void gs_lock_release(struct gs_kube_client *client, struct gs_str node, struct gs_str ns,
                     struct gs_str pod)
{
    struct gs_lock_op *op =
        new_op(client, &(struct gs_lock_want){.node = node, .ns = ns, .pod = pod});

    if (op == NULL)
        return;
    op->gives = true;
    op->fn = on_given_back;
    get_node(op);
}
