#include "apps/device-plugin/page.h"

#include <stdio.h>

#include "apps/device-plugin/state.h"
#include "base/proc.h"
#include "base/prom.h"

#define OWN "gpuslice_plugin_"

typedef const struct gs_engine_call_stats *call_fn(const struct gs_engine_stats *stats);

static const struct gs_engine_call_stats *allocate(const struct gs_engine_stats *s)
{
    return &s->allocate;
}

static const struct gs_engine_call_stats *prestart(const struct gs_engine_stats *s)
{
    return &s->prestart;
}

static const struct gs_engine_call_stats *prefer(const struct gs_engine_stats *s)
{
    return &s->prefer;
}

static const struct {
    const char *name;
    call_fn *of;
} call[] = {
    {"Allocate", allocate}, {"PreStartContainer", prestart}, {"GetPreferredAllocation", prefer}};

/* ---- calls of the kubelet ---- */

static void put_call(struct gs_buf *buf, struct gs_str resource, struct gs_str name,
                     const struct gs_engine_call_stats *s)
{
    uint64_t sum = 0;
    char bound[32];

    for (size_t b = 0; b < GS_ENGINE_BINS; b++) {
        sum += s->bin[b];
        if (b < GS_ENGINE_BINS - 1)
            (void)snprintf(bound, sizeof(bound), "%g", gs_engine_bin_s[b]);
        else
            (void)snprintf(bound, sizeof(bound), "+Inf");
        GS_PROM_LINE(buf, OWN "call_seconds_bucket", sum, {"resource", resource}, {"call", name},
                     {"le", gs_str_of(bound)});
    }
    GS_PROM_LINE(buf, OWN "call_seconds_sum", s->sum_s, {"resource", resource}, {"call", name});
    GS_PROM_LINE(buf, OWN "call_seconds_count", s->calls, {"resource", resource}, {"call", name});
}

static void put_calls(const struct gs_daemon *d, struct gs_buf *buf)
{
    gs_prom_head(buf, OWN "call_seconds", "histogram",
                 "Calls of the kubelet by how long their answer took.");
    for (size_t i = 0; i < GS_PLUGIN_ENGINES; i++) {
        struct gs_engine_stats s;

        if (d->engine[i].engine == NULL)
            continue;
        gs_engine_stats(d->engine[i].engine, &s);
        for (size_t c = 0; c < GS_ARRAY_LEN(call); c++)
            put_call(buf, gs_str_of(d->engine[i].resource), gs_str_of(call[c].name),
                     call[c].of(&s));
    }
    gs_prom_head(buf, OWN "call_errors_total", "counter", "Of these, answered by an error.");
    for (size_t i = 0; i < GS_PLUGIN_ENGINES; i++) {
        struct gs_engine_stats s;

        if (d->engine[i].engine == NULL)
            continue;
        gs_engine_stats(d->engine[i].engine, &s);
        for (size_t c = 0; c < GS_ARRAY_LEN(call); c++)
            GS_PROM_LINE(buf, OWN "call_errors_total", call[c].of(&s)->failed,
                         {"resource", gs_str_of(d->engine[i].resource)},
                         {"call", gs_str_of(call[c].name)});
    }
}

/* ---- resources ---- */

static double devices(const struct gs_engine_stats *s)
{
    return (double)s->devices;
}

static double healthy(const struct gs_engine_stats *s)
{
    return (double)s->healthy;
}

static double list_bytes(const struct gs_engine_stats *s)
{
    return (double)s->list_bytes;
}

static double is_registered(const struct gs_engine_stats *s)
{
    return s->kubelet.is_registered;
}

static double registrations(const struct gs_engine_stats *s)
{
    return (double)s->kubelet.registrations;
}

static const struct {
    const char *name, *type, *help;
    double (*of)(const struct gs_engine_stats *s);
} figure[] = {
    {OWN "devices", "gauge", "Shares that the kubelet is offered.", devices},
    {OWN "devices_healthy", "gauge", "Of these, such as can be given out.", healthy},
    {OWN "list_bytes", "gauge", "Size of the list of devices.", list_bytes},
    {OWN "registered", "gauge", "The kubelet knows of this plugin.", is_registered},
    {OWN "registrations_total", "counter", "Times it registered.", registrations},
};

static void put_figures(const struct gs_daemon *d, struct gs_buf *buf)
{
    for (size_t f = 0; f < GS_ARRAY_LEN(figure); f++) {
        gs_prom_head(buf, figure[f].name, figure[f].type, figure[f].help);
        for (size_t i = 0; i < GS_PLUGIN_ENGINES; i++) {
            struct gs_engine_stats s;

            if (d->engine[i].engine == NULL)
                continue;
            gs_engine_stats(d->engine[i].engine, &s);
            GS_PROM_LINE(buf, figure[f].name, figure[f].of(&s),
                         {"resource", gs_str_of(d->engine[i].resource)});
        }
    }
}

static void one(struct gs_buf *buf, const char *name, const char *type, const char *help,
                double value)
{
    gs_prom_head(buf, name, type, help);
    gs_prom_line(buf, name, NULL, 0, value);
}

static void put_own(const struct gs_daemon *d, struct gs_buf *buf)
{
    struct gs_provision_stats p;
    struct gs_report_stats r;

    gs_provision_stats(d->provision, &p);
    gs_report_stats(d->report, &r);
    one(buf, OWN "slots_promised_total", "counter", "Slots that Allocate promised.",
        (double)p.promised);
    one(buf, OWN "slots_waited_total", "counter",
        "Containers that waited for the API server to show their grant.", (double)p.waited);
    one(buf, OWN "slots_restored_total", "counter",
        "Slots made again from the kubelet's checkpoint.", (double)p.restored);
    if (d->handout != NULL) {
        struct gs_handout_stats h;

        gs_handout_stats(d->handout, &h);
        one(buf, OWN "handouts_failed_total", "counter",
            "Containers that got nothing by the node lock.", (double)h.failed);
    }
    one(buf, OWN "pods", "gauge", "Pods of this node that are known.",
        (double)gs_grants_count(d->grants));
    one(buf, OWN "node_patches_total", "counter", "Times the node's annotations were written.",
        (double)r.patches);
    one(buf, OWN "node_patches_failed_total", "counter", "Of these, in vain.", (double)r.failed);
}

static int on_metrics(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    const struct gs_daemon *d = user;
    struct gs_buf buf = {0};
    struct gs_proc_use use;

    (void)req;
    gs_proc_self_use(&use);
    put_calls(d, &buf);
    put_figures(d, &buf);
    put_own(d, &buf);
    gs_prom_process(&buf, &(struct gs_prom_process){.version = GS_VERSION,
                                                    .resident_bytes = use.resident_bytes,
                                                    .cpu_s = use.cpu_s,
                                                    .start_unix_s = d->start_unix_s});
    gs_http_server_reply_take(reply, 200, "text/plain; version=0.0.4; charset=utf-8", &buf);
    return 0;
}

/* ---- health ---- */

static int on_healthz(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    (void)user;
    (void)req;
    gs_http_server_reply_text(reply, 200, "ok\n");
    return 0;
}

/* Registered with the kubelet, and the cluster knows what there is. */
static int on_readyz(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    const struct gs_daemon *d = user;
    struct gs_report_stats report;
    bool is_ready = d->engine[0].engine != NULL && gs_grants_is_synced(d->grants);

    (void)req;
    gs_report_stats(d->report, &report);
    for (size_t i = 0; is_ready && i < GS_PLUGIN_ENGINES; i++) {
        struct gs_engine_stats s;

        if (d->engine[i].engine == NULL)
            continue;
        gs_engine_stats(d->engine[i].engine, &s);
        is_ready = s.kubelet.is_registered;
    }
    is_ready = is_ready && report.written_ms >= 0;
    gs_http_server_reply_text(reply, is_ready ? 200 : 503, is_ready ? "ok\n" : "not ready\n");
    return 0;
}

int gs_page_open(struct gs_daemon *d, struct gs_err *err)
{
    d->route[0] = (struct gs_http_route){"GET", "/metrics", on_metrics, d, GS_HTTP_ANYONE};
    d->route[1] = (struct gs_http_route){"GET", "/healthz", on_healthz, d, GS_HTTP_ANYONE};
    d->route[2] = (struct gs_http_route){"GET", "/readyz", on_readyz, d, GS_HTTP_ANYONE};
    return gs_http_server_open(d->loop,
                               &(struct gs_http_server_options){
                                   .name = "metrics",
                                   .address = d->flags->metrics_bind,
                                   .body_limit = 4096,
                                   .max_connections = 64,
                                   .routes = d->route,
                                   .n_routes = GS_ARRAY_LEN(d->route),
                               },
                               &d->http, err);
}
