#include "net/http_server.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "net/http_server_internal.h"

#define SWEEP_MS 1000u
/** How long connections whose handshake the kernel has begun may take to appear, when stopping. */
#define DRAIN_MS 50u
#define BACKLOG  4096
/** Connections beyond the limit that libmicrohttpd may have: those that are cut and that it has not
 *  closed yet. It takes up to 11 before it looks at them. */
#define ROOM_TO_TURN 16u
/** The log says once in so long that connections are closed because there are too many. */
#define CROWDED_LOG_S 60u
/** Runs of libmicrohttpd in a row. */
#define RUNS 8

/* TLS 1.2 and 1.3, forward secrecy and AEAD ciphers only. */
static const char priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:"
                                 "+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305";

/* ---- replies ---- */

void gs_http_server_reply_fini(struct gs_http_reply *reply)
{
    if (reply->release)
        reply->release(reply->release_user);
    reply->release = NULL;
    reply->body = NULL;
    reply->n = 0;
}

void gs_http_server_reply_take_malloc(struct gs_http_reply *reply, int status, const char *type,
                                      void *bytes, size_t n)
{
    gs_http_server_reply_fini(reply);
    reply->status = status;
    reply->type = type;
    reply->body = bytes;
    reply->n = n;
    reply->release = free;
    reply->release_user = bytes;
}

void gs_http_server_reply_take(struct gs_http_reply *reply, int status, const char *type,
                               struct gs_buf *buf)
{
    if (gs_buf_check(buf) < 0) {
        gs_buf_fini(buf);
        gs_http_server_reply_text(reply, 500, "out of memory\n");
        return;
    }
    gs_http_server_reply_take_malloc(reply, status, type, buf->p, buf->n);
    *buf = (struct gs_buf){0};
}

void gs_http_server_reply_text(struct gs_http_reply *reply, int status, const char *text)
{
    gs_http_server_reply_fini(reply);
    reply->status = status;
    reply->type = "text/plain; charset=utf-8";
    reply->body = text;
    reply->n = strlen(text);
}

struct gs_str gs_http_server_header(const struct gs_http_request *req, const char *name)
{
    const struct gs_http_conn *conn = req->impl;
    struct gs_str value = {0};

    if (MHD_lookup_connection_value_n(conn->mhd, MHD_HEADER_KIND, name, strlen(name), &value.p,
                                      &value.n) == MHD_NO)
        return (struct gs_str){0};
    return value.p ? value : GS_STR("");
}

struct gs_str gs_http_server_arg(const struct gs_http_request *req, const char *name)
{
    const struct gs_http_conn *conn = req->impl;
    struct gs_str value = {0};

    if (MHD_lookup_connection_value_n(conn->mhd, MHD_GET_ARGUMENT_KIND, name, strlen(name),
                                      &value.p, &value.n) == MHD_NO)
        return (struct gs_str){0};
    return value.p ? value : GS_STR("");
}

/* ---- running ---- */

static void pump(void *user)
{
    struct gs_http_server *server = user;
    MHD_UNSIGNED_LONG_LONG wait_ms;

    /* It keeps no time (our sweep does): a time here means that it has more to do at once. After a
     * while others get their turn. */
    for (int i = 0; i < RUNS; i++) {
        (void)MHD_run(server->mhd); /* it has no way to say why not */
        if (MHD_get_timeout(server->mhd, &wait_ms) != MHD_YES)
            return;
    }
    gs_http_server_pump_soon(server);
}

void gs_http_server_pump_soon(struct gs_http_server *server)
{
    gs_loop_defer(server->loop, &server->pump_task, pump, server);
}

static void on_ready(void *user, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    pump(user);
}

static void look_at_files(struct gs_http_server *server)
{
    struct gs_err err = {0};

    if (server->tls.pair)
        (void)gs_http_server_reload(server, &err); /* logged there */
}

static void tell_of_crowd(struct gs_http_server *server, uint64_t now)
{
    uint64_t n = server->stats.crowded - server->crowded_said;

    if (n == 0 || now < server->crowded_log_ns)
        return;
    server->crowded_log_ns = now + CROWDED_LOG_S * GS_CLOCK_S;
    server->crowded_said = server->stats.crowded;
    GS_LOG_WARN("too many connections, those that waited longest were closed",
                GS_LOG_CSTR("server", server->options.name), GS_LOG_UINT("closed", n),
                GS_LOG_UINT("open", server->stats.open),
                GS_LOG_CSTR("last_peer", server->crowded_peer));
}

/** Each second: slow peers, changed certificates. */
static void sweep(void *user)
{
    struct gs_http_server *server = user;
    uint64_t now = gs_loop_now_ns(server->loop);

    for (struct gs_http_conn *conn = server->conns.first; conn; conn = conn->link.next) {
        if (!conn->deadline_ns || now < conn->deadline_ns)
            continue;
        server->stats.timeouts += conn->phase != GS_HTTP_IDLE;
        gs_http_conn_cut(conn);
    }
    tell_of_crowd(server, now);
    look_at_files(server);
    gs_http_server_pump_soon(server); /* descriptors may have become free elsewhere */
    gs_loop_timer_in(server->loop, &server->sweep_timer, SWEEP_MS, sweep, server);
}

int gs_http_server_reload(struct gs_http_server *server, struct gs_err *err)
{
    struct gs_err local = {0};
    bool is_news = false;

    if (!server->tls.pair)
        return 0;
    int rc = gs_server_tls_reload(&server->tls, &is_news, &local);
    if (rc > 0) {
        server->stats.reloads++;
        GS_LOG_INFO("certificate files taken into use", GS_LOG_CSTR("server", server->options.name),
                    GS_LOG_CSTR("file", server->options.cert_file));
    } else if (rc < 0) {
        server->stats.reload_failures += is_news;
        /* Nobody asked, so nobody could be told by a return value. */
        if (is_news)
            GS_LOG_WARN("certificate files refused, the ones in use stay",
                        GS_LOG_CSTR("server", server->options.name), GS_LOG_ERR(&local));
        return gs_err_set(err, rc, "%s", local.text);
    }
    return rc;
}

/* ---- opening and closing ---- */

static int check_options(const struct gs_http_server_options *o, struct gs_err *err)
{
    if (!o->address)
        return gs_err_set(err, -EINVAL, "no address");
    if (!o->cert_file != !o->key_file)
        return gs_err_set(err, -EINVAL, "a certificate and a key go together");
    if (o->client_ca_file && !o->cert_file)
        return gs_err_set(err, -EINVAL, "client certificates need TLS");
    if (o->client_cert_required && !o->client_ca_file)
        return gs_err_set(err, -EINVAL, "client certificates need a CA");
    return 0;
}

static void fill_defaults(struct gs_http_server_options *o)
{
    if (!o->name)
        o->name = o->address;
    if (!o->body_limit)
        o->body_limit = (size_t)64 << 20;
    if (!o->bodies_limit)
        o->bodies_limit = (size_t)256 << 20;
    if (o->bodies_limit < o->body_limit)
        o->bodies_limit = o->body_limit;
    if (!o->header_ms)
        o->header_ms = 15000;
    if (!o->request_ms)
        o->request_ms = 60000;
    if (!o->idle_ms)
        o->idle_ms = 180000;
    if (!o->max_connections)
        o->max_connections = 4096;
    if (!o->max_per_peer)
        o->max_per_peer = o->max_connections / 4 ? o->max_connections / 4 : 1;
    if (!o->header_limit)
        o->header_limit = (size_t)32 << 10;
}

static struct MHD_Daemon *start_mhd(struct gs_http_server *server, int fd)
{
    const struct gs_http_server_options *o = &server->options;
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;
    struct MHD_OptionItem tls[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)gs_http_conn_retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)priorities},
        {MHD_OPTION_END, 0, NULL},
    };
    struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};

    if (server->tls.pair)
        flags |= MHD_USE_TLS;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, gs_http_conn_handle, server, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_NOTIFY_CONNECTION, gs_http_conn_notify, server, MHD_OPTION_URI_LOG_CALLBACK,
        gs_http_conn_line, server, MHD_OPTION_NOTIFY_COMPLETED, gs_http_conn_completed, server,
        MHD_OPTION_CONNECTION_LIMIT, o->max_connections + ROOM_TO_TURN,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_CONNECTION_MEMORY_LIMIT, 2 * o->header_limit,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_ARRAY,
        server->tls.pair ? tls : plain, MHD_OPTION_END);
}

static int note_address(struct gs_http_server *server, int fd)
{
    struct sockaddr_storage ss;
    socklen_t n = sizeof(ss);

    if (getsockname(fd, (struct sockaddr *)&ss, &n) < 0)
        return -errno;
    gs_addr_put((const struct sockaddr *)&ss, server->address, sizeof(server->address));
    return 0;
}

static int start(struct gs_http_server *server, struct gs_err *err)
{
    const struct gs_http_server_options *o = &server->options;
    GS_CLEANUP(gs_file_close) int fd = gs_addr_listen(o->address, BACKLOG, err);

    if (fd < 0)
        return fd;
    int rc = note_address(server, fd);
    if (rc < 0)
        return gs_err_set(err, rc, "cannot read the address of a socket");
    server->mhd = start_mhd(server, fd);
    if (!server->mhd)
        return gs_err_set(err, -ENOMEM, "libmicrohttpd does not start");
    fd = -1;
    server->mhd_fd = MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    rc = gs_loop_fd_add(server->loop, server->mhd_fd, EPOLLIN, on_ready, server);
    if (rc < 0)
        return gs_err_set(err, rc, "cannot watch libmicrohttpd");
    gs_http_server_pump_soon(server); /* it begins to listen with its first run */
    gs_loop_timer_in(server->loop, &server->sweep_timer, SWEEP_MS, sweep, server);
    return 0;
}

int gs_http_server_open(struct gs_loop *loop, const struct gs_http_server_options *options,
                        struct gs_http_server **ret_server, struct gs_err *err)
{
    int rc = check_options(options, err);

    if (rc < 0)
        return rc;
    GS_CLEANUP(gs_http_server_free_p) struct gs_http_server *server = calloc(1, sizeof(*server));
    if (!server)
        return gs_err_set(err, -ENOMEM, "out of memory");
    server->loop = loop;
    server->listen_fd = server->mhd_fd = -1;
    server->options = *options;
    fill_defaults(&server->options);
    gs_http_room_init(&server->room, server->options.max_connections, server->options.max_per_peer);
    if (options->cert_file)
        rc = gs_server_tls_open(&server->tls, options->cert_file, options->key_file,
                                options->client_ca_file, err);
    if (rc == 0)
        rc = start(server, err);
    if (rc < 0)
        return rc;
    *ret_server = GS_STEAL(server);
    return 0;
}

struct gs_http_server *gs_http_server_free(struct gs_http_server *server)
{
    if (!server)
        return NULL;
    server->done = NULL;
    server->stop_step = 1;
    for (struct gs_http_conn *conn = server->conns.first; conn; conn = conn->link.next)
        gs_http_conn_lose(conn);
    gs_loop_fd_del(server->loop, server->mhd_fd);
    if (server->mhd)
        MHD_stop_daemon(server->mhd);
    gs_loop_task_cancel(server->loop, &server->pump_task);
    gs_loop_task_cancel(server->loop, &server->done_task);
    gs_loop_timer_cancel(server->loop, &server->sweep_timer);
    gs_loop_timer_cancel(server->loop, &server->stop_timer);
    gs_file_close(&server->listen_fd);
    gs_server_tls_close(&server->tls);
    gs_http_room_fini(&server->room);
    gs_buf_fini(&server->spare);
    free(server);
    return NULL;
}

void gs_http_server_free_p(struct gs_http_server **server)
{
    *server = gs_http_server_free(*server);
}

/* ---- stopping ---- */

static void on_done(void *user)
{
    struct gs_http_server *server = user;
    void (*done)(void *) = server->done;

    server->done = NULL;
    if (done)
        done(server->done_user);
}

void gs_http_server_check_done(struct gs_http_server *server)
{
    if (server->done && server->stop_step >= 2 && !server->conns.first)
        gs_loop_defer(server->loop, &server->done_task, on_done, server);
}

/** Refuse to begin new handshakes, while those the kernel has begun still come to an end. Closing
 * the socket at once would reset them, and with them requests that are on their way; a first packet
 * that is ignored is sent again and then finds a closed port. */
static void ignore_new_peers(int fd)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13), /* flags of the TCP header, RFC 9293 3.1 */
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x02, 0, 1), /* SYN */
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
    };
    struct sock_fprog program = {.len = GS_ARRAY_LEN(code), .filter = code};

    /* Where it is not allowed the gap is some microseconds. */
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

static uint64_t stop_time(const struct gs_http_server *server, unsigned after_ms)
{
    return server->stop_ns + after_ms * GS_CLOCK_MS;
}

static void cut_idle(struct gs_http_server *server)
{
    for (struct gs_http_conn *conn = server->conns.first; conn; conn = conn->link.next) {
        if (conn->phase == GS_HTTP_IDLE || conn->phase == GS_HTTP_FRESH)
            gs_http_conn_cut(conn);
    }
}

static void stop_listening(struct gs_http_server *server)
{
    uint64_t before;

    do { /* take all that wait: it takes some of them per run */
        before = server->stats.accepted;
        (void)MHD_run(server->mhd);
    } while (server->stats.accepted != before);
    server->listen_fd = MHD_quiesce_daemon(server->mhd);
    gs_file_close(&server->listen_fd);
}

static void on_stop_timer(void *user)
{
    struct gs_http_server *server = user;

    server->stop_step++;
    if (server->stop_step == 2) {
        stop_listening(server);
        gs_loop_timer_at(server->loop, &server->stop_timer, stop_time(server, server->idle_ms),
                         on_stop_timer, server);
    } else if (server->stop_step == 3) {
        cut_idle(server);
        gs_loop_timer_at(server->loop, &server->stop_timer, stop_time(server, server->grace_ms),
                         on_stop_timer, server);
    } else {
        for (struct gs_http_conn *conn = server->conns.first; conn; conn = conn->link.next)
            gs_http_conn_lose(conn);
    }
    gs_http_server_check_done(server);
}

void gs_http_server_stop(struct gs_http_server *server, unsigned idle_ms, unsigned grace_ms,
                         void (*done)(void *user), void *user)
{
    if (server->stop_step)
        return;
    server->stop_step = 1;
    server->stop_ns = gs_loop_now_ns(server->loop);
    server->idle_ms = idle_ms > DRAIN_MS ? idle_ms : DRAIN_MS;
    server->grace_ms = grace_ms > server->idle_ms ? grace_ms : server->idle_ms;
    server->done = done;
    server->done_user = user;
    ignore_new_peers(MHD_get_daemon_info(server->mhd, MHD_DAEMON_INFO_LISTEN_FD)->listen_fd);
    gs_loop_timer_in(server->loop, &server->stop_timer, DRAIN_MS, on_stop_timer, server);
}

/* ---- looking ---- */

const char *gs_http_server_address(const struct gs_http_server *server)
{
    return server->address;
}

void gs_http_server_get_stats(const struct gs_http_server *server,
                              struct gs_http_server_stats *ret_stats)
{
    *ret_stats = server->stats;
}
