#include "node/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "core/list.h"
#include "net/grpc_server.h"
#include "net/loop.h"
#include "node/edits.h"
#include "node/grants.h"
#include "node/handout.h"
#include "node/kubelet_pb.h"
#include "node/provision.h"

const double gs_engine_bin_s[GS_ENGINE_BINS - 1] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                    0.05,   0.1,   0.5,    1,     5};

#define SLOTS_GUESSED 64u

/* Slots of a pod whose ids were named already. */
struct guessed {
    uint64_t slots;
};

/* A call that is answered later. */
struct waiting {
    GS_LINK(struct waiting) link;
    struct gs_engine *engine;
    struct gs_grpc_call *call;
    struct gs_engine_call_stats *stats;
    uint64_t begun_ns;
    struct gs_provision_op *provision; /* one of the two */
    struct gs_handout_op *handout;
};

struct gs_engine {
    struct gs_engine_opt opt;
    char *path;
    struct gs_grpc_route route[5];
    struct gs_grpc_server *server;
    struct gs_kubelet *kubelet;
    struct gs_arena frame; /* of one call */
    struct gs_buf list;    /* the newest, encoded */
    struct gs_map guessed; /* by UID, key behind the block */
    GS_LIST(struct waiting) waiting;
    struct gs_engine_stats stats;
    void (*done)(void *arg);
    void *done_arg;
};

/* ---- counting ---- */

static void count(struct gs_engine *e, struct gs_engine_call_stats *s, uint64_t begun_ns, int rc)
{
    double took_s = (double)(gs_loop_now_ns(e->opt.loop) - begun_ns) / 1e9;
    size_t bin = 0;

    while (bin < GS_ENGINE_BINS - 1 && took_s > gs_engine_bin_s[bin])
        bin++;
    s->calls++;
    s->failed += rc < 0;
    s->bin[bin]++;
    s->sum_s += took_s;
}

/* ---- calls that wait ---- */

static void end_waiting(struct waiting *w, int rc)
{
    count(w->engine, w->stats, w->begun_ns, rc);
    GS_LIST_REMOVE(&w->engine->waiting, w, link);
    free(w);
}

/* The kubelet has gone away meanwhile. */
static void on_gone(void *user)
{
    struct waiting *w = user;

    if (w->provision != NULL)
        gs_provision_cancel(w->provision);
    if (w->handout != NULL)
        gs_handout_cancel(w->handout);
    end_waiting(w, -ECANCELED);
}

static struct waiting *wait_for(struct gs_engine *e, const struct gs_grpc_request *req,
                                struct gs_engine_call_stats *stats)
{
    struct waiting *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return NULL;
    w->engine = e;
    w->stats = stats;
    w->begun_ns = gs_loop_now_ns(e->opt.loop);
    w->call = gs_grpc_server_later(req, on_gone, w);
    GS_LIST_APPEND(&e->waiting, w, link);
    return w;
}

static void refuse(struct waiting *w, int rc, const char *what, const struct gs_err *err)
{
    GS_LOG_WARN("a container cannot start", GS_LOG_CSTR("call", what), GS_LOG_ERR(err));
    gs_grpc_server_refuse(w->call, rc, err->text);
    end_waiting(w, rc);
}

/* ---- GetDevicePluginOptions ---- */

static int on_options(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                      struct gs_err *err)
{
    const struct gs_engine *e = user;
    struct gs_kubelet_options options = {
        .pre_start = e->opt.identity == GS_IDENTITY_PRESTART,
        .prefer = e->opt.prefers,
    };

    (void)req;
    (void)err;
    return gs_kubelet_pb_put_options(ret_message, &options);
}

/* ---- GetPreferredAllocation ---- */

static uint64_t *slots_guessed(struct gs_engine *e, struct gs_str uid)
{
    struct guessed *g = gs_map_find(&e->guessed, uid);
    struct gs_str key;

    if (g == NULL)
        g = gs_map_make(&e->guessed, uid, sizeof(*g), &key);
    return g != NULL ? &g->slots : NULL;
}

void gs_engine_gone(struct gs_engine *e, struct gs_str uid)
{
    free(gs_map_remove(&e->guessed, uid));
}

static bool is_candidate(const struct gs_grants_pod *pod)
{
    return pod->is_pending && pod->is_trusted && pod->grant.n > 0;
}

/* A slot of so many cards that was not named before; -1: none. */
static int next_slot(struct gs_engine *e, const struct gs_grants_pod *pod, size_t size)
{
    const struct guessed *g = gs_map_find(&e->guessed, pod->uid);

    for (size_t s = 0; s < pod->grant.n && s < SLOTS_GUESSED; s++)
        if (pod->grant.slot[s].n == size && (g == NULL || (g->slots >> s & 1) == 0))
            return (int)s;
    return -1;
}

/* The kubelet takes pods in about the order in which they were bound. */
static const struct gs_grants_pod *guess_pod(struct gs_engine *e, size_t size, int *ret_slot)
{
    const struct gs_grants_pod *pod, *best = NULL;
    size_t pos = 0;

    while ((pod = gs_grants_next(e->opt.grants, &pos)) != NULL) {
        int slot;

        if (!is_candidate(pod) ||
            (best != NULL && (pod->bind_s > best->bind_s ||
                              (pod->bind_s == best->bind_s && pod->seen > best->seen))))
            continue;
        slot = next_slot(e, pod, size);
        if (slot >= 0) {
            best = pod;
            *ret_slot = slot;
        }
    }
    return best;
}

static void prefer_one(struct gs_engine *e, const struct gs_kubelet_prefer *want,
                       struct gs_kubelet_texts *ret)
{
    size_t size = want->size > 0 ? (size_t)want->size : 0;
    int slot = -1;
    const struct gs_grants_pod *pod = size > 0 ? guess_pod(e, size, &slot) : NULL;
    struct gs_str *uuid;
    uint64_t *slots;

    if (pod == NULL)
        return;
    uuid = GS_ARENA_ARRAY(&e->frame, size, struct gs_str);
    for (size_t i = 0; uuid != NULL && i < size; i++)
        uuid[i] = gs_grant_card(pod->grant.slot[slot].dev[i].uuid);
    if (uuid == NULL || gs_shares_prefer(want, uuid, size, &e->frame, ret) < 0)
        return;
    slots = slots_guessed(e, pod->uid);
    if (slots != NULL)
        *slots |= UINT64_C(1) << slot;
}

static int on_prefer(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                     struct gs_err *err)
{
    struct gs_engine *e = user;
    uint64_t begun_ns = gs_loop_now_ns(e->opt.loop);
    const struct gs_kubelet_prefer *want;
    struct gs_kubelet_texts *got = NULL;
    size_t n = 0;
    int rc;

    gs_arena_reset(&e->frame);
    rc = gs_kubelet_pb_prefer(&e->frame, req->message, &want, &n, err);
    if (rc == 0) {
        got = GS_ARENA_ARRAY(&e->frame, n, struct gs_kubelet_texts);
        rc = got != NULL ? 0 : -ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        prefer_one(e, &want[i], &got[i]);
    if (rc == 0)
        rc = gs_kubelet_pb_put_preferred(ret_message, got, n);
    count(e, &e->stats.prefer, begun_ns, rc);
    return rc;
}

/* ---- Allocate ---- */

static int put_answers(struct gs_engine *e, const struct gs_edits *edits, size_t n,
                       struct gs_buf *buf)
{
    struct gs_kubelet_edits *answer = GS_ARENA_ARRAY(&e->frame, n, struct gs_kubelet_edits);

    if (answer == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        gs_edits_answer(&edits[i], &answer[i]);
    return gs_kubelet_pb_put_edits(buf, answer, n);
}

static void on_handed_out(void *arg, int rc, const struct gs_edits *edits, size_t n,
                          const struct gs_err *err)
{
    struct waiting *w = arg;
    struct gs_buf message = {0};

    w->handout = NULL;
    if (rc == 0)
        rc = put_answers(w->engine, edits, n, &message);
    if (rc < 0) {
        gs_buf_fini(&message);
        refuse(w, rc, "Allocate", err);
        return;
    }
    gs_grpc_server_answer(w->call, &message);
    end_waiting(w, 0);
}

static int answer_parts(struct gs_engine *e, const struct gs_kubelet_texts *ids,
                        struct gs_edits *edits, struct gs_err *err)
{
    const struct gs_kit *kit = e->opt.kit;
    struct gs_str *id = GS_ARENA_ARRAY(&e->frame, ids->n, struct gs_str);

    if (id == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < ids->n; i++)
        id[i] = gs_str_of(ids->p[i]);
    return kit->vendor->edit_parts(
        kit->place, &(struct gs_kit_parts){.inv = kit->inv, .id = id, .n = ids->n}, edits, err);
}

/* Parts of cards, or a promise: answered at once. */
static int answer_now(struct gs_engine *e, const struct gs_kubelet_texts *container, size_t n,
                      struct gs_buf *ret_message, struct gs_err *err)
{
    struct gs_edits *edits = GS_ARENA_ARRAY(&e->frame, n, struct gs_edits);
    int rc = edits != NULL ? 0 : -ENOMEM;

    for (size_t i = 0; rc == 0 && i < n; i++) {
        gs_edits_init(&edits[i], &e->frame);
        rc = e->opt.identity == GS_IDENTITY_PRESTART
                 ? gs_provision_promise(e->opt.provision, &container[i], &edits[i], err)
                 : answer_parts(e, &container[i], &edits[i], err);
    }
    if (rc == 0)
        rc = gs_arena_check(&e->frame);
    return rc == 0 ? put_answers(e, edits, n, ret_message) : rc;
}

static int on_allocate(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                       struct gs_err *err)
{
    struct gs_engine *e = user;
    uint64_t begun_ns = gs_loop_now_ns(e->opt.loop);
    const struct gs_kubelet_texts *container;
    struct waiting *w;
    size_t n = 0;
    int rc;

    gs_arena_reset(&e->frame);
    rc = gs_kubelet_pb_allocate(&e->frame, req->message, &container, &n, err);
    if (rc == 0 && e->opt.identity == GS_IDENTITY_ALLOCATE) {
        w = wait_for(e, req, &e->stats.allocate);
        if (w == NULL)
            return -ENOMEM;
        rc = gs_handout_begin(
            e->opt.handout,
            &(struct gs_handout_want){.ids = container, .n = n, .fn = on_handed_out, .arg = w},
            &w->handout, err);
        if (rc < 0)
            refuse(w, rc, "Allocate", err);
        return GS_GRPC_LATER;
    }
    if (rc == 0)
        rc = answer_now(e, container, n, ret_message, err);
    if (rc < 0)
        GS_LOG_WARN("a container cannot start", GS_LOG_CSTR("call", "Allocate"), GS_LOG_ERR(err));
    count(e, &e->stats.allocate, begun_ns, rc);
    return rc;
}

/* ---- PreStartContainer ---- */

static void on_provided(void *arg, int rc, const struct gs_err *err)
{
    struct waiting *w = arg;
    struct gs_buf message = {0};

    w->provision = NULL;
    if (rc < 0) {
        refuse(w, rc, "PreStartContainer", err);
        return;
    }
    gs_grpc_server_answer(w->call, &message);
    end_waiting(w, 0);
}

static int on_pre_start(void *user, const struct gs_grpc_request *req, struct gs_buf *ret_message,
                        struct gs_err *err)
{
    struct gs_engine *e = user;
    uint64_t begun_ns = gs_loop_now_ns(e->opt.loop);
    struct gs_kubelet_texts ids;
    struct gs_provision_op *op = NULL;
    struct waiting *w;
    int rc;

    (void)ret_message; /* an empty one */
    gs_arena_reset(&e->frame);
    rc = gs_kubelet_pb_pre_start(&e->frame, req->message, &ids, err);
    if (rc == 0 && e->opt.provision == NULL)
        return 0;              /* a kubelet that was told by another plugin to ask */
    w = calloc(1, sizeof(*w)); /* before anything waits */
    if (w == NULL)
        rc = -ENOMEM;
    if (rc == 0)
        rc = gs_provision_begin(e->opt.provision, &ids, on_provided, w, &op, err);
    if (rc != GS_PROVISION_LATER) {
        free(w);
        if (rc < 0)
            GS_LOG_WARN("a container cannot start", GS_LOG_CSTR("call", "PreStartContainer"),
                        GS_LOG_ERR(err));
        count(e, &e->stats.prestart, begun_ns, rc);
        return rc;
    }
    *w = (struct waiting){
        .engine = e, .stats = &e->stats.prestart, .begun_ns = begun_ns, .provision = op};
    GS_LIST_APPEND(&e->waiting, w, link);
    w->call = gs_grpc_server_later(req, on_gone, w);
    return GS_GRPC_LATER;
}

/* ---- ListAndWatch ---- */

int gs_engine_set_cards(struct gs_engine *e, const struct gs_shares_card *card, size_t n,
                        struct gs_err *err)
{
    struct gs_kubelet_device *device;
    GS_CLEANUP(gs_buf_fini) struct gs_buf list = {0};
    struct gs_buf copy = {0};
    size_t n_devices = 0, healthy = 0;
    int rc;

    gs_arena_reset(&e->frame);
    rc = gs_shares_list(card, n, &e->frame, &device, &n_devices);
    if (rc == 0)
        rc = gs_kubelet_pb_put_devices(&list, device, n_devices);
    if (rc < 0)
        return gs_err_set(err, rc, "list of devices: %s", strerror(-rc));
    for (size_t i = 0; i < n_devices; i++)
        healthy += device[i].healthy;
    if (e->list.p != NULL && gs_str_eq(gs_buf_str(&list), gs_buf_str(&e->list)))
        return 0;
    gs_buf_put(&copy, gs_buf_str(&list));
    rc = gs_grpc_server_publish(e->server, GS_KUBELET_WATCH, &copy);
    gs_buf_fini(&copy);
    if (rc < 0)
        return gs_err_set(err, rc, "list of devices: %s", strerror(-rc));
    gs_buf_fini(&e->list);
    e->list = list;
    list = (struct gs_buf){0};
    if (e->list.p == NULL)
        gs_buf_adds(&e->list, ""); /* empty, and sent */
    e->stats.devices = n_devices;
    e->stats.healthy = healthy;
    e->stats.list_bytes = e->list.n;
    return 0;
}

/* ---- life ---- */

static void set_routes(struct gs_engine *e)
{
    e->route[0] = (struct gs_grpc_route){GS_KUBELET_OPTIONS, on_options, NULL, e};
    e->route[1] = (struct gs_grpc_route){GS_KUBELET_WATCH, NULL, NULL, e};
    e->route[2] = (struct gs_grpc_route){GS_KUBELET_PREFER, on_prefer, NULL, e};
    e->route[3] = (struct gs_grpc_route){GS_KUBELET_ALLOCATE, on_allocate, NULL, e};
    e->route[4] = (struct gs_grpc_route){GS_KUBELET_PRE_START, on_pre_start, NULL, e};
}

int gs_engine_new(const struct gs_engine_opt *opt, struct gs_engine **ret, struct gs_err *err)
{
    struct gs_engine *e = calloc(1, sizeof(*e));
    int rc = -ENOMEM;

    if (e == NULL)
        return rc;
    e->opt = *opt;
    set_routes(e);
    if (asprintf(&e->path, "%s/%s", opt->folder, opt->endpoint) < 0)
        e->path = NULL;
    else
        rc = gs_grpc_server_open(opt->grpc,
                                 &(struct gs_grpc_server_options){
                                     .name = "plugin",
                                     .path = e->path,
                                     .routes = e->route,
                                     .n_routes = GS_ARRAY_LEN(e->route),
                                 },
                                 &e->server, err);
    if (rc == 0)
        rc = gs_kubelet_new(
            &(struct gs_kubelet_opt){
                .loop = opt->loop,
                .grpc = opt->grpc,
                .server = e->server,
                .socket = opt->kubelet_socket,
                .us = {.version = "v1beta1",
                       .endpoint = opt->endpoint,
                       .resource = opt->resource,
                       .options = {.pre_start = opt->identity == GS_IDENTITY_PRESTART,
                                   .prefer = opt->prefers}},
            },
            &e->kubelet, err);
    if (rc < 0) {
        gs_engine_free(e);
        return rc;
    }
    *ret = e;
    return 0;
}

struct gs_engine *gs_engine_free(struct gs_engine *e)
{
    struct guessed *g;
    size_t pos = 0;

    if (e == NULL)
        return NULL;
    gs_kubelet_free(e->kubelet);
    gs_grpc_server_free(e->server); /* calls that wait go by on_gone() */
    while ((g = gs_map_next(&e->guessed, &pos)) != NULL)
        free(g);
    gs_map_fini(&e->guessed);
    gs_buf_fini(&e->list);
    gs_arena_fini(&e->frame);
    free(e->path);
    free(e);
    return NULL;
}

static void on_stopped(void *user)
{
    struct gs_engine *e = user;

    e->done(e->done_arg);
}

void gs_engine_stop(struct gs_engine *e, unsigned grace_ms, void (*done)(void *arg), void *arg)
{
    e->done = done;
    e->done_arg = arg;
    e->kubelet = gs_kubelet_free(e->kubelet); /* it would make the socket anew */
    gs_grpc_server_stop(e->server, grace_ms, on_stopped, e);
}

void gs_engine_stats(const struct gs_engine *e, struct gs_engine_stats *ret)
{
    *ret = e->stats;
    if (e->kubelet != NULL)
        gs_kubelet_state(e->kubelet, &ret->kubelet);
}
