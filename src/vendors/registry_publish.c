#include "vendors/registry_publish.h"

#include "core/cleanup.h"
#include "vendors/nvidia/node/publish.h"

const struct gs_publish_vendor *const gs_registry_publish[] = {
    &gs_nvidia_publish_vendor,
};
const size_t gs_registry_publish_n = GS_ARRAY_LEN(gs_registry_publish);
