#include "kube/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/clock.h"
#include "core/list.h"
#include "kube/answer.h"
#include "kube/auth.h"
#include "kube/config.h"
#include "kube/url.h"
#include "net/http_client.h"
#include "net/loop.h"

#define TIMEOUT_MS     30000
#define TRY_MS         10000
#define IN_FLIGHT      64
#define BODY_MAX       ((size_t)64 << 20)
#define BACKOFF_MS     100u
#define BACKOFF_MAX_MS 5000u
#define TRIES_MAX      12
#define HEADERS_MAX    64
#define REFUSED_MAX    1 /* a refused credential is renewed once per request */

enum state {
    STATE_QUEUED,  /**< in the queue: no room yet, or no credential */
    STATE_RUNNING, /**< at the HTTP client */
    STATE_PAUSED,  /**< waits for its next try */
};

struct request {
    struct gs_kube_client *client;
    GS_LINK(struct request) link; /**< in client->requests */
    uint64_t ticket;
    enum state state;
    enum gs_kube_verb verb;
    struct gs_buf url, body;
    bool is_idempotent, is_single, wants_json, is_stream;
    bool is_unsure;       /**< a try that ended may have been carried out */
    uint64_t deadline_ns; /**< 0: none */
    uint32_t try_ms, idle_ms, tries, refused;
    struct gs_loop_timer timer; /**< deadline while queued; next try while paused */
    struct gs_http_call *call;
    gs_kube_chunk_fn *chunk;
    gs_kube_fn *fn;
    void *arg;
};

struct gs_kube_client {
    struct gs_kube_config config;
    struct gs_loop *loop;
    struct gs_http_client *http;
    struct gs_kube_auth *auth;
    GS_LIST(struct request) requests; /**< oldest first */
    struct gs_loop_task pump;
    const char *headers[HEADERS_MAX];
    size_t n_headers;
    uint32_t timeout_ms, try_ms, max_in_flight;
    size_t max_body;
    uint64_t random, ticket;
    struct gs_kube_client_stats stats;
};

static void on_done(void *user, const struct gs_http_answer *http);
static bool on_chunk(void *user, const struct gs_http_answer *http, const char *bytes, size_t n);

uint32_t gs_kube_client_jitter(struct gs_kube_client *client, uint32_t below)
{
    uint64_t x = client->random;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    client->random = x;
    return below > 0 ? (uint32_t)(x >> 32) % below : 0;
}

static void request_free(struct request *r)
{
    struct gs_kube_client *client = r->client;

    gs_loop_timer_cancel(client->loop, &r->timer);
    if (r->state == STATE_RUNNING)
        gs_http_client_cancel(r->call);
    if (r->state == STATE_RUNNING && !r->is_stream)
        client->stats.in_flight--;
    GS_LIST_REMOVE(&client->requests, r, link);
    gs_buf_fini(&r->url);
    gs_buf_fini(&r->body);
    free(r);
}

static void pump(void *user);

static void pump_later(struct gs_kube_client *client)
{
    gs_loop_defer(client->loop, &client->pump, pump, client);
}

/* Tell the caller and forget the request. */
static void finish(struct request *r, struct gs_kube_answer *a)
{
    struct gs_kube_client *client = r->client;
    gs_kube_fn *fn = r->fn;
    void *arg = r->arg;
    const char *path = r->url.p + strlen(client->config.server);

    a->result.tries = r->tries;
    a->result.did_nothing = a->result.rc < 0 && !r->is_unsure;
    if (a->result.rc < 0) {
        client->stats.errors++;
        gs_err_wrap(&a->err, a->result.rc, "%s %.*s", gs_kube_url_method(r->verb),
                    (int)strcspn(path, "?"), path);
    }
    request_free(r);
    pump_later(client);
    fn(arg, &a->result);
    gs_kube_answer_fini(a);
}

static void fail(struct request *r, int rc, const char *why)
{
    struct gs_kube_answer a;

    gs_kube_answer_fail(&a, rc, why);
    finish(r, &a);
}

static void on_deadline(void *user)
{
    fail(user, -ETIMEDOUT, "deadline passed before it could be sent");
}

/* Into the queue; it keeps its place among the requests. */
static void enqueue(struct request *r)
{
    r->state = STATE_QUEUED;
    if (r->deadline_ns)
        gs_loop_timer_at(r->client->loop, &r->timer, r->deadline_ns, on_deadline, r);
    pump_later(r->client);
}

static void on_pause_end(void *user)
{
    enqueue(user);
}

/* Try again after a while, where the deadline leaves one. */
static bool pause_for(struct request *r, const struct gs_kube_answer *a)
{
    struct gs_kube_client *client = r->client;
    uint32_t shift = r->tries > 8 ? 8 : r->tries - 1;
    uint32_t most = BACKOFF_MS << shift > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : BACKOFF_MS << shift;
    uint64_t wait_ms = most / 2 + gs_kube_client_jitter(client, most / 2 + 1);
    uint64_t at_ns;

    if (wait_ms < a->result.retry_after_ms) /* all clients were told the same moment */
        wait_ms = a->result.retry_after_ms + gs_kube_client_jitter(client, most);
    at_ns = gs_loop_now_ns(client->loop) + wait_ms * GS_CLOCK_MS;
    if (r->tries >= TRIES_MAX || (r->deadline_ns && at_ns >= r->deadline_ns))
        return false;
    client->stats.retries++;
    r->state = STATE_PAUSED;
    gs_loop_timer_at(client->loop, &r->timer, at_ns, on_pause_end, r);
    return true;
}

/* The HTTP client is done with it: an end, or another try? */
static void settle(struct request *r, struct gs_kube_answer *a)
{
    struct gs_kube_client *client = r->client;

    if (a->result.status == 429)
        client->stats.throttled++;
    if (a->result.status > 0)
        client->stats.answers++;
    if (a->result.status == 401 && r->refused < REFUSED_MAX && !r->is_stream) {
        r->refused++;
        if (gs_kube_auth_refused(client->auth)) {
            client->stats.retries++;
            gs_kube_answer_fini(a);
            enqueue(r);
            return;
        }
    }
    if (a->result.status == 401 && r->is_stream)
        (void)gs_kube_auth_refused(client->auth); /* the watcher tries again by itself */
    if (a->result.rc < 0 && !r->is_single && gs_kube_answer_is_passing(a, r->is_idempotent) &&
        pause_for(r, a)) {
        gs_kube_answer_fini(a);
        pump_later(client);
        return;
    }
    finish(r, a);
}

static void on_done(void *user, const struct gs_http_answer *http)
{
    struct request *r = user;
    struct gs_kube_answer a;

    r->call = NULL;
    r->state = STATE_PAUSED;
    if (!r->is_stream)
        r->client->stats.in_flight--;
    gs_kube_answer_read(&a, http, r->client->max_body, r->wants_json);
    r->is_unsure |= !gs_kube_answer_did_nothing(&a);
    settle(r, &a);
}

static bool on_chunk(void *user, const struct gs_http_answer *http, const char *bytes, size_t n)
{
    struct request *r = user;

    (void)http; /* only 2xx bodies come here */
    return r->chunk(r->arg, bytes, n);
}

static const char *type_of(enum gs_kube_verb verb)
{
    if (verb == GS_KUBE_MERGE)
        return "application/merge-patch+json";
    if (verb == GS_KUBE_PATCH)
        return "application/json-patch+json";
    return "application/json";
}

static void start(struct request *r)
{
    struct gs_kube_client *client = r->client;
    struct gs_kube_answer a;
    struct gs_err err = {0};
    struct gs_http_ask ask = {
        .method = gs_kube_url_method(r->verb),
        .url = gs_buf_text(&r->url),
        .headers = client->headers,
        .n_headers = client->n_headers,
        .body = {r->body.p, r->body.n},
        .type = type_of(r->verb),
        .timeout_ms = r->try_ms,
        .deadline_ns = r->deadline_ns,
        .head_ms = r->is_stream ? client->try_ms : 0,
        .idle_ms = r->idle_ms,
        .body_limit = client->max_body,
        .is_once = !r->is_idempotent,
        .on_chunk = r->is_stream ? on_chunk : NULL,
        .done = on_done,
        .user = r,
    };
    int rc;

    gs_loop_timer_cancel(client->loop, &r->timer);
    r->tries++;
    client->stats.requests++;
    rc = gs_http_client_start(client->http, &ask, &r->call, &err);
    if (rc == 0) {
        r->state = STATE_RUNNING;
        if (!r->is_stream)
            client->stats.in_flight++;
        return;
    }
    r->state = STATE_PAUSED;
    gs_kube_answer_fail(&a, rc, err.text);
    settle(r, &a);
}

/* The oldest that may start. Streams last for minutes and take no place. */
static struct request *startable(const struct gs_kube_client *client, uint64_t upto)
{
    bool has_room = client->stats.in_flight < client->max_in_flight;

    for (struct request *r = client->requests.first; r; r = r->link.next)
        if (r->state == STATE_QUEUED && r->ticket <= upto && (has_room || r->is_stream))
            return r;
    return NULL;
}

/* A start that fails at once calls back, and the callback may end and send requests: look from the
 * front each time, and leave new ones to the next round. */
static void pump(void *user)
{
    struct gs_kube_client *client = user;
    const uint64_t upto = client->ticket;
    struct request *r;

    while ((r = startable(client, upto)) != NULL) {
        if (gs_kube_auth_check(client->auth) == GS_KUBE_AUTH_WAITING)
            return;
        start(r);
    }
}

/* A plugin ended. Without a credential nothing that waits has a chance now; those who want may ask
 * again. */
static void on_auth(void *arg, int rc, const struct gs_err *err)
{
    struct gs_kube_client *client = arg;
    struct request *r;
    uint64_t upto = client->ticket;

    if (rc == 0) {
        pump_later(client);
        return;
    }
    do {
        for (r = client->requests.first; r; r = r->link.next)
            if (r->state == STATE_QUEUED && r->ticket <= upto)
                break;
        if (r)
            fail(r, rc, err->text);
    } while (r);
}

static int add_header(struct gs_kube_client *client, const char *name, const char *value,
                      struct gs_err *err)
{
    const char *line;

    if (client->n_headers == HEADERS_MAX)
        return gs_err_set(err, -E2BIG, "more than %d groups to act as", HEADERS_MAX - 2);
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return gs_err_set(err, -EINVAL, "%s: control character", name);
    line = gs_arena_printf(&client->config.arena, "%s: %s", name, value).p;
    if (!line)
        return -ENOMEM;
    client->headers[client->n_headers++] = line;
    return 0;
}

static int add_headers(struct gs_kube_client *client, struct gs_err *err)
{
    const struct gs_kube_config *config = &client->config;
    int rc = add_header(client, "Accept", "application/json", err);

    if (rc == 0 && config->as)
        rc = add_header(client, "Impersonate-User", config->as, err);
    for (size_t i = 0; rc == 0 && i < config->n_as_groups; i++)
        rc = add_header(client, "Impersonate-Group", config->as_group[i], err);
    return rc;
}

static int open_http(struct gs_kube_client *client, const char *user_agent, struct gs_err *err)
{
    const struct gs_kube_config *c = &client->config;
    struct gs_http_client_options options = {
        .ca_file = c->ca_file,
        .ca_pem = c->ca_pem,
        .cert_file = c->cert_file,
        .cert_pem = c->cert_pem,
        .key_file = c->key_file,
        .key_pem = c->key_pem,
        .token = c->token,
        .token_file = c->token_file,
        .user = c->user,
        .password = c->password,
        .server_name = c->tls_server_name,
        .proxy = c->proxy_url,
        .user_agent = user_agent,
        .insecure = c->is_insecure,
    };

    return gs_http_client_new(client->loop, &options, &client->http, err);
}

static uint64_t random_seed(void)
{
    uint64_t seed = 0;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed) || seed == 0)
        seed = 0x9e3779b97f4a7c15ull; /* too early in boot: any value spreads better than none */
    return seed;
}

int gs_kube_client_new(struct gs_kube_config *config_take, struct gs_loop *loop,
                       const struct gs_kube_client_opt *opt, struct gs_kube_client **ret_client,
                       struct gs_err *err)
{
    static const struct gs_kube_client_opt none = {0};
    struct gs_kube_client *client = calloc(1, sizeof(*client));
    int rc;

    if (!client)
        return gs_err_set(err, -ENOMEM, "no memory for a client");
    opt = opt ? opt : &none;
    client->config = *config_take;
    client->loop = loop;
    client->timeout_ms = opt->timeout_ms ? opt->timeout_ms : TIMEOUT_MS;
    client->try_ms = opt->try_ms ? opt->try_ms : TRY_MS;
    client->max_in_flight = opt->max_in_flight ? opt->max_in_flight : IN_FLIGHT;
    client->max_body = opt->max_body ? opt->max_body : BODY_MAX;
    client->random = opt->seed ? opt->seed : random_seed();
    rc = add_headers(client, err);
    if (rc == 0)
        rc = open_http(client, opt->user_agent ? opt->user_agent : "gpuslice", err);
    if (rc == 0)
        rc = gs_kube_auth_new(&client->config, loop, client->http, on_auth, client, &client->auth);
    if (rc < 0) {
        *config_take = client->config; /* what the headers took of its arena stays there */
        client->config = (struct gs_kube_config){0};
        gs_kube_client_free(client);
        return rc;
    }
    *config_take = (struct gs_kube_config){0};
    *ret_client = client;
    return 0;
}

struct gs_kube_client *gs_kube_client_free(struct gs_kube_client *client)
{
    if (!client)
        return NULL;
    while (client->requests.first)
        request_free(client->requests.first);
    gs_loop_task_cancel(client->loop, &client->pump);
    gs_kube_auth_free(client->auth);
    gs_http_client_free(client->http);
    gs_kube_config_fini(&client->config);
    free(client);
    return NULL;
}

static bool is_idempotent(enum gs_kube_verb verb)
{
    return verb != GS_KUBE_CREATE && verb != GS_KUBE_PATCH;
}

static int new_request(struct gs_kube_client *client, const struct gs_kube_req *req,
                       const char *query, struct request **ret, struct gs_err *err)
{
    struct request *r = calloc(1, sizeof(*r));
    uint32_t timeout_ms = req->timeout_ms ? req->timeout_ms : client->timeout_ms;
    int rc;

    if (!r)
        return gs_err_set(err, -ENOMEM, "no memory for a request");
    rc = gs_kube_url_put(&r->url, client->config.server, req, query, err);
    gs_buf_put(&r->body, req->body);
    if (rc == 0 && gs_buf_check(&r->body) < 0)
        rc = gs_err_set(err, -ENOMEM, "no memory for a request");
    if (rc < 0) {
        gs_buf_fini(&r->url);
        gs_buf_fini(&r->body);
        free(r);
        return rc;
    }
    r->client = client;
    r->verb = req->verb;
    r->is_idempotent = req->is_idempotent || is_idempotent(req->verb);
    r->is_single = req->is_single_try;
    r->wants_json = req->resource != NULL;
    r->try_ms = req->try_ms ? req->try_ms : client->try_ms;
    r->deadline_ns = gs_loop_now_ns(client->loop) + timeout_ms * GS_CLOCK_MS;
    r->ticket = ++client->ticket;
    *ret = r;
    return 0;
}

static void add_request(struct request *r, uint64_t *ret_ticket)
{
    struct gs_kube_client *client = r->client;

    GS_LIST_APPEND(&client->requests, r, link);
    if (ret_ticket)
        *ret_ticket = r->ticket;
    enqueue(r);
}

int gs_kube_client_send(struct gs_kube_client *client, const struct gs_kube_req *req,
                        gs_kube_fn *fn, void *arg, uint64_t *ret_ticket, struct gs_err *err)
{
    struct request *r = NULL;
    int rc = new_request(client, req, NULL, &r, err);

    if (rc < 0)
        return rc;
    r->fn = fn;
    r->arg = arg;
    add_request(r, ret_ticket);
    return 0;
}

int gs_kube_client_stream(struct gs_kube_client *client, const struct gs_kube_req *req,
                          const struct gs_kube_stream *stream, void *arg, uint64_t *ret_ticket,
                          struct gs_err *err)
{
    struct request *r = NULL;
    int rc = new_request(client, req, stream->query, &r, err);

    if (rc < 0)
        return rc;
    r->is_stream = r->is_single = true;
    r->wants_json = false;
    r->try_ms = 0;
    if (req->timeout_ms == 0)
        r->deadline_ns = 0;
    r->idle_ms = stream->idle_ms;
    r->chunk = stream->chunk;
    r->fn = stream->done;
    r->arg = arg;
    add_request(r, ret_ticket);
    return 0;
}

void gs_kube_client_cancel(struct gs_kube_client *client, uint64_t ticket)
{
    for (struct request *r = client->requests.first; r; r = r->link.next)
        if (r->ticket == ticket) {
            request_free(r);
            pump_later(client);
            return;
        }
}

void gs_kube_client_stats(const struct gs_kube_client *client, struct gs_kube_client_stats *ret)
{
    *ret = client->stats;
    ret->waiting = 0;
    for (const struct request *r = client->requests.first; r; r = r->link.next)
        ret->waiting += r->state != STATE_RUNNING;
}

struct gs_loop *gs_kube_client_loop(const struct gs_kube_client *client)
{
    return client->loop;
}
