#pragma once
/* What the two halves of the HTTP server share: http_server.c (the listener's life) and http_conn.c
 * (a connection's and its requests'). No other file includes this. */

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/list.h"
#include "net/addr.h"
#include "net/http_room.h"
#include "net/http_server.h"
#include "net/loop.h"
#include "net/server_tls.h"

/** What a connection is doing: decides its deadline, and whether stopping may close it. */
enum gs_http_phase {
    GS_HTTP_FRESH,    /**< no request line yet; TLS perhaps unfinished */
    GS_HTTP_IDLE,     /**< between requests */
    GS_HTTP_HEADERS,  /**< a request line came */
    GS_HTTP_BODY,     /**< headers are complete */
    GS_HTTP_HANDLING, /**< the handler has it, or a token is out; no deadline */
    GS_HTTP_REPLYING, /**< the reply is being sent */
};

/** A promise to answer. */
struct gs_http_later {
    struct gs_http_conn *conn; /**< NULL: gone, the answer will be dropped */
    void (*gone)(void *user);
    void *user;
};

struct gs_http_conn {
    struct gs_http_server *server;
    GS_LINK(struct gs_http_conn) link; /**< in server->conns */
    struct MHD_Connection *mhd;
    int fd;
    enum gs_http_phase phase;
    struct gs_http_room_seat seat; /**< given up when it is cut */
    uint64_t deadline_ns;          /**< 0 none */
    bool is_cut;                   /**< shut down by us; libmicrohttpd is about to notice */
    bool is_loopback;
    char peer_text[GS_ADDR_TEXT];
    struct gs_server_tls_pair *pair; /**< what it was greeted with, counted */
    struct gs_server_tls_peer peer;

    /* The request, one at a time. */
    const struct gs_http_route *route; /**< NULL where refuse is set */
    unsigned refuse;                   /**< status of the refusal decided so far; 0 none */
    const char *fault;                 /**< of a 400: what is wrong; NULL nothing */
    struct gs_http_request req;
    struct gs_buf body;
    uint64_t discarded; /**< body bytes of a refused request that were read and dropped */
    struct gs_http_reply reply;
    bool has_reply;
    bool is_suspended;
    bool is_watched;             /**< the loop looks for the peer's end */
    struct gs_http_later *later; /**< token that is out */
};

struct gs_http_server {
    struct gs_loop *loop;
    struct gs_http_server_options options; /**< defaults filled in */
    struct MHD_Daemon *mhd;
    int mhd_fd; /**< its epoll, watched by ours */
    char address[GS_ADDR_TEXT];
    struct gs_server_tls tls; /**< pair == NULL: plain */
    GS_LIST(struct gs_http_conn) conns;
    struct gs_http_room room;        /**< those that are not cut */
    uint64_t crowded_log_ns;         /**< when the log may next say that they are too many */
    uint64_t crowded_said;           /**< how many it has told of */
    char crowded_peer[GS_ADDR_TEXT]; /**< whose connection was closed last */
    struct gs_buf spare;             /**< body of an earlier request, for the next one */
    struct gs_loop_task pump_task;
    struct gs_loop_task done_task;
    struct gs_loop_timer sweep_timer;
    struct gs_loop_timer stop_timer;
    unsigned stop_step; /**< 0 running */
    unsigned idle_ms;   /**< of gs_http_server_stop() */
    unsigned grace_ms;
    uint64_t stop_ns; /**< when it was called */
    int listen_fd;    /**< ours once libmicrohttpd let go of it, else -1 */
    void (*done)(void *user);
    void *done_user;
    struct gs_http_server_stats stats;
};

/* http_conn.c, called by libmicrohttpd through http_server.c's options. */

void gs_http_conn_notify(void *server, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code);
void *gs_http_conn_line(void *server, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result gs_http_conn_handle(void *server, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *upload,
                                    size_t *upload_n, void **request_context);
void gs_http_conn_completed(void *server, struct MHD_Connection *mhd, void **request_context,
                            enum MHD_RequestTerminationCode code);
int gs_http_conn_retrieve(gnutls_session_t session, const gnutls_datum_t *ca_names, int n_ca_names,
                          const gnutls_pk_algorithm_t *algos, int n_algos, gnutls_pcert_st **chain,
                          unsigned *n_chain, gnutls_privkey_t *key);

/** End a connection from outside: libmicrohttpd sees its socket shut and closes it. */
void gs_http_conn_cut(struct gs_http_conn *conn);
/** The peer of a suspended request is gone: tell the token's owner, let libmicrohttpd close. */
void gs_http_conn_lose(struct gs_http_conn *conn);

/* http_server.c */

/** Let libmicrohttpd work once the current callbacks are over. */
void gs_http_server_pump_soon(struct gs_http_server *server);
/** A connection is gone; the last one ends a stop. */
void gs_http_server_check_done(struct gs_http_server *server);
