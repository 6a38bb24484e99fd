#pragma once
/* The daemon's pages: /metrics, /healthz, /readyz. */

#include "base/err.h"
#include "core/cleanup.h"

struct gs_daemon;

GS_WUR int gs_page_open(struct gs_daemon *d, struct gs_err *err);
