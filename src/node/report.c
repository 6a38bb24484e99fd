#include "node/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "contract/names.h"
#include "kube/patch.h"
#include "net/loop.h"

#define PERIOD_MS 30000u
#define RETRY_MS  5000u
#define CALL_MS   10000u
#define NOTES     8u

struct note {
    const char *key;
    struct gs_buf value;
    bool is_gone; /* null: remove it */
};

struct gs_report {
    struct gs_kube_client *client;
    char *node;
    struct note note[NOTES];
    size_t n;
    uint64_t ticket; /* of the patch under way; 0: none */
    bool is_dirty;   /* something was set since it was sent */
    struct gs_loop_timer timer;
    struct gs_loop_task task;
    struct gs_report_stats stats;
};

static struct gs_loop *loop_of(const struct gs_report *report)
{
    return gs_kube_client_loop(report->client);
}

static void send(struct gs_report *report);

static void on_time(void *user)
{
    send(user);
}

int gs_report_new(struct gs_kube_client *client, struct gs_str node, struct gs_report **ret)
{
    struct gs_report *report = calloc(1, sizeof(*report));

    if (report == NULL)
        return -ENOMEM;
    report->client = client;
    report->stats.written_ms = -1;
    report->node = strndup(node.p, node.n);
    if (report->node == NULL) {
        free(report);
        return -ENOMEM;
    }
    *ret = report;
    return 0;
}

struct gs_report *gs_report_free(struct gs_report *report)
{
    if (report == NULL)
        return NULL;
    if (report->ticket != 0)
        gs_kube_client_cancel(report->client, report->ticket);
    gs_loop_timer_cancel(loop_of(report), &report->timer);
    gs_loop_task_cancel(loop_of(report), &report->task);
    for (size_t i = 0; i < report->n; i++)
        gs_buf_fini(&report->note[i].value);
    free(report->node);
    free(report);
    return NULL;
}

static void on_patched(void *arg, const struct gs_kube_result *result)
{
    struct gs_report *report = arg;
    uint32_t wait_ms = PERIOD_MS;

    report->ticket = 0;
    if (result->rc < 0) {
        report->stats.failed++;
        report->is_dirty = true;
        wait_ms = RETRY_MS;
        GS_LOG_WARN("annotations of the node are not written", GS_LOG_ERR(result->err));
    } else {
        report->stats.written_ms = gs_loop_now_ms(loop_of(report));
        if (report->is_dirty)
            wait_ms = 0;
    }
    gs_loop_timer_in(loop_of(report), &report->timer, wait_ms, on_time, report);
}

static int build(const struct gs_report *report, struct gs_buf *body)
{
    struct gs_kube_merge merge;
    int rc;

    gs_kube_merge_init(&merge);
    for (size_t i = 0; i < report->n; i++) {
        const struct note *note = &report->note[i];

        if (note->is_gone)
            gs_kube_merge_annotation_null(&merge, gs_str_of(note->key));
        else
            gs_kube_merge_annotation(&merge, gs_str_of(note->key), gs_buf_str(&note->value));
    }
    rc = gs_kube_merge_text(&merge, body);
    gs_kube_merge_fini(&merge);
    return rc;
}

static void send(struct gs_report *report)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf body = {0};
    struct gs_err err = {0};
    int rc = build(report, &body);

    if (report->ticket != 0 || report->n == 0)
        return;
    if (rc == 0)
        rc = gs_kube_client_send(report->client,
                                 &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                       .resource = &gs_kube_nodes,
                                                       .name = gs_str_of(report->node),
                                                       .body = gs_buf_str(&body),
                                                       .timeout_ms = CALL_MS,
                                                       .is_idempotent = true},
                                 on_patched, report, &report->ticket, &err);
    if (rc < 0) {
        report->stats.failed++;
        GS_LOG_ERROR("annotations of the node cannot be sent", GS_LOG_ERR(&err));
        gs_loop_timer_in(loop_of(report), &report->timer, RETRY_MS, on_time, report);
        return;
    }
    report->stats.patches++;
    report->is_dirty = false;
}

void gs_report_set(struct gs_report *report, const char *key, struct gs_str value)
{
    struct note *note = NULL;

    for (size_t i = 0; i < report->n && note == NULL; i++)
        if (strcmp(report->note[i].key, key) == 0)
            note = &report->note[i];
    if (note == NULL) {
        if (report->n == NOTES)
            return; /* a plugin has three */
        note = &report->note[report->n++];
        note->key = key;
    } else if (note->is_gone == (value.p == NULL) && gs_str_eq(gs_buf_str(&note->value), value)) {
        return;
    }
    gs_buf_clear(&note->value);
    note->is_gone = value.p == NULL;
    gs_buf_put(&note->value, value);
    report->is_dirty = true;
    gs_loop_defer(loop_of(report), &report->task, on_time, report);
}

static void on_phase(void *arg, const struct gs_kube_result *result)
{
    (void)arg; /* the report may be gone */
    if (result->rc < 0 && result->rc != -ENOENT && result->rc != -EBUSY)
        GS_LOG_WARN("bind phase not written", GS_LOG_ERR(result->err));
}

void gs_report_success(struct gs_report *report, struct gs_str ns, struct gs_str pod,
                       struct gs_str uid)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf body = {0};
    struct gs_kube_merge merge;
    int rc;

    gs_kube_merge_init(&merge);
    gs_kube_merge_uid(&merge, uid);
    gs_kube_merge_annotation(&merge, GS_STR(GS_NAME_BIND_PHASE), GS_STR("success"));
    rc = gs_kube_merge_text(&merge, &body);
    gs_kube_merge_fini(&merge);
    if (rc == 0)
        rc = gs_kube_client_send(report->client,
                                 &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                       .resource = &gs_kube_pods,
                                                       .ns = ns,
                                                       .name = pod,
                                                       .body = gs_buf_str(&body),
                                                       .timeout_ms = CALL_MS,
                                                       .is_idempotent = true},
                                 on_phase, NULL, NULL, NULL);
    report->stats.phases++;
    report->stats.phases_failed += rc < 0;
}

void gs_report_stats(const struct gs_report *report, struct gs_report_stats *ret)
{
    *ret = report->stats;
    ret->is_current = !report->is_dirty && report->ticket == 0 && report->stats.written_ms >= 0;
}
