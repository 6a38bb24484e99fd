#pragma once
/* What the scheduler answers to whom: kube-scheduler's extender calls, the webhook, health. */

#include "base/err.h"
#include "core/cleanup.h"

struct gs_daemon;

/** Open both listeners: that of the calls, and that of the metrics where one is wanted. On failure
 *  what was opened is for gs_daemon_fini(). */
GS_WUR int gs_routes_open(struct gs_daemon *d, struct gs_err *err);
