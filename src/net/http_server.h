#pragma once
/* HTTP/1.1 server, plain or TLS, in the daemon's loop (on libmicrohttpd and GnuTLS).
 *
 * Life of a request: headers, body (whole, in memory, within limits), one call of the route's
 * handler, one reply. A handler that cannot answer at once takes a token with
 * gs_http_server_later() and returns GS_HTTP_LATER.
 * Answered without a handler: 404 no such path, 405 (with Allow) no such method on the path, 403
 * peer not entitled, 413 body beyond the limit, 503 all bodies together beyond their limit, 400
 * a head that can be read in two ways (net/http_fields.h), 400 431 417 by libmicrohttpd. HEAD is
 * served by GET's handler. Paths are compared exactly, as sent.
 * Slow peers are cut: `header_ms` from connecting (TLS handshake included), and from the request
 * line, to the end of the headers; `request_ms` from there to the end of the body; `request_ms` for
 * the peer to take the reply; `idle_ms` between requests. A check runs each second: cuts come up to
 * 1 s late.
 * Where there are as many connections as allowed, a new one is taken all the same, and one that
 * waits for its peer is closed for it, of greedy peers and of those that never sent a request first
 * (net/http_room.h). Only where all of them wait for our answers the new one waits, too.
 * Certificates are looked at each second; a pair that reads, fits and differs is used for new
 * handshakes, another is refused and logged, and the old one stays. Kubernetes' swapped `..data`
 * link is such a change. No connection is dropped for it.
 * TLS 1.2 and 1.3. No compression, no HTTP/2 (clients fall back), no session tickets.
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cleanup.h"
#include "core/str.h"

struct gs_buf;
struct gs_err;
struct gs_http_later;
struct gs_http_server;
struct gs_loop;

/** What a handler returns when it answers by token. */
#define GS_HTTP_LATER 1

/** A request; views live until the reply is given (or the token is gone), strings from the peer are
 *  hostile. */
struct gs_http_request {
    struct gs_str method; /**< "GET", "POST", ...; NUL behind */
    struct gs_str path;   /**< percent-decoded, without the query; NUL behind */
    struct gs_str body;   /**< contiguous, p[n] == '\0'; p is never NULL */
    struct gs_str peer;   /**< "10.0.0.7:40112" */
    bool is_head;         /**< the reply's body will not be sent */
    bool is_tls;
    bool is_loopback;        /**< the peer is this machine, by address */
    bool is_client_verified; /**< a client certificate of the configured CA, valid now */
    struct gs_str client_cn; /**< its subject's CN; empty without one */
    struct gs_str client_o;  /**< its subject's first O; empty without one */
    void *impl;
};

/** Value of a header (any case) or query argument, percent-decoded; NUL behind. Empty p == NULL
 *  where it is absent; of several the first. */
struct gs_str gs_http_server_header(const struct gs_http_request *req, const char *name);
struct gs_str gs_http_server_arg(const struct gs_http_request *req, const char *name);

/** A reply under construction; zeroed before the handler is called. Fill by the functions below or
 *  directly. What is left zero: status 200, type "application/json", no body. */
struct gs_http_reply {
    int status;       /**< 200..599 */
    const char *type; /**< Content-Type; static text */
    const void *body;
    size_t n;
    /** How to give the body back after it was sent or dropped; NULL: static or outlives the server.
     *  Called from the loop. */
    void (*release)(void *release_user);
    void *release_user;
    unsigned retry_after_s; /**< Retry-After, when not 0 */
    bool close;             /**< close the connection after this reply */
};

/** Body by move: `buf` is left empty. A buf that failed (memory) becomes a 500. */
void gs_http_server_reply_take(struct gs_http_reply *reply, int status, const char *type,
                               struct gs_buf *buf);
/** Body from malloc(), by move. */
void gs_http_server_reply_take_malloc(struct gs_http_reply *reply, int status, const char *type,
                                      void *bytes, size_t n);
/** Static text, "text/plain". */
void gs_http_server_reply_text(struct gs_http_reply *reply, int status, const char *text);
/** Give back what a reply owns; for replies that are not handed in. */
void gs_http_server_reply_fini(struct gs_http_reply *reply);

/** Thin: decode, call the engine, encode.
 *  Returns  0 the reply is filled; GS_HTTP_LATER; negative errno: 500, and the reply's body is
 *           given back. */
typedef int gs_http_handler(void *user, const struct gs_http_request *req,
                            struct gs_http_reply *reply);

/** Who may use a route. */
enum gs_http_access {
    GS_HTTP_ANYONE,
    GS_HTTP_CLIENT_CERT,             /**< is_client_verified, else 403 */
    GS_HTTP_CLIENT_CERT_OR_LOOPBACK, /**< or is_loopback, else 403 */
};

struct gs_http_route {
    const char *method;
    const char *path; /**< exact; "/debug/" followed by '*' at the end: everything below */
    gs_http_handler *handler;
    void *user;
    enum gs_http_access access;
};

/** Zero means the default. Strings and routes are borrowed for the server's life. */
struct gs_http_server_options {
    const char *name;      /**< in log lines: "webhook" */
    const char *address;   /**< gs_addr_listen(): ":443", "[::1]:0" */
    const char *cert_file; /**< PEM, leaf first, then the chain; NULL: plain HTTP */
    const char *key_file;  /**< PEM */
    const char
        *client_ca_file;       /**< PEM; clients are asked for a certificate; re-read as the pair */
    bool client_cert_required; /**< no handshake without one (probes have none: prefer access) */
    size_t body_limit;         /**< bytes of one body; 64 MiB */
    size_t bodies_limit;       /**< bytes of all bodies being received or handled; 256 MiB */
    unsigned header_ms;        /**< 15,000 */
    unsigned request_ms;       /**< 60,000 */
    unsigned idle_ms;          /**< 180,000 (Go's clients drop idle connections after 90 s) */
    unsigned max_connections;  /**< 4,096; beyond that one that waits for its peer is closed */
    unsigned max_per_peer; /**< beyond so many of one address its own are closed first when there
                              are too many; a quarter of them */
    size_t header_limit;   /**< bytes of a request's headers, 32 KiB; twice that per connection */
    const struct gs_http_route *routes;
    size_t n_routes;
};

/** Open and serve. One call per listener; several in one loop are fine.
 *  Returns  0; -EINVAL bad options, unreadable or mismatching pair (err says which); of
 *           gs_addr_listen(); -ENOMEM. */
GS_WUR int gs_http_server_open(struct gs_loop *loop, const struct gs_http_server_options *options,
                               struct gs_http_server **ret_server, struct gs_err *err);

/** Where it listens, with the real port: "127.0.0.1:40113". Valid for the server's life. */
const char *gs_http_server_address(const struct gs_http_server *server);

/** Look at the certificate files now rather than within a second (SIGHUP).
 *  Returns  1 a new pair is in use; 0 nothing new; negative errno: refused, the old pair stays. */
int gs_http_server_reload(struct gs_http_server *server, struct gs_err *err);

/** Stop gracefully: no new connections are taken (those the kernel had completed are served);
 *  running requests are finished; replies say "Connection: close"; connections without a request
 *  are closed after idle_ms (a request may be on its way), everything after grace_ms.
 *  `done(user)` comes from the loop when no connection is left. Once. */
void gs_http_server_stop(struct gs_http_server *server, unsigned idle_ms, unsigned grace_ms,
                         void (*done)(void *user), void *user);

/** Close at once. Tokens that are out get their `gone` call. Not from inside a handler. Accepts
 *  NULL; returns NULL. */
struct gs_http_server *gs_http_server_free(struct gs_http_server *server);
void gs_http_server_free_p(struct gs_http_server **server);

/** Answer later. The request's views stay valid until the token is answered or gone.
 *  @gone    the peer went away, or the server closes: called once, from the loop, instead of an
 *           answer; the token is dead when it returns. NULL: the token stays alive until answered,
 *           and the answer is dropped, even after the server was freed.
 *  Returns  the token; NULL out of memory (return -ENOMEM then). Once per request. */
struct gs_http_later *gs_http_server_later(const struct gs_http_request *req,
                                           void (*gone)(void *user), void *user);
/** Once per token, from the loop; also from inside the handler that made it. The reply is moved. */
void gs_http_server_answer(struct gs_http_later *later, struct gs_http_reply *reply);

/** Counts since the server opened, for metrics. */
struct gs_http_server_stats {
    uint64_t accepted;
    uint64_t open; /**< now */
    uint64_t requests;
    uint64_t pending;        /**< tokens out, now */
    uint64_t refused_access; /**< 403, and client certificates that did not pass */
    uint64_t refused_size;   /**< 413 and 503 */
    uint64_t timeouts;
    uint64_t crowded;         /**< closed because there were too many */
    uint64_t reloads;         /**< pairs taken into use after the first */
    uint64_t reload_failures; /**< changed files that were refused */
    uint64_t body_bytes;      /**< held now */
};
void gs_http_server_get_stats(const struct gs_http_server *server,
                              struct gs_http_server_stats *ret_stats);
