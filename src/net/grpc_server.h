#pragma once
/* gRPC server on a unix socket, in the daemon's loop.
 *
 * A route is a method by its full path. Either it is unary: one message in, one call of its
 * handler, one answer, now or later. Or it is a server stream of a published value: whoever opens
 * it gets the newest message at once and each newer one as it can be taken; what was replaced
 * meanwhile is never sent, so that a slow reader costs one message. The stream's own request is not
 * looked at. It ends when the peer goes or the server stops (UNAVAILABLE), never by itself.
 * Answered without a handler: UNIMPLEMENTED no such path, or a compressed message;
 * INVALID_ARGUMENT no message; RESOURCE_EXHAUSTED message beyond the limit, too many calls.
 * A peer that finds too many connections is closed at once.
 * The socket's file is ours as long as nobody puts another one there: see
 * gs_grpc_server_check_path().
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_buf;
struct gs_err;
struct gs_grpc;
struct gs_grpc_call;
struct gs_grpc_server;

/** What a handler returns when it answers by token. */
#define GS_GRPC_LATER 1

/** A unary call; views live until it is answered (or gone); the message is hostile. */
struct gs_grpc_request {
    struct gs_str method; /**< the route's path */
    struct gs_str message;
    void *impl;
};

/** Thin: decode, call the engine, encode.
 *  @ret_message  empty; what it holds at 0 is the answer, an empty message too.
 *  Returns  0; GS_GRPC_LATER after gs_grpc_server_later(); negative errno: a status by
 *           net/grpc_status.def with the text of err. */
typedef int gs_grpc_handler(void *user, const struct gs_grpc_request *req,
                            struct gs_buf *ret_message, struct gs_err *err);
/** A peer opened a stream, or one of them went: so many are open now. */
typedef void gs_grpc_watched_fn(void *user, size_t n_open);

struct gs_grpc_route {
    const char *path;            /**< "/v1beta1.DevicePlugin/Allocate" */
    gs_grpc_handler *handler;    /**< NULL: a stream of what gs_grpc_server_publish() gives */
    gs_grpc_watched_fn *watched; /**< of a stream; may be NULL */
    void *user;
};

/** Zero means the default. Strings and routes are borrowed for the server's life. */
struct gs_grpc_server_options {
    const char *name;         /**< in log lines */
    const char *path;         /**< of the socket; what net/unix_socket.h says of it */
    unsigned mode;            /**< of the socket's file; 0600 */
    size_t message_limit;     /**< bytes of a message that is taken; 4 MiB */
    size_t reply_limit;       /**< bytes of a message that is sent; 4 MiB, what Go's peers take */
    unsigned max_calls;       /**< at once, streams included; 1,024 */
    unsigned max_connections; /**< at once; 64 */
    const struct gs_grpc_route *routes;
    size_t n_routes;
};

/** Open and serve.
 *  Returns  0; of gs_unix_socket_listen() (err says what); -ENOMEM. */
GS_WUR int gs_grpc_server_open(struct gs_grpc *grpc, const struct gs_grpc_server_options *options,
                               struct gs_grpc_server **ret_server, struct gs_err *err);

/** Is the socket at our path ours?
 *  Returns  0; -ENOENT it was removed; -ESTALE it was made anew by another; what statx said. */
GS_WUR int gs_grpc_server_check_path(const struct gs_grpc_server *server);
/** Listen at the path anew, whatever became of the old file. Calls that run go on.
 *  Returns  as gs_unix_socket_listen(); the server then is as it was. -ESHUTDOWN after
 *           gs_grpc_server_stop(). */
GS_WUR int gs_grpc_server_relisten(struct gs_grpc_server *server, struct gs_err *err);

/** The newest message of a stream's route; moved. Whoever opens the stream before the first one
 *  waits for it.
 *  Returns  0; -EMSGSIZE beyond reply_limit; -ENOMEM the buffer lost something; -ENOENT no such
 *           route; -EINVAL it is unary. The buffer is left as it was then. */
GS_WUR int gs_grpc_server_publish(struct gs_grpc_server *server, const char *path,
                                  struct gs_buf *message);

/** Answer later, by exactly one of gs_grpc_server_answer() and gs_grpc_server_refuse(), also from
 *  inside the handler.
 *  @gone    comes instead, once, from the loop, when the peer went, cancelled or was out of time,
 *           or the server closes: the token is dead then.
 *  Returns  the token. Once per request. */
struct gs_grpc_call *gs_grpc_server_later(const struct gs_grpc_request *req,
                                          void (*gone)(void *user), void *user);
/** @message  moved. One beyond reply_limit, or that lost something, becomes RESOURCE_EXHAUSTED. */
void gs_grpc_server_answer(struct gs_grpc_call *call, struct gs_buf *message);
/** @rc  negative errno; @text for the peer. */
void gs_grpc_server_refuse(struct gs_grpc_call *call, int rc, const char *text);

/** Stop gracefully: the socket's file is removed where it is ours, no connection and no call is
 *  taken, streams end, calls that run are finished; after grace_ms they are cut
 *  (UNAVAILABLE), and a second later whatever connection is left.
 *  `done(user)` comes from the loop when all is quiet; it may free the server. Once. */
void gs_grpc_server_stop(struct gs_grpc_server *server, unsigned grace_ms, void (*done)(void *user),
                         void *user);

/** Close at once. Tokens that are out get their `gone` call. Not from inside a handler, `gone` or
 *  `watched`. Accepts NULL; returns NULL. */
struct gs_grpc_server *gs_grpc_server_free(struct gs_grpc_server *server);
void gs_grpc_server_free_p(struct gs_grpc_server **server);

/** Counts since the server opened, for metrics. */
struct gs_grpc_server_stats {
    uint64_t connections; /**< taken */
    uint64_t open;        /**< now */
    uint64_t crowded;     /**< closed because there were too many */
    uint64_t calls;       /**< unary, of a known path */
    uint64_t active;      /**< begun, neither answered nor an open stream, now */
    uint64_t streams;     /**< now */
    uint64_t sent;        /**< messages of streams */
    uint64_t refused;     /**< answered without a handler */
    uint64_t gone;        /**< the peer went before the answer */
};
void gs_grpc_server_get_stats(const struct gs_grpc_server *server,
                              struct gs_grpc_server_stats *ret_stats);
