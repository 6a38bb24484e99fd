#include "control/metrics.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/prom.h"
#include "model/reason.h"

#define OWN     "gpuslice_scheduler_"
#define BUCKETS 20

struct gs_metrics {
    struct {
        uint64_t bucket[BUCKETS + 1]; /**< not yet added up; last: beyond all */
        uint64_t n, sum_ns;
    } took[GS_METRICS_CALL_COUNT];
    uint64_t filtered[GS_FILTER_ERROR + 1], simulated;
    uint64_t filter_why[GS_REASON_COUNT], unregistered;
    uint64_t admitted[GS_ADMIT_OUTCOME_COUNT], admit_why[GS_ADMIT_WHY_COUNT], stripped;
    uint64_t bound, not_bound, expired;
};

static const char *const call_word[GS_METRICS_CALL_COUNT] = {
    [GS_METRICS_FILTER] = "filter",
    [GS_METRICS_PRIORITIZE] = "prioritize",
    [GS_METRICS_BIND] = "bind",
    [GS_METRICS_WEBHOOK] = "webhook",
};

static const char *const filter_word[] = {
    [GS_FILTER_NOTHING_ASKED] = "nothing_asked",
    [GS_FILTER_FOUND] = "found",
    [GS_FILTER_NO_ROOM] = "no_room",
    [GS_FILTER_ERROR] = "error",
};

static const char *const admit_word[GS_ADMIT_OUTCOME_COUNT] = {
    [GS_ADMIT_NOT_OURS] = "not_ours",
    [GS_ADMIT_OURS] = "ours",
    [GS_ADMIT_REFUSED] = "refused",
    [GS_ADMIT_ERROR] = "error",
};

static const char *const admit_why_word[GS_ADMIT_WHY_COUNT] = {
    [GS_ADMIT_WHY_REVIEW] = "UnreadableReview", [GS_ADMIT_WHY_NO_CONTAINERS] = "NoContainers",
    [GS_ADMIT_WHY_GRANTS] = "TooManyGrants",    [GS_ADMIT_WHY_VENDOR] = "InvalidRequest",
    [GS_ADMIT_WHY_PRIVILEGED] = "Privileged",   [GS_ADMIT_WHY_NODE_ASSIGNED] = "NodeAssigned",
    [GS_ADMIT_WHY_QUOTA] = "ExceedsQuota",      [GS_ADMIT_WHY_ANNOTATIONS] = "AnnotationsFull",
};

/* Upper bounds in microseconds. */
static const uint32_t bound_us[BUCKETS] = {
    10,    25,    50,     100,    250,    500,     1000,    2500,    5000,     10000,
    25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000};

int gs_metrics_new(struct gs_metrics **ret)
{
    *ret = calloc(1, sizeof(**ret));
    return *ret != NULL ? 0 : -ENOMEM;
}

struct gs_metrics *gs_metrics_free(struct gs_metrics *m)
{
    free(m);
    return NULL;
}

/* ---- counting ---- */

void gs_metrics_took(struct gs_metrics *m, enum gs_metrics_call call, uint64_t ns)
{
    size_t i = 0;

    while (i < BUCKETS && ns > (uint64_t)bound_us[i] * 1000)
        i++;
    m->took[call].bucket[i]++;
    m->took[call].n++;
    m->took[call].sum_ns += ns;
}

void gs_metrics_filtered(struct gs_metrics *m, const struct gs_filter_note *note)
{
    m->filtered[note->outcome]++;
    m->simulated += note->is_simulation;
    m->unregistered += note->n_unregistered > 0;
    for (size_t i = 0; i < GS_REASON_COUNT; i++)
        m->filter_why[i] += note->why >> i & 1;
}

void gs_metrics_admitted(struct gs_metrics *m, const struct gs_admit_reply *reply)
{
    m->admitted[reply->outcome]++;
    m->admit_why[reply->why]++;
    m->stripped += reply->stripped;
}

void gs_metrics_bound(struct gs_metrics *m, const char *error)
{
    if (error[0] == '\0')
        m->bound++;
    else
        m->not_bound++;
}

void gs_metrics_expired(struct gs_metrics *m, size_t n)
{
    m->expired += n;
}

/* ---- writing ---- */

static void one(struct gs_buf *buf, const char *name, const char *type, const char *help,
                double value)
{
    gs_prom_head(buf, name, type, help);
    gs_prom_line(buf, name, NULL, 0, value);
}

static void write_took(const struct gs_metrics *m, struct gs_buf *buf)
{
    const char *name = OWN "request_seconds";
    char le[24];

    gs_prom_head(buf, name, "histogram", "Time from a request to its answer.");
    for (size_t c = 0; c < GS_METRICS_CALL_COUNT; c++) {
        struct gs_str call = gs_str_of(call_word[c]);
        uint64_t sum = 0;

        for (size_t i = 0; i <= BUCKETS; i++) {
            sum += m->took[c].bucket[i];
            if (i < BUCKETS)
                (void)snprintf(le, sizeof(le), "%.9g", bound_us[i] / 1e6);
            GS_PROM_LINE(buf, OWN "request_seconds_bucket", sum, {"call", call},
                         {"le", i < BUCKETS ? gs_str_of(le) : GS_STR("+Inf")});
        }
        GS_PROM_LINE(buf, OWN "request_seconds_sum", (double)m->took[c].sum_ns / 1e9,
                     {"call", call});
        GS_PROM_LINE(buf, OWN "request_seconds_count", m->took[c].n, {"call", call});
    }
}

static void write_outcomes(const struct gs_metrics *m, struct gs_buf *buf)
{
    const char *name = OWN "answers_total";

    gs_prom_head(buf, name, "counter", "Answers to filter, bind and webhook by what they said.");
    for (size_t i = 0; i < GS_ARRAY_LEN(filter_word); i++)
        GS_PROM_LINE(buf, name, m->filtered[i], {"call", GS_STR("filter")},
                     {"outcome", gs_str_of(filter_word[i])});
    for (size_t i = 0; i < GS_ADMIT_OUTCOME_COUNT; i++)
        GS_PROM_LINE(buf, name, m->admitted[i], {"call", GS_STR("webhook")},
                     {"outcome", gs_str_of(admit_word[i])});
    GS_PROM_LINE(buf, name, m->bound, {"call", GS_STR("bind")}, {"outcome", GS_STR("bound")});
    GS_PROM_LINE(buf, name, m->not_bound, {"call", GS_STR("bind")}, {"outcome", GS_STR("refused")});
    name = OWN "refusals_total";
    gs_prom_head(buf, name, "counter",
                 "Pods refused, once for each reason that some node (or rule) gave.");
    for (enum gs_reason i = 0; i < GS_REASON_COUNT; i++)
        GS_PROM_LINE(buf, name, m->filter_why[i], {"call", GS_STR("filter")},
                     {"reason", gs_str_of(gs_reason_word(i))});
    GS_PROM_LINE(buf, name, m->unregistered, {"call", GS_STR("filter")},
                 {"reason", GS_STR("NodeUnregistered")});
    for (size_t i = GS_ADMIT_WHY_REVIEW; i < GS_ADMIT_WHY_COUNT; i++)
        GS_PROM_LINE(buf, name, m->admit_why[i], {"call", GS_STR("webhook")},
                     {"reason", gs_str_of(admit_why_word[i])});
    one(buf, OWN "simulations_total", "counter", "Filter calls that sent nodes to try out.",
        (double)m->simulated);
    one(buf, OWN "stripped_total", "counter", "Pods that came with a grant written by hand.",
        (double)m->stripped);
    one(buf, OWN "reservations_expired_total", "counter", "Reservations that no bind followed.",
        (double)m->expired);
}

static void write_books(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    struct gs_books_counts n = gs_books_counts(from->books);
    const char *name = OWN "books";

    gs_prom_head(buf, name, "gauge", "Entries of the books.");
    GS_PROM_LINE(buf, name, n.nodes, {"kind", GS_STR("nodes")});
    GS_PROM_LINE(buf, name, n.devices, {"kind", GS_STR("devices")});
    GS_PROM_LINE(buf, name, n.pods, {"kind", GS_STR("pods")});
    GS_PROM_LINE(buf, name, n.reservations, {"kind", GS_STR("reservations")});
    GS_PROM_LINE(buf, name, n.holds, {"kind", GS_STR("holds")});
    one(buf, OWN "cards_claimed_twice", "gauge",
        "Cards that two entries claim to be, of one node or of two: nobody is given them.",
        (double)gs_books_claimed_twice(from->books));
}

static void write_cache(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    struct gs_registry_stats s;
    const char *name = OWN "cache_events_total";

    gs_registry_stats(from->registry, &s);
    one(buf, OWN "cache_synced", "gauge", "1 when the cluster has been read once.", s.is_synced);
    if (s.heard_ms >= 0 && s.heard_ms <= from->now_ms)
        one(buf, OWN "cache_age_seconds", "gauge",
            "Time since the slowest watch last heard the API server.",
            (double)(from->now_ms - s.heard_ms) / 1e3);
    gs_prom_head(buf, name, "counter", "Changes heard of.");
    GS_PROM_LINE(buf, name, s.node_events, {"kind", GS_STR("node")});
    GS_PROM_LINE(buf, name, s.pod_events, {"kind", GS_STR("pod")});
    one(buf, OWN "cache_unreadable_total", "counter",
        "Objects, or annotations of them, that cannot be read.", (double)s.unreadable);
    one(buf, OWN "cache_untrusted_total", "counter", "Grants that were not believed.",
        (double)s.untrusted);
    one(buf, OWN "untrusted_pods", "gauge",
        "Bound pods whose grants are not believed: their cards may be given twice.",
        (double)s.untrusted_pods);
}

static void write_binds(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    struct gs_binder_stats s;

    gs_binder_stats(from->binder, &s);
    one(buf, OWN "binds_under_way", "gauge", "Binds that are not answered yet.",
        (double)s.under_way);
    one(buf, OWN "binds_waiting", "gauge", "Of these, those that wait for a node's lock.",
        (double)s.waiting);
    one(buf, OWN "binds_redecided_total", "counter",
        "Binds of pods whose reservation was gone, decided anew.", (double)s.redecided);
    one(buf, OWN "binds_rewritten_total", "counter",
        "Bindings written again, for a pod that had changed meanwhile.", (double)s.rewritten);
    one(buf, OWN "binds_unsure_total", "counter", "Bindings whose answer was lost.",
        (double)s.unsure);
}

static void write_fence(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    struct gs_fence_stats s;

    gs_fence_stats(from->fence, &s);
    one(buf, OWN "fence_writes_total", "counter",
        "Waiting pods written to, so that no Binding sent before can take effect.",
        (double)s.closed);
    one(buf, OWN "fence_opens_total", "counter",
        "Pods that had been refused before, written to so that a Binding may be sent.",
        (double)s.opened);
    one(buf, OWN "fence_refused_total", "counter", "Of these, those that were refused for good.",
        (double)s.refused);
    one(buf, OWN "fence_pods", "gauge", "Pods still to be written to before this replica leads.",
        (double)s.left);
}

static void write_preempt(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    struct gs_preempt_stats s;
    const char *name = OWN "preemption_attempts_total";

    gs_preempt_stats(from->preempt, &s);
    gs_prom_head(buf, name, "counter",
                 "Pods without room for which others were looked for, by what was found.");
    GS_PROM_LINE(buf, name, s.plans, {"outcome", GS_STR("victims")});
    GS_PROM_LINE(buf, name, s.helpless, {"outcome", GS_STR("helpless")});
    name = OWN "preemption_victims_total";
    gs_prom_head(buf, name, "counter", "Pods asked to leave, by the answer to their eviction.");
    GS_PROM_LINE(buf, name, s.evicted, {"outcome", GS_STR("evicted")});
    GS_PROM_LINE(buf, name, s.refused, {"outcome", GS_STR("budget")});
    GS_PROM_LINE(buf, name, s.failed, {"outcome", GS_STR("failed")});
    one(buf, OWN "preemption_given_up_total", "counter",
        "Preemptions after which the pod was not bound where room was made.", (double)s.lost);
    one(buf, OWN "preemption_pods", "gauge", "Pods for which a preemption is under way.",
        (double)s.waiting);
}

static void write_retry(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    struct gs_retry_stats s;

    gs_retry_stats(from->retry, &s);
    one(buf, OWN "waiting_pods", "gauge", "Pods that found no room and are remembered.",
        (double)s.waiting);
    one(buf, OWN "waiting_bytes", "gauge", "Memory for them.", (double)s.bytes);
    one(buf, OWN "nudges_total", "counter", "Times that a waiting pod was told of room.",
        (double)s.nudged);
    one(buf, OWN "waiting_dropped_total", "counter",
        "Refusals that were not remembered, for want of memory.", (double)s.dropped);
}

static void write_client(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    struct gs_kube_client_stats s;

    gs_kube_client_stats(from->client, &s);
    one(buf, OWN "api_requests_total", "counter", "Requests sent to the API server, tries counted.",
        (double)s.requests);
    one(buf, OWN "api_retries_total", "counter", "Of these, repetitions.", (double)s.retries);
    one(buf, OWN "api_throttled_total", "counter", "Answers 429.", (double)s.throttled);
    one(buf, OWN "api_errors_total", "counter", "Requests that failed in the end.",
        (double)s.errors);
    one(buf, OWN "api_in_flight", "gauge", "Requests under way.", s.in_flight);
    one(buf, OWN "api_waiting", "gauge", "Requests that wait for their turn.", s.waiting);
}

static void write_events(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    struct gs_kube_events_stats s;
    const char *name = OWN "events_total";

    gs_kube_events_stats(from->events, &s);
    gs_prom_head(buf, name, "counter", "Events on objects, by what became of them.");
    GS_PROM_LINE(buf, name, s.posted, {"outcome", GS_STR("posted")});
    GS_PROM_LINE(buf, name, s.counted, {"outcome", GS_STR("counted")});
    GS_PROM_LINE(buf, name, s.dropped, {"outcome", GS_STR("dropped")});
    GS_PROM_LINE(buf, name, s.failed, {"outcome", GS_STR("failed")});
}

struct listener_family {
    const char *name, *type, *help;
    size_t offset; /* of a uint64_t in struct gs_http_server_stats */
};

#define AT(member) offsetof(struct gs_http_server_stats, member)

static const struct listener_family listener_families[] = {
    {OWN "http_connections_total", "counter", "Connections taken.", AT(accepted)},
    {OWN "http_connections", "gauge", "Connections open.", AT(open)},
    {OWN "http_requests_total", "counter", "Requests.", AT(requests)},
    {OWN "http_pending", "gauge", "Requests that are not answered yet.", AT(pending)},
    {OWN "http_denied_total", "counter", "Peers not entitled, or with a bad certificate.",
     AT(refused_access)},
    {OWN "http_too_large_total", "counter", "Bodies beyond a limit.", AT(refused_size)},
    {OWN "http_timeouts_total", "counter", "Peers that were too slow.", AT(timeouts)},
    {OWN "http_crowded_total", "counter", "Connections closed because there were too many.",
     AT(crowded)},
    {OWN "certificate_reloads_total", "counter", "Certificates taken into use while running.",
     AT(reloads)},
    {OWN "certificate_reload_failures_total", "counter", "Changed certificates that were refused.",
     AT(reload_failures)},
    {OWN "http_body_bytes", "gauge", "Memory held for bodies.", AT(body_bytes)},
};

static void write_listeners(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    for (size_t f = 0; f < GS_ARRAY_LEN(listener_families); f++) {
        const struct listener_family *family = &listener_families[f];

        gs_prom_head(buf, family->name, family->type, family->help);
        for (size_t i = 0; i < GS_ARRAY_LEN(from->listener); i++) {
            struct gs_http_server_stats s;
            const char *at = (const char *)&s;

            if (from->listener[i].server == NULL)
                continue;
            gs_http_server_get_stats(from->listener[i].server, &s);
            GS_PROM_LINE(buf, family->name, *(const uint64_t *)(const void *)(at + family->offset),
                         {"listener", gs_str_of(from->listener[i].name)});
        }
    }
}

void gs_metrics_write(const struct gs_metrics_from *from, struct gs_buf *buf)
{
    gs_prom_process(buf, &(struct gs_prom_process){.version = from->version,
                                                   .resident_bytes = from->resident_bytes,
                                                   .cpu_s = from->cpu_s,
                                                   .start_unix_s = from->start_unix_s});
    if (from->metrics != NULL) {
        write_took(from->metrics, buf);
        write_outcomes(from->metrics, buf);
    }
    if (from->books != NULL)
        write_books(from, buf);
    if (from->registry != NULL)
        write_cache(from, buf);
    if (from->binder != NULL)
        write_binds(from, buf);
    if (from->fence != NULL)
        write_fence(from, buf);
    if (from->preempt != NULL)
        write_preempt(from, buf);
    if (from->retry != NULL)
        write_retry(from, buf);
    if (from->client != NULL)
        write_client(from, buf);
    if (from->events != NULL)
        write_events(from, buf);
    write_listeners(from, buf);
}
