#include "net/grpc_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>

#include "base/err.h"
#include "base/file.h"
#include "core/list.h"
#include "net/grpc.h"
#include "net/grpc_internal.h"
#include "net/loop.h"
#include "net/unix_socket.h"

#define MESSAGE_LIMIT ((size_t)4 << 20)

struct conn {
    size_t refs; /**< the client while it takes calls, and each call */
    grpc_channel *channel;
    bool is_dead; /**< the peer went */
    int watch_fd; /**< copy of its descriptor, which gRPC core owns: shows when the peer goes */
};

struct gs_grpc_client_call {
    struct gs_grpc_client *client;
    GS_LINK(struct gs_grpc_client_call) link; /**< in client->calls */
    grpc_call *core;                          /**< NULL: no connection */
    struct conn *conn;                        /**< NULL with core */
    int connect_rc;                           /**< why there is none */
    gs_grpc_done_fn *done;                    /**< NULL: cancelled */
    void *user;
    struct gs_loop_task task; /**< tells of connect_rc */
    struct gs_grpc_op op;
    grpc_metadata_array head, tail;
    grpc_byte_buffer *message;
    grpc_status_code status;
    grpc_slice details;
};

struct gs_grpc_client {
    struct gs_grpc *grpc;
    struct gs_loop *loop;
    struct gs_grpc_owner owner;
    char *path;
    grpc_channel_args *args;
    struct conn *conn; /**< for new calls; NULL: none */
    GS_LIST(struct gs_grpc_client_call) calls;
    bool is_freed;
    struct gs_grpc_client_stats stats;
};

/* ---- connections ---- */

static void unref_conn(struct conn *conn)
{
    if (--conn->refs > 0)
        return;
    grpc_channel_destroy(conn->channel);
    free(conn);
}

/** No new calls on it. Those that run go on to their end: their answers may have come already. */
static void leave_conn(struct gs_grpc_client *client)
{
    struct conn *conn = GS_STEAL(client->conn);

    if (!conn)
        return;
    gs_loop_fd_del(client->loop, conn->watch_fd);
    gs_file_close(&conn->watch_fd);
    unref_conn(conn);
}

static void on_hang_up(void *user, int fd, uint32_t events)
{
    struct gs_grpc_client *client = user;

    (void)fd;
    (void)events;
    client->conn->is_dead = true;
    leave_conn(client);
}

static bool is_dead(const struct conn *conn)
{
    struct pollfd watch = {.fd = conn->watch_fd, .events = POLLRDHUP};

    return conn->is_dead || poll(&watch, 1, 0) > 0;
}

static int open_conn(struct gs_grpc_client *client, int *fd)
{
    struct conn *conn = calloc(1, sizeof(*conn));

    if (!conn)
        return -ENOMEM;
    conn->refs = 1;
    conn->watch_fd = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    int rc = conn->watch_fd < 0 ? -errno : 0;
    if (rc == 0)
        rc = gs_loop_fd_add(client->loop, conn->watch_fd, EPOLLRDHUP, on_hang_up, client);
    if (rc < 0) {
        gs_file_close(&conn->watch_fd);
        free(conn);
        return rc;
    }
    grpc_channel_credentials *credentials = grpc_insecure_credentials_create();
    conn->channel = grpc_channel_create_from_fd(client->path, *fd, credentials, client->args);
    grpc_channel_credentials_release(credentials);
    *fd = -1; /* gRPC core's now */
    client->conn = conn;
    client->stats.connections++;
    return 0;
}

static int connect_client(struct gs_grpc_client *client)
{
    GS_CLEANUP(gs_file_close) int fd = -1;

    if (client->conn)
        return 0;
    fd = gs_unix_socket_connect(client->path);
    return fd < 0 ? fd : open_conn(client, &fd);
}

/* ---- calls ---- */

static void free_call(struct gs_grpc_client_call *call)
{
    struct gs_grpc_client *client = call->client;

    GS_LIST_REMOVE(&client->calls, call, link);
    client->stats.active--;
    gs_loop_task_cancel(client->loop, &call->task);
    if (call->message)
        grpc_byte_buffer_destroy(call->message);
    grpc_metadata_array_destroy(&call->head);
    grpc_metadata_array_destroy(&call->tail);
    grpc_slice_unref(call->details);
    if (call->core) {
        grpc_call_unref(call->core);
        unref_conn(call->conn);
    }
    free(call);
}

static void tell(struct gs_grpc_client_call *call, const struct gs_grpc_answer *answer)
{
    if (answer->rc != 0)
        call->client->stats.failed++;
    if (call->done)
        call->done(call->user, answer);
}

static void on_refused(void *user)
{
    struct gs_grpc_client_call *call = user;
    const struct gs_grpc_client *client = call->client;
    char text[GS_ERR_TEXT];

    (void)snprintf(text, sizeof(text), "UNAVAILABLE: %s: %s", client->path,
                   strerror(-call->connect_rc));
    tell(call, &(const struct gs_grpc_answer){
                   .rc = call->connect_rc, .status = GRPC_STATUS_UNAVAILABLE, .error = text});
    free_call(call);
}

static void tell_failure(struct gs_grpc_client_call *call, int status, struct gs_str details)
{
    char text[GS_ERR_TEXT];

    (void)snprintf(text, sizeof(text), "%s: %.*s", gs_grpc_status_name(status),
                   (int)(details.n < sizeof(text) ? details.n : sizeof(text)), details.p);
    tell(call, &(const struct gs_grpc_answer){
                   .rc = gs_grpc_rc_of(status), .status = status, .error = text});
}

static void tell_message(struct gs_grpc_client_call *call)
{
    grpc_slice bytes = gs_grpc_bytes(call->message);

    tell(call, &(const struct gs_grpc_answer){
                   .message = {(const char *)GRPC_SLICE_START_PTR(bytes), GRPC_SLICE_LENGTH(bytes)},
                   .error = ""});
    grpc_slice_unref(bytes);
}

/** A newer connection is not to blame for a call of an older one. */
static void doubt_conn(struct gs_grpc_client_call *call)
{
    /* What gRPC core says of a call whose connection went just before it: nobody sent that. */
    if (call->status == GRPC_STATUS_UNKNOWN && is_dead(call->conn))
        call->status = GRPC_STATUS_UNAVAILABLE;
    if ((call->status == GRPC_STATUS_UNAVAILABLE ||
         call->status == GRPC_STATUS_DEADLINE_EXCEEDED) &&
        call->conn == call->client->conn)
        leave_conn(call->client);
}

static void on_done(void *user, bool ok)
{
    struct gs_grpc_client_call *call = user;

    (void)ok; /* the status says it */
    doubt_conn(call);
    if (call->status != GRPC_STATUS_OK)
        tell_failure(call, (int)call->status,
                     (struct gs_str){(const char *)GRPC_SLICE_START_PTR(call->details),
                                     GRPC_SLICE_LENGTH(call->details)});
    else if (!call->message)
        tell_failure(call, GRPC_STATUS_INTERNAL, GS_STR("no message"));
    else if (!gs_grpc_is_plain(call->message))
        tell_failure(call, GRPC_STATUS_UNIMPLEMENTED, GS_STR("compressed answer"));
    else
        tell_message(call);
    free_call(call);
}

static void send_call(struct gs_grpc_client_call *call, const struct gs_grpc_ask *ask)
{
    struct gs_grpc_client *client = call->client;
    grpc_slice method = grpc_slice_from_copied_string(ask->method);
    grpc_slice bytes = grpc_slice_from_copied_buffer(ask->message.p, ask->message.n);
    grpc_byte_buffer *body = grpc_raw_byte_buffer_create(&bytes, 1);
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = body},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &call->head},
        {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->message},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &call->tail,
                                        .status = &call->status,
                                        .status_details = &call->details}},
    };
    gpr_timespec deadline = gpr_time_add(
        gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis((int64_t)ask->timeout_ms, GPR_TIMESPAN));

    call->conn = client->conn;
    call->conn->refs++;
    call->core =
        grpc_channel_create_call(call->conn->channel, NULL, GRPC_PROPAGATE_DEFAULTS,
                                 gs_grpc_queue(client->grpc), method, NULL, deadline, NULL);
    gs_grpc_start(client->grpc, call->core, ops, GS_ARRAY_LEN(ops), &call->op);
    grpc_byte_buffer_destroy(body);
    grpc_slice_unref(bytes);
    grpc_slice_unref(method);
}

static struct gs_grpc_client_call *new_call(struct gs_grpc_client *client,
                                            const struct gs_grpc_ask *ask)
{
    struct gs_grpc_client_call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->client = client;
    call->done = ask->done;
    call->user = ask->user;
    call->details = grpc_empty_slice();
    grpc_metadata_array_init(&call->head);
    grpc_metadata_array_init(&call->tail);
    call->op = (struct gs_grpc_op){.fn = on_done, .user = call, .owner = &client->owner};
    GS_LIST_PUSH(&client->calls, call, link);
    client->stats.calls++;
    client->stats.active++;
    return call;
}

int gs_grpc_client_start(struct gs_grpc_client *client, const struct gs_grpc_ask *ask,
                         struct gs_grpc_client_call **ret_call)
{
    if (!ask->method || !ask->done || ask->timeout_ms == 0)
        return -EINVAL;
    if (client->is_freed)
        return -ESHUTDOWN;
    struct gs_grpc_client_call *call = new_call(client, ask);
    if (!call)
        return -ENOMEM;
    call->connect_rc = connect_client(client);
    if (call->connect_rc < 0)
        gs_loop_defer(client->loop, &call->task, on_refused, call);
    else
        send_call(call, ask);
    if (ret_call)
        *ret_call = call;
    return 0;
}

void gs_grpc_client_cancel(struct gs_grpc_client_call *call)
{
    if (!call)
        return;
    call->done = NULL;
    if (call->core)
        (void)grpc_call_cancel(call->core, NULL);
    else
        free_call(call);
}

/* ---- life ---- */

int gs_grpc_client_new(struct gs_grpc *grpc, const struct gs_grpc_client_options *options,
                       struct gs_grpc_client **ret_client)
{
    GS_CLEANUP(gs_grpc_client_free_p) struct gs_grpc_client *client = calloc(1, sizeof(*client));

    if (!client)
        return -ENOMEM;
    client->grpc = grpc;
    client->loop = gs_grpc_loop(grpc);
    client->path = strdup(options->path);
    const grpc_arg more[] = {
        {.type = GRPC_ARG_INTEGER,
         .key = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
         .value.integer = (int)(options->message_limit ? options->message_limit : MESSAGE_LIMIT)},
        /* Go's servers refuse an authority that is a path. */
        {.type = GRPC_ARG_STRING, .key = GRPC_ARG_DEFAULT_AUTHORITY, .value.string = "localhost"},
    };
    client->args = gs_grpc_args(grpc, more, GS_ARRAY_LEN(more));
    if (!client->path || !client->args)
        return -ENOMEM;
    *ret_client = GS_STEAL(client);
    return 0;
}

struct gs_grpc_client *gs_grpc_client_free(struct gs_grpc_client *client)
{
    struct gs_grpc_client_call *next;

    if (!client)
        return NULL;
    client->is_freed = true;
    for (struct gs_grpc_client_call *call = client->calls.first; call; call = next) {
        next = call->link.next;
        if (call->core) {
            (void)grpc_call_cancel(call->core, NULL);
        } else {
            call->connect_rc = -ECANCELED;
            on_refused(call);
        }
    }
    gs_grpc_settle(client->grpc, &client->owner);
    leave_conn(client);
    free(client->args);
    free(client->path);
    free(client);
    return NULL;
}

void gs_grpc_client_free_p(struct gs_grpc_client **client)
{
    *client = gs_grpc_client_free(*client);
}

void gs_grpc_client_get_stats(const struct gs_grpc_client *client,
                              struct gs_grpc_client_stats *ret_stats)
{
    *ret_stats = client->stats;
}
