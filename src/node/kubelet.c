#include "node/kubelet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "net/grpc_client.h"
#include "net/grpc_server.h"
#include "net/loop.h"
#include "net/unix_socket.h"

/* inotify tells at once; this is for file systems that have none of it. */
#define LOOK_MS     1000u
#define RETRY_MS    1000u
#define REGISTER_MS 10000u

struct gs_kubelet {
    struct gs_kubelet_opt opt;
    struct gs_grpc_client *client;
    struct gs_grpc_client_call *call; /* a registration under way */
    struct gs_unix_file file;         /* of the kubelet's socket, as it was registered with */
    int inotify;
    struct gs_loop_timer timer;
    struct gs_kubelet_state state;
};

static void look(struct gs_kubelet *k);

static void on_time(void *user)
{
    look(user);
}

static void on_registered(void *user, const struct gs_grpc_answer *answer)
{
    struct gs_kubelet *k = user;

    k->call = NULL;
    if (answer->rc < 0) {
        k->state.failed++;
        memset(&k->file, 0, sizeof(k->file));
        GS_LOG_WARN("the kubelet does not register us", GS_LOG_CSTR("socket", k->opt.socket),
                    GS_LOG_CSTR("error", answer->error));
        gs_loop_timer_in(k->opt.loop, &k->timer, RETRY_MS, on_time, k);
        return;
    }
    k->state.registrations++;
    k->state.is_registered = true;
    GS_LOG_INFO("registered with the kubelet", GS_LOG_CSTR("resource", k->opt.us.resource),
                GS_LOG_CSTR("endpoint", k->opt.us.endpoint));
}

static void start_register(struct gs_kubelet *k)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf message = {0};
    int rc = gs_kubelet_pb_put_register(&message, &k->opt.us);

    if (rc == 0)
        rc = gs_grpc_client_start(k->client,
                                  &(struct gs_grpc_ask){.method = GS_KUBELET_REGISTER,
                                                        .message = gs_buf_str(&message),
                                                        .timeout_ms = REGISTER_MS,
                                                        .done = on_registered,
                                                        .user = k},
                                  &k->call);
    if (rc < 0) {
        memset(&k->file, 0, sizeof(k->file));
        GS_LOG_ERROR("cannot ask the kubelet to register us", GS_LOG_RC(rc));
    }
}

/* Our own socket. True: the kubelet has to hear of us anew. */
static bool look_at_ours(struct gs_kubelet *k)
{
    struct gs_err err = {0};
    int rc = gs_grpc_server_check_path(k->opt.server);

    if (rc == -ESTALE && !k->state.is_replaced) {
        k->state.is_replaced = true;
        GS_LOG_INFO("another plugin has taken over", GS_LOG_CSTR("endpoint", k->opt.us.endpoint));
    }
    if (rc != -ENOENT || k->state.is_replaced)
        return false;
    rc = gs_grpc_server_relisten(k->opt.server, &err);
    if (rc < 0) {
        GS_LOG_WARN("our socket is gone and cannot be made again", GS_LOG_ERR(&err));
        return false;
    }
    k->state.relistens++;
    return true;
}

static void look(struct gs_kubelet *k)
{
    bool is_new = look_at_ours(k);
    struct gs_unix_file file;
    int rc;

    gs_loop_timer_in(k->opt.loop, &k->timer, LOOK_MS, on_time, k);
    if (k->state.is_replaced)
        return;
    rc = gs_unix_socket_file(k->opt.socket, &file);
    if (rc < 0) {
        k->state.is_registered = false; /* it starts, or is away */
        memset(&k->file, 0, sizeof(k->file));
        return;
    }
    if (!is_new && gs_unix_socket_check(k->opt.socket, &k->file) == 0)
        return;
    if (k->call != NULL)
        gs_grpc_client_cancel(GS_STEAL(k->call));
    k->state.is_registered = false;
    k->file = file;
    start_register(k);
}

static void on_inotify(void *user, int fd, uint32_t events)
{
    struct gs_kubelet *k = user;
    char bytes[4096] __attribute__((aligned(__alignof__(struct inotify_event))));

    (void)events;
    while (read(fd, bytes, sizeof(bytes)) > 0)
        ; /* what it was does not matter: everything is looked at */
    look(k);
}

static int watch_folder(struct gs_kubelet *k, struct gs_err *err)
{
    const char *slash = strrchr(k->opt.socket, '/');
    char folder[4096];
    int rc;

    if (slash == NULL || slash == k->opt.socket)
        return gs_err_set(err, -EINVAL, "'%s' is no absolute path of a socket", k->opt.socket);
    (void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - k->opt.socket), k->opt.socket);
    k->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (k->inotify < 0 ||
        inotify_add_watch(k->inotify, folder, IN_CREATE | IN_DELETE | IN_MOVED_TO) < 0) {
        GS_LOG_WARN("the kubelet's folder is looked at each second", GS_LOG_RC(-errno));
        return 0;
    }
    rc = gs_loop_fd_add(k->opt.loop, k->inotify, EPOLLIN, on_inotify, k);
    return rc < 0 ? gs_err_set(err, rc, "watch folder '%s': %s", folder, strerror(-rc)) : 0;
}

int gs_kubelet_new(const struct gs_kubelet_opt *opt, struct gs_kubelet **ret, struct gs_err *err)
{
    struct gs_kubelet *k = calloc(1, sizeof(*k));
    int rc;

    if (k == NULL)
        return gs_err_set(err, -ENOMEM, "no memory");
    k->opt = *opt;
    k->inotify = -1;
    rc = gs_grpc_client_new(opt->grpc, &(struct gs_grpc_client_options){.path = opt->socket},
                            &k->client);
    if (rc == 0)
        rc = watch_folder(k, err);
    if (rc < 0) {
        gs_kubelet_free(k);
        return rc;
    }
    gs_loop_timer_in(opt->loop, &k->timer, 0, on_time, k);
    *ret = k;
    return 0;
}

struct gs_kubelet *gs_kubelet_free(struct gs_kubelet *k)
{
    if (k == NULL)
        return NULL;
    gs_loop_timer_cancel(k->opt.loop, &k->timer);
    if (k->call != NULL)
        gs_grpc_client_cancel(k->call);
    gs_grpc_client_free(k->client);
    gs_loop_fd_del(k->opt.loop, k->inotify);
    gs_file_close(&k->inotify);
    free(k);
    return NULL;
}

void gs_kubelet_state(const struct gs_kubelet *k, struct gs_kubelet_state *ret)
{
    *ret = k->state;
}
