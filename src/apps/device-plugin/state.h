#pragma once
/* What one process of gpuslice-device-plugin has. */

#include "apps/device-plugin/cards.h"
#include "apps/device-plugin/flags.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "cluster/sign.h"
#include "core/cleanup.h"
#include "kube/client.h"
#include "net/grpc.h"
#include "net/http_server.h"
#include "net/loop.h"
#include "node/engine.h"
#include "node/folders.h"
#include "node/grants.h"
#include "node/handout.h"
#include "node/kit.h"
#include "node/provision.h"
#include "node/report.h"

#define GS_PLUGIN_ENGINES 16 /* the cards' resource, and one for each profile of MIG devices */

/** A resource, as the kubelet knows it. */
struct gs_plugin_engine {
    char resource[160], endpoint[200];
    enum gs_identity identity;
    struct gs_engine *engine; /**< NULL: free */
};

struct gs_daemon {
    const struct gs_plugin_flags *flags;
    struct gs_loop *loop;
    struct gs_arena conf; /**< for the life of the process */
    struct gs_buf device_config, node_config;
    struct gs_kit_place place;
    struct gs_kit kit;
    struct gs_kube_client *client;
    struct gs_sign *sign; /**< NULL: every grant is believed */
    struct gs_grants *grants;
    struct gs_folders *folders;
    struct gs_provision *provision;
    struct gs_handout *handout; /**< NULL: not by HAMi's lock */
    struct gs_report *report;
    struct gs_grpc *grpc;
    struct gs_cards *cards;
    struct gs_plugin_engine engine[GS_PLUGIN_ENGINES];
    struct gs_http_server *http; /**< NULL: nowhere */
    struct gs_http_route route[3];
    struct gs_loop_timer housekeeping, tidy;
    char *folder;  /**< of the kubelet's socket */
    int folder_fd; /**< the same; -1 */
    int cdi_fd;    /**< -1: none */
    uint64_t start_unix_s;
    unsigned n_stopping;
    bool is_stopping, has_failed;
};
