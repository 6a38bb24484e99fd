#pragma once
/* gpuslice-scheduler: everything one process does, on one loop. */

#include "apps/scheduler/state.h"
#include "base/err.h"
#include "core/cleanup.h"

/** Read configuration, connect, listen. On failure what was set up is for gs_daemon_fini(). */
GS_WUR int gs_daemon_init(struct gs_daemon *d, const struct gs_flags *flags, struct gs_err *err);
/** Serve until a signal says stop. 0 or negative errno. */
GS_WUR int gs_daemon_run(struct gs_daemon *d);
/** Accepts half-built ones. */
void gs_daemon_fini(struct gs_daemon *d);
