#pragma once
/* Our standing with the kubelet: a socket in its folder, and a registration that names it. A
 * kubelet that starts removes all sockets of that folder and forgets who was registered; here both
 * is noticed (by inotify, and by a look now and then) and made good.
 *
 * Another process of ours that puts its socket in the place of this one has taken over: from then
 * on nothing is done here but finish.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "node/kubelet_pb.h"

struct gs_grpc;
struct gs_grpc_server;
struct gs_kubelet;
struct gs_loop;

struct gs_kubelet_opt {
    struct gs_loop *loop;
    struct gs_grpc *grpc;
    struct gs_grpc_server *server; /**< ours, at <folder of the socket>/<endpoint> */
    const char *socket;            /**< the kubelet's, an absolute path */
    struct gs_kubelet_register us; /**< borrowed */
};

/** Register, and stay so. */
GS_WUR int gs_kubelet_new(const struct gs_kubelet_opt *opt, struct gs_kubelet **ret,
                          struct gs_err *err);
struct gs_kubelet *gs_kubelet_free(struct gs_kubelet *kubelet);

struct gs_kubelet_state {
    uint64_t registrations, failed, relistens;
    bool is_registered; /**< with the kubelet that is there */
    bool is_replaced;   /**< another process has taken over */
};
void gs_kubelet_state(const struct gs_kubelet *kubelet, struct gs_kubelet_state *ret);
