/* API server and network of the control model, in place of net/http_client.c: the real clients in
 * kube/ call it. What a client gave up stays with the server, for any time. */
#include "control_world.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/clock.h"
#include "net/http_client.h"

struct world world = {.now_ms = 1};

struct gs_http_client {
    struct gs_loop *loop;
};

struct gs_http_call {
    struct gs_http_call *next;
    char method[8], url[256], body[4096];
    long late_ms;
    gs_http_done_fn *done; /**< NULL: nobody waits */
    void *user;
};

static struct gs_http_call *calls;
static unsigned n_calls;

void die(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)fprintf(stderr, "seed %llu, step %lu, %ld ms: ", world.seed, world.step, world.now_ms);
    (void)vfprintf(stderr, fmt, args);
    (void)fputc('\n', stderr);
    va_end(args);
    exit(1);
}

unsigned rnd(unsigned below)
{
    world.state ^= world.state << 13;
    world.state ^= world.state >> 7;
    world.state ^= world.state << 17;
    return (unsigned)((world.state >> 16) % below);
}

bool chance(unsigned percent)
{
    return rnd(100) < percent;
}

/* ---- pods ---- */

static void put_containers(const struct pod *p, struct gs_buf *buf)
{
    if (p->init_mem > 0)
        gs_buf_addf(buf,
                    "\"initContainers\":[{\"name\":\"i\",\"resources\":{\"limits\":{"
                    "\"nvidia.com/gpu\":1,\"nvidia.com/gpumem\":%d,\"nvidia.com/gpucores\":%d}}}],",
                    p->init_mem, p->cores);
    gs_buf_addf(buf,
                "\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"nvidia.com/gpu\":%d,"
                "\"nvidia.com/gpumem\":%d,\"nvidia.com/gpucores\":%d}}}]",
                p->cards, p->mem, p->cores);
}

void world_put_pod(const struct pod *p, int slot, struct gs_buf *buf)
{
    gs_buf_addf(buf,
                "{\"metadata\":{\"name\":\"s%d\",\"namespace\":\"ns\",\"uid\":\"u%u\","
                "\"resourceVersion\":\"%lu\",\"labels\":{\"hami.io/vgpu-node\":\"x\"},"
                "\"annotations\":{\"hami.io/bind-time\":\"%s\"",
                slot, p->serial, p->version, p->bind_time);
    if (p->fence[0] != '\0')
        gs_buf_addf(buf, ",\"gpuslice.io/fence\":\"%s\"", p->fence);
    if (p->grant[0] != '\0')
        gs_buf_addf(buf, ",\"hami.io/vgpu-devices-allocated\":\"%s\"", p->grant);
    gs_buf_adds(buf, "}");
    if (p->is_ending)
        gs_buf_adds(buf, ",\"deletionTimestamp\":\"2030-01-01T00:00:00Z\"");
    gs_buf_adds(buf, "},\"spec\":{\"terminationGracePeriodSeconds\":0,");
    if (p->node >= 0)
        gs_buf_addf(buf, "\"nodeName\":\"n%d\",", p->node);
    put_containers(p, buf);
    gs_buf_addf(buf, "},\"status\":{\"phase\":\"%s\"",
                p->is_over      ? "Succeeded"
                : p->is_running ? "Running"
                                : "Pending");
    if (p->inits_done)
        gs_buf_adds(buf, ",\"initContainerStatuses\":[{\"name\":\"i\",\"state\":{\"terminated\":"
                         "{\"exitCode\":0}}}]");
    if (p->is_running)
        gs_buf_adds(buf, ",\"containerStatuses\":[{\"name\":\"c\",\"state\":{\"running\":{}}}]");
    if (p->is_refused)
        gs_buf_adds(buf, ",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
                         "\"reason\":\"Unschedulable\"}]");
    gs_buf_adds(buf, "}}");
}

void world_answer_pod(const struct pod *p, int slot, struct gs_buf *buf)
{
    struct pod told = *p;

    told.is_refused = p->is_refused && !world.hides_refusals;
    world_put_pod(&told, slot, buf);
}

void world_changed(struct pod *p, bool is_gone)
{
    p->version = ++world.version;
    world.publish(&(struct event){.at = (int)(p - world.pod), .is_gone = is_gone, .snapshot = *p});
}

void world_refuse(struct pod *p)
{
    if (p->node >= 0 || p->is_refused || chance(10)) /* its own write fails, too */
        return;
    p->is_refused = true;
    world_changed(p, false);
}

void world_create(struct pod *p)
{
    *p = (struct pod){.is_there = true,
                      .serial = ++world.serials,
                      .cards = 1 + (int)rnd(8) / 6,
                      .mem = 500 * (1 + (int)rnd(20)),
                      .cores = chance(10) ? 100 : (int)rnd(60),
                      .init_mem = chance(20) ? 500 * (1 + (int)rnd(30)) : 0,
                      .node = -1,
                      .chosen = -1};
    world_changed(p, false);
}

void world_stop(struct pod *p)
{
    if (!p->is_running)
        return;
    p->is_running = false;
    world_changed(p, false);
}

void world_kill(struct pod *p)
{
    for (int i = 0; i < GHOSTS && p->is_running && !p->is_over; i++)
        if (world.ghost[i].dies_ms <= world.now_ms) {
            world.ghost[i].pod = *p;
            world.ghost[i].dies_ms = world.now_ms + 1 + (long)rnd(RUN_ON - 1);
            world.count.ghosts++;
            break;
        }
    p->is_there = false;
    world_changed(p, true);
}

void world_destroy(struct pod *p)
{
    world_stop(p);
    p->is_there = false;
    world_changed(p, true);
}

/* ---- the server ---- */

struct answer {
    int status;
    struct gs_buf body;
};

static void refuse(struct answer *a, int status, const char *reason)
{
    a->status = status;
    gs_buf_addf(&a->body, "{\"kind\":\"Status\",\"code\":%d,\"reason\":\"%s\"}", status, reason);
}

static void copy_note(yyjson_val *meta, const char *key, char *at, size_t size)
{
    const char *text = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(meta, "annotations"), key));

    (void)snprintf(at, size, "%s", text != NULL ? text : "");
}

static bool is_it(yyjson_val *meta, const struct pod *p)
{
    char uid[24];

    (void)snprintf(uid, sizeof(uid), "u%u", p->serial);
    return yyjson_equals_str(yyjson_obj_get(meta, "uid"), uid);
}

/* As pkg/registry/core/pod/storage does it. */
static void bind_pod(struct pod *p, yyjson_val *root, struct answer *a)
{
    yyjson_val *meta = yyjson_obj_get(root, "metadata");
    const char *node = yyjson_get_str(yyjson_obj_get(yyjson_obj_get(root, "target"), "name"));
    char version[24];

    (void)snprintf(version, sizeof(version), "%lu", p->version);
    if (!is_it(meta, p) || p->node >= 0 || p->is_ending || node == NULL ||
        (!world.ignores_versions &&
         !yyjson_equals_str(yyjson_obj_get(meta, "resourceVersion"), version))) {
        refuse(a, 409, "Conflict");
        return;
    }
    p->node = atoi(node + 1);
    p->is_refused = false;
    copy_note(meta, "hami.io/vgpu-devices-allocated", p->grant, sizeof(p->grant));
    copy_note(meta, "hami.io/bind-time", p->bind_time, sizeof(p->bind_time));
    world_changed(p, false);
    a->status = 201;
    gs_buf_adds(&a->body, "{\"kind\":\"Status\",\"status\":\"Success\"}");
}

static void patch_pod(struct pod *p, yyjson_val *root, struct answer *a)
{
    yyjson_val *meta = yyjson_obj_get(root, "metadata");
    char text[64];

    copy_note(meta, "gpuslice.io/fence", text, sizeof(text));
    if (!is_it(meta, p)) {
        refuse(a, 409, "Conflict");
        return;
    }
    if (text[0] == '\0')
        die("a patch that is no fence");
    if (strcmp(text, p->fence) != 0) { /* else nothing changes */
        memcpy(p->fence, text, sizeof(p->fence));
        world_changed(p, false);
    }
    a->status = 200;
    world_answer_pod(p, (int)(p - world.pod), &a->body);
}

static void put_lease(struct answer *a)
{
    a->status = 200;
    gs_buf_addf(&a->body,
                "{\"metadata\":{\"name\":\"lease\"},\"spec\":{\"holderIdentity\":\"%d\","
                "\"leaseTransitions\":%d}}",
                world.holder, world.transitions);
}

static void effect(const struct gs_http_call *call, struct answer *a)
{
    yyjson_doc *doc = call->body[0] != '\0' ? yyjson_read(call->body, strlen(call->body), 0) : NULL;
    char sub[16] = "";
    struct pod *p;
    int slot;

    if (strstr(call->url, "/leases/") != NULL) {
        put_lease(a);
        return;
    }
    if (sscanf(call->url, "http://api/api/v1/namespaces/ns/pods/s%d/%15[a-z]", &slot, sub) < 1)
        die("%s %s", call->method, call->url);
    p = &world.pod[slot];
    if (!p->is_there)
        refuse(a, 404, "NotFound");
    else if (strcmp(sub, "binding") == 0)
        bind_pod(p, yyjson_doc_get_root(doc), a);
    else if (strcmp(call->method, "PATCH") == 0)
        patch_pod(p, yyjson_doc_get_root(doc), a);
    else {
        a->status = 200;
        world_answer_pod(p, (int)(p - world.pod), &a->body);
    }
    yyjson_doc_free(doc);
}

/* ---- calls ---- */

static void take_out(struct gs_http_call *call)
{
    struct gs_http_call **at = &calls;

    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    n_calls--;
    free(call);
}

/* Tell who waits; the call stays with the server. */
static void tell(struct gs_http_call *call, int rc, int status, struct gs_str body)
{
    struct gs_http_answer answer = {.rc = rc,
                                    .status = status,
                                    .body = body,
                                    .retry_after_s = status == 429 ? 1 : -1,
                                    .error = rc < 0 ? "broken" : ""};
    gs_http_done_fn *done = call->done;

    call->done = NULL;
    if (done != NULL)
        done(call->user, &answer);
}

static void finish(struct gs_http_call *call, bool is_lost)
{
    struct answer a = {0};

    world.count.late += call->done == NULL;
    world.count.lost += is_lost;
    effect(call, &a);
    if (is_lost)
        tell(call, -ECONNRESET, 0, (struct gs_str){0});
    else
        tell(call, 0, a.status, gs_buf_str(&a.body));
    gs_buf_fini(&a.body);
    take_out(call);
}

/* The client is told a thing that ends it, and the server has the request still. */
static void lie(struct gs_http_call *call, unsigned how)
{
    bool is_post = strcmp(call->method, "POST") == 0;

    world.count.lies++;
    if (how == 0)
        tell(call, -ECONNRESET, 0, (struct gs_str){0});
    else if (how == 1 && is_post) /* the store's "context deadline exceeded" */
        tell(call, 0, 409, GS_STR("{\"kind\":\"Status\",\"reason\":\"Conflict\"}"));
    else
        tell(call, 0, how == 2 ? 500 : 504, GS_STR("{}"));
    if (strcmp(call->method, "GET") == 0)
        take_out(call);
}

static void serve(struct gs_http_call *call)
{
    unsigned fate = rnd(100);

    if (call->done == NULL && fate >= 10)
        return;
    if (call->done == NULL) {
        if (fate < 7)
            finish(call, false);
        else
            take_out(call);
    } else if (fate < 60) {
        finish(call, false);
    } else if (fate < 66) {
        finish(call, true);
    } else if (fate < 80) {
        lie(call, rnd(4));
    } else if (fate < 83) {
        tell(call, 0, 429, GS_STR("{}"));
        take_out(call);
    } else if (fate < 85 && strcmp(call->method, "POST") == 0) {
        tell(call, 0, 403, GS_STR("{}"));
        take_out(call);
    } /* else: it takes its time */
}

void world_serve(void)
{
    struct gs_http_call *next, *call = calls;

    for (; call != NULL; call = next) {
        next = call->next;
        if (call->done != NULL && call->late_ms <= world.now_ms) {
            tell(call, -ETIMEDOUT, 0, (struct gs_str){0});
            return; /* the list may be another now */
        }
    }
    if (n_calls == 0)
        return;
    call = calls;
    for (unsigned skip = rnd(n_calls); skip > 0; skip--)
        call = call->next;
    serve(call);
}

bool world_drain(void)
{
    if (calls == NULL)
        return false;
    if (calls->done == NULL && chance(50))
        take_out(calls);
    else
        finish(calls, false);
    return true;
}

/* ---- in place of net/http_client.c ---- */

int gs_http_client_new(struct gs_loop *loop, const struct gs_http_client_options *options,
                       struct gs_http_client **ret_client, struct gs_err *err)
{
    (void)options;
    (void)err;
    *ret_client = calloc(1, sizeof(**ret_client));
    if (*ret_client == NULL)
        return -ENOMEM;
    (*ret_client)->loop = loop;
    return 0;
}

struct gs_http_client *gs_http_client_free(struct gs_http_client *client)
{
    free(client);
    return NULL;
}

int gs_http_client_set_token(struct gs_http_client *client, const char *token)
{
    (void)client;
    (void)token;
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
    struct gs_http_call *call = calloc(1, sizeof(*call));
    long deadline_ms = (long)(ask->deadline_ns / GS_CLOCK_MS);

    (void)client;
    (void)err;
    if (call == NULL || ask->body.n >= sizeof(call->body))
        die("no room for a call");
    (void)snprintf(call->method, sizeof(call->method), "%s", ask->method);
    (void)snprintf(call->url, sizeof(call->url), "%s", ask->url);
    if (ask->body.n > 0)
        memcpy(call->body, ask->body.p, ask->body.n);
    call->late_ms = world.now_ms + (long)ask->timeout_ms;
    if (deadline_ms > 0 && deadline_ms < call->late_ms)
        call->late_ms = deadline_ms;
    call->done = ask->done;
    call->user = ask->user;
    call->next = calls;
    calls = call;
    n_calls++;
    world.count.calls++;
    *ret_call = call;
    return 0;
}

void gs_http_client_cancel(struct gs_http_call *call)
{
    if (strcmp(call->method, "GET") == 0)
        take_out(call);
    else
        call->done = NULL;
}
