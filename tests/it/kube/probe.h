#pragma once
/* What the probe's files share. */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/client.h"
#include "kube/patch.h"
#include "kube/watch.h"

struct probe {
    struct gs_loop *loop;
    struct gs_kube_client *client;
    struct gs_kube_watch *watch;
    struct gs_kube_lease *lease;
    struct gs_kube_events *events;
    struct gs_buf input;
    int64_t items;
    uint32_t timeout_ms, page, max_object, watch_s;
};

/** Write one line and end the object. */
void probe_say(struct gs_kube_merge *m);
gs_kube_fn probe_result;
/** Commands of leases and events. */
GS_WUR int probe_more(struct probe *p, char **words, struct gs_err *err);
GS_WUR int probe_view(struct probe *p, char **words, struct gs_err *err);
void probe_more_end(struct probe *p);
void probe_refused(int rc, const struct gs_err *err);
