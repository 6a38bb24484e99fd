/* Load for the scheduler: posts prepared bodies over one kept-alive connection, one after the
 * other, and says in one line of JSON how long each took from the first byte sent to the last one
 * read.
 *
 * usage: scheduler_client PORT PATH BODIES COUNT [--tls] [--expect TEXT] [--raw FILE] [--rate N]
 *   BODIES   a file of bodies, each behind a line with its length in bytes; used in turn
 *   --tls    HTTPS; the certificate is not looked at
 *   --expect end with status 1 unless every answer has this text in it
 *   --raw    write every time there, in nanoseconds, a line each
 *   --rate   calls a second, evenly spaced; 0: as fast as answers come
 */

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BODIES_MAX 4096u
#define WARM_UP    20u

struct request {
    char *text; /**< head and body */
    size_t n;
};

struct client {
    int fd;
    gnutls_session_t tls; /**< NULL: none */
    struct request request[BODIES_MAX];
    size_t n_requests;
    char *answer;
    size_t cap, n;
    const char *expect;
};

static void die(const char *what)
{
    (void)fprintf(stderr, "scheduler_client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *need(void *p)
{
    if (p == NULL)
        die("no memory");
    return p;
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void read_bodies(struct client *c, const char *path, const char *target)
{
    FILE *f = fopen(path, "r");
    char line[32];

    if (f == NULL)
        die(path);
    while (c->n_requests < BODIES_MAX && fgets(line, sizeof(line), f) != NULL) {
        size_t n = (size_t)strtoull(line, NULL, 10);
        struct request *r = &c->request[c->n_requests++];
        int head;

        r->text = need(malloc(n + 256));
        head = snprintf(r->text, 256,
                        "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                        "Content-Length: %zu\r\n\r\n",
                        target, n);
        if (fread(r->text + head, 1, n, f) != n)
            die("bodies cut short");
        r->n = (size_t)head + n;
    }
    (void)fclose(f);
    if (c->n_requests == 0)
        die("no bodies");
}

static void connect_to(struct client *c, int port, bool is_tls)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    gnutls_certificate_credentials_t none;
    int on = 1, rc;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
        die("connect");
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (!is_tls)
        return;
    (void)gnutls_certificate_allocate_credentials(&none);
    (void)gnutls_init(&c->tls, GNUTLS_CLIENT);
    (void)gnutls_set_default_priority(c->tls);
    (void)gnutls_credentials_set(c->tls, GNUTLS_CRD_CERTIFICATE, none);
    gnutls_transport_set_int(c->tls, c->fd);
    do
        rc = gnutls_handshake(c->tls);
    while (rc < 0 && gnutls_error_is_fatal(rc) == 0);
    if (rc < 0)
        die(gnutls_strerror(rc));
}

static void send_all(struct client *c, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent =
            c->tls != NULL ? gnutls_record_send(c->tls, p, n) : send(c->fd, p, n, MSG_NOSIGNAL);

        if (sent <= 0)
            die("send");
        p += sent;
        n -= (size_t)sent;
    }
}

static void read_more(struct client *c)
{
    ssize_t got;

    if (c->cap - c->n < 65536) {
        c->cap = c->cap * 2 + 131072;
        c->answer = need(realloc(c->answer, c->cap + 1));
    }
    do
        got = c->tls != NULL ? gnutls_record_recv(c->tls, c->answer + c->n, c->cap - c->n)
                             : recv(c->fd, c->answer + c->n, c->cap - c->n, 0);
    while (c->tls != NULL && (got == GNUTLS_E_AGAIN || got == GNUTLS_E_INTERRUPTED));
    if (got <= 0)
        die("the server hung up");
    c->n += (size_t)got;
    c->answer[c->n] = '\0';
}

/* One answer with a Content-Length. */
static void receive(struct client *c)
{
    const char *body, *length;
    size_t whole;

    c->n = 0;
    do
        read_more(c);
    while ((body = strstr(c->answer, "\r\n\r\n")) == NULL);
    length = strcasestr(c->answer, "\r\nContent-Length:");
    if (strncmp(c->answer, "HTTP/1.1 200", 12) != 0 || length == NULL || length > body) {
        (void)fprintf(stderr, "scheduler_client: unexpected answer: %.300s\n", c->answer);
        exit(1);
    }
    whole = (size_t)(body + 4 - c->answer) + (size_t)strtoull(length + 17, NULL, 10);
    while (c->n < whole)
        read_more(c);
    if (c->expect != NULL && strstr(c->answer, c->expect) == NULL) {
        (void)fprintf(stderr, "scheduler_client: no '%s' in: %.300s\n", c->expect, c->answer);
        exit(1);
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static void report(uint64_t *ns, size_t n, const char *raw, size_t bytes)
{
    FILE *f = raw != NULL ? fopen(raw, "w") : NULL;

    for (size_t i = 0; f != NULL && i < n; i++)
        (void)fprintf(f, "%llu\n", (unsigned long long)ns[i]);
    if (f != NULL)
        (void)fclose(f);
    qsort(ns, n, sizeof(*ns), by_value);
    (void)printf("{\"calls\":%zu,\"p50_ms\":%.4f,\"p90_ms\":%.4f,\"p99_ms\":%.4f,\"max_ms\":%.4f,"
                 "\"answer_bytes\":%zu}\n",
                 n, (double)ns[n / 2] / 1e6, (double)ns[n * 9 / 10] / 1e6,
                 (double)ns[n * 99 / 100] / 1e6, (double)ns[n - 1] / 1e6, bytes);
}

static void wait_until(uint64_t at)
{
    struct timespec ts = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR) {
    }
}

int main(int argc, char **argv)
{
    static struct client c;
    const char *raw = NULL;
    uint64_t *ns, began, rate = 0;
    bool is_tls = false;
    size_t count;

    for (int i = 5; i < argc; i++) {
        if (strcmp(argv[i], "--tls") == 0)
            is_tls = true;
        else if (strcmp(argv[i], "--expect") == 0 && i + 1 < argc)
            c.expect = argv[++i];
        else if (strcmp(argv[i], "--raw") == 0 && i + 1 < argc)
            raw = argv[++i];
        else if (strcmp(argv[i], "--rate") == 0 && i + 1 < argc)
            rate = strtoull(argv[++i], NULL, 10);
        else
            argc = 0;
    }
    if (argc < 5) {
        (void)fprintf(stderr, "usage: scheduler_client PORT PATH BODIES COUNT [--tls] [--expect "
                              "TEXT] [--raw FILE] [--rate N]\n");
        return 2;
    }
    count = (size_t)strtoull(argv[4], NULL, 10);
    ns = need(calloc(count + 1, sizeof(*ns)));
    read_bodies(&c, argv[3], argv[2]);
    connect_to(&c, atoi(argv[1]), is_tls);
    began = now_ns();
    for (size_t i = 0; i < count + WARM_UP; i++) {
        const struct request *r = &c.request[i % c.n_requests];
        uint64_t start;

        if (rate > 0)
            wait_until(began + i * 1000000000u / rate);
        start = now_ns();
        send_all(&c, r->text, r->n);
        receive(&c);
        if (i >= WARM_UP)
            ns[i - WARM_UP] = now_ns() - start;
    }
    if (count > 0)
        report(ns, count, raw, c.n);
    free(ns);
    return 0;
}
