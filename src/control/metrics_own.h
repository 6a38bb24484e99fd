#pragma once
/* Inside of metrics: counters, and the parts of a page. */

#include "control/metrics.h"

#define GS_METRICS_BUCKETS 20

struct gs_metrics {
    struct {
        uint64_t bucket[GS_METRICS_BUCKETS + 1]; /**< not yet added up; last: beyond all */
        uint64_t n, sum_ns;
    } took[GS_METRICS_CALL_COUNT];
    uint64_t filtered[GS_FILTER_ERROR + 1], simulated;
    uint64_t filter_why[GS_REASON_COUNT], unregistered;
    uint64_t admitted[GS_ADMIT_OUTCOME_COUNT], admit_why[GS_ADMIT_WHY_COUNT], stripped;
    uint64_t bound, not_bound, expired;
};

/** name{key="value",...} value; pairs ended by NULL; a NULL value leaves its pair out. Values are
 *  escaped. */
struct gs_metrics_label {
    const char *key;
    struct gs_str value;
};
void gs_metrics_head(struct gs_buf *buf, const char *name, const char *type, const char *help);
void gs_metrics_line(struct gs_buf *buf, const char *name, const struct gs_metrics_label *label,
                     size_t n, double value);
#define GS_METRICS_LINE(buf, name, value, ...)                                                     \
    gs_metrics_line((buf), (name), (const struct gs_metrics_label[]){__VA_ARGS__},                 \
                    sizeof((const struct gs_metrics_label[]){__VA_ARGS__}) /                       \
                        sizeof(struct gs_metrics_label),                                           \
                    (double)(value))

/** Everything whose number does not grow with the cluster. */
void gs_metrics_write_own(const struct gs_metrics_from *from, struct gs_buf *buf);
