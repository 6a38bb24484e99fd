#include "apps/scheduler/routes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/scheduler/scrape.h"
#include "apps/scheduler/state.h"
#include "base/file.h"
#include "base/log.h"
#include "control/extender.h"
#include "core/size.h"

static void on_refused(void *arg, const struct gs_filter_refusal *refusal)
{
    gs_retry_refused(arg, refusal);
}

static struct gs_filter_env env_of(struct gs_daemon *d)
{
    return (struct gs_filter_env){.books = d->books,
                                  .conf = &d->filter,
                                  .now = gs_moment_now(d->loop),
                                  .arena = &d->call,
                                  .refused = on_refused,
                                  .arg = d->retry};
}

static void took(struct gs_daemon *d, enum gs_metrics_call call, uint64_t started)
{
    gs_metrics_took(d->stats, call, gs_loop_now_ns(d->loop) - started);
}

/* ---- health ---- */

static int on_healthz(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    (void)user;
    (void)req;
    gs_http_server_reply_text(reply, 200, "ok\n");
    return 0;
}

static int on_readyz(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    const struct gs_daemon *d = user;

    (void)req;
    if (gs_registry_is_synced(d->registry) && !d->is_stopping)
        gs_http_server_reply_text(reply, 200, "ok\n");
    else
        gs_http_server_reply_text(reply, 503, "reading the cluster\n");
    return 0;
}

/* ---- filter and prioritize ---- */

static void refuse(struct gs_http_reply *reply, const struct gs_err *err)
{
    struct gs_buf text = {0};

    gs_buf_addf(&text, "%s\n", err->text[0] != '\0' ? err->text : "not understood");
    gs_http_server_reply_take(reply, 400, "text/plain; charset=utf-8", &text);
}

static void post_event(struct gs_daemon *d, const struct gs_filter_note *note)
{
    bool is_found = note->outcome == GS_FILTER_FOUND;

    if (note->outcome == GS_FILTER_NOTHING_ASKED || note->is_simulation || note->uid.n == 0)
        return;
    gs_kube_event_post(d->events, &(struct gs_kube_event){
                                      .resource = &gs_kube_pods,
                                      .ns = note->ns,
                                      .name = note->name,
                                      .uid = note->uid,
                                      .type = is_found ? "Normal" : "Warning",
                                      .reason = is_found ? "FilteringSucceed" : "FilteringFailed",
                                      .message = note->text,
                                  });
}

static int on_filter(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct gs_filter_env env = env_of(d);
    struct gs_filter_note note;
    uint64_t started;
    char *text;
    size_t n;
    int rc;

    if (req->body.n == 0) {
        gs_http_server_reply_text(reply, 400, "Please send a request body\n");
        return 0;
    }
    if (!gs_registry_is_synced(d->registry)) {
        gs_http_server_reply_text(reply, 503, "reading the cluster\n");
        return 0;
    }
    started = gs_loop_now_ns(d->loop);
    gs_arena_reset(&d->call);
    rc = gs_filter(&env, req->body, &text, &n, &note);
    if (rc < 0)
        return rc;
    took(d, GS_METRICS_FILTER, started);
    gs_metrics_filtered(d->stats, &note);
    gs_http_server_reply_take_malloc(reply, 200, "application/json", text, n);
    post_event(d, &note);
    if (note.outcome == GS_FILTER_FOUND)
        gs_retry_forget(d->retry, note.uid);
    gs_preempt_refused(d->preempt, req->body, &note);
    return 0;
}

static int on_preempt(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct gs_err err = {0};
    char *text;
    size_t n;
    int rc;

    if (!gs_registry_is_synced(d->registry)) {
        gs_http_server_reply_text(reply, 503, "reading the cluster\n");
        return 0;
    }
    gs_arena_reset(&d->call);
    rc = gs_preempt_answer(d->preempt, req->body, &d->call, &text, &n, &err);
    if (rc == -EINVAL) {
        refuse(reply, &err);
        return 0;
    }
    if (rc < 0)
        return rc;
    gs_http_server_reply_take_malloc(reply, 200, "application/json", text, n);
    return 0;
}

static int on_prioritize(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct gs_filter_env env = env_of(d);
    uint64_t started = gs_loop_now_ns(d->loop);
    struct gs_err err = {0};
    char *text;
    size_t n;
    int rc;

    gs_arena_reset(&d->call);
    rc = gs_filter_prioritize(&env, req->body, &text, &n, &err);
    if (rc == -EINVAL) {
        refuse(reply, &err);
        return 0;
    }
    if (rc < 0)
        return rc;
    took(d, GS_METRICS_PRIORITIZE, started);
    gs_http_server_reply_take_malloc(reply, 200, "application/json", text, n);
    return 0;
}

/* ---- webhook ---- */

static int on_webhook(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct gs_str type = gs_http_server_header(req, "Content-Type");
    uint64_t started = gs_loop_now_ns(d->loop);
    struct gs_admit_reply answer;
    char message[160];
    int rc;

    gs_arena_reset(&d->call);
    if (req->body.n == 0) {
        rc = gs_admit_error("request body is empty", 400, &answer);
    } else if (!gs_admit_is_json(type)) {
        (void)snprintf(message, sizeof(message), "contentType=%.*s, expected application/json",
                       (int)(type.n < 64 ? type.n : 64), type.n > 0 ? type.p : "");
        rc = gs_admit_error(message, 400, &answer);
    } else {
        rc = gs_admit(&d->admit, d->books, req->body, &d->call, &answer);
    }
    if (rc < 0)
        return rc;
    took(d, GS_METRICS_WEBHOOK, started);
    gs_metrics_admitted(d->stats, &answer);
    gs_http_server_reply_take_malloc(reply, 200, "application/json", answer.json, answer.n);
    return 0;
}

/* ---- bind: answered when the API server has answered ---- */

struct bind_call {
    struct gs_daemon *d;
    struct gs_http_later *later;
    uint64_t started;
    struct gs_arena arena; /**< of the names */
    struct gs_extender_binding binding;
};

static void post_bind_event(struct bind_call *call, const char *error)
{
    const struct gs_extender_binding *b = &call->binding;
    bool is_bound = error[0] == '\0';

    gs_kube_event_post(
        call->d->events,
        &(struct gs_kube_event){
            .resource = &gs_kube_pods,
            .ns = b->ns,
            .name = b->pod,
            .uid = b->uid,
            .type = is_bound ? "Normal" : "Warning",
            .reason = is_bound ? "BindingSucceed" : "BindingFailed",
            .message = is_bound ? gs_arena_printf(&call->arena,
                                                  "Successfully binding node [%.*s] to %.*s/%.*s",
                                                  (int)b->node.n, b->node.p, (int)b->ns.n, b->ns.p,
                                                  (int)b->pod.n, b->pod.p)
                                : gs_str_of(error),
        });
}

static void on_bind_done(void *arg, const char *error)
{
    struct bind_call *call = arg;
    struct gs_http_reply reply = {0};
    char *text;
    size_t n;

    if (gs_extender_write_error(error, &text, &n) == 0)
        gs_http_server_reply_take_malloc(&reply, 200, "application/json", text, n);
    else
        gs_http_server_reply_text(&reply, 500, "no memory\n");
    gs_http_server_answer(call->later, &reply);
    took(call->d, GS_METRICS_BIND, call->started);
    gs_metrics_bound(call->d->stats, error);
    post_bind_event(call, error);
    gs_arena_fini(&call->arena);
    free(call);
}

/* It cannot be read: there is no pod to tell of it. */
static int refuse_bind(struct gs_daemon *d, struct gs_http_reply *reply, const struct gs_err *err)
{
    char *text;
    size_t n;
    int rc = gs_extender_write_error(err->text, &text, &n);

    gs_metrics_bound(d->stats, err->text);
    if (rc == 0)
        gs_http_server_reply_take_malloc(reply, 200, "application/json", text, n);
    return rc;
}

static int on_bind(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct bind_call *call = calloc(1, sizeof(*call));
    struct gs_err err = {0};
    int rc;

    if (call == NULL)
        return -ENOMEM;
    call->d = d;
    call->started = gs_loop_now_ns(d->loop);
    rc = gs_extender_read_binding(req->body, &call->arena, &call->binding, &err);
    /* The Binding goes on when the caller hangs up: its answer is then dropped. */
    if (rc == 0)
        call->later = gs_http_server_later(req, NULL, NULL);
    if (rc < 0 || call->later == NULL) {
        gs_arena_fini(&call->arena);
        free(call);
        return rc < 0 && rc != -ENOMEM ? refuse_bind(d, reply, &err) : -ENOMEM;
    }
    if (gs_registry_is_synced(d->registry))
        rc = gs_binder_bind(d->binder, &call->binding, on_bind_done, call, &err);
    else
        rc = gs_err_set(&err, -EAGAIN, "reading the cluster");
    if (rc < 0)
        on_bind_done(call, err.text);
    return GS_HTTP_LATER;
}

/* ---- listeners ---- */

#define CONNECTIONS       4096u /* of one listener */
#define CONNECTIONS_LEAST 64u
#define FILES_OF_OURS     256u /* descriptors for the API server's connections and all else */

/* Connections that there are descriptors for, on each listener. One that cannot be taken could push
 * nobody out. */
static int count_connections(const struct gs_daemon *d, unsigned *ret, struct gs_err *err)
{
    const struct gs_flags *f = d->flags;
    unsigned listeners =
        1u + (unsigned)(f->extender_bind[0] != '\0') + (unsigned)(f->metrics_bind[0] != '\0');
    uint64_t files, each;
    int rc = gs_file_raise_limit(&files);

    if (rc < 0)
        return gs_err_set(err, rc, "cannot read the limit of open files");
    each = files > FILES_OF_OURS ? (files - FILES_OF_OURS) / listeners : 0;
    if (each < CONNECTIONS_LEAST)
        return gs_err_set(err, -EMFILE, "%llu open files are allowed (ulimit -n): %u are needed",
                          (unsigned long long)files, FILES_OF_OURS + listeners * CONNECTIONS_LEAST);
    if (each < CONNECTIONS)
        GS_LOG_WARN("few open files are allowed (ulimit -n): listeners take fewer connections",
                    GS_LOG_UINT("files", files), GS_LOG_UINT("connections", each),
                    GS_LOG_UINT("wanted", CONNECTIONS));
    *ret = each < CONNECTIONS ? (unsigned)each : CONNECTIONS;
    return 0;
}

/* The webhook comes from the API server, which has no certificate to show. Whoever asks for
 * decisions is on this machine or has one; without TLS it is for the network to keep others off. */
static int open_calls(struct gs_daemon *d, struct gs_http_server_options *o,
                      enum gs_http_access access, struct gs_http_server **ret, struct gs_err *err)
{
    const struct gs_http_route route[] = {
        {"POST", "/filter", on_filter, d, access},
        {"POST", "/prioritize", on_prioritize, d, access},
        {"POST", "/preempt", on_preempt, d, access},
        {"POST", "/bind", on_bind, d, access},
        {"POST", "/webhook", on_webhook, d, GS_HTTP_ANYONE},
        {"GET", "/healthz", on_healthz, d, GS_HTTP_ANYONE},
        {"GET", "/readyz", on_readyz, d, GS_HTTP_ANYONE},
    };
    struct gs_http_route *routes =
        GS_ARENA_ARRAY(&d->conf, GS_ARRAY_LEN(route), struct gs_http_route);
    uint64_t limit;

    if (gs_size_parse(gs_str_of(d->flags->body_limit), &limit) < 0 || limit == 0)
        return gs_err_set(err, -EINVAL, "--body-limit: '%s' is not a size", d->flags->body_limit);
    if (routes == NULL)
        return -ENOMEM;
    memcpy(routes, route, sizeof(route));
    o->body_limit = (size_t)limit;
    o->routes = routes;
    o->n_routes = GS_ARRAY_LEN(route);
    return gs_http_server_open(d->loop, o, ret, err);
}

static int listen_calls(struct gs_daemon *d, unsigned connections, struct gs_err *err)
{
    const struct gs_flags *f = d->flags;
    bool has_ca = f->client_ca[0] != '\0',
         has_cert = f->cert_file[0] != '\0' && f->key_file[0] != '\0';
    enum gs_http_access access =
        has_ca || has_cert ? GS_HTTP_CLIENT_CERT_OR_LOOPBACK : GS_HTTP_ANYONE;
    struct gs_http_server_options o = {
        .name = "extender",
        .address = f->http_bind,
        .cert_file = has_cert ? f->cert_file : NULL,
        .key_file = has_cert ? f->key_file : NULL,
        .client_ca_file = has_ca ? f->client_ca : NULL,
        .max_connections = connections,
    };

    return open_calls(d, &o, access, &d->server, err);
}

/* Beside the one with TLS: kube-scheduler keeps few connections open, so that with TLS most binds
 * would begin with a handshake. */
static int listen_local(struct gs_daemon *d, unsigned connections, struct gs_err *err)
{
    struct gs_http_server_options o = {
        .name = "local", .address = d->flags->extender_bind, .max_connections = connections};

    return open_calls(d, &o, GS_HTTP_CLIENT_CERT_OR_LOOPBACK, &d->local, err);
}

static int listen_metrics(struct gs_daemon *d, unsigned connections, struct gs_err *err)
{
    const struct gs_http_route route[] = {
        {"GET", "/metrics", gs_scrape_get, d, GS_HTTP_ANYONE},
        {"GET", "/healthz", on_healthz, d, GS_HTTP_ANYONE},
        {"GET", "/readyz", on_readyz, d, GS_HTTP_ANYONE},
    };
    struct gs_http_route *routes =
        GS_ARENA_ARRAY(&d->conf, GS_ARRAY_LEN(route), struct gs_http_route);

    if (routes == NULL)
        return -ENOMEM;
    memcpy(routes, route, sizeof(route));
    return gs_http_server_open(d->loop,
                               &(struct gs_http_server_options){
                                   .name = "metrics",
                                   .address = d->flags->metrics_bind,
                                   .body_limit = 4096,
                                   .max_connections = connections,
                                   .routes = routes,
                                   .n_routes = GS_ARRAY_LEN(route),
                               },
                               &d->metrics, err);
}

int gs_routes_open(struct gs_daemon *d, struct gs_err *err)
{
    unsigned connections = 0;
    int rc = count_connections(d, &connections, err);

    if (rc == 0)
        rc = listen_calls(d, connections, err);
    if (rc == 0 && d->flags->extender_bind[0] != '\0')
        rc = listen_local(d, connections, err);
    return rc == 0 && d->flags->metrics_bind[0] != '\0' ? listen_metrics(d, connections, err) : rc;
}
