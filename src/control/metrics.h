#pragma once
/* What the scheduler counts, and the series of its own that it tells Prometheus. HAMi's series on
 * cards, pods and quotas are in control/metrics_page.h.
 *
 * Cardinality: bounded by tables of this program. Nothing a caller sends becomes a label.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "control/admit.h"
#include "control/bind.h"
#include "control/books.h"
#include "control/fence.h"
#include "control/filter.h"
#include "control/preempt.h"
#include "control/registry.h"
#include "control/retry.h"
#include "core/cleanup.h"
#include "kube/event.h"
#include "net/http_server.h"

enum gs_metrics_call {
    GS_METRICS_FILTER,
    GS_METRICS_PRIORITIZE,
    GS_METRICS_BIND,
    GS_METRICS_WEBHOOK,
    GS_METRICS_CALL_COUNT,
};

struct gs_metrics;

GS_WUR int gs_metrics_new(struct gs_metrics **ret);
struct gs_metrics *gs_metrics_free(struct gs_metrics *m);

/** A call was answered after so long. */
void gs_metrics_took(struct gs_metrics *m, enum gs_metrics_call call, uint64_t ns);
void gs_metrics_filtered(struct gs_metrics *m, const struct gs_filter_note *note);
void gs_metrics_admitted(struct gs_metrics *m, const struct gs_admit_reply *reply);
/** @error  as gs_binder_done has it. */
void gs_metrics_bound(struct gs_metrics *m, const char *error);
/** Reservations that ended without a bind. */
void gs_metrics_expired(struct gs_metrics *m, size_t n);

struct gs_metrics_listener {
    const char *name;
    const struct gs_http_server *server;
};

/** Where the writers look. Members that are NULL are left out. */
struct gs_metrics_from {
    const struct gs_metrics *metrics;
    struct gs_books *books;
    const struct gs_registry *registry;
    const struct gs_binder *binder;
    const struct gs_fence *fence;
    const struct gs_preempt *preempt;
    const struct gs_retry *retry;
    const struct gs_kube_client *client;
    const struct gs_kube_events *events;
    struct gs_metrics_listener listener[4];
    const char *version;
    int64_t now_ms;          /**< loop time */
    uint64_t start_unix_s;   /**< of the process */
    uint64_t resident_bytes; /**< 0: not known */
    double cpu_s;
    bool has_legacy; /**< also under HAMi's old names */
};

/** Everything whose number does not grow with the cluster: calls, refusals, cache, books, binds,
 *  preemption, waiting pods, API client and listeners, and the process itself. */
void gs_metrics_write(const struct gs_metrics_from *from, struct gs_buf *buf);
