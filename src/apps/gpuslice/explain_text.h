#pragma once
/* An explanation as text and as JSON. */

#include <stdbool.h>

#include "base/buf.h"
#include "control/explain.h"
#include "core/cleanup.h"
#include "kube/view.h"

void gs_explain_text(const struct gs_explanation *e, const struct gs_kube_pod *pod,
                     struct gs_buf *buf);
/** 0 or -ENOMEM. */
GS_WUR int gs_explain_json(const struct gs_explanation *e, const struct gs_kube_pod *pod,
                           struct gs_buf *buf);
