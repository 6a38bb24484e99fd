#include "vendors/registry_kit.h"

#include "core/cleanup.h"
#include "vendors/nvidia/node/edits.h"

const struct gs_kit_vendor *const gs_registry_kit[] = {
    &gs_nvidia_kit_vendor,
};
const size_t gs_registry_kit_n = GS_ARRAY_LEN(gs_registry_kit);
