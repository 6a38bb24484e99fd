#pragma once
/* Command line of gpuslice-scheduler. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/cleanup.h"

struct gs_flags {
    const char *http_bind, *extender_bind, *cert_file, *key_file, *scheduler_name, *node_policy,
        *device_policy;
    const char *metrics_bind, *node_selector, *kube_qps, *kube_burst, *lease_name, *lease_ns;
    const char *device_config, *kubeconfig, *client_ca, *node_choice, *body_limit, *grant_key;
    bool interop, profiling, overwrites_default, leader_elect, legacy_metrics, debug;
    bool enable_ascend, enable_iluvatar, wants_help, wants_version;
    int64_t kube_timeout_ms, lock_timeout_ms, lock_retry_ms, lease_ms;
};

/** Both --flag=value and --flag value; a switch alone means true. Flags that HAMi accepts and its
 *  configuration file overrules are accepted and ignored. Strings are borrowed from argv.
 *  Returns 0; -EINVAL with the reason. */
GS_WUR int gs_flags_parse(int argc, char **argv, struct gs_flags *ret, struct gs_err *err);
void gs_flags_help(struct gs_buf *buf);
