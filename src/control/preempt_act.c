/* What is done once it is known who has to go: the nomination, evictions, and the wait for those
 * who leave. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "control/nudge.h"
#include "control/preempt_internal.h"
#include "kube/event.h"
#include "kube/patch.h"
#include "model/ask.h"

/* Room is held so long from each look at the victims. */
#define HOLD_MS 60000
#define LOOK_MS 5000
/* All victims gone, and the pod has not come for its room. */
#define EMPTY_MS 30000
/* All gone: so long the pod has to come by itself, then it is nudged now and then. */
#define COMES_MS 250
#define NUDGE_MS 2000
/* Victims who do not go. */
#define PATIENCE_MS 900000
/* A budget refuses in the middle: waits between tries. */
#define RETRY_MS      500
#define RETRY_MAX_MS  8000
#define RETRY_TRIES   12
#define AVOID_MS      1000
#define AVOID_DOUBLES 5

bool gs_preempt_leads(const struct gs_preempt *p)
{
    return p->opt.leads == NULL || p->opt.leads(p->opt.arg);
}

/* ---- decided, and taken back ---- */

int gs_preempt_decide(struct gs_preempt_want *w, const struct gs_ask *ask,
                      const struct gs_books_guests *guests, const struct gs_preempt_plan *plan)
{
    struct gs_preempt *p = w->p;
    struct gs_preempt_victim *victim;
    struct gs_str node;
    int rc;

    gs_preempt_take_back(w);
    gs_arena_reset(&w->made);
    victim = GS_ARENA_ARRAY(&w->made, plan->n, struct gs_preempt_victim);
    node = gs_arena_str(&w->made, guests->node->name);
    for (size_t i = 0; victim != NULL && i < plan->n; i++) {
        const struct gs_books_guest *guest = &guests->guest[plan->victim[i]];

        victim[i] = (struct gs_preempt_victim){gs_arena_str(&w->made, guest->uid),
                                               gs_arena_str(&w->made, guest->ns),
                                               gs_arena_str(&w->made, guest->name), false};
    }
    rc = gs_arena_check(&w->made);
    if (rc == 0) /* last: the guests are views of the books */
        rc = gs_books_hold(p->books, ask, &plan->placement, w->priority,
                           gs_loop_now_ms(p->loop) + HOLD_MS);
    if (rc < 0)
        return rc;
    w->node = node;
    w->victim = victim;
    w->n_victims = plan->n;
    w->next_victim = 0;
    w->n_evicted = w->n_tries = 0;
    w->began_ms = gs_loop_now_ms(p->loop);
    for (size_t i = 0; i < plan->n; i++)
        victim[i].is_ours = gs_map_set(&p->asked, victim[i].uid, w) == 0;
    return 0;
}

void gs_preempt_take_back(struct gs_preempt_want *w)
{
    (void)gs_books_unhold(w->p->books, w->uid);
    for (size_t i = 0; i < w->n_victims; i++)
        if (w->victim[i].is_ours && gs_map_find(&w->p->asked, w->victim[i].uid) == w)
            (void)gs_map_remove(&w->p->asked, w->victim[i].uid);
    w->n_victims = 0;
}

bool gs_preempt_has_victims(const struct gs_preempt_want *w)
{
    struct gs_books_holder holder;

    for (size_t i = 0; i < w->n_victims; i++)
        if (gs_books_holder(w->p->books, w->victim[i].uid, &holder) && !holder.is_reservation)
            return true;
    return false;
}

static void on_cleared(void *arg, const struct gs_kube_result *result)
{
    (void)arg;
    if (result->rc < 0 && result->rc != -ENOENT && result->rc != -EBUSY)
        GS_LOG_WARN("nominated node not taken back", GS_LOG_ERR(result->err));
}

static int send_nomination(struct gs_preempt_want *w, struct gs_str node, gs_kube_fn *fn, void *arg,
                           struct gs_err *err)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf text = {0};
    struct gs_kube_merge m;
    int rc;

    gs_kube_merge_init(&m);
    gs_kube_merge_uid(&m, w->uid);
    if (node.n > 0)
        gs_kube_merge_str(&m, GS_KUBE_PATH("status", "nominatedNodeName"), node);
    else
        gs_kube_merge_null(&m, GS_KUBE_PATH("status", "nominatedNodeName"));
    rc = gs_kube_merge_text(&m, &text);
    gs_kube_merge_fini(&m);
    if (rc < 0)
        return rc;
    return gs_kube_client_send(w->p->client,
                               &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                     .resource = &gs_kube_pods,
                                                     .ns = w->ns,
                                                     .name = w->name,
                                                     .subresource = "status",
                                                     .body = gs_buf_str(&text)},
                               fn, arg, NULL, err);
}

/* It did not come to pass: nothing is held, and the pod is not nominated. */
static void give_up(struct gs_preempt_want *w, const char *why)
{
    struct gs_err err = {0};

    GS_LOG_WARN("preemption given up", GS_LOG_STR("ns", w->ns), GS_LOG_STR("pod", w->name),
                GS_LOG_STR("node", w->node), GS_LOG_CSTR("why", why));
    w->p->stats.lost++;
    gs_preempt_take_back(w);
    if (w->is_nominated && send_nomination(w, (struct gs_str){0}, on_cleared, NULL, &err) < 0)
        GS_LOG_WARN("nominated node not taken back", GS_LOG_ERR(&err));
    w->is_nominated = false;
    w->n_refusals = 0;
    gs_preempt_rest(w);
}

/* ---- waiting ---- */

static void on_look(void *user)
{
    struct gs_preempt_want *w = user;
    struct gs_preempt *p = w->p;
    int64_t now = gs_loop_now_ms(p->loop);
    struct gs_books_reservation r;

    if (gs_preempt_has_victims(w)) {
        if (now - w->began_ms > PATIENCE_MS) {
            give_up(w, "victims do not leave");
            return;
        }
        w->empty_ms = 0;
        gs_books_prolong(p->books, w->uid, now + HOLD_MS);
        gs_loop_timer_in(p->loop, &w->timer, LOOK_MS, on_look, w);
        return;
    }
    w->empty_ms = w->empty_ms == 0 ? now : w->empty_ms;
    if (now - w->empty_ms > EMPTY_MS) {
        give_up(w, "the pod does not come for its room");
        return;
    }
    if (!gs_books_reserved(p->books, w->uid, &r))
        gs_nudge_send(p->client, w->ns, w->name, w->uid);
    gs_loop_timer_in(p->loop, &w->timer, NUDGE_MS, on_look, w);
}

void gs_preempt_victim_gone(struct gs_preempt_want *w)
{
    if (w->step == GS_PREEMPT_WAITING && !gs_preempt_has_victims(w))
        gs_loop_timer_in(w->p->loop, &w->timer, COMES_MS, on_look, w);
}

void gs_preempt_wait(struct gs_preempt_want *w)
{
    w->step = GS_PREEMPT_WAITING;
    w->empty_ms = 0;
    w->not_before_ms = gs_loop_now_ms(w->p->loop) + 1000;
    gs_loop_timer_in(w->p->loop, &w->timer, LOOK_MS, on_look, w);
}

/* ---- evictions ---- */

static void evict_next(struct gs_preempt_want *w);

static void on_retry(void *user)
{
    evict_next(user);
}

static void avoid_node(struct gs_preempt_want *w)
{
    struct gs_preempt_avoided *a = &w->avoided[w->next_avoided++ % GS_PREEMPT_AVOIDED_MAX];
    unsigned doubles = w->n_refusals < AVOID_DOUBLES ? w->n_refusals : AVOID_DOUBLES;

    a->node = (struct gs_str){a->text, w->node.n < sizeof(a->text) ? w->node.n : 0};
    memcpy(a->text, w->node.p, a->node.n);
    a->until_ms = gs_loop_now_ms(w->p->loop) + ((int64_t)AVOID_MS << doubles);
}

/* One may not go now. Before anybody has gone, another node may do; then only time helps. */
static void postpone(struct gs_preempt_want *w, bool is_conflict)
{
    uint64_t wait = (uint64_t)RETRY_MS << (w->n_tries < 4 ? w->n_tries : 4);

    if (w->n_evicted == 0 && w->what != NULL && !is_conflict) {
        w->n_refusals++;
        avoid_node(w);
        gs_preempt_take_back(w);
        gs_preempt_plan_again(w);
    } else if (++w->n_tries > RETRY_TRIES) {
        give_up(w, "evictions are refused");
    } else {
        gs_loop_timer_in(w->p->loop, &w->timer, wait < RETRY_MAX_MS ? wait : RETRY_MAX_MS, on_retry,
                         w);
    }
}

static void tell_evicted(struct gs_preempt_want *w, const struct gs_preempt_victim *victim)
{
    char text[512];

    GS_LOG_INFO("pod evicted for another", GS_LOG_STR("ns", victim->ns),
                GS_LOG_STR("pod", victim->name), GS_LOG_STR("for_ns", w->ns),
                GS_LOG_STR("for_pod", w->name), GS_LOG_STR("node", w->node));
    if (w->p->opt.events == NULL)
        return;
    (void)snprintf(text, sizeof(text), "Preempted by pod %.*s on node %.*s", (int)w->uid.n,
                   w->uid.p, (int)w->node.n, w->node.p);
    gs_kube_event_post(w->p->opt.events, &(struct gs_kube_event){.resource = &gs_kube_pods,
                                                                 .ns = victim->ns,
                                                                 .name = victim->name,
                                                                 .uid = victim->uid,
                                                                 .type = "Normal",
                                                                 .reason = "Preempted",
                                                                 .message = gs_str_of(text)});
}

/* The victim is there and has not been asked by others (a deletion by hand). */
static bool is_there(const struct gs_preempt_want *w, const struct gs_preempt_victim *victim)
{
    struct gs_books_holder holder;

    return gs_books_holder(w->p->books, victim->uid, &holder) && !holder.is_reservation &&
           !holder.is_going;
}

static void on_evicted(void *arg, const struct gs_kube_result *result)
{
    struct gs_preempt_want *w = arg;
    struct gs_preempt_stats *stats = &w->p->stats;
    const struct gs_preempt_victim *victim = &w->victim[w->next_victim];
    bool is_gone = result->rc == -ENOENT || (result->rc == -EBUSY && !is_there(w, victim));

    if (result->rc == 0) {
        stats->evicted++;
        tell_evicted(w, victim);
        w->n_evicted++;
    } else if (!is_gone) {
        stats->refused += result->status == 429;
        stats->failed += result->status != 429;
        GS_LOG_INFO("eviction refused", GS_LOG_STR("ns", victim->ns),
                    GS_LOG_STR("pod", victim->name), GS_LOG_ERR(result->err));
    }
    if (!gs_preempt_answered(w))
        return;
    if (result->rc == 0 || is_gone) {
        w->next_victim++;
        w->n_tries = 0;
        evict_next(w);
    } else {
        postpone(w, result->rc == -EBUSY);
    }
}

static void evict_next(struct gs_preempt_want *w)
{
    struct gs_preempt *p = w->p;
    const struct gs_preempt_victim *victim;
    struct gs_err err = {0};

    while (w->next_victim < w->n_victims && !is_there(w, &w->victim[w->next_victim]))
        w->next_victim++;
    if (w->next_victim == w->n_victims) {
        gs_preempt_drop_case(w);
        gs_preempt_wait(w);
        return;
    }
    if (!gs_preempt_leads(p)) {
        give_up(w, "another replica leads");
        return;
    }
    victim = &w->victim[w->next_victim];
    w->step = GS_PREEMPT_EVICTING;
    if (gs_kube_client_evict(
            p->client,
            &(struct gs_kube_end){.ns = victim->ns, .name = victim->name, .uid = victim->uid},
            on_evicted, w, &err) < 0)
        give_up(w, err.text);
    else
        w->is_in_flight = true;
}

/* ---- the nomination ---- */

static void on_nominated(void *arg, const struct gs_kube_result *result)
{
    struct gs_preempt_want *w = arg;
    bool is_gone = result->rc == -ENOENT || result->rc == -EBUSY;

    if (!gs_preempt_answered(w))
        return;
    if (is_gone) { /* the pod, or it is another of the same name: nobody has to leave for it */
        gs_preempt_end(w);
        return;
    }
    if (result->rc < 0)
        GS_LOG_WARN("nominated node not written", GS_LOG_ERR(result->err));
    w->is_nominated = result->rc == 0;
    evict_next(w);
}

void gs_preempt_nominate(struct gs_preempt_want *w)
{
    struct gs_err err = {0};

    w->step = GS_PREEMPT_NOMINATING;
    if (send_nomination(w, w->node, on_nominated, w, &err) < 0)
        give_up(w, err.text);
    else
        w->is_in_flight = true;
}
