#pragma once
/* What the plugin writes to the API server, off every path that anybody waits on: annotations of
 * its node, at once when one changes and again every half minute (somebody may have removed them;
 * a patch that changes nothing costs the server a read), and the bind phase of pods.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"
#include "kube/client.h"

struct gs_report;

/** @node  copied. 0 or -ENOMEM. */
GS_WUR int gs_report_new(struct gs_kube_client *client, struct gs_str node, struct gs_report **ret);
struct gs_report *gs_report_free(struct gs_report *report);

/** From now on the node's annotation `key` (borrowed) is to be `value` (copied); p == NULL: it is
 *  not to be there. */
void gs_report_set(struct gs_report *report, const char *key, struct gs_str value);
/** bind-phase of a pod: success. Nothing waits for it, a failure is logged. */
void gs_report_success(struct gs_report *report, struct gs_str ns, struct gs_str pod,
                       struct gs_str uid);

struct gs_report_stats {
    uint64_t patches, failed, phases, phases_failed;
    int64_t written_ms; /**< loop time of the last patch of the node that the server took; -1 */
    bool is_current;    /**< it has all that was set */
};
void gs_report_stats(const struct gs_report *report, struct gs_report_stats *ret);
