#include "net/grpc_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "core/list.h"
#include "net/grpc.h"
#include "net/grpc_internal.h"
#include "net/loop.h"
#include "net/unix_socket.h"

#define MESSAGE_LIMIT   ((size_t)4 << 20)
#define MAX_CALLS       1024
#define MAX_CONNECTIONS 64
#define BACKLOG         128
/** Connections taken in one go; the loop has other work. */
#define ACCEPT_BATCH 16
/** Calls gRPC core may hand over before it hears from the loop. */
#define ARMED 8
/** Without descriptors or memory for a new connection: look again after. */
#define REST_MS 100
/** Peers that are cut at a stop may take so long to hear of it. */
#define CUT_MS 1000
#define STOPS  "the server stops"

/** A peer, seen through a copy of its descriptor: gRPC core owns the other and tells nobody when it
 *  closes it. Both ends' closing shows as a hang-up here. */
struct conn {
    struct gs_grpc_server *server;
    GS_LINK(struct conn) link;
    int fd;
};

/** What a route has published. */
struct topic {
    grpc_slice value;
    uint64_t version; /**< 0: nothing yet */
    size_t n_open;
};

struct gs_grpc_call {
    struct gs_grpc_server *server;
    GS_LINK(struct gs_grpc_call) link; /**< in server->calls */
    grpc_call *core;                   /**< NULL while nobody called */
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *message; /**< the peer's */
    grpc_slice bytes;          /**< its content, in one piece */
    const struct gs_grpc_route *route;
    struct topic *topic; /**< of an open stream */
    size_t refs;         /**< operations on their way, the token, whoever works with it now */
    int cancelled;
    bool is_counted;  /**< in stats.active */
    bool is_closed;   /**< gRPC core is through with it */
    bool is_answered; /**< a status was given to gRPC core */
    bool is_later;    /**< the token is out */
    bool is_sending;  /**< a message of the stream is on its way */
    uint64_t version; /**< of the topic, that was sent last */
    void (*gone)(void *user);
    void *gone_user;
    struct gs_grpc_op requested, received, closed, sent, answered;
};

struct gs_grpc_server {
    struct gs_grpc *grpc;
    struct gs_loop *loop;
    struct gs_grpc_server_options options;
    struct gs_grpc_owner owner;
    grpc_server *core;
    grpc_server_credentials *credentials;
    struct topic *topics; /**< one per route */
    GS_LIST(struct gs_grpc_call) calls;
    GS_LIST(struct conn) conns;
    size_t n_armed;
    int listen_fd;
    struct gs_unix_file file;
    struct gs_loop_timer rest_timer, stop_timer;
    struct gs_grpc_op stopped;
    bool is_stopping, is_stopped, is_freed;
    void (*done)(void *user);
    void *done_user;
    struct gs_grpc_server_stats stats;
};

static void arm_all(struct gs_grpc_server *server);

/* ---- the life of a call ---- */

static void init_op(struct gs_grpc_call *call, struct gs_grpc_op *op, gs_grpc_op_fn *fn)
{
    op->fn = fn;
    op->user = call;
    op->owner = &call->server->owner;
}

static void start(struct gs_grpc_call *call, const grpc_op *ops, size_t n, struct gs_grpc_op *op)
{
    call->refs++;
    gs_grpc_start(call->server->grpc, call->core, ops, n, op);
}

static void uncount(struct gs_grpc_call *call)
{
    if (call->is_counted)
        call->server->stats.active--;
    call->is_counted = false;
}

static void release(struct gs_grpc_call *call)
{
    struct gs_grpc_server *server = call->server;

    if (--call->refs > 0)
        return;
    uncount(call);
    GS_LIST_REMOVE(&server->calls, call, link);
    if (call->message)
        grpc_byte_buffer_destroy(call->message);
    grpc_slice_unref(call->bytes);
    if (call->core)
        grpc_call_unref(call->core);
    grpc_call_details_destroy(&call->details);
    grpc_metadata_array_destroy(&call->metadata);
    free(call);
    arm_all(server); /* where memory was short before */
}

/** The end of a call: a status, behind a message where there is one. */
static void finish(struct gs_grpc_call *call, const grpc_slice *message, int status,
                   const char *text)
{
    grpc_slice details = grpc_slice_from_copied_string(text);
    grpc_byte_buffer *body = NULL;
    grpc_op ops[3] = {0};
    size_t n = 0;

    call->is_answered = true;
    uncount(call);
    if (!call->topic)
        ops[n++].op = GRPC_OP_SEND_INITIAL_METADATA;
    if (message) {
        grpc_slice slice = *message;
        body = grpc_raw_byte_buffer_create(&slice, 1);
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = body;
    }
    ops[n].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[n].data.send_status_from_server.status = (grpc_status_code)status;
    ops[n++].data.send_status_from_server.status_details = &details;
    start(call, ops, n, &call->answered);
    grpc_slice_unref(details);
    if (body)
        grpc_byte_buffer_destroy(body); /* gRPC core took what is in it */
}

static void on_answered(void *user, bool ok)
{
    (void)ok; /* whether the peer still took it is not told to anybody */
    release(user);
}

static void refuse_unserved(struct gs_grpc_call *call, int rc, const char *text)
{
    call->server->stats.refused++;
    finish(call, NULL, gs_grpc_status_of(rc), text);
}

static void answer(struct gs_grpc_call *call, struct gs_buf *message)
{
    if (gs_buf_check(message) < 0) {
        finish(call, NULL, gs_grpc_status_of(-ENOMEM), "no memory for the answer");
    } else if (message->n > call->server->options.reply_limit) {
        finish(call, NULL, gs_grpc_status_of(-EMSGSIZE), "the answer is beyond the limit");
    } else {
        grpc_slice slice = gs_grpc_slice_take(message);
        finish(call, &slice, GRPC_STATUS_OK, "");
        grpc_slice_unref(slice);
    }
    gs_buf_fini(message);
}

/* ---- tokens ---- */

struct gs_grpc_call *gs_grpc_server_later(const struct gs_grpc_request *req,
                                          void (*gone)(void *user), void *user)
{
    struct gs_grpc_call *call = req->impl;

    call->is_later = true;
    call->gone = gone;
    call->gone_user = user;
    call->refs++;
    return call;
}

static void end_token(struct gs_grpc_call *call)
{
    call->is_later = false;
    release(call);
}

void gs_grpc_server_answer(struct gs_grpc_call *call, struct gs_buf *message)
{
    answer(call, message);
    end_token(call);
}

void gs_grpc_server_refuse(struct gs_grpc_call *call, int rc, const char *text)
{
    finish(call, NULL, gs_grpc_status_of(rc), text);
    end_token(call);
}

/** The peer went, or we do, before the answer. */
static void lose(struct gs_grpc_call *call)
{
    if (!call->is_later)
        return;
    call->server->stats.gone++;
    call->is_answered = true; /* nothing can be, any more */
    call->gone(call->gone_user);
    end_token(call);
}

/* ---- streams ---- */

/** One message at a time, always the newest. */
static void send_newest(struct gs_grpc_call *call)
{
    const struct topic *topic = call->topic;

    if (call->is_sending || call->is_answered || call->is_closed || topic->version == call->version)
        return;
    grpc_slice slice = topic->value;
    grpc_byte_buffer *body = grpc_raw_byte_buffer_create(&slice, 1);
    const grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = body};
    call->version = topic->version;
    call->is_sending = true;
    call->server->stats.sent++;
    start(call, &op, 1, &call->sent);
    grpc_byte_buffer_destroy(body);
}

/** Of the head, or of a message. Where it failed the peer is gone: told by itself. */
static void on_sent(void *user, bool ok)
{
    struct gs_grpc_call *call = user;

    call->is_sending = false;
    if (ok)
        send_newest(call);
    release(call);
}

static void tell_watched(const struct gs_grpc_call *call)
{
    if (call->route->watched && !call->server->is_freed)
        call->route->watched(call->route->user, call->topic->n_open);
}

static void open_stream(struct gs_grpc_call *call)
{
    const grpc_op op = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    struct gs_grpc_server *server = call->server;

    call->topic = &server->topics[call->route - server->options.routes];
    call->topic->n_open++;
    uncount(call);
    server->stats.streams++;
    call->is_sending = true;
    start(call, &op, 1, &call->sent); /* so that the peer knows that it is open */
    tell_watched(call);
}

static void close_stream(struct gs_grpc_call *call)
{
    call->topic->n_open--;
    call->server->stats.streams--;
    tell_watched(call);
}

/** Say so at once, and take back what the peer has not taken yet. */
static void cut(struct gs_grpc_call *call)
{
    if (!call->is_closed)
        (void)grpc_call_cancel_with_status(call->core, GRPC_STATUS_UNAVAILABLE, STOPS, NULL);
}

/** A reader that does not take what is on its way would not take the status either. */
static void end_stream(struct gs_grpc_call *call)
{
    if (call->is_answered || call->is_closed)
        return;
    if (call->is_sending)
        cut(call);
    else
        finish(call, NULL, GRPC_STATUS_UNAVAILABLE, STOPS);
}

int gs_grpc_server_publish(struct gs_grpc_server *server, const char *path, struct gs_buf *message)
{
    const struct gs_grpc_route *route = server->options.routes;
    const struct gs_grpc_route *end = route + server->options.n_routes;

    while (route < end && strcmp(route->path, path) != 0)
        route++;
    if (route == end)
        return -ENOENT;
    if (route->handler)
        return -EINVAL;
    if (gs_buf_check(message) < 0)
        return -ENOMEM;
    if (message->n > server->options.reply_limit)
        return -EMSGSIZE;
    struct topic *topic = &server->topics[route - server->options.routes];
    if (topic->version > 0)
        grpc_slice_unref(topic->value);
    topic->value = gs_grpc_slice_take(message);
    topic->version++;
    for (struct gs_grpc_call *call = server->calls.first; call; call = call->link.next) {
        if (call->topic == topic)
            send_newest(call);
    }
    return 0;
}

/* ---- calls as they come ---- */

static void run_handler(struct gs_grpc_call *call)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf message = {0};
    struct gs_err err = {0};
    const struct gs_grpc_route *route = call->route;
    const struct gs_grpc_request req = {
        .method = gs_str_of(route->path),
        .message = {(const char *)GRPC_SLICE_START_PTR(call->bytes),
                    GRPC_SLICE_LENGTH(call->bytes)},
        .impl = call,
    };

    call->server->stats.calls++;
    int rc = route->handler(route->user, &req, &message, &err);
    if (call->is_later || call->is_answered)
        return;
    if (rc == 0)
        answer(call, &message);
    else
        finish(call, NULL, gs_grpc_status_of(rc < 0 ? rc : -EIO),
               *err.text ? err.text : gs_log_strerror(rc < 0 ? rc : -EIO));
}

static void serve(struct gs_grpc_call *call)
{
    if (call->is_closed || call->server->is_freed)
        return;
    if (!call->message) {
        refuse_unserved(call, -EINVAL, "no message");
    } else if (!gs_grpc_is_plain(call->message)) {
        refuse_unserved(call, -ENOSYS, "compressed messages are not taken");
    } else if (!call->route->handler) {
        open_stream(call);
    } else {
        call->bytes = gs_grpc_bytes(call->message);
        run_handler(call);
    }
}

static void on_received(void *user, bool ok)
{
    struct gs_grpc_call *call = user;

    if (ok)
        serve(call);
    else if (!call->is_closed)
        refuse_unserved(call, -EINVAL, "no message");
    release(call);
}

/** The call is over for gRPC core: answered, cancelled, or the peer is gone. */
static void on_closed(void *user, bool ok)
{
    struct gs_grpc_call *call = user;

    (void)ok; /* always */
    call->is_closed = true;
    lose(call);
    if (call->topic)
        close_stream(call);
    release(call);
}

static const struct gs_grpc_route *find_route(const struct gs_grpc_server *server,
                                              const grpc_slice *method)
{
    const struct gs_str path = {(const char *)GRPC_SLICE_START_PTR(*method),
                                GRPC_SLICE_LENGTH(*method)};

    for (size_t i = 0; i < server->options.n_routes; i++) {
        if (gs_str_eq_c(path, server->options.routes[i].path))
            return &server->options.routes[i];
    }
    return NULL;
}

static void receive_message(struct gs_grpc_call *call)
{
    const grpc_op op = {.op = GRPC_OP_RECV_MESSAGE,
                        .data.recv_message.recv_message = &call->message};

    call->is_counted = true;
    call->server->stats.active++;
    start(call, &op, 1, &call->received);
}

static void take_call(struct gs_grpc_call *call)
{
    const struct gs_grpc_server *server = call->server;
    const grpc_op close = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                           .data.recv_close_on_server.cancelled = &call->cancelled};

    start(call, &close, 1, &call->closed);
    call->route = find_route(server, &call->details.method);
    if (!call->route)
        refuse_unserved(call, -ENOSYS, "no such method");
    else if (server->stats.active + server->stats.streams >= server->options.max_calls)
        refuse_unserved(call, -ENOSPC, "too many calls");
    else
        receive_message(call);
}

static void on_requested(void *user, bool ok)
{
    struct gs_grpc_call *call = user;
    struct gs_grpc_server *server = call->server;

    server->n_armed--;
    if (ok && !server->is_freed)
        take_call(call);
    arm_all(server);
    release(call);
}

static int arm(struct gs_grpc_server *server)
{
    struct gs_grpc_call *call = calloc(1, sizeof(*call));

    if (!call)
        return -ENOMEM;
    call->server = server;
    call->refs = 1;
    call->bytes = grpc_empty_slice();
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->metadata);
    init_op(call, &call->requested, on_requested);
    init_op(call, &call->received, on_received);
    init_op(call, &call->closed, on_closed);
    init_op(call, &call->sent, on_sent);
    init_op(call, &call->answered, on_answered);
    GS_LIST_PUSH(&server->calls, call, link);
    server->n_armed++;
    gs_grpc_expect(server->grpc, &call->requested);
    grpc_completion_queue *queue = gs_grpc_queue(server->grpc);
    (void)grpc_server_request_call(server->core, &call->core, &call->details, &call->metadata,
                                   queue, queue, &call->requested); /* fails by a fault of ours */
    return 0;
}

/** Where memory is short, calls that end make room. */
static void arm_all(struct gs_grpc_server *server)
{
    while (!server->is_stopping && server->n_armed < ARMED) {
        if (arm(server) < 0)
            return;
    }
}

/* ---- connections ---- */

static void close_conn(struct conn *conn)
{
    struct gs_grpc_server *server = conn->server;

    gs_loop_fd_del(server->loop, conn->fd);
    gs_file_close(&conn->fd);
    GS_LIST_REMOVE(&server->conns, conn, link);
    server->stats.open--;
    free(conn);
}

static void on_hang_up(void *user, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    close_conn(user);
}

/** The descriptor is gRPC core's, or closed, afterwards. */
static int take_peer(struct gs_grpc_server *server, int peer)
{
    GS_CLEANUP(gs_file_close) int fd = peer;
    struct conn *conn = calloc(1, sizeof(*conn));

    if (!conn)
        return -ENOMEM;
    conn->server = server;
    conn->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int rc = conn->fd < 0 ? -errno : 0;
    if (rc == 0)
        rc = gs_loop_fd_add(server->loop, conn->fd, EPOLLRDHUP, on_hang_up, conn);
    if (rc < 0) {
        gs_file_close(&conn->fd);
        free(conn);
        return rc;
    }
    GS_LIST_PUSH(&server->conns, conn, link);
    server->stats.open++;
    server->stats.connections++;
    grpc_server_add_channel_from_fd(server->core, fd, server->credentials);
    fd = -1;
    return 0;
}

static void on_rest_over(void *user)
{
    struct gs_grpc_server *server = user;

    (void)gs_loop_fd_set(server->loop, server->listen_fd, EPOLLIN);
}

static void rest(struct gs_grpc_server *server, int rc)
{
    GS_LOG_WARN("no connection can be taken for a moment",
                GS_LOG_CSTR("server", server->options.name), GS_LOG_RC(rc));
    (void)gs_loop_fd_set(server->loop, server->listen_fd, 0);
    gs_loop_timer_in(server->loop, &server->rest_timer, REST_MS, on_rest_over, server);
}

static void on_peer(void *user, int fd, uint32_t events)
{
    struct gs_grpc_server *server = user;

    (void)events;
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (peer < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (peer < 0 && errno == EAGAIN)
            return;
        if (peer >= 0 && server->stats.open >= server->options.max_connections) {
            server->stats.crowded++;
            GS_LOG_WARN("too many connections", GS_LOG_CSTR("server", server->options.name));
            close(peer);
            continue;
        }
        int rc = peer < 0 ? -errno : take_peer(server, peer);
        if (rc < 0) {
            rest(server, rc);
            return;
        }
    }
}

static void unlisten(struct gs_grpc_server *server)
{
    if (server->listen_fd < 0)
        return;
    gs_loop_timer_cancel(server->loop, &server->rest_timer);
    gs_loop_fd_del(server->loop, server->listen_fd);
    gs_unix_socket_unlink(server->options.path, &server->file);
    gs_file_close(&server->listen_fd);
}

int gs_grpc_server_relisten(struct gs_grpc_server *server, struct gs_err *err)
{
    const struct gs_grpc_server_options *options = &server->options;
    GS_CLEANUP(gs_file_close) int fd = -1;
    struct gs_unix_file file;

    if (server->is_stopping)
        return gs_err_set(err, -ESHUTDOWN, "%s: the server stops", options->path);
    fd = gs_unix_socket_listen(options->path, options->mode, BACKLOG, &file, err);
    if (fd < 0)
        return fd;
    int rc = gs_loop_fd_add(server->loop, fd, EPOLLIN, on_peer, server);
    if (rc < 0) {
        gs_unix_socket_unlink(options->path, &file);
        return gs_err_set(err, rc, "%s: %s", options->path, strerror(-rc));
    }
    unlisten(server); /* the file is not its own any more, and stays */
    server->listen_fd = fd;
    server->file = file;
    fd = -1;
    return 0;
}

int gs_grpc_server_check_path(const struct gs_grpc_server *server)
{
    return gs_unix_socket_check(server->options.path, &server->file);
}

/* ---- opening ---- */

static void fill_defaults(struct gs_grpc_server_options *options)
{
    if (!options->name)
        options->name = options->path;
    if (!options->mode)
        options->mode = 0600;
    if (!options->message_limit)
        options->message_limit = MESSAGE_LIMIT;
    if (!options->reply_limit)
        options->reply_limit = MESSAGE_LIMIT;
    if (!options->max_calls)
        options->max_calls = MAX_CALLS;
    if (!options->max_connections)
        options->max_connections = MAX_CONNECTIONS;
}

static int open_core(struct gs_grpc_server *server)
{
    const struct gs_grpc_server_options *options = &server->options;
    const grpc_arg more[] = {
        {.type = GRPC_ARG_INTEGER,
         .key = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
         .value.integer = (int)options->message_limit},
        {.type = GRPC_ARG_INTEGER,
         .key = GRPC_ARG_MAX_CONCURRENT_STREAMS,
         .value.integer = (int)options->max_calls},
    };
    grpc_channel_args *args = gs_grpc_args(server->grpc, more, GS_ARRAY_LEN(more));

    if (!args)
        return -ENOMEM;
    server->credentials = grpc_insecure_server_credentials_create();
    server->core = grpc_server_create(args, NULL);
    free(args);
    grpc_server_register_completion_queue(server->core, gs_grpc_queue(server->grpc), NULL);
    grpc_server_start(server->core);
    arm_all(server);
    return server->n_armed > 0 ? 0 : -ENOMEM;
}

int gs_grpc_server_open(struct gs_grpc *grpc, const struct gs_grpc_server_options *options,
                        struct gs_grpc_server **ret_server, struct gs_err *err)
{
    GS_CLEANUP(gs_grpc_server_free_p) struct gs_grpc_server *server = calloc(1, sizeof(*server));

    if (!server)
        return gs_err_set(err, -ENOMEM, "%s: out of memory", options->path);
    server->grpc = grpc;
    server->loop = gs_grpc_loop(grpc);
    server->options = *options;
    server->listen_fd = -1;
    fill_defaults(&server->options);
    server->topics = calloc(options->n_routes, sizeof(*server->topics));
    int rc = server->topics || options->n_routes == 0 ? open_core(server) : -ENOMEM;
    if (rc < 0)
        return gs_err_set(err, rc, "%s: %s", options->path, strerror(-rc));
    rc = gs_grpc_server_relisten(server, err);
    if (rc < 0)
        return rc;
    *ret_server = GS_STEAL(server);
    return 0;
}

/* ---- stopping ---- */

static void on_stopped(void *user, bool ok)
{
    struct gs_grpc_server *server = user;
    void (*done)(void *) = server->done;

    (void)ok;
    server->is_stopped = true;
    gs_loop_timer_cancel(server->loop, &server->stop_timer);
    server->done = NULL;
    if (done)
        done(server->done_user);
}

/** No new calls; the end of what runs is told to `stopped`. */
static void shut(struct gs_grpc_server *server)
{
    server->is_stopping = true;
    unlisten(server);
    server->stopped =
        (struct gs_grpc_op){.fn = on_stopped, .user = server, .owner = &server->owner};
    gs_grpc_expect(server->grpc, &server->stopped);
    grpc_server_shutdown_and_notify(server->core, gs_grpc_queue(server->grpc), &server->stopped);
}

static void on_cut_over(void *user)
{
    struct gs_grpc_server *server = user;

    grpc_server_cancel_all_calls(server->core); /* closes connections as they are */
}

static void on_grace_over(void *user)
{
    struct gs_grpc_server *server = user;
    struct gs_grpc_call *next;

    for (struct gs_grpc_call *call = server->calls.first; call; call = next) {
        next = call->link.next;
        if (call->core)
            cut(call);
    }
    gs_loop_timer_in(server->loop, &server->stop_timer, CUT_MS, on_cut_over, server);
}

void gs_grpc_server_stop(struct gs_grpc_server *server, unsigned grace_ms, void (*done)(void *user),
                         void *user)
{
    struct gs_grpc_call *next;

    if (server->is_stopping)
        return;
    server->done = done;
    server->done_user = user;
    shut(server);
    for (struct gs_grpc_call *call = server->calls.first; call; call = next) {
        next = call->link.next;
        if (call->topic)
            end_stream(call);
    }
    gs_loop_timer_in(server->loop, &server->stop_timer, grace_ms, on_grace_over, server);
}

struct gs_grpc_server *gs_grpc_server_free(struct gs_grpc_server *server)
{
    if (!server)
        return NULL;
    server->is_freed = true;
    server->done = NULL;
    if (server->core) {
        if (!server->is_stopping)
            shut(server);
        if (!server->is_stopped)
            grpc_server_cancel_all_calls(server->core);
        gs_grpc_settle(server->grpc, &server->owner);
        grpc_server_destroy(server->core);
    }
    gs_loop_timer_cancel(server->loop, &server->stop_timer);
    if (server->credentials)
        grpc_server_credentials_release(server->credentials);
    while (server->conns.first)
        close_conn(server->conns.first);
    for (size_t i = 0; server->topics && i < server->options.n_routes; i++) {
        if (server->topics[i].version)
            grpc_slice_unref(server->topics[i].value);
    }
    free(server->topics);
    free(server);
    return NULL;
}

void gs_grpc_server_free_p(struct gs_grpc_server **server)
{
    *server = gs_grpc_server_free(*server);
}

void gs_grpc_server_get_stats(const struct gs_grpc_server *server,
                              struct gs_grpc_server_stats *ret_stats)
{
    *ret_stats = server->stats;
}
