#pragma once
/* Asking NVML again and again what the processes on one card do. See gs_probe_vendor.watch_new. */

#include <stddef.h>

#include "core/cleanup.h"

struct gs_err;
struct gs_probe_use;
struct gs_probe_watch;

GS_WUR int gs_watch_new(const char *uuid, struct gs_probe_watch **ret_watch, struct gs_err *err);
GS_WUR int gs_watch_read(struct gs_probe_watch *watch, struct gs_probe_use *ret_use, size_t max);
struct gs_probe_watch *gs_watch_free(struct gs_probe_watch *watch);
