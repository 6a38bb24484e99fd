#pragma once
/* Command line and environment of gpuslice-device-plugin. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/cleanup.h"

struct gs_plugin_flags {
    const char *mig_strategy, *driver_root, *driver_root_here, *dev_root, *list_strategy;
    const char *id_strategy, *kubelet_socket, *config_file, *cdi_prefix, *imex_channels;
    const char *node_name, *hook_path, *node_config, *hook_library, *inject, *identity, *cdi_dir;
    const char *register_format, *grant_key, *kubeconfig, *metrics_bind, *vendor;
    bool fails, passes_nodes, gdrcopy, gds, mofed, gives_driver, interop, takes_over, debug;
    bool wants_help, wants_version;
    int64_t wait_ms, lock_timeout_ms;
    unsigned list; /**< of list_strategy: enum gs_kit_list */
};

/** A flag counts before its variable, that before the default. Strings are borrowed.
 *  Returns 0; -EINVAL with the reason. */
GS_WUR int gs_plugin_flags_parse(int argc, char **argv, struct gs_plugin_flags *ret,
                                 struct gs_err *err);
void gs_plugin_flags_help(struct gs_buf *buf);
