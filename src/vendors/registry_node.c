#include "vendors/registry_node.h"

#include "core/cleanup.h"
#include "vendors/nvidia/node/probe.h"

const struct gs_probe_vendor *const gs_registry_node[] = {
    &gs_nvidia_probe_vendor,
};
const size_t gs_registry_node_n = GS_ARRAY_LEN(gs_registry_node);
