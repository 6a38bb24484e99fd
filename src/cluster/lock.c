#include "cluster/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/buf.h"
#include "contract/names.h"
#include "kube/json.h"
#include "kube/patch.h"
#include "kube/stamp.h"
#include "net/loop.h"

#define TRIES           5
#define BACK_OFF_MS     100
#define CALL_MS         5000
#define BARE_TIMEOUT_MS 120000
/* A pod that has been served, or is bound elsewhere, needs its lock no more: its plugin has so long
 * to give it back after its last word on the pod. */
#define IDLE_MS 10000
/* One that is not bound may be about to be, by another scheduler, which makes two requests between
 * lock and Binding. Less than a bind waits for a lock (28 s), so that it lives to see this. */
#define BINDING_MS 20000

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
    view.parts += value->p[value->n - 1] == ','; /* an empty last part */
    view.state = GS_LOCK_BAD;
    if ((view.parts != 1 && view.parts != 3) || gs_kube_stamp_parse(part[0], &since) < 0)
        return view;
    view.owner_ns = part[1];
    view.owner_pod = part[2];
    /* So far ahead no clock of a cluster is: a bare time would hold until then, and nobody can be
     * asked. Where there is an owner, he is. */
    if (view.parts == 1 && since - now_us > timeout_us) {
        view.state = GS_LOCK_EXPIRED;
        return view;
    }
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
    bool is_bare; /**< the value is a time alone */
    bool gives;   /**< give back, not take */
    unsigned tries;
    gs_lock_fn *fn;
    void *arg;
    uint64_t ticket;
    struct gs_loop_timer timer;
    char version[64];    /**< of the node as it was read */
    struct gs_buf value; /**< as it was written last */
};

static int64_t now_us(const struct gs_lock_op *op)
{
    return gs_loop_unix_us(gs_kube_client_loop(op->client));
}

static void free_op(struct gs_lock_op *op)
{
    gs_loop_timer_cancel(gs_kube_client_loop(op->client), &op->timer);
    gs_buf_fini(&op->value);
    free(op->text);
    free(op);
}

static void finish(struct gs_lock_op *op, int rc, const struct gs_err *err)
{
    gs_lock_fn *fn = op->fn;
    void *arg = op->arg;
    struct gs_buf value = op->value;

    op->value = (struct gs_buf){0};
    free_op(op);
    fn(arg, rc, gs_buf_str(&value), err);
    gs_buf_fini(&value);
}

static void fail(struct gs_lock_op *op, int rc, const char *what)
{
    struct gs_err err = {0};

    (void)gs_err_set(&err, rc, "node %.*s %s", (int)op->want.node.n, op->want.node.p, what);
    finish(op, rc, &err);
}

static void get_node(struct gs_lock_op *op);

static void on_back_off(void *user)
{
    get_node(user);
}

/* Somebody changed the node meanwhile, or the answer was lost: read it again, a few times. */
static void again(struct gs_lock_op *op, int rc, const struct gs_err *err)
{
    uint32_t wait_ms = (uint32_t)BACK_OFF_MS << op->tries;

    if (rc == -ENOENT || rc == -EPERM || rc == -EACCES || rc == -EINVAL || rc == -ENOMEM ||
        ++op->tries >= TRIES) {
        finish(op, rc == -EBUSY ? -EAGAIN : rc, err);
        return;
    }
    if (rc == -EBUSY) /* a conflict: the kubelet writes its node, too */
        wait_ms = 1 + gs_kube_client_jitter(op->client, 10);
    else
        wait_ms += gs_kube_client_jitter(op->client, wait_ms / 2);
    gs_loop_timer_in(gs_kube_client_loop(op->client), &op->timer, wait_ms, on_back_off, op);
}

static void send(struct gs_lock_op *op, const struct gs_kube_req *req, gs_kube_fn *fn)
{
    struct gs_err err = {0};
    int rc = gs_kube_client_send(op->client, req, fn, op, &op->ticket, &err);

    if (rc < 0)
        finish(op, rc, &err);
}

static void on_patched(void *arg, const struct gs_kube_result *result)
{
    struct gs_lock_op *op = arg;

    if (result->rc == 0)
        finish(op, 0, NULL);
    else
        again(op, result->rc, result->err);
}

/* Write the annotation, or take it away, against the version that was read. */
static void patch_node(struct gs_lock_op *op)
{
    const struct gs_lock_want *w = &op->want;
    struct gs_kube_merge merge;
    GS_CLEANUP(gs_buf_fini) struct gs_buf body = {0};
    char stamp[GS_KUBE_STAMP_TEXT];

    gs_buf_clear(&op->value);
    gs_kube_merge_init(&merge);
    if (op->gives) {
        gs_kube_merge_annotation_null(&merge, w->key);
    } else {
        gs_buf_adds(&op->value, gs_kube_stamp_text(now_us(op), false, stamp));
        if (!op->is_bare)
            gs_buf_addf(&op->value, ",%.*s,%.*s", (int)w->ns.n, w->ns.p, (int)w->pod.n, w->pod.p);
        gs_kube_merge_annotation(&merge, w->key, gs_buf_str(&op->value));
    }
    gs_kube_merge_version(&merge, gs_str_of(op->version));
    if (gs_buf_check(&op->value) < 0 || gs_kube_merge_text(&merge, &body) < 0)
        fail(op, -ENOMEM, "not locked: no memory");
    else
        send(op,
             &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                   .resource = &gs_kube_nodes,
                                   .name = w->node,
                                   .body = gs_buf_str(&body),
                                   .timeout_ms = CALL_MS,
                                   .is_single_try = true},
             on_patched);
    gs_kube_merge_fini(&merge);
}

/* As Go prints a duration: 5m0s, 1h0m0s, 28s, 1.5s. */
static void put_duration(struct gs_buf *buf, int64_t ms)
{
    if (ms < 1000) {
        gs_buf_addf(buf, "%lldms", (long long)ms);
        return;
    }
    if (ms >= 3600000)
        gs_buf_addf(buf, "%lldh", (long long)(ms / 3600000));
    if (ms >= 60000)
        gs_buf_addf(buf, "%lldm", (long long)(ms / 60000 % 60));
    gs_buf_addf(buf, "%g", (double)(ms % 60000) / 1000);
    gs_buf_adds(buf, "s");
}

static void contend(struct gs_lock_op *op)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};

    gs_buf_adds(&text, "has been locked within ");
    put_duration(&text, op->want.timeout_ms);
    gs_buf_adds(&text, ": node lock contention");
    fail(op, -EBUSY, gs_buf_text(&text));
}

static const char *text_at(yyjson_val *obj, const char *a, const char *b)
{
    const char *text = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(obj, a), b));

    return text != NULL ? text : "";
}

/* Does the owner, which is alive, still have a use for its lock? */
static bool is_needed(const struct gs_lock_op *op, yyjson_val *pod)
{
    yyjson_val *meta = yyjson_obj_get(pod, "metadata");
    const char *phase = text_at(pod, "status", "phase");
    const char *node = text_at(pod, "spec", "nodeName");

    if (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0)
        return false;
    if (node[0] == '\0')
        return op->want.seen_ms < BINDING_MS;
    if (gs_str_eq_c(op->want.node, node) &&
        strcmp(text_at(meta, "annotations", GS_NAME_BIND_PHASE), "allocating") == 0)
        return true; /* the plugin is at work, until the lock expires */
    return op->want.seen_ms < IDLE_MS;
}

static void on_owner(void *arg, const struct gs_kube_result *result)
{
    struct gs_lock_op *op = arg;

    if (result->rc == -ENOENT || (result->rc == 0 && !is_needed(op, result->root)))
        patch_node(op); /* nobody would give it back */
    else if (result->rc == 0)
        contend(op);
    else
        finish(op, result->rc, result->err);
}

static void refuse_bad(struct gs_lock_op *op, const struct gs_lock_view *view, struct gs_str value)
{
    struct gs_err err = {0};
    int n = value.n < 200 ? (int)value.n : 200;

    if (view->parts == 1 || view->parts == 3)
        (void)gs_err_set(&err, -EINVAL, "malformed lock annotation: no time in \"%.*s\"", n,
                         value.p);
    else
        (void)gs_err_set(&err, -EINVAL,
                         "malformed lock annotation: expected 3 parts, got %zu from \"%.*s\"",
                         view->parts, n, value.p);
    finish(op, -EINVAL, &err);
}

static void give(struct gs_lock_op *op, const struct gs_lock_view *view, struct gs_str value)
{
    bool is_ours = op->is_bare ? gs_str_eq(value, op->want.seen)
                               : view->state == GS_LOCK_OURS || view->parts == 1;

    if (is_ours && value.n > 0)
        patch_node(op);
    else
        finish(op, 0, NULL);
}

static void take(struct gs_lock_op *op, struct gs_lock_view *view, struct gs_str value)
{
    bool is_seen = value.n > 0 && gs_str_eq(value, op->want.seen);

    if (!is_seen)
        op->want.seen_ms = 0;
    if (view->state == GS_LOCK_HELD && op->want.seen_ms >= op->want.timeout_ms)
        view->state = GS_LOCK_EXPIRED; /* stamped by a clock ahead of ours */
    if (op->is_bare && op->tries > 0 && value.n > 0 && gs_str_eq(value, gs_buf_str(&op->value)))
        view->state = GS_LOCK_OURS; /* written, and the answer was lost */
    switch (view->state) {
    case GS_LOCK_OURS:
        gs_buf_clear(&op->value);
        gs_buf_put(&op->value, value);
        finish(op, gs_buf_check(&op->value), NULL);
        break;
    case GS_LOCK_FREE:
    case GS_LOCK_EXPIRED:
        patch_node(op);
        break;
    case GS_LOCK_BAD:
        refuse_bad(op, view, value);
        break;
    case GS_LOCK_HELD:
        if (view->owner_pod.n == 0)
            contend(op);
        else
            send(op,
                 &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                       .resource = &gs_kube_pods,
                                       .ns = view->owner_ns,
                                       .name = view->owner_pod,
                                       .timeout_ms = CALL_MS},
                 on_owner);
        break;
    }
}

static void on_node(void *arg, const struct gs_kube_result *result)
{
    struct gs_lock_op *op = arg;
    struct gs_lock_view view;
    struct gs_str value = {0};
    struct gs_str version;
    yyjson_val *meta, *val;

    if (result->rc < 0) {
        if (op->gives && result->rc == -ENOENT)
            finish(op, 0, NULL);
        else
            again(op, result->rc, result->err);
        return;
    }
    meta = yyjson_obj_get(result->root, "metadata");
    version = gs_kube_json_text(yyjson_obj_get(meta, "resourceVersion"));
    if (version.n == 0 || gs_str_to_field(version, op->version, sizeof(op->version)) < 0) {
        fail(op, -EBADMSG, "has no resourceVersion");
        return;
    }
    val = yyjson_obj_getn(yyjson_obj_get(meta, "annotations"), op->want.key.p, op->want.key.n);
    if (yyjson_is_str(val))
        value = gs_kube_json_text(val);
    view = gs_lock_look(&value, op->want.ns, op->want.pod, now_us(op), op->want.timeout_ms * 1000);
    if (op->gives)
        give(op, &view, value);
    else
        take(op, &view, value);
}

static int ask(struct gs_lock_op *op, struct gs_err *err)
{
    return gs_kube_client_send(op->client,
                               &(struct gs_kube_req){.verb = GS_KUBE_GET,
                                                     .resource = &gs_kube_nodes,
                                                     .name = op->want.node,
                                                     .timeout_ms = CALL_MS},
                               on_node, op, &op->ticket, err);
}

static void get_node(struct gs_lock_op *op)
{
    struct gs_err err = {0};
    int rc = ask(op, &err);

    if (rc < 0)
        finish(op, rc, &err);
}

static struct gs_lock_op *new_op(struct gs_kube_client *client, const struct gs_lock_want *want)
{
    struct gs_lock_op *op = calloc(1, sizeof(*op));
    char *at;

    if (op == NULL)
        return NULL;
    op->client = client;
    op->want = *want;
    if (want->key.n == 0)
        op->want.key = GS_STR(GS_NAME_LOCK);
    op->is_bare = !gs_str_eq_c(op->want.key, GS_NAME_LOCK);
    if (op->is_bare)
        op->want.timeout_ms = BARE_TIMEOUT_MS;
    op->text = at =
        malloc(want->node.n + want->ns.n + want->pod.n + op->want.key.n + want->seen.n + 5);
    if (at == NULL) {
        free(op);
        return NULL;
    }
    op->want.node = gs_str_keep(want->node, &at);
    op->want.ns = gs_str_keep(want->ns, &at);
    op->want.pod = gs_str_keep(want->pod, &at);
    op->want.key = gs_str_keep(op->want.key, &at);
    op->want.seen = gs_str_keep(want->seen, &at);
    op->want.version = (struct gs_str){0};
    if (gs_str_to_field(want->version, op->version, sizeof(op->version)) < 0)
        op->version[0] = '\0';
    return op;
}

static void on_patch_now(void *user)
{
    patch_node(user);
}

static int start(struct gs_lock_op *op, gs_lock_fn *fn, void *arg, struct gs_lock_op **ret,
                 struct gs_err *err)
{
    int rc;

    if (op == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    op->fn = fn;
    op->arg = arg;
    if (op->version[0] != '\0')
        gs_loop_timer_in(gs_kube_client_loop(op->client), &op->timer, 0, on_patch_now, op);
    rc = op->version[0] != '\0' ? 0 : ask(op, err);
    if (rc < 0) {
        free_op(op);
        return rc;
    }
    *ret = op;
    return 0;
}

int gs_lock_take(struct gs_kube_client *client, const struct gs_lock_want *want, gs_lock_fn *fn,
                 void *arg, struct gs_lock_op **ret, struct gs_err *err)
{
    return start(new_op(client, want), fn, arg, ret, err);
}

int gs_lock_give(struct gs_kube_client *client, const struct gs_lock_want *want, gs_lock_fn *fn,
                 void *arg, struct gs_lock_op **ret, struct gs_err *err)
{
    struct gs_lock_op *op = new_op(client, want);

    if (op != NULL)
        op->gives = true;
    return start(op, fn, arg, ret, err);
}

struct gs_lock_op *gs_lock_cancel(struct gs_lock_op *op)
{
    if (op == NULL)
        return NULL;
    gs_kube_client_cancel(op->client, op->ticket);
    free_op(op);
    return NULL;
}
