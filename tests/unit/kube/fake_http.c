#include "fake_http.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kube/config.h"

struct gs_http_client {
    struct gs_loop *loop;
};

static struct gs_http_call *calls;
static char token[256];

int gs_http_client_new(struct gs_loop *loop, const struct gs_http_client_options *options,
                       struct gs_http_client **ret_client, struct gs_err *err)
{
    (void)options;
    (void)err;
    *ret_client = calloc(1, sizeof(**ret_client));
    (*ret_client)->loop = loop;
    token[0] = '\0';
    return 0;
}

struct gs_http_client *gs_http_client_free(struct gs_http_client *client)
{
    assert_null(calls);
    free(client);
    return NULL;
}

int gs_http_client_set_token(struct gs_http_client *client, const char *text)
{
    (void)client;
    (void)snprintf(token, sizeof(token), "%s", text ? text : "");
    return 0;
}

int gs_http_client_set_cert(struct gs_http_client *client, struct gs_str cert_pem,
                            struct gs_str key_pem)
{
    (void)client;
    (void)cert_pem;
    (void)key_pem;
    return 0;
}

int gs_http_client_start(struct gs_http_client *client, const struct gs_http_ask *ask,
                         struct gs_http_call **ret_call, struct gs_err *err)
{
    struct gs_http_call *call = calloc(1, sizeof(*call)), **at = &calls;

    (void)client;
    (void)err;
    (void)snprintf(call->method, sizeof(call->method), "%s", ask->method);
    (void)snprintf(call->url, sizeof(call->url), "%s", ask->url);
    (void)snprintf(call->type, sizeof(call->type), "%s", ask->type ? ask->type : "");
    (void)snprintf(call->body, sizeof(call->body), "%.*s", (int)ask->body.n,
                   ask->body.p ? ask->body.p : "");
    call->timeout_ms = ask->timeout_ms;
    call->idle_ms = ask->idle_ms;
    call->on_chunk = ask->on_chunk;
    call->done = ask->done;
    call->user = ask->user;
    while (*at)
        at = &(*at)->next;
    *at = call;
    *ret_call = call;
    return 0;
}

static bool is_open(const struct gs_http_call *call)
{
    for (const struct gs_http_call *c = calls; c; c = c->next)
        if (c == call)
            return true;
    return false;
}

static void take_out(struct gs_http_call *call)
{
    struct gs_http_call **at = &calls;

    while (*at && *at != call)
        at = &(*at)->next;
    assert_non_null(*at);
    *at = call->next;
}

void gs_http_client_cancel(struct gs_http_call *call)
{
    take_out(call);
    free(call);
}

static void finish(struct gs_http_call *call, const struct gs_http_answer *answer)
{
    take_out(call);
    call->done(call->user, answer);
    free(call);
}

void fake_answer(struct gs_http_call *call, int status, const char *body, int after_s)
{
    struct gs_http_answer answer = {.status = status,
                                    .body = gs_str_of(body),
                                    .retry_after_s = after_s,
                                    .type = gs_str_of("application/json"),
                                    .error = ""};

    finish(call, &answer);
}

void fake_break(struct gs_http_call *call, int rc)
{
    struct gs_http_answer answer = {.rc = rc, .retry_after_s = -1, .error = "broken"};

    finish(call, &answer);
}

bool fake_chunk_n(struct gs_http_call *call, const char *bytes, size_t n)
{
    struct gs_http_answer answer = {.status = 200, .retry_after_s = -1, .error = ""};
    bool more = call->on_chunk(call->user, &answer, bytes, n);

    if (!is_open(call))
        return false;
    if (!more) {
        answer.rc = -ECANCELED;
        finish(call, &answer);
    }
    return more;
}

bool fake_chunk(struct gs_http_call *call, const char *bytes)
{
    return fake_chunk_n(call, bytes, strlen(bytes));
}

void fake_end(struct gs_http_call *call, int rc)
{
    struct gs_http_answer answer = {
        .rc = rc, .status = 200, .retry_after_s = -1, .error = rc < 0 ? "cut" : ""};

    finish(call, &answer);
}

const char *fake_token(void)
{
    return token;
}

size_t fake_open(void)
{
    size_t n = 0;

    for (const struct gs_http_call *c = calls; c; c = c->next)
        n++;
    return n;
}

void fake_new(struct fake *f, const struct gs_kube_client_opt *opt)
{
    struct gs_kube_client_opt seeded = opt ? *opt : (struct gs_kube_client_opt){0};
    struct gs_kube_config config = {.server = "http://api", .ns = "default"};

    (void)alarm(60); /* nothing here waits for the machine's clock */
    seeded.seed = 42;
    gs_clock_virtual_init(&f->clock, 1700000000ull * GS_CLOCK_S, true);
    assert_int_equal(gs_loop_new(&f->clock.clock, &f->loop), 0);
    assert_int_equal(gs_kube_client_new(&config, f->loop, &seeded, &f->client, NULL), 0);
}

void fake_free(struct fake *f)
{
    f->client = gs_kube_client_free(f->client);
    f->loop = gs_loop_free(f->loop);
}

uint64_t fake_now_ms(const struct fake *f)
{
    return f->clock.mono_ns / GS_CLOCK_MS;
}

static void at_end(void *user)
{
    *(bool *)user = true;
}

struct gs_http_call *fake_next(struct fake *f, uint64_t within_ms)
{
    struct gs_loop_timer timer = {0};
    bool is_late = false;

    gs_loop_timer_in(f->loop, &timer, within_ms, at_end, &is_late);
    while (!calls && !is_late)
        assert_true(gs_loop_step(f->loop, -1) >= 0);
    gs_loop_timer_cancel(f->loop, &timer);
    assert_non_null(calls);
    return calls;
}

void fake_run(struct fake *f, uint64_t ms)
{
    struct gs_loop_timer timer = {0};
    bool is_late = false;

    gs_loop_timer_in(f->loop, &timer, ms, at_end, &is_late);
    while (!is_late)
        assert_true(gs_loop_step(f->loop, -1) >= 0);
}
