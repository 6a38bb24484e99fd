#pragma once
/* Command line and environment of gpuslice-monitor. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/cleanup.h"

struct gs_monitor_flags {
    const char *metrics_bind, *hook_path, *node_name, *kubeconfig, *board_dir, *proc;
    bool legacy_metrics, no_cluster, json, evicts, debug;
    bool wants_help, wants_version;
    int64_t resync_ms; /**< of $HAMI_RESYNC_INTERVAL */
};

/** Arguments first, then HAMi's variables for what they do not say. Strings are borrowed.
 *  Returns 0; -EINVAL with the reason, also where a variable that is needed is not set. */
GS_WUR int gs_monitor_flags_parse(int argc, char **argv, struct gs_monitor_flags *ret,
                                  struct gs_err *err);
void gs_monitor_flags_help(struct gs_buf *buf);
