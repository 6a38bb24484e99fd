#pragma once
/* HTTPS client in the daemon's loop (on libcurl's multi interface): HTTP/2 where the server has it,
 * connections reused, any number of calls at once.
 *
 * One client = one identity (CA, certificate, token) towards any number of servers.
 * Redirects are never followed: a 3xx is a status like any other. The server's certificate and name
 * are always verified unless `insecure`. Only http and https.
 * Retries are the caller's: only it knows what may be repeated. One exception: where a connection
 * from earlier turns out closed before a byte of answer came, libcurl sends the request once more
 * on a new one, unless the call says `is_once`.
 * Threads  the loop's (libcurl resolves names in threads of its own). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"
#include "net/http_client_options.h"

struct gs_err;
struct gs_http_call;
struct gs_http_client;
struct gs_loop;

GS_WUR int gs_http_client_new(struct gs_loop *loop, const struct gs_http_client_options *options,
                              struct gs_http_client **ret_client, struct gs_err *err);
/** Calls that run are ended with -ECANCELED (their `done` is called). Not from inside a callback of
 *  this client. Accepts NULL; returns NULL. */
struct gs_http_client *gs_http_client_free(struct gs_http_client *client);
void gs_http_client_free_p(struct gs_http_client **client);

/** A new token for calls started from now on (exec plugins); copied; NULL: none. Returns 0 or
 *  -ENOMEM. */
GS_WUR int gs_http_client_set_token(struct gs_http_client *client, const char *token);
/** A new client certificate and key (PEM, copied) for connections opened from now on; those that
 *  are open serve their calls to the end and take no new ones. Returns 0 or -errno. */
GS_WUR int gs_http_client_set_cert(struct gs_http_client *client, struct gs_str cert_pem,
                                   struct gs_str key_pem);

/** What came back; valid during the callback. */
struct gs_http_answer {
    /** 0: the whole answer came, whatever its status. Else why not:
     *  -ECONNREFUSED  no connection;
     *  -EHOSTUNREACH  no such name;
     *  -ETIMEDOUT     timeout, deadline or silence;
     *  -EKEYREJECTED  the server's certificate or name is not trusted;
     *  -EPROTO        TLS or HTTP went wrong;
     *  -ECONNRESET    cut in the middle, or less came than was announced;
     *  -EFBIG         more than body_limit;
     *  -ECANCELED     a chunk callback said stop, or the client goes;
     *  -ENOMEM;
     *  -EIO           anything else. */
    int rc;
    int status;            /**< 100..599; 0 none came */
    struct gs_str body;    /**< whole; empty where on_chunk took it; NUL behind */
    int retry_after_s;     /**< seconds form of Retry-After; -1 absent or a date */
    struct gs_str type;    /**< Content-Type; empty */
    const char *error;     /**< one line for logs; "" when rc is 0 */
    bool is_reused;        /**< the call did not open its connection */
    bool is_unsent;        /**< of an `is_once` call: nothing of its body was sent */
    unsigned http_version; /**< 11 or 20; 0 none */
    const void *impl;
};

/** Bytes of a 2xx body as they come (answer: status and headers; rc 0, no body). Bodies of other
 *  statuses are collected as without on_chunk. Return false to end the call with -ECANCELED; the
 *  call may also be cancelled from inside. */
typedef bool gs_http_chunk_fn(void *user, const struct gs_http_answer *answer, const char *bytes,
                              size_t n);
/** The end, exactly once unless the call was cancelled; never from inside gs_http_client_start().
 *  The handle is dead when it returns. New calls may be started here. */
typedef void gs_http_done_fn(void *user, const struct gs_http_answer *answer);

/** One call. Zero means none or the default. Everything is copied. */
struct gs_http_ask {
    const char *method;         /**< "GET" */
    const char *url;            /**< absolute */
    const char *const *headers; /**< n_headers lines "Name: value"; Authorization is the client's */
    size_t n_headers;
    struct gs_str body;
    const char *type;     /**< Content-Type of body; "application/json" */
    unsigned timeout_ms;  /**< for the whole call; 0 none (watches) */
    uint64_t deadline_ns; /**< point of the loop's clock; 0 none */
    unsigned head_ms;     /**< longest wait for the answer's headers; 0 none (watches too) */
    unsigned idle_ms;     /**< longest silence of the server once headers came; 0 none */
    size_t body_limit;    /**< bytes collected; 64 MiB. Chunks are not counted */
    bool is_once; /**< has a body, and its last byte is never sent twice: -ECONNRESET instead */
    gs_http_chunk_fn *on_chunk; /**< NULL: the body is collected */
    gs_http_done_fn *done;
    void *user;
};

/** Start a call.
 *  @ret_call  handle for cancelling; may be NULL.
 *  Returns    0 (then `done` comes); -EINVAL; -ENOMEM; -EACCES the token file cannot be read. */
GS_WUR int gs_http_client_start(struct gs_http_client *client, const struct gs_http_ask *ask,
                                struct gs_http_call **ret_call, struct gs_err *err);
/** End a call without `done`: nothing is called for it any more. Accepts NULL. Not after `done`.
 *  Over HTTP/1.1 the connection is closed; over HTTP/2 the server learns of it with the next call
 *  on the connection (libcurl 7.88 holds the RST_STREAM back until then). */
void gs_http_client_cancel(struct gs_http_call *call);

struct gs_http_client_stats {
    uint64_t calls;       /**< started */
    uint64_t active;      /**< now */
    uint64_t failed;      /**< ended with rc != 0 */
    uint64_t connections; /**< opened */
};
void gs_http_client_get_stats(const struct gs_http_client *client,
                              struct gs_http_client_stats *ret_stats);
