/* Drives net/http_client from the command line, for tests/it/net.
 *
 *     net_client [OPTION]... URL...
 *
 * Asks for every URL, --parallel of them at a time (default 1), and prints a line per event:
 *     chunk N TEXT      (--stream) bytes of a body, with newlines as '|'
 *     done I rc=R status=S bytes=B retry=T reused=0|1 version=V type=... error=...
 *     body TEXT         (--body) the collected body, newlines as '|'
 *     stats calls=.. failed=.. connections=..
 * Lines on standard input while it runs: "cancel" ends the oldest call without a word, "token X"
 * and "cert CERTFILE KEYFILE" change the identity, "go URL" asks for more, "quit" ends all. With
 * --hold it stays until "quit". Exit status 0 unless the arguments are wrong. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "net/http_client.h"
#include "net/loop.h"
#include "net/secret.h"

#define MAX_CALLS 4096

static struct {
    struct gs_loop *loop;
    struct gs_http_client *client;
    struct gs_http_ask ask;
    const char *header[8];
    char *url[MAX_CALLS];
    struct gs_http_call *call[MAX_CALLS];
    int n_urls, next, running, parallel;
    bool hold, stream, show_body, in_cancel;
    unsigned deadline_ms;
    int cancel_after; /**< chunks after which a call cancels itself; 0 never */
    int chunks;
} tool = {.parallel = 1};

static void print_text(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        putchar(p[i] == '\n' || p[i] == '\r' || p[i] == '\0' ? '|' : p[i]);
    putchar('\n');
}

static void start_more(void);

static void finish_if_idle(void)
{
    if (tool.running == 0 && tool.next == tool.n_urls && !tool.hold)
        gs_loop_stop(tool.loop);
}

static bool on_chunk(void *user, const struct gs_http_answer *answer, const char *bytes, size_t n)
{
    int i = (int)(intptr_t)user;

    printf("chunk %d %d %zu ", i, answer->status, n);
    print_text(bytes, n);
    fflush(stdout);
    if (tool.cancel_after && ++tool.chunks == tool.cancel_after) {
        gs_http_client_cancel(tool.call[i]);
        tool.call[i] = NULL;
        tool.running--;
        printf("cancelled %d\n", i);
        gs_loop_stop(tool.loop);
    }
    return true;
}

static void on_done(void *user, const struct gs_http_answer *a)
{
    int i = (int)(intptr_t)user;

    printf("done %d rc=%d status=%d bytes=%zu retry=%d reused=%d version=%u type=%.*s error=%s\n",
           i, a->rc, a->status, a->body.n, a->retry_after_s, a->is_reused, a->http_version,
           (int)a->type.n, a->type.p ? a->type.p : "", a->error);
    if (tool.show_body) {
        printf("body ");
        print_text(a->body.p, a->body.n);
    }
    fflush(stdout);
    tool.call[i] = NULL;
    tool.running--;
    start_more();
    finish_if_idle();
}

static void start_more(void)
{
    while (tool.running < tool.parallel && tool.next < tool.n_urls) {
        struct gs_err err = {0};
        int i = tool.next++;
        struct gs_http_ask ask = tool.ask;
        ask.url = tool.url[i];
        ask.done = on_done;
        ask.on_chunk = tool.stream ? on_chunk : NULL;
        ask.user = (void *)(intptr_t)i;
        if (tool.deadline_ms)
            ask.deadline_ns = gs_loop_now_ns(tool.loop) + tool.deadline_ms * GS_CLOCK_MS;
        int rc = gs_http_client_start(tool.client, &ask, &tool.call[i], &err);
        if (rc < 0)
            printf("refused %d rc=%d error=%s\n", i, rc, err.text);
        else
            tool.running++;
        fflush(stdout);
    }
}

static void set_cert(const char *cert, const char *key)
{
    struct gs_buf c = {0}, k = {0};
    struct gs_secret_stamp stamp;

    int rc = gs_secret_read(cert, &c, &stamp);
    rc = rc < 0 ? rc : gs_secret_read(key, &k, &stamp);
    if (rc == 0)
        rc = gs_http_client_set_cert(tool.client, (struct gs_str){c.p, c.n},
                                     (struct gs_str){k.p, k.n});
    printf("cert rc=%d\n", rc);
    gs_secret_wipe(&c);
    gs_secret_wipe(&k);
}

static void run_line(char *line)
{
    char *word = strtok(line, " "), *a = strtok(NULL, " "), *b = strtok(NULL, " ");

    if (!word)
        return;
    if (strcmp(word, "cancel") == 0) {
        for (int i = 0; i < tool.next; i++) {
            if (!tool.call[i])
                continue;
            gs_http_client_cancel(tool.call[i]);
            tool.call[i] = NULL;
            tool.running--;
            printf("cancelled %d\n", i);
            break;
        }
    } else if (strcmp(word, "token") == 0) {
        printf("token rc=%d\n", gs_http_client_set_token(tool.client, a));
    } else if (strcmp(word, "cert") == 0 && b) {
        set_cert(a, b);
    } else if (strcmp(word, "go") == 0 && a && tool.n_urls < MAX_CALLS) {
        tool.url[tool.n_urls++] = strdup(a);
        start_more();
    } else if (strcmp(word, "quit") == 0) {
        tool.hold = false;
        gs_loop_stop(tool.loop);
    }
    fflush(stdout);
    finish_if_idle();
}

static void on_input(void *user, int fd, uint32_t events)
{
    static char text[4096];
    static size_t n;

    (void)user;
    (void)events;
    ssize_t got = read(fd, text + n, sizeof(text) - 1 - n);
    if (got <= 0) {
        gs_loop_fd_del(tool.loop, fd);
        return;
    }
    n += (size_t)got;
    text[n] = '\0';
    char *end;
    while ((end = strchr(text, '\n')) != NULL) {
        *end = '\0';
        size_t used = (size_t)(end - text) + 1;
        char line[sizeof(text)];
        memcpy(line, text, used);
        memmove(text, text + used, n - used + 1);
        n -= used;
        run_line(line);
    }
}

static struct gs_buf loaded[8];
static size_t n_loaded;

static struct gs_str load(const char *path)
{
    struct gs_buf *text = &loaded[n_loaded++ % 8];
    struct gs_secret_stamp stamp;

    if (gs_secret_read(path, text, &stamp) < 0)
        exit(2);
    return (struct gs_str){text->p, text->n};
}

enum {
    O_CA = 256,
    O_CA_PEM,
    O_CERT,
    O_KEY,
    O_CERT_PEM,
    O_KEY_PEM,
    O_TOKEN,
    O_TOKEN_FILE,
    O_NAME,
    O_INSECURE,
    O_HTTP1,
    O_METHOD,
    O_DATA,
    O_DATA_FILE,
    O_TYPE,
    O_HEADER,
    O_TIMEOUT,
    O_DEADLINE,
    O_IDLE,
    O_LIMIT,
    O_CONNECT,
    O_PARALLEL,
    O_STREAM,
    O_BODY,
    O_HOLD,
    O_CANCEL_AFTER,
    O_USER,
    O_PASSWORD,
    O_REPEAT,
};

static const struct option options[] = {
    {"ca", 1, NULL, O_CA},
    {"ca-pem", 1, NULL, O_CA_PEM},
    {"cert", 1, NULL, O_CERT},
    {"key", 1, NULL, O_KEY},
    {"cert-pem", 1, NULL, O_CERT_PEM},
    {"key-pem", 1, NULL, O_KEY_PEM},
    {"token", 1, NULL, O_TOKEN},
    {"token-file", 1, NULL, O_TOKEN_FILE},
    {"name", 1, NULL, O_NAME},
    {"insecure", 0, NULL, O_INSECURE},
    {"http1", 0, NULL, O_HTTP1},
    {"method", 1, NULL, O_METHOD},
    {"data", 1, NULL, O_DATA},
    {"data-file", 1, NULL, O_DATA_FILE},
    {"type", 1, NULL, O_TYPE},
    {"header", 1, NULL, O_HEADER},
    {"timeout", 1, NULL, O_TIMEOUT},
    {"deadline", 1, NULL, O_DEADLINE},
    {"idle", 1, NULL, O_IDLE},
    {"limit", 1, NULL, O_LIMIT},
    {"connect", 1, NULL, O_CONNECT},
    {"parallel", 1, NULL, O_PARALLEL},
    {"stream", 0, NULL, O_STREAM},
    {"body", 0, NULL, O_BODY},
    {"hold", 0, NULL, O_HOLD},
    {"cancel-after", 1, NULL, O_CANCEL_AFTER},
    {"user", 1, NULL, O_USER},
    {"password", 1, NULL, O_PASSWORD},
    {"repeat", 1, NULL, O_REPEAT},
    {0},
};

static bool set_identity(int letter, struct gs_http_client_options *o)
{
    switch (letter) {
    case O_CA:
        o->ca_file = optarg;
        return true;
    case O_CA_PEM:
        o->ca_pem = load(optarg);
        return true;
    case O_CERT:
        o->cert_file = optarg;
        return true;
    case O_KEY:
        o->key_file = optarg;
        return true;
    case O_CERT_PEM:
        o->cert_pem = load(optarg);
        return true;
    case O_KEY_PEM:
        o->key_pem = load(optarg);
        return true;
    case O_TOKEN:
        o->token = optarg;
        return true;
    case O_TOKEN_FILE:
        o->token_file = optarg;
        return true;
    case O_NAME:
        o->server_name = optarg;
        return true;
    case O_INSECURE:
        o->insecure = true;
        return true;
    case O_HTTP1:
        o->http1 = true;
        return true;
    case O_CONNECT:
        o->connect_ms = (unsigned)atoi(optarg);
        return true;
    case O_USER:
        o->user = optarg;
        return true;
    case O_PASSWORD:
        o->password = optarg;
        return true;
    default:
        return false;
    }
}

static bool set_call(int letter, int *repeat)
{
    switch (letter) {
    case O_METHOD:
        tool.ask.method = optarg;
        return true;
    case O_DATA:
        tool.ask.body = gs_str_of(optarg);
        return true;
    case O_DATA_FILE:
        tool.ask.body = load(optarg);
        return true;
    case O_TYPE:
        tool.ask.type = optarg;
        return true;
    case O_HEADER:
        tool.header[tool.ask.n_headers++ % 8] = optarg;
        return true;
    case O_TIMEOUT:
        tool.ask.timeout_ms = (unsigned)atoi(optarg);
        return true;
    case O_DEADLINE:
        tool.deadline_ms = (unsigned)atoi(optarg);
        return true;
    case O_IDLE:
        tool.ask.idle_ms = (unsigned)atoi(optarg);
        return true;
    case O_LIMIT:
        tool.ask.body_limit = (size_t)atol(optarg);
        return true;
    case O_PARALLEL:
        tool.parallel = atoi(optarg);
        return true;
    case O_STREAM:
        tool.stream = true;
        return true;
    case O_BODY:
        tool.show_body = true;
        return true;
    case O_HOLD:
        tool.hold = true;
        return true;
    case O_CANCEL_AFTER:
        tool.cancel_after = atoi(optarg);
        return true;
    case O_REPEAT:
        *repeat = atoi(optarg);
        return true;
    default:
        return false;
    }
}

static int run(const struct gs_http_client_options *o)
{
    struct gs_err err = {0};

    if (gs_loop_new(NULL, &tool.loop) < 0 ||
        gs_http_client_new(tool.loop, o, &tool.client, &err) < 0) {
        fprintf(stderr, "net_client: %s\n", err.text);
        return 2;
    }
    tool.ask.headers = tool.header;
    (void)fcntl(0, F_SETFL, O_NONBLOCK);
    /* A file or /dev/null as input cannot be watched, and has no commands. */
    if (gs_loop_fd_add(tool.loop, 0, EPOLLIN, on_input, NULL) == -EPERM)
        fprintf(stderr, "net_client: no commands from this input\n");
    start_more();
    if (tool.running || tool.hold) {
        if (gs_loop_run(tool.loop) < 0)
            return 2;
    }
    struct gs_http_client_stats stats;
    gs_http_client_get_stats(tool.client, &stats);
    printf("stats calls=%lu failed=%lu connections=%lu active=%lu\n", (unsigned long)stats.calls,
           (unsigned long)stats.failed, (unsigned long)stats.connections,
           (unsigned long)stats.active);
    tool.next = tool.n_urls;
    tool.client = gs_http_client_free(tool.client);
    tool.loop = gs_loop_free(tool.loop);
    for (int i = 0; i < tool.n_urls; i++)
        free(tool.url[i]);
    for (size_t i = 0; i < 8; i++)
        gs_secret_wipe(&loaded[i]);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    struct gs_http_client_options o = {0};
    int letter, repeat = 1;

    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (!set_identity(letter, &o) && !set_call(letter, &repeat))
            return 2;
    }
    for (int r = 0; r < repeat; r++) {
        for (int i = optind; i < argc && tool.n_urls < MAX_CALLS; i++)
            tool.url[tool.n_urls++] = strdup(argv[i]);
    }
    return run(&o);
}
