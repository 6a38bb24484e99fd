#pragma once
/* gRPC client of one unix socket, in the daemon's loop: unary calls, any number at once.
 *
 * One connection serves all calls. It is made with the first call, and anew with the first after
 * the peer closed it or a call on it ended UNAVAILABLE or out of time. A call is sent once: retries
 * are the caller's. No names are resolved, no load is balanced, compressed answers are refused.
 * Threads  the loop's. */

#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_err;
struct gs_grpc;
struct gs_grpc_client;
struct gs_grpc_client_call;

/** Zero means the default. */
struct gs_grpc_client_options {
    const char *path;     /**< of the socket; copied */
    size_t message_limit; /**< bytes of an answer; 4 MiB */
};

/** Nothing is connected yet. Returns 0 or -ENOMEM. */
GS_WUR int gs_grpc_client_new(struct gs_grpc *grpc, const struct gs_grpc_client_options *options,
                              struct gs_grpc_client **ret_client);
/** Calls that run are ended with -ECANCELED (their `done` is called). Not from inside a callback of
 *  this client. Accepts NULL; returns NULL. */
struct gs_grpc_client *gs_grpc_client_free(struct gs_grpc_client *client);
void gs_grpc_client_free_p(struct gs_grpc_client **client);

/** What came back; valid during the callback. */
struct gs_grpc_answer {
    int rc;                /**< 0, or by the status (net/grpc_status.def); without a connection what
                              gs_unix_socket_connect() said */
    int status;            /**< of gRPC; UNAVAILABLE without a connection */
    struct gs_str message; /**< hostile; empty unless rc is 0 */
    const char *error;     /**< "UNAVAILABLE: what the peer says", for logs; "" when rc is 0 */
};
/** The end, exactly once unless the call was cancelled; never from inside gs_grpc_client_start().
 *  The handle is dead when it returns. New calls may be started here. */
typedef void gs_grpc_done_fn(void *user, const struct gs_grpc_answer *answer);

/** One call; everything is copied. */
struct gs_grpc_ask {
    const char *method; /**< "/v1beta1.Registration/Register" */
    struct gs_str message;
    unsigned timeout_ms; /**< not 0: an answer must have come by then; the peer is told */
    gs_grpc_done_fn *done;
    void *user;
};

/** @ret_call  handle for cancelling; may be NULL.
 *  Returns    0 (then `done` comes); -EINVAL; -ENOMEM; -ESHUTDOWN the client is being freed. */
GS_WUR int gs_grpc_client_start(struct gs_grpc_client *client, const struct gs_grpc_ask *ask,
                                struct gs_grpc_client_call **ret_call);
/** End a call without `done`; the peer is told. Accepts NULL. Not after `done`. */
void gs_grpc_client_cancel(struct gs_grpc_client_call *call);

struct gs_grpc_client_stats {
    uint64_t calls;       /**< started */
    uint64_t active;      /**< now */
    uint64_t failed;      /**< ended with rc != 0 */
    uint64_t connections; /**< made */
};
void gs_grpc_client_get_stats(const struct gs_grpc_client *client,
                              struct gs_grpc_client_stats *ret_stats);
