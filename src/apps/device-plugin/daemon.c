#include "apps/device-plugin/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/device-plugin/install.h"
#include "apps/device-plugin/offer.h"
#include "apps/device-plugin/page.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "kube/config.h"
#include "net/secret.h"
#include "net/unix_socket.h"
#include "node/cdi.h"
#include "node/probe.h"
#include "node/publish.h"
#include "vendors/registry_kit.h"

#define HOUSEKEEPING_MS 1000
#define TIDY_MS         60000
#define TIDY_SOON_MS    2000
#define STOP_GRACE_MS   6000
#define STOP_IDLE_MS    1000

/* ---- what happens ---- */

static void on_pod(void *arg, const struct gs_grants_pod *pod)
{
    struct gs_daemon *d = arg;

    if (d->provision != NULL)
        gs_provision_saw(d->provision, pod);
}

static void on_tidy(void *user)
{
    struct gs_daemon *d = user;

    gs_provision_tidy(d->provision);
    gs_loop_timer_in(d->loop, &d->tidy, TIDY_MS, on_tidy, d);
}

static void tidy_soon(struct gs_daemon *d, uint64_t wait_ms)
{
    if (d->provision != NULL)
        gs_loop_timer_in(d->loop, &d->tidy, wait_ms, on_tidy, d);
}

static void on_pod_gone(void *arg, struct gs_str uid)
{
    struct gs_daemon *d = arg;

    for (size_t i = 0; i < GS_PLUGIN_ENGINES; i++)
        if (d->engine[i].engine != NULL)
            gs_engine_gone(d->engine[i].engine, uid);
    tidy_soon(d, TIDY_SOON_MS);
}

static void on_synced(void *arg)
{
    struct gs_daemon *d = arg;

    GS_LOG_INFO("pods of this node are known", GS_LOG_UINT("pods", gs_grants_count(d->grants)));
    tidy_soon(d, 0);
}

/* HAMi's word that a pod has what it was given; nobody waits for it. */
static void on_ready(void *arg, const struct gs_grants_pod *pod)
{
    struct gs_daemon *d = arg;

    if (gs_str_eq_c(pod->phase, "allocating"))
        gs_report_success(d->report, pod->ns, pod->name, pod->uid);
}

static void on_cards(void *arg, const struct gs_inventory *inv, const struct gs_health *health)
{
    struct gs_daemon *d = arg;
    bool is_first = d->kit.inv == NULL;

    if (d->is_stopping)
        return;
    gs_offer_cards(d, inv, health);
    if (is_first)
        tidy_soon(d, 0);
}

static void on_no_driver(void *arg, const struct gs_err *why)
{
    struct gs_daemon *d = arg;

    if (d->flags->fails && d->kit.inv == NULL) {
        GS_LOG_ERROR("cannot start: the driver does not answer; --fail-on-init-error=false waits",
                     GS_LOG_ERR(why));
        d->has_failed = true;
        gs_loop_stop(d->loop);
        return;
    }
    GS_LOG_WARN("the driver does not answer", GS_LOG_ERR(why));
}

static void on_housekeeping(void *user)
{
    struct gs_daemon *d = user;

    if (d->sign != NULL)
        (void)gs_sign_look(d->sign);
    gs_loop_timer_in(d->loop, &d->housekeeping, HOUSEKEEPING_MS, on_housekeeping, d);
}

static void on_stopped(void *arg)
{
    struct gs_daemon *d = arg;

    if (--d->n_stopping == 0)
        gs_loop_stop(d->loop);
}

static void on_signal(void *user, int signo)
{
    struct gs_daemon *d = user;

    if (signo == SIGHUP) {
        if (d->sign != NULL)
            (void)gs_sign_look(d->sign);
        return;
    }
    if (d->is_stopping) {
        gs_loop_stop(d->loop);
        return;
    }
    GS_LOG_INFO("stopping");
    d->is_stopping = true;
    d->n_stopping = 1;
    for (size_t i = 0; i < GS_PLUGIN_ENGINES; i++) {
        if (d->engine[i].engine == NULL)
            continue;
        d->n_stopping++;
        gs_engine_stop(d->engine[i].engine, STOP_GRACE_MS, on_stopped, d);
    }
    if (d->http != NULL)
        gs_http_server_stop(d->http, STOP_IDLE_MS, STOP_GRACE_MS, on_stopped, d);
    else
        on_stopped(d);
}

/* ---- beginning ---- */

/* Through links: a ConfigMap is mounted as one. */
static int read_text(const char *path, bool may_miss, struct gs_buf *text, struct gs_err *err)
{
    struct gs_secret_stamp stamp;
    int rc = path[0] != '\0' ? gs_secret_read(path, text, &stamp) : 0;

    if (rc == -ENOENT && may_miss)
        return 0;
    return rc < 0 ? gs_err_set(err, rc, "%s: %s", path, strerror(-rc)) : 0;
}

static int find_vendor(struct gs_daemon *d, struct gs_err *err)
{
    for (size_t i = 0; i < gs_registry_kit_n; i++) {
        if (strcmp(gs_registry_kit[i]->publish->probe->room, d->flags->vendor) == 0) {
            d->kit.vendor = gs_registry_kit[i];
            return 0;
        }
    }
    return gs_err_set(err, -EINVAL, "--vendor: cards of '%s' are not handed out by this program",
                      d->flags->vendor);
}

static int configure(struct gs_daemon *d, struct gs_err *err)
{
    const struct gs_plugin_flags *f = d->flags;
    int rc = read_text(f->config_file, false, &d->device_config, err);

    if (rc == 0)
        rc = read_text(f->node_config, true, &d->node_config, err);
    if (rc == 0 && f->grant_key[0] != '\0')
        rc = gs_sign_new(f->grant_key, f->interop, &d->sign, err);
    if (rc < 0)
        return rc;
    rc = find_vendor(d, err);
    if (rc < 0)
        return rc;
    d->kit.place = &d->place;
    d->place = (struct gs_kit_place){
        .hook_path = f->hook_path,
        .inject = strcmp(f->inject, "file") == 0  ? GS_KIT_INJECT_FILE
                  : strcmp(f->inject, "env") == 0 ? GS_KIT_INJECT_ENV
                                                  : GS_KIT_INJECT_BOTH,
        .list = f->list,
        .by_index = strcmp(f->id_strategy, "index") == 0,
        .passes_nodes = f->passes_nodes,
        .gives_driver = f->gives_driver,
        .dev_root = f->dev_root,
        .driver_root = strcmp(f->driver_root, "/") == 0 ? "" : f->driver_root,
        .driver_root_here = f->driver_root_here,
        .cdi_prefix = f->cdi_prefix,
        .has_gdrcopy = f->gdrcopy,
        .has_gds = f->gds,
        .has_mofed = f->mofed,
        .imex_channels = f->imex_channels,
    };
    return d->kit.vendor->configure(
        &(struct gs_kit_conf_from){
            .device_config = {d->device_config.p, d->device_config.n},
            .node_config = {d->node_config.p, d->node_config.n},
            .node = gs_str_of(f->node_name),
        },
        &d->conf, &d->kit.conf, err);
}

/* Two plugins that offer one resource take turns with the kubelet, and pods get cards of both. */
static int check_rival(struct gs_daemon *d, struct gs_err *err)
{
    char path[4096];
    GS_CLEANUP(gs_file_close) int fd = -1;

    (void)snprintf(path, sizeof(path), "%s/%s", d->folder, d->kit.vendor->rival);
    fd = d->flags->takes_over ? -1 : gs_unix_socket_connect(path);
    if (fd < 0)
        return 0;
    return gs_err_set(err, -EEXIST,
                      "another plugin for these cards is running (it listens at %s): remove it "
                      "from this node, or say --take-over",
                      path);
}

static int open_folders(struct gs_daemon *d, struct gs_err *err)
{
    const struct gs_plugin_flags *f = d->flags;
    const char *slash = strrchr(f->kubelet_socket, '/');
    struct gs_str root;
    int rc;

    d->folder = strndup(f->kubelet_socket, (size_t)(slash - f->kubelet_socket));
    root = gs_arena_printf(&d->conf, "%s/vgpu", f->hook_path);
    if (d->folder == NULL || gs_arena_check(&d->conf) < 0)
        return -ENOMEM;
    d->folder_fd = open(d->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->folder_fd < 0)
        return gs_err_set(err, -errno, "the kubelet's folder '%s': %s", d->folder, strerror(errno));
    rc = check_rival(d, err);
    if (rc == 0)
        rc = gs_folders_open(root.p, &d->folders, err);
    if (rc == 0)
        rc = gs_install_hook(f, d->kit.vendor->publish->probe->hook, &d->conf, &d->place, err);
    if (rc == 0 && strcmp(f->identity, "prestart") == 0) {
        d->cdi_fd = gs_cdi_open(f->cdi_dir, err);
        rc = d->cdi_fd < 0 ? d->cdi_fd : 0;
    }
    return rc;
}

static int watch_pods(struct gs_daemon *d, struct gs_err *err)
{
    return gs_grants_new(d->client,
                         &(struct gs_grants_opt){
                             .node = gs_str_of(d->flags->node_name),
                             .resource = d->kit.vendor->resource(d->kit.conf),
                             .allocated = d->kit.vendor->allocated,
                             .to_allocate = d->kit.vendor->to_allocate,
                             .env = d->kit.vendor->env,
                             .sign = d->sign,
                             .changed = on_pod,
                             .gone = on_pod_gone,
                             .synced = on_synced,
                             .arg = d,
                         },
                         &d->grants, err);
}

static int connect_cluster(struct gs_daemon *d, struct gs_err *err)
{
    const struct gs_plugin_flags *f = d->flags;
    struct gs_kube_config config;
    int rc = gs_kube_config_load(
        &(struct gs_kube_config_opt){.path = f->kubeconfig[0] != '\0' ? f->kubeconfig : NULL},
        &config, err);

    if (rc < 0)
        return rc;
    rc = gs_kube_client_new(&config, d->loop, NULL, &d->client, err);
    gs_kube_config_fini(&config);
    if (rc == 0)
        rc = gs_report_new(d->client, gs_str_of(f->node_name), &d->report);
    if (rc == 0)
        rc = watch_pods(d, err);
    if (rc == 0)
        rc = gs_provision_new(
            &(struct gs_provision_opt){
                .loop = d->loop,
                .grants = d->grants,
                .folders = d->folders,
                .kit = &d->kit,
                .resource = d->kit.vendor->resource(d->kit.conf),
                .checkpoint_dir = d->folder_fd,
                .cdi_dir = d->cdi_fd,
                .wait_ms = (uint32_t)(f->wait_ms > 0 && f->wait_ms < 25000 ? f->wait_ms : 5000),
                .ready = on_ready,
                .arg = d,
            },
            &d->provision);
    if (rc == 0 && strcmp(f->identity, "allocate") == 0)
        rc = gs_handout_new(&(struct gs_handout_opt){.client = d->client,
                                                     .grants = d->grants,
                                                     .folders = d->folders,
                                                     .kit = &d->kit,
                                                     .node = gs_str_of(f->node_name),
                                                     .lock_timeout_ms = f->lock_timeout_ms},
                            &d->handout);
    return rc;
}

int gs_daemon_init(struct gs_daemon *d, const struct gs_plugin_flags *flags, struct gs_err *err)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, 0};
    int rc;

    d->flags = flags;
    d->folder_fd = d->cdi_fd = -1;
    d->start_unix_s = gs_clock_real_ns(gs_clock_real()) / GS_CLOCK_S;
    rc = configure(d, err);
    if (rc == 0)
        rc = gs_loop_new(NULL, &d->loop);
    if (rc == 0)
        rc = gs_loop_signals(d->loop, signals, on_signal, d);
    if (rc == 0)
        rc = open_folders(d, err);
    if (rc == 0)
        rc = connect_cluster(d, err);
    if (rc == 0)
        rc = gs_grpc_new(d->loop, &d->grpc);
    if (rc == 0 && flags->metrics_bind[0] != '\0')
        rc = gs_page_open(d, err);
    if (rc == 0)
        rc = gs_cards_new(&(struct gs_cards_opt){.loop = d->loop,
                                                 .vendor = d->kit.vendor->publish->probe,
                                                 .changed = on_cards,
                                                 .trouble = on_no_driver,
                                                 .arg = d},
                          &d->cards, err);
    if (rc < 0 && err->text[0] == '\0')
        (void)gs_err_set(err, rc, "%s", strerror(-rc));
    return rc;
}

int gs_daemon_run(struct gs_daemon *d)
{
    int rc;

    GS_LOG_INFO(
        "serving", GS_LOG_CSTR("node", d->flags->node_name),
        GS_LOG_CSTR("identity", d->flags->identity),
        GS_LOG_CSTR("metrics", d->http != NULL ? gs_http_server_address(d->http) : "nowhere"));
    gs_loop_timer_in(d->loop, &d->housekeeping, HOUSEKEEPING_MS, on_housekeeping, d);
    rc = gs_loop_run(d->loop);
    return d->has_failed ? -ENODEV : rc;
}

/* Those who are called go before those whom they call. */
void gs_daemon_fini(struct gs_daemon *d)
{
    gs_cards_free(d->cards);
    for (size_t i = 0; i < GS_PLUGIN_ENGINES; i++)
        gs_engine_free(d->engine[i].engine);
    gs_http_server_free(d->http);
    gs_handout_free(d->handout);
    gs_provision_free(d->provision);
    gs_grants_free(d->grants);
    gs_report_free(d->report);
    gs_grpc_free(d->grpc);
    gs_kube_client_free(d->client);
    gs_folders_close(d->folders);
    gs_sign_free(d->sign);
    gs_file_close(&d->folder_fd);
    gs_file_close(&d->cdi_fd);
    gs_loop_free(d->loop);
    gs_buf_fini(&d->device_config);
    gs_buf_fini(&d->node_config);
    gs_arena_fini(&d->conf);
    free(d->folder);
}
