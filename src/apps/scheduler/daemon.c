#include "apps/scheduler/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "contract/names.h"
#include "control/extender.h"
#include "control/policies.h"
#include "core/size.h"
#include "kube/config.h"
#include "net/secret.h"
#include "vendors/registry_policy.h"

#define HOUSEKEEPING_MS 1000
/* Busy kept-alive clients get their "Connection: close" with an answer within it. */
#define STOP_IDLE_MS  2000
#define STOP_GRACE_MS 10000

static struct gs_moment now_of(const struct gs_daemon *d)
{
    const struct gs_clock *clock = gs_loop_clock(d->loop);

    return (struct gs_moment){.unix_ns = (int64_t)gs_clock_real_ns(clock),
                              .mono_ms = (int64_t)(gs_clock_mono_ns(clock) / GS_CLOCK_MS)};
}

static struct gs_filter_env env_of(struct gs_daemon *d)
{
    return (struct gs_filter_env){d->books, &d->filter, now_of(d), &d->call};
}

/* ---- requests ---- */

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

static void post_event(struct gs_daemon *d, const struct gs_filter_note *note)
{
    static const char *const reason[] = {
        [GS_FILTER_FOUND] = "FilteringSucceed",
        [GS_FILTER_NO_ROOM] = "FilteringFailed",
        [GS_FILTER_ERROR] = "FilteringFailed",
    };

    if (note->outcome == GS_FILTER_NOTHING_ASKED || note->is_simulation || note->uid.n == 0)
        return;
    gs_kube_event_post(d->events,
                       &(struct gs_kube_event){
                           .resource = &gs_kube_pods,
                           .ns = note->ns,
                           .name = note->name,
                           .uid = note->uid,
                           .type = note->outcome == GS_FILTER_FOUND ? "Normal" : "Warning",
                           .reason = reason[note->outcome],
                           .message = note->text,
                       });
}

static int on_filter(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct gs_filter_env env = env_of(d);
    struct gs_filter_note note;
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
    gs_arena_reset(&d->call);
    rc = gs_filter(&env, req->body, &text, &n, &note);
    if (rc < 0)
        return rc;
    gs_http_server_reply_take_malloc(reply, 200, "application/json", text, n);
    post_event(d, &note);
    return 0;
}

static int on_prioritize(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct gs_filter_env env = env_of(d);
    char *text;
    size_t n;
    int rc;

    gs_arena_reset(&d->call);
    rc = gs_filter_prioritize(&env, req->body, &text, &n);
    if (rc == -EINVAL) {
        gs_http_server_reply_text(reply, 400, "not understood\n");
        return 0;
    }
    if (rc < 0)
        return rc;
    gs_http_server_reply_take_malloc(reply, 200, "application/json", text, n);
    return 0;
}

/* ---- webhook ---- */

static int on_webhook(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct gs_str type = gs_http_server_header(req, "Content-Type");
    struct gs_admit_reply answer;
    char message[160];
    int rc;

    gs_arena_reset(&d->call);
    if (req->body.n == 0) {
        rc = gs_admit_error("request body is empty", 400, &answer);
    } else if (!gs_str_eq(type, GS_STR("application/json"))) {
        (void)snprintf(message, sizeof(message), "contentType=%.*s, expected application/json",
                       (int)(type.n < 64 ? type.n : 64), type.n > 0 ? type.p : "");
        rc = gs_admit_error(message, 400, &answer);
    } else {
        rc = gs_admit(&d->admit, d->books, req->body, &d->call, &answer);
    }
    if (rc < 0)
        return rc;
    gs_http_server_reply_take_malloc(reply, 200, "application/json", answer.json, answer.n);
    return 0;
}

/* ---- bind: answered when the API server has answered ---- */

static void on_bind_done(void *arg, const char *error)
{
    struct gs_http_later *later = arg;
    struct gs_http_reply reply = {0};
    char *text;
    size_t n;

    if (gs_extender_write_error(error, &text, &n) == 0)
        gs_http_server_reply_take_malloc(&reply, 200, "application/json", text, n);
    else
        gs_http_server_reply_text(&reply, 500, "no memory\n");
    gs_http_server_answer(later, &reply);
}

static int refuse_bind(struct gs_http_reply *reply, const struct gs_err *err)
{
    char *text;
    size_t n;
    int rc = gs_extender_write_error(err->text, &text, &n);

    if (rc == 0)
        gs_http_server_reply_take_malloc(reply, 200, "application/json", text, n);
    return rc;
}

static int on_bind(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    struct gs_extender_binding binding;
    struct gs_http_later *later;
    struct gs_err err = {0};
    int rc;

    gs_arena_reset(&d->call);
    rc = gs_extender_read_binding(req->body, &d->call, &binding, &err);
    if (rc == 0 && !gs_registry_is_synced(d->registry))
        rc = gs_err_set(&err, -EAGAIN, "reading the cluster");
    if (rc < 0)
        return rc == -ENOMEM ? rc : refuse_bind(reply, &err);
    /* The Binding goes on when the caller hangs up: its answer is then dropped. */
    later = gs_http_server_later(req, NULL, NULL);
    if (later == NULL)
        return -ENOMEM;
    rc = gs_binder_bind(d->binder, &binding, on_bind_done, later, &err);
    if (rc < 0)
        on_bind_done(later, err.text);
    return GS_HTTP_LATER;
}

/* ---- life ---- */

static void on_node(void *arg, const struct gs_kube_node *node, const struct gs_node_view *view)
{
    struct gs_daemon *d = arg;
    const struct gs_str *lock = gs_pairs_find(view->annotations, GS_STR(GS_NAME_LOCK));
    const struct gs_str *identity = gs_pairs_find(view->annotations, GS_STR(GS_NAME_IDENTITY));

    (void)node;
    gs_binder_saw_node(d->binder, view->name, lock != NULL ? *lock : (struct gs_str){0},
                       identity == NULL || !gs_str_eq_c(*identity, GS_NAME_IDENTITY_PRESTART));
}

static void on_housekeeping(void *user)
{
    struct gs_daemon *d = user;
    size_t n = gs_books_expire(d->books, now_of(d).mono_ms);

    if (n > 0)
        GS_LOG_INFO("reservations expired without a bind", GS_LOG_UINT("count", n));
    gs_loop_timer_in(d->loop, &d->housekeeping, HOUSEKEEPING_MS, on_housekeeping, d);
}

static void on_stopped(void *user)
{
    gs_loop_stop(((struct gs_daemon *)user)->loop);
}

static void on_signal(void *user, int signo)
{
    struct gs_daemon *d = user;

    if (signo == SIGHUP) {
        (void)gs_http_server_reload(d->server, NULL); /* what is refused is logged there */
        return;
    }
    if (d->is_stopping) {
        gs_loop_stop(d->loop);
        return;
    }
    GS_LOG_INFO("stopping");
    d->is_stopping = true;
    gs_http_server_stop(d->server, STOP_IDLE_MS, STOP_GRACE_MS, on_stopped, d);
}

/* Through links: a ConfigMap is mounted as one. */
static int read_device_config(struct gs_daemon *d, struct gs_buf *text, struct gs_err *err)
{
    const char *path = d->flags->device_config;
    struct gs_secret_stamp stamp;
    int rc;

    if (path[0] == '\0')
        return 0;
    rc = gs_secret_read(path, text, &stamp);
    return rc < 0 ? gs_err_set(err, rc, "%s: %s", path, strerror(-rc)) : 0;
}

static void on_unknown_key(void *user, const char *what)
{
    (void)user;
    GS_LOG_WARN("device configuration: unknown key ignored", GS_LOG_CSTR("what", what));
}

static int configure(struct gs_daemon *d, struct gs_err *err)
{
    const struct gs_flags *f = d->flags;
    const char *enabled[3] = {NULL};
    struct gs_buf text = {0};
    size_t n = 0;
    int rc = read_device_config(d, &text, err);

    if (f->enable_ascend)
        enabled[n++] = "ascend";
    if (f->enable_iluvatar)
        enabled[n++] = "iluvatar";
    if (rc == 0) {
        struct gs_policies_conf conf = {
            .section = gs_registry_policy,
            .n_sections = gs_registry_policy_n,
            .enabled = enabled,
            .text = (struct gs_str){text.p, text.n},
            .unknown = &(struct gs_yaml_unknown){on_unknown_key, NULL},
        };

        rc = gs_policies_read(&conf, &d->conf, &d->policies, err);
    }
    if (rc < 0 && text.n > 0)
        gs_err_wrap(err, rc, "%s", f->device_config);
    gs_buf_fini(&text);
    d->filter = (struct gs_filter_conf){
        .device_policy = gs_str_of(f->device_policy),
        .node_policy = gs_str_of(f->node_policy),
        .leaves_node_choice = strcmp(f->node_choice, "scheduler") == 0,
        .lease_ms = f->lease_ms,
    };
    d->admit = (struct gs_admit_conf){
        .scheduler_name = gs_str_of(f->scheduler_name),
        .overwrites_default = f->overwrites_default,
    };
    return rc;
}

static int connect_cluster(struct gs_daemon *d, struct gs_err *err)
{
    struct gs_kube_config config;
    int rc = gs_kube_config_load(
        &(struct gs_kube_config_opt){.path = d->flags->kubeconfig[0] != '\0' ? d->flags->kubeconfig
                                                                             : NULL},
        &config, err);

    if (rc < 0)
        return rc;
    rc = gs_kube_client_new(&config, d->loop, NULL, &d->client, err);
    gs_kube_config_fini(&config);
    if (rc == 0)
        rc = gs_kube_events_new(
            d->client,
            &(struct gs_kube_events_opt){.component = d->flags->scheduler_name[0] != '\0'
                                                          ? d->flags->scheduler_name
                                                          : "gpuslice-scheduler"},
            &d->events, err);
    if (rc == 0)
        rc = gs_books_new(&d->policies, &d->books);
    if (rc == 0)
        rc = gs_binder_new(d->client, d->books,
                           &(struct gs_binder_opt){.filter = &d->filter,
                                                   .lock_timeout_ms = d->flags->lock_timeout_ms,
                                                   .lock_retry_ms = d->flags->lock_retry_ms},
                           &d->binder);
    if (rc == 0)
        rc = gs_registry_new(
            d->client, d->books,
            &(struct gs_registry_opt){
                .node_selector = gs_str_of(d->flags->node_selector), .node = on_node, .arg = d},
            &d->registry, err);
    return rc;
}

static int listen_all(struct gs_daemon *d, struct gs_err *err)
{
    const struct gs_flags *f = d->flags;
    bool has_ca = f->client_ca[0] != '\0',
         has_cert = f->cert_file[0] != '\0' && f->key_file[0] != '\0';
    enum gs_http_access access = has_ca ? GS_HTTP_CLIENT_CERT_OR_LOOPBACK : GS_HTTP_ANYONE;
    const struct gs_http_route route[] = {
        {"POST", "/filter", on_filter, d, access},
        {"POST", "/prioritize", on_prioritize, d, access},
        {"POST", "/bind", on_bind, d, access},
        {"POST", "/webhook", on_webhook, d, GS_HTTP_ANYONE},
        {"GET", "/healthz", on_healthz, d, GS_HTTP_ANYONE},
        {"GET", "/readyz", on_readyz, d, GS_HTTP_ANYONE},
    };
    struct gs_http_route *routes =
        GS_ARENA_ARRAY(&d->conf, GS_ARRAY_LEN(route), struct gs_http_route);
    uint64_t limit;

    if (routes == NULL)
        return -ENOMEM;
    memcpy(routes, route, sizeof(route));
    if (gs_size_parse(gs_str_of(f->body_limit), &limit) < 0 || limit == 0)
        return gs_err_set(err, -EINVAL, "--body-limit: '%s' is not a size", f->body_limit);
    return gs_http_server_open(d->loop,
                               &(struct gs_http_server_options){
                                   .name = "extender",
                                   .address = f->http_bind,
                                   .cert_file = has_cert ? f->cert_file : NULL,
                                   .key_file = has_cert ? f->key_file : NULL,
                                   .client_ca_file = has_ca ? f->client_ca : NULL,
                                   .body_limit = (size_t)limit,
                                   .routes = routes,
                                   .n_routes = GS_ARRAY_LEN(route),
                               },
                               &d->server, err);
}

int gs_daemon_init(struct gs_daemon *d, const struct gs_flags *flags, struct gs_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, 0};
    int rc;

    d->flags = flags;
    rc = configure(d, err);
    if (rc == 0)
        rc = gs_loop_new(NULL, &d->loop);
    if (rc == 0)
        rc = gs_loop_signals(d->loop, signals, on_signal, d);
    if (rc == 0)
        rc = connect_cluster(d, err);
    if (rc == 0)
        rc = listen_all(d, err);
    if (rc < 0 && err->text[0] == '\0')
        (void)gs_err_set(err, rc, "%s", strerror(-rc));
    return rc;
}

int gs_daemon_run(struct gs_daemon *d)
{
    GS_LOG_INFO("serving", GS_LOG_CSTR("address", gs_http_server_address(d->server)),
                GS_LOG_UINT("vendors", d->policies.n));
    gs_loop_timer_in(d->loop, &d->housekeeping, HOUSEKEEPING_MS, on_housekeeping, d);
    return gs_loop_run(d->loop);
}

void gs_daemon_fini(struct gs_daemon *d)
{
    gs_http_server_free(d->server);
    gs_http_server_free(d->metrics);
    gs_registry_free(d->registry);
    gs_binder_free(d->binder);
    gs_kube_events_free(d->events);
    gs_kube_client_free(d->client);
    gs_books_free(d->books);
    gs_loop_free(d->loop);
    gs_arena_fini(&d->call);
    gs_arena_fini(&d->conf);
}
