#pragma once
/* The life of one process of gpuslice-device-plugin. */

#include "apps/device-plugin/state.h"
#include "base/err.h"
#include "core/cleanup.h"

/** Read what is configured, open folders and sockets, begin to watch. gs_daemon_fini() also after
 *  failure. */
GS_WUR int gs_daemon_init(struct gs_daemon *d, const struct gs_plugin_flags *flags,
                          struct gs_err *err);
/** Serve until told to stop. 0; negative errno where it could not go on. */
GS_WUR int gs_daemon_run(struct gs_daemon *d);
void gs_daemon_fini(struct gs_daemon *d);
