#pragma once
/* gpuslice-monitor: everything one process does, on one loop, but for the driver
 * (apps/monitor/cards). */

#include <stdbool.h>

#include "apps/monitor/cards.h"
#include "apps/monitor/flags.h"
#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "monitor/boards.h"
#include "monitor/page.h"
#include "monitor/pods.h"
#include "monitor/tenants.h"
#include "net/http_server.h"
#include "net/loop.h"

struct gs_kube_client;
struct gs_kube_events;
struct gs_kube_watch;

struct gs_daemon {
    const struct gs_monitor_flags *flags;
    struct gs_loop *loop;
    struct gs_arena conf;  /**< for the life of the process */
    struct gs_arena event; /**< of one event of the watch */
    const char *node, *containers, *board_dir;
    /* NULL without a cluster */
    struct gs_kube_client *client;
    struct gs_kube_events *events;
    struct gs_kube_watch *watch;
    struct gs_pods pods;
    bool is_synced;
    struct gs_tenants *tenants;
    struct gs_boards *boards; /**< NULL without a cluster */
    struct gs_cards *cards;
    const char *busy[GS_PROBE_CARDS]; /**< cards whose use the driver is asked for */
    size_t n_busy;
    struct gs_http_server *server; /**< NULL with --json */
    /* what the driver said last */
    struct gs_tenants_card card[GS_PROBE_CARDS];
    struct gs_tenants_process *process;
    struct gs_tenants_driver driver;
    int64_t driver_ms; /**< when; INT64_MIN never, or it does not answer */
    bool is_driver_told;
    /* looks */
    struct gs_loop_timer look_timer, feedback_timer, board_timer, give_up_timer;
    struct gs_loop_task step;
    bool is_asked, is_looking;
    bool knows_pods; /**< the look that goes on began when the pods were known */
    bool has_looked; /**< such a look has ended */
    uint64_t look_began_ns;
    double look_s;
    uint64_t start_unix_s;
    int rc; /**< of the run */
};

/** Read configuration, connect, listen. On failure what was set up is for gs_daemon_fini(). */
GS_WUR int gs_daemon_init(struct gs_daemon *d, const struct gs_monitor_flags *flags,
                          struct gs_err *err);
/** Serve until a signal says stop, or with --json until the object is written. 0 or negative errno,
 *  which has been told. */
GS_WUR int gs_daemon_run(struct gs_daemon *d);
/** Accepts half-built ones. */
void gs_daemon_fini(struct gs_daemon *d);
