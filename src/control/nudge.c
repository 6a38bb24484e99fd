#include "control/nudge.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/log.h"
#include "contract/names.h"
#include "core/cleanup.h"
#include "kube/patch.h"
#include "net/loop.h"

static void on_sent(void *arg, const struct gs_kube_result *result)
{
    (void)arg;
    if (result->rc < 0 && result->rc != -ENOENT && result->rc != -EBUSY)
        GS_LOG_WARN("pod not nudged", GS_LOG_ERR(result->err));
}

void gs_nudge_send(struct gs_kube_client *client, struct gs_str ns, struct gs_str name,
                   struct gs_str uid)
{
    int64_t now_us = gs_loop_unix_us(gs_kube_client_loop(client));
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_kube_merge m;
    struct gs_err err = {0};
    char stamp[24];
    int rc;

    (void)snprintf(stamp, sizeof(stamp), "%lld", (long long)(now_us / 1000));
    gs_kube_merge_init(&m);
    gs_kube_merge_uid(&m, uid);
    gs_kube_merge_annotation(&m, GS_STR(GS_NAME_ROOM_SEEN), gs_str_of(stamp));
    rc = gs_kube_merge_text(&m, &text);
    gs_kube_merge_fini(&m);
    if (rc == 0)
        rc = gs_kube_client_send(client,
                                 &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                       .resource = &gs_kube_pods,
                                                       .ns = ns,
                                                       .name = name,
                                                       .body = gs_buf_str(&text)},
                                 on_sent, NULL, NULL, &err);
    if (rc < 0)
        GS_LOG_WARN("pod not nudged", GS_LOG_ERR(&err));
}
