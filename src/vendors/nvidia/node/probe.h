#pragma once
/* NVIDIA cards as NVML reports them, or where it does not libcuda; the driver's libraries are
 * loaded when asked for. */

#include <stdint.h>

#include "core/cleanup.h"

struct gs_err;

extern const struct gs_probe_vendor gs_nvidia_probe_vendor;

/** See gs_probe_vendor.context_bytes. Uses libcuda and NVML; the calling process should end soon.
 */
GS_WUR int gs_context_measure(const char *uuid, uint64_t *ret_bytes, struct gs_err *err);
