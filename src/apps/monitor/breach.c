#include "apps/monitor/breach.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"
#include "contract/names.h"
#include "core/size.h"
#include "kube/client.h"
#include "kube/event.h"
#include "kube/patch.h"

static void on_labelled(void *arg, const struct gs_kube_result *result)
{
    (void)arg;
    if (result->rc < 0 && result->rc != -ENOENT && result->rc != -EBUSY)
        GS_LOG_WARN("pod not labelled", GS_LOG_ERR(result->err));
}

static void on_evicted(void *arg, const struct gs_kube_result *result)
{
    (void)arg;
    if (result->rc == 0)
        GS_LOG_INFO("pod evicted that uses more of a card than its slice");
    else if (result->rc != -ENOENT && result->rc != -EBUSY)
        GS_LOG_WARN("pod not evicted", GS_LOG_ERR(result->err));
}

static void post(struct gs_kube_events *events, const struct gs_tenants_who *who,
                 const struct gs_tenants_device *device, uint64_t slice_bytes)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    char used[32], slice[32];
    struct gs_str_out out;

    gs_str_out_init(&out, used, sizeof(used));
    gs_size_put(&out, device->driver_bytes);
    gs_str_out_init(&out, slice, sizeof(slice));
    gs_size_put(&out, slice_bytes);
    gs_buf_addf(&text,
                "container %.*s uses %s of card %s, by the driver's account; its slice is %s",
                (int)who->container.n, who->container.p, used, device->uuid, slice);
    gs_kube_event_post(events, &(struct gs_kube_event){.resource = &gs_kube_pods,
                                                       .ns = who->ns,
                                                       .name = who->pod,
                                                       .uid = who->of->uid,
                                                       .type = "Warning",
                                                       .reason = "SliceExceeded",
                                                       .message = gs_buf_str(&text)});
}

static void label(struct gs_kube_client *client, const struct gs_tenants_who *who)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_kube_merge m;
    struct gs_err err = {0};
    int rc;

    gs_kube_merge_init(&m);
    gs_kube_merge_uid(&m, who->of->uid);
    gs_kube_merge_label(&m, GS_STR(GS_NAME_BREACH), GS_STR(GS_NAME_BREACH_MEMORY));
    rc = gs_kube_merge_text(&m, &text);
    gs_kube_merge_fini(&m);
    if (rc == 0)
        rc = gs_kube_client_send(client,
                                 &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                       .resource = &gs_kube_pods,
                                                       .ns = who->ns,
                                                       .name = who->pod,
                                                       .body = gs_buf_str(&text),
                                                       .is_idempotent = true},
                                 on_labelled, NULL, NULL, &err);
    if (rc < 0)
        GS_LOG_WARN("pod not labelled", GS_LOG_RC(rc));
}

void gs_breach_act(struct gs_kube_client *client, struct gs_kube_events *events, bool evicts,
                   const struct gs_tenants_who *who, const struct gs_tenants_device *device,
                   uint64_t slice_bytes)
{
    struct gs_err err = {0};

    post(events, who, device, slice_bytes);
    label(client, who);
    if (evicts &&
        gs_kube_client_evict(
            client, &(struct gs_kube_end){.ns = who->ns, .name = who->pod, .uid = who->of->uid},
            on_evicted, NULL, &err) < 0)
        GS_LOG_WARN("pod not evicted", GS_LOG_ERR(&err));
}
