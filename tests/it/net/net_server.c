/* A server on net/http_server whose answers tests/it/net knows.
 *
 *     net_server --address HOST:PORT [--plain HOST:PORT] [--cert F --key F] [--ca F [--required]]
 * ...
 *
 * Prints "listening ADDRESS" for each listener, "gone" when the peer of /later left, "stopped"
 * after a graceful stop (SIGTERM), "reload RC" after SIGHUP. Log lines go to standard error. */

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "net/http_server.h"
#include "net/loop.h"

static struct {
    struct gs_loop *loop;
    struct gs_http_server *server[2];
    int n_servers, stopped;
    unsigned stop_idle_ms, stop_grace_ms;
} tool = {.stop_idle_ms = 500, .stop_grace_ms = 10000};

static unsigned long number(const struct gs_http_request *req, const char *name)
{
    struct gs_str text = gs_http_server_arg(req, name);

    return text.p ? strtoul(text.p, NULL, 10) : 0;
}

static int on_hello(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    (void)user;
    (void)req;
    gs_http_server_reply_text(reply, 200, "hello\n");
    return 0;
}

static int on_echo(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_buf text = {0};

    (void)user;
    if (req->body.p[req->body.n] != '\0')
        return -EINVAL;
    gs_buf_add(&text, req->body.p, req->body.n);
    gs_http_server_reply_take(reply, 200, "application/octet-stream", &text);
    return 0;
}

static int on_size(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_buf text = {0};
    unsigned sum = 0;

    (void)user;
    for (size_t i = 0; i < req->body.n; i++)
        sum = sum * 31 + (unsigned char)req->body.p[i];
    gs_buf_addf(&text, "%zu %u\n", req->body.n, sum);
    gs_http_server_reply_take(reply, 200, "text/plain", &text);
    return 0;
}

/** The shortest useful answer to a large body: what the server itself costs. */
static int on_sink(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    (void)user;
    (void)req;
    reply->body = "{}";
    reply->n = 2;
    return 0;
}

static int on_big(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_buf text = {0};

    (void)user;
    gs_buf_addc(&text, 'x', number(req, "n"));
    gs_http_server_reply_take(reply, 200, "text/plain", &text);
    return 0;
}

static int on_who(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_buf text = {0};

    (void)user;
    gs_buf_addf(&text, "verified=%d cn=%s o=%s loopback=%d tls=%d peer=%s path=%s x=%s a=%s\n",
                req->is_client_verified, req->client_cn.p, req->client_o.p, req->is_loopback,
                req->is_tls, req->peer.p, req->path.p, gs_http_server_header(req, "X-Test").p,
                gs_http_server_arg(req, "a").p);
    gs_http_server_reply_take(reply, 200, "text/plain", &text);
    return 0;
}

static int on_fail(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    (void)user;
    (void)req;
    gs_http_server_reply_text(reply, 200, "must not be seen\n");
    return -EIO;
}

static int on_busy(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    (void)user;
    (void)req;
    reply->status = 429;
    reply->retry_after_s = 7;
    return 0;
}

struct promise {
    struct gs_loop_timer timer;
    struct gs_http_later *later;
    struct promise *next, **prev;
};

static struct promise *promises;

static void free_promise(struct promise *p)
{
    gs_loop_timer_cancel(tool.loop, &p->timer);
    *p->prev = p->next;
    if (p->next)
        p->next->prev = p->prev;
    free(p);
}

static void on_gone(void *user)
{
    printf("gone\n");
    fflush(stdout);
    free_promise(user);
}

static void on_due(void *user)
{
    struct promise *p = user;
    struct gs_http_reply reply = {0};

    gs_http_server_reply_text(&reply, 200, "later\n");
    gs_http_server_answer(p->later, &reply);
    free_promise(p);
}

/** /later?ms=N; with blind=1 without a word when the peer goes. */
static int on_later(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct promise *p = calloc(1, sizeof(*p));
    bool blind = number(req, "blind") != 0;

    (void)user;
    (void)reply;
    if (!p)
        return -ENOMEM;
    p->next = promises;
    p->prev = &promises;
    if (p->next)
        p->next->prev = &p->next;
    promises = p;
    p->later = gs_http_server_later(req, blind ? NULL : on_gone, p);
    if (!p->later) {
        free_promise(p);
        return -ENOMEM;
    }
    if (number(req, "now"))
        on_due(p);
    else
        gs_loop_timer_in(tool.loop, &p->timer, number(req, "ms"), on_due, p);
    return GS_HTTP_LATER;
}

static int on_stats(void *user, const struct gs_http_request *req, struct gs_http_reply *reply)
{
    struct gs_http_server_stats s;
    struct gs_buf text = {0};

    (void)user;
    (void)req;
    gs_http_server_get_stats(tool.server[0], &s);
    gs_buf_addf(&text,
                "{\"accepted\":%lu,\"open\":%lu,\"requests\":%lu,\"pending\":%lu,\"access\":%lu,"
                "\"size\":%lu,\"timeouts\":%lu,\"crowded\":%lu,\"reloads\":%lu,\"failures\":%lu,"
                "\"body\":%lu}\n",
                s.accepted, s.open, s.requests, s.pending, s.refused_access, s.refused_size,
                s.timeouts, s.crowded, s.reloads, s.reload_failures, s.body_bytes);
    gs_http_server_reply_take(reply, 200, NULL, &text);
    return 0;
}

static const struct gs_http_route routes[] = {
    {"GET", "/hello", on_hello, NULL, GS_HTTP_ANYONE},
    {"POST", "/echo", on_echo, NULL, GS_HTTP_ANYONE},
    {"PUT", "/echo", on_echo, NULL, GS_HTTP_ANYONE},
    {"POST", "/size", on_size, NULL, GS_HTTP_ANYONE},
    {"POST", "/sink", on_sink, NULL, GS_HTTP_ANYONE},
    {"GET", "/big", on_big, NULL, GS_HTTP_ANYONE},
    {"GET", "/who", on_who, NULL, GS_HTTP_ANYONE},
    {"GET", "/tree/*", on_who, NULL, GS_HTTP_ANYONE},
    {"GET", "/cert", on_who, NULL, GS_HTTP_CLIENT_CERT},
    {"GET", "/local", on_who, NULL, GS_HTTP_CLIENT_CERT_OR_LOOPBACK},
    {"GET", "/fail", on_fail, NULL, GS_HTTP_ANYONE},
    {"GET", "/busy", on_busy, NULL, GS_HTTP_ANYONE},
    {"GET", "/later", on_later, NULL, GS_HTTP_ANYONE},
    {"POST", "/later", on_later, NULL, GS_HTTP_ANYONE},
    {"GET", "/stats", on_stats, NULL, GS_HTTP_ANYONE},
};

static void on_stopped(void *user)
{
    (void)user;
    if (++tool.stopped == tool.n_servers)
        gs_loop_stop(tool.loop);
}

static void on_signal(void *user, int signo)
{
    (void)user;
    for (int i = 0; i < tool.n_servers; i++) {
        if (signo == SIGHUP)
            printf("reload %d\n", gs_http_server_reload(tool.server[i], NULL));
        else if (signo == SIGINT)
            gs_loop_stop(tool.loop);
        else
            gs_http_server_stop(tool.server[i], tool.stop_idle_ms, tool.stop_grace_ms, on_stopped,
                                NULL);
    }
    fflush(stdout);
}

static void open_server(const struct gs_http_server_options *o)
{
    struct gs_err err = {0};

    int rc = gs_http_server_open(tool.loop, o, &tool.server[tool.n_servers], &err);
    if (rc < 0) {
        printf("refused %d %s\n", rc, err.text);
        exit(1);
    }
    printf("listening %s\n", gs_http_server_address(tool.server[tool.n_servers]));
    fflush(stdout);
    tool.n_servers++;
}

static int run(const struct gs_http_server_options *o, const char *plain)
{
    static const int signos[] = {SIGTERM, SIGHUP, SIGINT, 0};

    if (gs_loop_new(NULL, &tool.loop) < 0 ||
        gs_loop_signals(tool.loop, signos, on_signal, NULL) < 0)
        return 1;
    open_server(o);
    if (plain) {
        struct gs_http_server_options second = {
            .name = "plain", .address = plain, .routes = routes, .n_routes = o->n_routes};
        open_server(&second);
    }
    int rc = gs_loop_run(tool.loop);
    printf("stopped %d\n", rc);
    fflush(stdout);
    for (int i = 0; i < tool.n_servers; i++)
        tool.server[i] = gs_http_server_free(tool.server[i]);
    while (promises) /* blind ones: their answers are dropped, also now */
        on_due(promises);
    tool.loop = gs_loop_free(tool.loop);
    return 0;
}

int main(int argc, char **argv)
{
    struct gs_http_server_options o = {
        .name = "test", .routes = routes, .n_routes = sizeof(routes) / sizeof(routes[0])};
    const char *plain = NULL;
    static const struct option options[] = {
        {"address", 1, NULL, 'a'},
        {"plain", 1, NULL, 'p'},
        {"cert", 1, NULL, 'c'},
        {"key", 1, NULL, 'k'},
        {"ca", 1, NULL, 'A'},
        {"required", 0, NULL, 'r'},
        {"body-limit", 1, NULL, 'b'},
        {"bodies-limit", 1, NULL, 'B'},
        {"header-ms", 1, NULL, 'h'},
        {"request-ms", 1, NULL, 'q'},
        {"idle-ms", 1, NULL, 'i'},
        {"connections", 1, NULL, 'n'},
        {"stop-idle-ms", 1, NULL, 's'},
        {"stop-grace-ms", 1, NULL, 'g'},
        {"header-limit", 1, NULL, 'H'},
        {"per-peer", 1, NULL, 'P'},
        {0},
    };
    int letter;

    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (letter) {
        case 'a':
            o.address = optarg;
            break;
        case 'p':
            plain = optarg;
            break;
        case 'c':
            o.cert_file = optarg;
            break;
        case 'k':
            o.key_file = optarg;
            break;
        case 'A':
            o.client_ca_file = optarg;
            break;
        case 'r':
            o.client_cert_required = true;
            break;
        case 'b':
            o.body_limit = strtoul(optarg, NULL, 10);
            break;
        case 'B':
            o.bodies_limit = strtoul(optarg, NULL, 10);
            break;
        case 'h':
            o.header_ms = (unsigned)atoi(optarg);
            break;
        case 'q':
            o.request_ms = (unsigned)atoi(optarg);
            break;
        case 'i':
            o.idle_ms = (unsigned)atoi(optarg);
            break;
        case 'n':
            o.max_connections = (unsigned)atoi(optarg);
            break;
        case 'P':
            o.max_per_peer = (unsigned)atoi(optarg);
            break;
        case 's':
            tool.stop_idle_ms = (unsigned)atoi(optarg);
            break;
        case 'g':
            tool.stop_grace_ms = (unsigned)atoi(optarg);
            break;
        case 'H':
            o.header_limit = strtoul(optarg, NULL, 10);
            break;
        default:
            return 2;
        }
    }
    return run(&o, plain);
}
