#include "apps/scheduler/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/scheduler/routes.h"
#include "base/clock.h"
#include "base/log.h"
#include "contract/names.h"
#include "control/policies.h"
#include "kube/config.h"
#include "kube/watch.h"
#include "model/ask.h"
#include "model/order.h"
#include "net/secret.h"
#include "vendors/registry_policy.h"

#define HOUSEKEEPING_MS 1000
/* Busy kept-alive clients get their "Connection: close" with an answer within it. */
#define STOP_IDLE_MS  2000
#define STOP_GRACE_MS 10000

/* ---- life ---- */

static void on_node(void *arg, const struct gs_kube_node *node, const struct gs_node_view *view)
{
    struct gs_daemon *d = arg;

    gs_binder_saw_node(d->binder, view, node->meta.resource_version);
    gs_handshake_saw_node(d->handshake, view);
}

static void on_node_gone(void *arg, struct gs_str name)
{
    struct gs_daemon *d = arg;

    gs_binder_node_gone(d->binder, name);
    gs_handshake_node_gone(d->handshake, name);
}

static void on_bound(void *arg, const struct gs_kube_pod *pod)
{
    struct gs_daemon *d = arg;

    gs_binder_saw_bound(d->binder, pod);
}

static void on_pod(void *arg, const struct gs_kube_pod *pod)
{
    struct gs_daemon *d = arg;

    gs_fence_saw_pod(d->fence, pod);
    gs_preempt_saw_pod(d->preempt, pod);
    gs_retry_saw_pod(d->retry, pod);
}

static void on_pod_gone(void *arg, const struct gs_kube_key *key)
{
    struct gs_daemon *d = arg;

    gs_binder_pod_gone(d->binder, key->ns, key->name);
    gs_fence_pod_gone(d->fence, key->uid);
    gs_preempt_pod_gone(d->preempt, key->uid);
    gs_retry_forget(d->retry, key->uid);
}

static bool trusts(void *arg, const struct gs_kube_pod *pod)
{
    struct gs_daemon *d = arg;

    return d->sign == NULL || gs_sign_trusts(d->sign, pod);
}

static bool counts(void *arg, const struct gs_kube_pod *pod, struct gs_str key)
{
    struct gs_daemon *d = arg;

    return d->sign == NULL || gs_sign_counts(d->sign, pod, key);
}

static int seal(void *arg, const struct gs_extender_binding *binding, struct gs_arena *arena,
                struct gs_pairs *annotations)
{
    struct gs_daemon *d = arg;

    return d->sign == NULL ? 0
                           : gs_sign_seal(d->sign, binding->uid, binding->node, arena, annotations);
}

static enum gs_leader_state leads(void *arg)
{
    return gs_leader_state(((struct gs_daemon *)arg)->leader);
}

static bool ask_who_leads(void *arg, struct gs_kube_req *ret)
{
    return gs_leader_ask(((struct gs_daemon *)arg)->leader, ret);
}

static bool proves_we_lead(void *arg, const struct gs_kube_result *result)
{
    return gs_leader_proves(((struct gs_daemon *)arg)->leader, result);
}

static bool leads_now(void *arg)
{
    return leads(arg) == GS_LEADER_YES;
}

static void on_relist(void *arg)
{
    gs_registry_relist(((struct gs_daemon *)arg)->registry);
}

static void on_relisted(void *arg)
{
    gs_leader_relisted(((struct gs_daemon *)arg)->leader);
}

static void on_fence(void *arg)
{
    gs_fence_begin(((struct gs_daemon *)arg)->fence);
}

static void on_fenced(void *arg)
{
    gs_leader_fenced(((struct gs_daemon *)arg)->leader);
}

/* What was decided before is void: it was decided on books that the one before us still wrote in.
 */
static void on_leads(void *arg)
{
    struct gs_daemon *d = arg;

    gs_books_void(d->books);
    gs_binder_go(d->binder);
}

static void on_follows(void *arg)
{
    gs_fence_stop(((struct gs_daemon *)arg)->fence);
}

/* Bound for sure, and the watch has not shown it for long, or maybe it is gone: ask. */
static void expire(struct gs_daemon *d)
{
    int64_t now_ms = gs_loop_now_ms(d->loop);
    struct gs_registry_stats s;
    size_t n;

    gs_registry_stats(d->registry, &s);
    n = gs_books_expire(d->books, now_ms, s.listed_ms);
    gs_metrics_expired(d->stats, n);
    if (n > 0)
        GS_LOG_INFO("reservations expired without a bind", GS_LOG_UINT("count", n));
    if (gs_books_is_overdue(d->books, now_ms) && s.listed_ms >= d->relisted_ms) {
        d->relisted_ms = now_ms;
        gs_registry_relist_pods(d->registry);
    }
}

static void on_housekeeping(void *user)
{
    struct gs_daemon *d = user;

    expire(d);
    if (d->sign != NULL)
        (void)gs_sign_look(d->sign);
    gs_loop_timer_in(d->loop, &d->housekeeping, HOUSEKEEPING_MS, on_housekeeping, d);
}

static void on_stopped(void *user)
{
    struct gs_daemon *d = user;

    if (--d->n_stopping == 0)
        gs_loop_stop(d->loop);
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
    d->n_stopping = d->local != NULL ? 2 : 1;
    gs_http_server_stop(d->server, STOP_IDLE_MS, STOP_GRACE_MS, on_stopped, d);
    if (d->local != NULL)
        gs_http_server_stop(d->local, STOP_IDLE_MS, STOP_GRACE_MS, on_stopped, d);
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
    return rc < 0 ? gs_err_set(err, rc, "cannot read the device configuration '%s': %s", path,
                               strerror(-rc))
                  : 0;
}

static void on_unknown_key(void *user, const char *what)
{
    (void)user;
    GS_LOG_WARN("device configuration: unknown key ignored", GS_LOG_CSTR("what", what));
}

static void tell_policies(const struct gs_flags *f)
{
    struct gs_str word = gs_str_of(f->node_policy);

    if (!gs_ask_knows_node_policy(word))
        GS_LOG_WARN("policy not known, counts as binpack",
                    GS_LOG_CSTR("flag", "--node-scheduler-policy"), GS_LOG_STR("policy", word));
    if (!gs_order_knows(gs_str_of(f->device_policy), &word))
        GS_LOG_WARN("policy not known, counts for nothing",
                    GS_LOG_CSTR("flag", "--gpu-scheduler-policy"), GS_LOG_STR("policy", word));
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
    tell_policies(f);
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
    if (rc == 0 && f->grant_key[0] != '\0')
        rc = gs_sign_new(f->grant_key, f->interop, &d->sign, err);
    return rc;
}

static int watch_cluster(struct gs_daemon *d, struct gs_err *err)
{
    const struct gs_flags *f = d->flags;
    char host[256] = "";
    int rc;

    if (f->leader_elect && f->lease_name[0] == '\0')
        return gs_err_set(err, -EINVAL, "--leader-elect needs --leader-elect-resource-name");
    (void)gethostname(host, sizeof(host) - 1);
    rc = gs_leader_new(d->client,
                       &(struct gs_leader_opt){
                           .lease_ns = gs_str_of(f->leader_elect ? f->lease_ns : ""),
                           .lease_name = gs_str_of(f->leader_elect ? f->lease_name : ""),
                           .host = gs_str_of(host),
                           .relist = on_relist,
                           .fence = on_fence,
                           .leads = on_leads,
                           .follows = on_follows,
                           .arg = d,
                       },
                       &d->leader, err);
    if (rc == 0)
        rc = gs_registry_new(d->client, d->books,
                             &(struct gs_registry_opt){
                                 .node_selector = gs_str_of(f->node_selector),
                                 .trusts = d->sign != NULL ? trusts : NULL,
                                 .counts = d->sign != NULL ? counts : NULL,
                                 .node = on_node,
                                 .node_gone = on_node_gone,
                                 .bound = on_bound,
                                 .pod = on_pod,
                                 .pod_gone = on_pod_gone,
                                 .relisted = on_relisted,
                                 .arg = d,
                             },
                             &d->registry, err);
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
        rc = gs_fence_new(d->client, d->books,
                          &(struct gs_fence_opt){.filter = &d->filter, .done = on_fenced, .arg = d},
                          &d->fence);
    if (rc == 0)
        rc = gs_binder_new(d->client, d->books,
                           &(struct gs_binder_opt){.filter = &d->filter,
                                                   .fence = d->fence,
                                                   .lock_timeout_ms = d->flags->lock_timeout_ms,
                                                   .lock_retry_ms = d->flags->lock_retry_ms,
                                                   .leads = leads,
                                                   .ask = ask_who_leads,
                                                   .proves = proves_we_lead,
                                                   .seal = seal,
                                                   .arg = d},
                           &d->binder);
    if (rc == 0)
        rc = gs_preempt_new(
            d->client, d->books,
            &(struct gs_preempt_opt){
                .filter = &d->filter, .events = d->events, .leads = leads_now, .arg = d},
            &d->preempt, err);
    if (rc == 0)
        rc = gs_retry_new(
            d->client, d->books,
            &(struct gs_retry_opt){.filter = &d->filter, .leads = leads_now, .arg = d}, &d->retry);
    if (rc == 0)
        rc = gs_handshake_new(d->client, d->books,
                              &(struct gs_handshake_opt){.leads = leads, .arg = d}, &d->handshake);
    if (rc == 0)
        rc = watch_cluster(d, err);
    return rc;
}

int gs_daemon_init(struct gs_daemon *d, const struct gs_flags *flags, struct gs_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, 0};
    int rc;

    d->flags = flags;
    d->start_unix_s = gs_clock_real_ns(gs_clock_real()) / GS_CLOCK_S;
    rc = configure(d, err);
    if (rc == 0)
        rc = gs_metrics_new(&d->stats);
    if (rc == 0)
        rc = gs_loop_new(NULL, &d->loop);
    if (rc == 0)
        rc = gs_loop_signals(d->loop, signals, on_signal, d);
    if (rc == 0)
        rc = connect_cluster(d, err);
    if (rc == 0)
        rc = gs_routes_open(d, err);
    if (rc < 0 && err->text[0] == '\0')
        (void)gs_err_set(err, rc, "%s", strerror(-rc));
    return rc;
}

int gs_daemon_run(struct gs_daemon *d)
{
    GS_LOG_INFO(
        "serving", GS_LOG_CSTR("address", gs_http_server_address(d->server)),
        GS_LOG_CSTR("metrics", d->metrics != NULL ? gs_http_server_address(d->metrics) : "nowhere"),
        GS_LOG_UINT("device_kinds", d->policies.n));
    gs_loop_timer_in(d->loop, &d->housekeeping, HOUSEKEEPING_MS, on_housekeeping, d);
    return gs_loop_run(d->loop);
}

void gs_daemon_fini(struct gs_daemon *d)
{
    gs_http_server_free(d->server);
    gs_http_server_free(d->local);
    gs_http_server_free(d->metrics);
    gs_metrics_free(d->stats);
    gs_registry_free(d->registry);
    gs_preempt_free(d->preempt);
    gs_retry_free(d->retry);
    gs_leader_free(d->leader);
    gs_handshake_free(d->handshake);
    gs_binder_free(d->binder);
    gs_fence_free(d->fence);
    gs_kube_events_free(d->events);
    gs_kube_client_free(d->client);
    gs_books_free(d->books);
    gs_sign_free(d->sign);
    gs_loop_free(d->loop);
    gs_arena_fini(&d->call);
    gs_arena_fini(&d->conf);
}
