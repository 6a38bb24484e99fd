#pragma once
/* What one process of gpuslice-scheduler has. */

#include "apps/scheduler/flags.h"
#include "base/arena.h"
#include "base/err.h"
#include "cluster/sign.h"
#include "control/admit.h"
#include "control/bind.h"
#include "control/fence.h"
#include "control/filter.h"
#include "control/handshake.h"
#include "control/leader.h"
#include "control/metrics.h"
#include "control/preempt.h"
#include "control/registry.h"
#include "control/retry.h"
#include "core/cleanup.h"
#include "kube/event.h"
#include "model/policy.h"
#include "net/http_server.h"
#include "net/loop.h"

struct gs_daemon {
    const struct gs_flags *flags;
    struct gs_loop *loop;
    struct gs_arena conf; /**< configuration: for the life of the process */
    struct gs_policies policies;
    struct gs_filter_conf filter;
    struct gs_admit_conf admit;
    struct gs_kube_client *client;
    struct gs_kube_events *events;
    struct gs_books *books;
    struct gs_registry *registry;
    struct gs_fence *fence;
    struct gs_binder *binder;
    struct gs_preempt *preempt;
    struct gs_retry *retry;
    struct gs_leader *leader;
    struct gs_handshake *handshake;
    struct gs_sign *sign; /**< NULL: grants are not signed, every one is believed */
    struct gs_metrics *stats;
    struct gs_http_server *server, *local, *metrics; /**< the last two: NULL where not wanted */
    unsigned n_stopping;                             /**< servers that finish their requests */
    struct gs_arena call;                            /**< of one request */
    unsigned n_scrapes;                              /**< pages of metrics that are being written */
    uint64_t start_unix_s;
    struct gs_loop_timer housekeeping;
    int64_t relisted_ms; /**< when the pods were last listed for what the watch did not show */
    bool is_stopping;
};
