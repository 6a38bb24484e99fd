#include "control/preempt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "control/convert.h"
#include "control/extender.h"
#include "control/preempt_internal.h"
#include "core/hash.h"
#include "kube/json.h"
#include "kube/view.h"
#include "model/ask.h"

/* Pods that something is under way for; more are refused as if nobody's leaving would help. */
#define WANTS_MAX 256
/* Nodes planned for one pod, and names looked at in one go of the loop. */
#define NODES_MAX 100
#define NAMES_GO  256
/* A pod is not planned for again before. */
#define PAUSE_MS 1000

/** A node that may do, and how low the lowest on it is. */
struct place {
    struct gs_str name;
    int32_t lowest;
    uint64_t turn; /* among equals: other for each pod, the same on every replica */
};

/** What a pod asks, from the call that refused it; and how far the search has come. */
struct gs_preempt_case {
    struct gs_arena arena, round; /* for all of it; for one node */
    char *body;
    size_t body_n;
    struct gs_extender_args args;
    struct gs_pod pod;
    struct gs_ask ask;
    struct place *place;
    size_t n_places, next_name, next_place;
    bool is_found;
    size_t best;
    struct gs_preempt_cost cost;
};

static void step(void *user);

void gs_preempt_drop_case(struct gs_preempt_want *w)
{
    struct gs_preempt_case *c = w->what;

    if (c == NULL)
        return;
    gs_extender_args_fini(&c->args);
    gs_arena_fini(&c->arena);
    gs_arena_fini(&c->round);
    free(c->body);
    free(c);
    w->what = NULL;
}

static void free_want(struct gs_preempt_want *w)
{
    struct gs_preempt *p = w->p;

    gs_loop_timer_cancel(p->loop, &w->timer);
    gs_loop_task_cancel(p->loop, &w->task);
    gs_preempt_drop_case(w);
    GS_LIST_REMOVE(&p->all, w, link);
    gs_arena_fini(&w->made);
    free(w);
}

void gs_preempt_end(struct gs_preempt_want *w)
{
    gs_preempt_take_back(w);
    if (!w->is_over)
        (void)gs_map_remove(&w->p->wants, w->uid);
    w->is_over = true;
    gs_loop_timer_cancel(w->p->loop, &w->timer);
    gs_loop_task_cancel(w->p->loop, &w->task);
    if (!w->is_in_flight) /* else its answer ends it */
        free_want(w);
}

bool gs_preempt_answered(struct gs_preempt_want *w)
{
    w->is_in_flight = false;
    if (!w->is_over)
        return true;
    free_want(w);
    return false;
}

static void on_rested(void *user)
{
    struct gs_preempt_want *w = user;

    if (w->what == NULL || w->n_refusals == 0) {
        gs_preempt_end(w);
        return;
    }
    gs_preempt_plan_again(w);
}

/* Nothing to be done for now. Who was refused by a budget alone tries again by itself. */
static void rest(struct gs_preempt_want *w, int64_t wait_ms)
{
    w->step = GS_PREEMPT_RESTING;
    w->not_before_ms = gs_loop_now_ms(w->p->loop) + wait_ms;
    if (w->n_refusals == 0 || w->n_refusals > GS_PREEMPT_REFUSALS_MAX) {
        w->n_refusals = 0;
        gs_preempt_drop_case(w);
    }
    gs_loop_timer_in(w->p->loop, &w->timer, (uint64_t)wait_ms, on_rested, w);
}

void gs_preempt_rest(struct gs_preempt_want *w)
{
    rest(w, PAUSE_MS);
}

/* ---- which nodes ---- */

static bool is_avoided(const struct gs_preempt_want *w, struct gs_str node)
{
    int64_t now = gs_loop_now_ms(w->p->loop);

    for (size_t i = 0; i < GS_PREEMPT_AVOIDED_MAX; i++)
        if (w->avoided[i].until_ms > now && gs_str_eq(w->avoided[i].node, node))
            return true;
    return false;
}

static uint64_t turn_of(struct gs_str uid, struct gs_str node)
{
    return gs_hash_bytes(node.p, node.n, gs_hash_bytes(uid.p, uid.n, 0));
}

static bool is_ahead(const struct place *a, const struct place *b)
{
    return a->lowest != b->lowest ? a->lowest < b->lowest : a->turn < b->turn;
}

/* Keep the NODES_MAX that promise most, the first of all in front. */
static void add_place(struct gs_preempt_case *c, struct place place)
{
    size_t i = c->n_places;

    if (i == NODES_MAX && !is_ahead(&place, &c->place[i - 1]))
        return;
    if (i == NODES_MAX)
        i--;
    else
        c->n_places++;
    for (; i > 0 && is_ahead(&place, &c->place[i - 1]); i--)
        c->place[i] = c->place[i - 1];
    c->place[i] = place;
}

static void look_at_name(struct gs_preempt_want *w, yyjson_val *val)
{
    struct gs_preempt_case *c = w->what;
    struct gs_str name = gs_kube_json_text(val);
    bool is_nominated = gs_str_eq(name, c->args.pod.nominated_node);
    int32_t lowest = INT32_MIN;

    if (!yyjson_is_str(val) || is_avoided(w, name))
        return;
    if (is_nominated || (gs_books_lowest_on(w->p->books, name, &lowest) && lowest < w->priority))
        add_place(c, (struct place){name, lowest, is_nominated ? 0 : turn_of(w->uid, name)});
}

static void pick_nodes(struct gs_preempt_want *w)
{
    struct gs_preempt_case *c = w->what;
    size_t n = yyjson_arr_size(c->args.names), end = c->next_name + NAMES_GO;

    for (; c->next_name < n && c->next_name < end; c->next_name++)
        look_at_name(w, yyjson_arr_get(c->args.names, c->next_name));
    if (c->next_name == n)
        w->step = GS_PREEMPT_PLANNING;
    gs_loop_defer(w->p->loop, &w->task, step, w);
}

/* ---- one node ---- */

int gs_preempt_mark_asked(const struct gs_preempt *p, struct gs_arena *arena,
                          struct gs_books_guests *guests, struct gs_books_guest **ret)
{
    struct gs_books_guest *guest = GS_ARENA_ARRAY(arena, guests->n, struct gs_books_guest);

    if (guest == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < guests->n; i++) {
        guest[i] = guests->guest[i];
        if (guest[i].ends_us == GS_BOOKS_STAYS && guest[i].kind == GS_BOOKS_GUEST_POD &&
            gs_map_find(&p->asked, guest[i].uid) != NULL)
            guest[i].ends_us = INT64_MAX;
    }
    guests->guest = guest;
    *ret = guest;
    return 0;
}

static int plan_node(struct gs_preempt_want *w, struct gs_str name,
                     struct gs_books_guests *ret_guests, struct gs_preempt_plan *ret)
{
    struct gs_preempt *p = w->p;
    struct gs_arena *arena = &w->what->round;
    struct gs_preempt_budgets budgets;
    struct gs_books_guest *guest;
    const struct gs_preempt_question q = {
        .ask = &w->what->ask,
        .priority = w->priority,
        .now_us = gs_loop_unix_us(p->loop),
    };
    int rc;

    gs_arena_reset(arena);
    rc = gs_books_guests(p->books, name, arena, ret_guests);
    if (rc == 0)
        rc = gs_preempt_mark_asked(p, arena, ret_guests, &guest);
    if (rc == 0)
        rc = gs_budgets_of(p->budgets, ret_guests, arena, &budgets);
    return rc < 0 ? rc : gs_preempt_plan_node(&q, ret_guests, &budgets, arena, ret);
}

/* Those who are going will be enough: nobody is asked. Where the pod was nominated before (this
 * process may be new), its room is held. */
static void wait_for_others(struct gs_preempt_want *w, const struct gs_preempt_plan *plan,
                            const struct gs_books_guests *guests)
{
    if (!gs_str_eq(guests->node->name, w->what->args.pod.nominated_node)) {
        rest(w, PAUSE_MS);
        return;
    }
    if (gs_preempt_decide(w, &w->what->ask, guests, plan) == 0) {
        gs_preempt_drop_case(w);
        gs_preempt_wait(w);
    } else {
        rest(w, PAUSE_MS);
    }
}

static void decide(struct gs_preempt_want *w)
{
    struct gs_preempt_case *c = w->what;
    struct gs_books_guests guests;
    struct gs_preempt_plan plan;

    if (!c->is_found) {
        w->p->stats.helpless++;
        gs_preempt_take_back(w);
        rest(w, w->n_refusals > 0 ? GS_PREEMPT_REFUSED_MS : PAUSE_MS);
        return;
    }
    /* The books have gone on meanwhile. */
    if (plan_node(w, c->place[c->best].name, &guests, &plan) < 0) {
        gs_preempt_plan_again(w);
        return;
    }
    if (plan.n == 0) {
        wait_for_others(w, &plan, &guests);
        return;
    }
    w->p->stats.plans++;
    if (gs_preempt_decide(w, &c->ask, &guests, &plan) < 0)
        rest(w, PAUSE_MS);
    else
        gs_preempt_nominate(w);
}

static void plan_next(struct gs_preempt_want *w)
{
    struct gs_preempt_case *c = w->what;
    struct gs_books_guests guests;
    struct gs_preempt_plan plan;

    if (c->next_place == c->n_places) {
        decide(w);
        return;
    }
    if (plan_node(w, c->place[c->next_place].name, &guests, &plan) == 0) {
        if (plan.n == 0) {
            wait_for_others(w, &plan, &guests);
            return;
        }
        if (!c->is_found || gs_preempt_plan_is_cheaper(&plan.cost, &c->cost)) {
            c->is_found = true;
            c->best = c->next_place;
            c->cost = plan.cost;
        }
    }
    c->next_place++;
    gs_loop_defer(w->p->loop, &w->task, step, w);
}

/* ---- the pod ---- */

static int read_case(struct gs_preempt_want *w, struct gs_preempt_case *c)
{
    struct gs_preempt *p = w->p;
    const struct gs_ask_flags flags = {p->opt.filter->device_policy, p->opt.filter->node_policy,
                                       NULL};
    struct gs_err err = {0};
    int rc = gs_extender_read((struct gs_str){c->body, c->body_n}, &c->arena, &c->args, &err);

    if (rc == 0)
        rc = gs_convert_pod(&c->args.pod, &c->arena, &c->pod);
    if (rc == 0)
        rc = gs_books_ask(p->books, &c->pod, &flags, &c->arena, &c->ask, &err);
    c->place = GS_ARENA_ARRAY(&c->arena, NODES_MAX, struct place);
    free(c->body); /* the document has its own copy */
    c->body = NULL;
    return rc < 0 ? rc : c->place == NULL ? -ENOMEM : 0;
}

static void step(void *user)
{
    struct gs_preempt_want *w = user;
    struct gs_preempt *p = w->p;

    switch (w->step) {
    case GS_PREEMPT_READING:
        if (!gs_budgets_are_synced(p->budgets) || !gs_preempt_leads(p) ||
            read_case(w, w->what) < 0) {
            rest(w, PAUSE_MS);
            return;
        }
        w->step = GS_PREEMPT_PICKING;
        pick_nodes(w);
        return;
    case GS_PREEMPT_PICKING:
        pick_nodes(w);
        return;
    case GS_PREEMPT_PLANNING:
        plan_next(w);
        return;
    default:
        return;
    }
}

void gs_preempt_hurry(struct gs_preempt_want *w)
{
    while (w->step == GS_PREEMPT_READING || w->step == GS_PREEMPT_PICKING ||
           w->step == GS_PREEMPT_PLANNING)
        step(w);
}

void gs_preempt_plan_again(struct gs_preempt_want *w)
{
    struct gs_preempt_case *c = w->what;

    c->n_places = c->next_name = c->next_place = 0;
    c->is_found = false;
    w->step = GS_PREEMPT_PICKING;
    gs_loop_defer(w->p->loop, &w->task, step, w);
}

static struct gs_preempt_want *new_want(struct gs_preempt *p, const struct gs_filter_note *note)
{
    size_t bytes = note->uid.n + note->ns.n + note->name.n + 3;
    struct gs_preempt_want *w = p->wants.n < WANTS_MAX ? calloc(1, sizeof(*w) + bytes) : NULL;
    char *at;

    if (w == NULL)
        return NULL;
    at = (char *)(w + 1);
    w->uid = gs_str_keep(note->uid, &at);
    w->ns = gs_str_keep(note->ns, &at);
    w->name = gs_str_keep(note->name, &at);
    w->p = p;
    w->priority = note->priority;
    w->step = GS_PREEMPT_RESTING;
    if (gs_map_set(&p->wants, w->uid, w) < 0) {
        free(w);
        return NULL;
    }
    GS_LIST_PUSH(&p->all, w, link);
    return w;
}

/* May it be planned for now? What is under way goes on undisturbed. */
static bool is_idle(const struct gs_preempt_want *w)
{
    if (w->is_in_flight)
        return false;
    if (w->step == GS_PREEMPT_RESTING)
        return gs_loop_now_ms(w->p->loop) >= w->not_before_ms;
    return w->step == GS_PREEMPT_WAITING && !gs_preempt_has_victims(w) &&
           gs_loop_now_ms(w->p->loop) >= w->not_before_ms;
}

void gs_preempt_refused(struct gs_preempt *p, struct gs_str body, const struct gs_filter_note *note)
{
    struct gs_preempt_want *w;

    if (note->outcome != GS_FILTER_NO_ROOM || note->is_simulation || !note->may_preempt ||
        note->uid.n == 0 || note->ns.n == 0 || note->name.n == 0)
        return;
    w = gs_map_find(&p->wants, note->uid);
    if (w == NULL && gs_books_has_below(p->books, note->priority))
        w = new_want(p, note);
    if (w == NULL || !is_idle(w))
        return;
    gs_preempt_drop_case(w);
    w->what = calloc(1, sizeof(*w->what));
    if (w->what != NULL)
        w->what->body = malloc(body.n > 0 ? body.n : 1);
    if (w->what == NULL || w->what->body == NULL) {
        gs_preempt_end(w);
        return;
    }
    memcpy(w->what->body, body.p, body.n);
    w->what->body_n = body.n;
    w->n_refusals = 0;
    w->step = GS_PREEMPT_READING;
    gs_loop_timer_cancel(p->loop, &w->timer);
    gs_loop_defer(p->loop, &w->task, step, w);
}

void gs_preempt_saw_pod(struct gs_preempt *p, const struct gs_kube_pod *pod)
{
    struct gs_preempt_want *w = p->wants.n > 0 ? gs_map_find(&p->wants, pod->meta.uid) : NULL;

    if (w != NULL && (pod->node_name.n > 0 || pod->meta.deletion_us != GS_KUBE_NO_TIME))
        gs_preempt_end(w);
}

void gs_preempt_pod_gone(struct gs_preempt *p, struct gs_str uid)
{
    struct gs_preempt_want *w = p->wants.n > 0 ? gs_map_find(&p->wants, uid) : NULL;

    if (w != NULL)
        gs_preempt_end(w);
    w = p->asked.n > 0 ? gs_map_find(&p->asked, uid) : NULL;
    if (w != NULL)
        gs_preempt_victim_gone(w);
}

int gs_preempt_new(struct gs_kube_client *client, struct gs_books *books,
                   const struct gs_preempt_opt *opt, struct gs_preempt **ret, struct gs_err *err)
{
    struct gs_preempt *p = calloc(1, sizeof(*p));
    int rc = p == NULL ? -ENOMEM : gs_budgets_new(client, &p->budgets, err);

    if (rc < 0) {
        free(p);
        return rc;
    }
    p->client = client;
    p->loop = gs_kube_client_loop(client);
    p->books = books;
    p->opt = *opt;
    *ret = p;
    return 0;
}

struct gs_preempt *gs_preempt_free(struct gs_preempt *p)
{
    if (p == NULL)
        return NULL;
    while (p->all.first != NULL)
        free_want(p->all.first);
    gs_map_fini(&p->wants);
    gs_map_fini(&p->asked);
    gs_budgets_free(p->budgets);
    free(p);
    return NULL;
}

void gs_preempt_stats(const struct gs_preempt *p, struct gs_preempt_stats *ret)
{
    *ret = p->stats;
    ret->waiting = p->wants.n;
}
