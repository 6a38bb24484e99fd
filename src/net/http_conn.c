#include "net/http_server_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "net/http_fields.h"

/** What a Content-Length may make us reserve before the body came. */
#define RESERVE_MAX ((size_t)1 << 20)
/** Largest body memory that is kept for the next request. */
#define SPARE_MAX ((size_t)1 << 20)

/* ---- connections ---- */

static struct gs_http_conn *conn_of(struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/** Of a connection that is cut nothing happens any more, though what was received may be read. */
static void set_phase(struct gs_http_conn *conn, enum gs_http_phase phase, unsigned limit_ms)
{
    static const enum gs_http_room_wait waits[] = {
        [GS_HTTP_FRESH] = GS_HTTP_ROOM_FIRST,   [GS_HTTP_IDLE] = GS_HTTP_ROOM_NEXT,
        [GS_HTTP_HEADERS] = GS_HTTP_ROOM_PEER,  [GS_HTTP_BODY] = GS_HTTP_ROOM_PEER,
        [GS_HTTP_HANDLING] = GS_HTTP_ROOM_OURS, [GS_HTTP_REPLYING] = GS_HTTP_ROOM_PEER,
    };

    if (conn->is_cut)
        return;
    conn->phase = phase;
    conn->deadline_ns = limit_ms ? gs_loop_now_ns(conn->server->loop) + limit_ms * GS_CLOCK_MS : 0;
    gs_http_room_wait(&conn->server->room, &conn->seat, waits[phase]);
}

void gs_http_conn_cut(struct gs_http_conn *conn)
{
    conn->is_cut = true;
    conn->deadline_ns = 0;
    gs_http_room_leave(&conn->server->room, &conn->seat);
    (void)shutdown(conn->fd, SHUT_RDWR); /* fails where the peer was faster: the same to us */
}

/** GnuTLS asks whether the peer's certificate will do. */
static int on_verify(gnutls_session_t session)
{
    struct gs_http_conn *conn = conn_of(gnutls_session_get_ptr(session));

    if (!conn)
        return GNUTLS_E_CERTIFICATE_ERROR;
    if (gs_server_tls_check_peer(&conn->server->tls, session, &conn->peer) < 0) {
        conn->server->stats.refused_access++;
        /* libmicrohttpd closes without a word; this much the peer's operator should read. */
        (void)gnutls_alert_send(session, GNUTLS_AL_FATAL, GNUTLS_A_BAD_CERTIFICATE);
        return GNUTLS_E_CERTIFICATE_ERROR;
    }
    return 0;
}

/** GnuTLS asks for the certificate of one handshake. libmicrohttpd has put its connection into the
 *  session. */
int gs_http_conn_retrieve(gnutls_session_t session, const gnutls_datum_t *ca_names, int n_ca_names,
                          const gnutls_pk_algorithm_t *algos, int n_algos, gnutls_pcert_st **chain,
                          unsigned *n_chain, gnutls_privkey_t *key)
{
    struct gs_http_conn *conn = conn_of(gnutls_session_get_ptr(session));

    (void)ca_names;
    (void)n_ca_names;
    (void)algos;
    (void)n_algos;
    if (!conn)
        return -1;
    struct gs_server_tls_pair *pair = conn->server->tls.pair;
    pair->refs++;
    gs_server_tls_pair_unref(conn->pair); /* a handshake may ask twice */
    conn->pair = pair;
    *chain = pair->chain;
    *n_chain = pair->n_chain;
    *key = pair->key;
    return 0;
}

static void ask_for_certificate(struct gs_http_conn *conn)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(conn->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);

    if (!conn->server->tls.ca || !info || !info->tls_session)
        return;
    gnutls_certificate_server_set_request(
        info->tls_session,
        conn->server->options.client_cert_required ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_REQUEST);
    gnutls_session_set_verify_function(info->tls_session, on_verify);
}

/** There may be one too many by now. */
static void make_room(struct gs_http_conn *newcomer)
{
    struct gs_http_server *server = newcomer->server;
    struct gs_http_room_seat *seat = gs_http_room_crowded(&server->room, &newcomer->seat);

    if (!seat)
        return;
    struct gs_http_conn *conn = seat->owner;
    memcpy(server->crowded_peer, conn->peer_text, sizeof(server->crowded_peer));
    server->stats.crowded++;
    gs_http_conn_cut(conn);
}

static void open_conn(struct gs_http_server *server, struct MHD_Connection *mhd, void **context)
{
    const struct sockaddr *peer =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
    struct gs_http_conn *conn = calloc(1, sizeof(*conn));

    server->stats.accepted++;
    if (!conn || gs_http_room_enter(&server->room, &conn->seat, peer) < 0) {
        free(conn);
        *context = NULL; /* no memory: its handshake or its first request fails */
        return;
    }
    *context = conn;
    conn->seat.owner = conn;
    conn->server = server;
    conn->mhd = mhd;
    conn->fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    gs_addr_put(peer, conn->peer_text, sizeof(conn->peer_text));
    conn->is_loopback = gs_addr_is_loopback(peer);
    GS_LIST_PUSH(&server->conns, conn, link);
    server->stats.open++;
    if (server->tls.pair)
        ask_for_certificate(conn);
    set_phase(conn, GS_HTTP_FRESH, server->options.header_ms);
    make_room(conn);
}

static void close_conn(struct gs_http_conn *conn)
{
    struct gs_http_server *server = conn->server;

    GS_LIST_REMOVE(&server->conns, conn, link);
    gs_http_room_leave(&server->room, &conn->seat);
    server->stats.open--;
    gs_server_tls_pair_unref(conn->pair);
    gs_buf_fini(&conn->body);
    free(conn);
    /* At its limits libmicrohttpd stops listening, and takes it up again with its next run only. */
    gs_http_server_pump_soon(server);
    gs_http_server_check_done(server);
}

void gs_http_conn_notify(void *server, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        open_conn(server, mhd, socket_context);
    else if (*socket_context)
        close_conn(*socket_context);
}

/** A request line came. */
void *gs_http_conn_line(void *server, const char *uri, struct MHD_Connection *mhd)
{
    struct gs_http_conn *conn = conn_of(mhd);

    (void)server;
    (void)uri;
    if (!conn)
        return NULL;
    uint64_t before = conn->phase == GS_HTTP_FRESH ? conn->deadline_ns : 0;
    set_phase(conn, GS_HTTP_HEADERS, conn->server->options.header_ms);
    if (before && before < conn->deadline_ns)
        conn->deadline_ns = before;
    return NULL; /* the request's context; set with its headers */
}

/* ---- replies ---- */

static void put_allowed(const struct gs_http_conn *conn, struct MHD_Response *response);

static struct MHD_Response *make_response(struct gs_http_reply *r)
{
    struct MHD_Response *response;

    if (r->n == 0 || !r->release) {
        static char nothing[1];
        response = MHD_create_response_from_buffer(
            r->n, r->n ? (void *)(uintptr_t)r->body : nothing, MHD_RESPMEM_PERSISTENT);
        if (response)
            gs_http_server_reply_fini(r); /* an empty body may own memory */
        return response;
    }
    response = MHD_create_response_from_buffer_with_free_callback_cls(
        r->n, (void *)(uintptr_t)r->body, r->release, r->release_user);
    if (response)
        r->release = NULL; /* libmicrohttpd's now */
    return response;
}

static enum MHD_Result send_reply(struct gs_http_conn *conn)
{
    struct gs_http_server *server = conn->server;
    struct gs_http_reply *r = &conn->reply;
    unsigned status = r->status >= 200 && r->status <= 599 ? (unsigned)r->status : 200u;
    const char *type = r->type ? r->type : "application/json";
    bool has_type = r->n > 0;
    char number[16];
    enum MHD_Result ok = MHD_YES;

    conn->has_reply = false;
    struct MHD_Response *response = make_response(r);
    if (!response) {
        gs_http_server_reply_fini(r);
        return MHD_NO;
    }
    if (has_type)
        ok = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (ok && r->retry_after_s) {
        (void)snprintf(number, sizeof(number), "%u", r->retry_after_s);
        ok = MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, number);
    }
    if (conn->refuse == MHD_HTTP_METHOD_NOT_ALLOWED)
        put_allowed(conn, response);
    if (ok && (r->close || server->stop_step))
        ok = MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    set_phase(conn, GS_HTTP_REPLYING, server->options.request_ms);
    if (ok)
        ok = MHD_queue_response(conn->mhd, status, response);
    MHD_destroy_response(response); /* our reference; the queue has its own */
    return ok;
}

static enum MHD_Result refuse(struct gs_http_conn *conn)
{
    static const struct {
        unsigned status;
        const char *text;
    } texts[] = {
        {MHD_HTTP_FORBIDDEN, "a verified client certificate is needed here\n"},
        {MHD_HTTP_NOT_FOUND, "no such path\n"},
        {MHD_HTTP_METHOD_NOT_ALLOWED, "no such method here\n"},
        {MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than allowed\n"},
        {MHD_HTTP_SERVICE_UNAVAILABLE, "too many bodies at once\n"},
    };
    const char *text = conn->fault ? conn->fault : "internal error\n";

    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        if (texts[i].status == conn->refuse)
            text = texts[i].text;
    }
    gs_http_server_reply_text(&conn->reply, (int)conn->refuse, text);
    if (conn->refuse == MHD_HTTP_CONTENT_TOO_LARGE)
        conn->reply.close = true;
    if (conn->refuse == MHD_HTTP_SERVICE_UNAVAILABLE) {
        conn->reply.close = true;
        conn->reply.retry_after_s = 1;
    }
    return send_reply(conn);
}

/* ---- requests ---- */

static bool is_path(const struct gs_http_route *route, const char *path)
{
    size_t n = strlen(route->path);

    if (n && route->path[n - 1] == '*')
        return strncmp(path, route->path, n - 1) == 0;
    return strcmp(path, route->path) == 0;
}

static void put_allowed(const struct gs_http_conn *conn, struct MHD_Response *response)
{
    const struct gs_http_server_options *o = &conn->server->options;
    char list[128];
    struct gs_str_out out;

    gs_str_out_init(&out, list, sizeof(list));
    for (size_t i = 0; i < o->n_routes; i++) {
        if (!is_path(&o->routes[i], conn->req.path.p))
            continue;
        if (out.n)
            gs_str_put_c(&out, ", ");
        gs_str_put_c(&out, o->routes[i].method);
        if (strcmp(o->routes[i].method, "GET") == 0)
            gs_str_put_c(&out, ", HEAD");
    }
    /* Without memory for it the reply goes without it. */
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, list);
}

/** Choose the route, or the status of the refusal. */
static void choose_route(struct gs_http_conn *conn, const char *path)
{
    const struct gs_http_server_options *o = &conn->server->options;
    struct gs_str method = conn->req.is_head ? GS_STR("GET") : conn->req.method;

    conn->refuse = MHD_HTTP_NOT_FOUND;
    for (size_t i = 0; i < o->n_routes; i++) {
        const struct gs_http_route *route = &o->routes[i];
        if (!is_path(route, path))
            continue;
        if (!gs_str_eq_c(method, route->method)) {
            conn->refuse = MHD_HTTP_METHOD_NOT_ALLOWED;
            continue;
        }
        bool ok = route->access == GS_HTTP_ANYONE || conn->peer.is_verified ||
                  (route->access == GS_HTTP_CLIENT_CERT_OR_LOOPBACK && conn->is_loopback);
        conn->route = route;
        conn->refuse = ok ? 0 : MHD_HTTP_FORBIDDEN;
        conn->server->stats.refused_access += !ok;
        return;
    }
}

/** Content-Length; libmicrohttpd has refused what is no number. 0 for chunked bodies. */
static uint64_t announced_length(struct gs_http_conn *conn)
{
    struct gs_str text = gs_http_server_header(&conn->req, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t n = 0;

    for (size_t i = 0; i < text.n && text.p[i] >= '0' && text.p[i] <= '9'; i++) {
        if (__builtin_mul_overflow(n, 10u, &n) ||
            __builtin_add_overflow(n, (unsigned)(text.p[i] - '0'), &n))
            return UINT64_MAX;
    }
    return n;
}

static void drop_body(struct gs_http_conn *conn)
{
    struct gs_http_server *server = conn->server;

    server->stats.body_bytes -= conn->body.n;
    if (!server->spare.p && conn->body.p && conn->body.cap <= SPARE_MAX) {
        server->spare = conn->body;
        gs_buf_clear(&server->spare);
        conn->body = (struct gs_buf){0};
    }
    gs_buf_fini(&conn->body);
}

static void refuse_body(struct gs_http_conn *conn, unsigned status)
{
    drop_body(conn);
    conn->refuse = status;
    conn->server->stats.refused_size++;
}

static void reserve_body(struct gs_http_conn *conn, uint64_t announced)
{
    size_t room = announced < RESERVE_MAX ? (size_t)announced : RESERVE_MAX;

    if (conn->server->spare.cap > room) {
        conn->body = conn->server->spare;
        conn->server->spare = (struct gs_buf){0};
    } else if (gs_buf_reserve(&conn->body, room) < 0) {
        refuse_body(conn, MHD_HTTP_SERVICE_UNAVAILABLE);
    }
}

/** A refusal before the body: at once where the peer waits for leave to send it, or where it is too
 *  much to read; else after the body was read and dropped, because a peer that is still sending
 * would lose the answer with the connection. */
static bool must_refuse_now(const struct gs_http_conn *conn, uint64_t announced)
{
    if (!conn->refuse)
        return false;
    return announced > 2 * (uint64_t)conn->server->options.body_limit ||
           (announced > 0 && gs_http_server_header(&conn->req, MHD_HTTP_HEADER_EXPECT).p);
}

/** The headers are complete. */
static enum MHD_Result begin(struct gs_http_conn *conn, const char *url, const char *method,
                             const char *version)
{
    struct gs_http_server *server = conn->server;

    server->stats.requests++;
    set_phase(conn, GS_HTTP_BODY, server->options.request_ms);
    conn->discarded = 0;
    conn->route = NULL;
    conn->req = (struct gs_http_request){
        .method = gs_str_of(method),
        .path = gs_str_of(url),
        .body = GS_STR(""),
        .peer = gs_str_of(conn->peer_text),
        .is_head = strcmp(method, "HEAD") == 0,
        .is_tls = server->tls.pair != NULL,
        .is_loopback = conn->is_loopback,
        .is_client_verified = conn->peer.is_verified,
        .client_cn = gs_str_of(conn->peer.cn),
        .client_o = gs_str_of(conn->peer.o),
        .impl = conn,
    };
    choose_route(conn, url);
    conn->fault = gs_http_fields_fault(conn->mhd, method, version);
    if (conn->fault) {
        conn->refuse = MHD_HTTP_BAD_REQUEST;
        conn->reply.close = true;
        return refuse(conn);
    }
    uint64_t announced = announced_length(conn);
    if (announced > server->options.body_limit)
        refuse_body(conn, MHD_HTTP_CONTENT_TOO_LARGE);
    if (must_refuse_now(conn, announced)) {
        conn->reply.close = true;
        return refuse(conn);
    }
    if (announced && !conn->refuse)
        reserve_body(conn, announced);
    return MHD_YES;
}

/** More of the body. */
static enum MHD_Result receive(struct gs_http_conn *conn, const char *bytes, size_t n)
{
    struct gs_http_server *server = conn->server;
    const struct gs_http_server_options *o = &server->options;

    if (!conn->refuse) {
        if (n > o->body_limit - conn->body.n)
            refuse_body(conn, MHD_HTTP_CONTENT_TOO_LARGE);
        else if (n > o->bodies_limit - server->stats.body_bytes)
            refuse_body(conn, MHD_HTTP_SERVICE_UNAVAILABLE);
    }
    if (conn->refuse) {
        conn->discarded += n;
        return conn->discarded > 2 * (uint64_t)o->body_limit ? MHD_NO : MHD_YES;
    }
    size_t before = conn->body.n;
    gs_buf_add(&conn->body, bytes, n);
    server->stats.body_bytes += conn->body.n - before;
    if (conn->body.failed)
        refuse_body(conn, MHD_HTTP_SERVICE_UNAVAILABLE);
    return MHD_YES;
}

static void on_peer_gone(void *user, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    gs_http_conn_lose(user);
}

static enum MHD_Result suspend(struct gs_http_conn *conn)
{
    /* libmicrohttpd does not look at a suspended connection: we do. Where that is impossible the
     * peer's end shows when the answer is sent. */
    if (gs_loop_fd_add(conn->server->loop, conn->fd, EPOLLRDHUP, on_peer_gone, conn) == 0)
        conn->is_watched = true;
    conn->is_suspended = true;
    MHD_suspend_connection(conn->mhd);
    return MHD_YES;
}

static void resume(struct gs_http_conn *conn)
{
    if (!conn->is_suspended)
        return;
    conn->is_suspended = false;
    if (conn->is_watched)
        gs_loop_fd_del(conn->server->loop, conn->fd);
    conn->is_watched = false;
    MHD_resume_connection(conn->mhd);
    gs_http_server_pump_soon(conn->server);
}

/** The request is complete. */
static enum MHD_Result run_handler(struct gs_http_conn *conn)
{
    conn->req.body = gs_buf_str(&conn->body);
    conn->reply = (struct gs_http_reply){0};
    set_phase(conn, GS_HTTP_HANDLING, 0);
    int rc = conn->route->handler(conn->route->user, &conn->req, &conn->reply);
    if (rc == GS_HTTP_LATER && conn->later)
        return suspend(conn);
    if (rc != 0 && !conn->has_reply) {
        gs_http_server_reply_fini(&conn->reply);
        gs_http_server_reply_text(&conn->reply, MHD_HTTP_INTERNAL_SERVER_ERROR, "internal error\n");
    }
    return send_reply(conn);
}

enum MHD_Result gs_http_conn_handle(void *server, struct MHD_Connection *mhd, const char *url,
                                    const char *method, const char *version, const char *upload,
                                    size_t *upload_n, void **request_context)
{
    struct gs_http_conn *conn = *request_context;

    (void)server;
    if (!conn) {
        conn = *request_context = conn_of(mhd);
        return conn && !conn->is_cut ? begin(conn, url, method, version) : MHD_NO;
    }
    if (conn->is_cut)
        return MHD_NO;
    if (*upload_n) {
        size_t n = *upload_n;
        *upload_n = 0;
        return receive(conn, upload, n);
    }
    if (conn->has_reply)
        return send_reply(conn);
    return conn->refuse ? refuse(conn) : run_handler(conn);
}

/** A request is over, answered or not. */
void gs_http_conn_completed(void *server, struct MHD_Connection *mhd, void **request_context,
                            enum MHD_RequestTerminationCode code)
{
    struct gs_http_conn *conn = *request_context;

    (void)server;
    (void)mhd;
    (void)code;
    if (!conn)
        return;
    *request_context = NULL;
    if (conn->later)
        gs_http_conn_lose(conn);
    drop_body(conn);
    gs_http_server_reply_fini(&conn->reply);
    conn->has_reply = false;
    set_phase(conn, GS_HTTP_IDLE, conn->server->options.idle_ms);
}

/* ---- answering later ---- */

struct gs_http_later *gs_http_server_later(const struct gs_http_request *req,
                                           void (*gone)(void *user), void *user)
{
    struct gs_http_conn *conn = req->impl;
    struct gs_http_later *later = calloc(1, sizeof(*later));

    if (!later)
        return NULL;
    *later = (struct gs_http_later){.conn = conn, .gone = gone, .user = user};
    conn->later = later;
    conn->server->stats.pending++;
    return later;
}

void gs_http_server_answer(struct gs_http_later *later, struct gs_http_reply *reply)
{
    struct gs_http_conn *conn = later->conn;

    free(later);
    if (!conn) {
        gs_http_server_reply_fini(reply);
        return;
    }
    conn->later = NULL;
    conn->server->stats.pending--;
    conn->reply = *reply;
    conn->has_reply = true;
    *reply = (struct gs_http_reply){0};
    resume(conn);
}

void gs_http_conn_lose(struct gs_http_conn *conn)
{
    struct gs_http_later *later = conn->later;

    conn->later = NULL;
    gs_http_conn_cut(conn);
    if (later) {
        conn->server->stats.pending--;
        later->conn = NULL;
        if (later->gone) {
            later->gone(later->user);
            free(later);
        }
    }
    resume(conn);
}
