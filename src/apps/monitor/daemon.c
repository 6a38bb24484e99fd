#include "apps/monitor/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/monitor/breach.h"
#include "apps/monitor/grants.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/proc.h"
#include "kube/client.h"
#include "kube/config.h"
#include "kube/event.h"
#include "kube/view.h"
#include "kube/watch.h"
#include "monitor/feedback.h"
#include "vendors/registry_node.h"

/* The watchdog's pace: found beyond its slice in two looks a container is told of within 5 s. */
#define LOOK_MS 2000
/* What the driver said counts for so long after it stopped answering. */
#define DRIVER_MS 10000
/* How long --json waits for the cluster and the driver. */
#define GIVE_UP_MS    30000
#define CONNECTIONS   128
#define STOP_IDLE_MS  1000
#define STOP_GRACE_MS 3000

/* ---- the driver ---- */

static void take_card(const struct gs_card *from, struct gs_tenants_card *to)
{
    *to = (struct gs_tenants_card){
        .index = from->index,
        .total_bytes = from->total_bytes,
        .used_bytes = from->used_bytes,
        .util_pct = from->util_pct,
        .memory_util_pct = from->memory_util_pct,
    };
    memcpy(to->uuid, from->uuid, sizeof(to->uuid));
    (void)snprintf(to->type, sizeof(to->type), "%s-%s", from->vendor->name, from->name);
}

static void take_probe(struct gs_daemon *d, const struct gs_probe *probe)
{
    struct gs_tenants_process *p = realloc(d->process, (probe->n_processes + 1) * sizeof(*p));

    _Static_assert(GS_PROBE_UNKNOWN == GS_TENANTS_UNKNOWN, "not known is not known");
    if (p == NULL)
        return; /* what was known stays */
    d->process = p;
    for (size_t i = 0; i < probe->n_cards; i++)
        take_card(&probe->card[i], &d->card[i]);
    for (size_t i = 0; i < probe->n_processes; i++)
        p[i] = (struct gs_tenants_process){
            .card = probe->process[i].card,
            .pid = probe->process[i].pid,
            .used_bytes = probe->process[i].used_bytes,
            .util_pct = probe->process[i].util_pct,
        };
    d->driver = (struct gs_tenants_driver){d->card, probe->n_cards, p, probe->n_processes};
    d->driver_ms = gs_loop_now_ms(d->loop);
}

/** NULL: it has not answered for a while. */
static const struct gs_tenants_driver *driver_of(const struct gs_daemon *d)
{
    return d->driver_ms != INT64_MIN && gs_loop_now_ms(d->loop) - d->driver_ms < DRIVER_MS
               ? &d->driver
               : NULL;
}

static void tell_driver(struct gs_daemon *d, const struct gs_err *why)
{
    if (why != NULL && !d->is_driver_told)
        GS_LOG_WARN("the cards' driver does not answer", GS_LOG_ERR(why));
    else if (why == NULL && d->is_driver_told)
        GS_LOG_INFO("the cards' driver answers");
    d->is_driver_told = why != NULL;
}

static void begin_look(struct gs_daemon *d);

static void on_probed(void *user, const struct gs_probe *probe, const struct gs_err *why)
{
    struct gs_daemon *d = user;

    tell_driver(d, probe == NULL ? why : NULL);
    if (probe != NULL)
        take_probe(d, probe);
    else
        d->driver_ms = INT64_MIN;
    d->is_asked = false;
    if (!d->is_looking)
        begin_look(d);
}

static void on_watched(void *user, const char *uuid, const struct gs_probe_use *use, int n)
{
    struct gs_daemon *d = user;
    struct gs_ledgers_used used[GS_CARDS_USES];

    for (int i = 0; i < n; i++)
        used[i] = (struct gs_ledgers_used){use[i].pid, use[i].util_pct};
    if (d->boards != NULL)
        gs_boards_take_used(d->boards, uuid, used, n, gs_loop_now_ns(d->loop));
}

/* ---- looks ---- */

static struct gs_page_from page_of(const struct gs_daemon *d, const char **board, size_t max)
{
    struct gs_proc_use use;

    gs_proc_self_use(&use);
    return (struct gs_page_from){
        .tenants = d->tenants,
        .driver = driver_of(d),
        .node = gs_str_of(d->node),
        .unix_s = gs_loop_unix_us(d->loop) / 1000000,
        .has_legacy = d->flags->legacy_metrics,
        .is_synced = d->is_synced,
        .boards = board,
        .n_boards = d->boards != NULL ? gs_boards_written(d->boards, board, max) : 0,
        .look_s = d->look_s,
        .process = {.version = GS_VERSION,
                    .resident_bytes = use.resident_bytes,
                    .cpu_s = use.cpu_s,
                    .start_unix_s = d->start_unix_s},
    };
}

static void write_json(struct gs_daemon *d)
{
    const char *board[GS_PROBE_CARDS];
    struct gs_page_from from = page_of(d, board, GS_PROBE_CARDS);
    struct gs_buf text = {0};

    d->rc = gs_page_json(&from, &text);
    if (d->rc == 0 && (fwrite(text.p, 1, text.n, stdout) != text.n || fflush(stdout) != 0))
        d->rc = -EIO;
    gs_buf_fini(&text);
    gs_loop_stop(d->loop);
}

/** Pods are known so surely that a folder of none of them is nobody's: the server was heard of
 * after the folder had been made, and whatever came before that was told before. */
static bool may_remove(const struct gs_daemon *d)
{
    struct gs_kube_watch_stats stats;

    if (d->watch == NULL || !d->is_synced)
        return false;
    gs_kube_watch_stats(d->watch, &stats);
    return stats.is_synced && stats.heard_ms >= 0 &&
           gs_loop_now_ms(d->loop) - stats.heard_ms < d->flags->resync_ms;
}

static struct gs_tenants_now now_of(const struct gs_daemon *d)
{
    return (struct gs_tenants_now){
        .ms = gs_loop_now_ms(d->loop),
        .mono_ns = gs_loop_now_ns(d->loop),
        .unix_s = gs_loop_unix_us(d->loop) / 1000000,
        .may_remove = may_remove(d),
    };
}

/** Who asks for a card begins and ends between looks. */
static void watch_busy(struct gs_daemon *d)
{
    const char *board[GS_PROBE_CARDS];
    size_t n = gs_boards_busy(d->boards, board, GS_PROBE_CARDS);

    if (n == d->n_busy && memcmp(board, d->busy, n * sizeof(board[0])) == 0)
        return;
    memcpy(d->busy, board, n * sizeof(board[0]));
    d->n_busy = n;
    gs_cards_watch(d->cards, board, n);
}

static void on_board(void *user)
{
    struct gs_daemon *d = user;
    uint64_t wait_ms = gs_boards_tick(d->boards, gs_loop_now_ns(d->loop));

    watch_busy(d);
    gs_loop_timer_in(d->loop, &d->board_timer, wait_ms, on_board, d);
}

static void end_look(struct gs_daemon *d)
{
    d->is_looking = false;
    d->has_looked |= d->knows_pods;
    gs_tenants_end(d->tenants, driver_of(d));
    d->look_s = (double)(gs_loop_now_ns(d->loop) - d->look_began_ns) / 1e9;
    if (d->flags->json) {
        write_json(d);
        return;
    }
    if (d->boards == NULL)
        return;
    gs_boards_scan(d->boards, d->tenants, driver_of(d), gs_loop_now_ns(d->loop));
    gs_loop_timer_in(d->loop, &d->board_timer, 0, on_board, d);
}

/* One container at a time, and other work in between. */
static void on_step(void *user)
{
    struct gs_daemon *d = user;
    struct gs_tenants_now now = now_of(d);

    if (gs_tenants_step(d->tenants, &now))
        gs_loop_defer(d->loop, &d->step, on_step, d);
    else
        end_look(d);
}

static void begin_look(struct gs_daemon *d)
{
    struct gs_err err = {0};

    if (d->flags->json && (!d->is_synced || d->has_looked))
        return; /* the pods come first; or it has been done */
    d->is_looking = true;
    d->knows_pods = d->is_synced;
    d->look_began_ns = gs_loop_now_ns(d->loop);
    if (gs_tenants_begin(d->tenants, &err) < 0)
        GS_LOG_WARN("containers cannot be looked at", GS_LOG_ERR(&err));
    gs_loop_defer(d->loop, &d->step, on_step, d);
}

static void on_look(void *user)
{
    struct gs_daemon *d = user;

    /* a driver that has not answered since the last time: on without it */
    if (d->is_asked && !d->is_looking)
        begin_look(d);
    d->is_asked = true;
    gs_cards_ask(d->cards);
    gs_loop_timer_in(d->loop, &d->look_timer, LOOK_MS, on_look, d);
}

static void on_feedback(void *user)
{
    struct gs_daemon *d = user;
    struct gs_tenants_now now = now_of(d);

    gs_tenants_feedback(d->tenants, &now);
    gs_loop_timer_in(d->loop, &d->feedback_timer, GS_FEEDBACK_MS, on_feedback, d);
}

static void on_give_up(void *user)
{
    struct gs_daemon *d = user;

    GS_LOG_ERROR("nothing can be told: no answer in time",
                 GS_LOG_CSTR("from", d->is_synced ? "the cards' driver" : "the API server"));
    d->rc = -ETIMEDOUT;
    gs_loop_stop(d->loop);
}

/* ---- pods ---- */

static void on_pod(void *arg, const struct gs_kube_key *key, struct yyjson_val *object)
{
    struct gs_daemon *d = arg;
    struct gs_kube_pod pod;
    struct gs_err err = {0};
    int rc;

    gs_arena_reset(&d->event);
    rc = gs_kube_view_pod(object, &d->event, &pod, &err);
    if (rc == 0)
        rc = gs_pods_set(&d->pods, &pod, &err);
    if (rc < 0)
        GS_LOG_WARN("pod not understood", GS_LOG_STR("namespace", key->ns),
                    GS_LOG_STR("pod", key->name), GS_LOG_ERR(&err));
}

static void on_pod_gone(void *arg, const struct gs_kube_key *key, struct yyjson_val *last)
{
    (void)last;
    gs_pods_gone(&((struct gs_daemon *)arg)->pods, key->uid);
}

static void on_synced(void *arg)
{
    struct gs_daemon *d = arg;

    d->is_synced = true;
    if (!d->is_looking && !d->is_asked)
        begin_look(d);
}

static void on_breach(void *arg, const struct gs_tenants_who *who,
                      const struct gs_tenants_device *device, uint64_t slice_bytes)
{
    struct gs_daemon *d = arg;

    if (!d->flags->json) /* who looks once cannot tell */
        gs_breach_act(d->client, d->events, d->flags->evicts, who, device, slice_bytes);
}

static void on_trouble(void *arg, const struct gs_err *why, uint32_t wait_ms)
{
    (void)arg;
    GS_LOG_WARN("watch of pods interrupted, trying again", GS_LOG_ERR(why),
                GS_LOG_UINT("wait_ms", wait_ms));
}

static int connect_cluster(struct gs_daemon *d, struct gs_err *err)
{
    static const struct gs_kube_watch_fns fns = {on_pod,    on_pod, on_pod_gone,
                                                 on_synced, NULL,   on_trouble};
    const char *path = d->flags->kubeconfig;
    struct gs_kube_config config;
    int rc = gs_kube_config_load(
        &(struct gs_kube_config_opt){.path = path[0] != '\0' ? path : NULL}, &config, err);

    if (rc < 0)
        return gs_err_wrap(err, rc, "no cluster (on a machine without one say --no-cluster)");
    rc = gs_kube_client_new(&config, d->loop,
                            &(struct gs_kube_client_opt){.user_agent = "gpuslice-monitor"},
                            &d->client, err);
    gs_kube_config_fini(&config);
    if (rc == 0)
        rc = gs_kube_events_new(
            d->client,
            &(struct gs_kube_events_opt){.component = "gpuslice-monitor", .host = d->node},
            &d->events, err);
    if (rc == 0)
        rc = gs_kube_watch_new(
            d->client,
            &(struct gs_kube_watch_opt){
                .resource = &gs_kube_pods,
                .field_selector = gs_arena_printf(&d->conf, "spec.nodeName=%s", d->node),
                .page = 100,
            },
            &fns, d, &d->watch, err);
    return rc;
}

/* ---- HTTP ---- */

static int on_metrics(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_daemon *d = user;
    const char *board[GS_PROBE_CARDS];
    struct gs_page_from from = page_of(d, board, GS_PROBE_CARDS);
    struct gs_buf text = {0};

    (void)req;
    gs_page_write(&from, &text);
    gs_http_server_reply_take(reply, 200, "text/plain; version=0.0.4; charset=utf-8", &text);
    return 0;
}

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
    if (!d->is_synced)
        gs_http_server_reply_text(reply, 503, "the pods of the node are not known yet\n");
    else if (!d->has_looked)
        gs_http_server_reply_text(reply, 503, "the containers were not looked at yet\n");
    else
        gs_http_server_reply_text(reply, 200, "ok\n");
    return 0;
}

static int listen_metrics(struct gs_daemon *d, struct gs_err *err)
{
    const struct gs_http_route route[] = {
        {"GET", "/metrics", on_metrics, d, GS_HTTP_ANYONE},
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
                                   .max_connections = CONNECTIONS,
                                   .routes = routes,
                                   .n_routes = GS_ARRAY_LEN(route),
                               },
                               &d->server, err);
}

/* ---- life ---- */

static void on_stopped(void *user)
{
    gs_loop_stop(((struct gs_daemon *)user)->loop);
}

static void on_signal(void *user, int signo)
{
    struct gs_daemon *d = user;

    (void)signo;
    GS_LOG_INFO("stopping");
    if (d->server == NULL)
        gs_loop_stop(d->loop);
    else
        gs_http_server_stop(d->server, STOP_IDLE_MS, STOP_GRACE_MS, on_stopped, d);
}

static int name_things(struct gs_daemon *d)
{
    const struct gs_monitor_flags *f = d->flags;
    char host[256] = "";

    (void)gethostname(host, sizeof(host) - 1);
    d->node = f->node_name[0] != '\0' ? f->node_name : gs_arena_str(&d->conf, gs_str_of(host)).p;
    d->containers = gs_arena_printf(&d->conf, "%s/containers", f->hook_path).p;
    d->board_dir = f->board_dir[0] != '\0' ? f->board_dir
                                           : gs_arena_printf(&d->conf, "%s/board", f->hook_path).p;
    return gs_arena_check(&d->conf);
}

static int make_parts(struct gs_daemon *d, struct gs_err *err)
{
    static const struct gs_cards_fns fns = {on_probed, on_watched};
    const struct gs_tenants_opt opt = {
        .folder = d->containers,
        .proc = d->flags->proc,
        .pods = d->flags->no_cluster ? NULL : &d->pods,
        .breach = on_breach,
        .arg = d,
        .resync_ms = d->flags->resync_ms,
    };
    const struct gs_pods_keys *keys = NULL;
    size_t n_keys = 0;
    int rc = gs_grants_keys(&d->conf, &keys, &n_keys, err);

    gs_pods_init(&d->pods, keys, n_keys);
    if (rc == 0)
        rc = gs_tenants_new(&opt, &d->tenants);
    if (rc == 0)
        rc = gs_cards_start(d->loop, gs_registry_node, gs_registry_node_n, &fns, d, &d->cards);
    if (rc == 0 && !d->flags->no_cluster && !d->flags->json)
        rc = gs_boards_new(d->board_dir, &d->boards);
    return rc;
}

int gs_daemon_init(struct gs_daemon *d, const struct gs_monitor_flags *flags, struct gs_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, 0};
    int rc;

    d->flags = flags;
    d->driver_ms = INT64_MIN;
    d->is_synced = flags->no_cluster;
    d->start_unix_s = gs_clock_real_ns(gs_clock_real()) / GS_CLOCK_S;
    rc = gs_loop_new(NULL, &d->loop);
    if (rc == 0)
        rc = gs_loop_signals(d->loop, signals, on_signal, d);
    if (rc == 0)
        rc = name_things(d);
    if (rc == 0)
        rc = make_parts(d, err);
    if (rc == 0 && !flags->no_cluster)
        rc = connect_cluster(d, err);
    if (rc == 0 && !flags->json)
        rc = listen_metrics(d, err);
    if (rc < 0 && err->text[0] == '\0')
        (void)gs_err_set(err, rc, "%s", strerror(-rc));
    return rc;
}

int gs_daemon_run(struct gs_daemon *d)
{
    int rc;

    if (d->server != NULL)
        GS_LOG_INFO("serving", GS_LOG_CSTR("address", gs_http_server_address(d->server)),
                    GS_LOG_CSTR("node", d->node), GS_LOG_CSTR("containers", d->containers));
    gs_loop_timer_in(d->loop, &d->look_timer, 0, on_look, d);
    if (d->flags->json)
        gs_loop_timer_in(d->loop, &d->give_up_timer, GIVE_UP_MS, on_give_up, d);
    else
        gs_loop_timer_in(d->loop, &d->feedback_timer, GS_FEEDBACK_MS, on_feedback, d);
    if (d->boards != NULL)
        gs_loop_timer_in(d->loop, &d->board_timer, 0, on_board, d);
    rc = gs_loop_run(d->loop);
    return rc < 0 ? rc : d->rc;
}

void gs_daemon_fini(struct gs_daemon *d)
{
    bool hangs = (d->cards = gs_cards_stop(d->cards)) != NULL;

    gs_http_server_free(d->server);
    gs_kube_watch_free(d->watch);
    gs_kube_events_free(d->events);
    gs_kube_client_free(d->client);
    gs_boards_free(d->boards);
    gs_tenants_free(d->tenants);
    gs_pods_fini(&d->pods);
    if (!hangs)
        gs_loop_free(d->loop);
    free(d->process);
    gs_arena_fini(&d->event);
    gs_arena_fini(&d->conf);
}
