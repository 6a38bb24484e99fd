#include "control/fence.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "contract/annotations.h"
#include "contract/names.h"
#include "control/convert.h"
#include "core/list.h"
#include "core/size.h"
#include "kube/json.h"
#include "kube/patch.h"
#include "kube/view.h"
#include "model/ask.h"
#include "net/loop.h"

#define SURE_MS   30000
#define IN_FLIGHT 32u /* half of what the client sends at a time: lists and leases go on */
#define AGAIN_MS  1000
#define WHO_MAX   40

enum state {
    STATE_FREE,    /**< nothing is to be done */
    STATE_QUEUED,  /**< in the list of those to write to */
    STATE_SENT,    /**< being written to */
    STATE_TOLD,    /**< written to: the watch is to show it */
    STATE_REFUSED, /**< cannot be written to */
};

/** A pod that is open. One block with its text. */
struct entry {
    struct gs_fence *fence;
    GS_LINK(struct entry) link; /**< in `queue` */
    struct gs_fence_pod pod;
    enum state state;
    bool is_told_of; /**< that it could not be written to, in the log */
    uint64_t ticket;
    uint64_t version; /**< resourceVersion that our write gave it; 0: not known */
    char text[];
};

struct gs_fence {
    struct gs_kube_client *client;
    struct gs_loop *loop;
    struct gs_books *books;
    struct gs_fence_opt opt;
    struct gs_arena arena; /**< of one pod */
    struct gs_map open;    /**< by UID */
    GS_LIST(struct entry) queue;
    bool is_under_way;
    bool misses_some; /**< open pods, for want of memory */
    size_t left, in_flight;
    int64_t begun_ms;
    struct gs_loop_timer timer; /**< those that failed once more; then, the end of sure_ms */
    struct gs_loop_task task;
    char who[WHO_MAX];
    uint64_t number;
    struct gs_fence_stats stats;
};

/* ---- the annotation ---- */

/* A name that nobody had before. */
static void rename_us(struct gs_fence *f)
{
    int64_t now_us = gs_loop_unix_us(f->loop);

    (void)snprintf(f->who, sizeof(f->who), "%llx-%08x", (unsigned long long)now_us,
                   (unsigned)gs_kube_client_jitter(f->client, UINT32_MAX));
}

int gs_fence_write(struct gs_fence *f, const struct gs_fence_write *what, gs_kube_fn *fn, void *arg,
                   uint64_t *ret_ticket)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    char value[WHO_MAX + 24];
    struct gs_kube_merge m;
    int rc;

    (void)snprintf(value, sizeof(value), "%s.%llu%s", f->who, (unsigned long long)++f->number,
                   what->opens ? GS_NAME_FENCE_OPEN : "");
    gs_kube_merge_init(&m);
    gs_kube_merge_uid(&m, what->pod.uid);
    gs_kube_merge_annotation(&m, GS_STR(GS_NAME_FENCE), gs_str_of(value));
    rc = gs_kube_merge_text(&m, &text);
    gs_kube_merge_fini(&m);
    if (rc < 0)
        return rc;
    *(what->opens ? &f->stats.opened : &f->stats.closed) += 1;
    return gs_kube_client_send(f->client,
                               &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                     .resource = &gs_kube_pods,
                                                     .ns = what->pod.ns,
                                                     .name = what->pod.name,
                                                     .body = gs_buf_str(&text),
                                                     .timeout_ms = what->timeout_ms},
                               fn, arg, ret_ticket, NULL);
}

/* ---- one pod ---- */

static void pump(struct gs_fence *f);

static int64_t sure_in_ms(const struct gs_fence *f)
{
    uint32_t sure_ms = f->opt.sure_ms != 0 ? f->opt.sure_ms : SURE_MS;

    return f->begun_ms + sure_ms - gs_loop_now_ms(f->loop);
}

static void on_done(void *user)
{
    struct gs_fence *f = user;

    if (!f->is_under_way || f->left > 0)
        return;
    if (f->misses_some && sure_in_ms(f) > 0) {
        gs_loop_timer_in(f->loop, &f->timer, (uint64_t)sure_in_ms(f), on_done, f);
        return;
    }
    f->is_under_way = false;
    gs_loop_timer_cancel(f->loop, &f->timer);
    if (f->opt.done != NULL)
        f->opt.done(f->opt.arg);
}

static void on_timer(void *user)
{
    pump(user);
}

static void push(struct entry *e)
{
    struct gs_fence *f = e->fence;

    e->state = STATE_QUEUED;
    GS_LIST_APPEND(&f->queue, e, link);
}

/* Out of whatever it was in. */
static void rest(struct entry *e)
{
    struct gs_fence *f = e->fence;

    if (e->state == STATE_QUEUED)
        GS_LIST_REMOVE(&f->queue, e, link);
    if (e->state == STATE_SENT) {
        gs_kube_client_cancel(f->client, e->ticket);
        f->in_flight--;
    }
    e->state = STATE_FREE;
}

/* It is known for sure how it stands with this one. */
static void settle(struct entry *e)
{
    struct gs_fence *f = e->fence;

    if (e->state == STATE_FREE)
        return;
    rest(e);
    if (--f->left == 0)
        gs_loop_defer(f->loop, &f->task, on_done, f);
    else
        pump(f);
}

static void drop(struct entry *e)
{
    (void)gs_map_remove(&e->fence->open, e->pod.uid);
    settle(e);
    free(e);
}

static void again(struct entry *e)
{
    struct gs_fence *f = e->fence;

    push(e);
    gs_loop_timer_in(f->loop, &f->timer, AGAIN_MS, on_timer, f);
}

static uint64_t number_of(struct gs_str version)
{
    uint64_t number;

    return gs_size_parse_u64(version, &number) == 0 ? number : 0;
}

static uint64_t version_of(yyjson_val *pod)
{
    return number_of(
        gs_kube_json_text(yyjson_obj_get(yyjson_obj_get(pod, "metadata"), "resourceVersion")));
}

/* Is there no sense in trying again? A server that answers and does not write, for longer than is
 * waited for those it refuses, may do so for ever: it answers 500 where a webhook of the pod's
 * namespace is down. Without an answer there is nobody to bind anything either. */
static bool is_refused(const struct gs_fence *f, const struct gs_kube_result *result)
{
    if (result->rc == -EPERM || result->rc == -EINVAL || result->rc == -EOPNOTSUPP)
        return true;
    return result->rc < 0 && result->status != 0 && sure_in_ms(f) <= 0;
}

static void tell_failure(struct entry *e, const struct gs_kube_result *result)
{
    if (e->is_told_of)
        return;
    e->is_told_of = true;
    GS_LOG_WARN("waiting pod not fenced", GS_LOG_STR("namespace", e->pod.ns),
                GS_LOG_STR("pod", e->pod.name), GS_LOG_ERR(result->err));
}

static void on_written(void *arg, const struct gs_kube_result *result)
{
    struct entry *e = arg;
    struct gs_fence *f = e->fence;

    f->in_flight--;
    e->state = STATE_TOLD;
    e->version = version_of(result->root);
    if (result->rc == -ENOENT || result->rc == -EBUSY) {
        settle(e); /* gone, or another pod by now */
        return;
    }
    if (result->rc < 0)
        tell_failure(e, result);
    if (is_refused(f, result)) {
        e->state = STATE_REFUSED;
        f->stats.refused++;
    } else if (result->rc < 0) {
        again(e);
        return;
    }
    pump(f);
}

/* Those that cannot be written to: only time is left. */
static void wait_for_refused(struct gs_fence *f)
{
    int64_t left_ms = sure_in_ms(f);
    struct entry *e;
    size_t pos = 0, refused = 0;

    while ((e = gs_map_next(&f->open, &pos)) != NULL)
        refused += e->state == STATE_REFUSED;
    if (refused == 0)
        return;
    if (left_ms > 0) {
        gs_loop_timer_in(f->loop, &f->timer, (uint64_t)left_ms, on_timer, f);
        return;
    }
    for (pos = 0; (e = gs_map_next(&f->open, &pos)) != NULL;)
        if (e->state == STATE_REFUSED) {
            e->state = STATE_FREE;
            f->left--;
        }
    if (f->left == 0)
        gs_loop_defer(f->loop, &f->task, on_done, f);
}

static void pump(struct gs_fence *f)
{
    while (f->is_under_way && f->queue.first != NULL && f->in_flight < IN_FLIGHT) {
        struct entry *e = f->queue.first;

        GS_LIST_REMOVE(&f->queue, e, link);
        e->state = STATE_SENT;
        if (gs_fence_write(f, &(struct gs_fence_write){.pod = e->pod}, on_written, e, &e->ticket) <
            0) {
            again(e);
            return;
        }
        f->in_flight++;
    }
    if (f->is_under_way && f->queue.first == NULL && f->in_flight == 0)
        wait_for_refused(f);
}

/* ---- what is seen ---- */

/* Could somebody be binding it to cards? Where it cannot be read, he who could read it might. */
static bool is_open(struct gs_fence *f, const struct gs_kube_pod *pod)
{
    const struct gs_ask_flags flags = {f->opt.filter->device_policy, f->opt.filter->node_policy,
                                       NULL};
    struct gs_pod model;
    struct gs_ask ask;

    if (pod->node_name.n > 0 || pod->meta.deletion_us != GS_KUBE_NO_TIME || pod->n_gates > 0 ||
        pod->phase == GS_KUBE_PHASE_SUCCEEDED || pod->phase == GS_KUBE_PHASE_FAILED ||
        gs_convert_is_closed(pod))
        return false;
    gs_arena_reset(&f->arena);
    if (gs_convert_pod(pod, &f->arena, &model) < 0)
        return true;
    /* Nobody gives such a one a card, and it could not be written to. */
    if (gs_pod_check_room(&model, GS_ANNOTATIONS_MARKS, NULL) < 0)
        return false;
    return gs_books_ask(f->books, &model, &flags, &f->arena, &ask, NULL) < 0 || ask.n_lines > 0;
}

static struct entry *add(struct gs_fence *f, const struct gs_kube_meta *meta)
{
    struct entry *e =
        calloc(1, sizeof(*e) + meta->ns.n + meta->name.n + meta->uid.n + 3 /* NULs */);
    char *at;

    if (e == NULL)
        return NULL;
    at = e->text;
    e->fence = f;
    e->pod.ns = gs_str_keep(meta->ns, &at);
    e->pod.name = gs_str_keep(meta->name, &at);
    e->pod.uid = gs_str_keep(meta->uid, &at);
    if (gs_map_set(&f->open, e->pod.uid, e) < 0) {
        free(e);
        return NULL;
    }
    return e;
}

void gs_fence_saw_pod(struct gs_fence *f, const struct gs_kube_pod *pod)
{
    struct entry *e = gs_map_find(&f->open, pod->meta.uid);

    if (pod->meta.uid.n == 0)
        return;
    if (!is_open(f, pod)) {
        if (e != NULL)
            drop(e);
    } else if (e == NULL) {
        f->misses_some |= add(f, &pod->meta) == NULL;
    } else if (e->state == STATE_TOLD && e->version != 0 &&
               number_of(pod->meta.resource_version) >= e->version) {
        settle(e); /* it was closed, and one who led before has opened it since: too late for him */
    }
}

void gs_fence_pod_gone(struct gs_fence *f, struct gs_str uid)
{
    struct entry *e = gs_map_find(&f->open, uid);

    if (e != NULL)
        drop(e);
}

/* ---- all of them ---- */

void gs_fence_stop(struct gs_fence *f)
{
    struct entry *e;
    size_t pos = 0;

    f->is_under_way = false;
    f->left = 0;
    gs_loop_timer_cancel(f->loop, &f->timer);
    gs_loop_task_cancel(f->loop, &f->task);
    while ((e = gs_map_next(&f->open, &pos)) != NULL)
        rest(e);
}

void gs_fence_begin(struct gs_fence *f)
{
    struct entry *e;
    size_t pos = 0;

    gs_fence_stop(f);
    rename_us(f);
    f->is_under_way = true;
    f->begun_ms = gs_loop_now_ms(f->loop);
    while ((e = gs_map_next(&f->open, &pos)) != NULL) {
        push(e);
        f->left++;
    }
    if (f->left > 0)
        GS_LOG_INFO("fencing pods that may be being bound", GS_LOG_UINT("count", f->left));
    else
        gs_loop_defer(f->loop, &f->task, on_done, f);
    pump(f);
}

int gs_fence_new(struct gs_kube_client *client, struct gs_books *books,
                 const struct gs_fence_opt *opt, struct gs_fence **ret)
{
    struct gs_fence *f = calloc(1, sizeof(*f));

    if (f == NULL)
        return -ENOMEM;
    f->client = client;
    f->loop = gs_kube_client_loop(client);
    f->books = books;
    f->opt = *opt;
    rename_us(f);
    *ret = f;
    return 0;
}

struct gs_fence *gs_fence_free(struct gs_fence *f)
{
    struct entry *e;
    size_t pos = 0;

    if (f == NULL)
        return NULL;
    gs_fence_stop(f);
    while ((e = gs_map_next(&f->open, &pos)) != NULL)
        free(e);
    gs_map_fini(&f->open);
    gs_arena_fini(&f->arena);
    free(f);
    return NULL;
}

void gs_fence_stats(const struct gs_fence *f, struct gs_fence_stats *ret)
{
    *ret = f->stats;
    ret->open = f->open.n;
    ret->left = f->left;
}
