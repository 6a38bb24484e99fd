#include "control/preempt_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/node.h"
#include "model/usage.h"

#define TRIES_MAX   1000 /* of gs_place() on one node, some microseconds each */
#define STATES_MAX  4096 /* sets looked at for one priority */
#define FOCUSES_MAX 64

/** A set under way: a smaller set, and one more. */
struct state {
    int32_t rest; /* index of the smaller set; -1: none */
    uint32_t last, n;
    int64_t sum;
};

struct search {
    const struct gs_preempt_question *q;
    const struct gs_books_guests *guests;
    const struct gs_preempt_budgets *budgets;
    struct gs_arena scratch; /* of one try */
    struct gs_node node;     /* as it would be */
    struct gs_use *use;
    struct gs_room *room;
    struct gs_tenant *tenant;
    bool *is_out;   /* [guests] in this try */
    uint32_t *cand; /* guests that may be asked to go, least important first */
    size_t n_cand;
    uint32_t *elem; /* those of them that have to do with the devices in focus */
    size_t n_elem;
    uint32_t *dev; /* devices of the vendors asked for */
    size_t n_dev;
    bool *is_focus;         /* [node devices] */
    bool *is_hit, *is_over; /* [guests] scratch */
    int32_t *left;          /* [budgets] scratch */
    struct state *state;
    uint32_t *heap;
    size_t n_states, n_heap, n_tries;
    bool is_found;
    struct gs_preempt_cost best;
    uint32_t *victim;
    size_t n_victims;
};

bool gs_preempt_plan_is_cheaper(const struct gs_preempt_cost *a, const struct gs_preempt_cost *b)
{
    if (a->violations != b->violations)
        return a->violations < b->violations;
    if (a->highest != b->highest)
        return a->highest < b->highest;
    if (a->sum != b->sum)
        return a->sum < b->sum;
    if (a->n != b->n)
        return a->n < b->n;
    return a->start_us > b->start_us;
}

/* ---- one try ---- */

static void count_stakes(struct search *s)
{
    const struct gs_books_guests *g = s->guests;
    size_t n = 0;

    for (size_t d = 0; d < s->node.n_dev; d++)
        s->use[d] = (struct gs_use){.is_closed = g->is_shut[d]};
    for (size_t i = 0; i < g->n_stakes; i++) {
        const struct gs_books_stake *stake = &g->stake[i];
        struct gs_use *use = &s->use[stake->dev];

        if (s->is_out[stake->guest])
            continue;
        if (use->n_tenants++ == 0)
            use->tenant = &s->tenant[n];
        s->tenant[n++] = stake->tenant;
    }
    for (size_t k = 0; k < s->node.n_groups; k++) {
        const struct gs_group *group = &s->node.group[k];
        const struct gs_policy *policy = group->policy;

        for (uint32_t d = group->first; d < group->first + group->n; d++) {
            gs_usage_sum(policy, &s->node.dev[d], &s->use[d]);
            if (policy->ops->audit != NULL)
                policy->ops->audit(policy, &s->node.dev[d], &s->use[d]);
        }
    }
    gs_usage_settle(&s->node, s->room);
}

/* Does the pod fit without those that are out? 1, 0 or -ENOMEM. */
static int fits(struct search *s)
{
    struct gs_placement placement;
    struct gs_reasons reasons;
    int rc;

    s->n_tries++;
    count_stakes(s);
    if (!gs_place_may(s->q->ask, &s->node))
        return 0;
    gs_arena_reset(&s->scratch);
    rc = gs_place(s->q->ask, &s->node, &s->scratch, &placement, &reasons);
    return rc == 0 ? 1 : rc == -ENOSPC ? 0 : rc;
}

/* ---- costs ---- */

/* Takes one disruption of each of its budgets; is one of them overdrawn? */
static bool overdraws(struct search *s, uint32_t guest)
{
    bool is_over = false;

    for (size_t i = 0; s->budgets != NULL && i < s->budgets->n_of[guest]; i++)
        is_over |= --s->left[s->budgets->of[guest][i]] < 0;
    return is_over;
}

static void refill(struct search *s)
{
    if (s->budgets != NULL && s->budgets->n > 0)
        memcpy(s->left, s->budgets->allowed, s->budgets->n * sizeof(*s->left));
}

/* Of the candidates that are out now. */
static struct gs_preempt_cost cost_of(struct search *s)
{
    struct gs_preempt_cost cost = {.highest = INT32_MIN, .start_us = INT64_MAX};

    refill(s);
    for (size_t i = s->n_cand; i > 0; i--) {
        const struct gs_books_guest *guest = &s->guests->guest[s->cand[i - 1]];

        if (!s->is_out[s->cand[i - 1]])
            continue;
        cost.violations += overdraws(s, s->cand[i - 1]);
        cost.sum += (int64_t)guest->priority - INT32_MIN;
        if (cost.n++ == 0)
            cost.highest = guest->priority;
        if (guest->priority == cost.highest && guest->start_us < cost.start_us)
            cost.start_us = guest->start_us;
    }
    return cost;
}

static void set_out(struct search *s, const uint32_t *who, size_t n, bool is_out)
{
    for (size_t i = 0; i < n; i++)
        s->is_out[who[i]] = is_out;
}

/* Without those that are out now the pod fits: is that the cheapest so far? */
static void consider(struct search *s)
{
    struct gs_preempt_cost cost = cost_of(s);

    if (s->is_found && !gs_preempt_plan_is_cheaper(&cost, &s->best))
        return;
    s->is_found = true;
    s->best = cost;
    s->n_victims = 0;
    for (size_t i = s->n_cand; i > 0; i--)
        if (s->is_out[s->cand[i - 1]])
            s->victim[s->n_victims++] = s->cand[i - 1];
}

/* ---- kube-scheduler's way ---- */

/* All go, then each who may stay returns, the most important first. */
static int reprieve(struct search *s)
{
    bool *is_over = s->is_over;
    int rc;

    set_out(s, s->cand, s->n_cand, false);
    set_out(s, s->elem, s->n_elem, true);
    rc = fits(s);
    if (rc <= 0)
        return rc;
    refill(s);
    for (size_t i = s->n_elem; i > 0; i--)
        is_over[i - 1] = overdraws(s, s->elem[i - 1]);
    for (int pass = 0; pass < 2 && rc >= 0; pass++)
        for (size_t i = s->n_elem; i > 0 && rc >= 0; i--) {
            if (is_over[i - 1] != (pass == 0))
                continue;
            s->is_out[s->elem[i - 1]] = false;
            rc = fits(s);
            s->is_out[s->elem[i - 1]] = rc == 0;
        }
    if (rc >= 0)
        consider(s);
    return rc < 0 ? rc : 1;
}

/* ---- sets in the order of their cost ---- */

static int32_t priority_of(const struct search *s, uint32_t guest)
{
    return s->guests->guest[guest].priority;
}

static bool is_before(const struct search *s, uint32_t a, uint32_t b)
{
    const struct state *x = &s->state[a], *y = &s->state[b];

    if (x->sum != y->sum)
        return x->sum < y->sum;
    return x->n != y->n ? x->n < y->n : a < b;
}

static void push(struct search *s, int32_t rest, uint32_t last)
{
    size_t i = s->n_heap;

    if (s->n_states == STATES_MAX)
        return;
    s->state[s->n_states] = (struct state){
        .rest = rest,
        .last = last,
        .n = 1 + (rest >= 0 ? s->state[rest].n : 0),
        .sum = (int64_t)priority_of(s, s->elem[last]) - INT32_MIN +
               (rest >= 0 ? s->state[rest].sum : 0),
    };
    s->heap[s->n_heap++] = (uint32_t)s->n_states++;
    for (; i > 0 && is_before(s, s->heap[i], s->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        uint32_t t = s->heap[i];

        s->heap[i] = s->heap[(i - 1) / 2];
        s->heap[(i - 1) / 2] = t;
    }
}

static uint32_t pop(struct search *s)
{
    uint32_t top = s->heap[0];
    size_t i = 0;

    s->heap[0] = s->heap[--s->n_heap];
    for (;;) {
        size_t least = i;
        uint32_t t;

        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < s->n_heap; k++)
            if (is_before(s, s->heap[k], s->heap[least]))
                least = k;
        if (least == i)
            return top;
        t = s->heap[i];
        s->heap[i] = s->heap[least];
        s->heap[least] = t;
        i = least;
    }
}

/* Sets of the first `n` elements whose highest priority is that of the last of these, the cheapest
 * first, with at most `violations`. Each set is made once: a set grows by an element behind its
 * last, or has its last replaced by the next. 1 found, 0 not, -ENOMEM. */
static int enumerate(struct search *s, size_t n, uint32_t violations)
{
    int32_t highest = priority_of(s, s->elem[n - 1]);
    int64_t sum = 0;
    uint32_t count = 0;
    bool is_found = false;
    int rc;

    s->n_states = s->n_heap = 0;
    push(s, -1, 0);
    while (s->n_heap > 0 && s->n_tries < TRIES_MAX) {
        uint32_t at = pop(s), next = s->state[at].last + 1;
        struct gs_preempt_cost cost;
        struct state set = s->state[at];

        if (is_found && (set.sum > sum || set.n > count))
            break;
        if (s->is_found && s->best.violations <= violations && s->best.highest == highest &&
            set.sum > s->best.sum)
            break;
        set_out(s, s->cand, s->n_cand, false);
        for (int32_t i = (int32_t)at; i >= 0; i = s->state[i].rest)
            s->is_out[s->elem[s->state[i].last]] = true;
        cost = cost_of(s);
        rc = 0;
        if (cost.violations <= violations && cost.highest == highest &&
            (!s->is_found || gs_preempt_plan_is_cheaper(&cost, &s->best)))
            rc = fits(s);
        if (rc < 0)
            return rc;
        if (rc > 0) {
            consider(s);
            is_found = true;
            sum = set.sum;
            count = set.n;
        }
        if (next < n && cost.violations <= violations && rc == 0)
            push(s, (int32_t)at, next);
        if (next < n)
            push(s, set.rest, next);
    }
    return is_found;
}

/* More room never hurts a pod that asks once. Where several requests are placed one after the
 * other, the first may be drawn to a card that the next one needs. */
static bool is_monotone(const struct search *s)
{
    return s->q->ask->n_lines == 1;
}

/* With what is in focus: go up the priorities until some set of one does. */
static int look(struct search *s, uint32_t violations)
{
    for (size_t n = 1; n <= s->n_elem; n++) {
        int32_t highest = priority_of(s, s->elem[n - 1]);
        int rc;

        if (n < s->n_elem && priority_of(s, s->elem[n]) == highest)
            continue;
        if (s->n_tries >= TRIES_MAX ||
            (s->is_found && s->best.violations <= violations && s->best.highest < highest))
            return 0;
        set_out(s, s->cand, s->n_cand, false);
        set_out(s, s->elem, n, true);
        rc = is_monotone(s) ? fits(s) : 1;
        if (rc > 0)
            rc = enumerate(s, n, violations);
        if (rc != 0)
            return rc < 0 ? rc : 0;
    }
    return 0;
}

/* ---- focus: the devices that the pod would get ---- */

static void focus(struct search *s, const uint32_t *combination, size_t k)
{
    memset(s->is_hit, 0, s->guests->n * sizeof(*s->is_hit));
    memset(s->is_focus, 0, s->node.n_dev * sizeof(*s->is_focus));
    for (size_t i = 0; i < k; i++)
        s->is_focus[s->dev[combination[i]]] = true;
    for (size_t i = 0; i < s->guests->n_stakes; i++)
        if (s->is_focus[s->guests->stake[i].dev])
            s->is_hit[s->guests->stake[i].guest] = true;
    s->n_elem = 0;
    for (size_t i = 0; i < s->n_cand; i++)
        if (s->is_hit[s->cand[i]])
            s->elem[s->n_elem++] = s->cand[i];
}

/* Number of devices that the pod takes at most; at most those that there are. */
static size_t devices_wanted(const struct search *s)
{
    size_t k = 0;

    for (size_t i = 0; i < s->q->ask->n_lines && k < s->n_dev; i++)
        k += (size_t)s->q->ask->line[i].request.nums;
    return k < s->n_dev ? k : s->n_dev;
}

static bool are_few(size_t n, size_t k)
{
    uint64_t ways = 1;

    for (size_t i = 0; i < k && ways <= (uint64_t)FOCUSES_MAX * 64; i++)
        ways = ways * (n - i) / (i + 1);
    return ways <= FOCUSES_MAX;
}

static bool next_combination(uint32_t *c, size_t k, size_t n)
{
    size_t i = k;

    while (i > 0 && c[i - 1] == n - k + i - 1)
        i--;
    if (i == 0)
        return false;
    c[i - 1]++;
    for (; i < k; i++)
        c[i] = c[i - 1] + 1;
    return true;
}

/* kube-scheduler's way (violations < 0), or the sets by their cost, over every set of devices. */
static int over_focuses(struct search *s, uint32_t *combination, int64_t violations)
{
    size_t k = devices_wanted(s);
    int rc = 0;

    if (!are_few(s->n_dev, k))
        k = s->n_dev;
    for (size_t i = 0; i < k; i++)
        combination[i] = (uint32_t)i;
    do {
        focus(s, combination, k);
        if (s->n_elem > 0)
            rc = violations < 0 ? reprieve(s) : look(s, (uint32_t)violations);
    } while (rc >= 0 && s->n_tries < TRIES_MAX && next_combination(combination, k, s->n_dev));
    return rc < 0 ? rc : 0;
}

/* ---- the node ---- */

static bool is_going(const struct gs_preempt_question *q, const struct gs_books_guest *guest)
{
    return guest->ends_us != GS_BOOKS_STAYS &&
           (guest->ends_us > INT64_MAX - GS_PREEMPT_PLAN_PATIENCE_US ||
            q->now_us < guest->ends_us + GS_PREEMPT_PLAN_PATIENCE_US);
}

/* Gone in any case: those who are going, the pod itself, and holds that give way to it. */
static bool is_away(const struct gs_preempt_question *q, const struct gs_books_guest *guest)
{
    return is_going(q, guest) || gs_str_eq(guest->uid, q->ask->pod->uid) ||
           (guest->kind == GS_BOOKS_GUEST_HOLD && guest->priority < q->priority);
}

static bool may_be_asked(const struct gs_preempt_question *q, const struct gs_books_guest *guest)
{
    return guest->kind == GS_BOOKS_GUEST_POD && guest->ends_us == GS_BOOKS_STAYS &&
           guest->priority < q->priority;
}

static int by_importance(const void *a, const void *b, void *user)
{
    const struct search *s = user;
    const struct gs_books_guest *x = &s->guests->guest[*(const uint32_t *)a];
    const struct gs_books_guest *y = &s->guests->guest[*(const uint32_t *)b];

    if (x->priority != y->priority)
        return x->priority < y->priority ? -1 : 1;
    if (x->start_us != y->start_us)
        return x->start_us > y->start_us ? -1 : 1;
    return gs_str_cmp(x->uid, y->uid); /* the same on every replica */
}

static void find_devices(struct search *s)
{
    for (size_t v = 0; v < s->q->ask->n_vendors; v++) {
        const struct gs_group *group = gs_node_group(&s->node, s->q->ask->vendor[v].policy);

        for (uint32_t i = 0; group != NULL && i < group->n; i++)
            s->dev[s->n_dev++] = group->first + i;
    }
}

static void find_candidates(struct search *s)
{
    const struct gs_books_guests *g = s->guests;

    for (size_t i = 0; i < s->n_dev; i++)
        s->is_focus[s->dev[i]] = true;
    for (size_t i = 0; i < g->n_stakes; i++) {
        uint32_t guest = g->stake[i].guest;

        if (s->is_focus[g->stake[i].dev] && !s->is_out[guest] &&
            may_be_asked(s->q, &g->guest[guest])) {
            s->is_out[guest] = true;
            s->cand[s->n_cand++] = guest;
        }
    }
    if (s->n_cand > 0)
        qsort_r(s->cand, s->n_cand, sizeof(*s->cand), by_importance, s);
}

static int prepare(struct search *s, struct gs_arena *arena)
{
    const struct gs_books_guests *g = s->guests;
    size_t n_dev = g->node->n_dev, n = g->n;

    s->node = *g->node;
    s->use = GS_ARENA_ARRAY(arena, n_dev, struct gs_use);
    s->room = GS_ARENA_ARRAY(arena, g->node->n_groups, struct gs_room);
    s->tenant = GS_ARENA_ARRAY(arena, g->n_stakes, struct gs_tenant);
    s->is_out = GS_ARENA_ARRAY(arena, n, bool);
    s->is_hit = GS_ARENA_ARRAY(arena, n, bool);
    s->is_over = GS_ARENA_ARRAY(arena, n, bool);
    s->cand = GS_ARENA_ARRAY(arena, n, uint32_t);
    s->elem = GS_ARENA_ARRAY(arena, n, uint32_t);
    s->victim = GS_ARENA_ARRAY(arena, n, uint32_t);
    s->dev = GS_ARENA_ARRAY(arena, n_dev, uint32_t);
    s->is_focus = GS_ARENA_ARRAY(arena, n_dev, bool);
    s->left = GS_ARENA_ARRAY(arena, s->budgets != NULL ? s->budgets->n : 0, int32_t);
    s->state = GS_ARENA_ARRAY(arena, STATES_MAX, struct state);
    s->heap = GS_ARENA_ARRAY(arena, STATES_MAX, uint32_t);
    if (gs_arena_check(arena) < 0)
        return -ENOMEM;
    s->node.use = s->use;
    s->node.room = s->room;
    for (size_t i = 0; i < n; i++)
        s->is_out[i] = is_away(s->q, &g->guest[i]);
    find_devices(s);
    return 0;
}

static int search(struct search *s, struct gs_arena *arena)
{
    uint32_t *combination;
    int rc = fits(s); /* those who are going anyway may be enough */

    if (rc != 0)
        return rc < 0 ? rc : 0;
    find_candidates(s);
    combination = GS_ARENA_ARRAY(arena, s->n_dev, uint32_t);
    if (combination == NULL)
        return -ENOMEM;
    if (s->n_cand == 0)
        return -ENOSPC;
    rc = fits(s); /* all of them are out */
    if (rc < 0 || (rc == 0 && is_monotone(s)))
        return rc < 0 ? rc : -ENOSPC;
    rc = over_focuses(s, combination, -1);
    if (rc == 0 && !s->is_found) { /* these devices alone are not what it takes: all at once */
        memcpy(s->elem, s->cand, s->n_cand * sizeof(*s->elem));
        s->n_elem = s->n_cand;
        rc = reprieve(s);
    }
    for (uint32_t v = 0; rc >= 0 && v <= (s->is_found ? s->best.violations : s->n_cand); v++)
        rc = over_focuses(s, combination, v);
    return rc < 0 ? rc : s->is_found ? 0 : -ENOSPC;
}

/* Those beyond their budgets first: where one of them may not go, none is asked in vain. */
static void put_violators_first(struct search *s, uint32_t *sorted)
{
    size_t n = 0;

    for (int pass = 0; pass < 2; pass++) {
        refill(s);
        for (size_t i = 0; i < s->n_victims; i++)
            if (overdraws(s, s->victim[i]) == (pass == 0))
                sorted[n++] = s->victim[i];
    }
}

static int conclude(struct search *s, struct gs_arena *arena, struct gs_preempt_plan *ret)
{
    struct gs_node *node = GS_ARENA_NEW(arena, struct gs_node);
    uint32_t *victim = GS_ARENA_ARRAY(arena, s->n_victims, uint32_t);
    struct gs_preempt_plan plan = {.cost = s->best, .victim = victim, .n = s->n_victims};
    struct gs_reasons reasons;
    int rc;

    if (node == NULL || victim == NULL)
        return -ENOMEM;
    put_violators_first(s, victim);
    set_out(s, s->cand, s->n_cand, false);
    set_out(s, victim, s->n_victims, true);
    count_stakes(s);
    *node = s->node;
    rc = gs_place(s->q->ask, node, arena, &plan.placement, &reasons);
    plan.n_tries = s->n_tries;
    if (rc == 0)
        *ret = plan;
    return rc;
}

int gs_preempt_plan_node(const struct gs_preempt_question *question,
                         const struct gs_books_guests *guests,
                         const struct gs_preempt_budgets *budgets, struct gs_arena *arena,
                         struct gs_preempt_plan *ret)
{
    struct search s = {.q = question, .guests = guests, .budgets = budgets};
    int rc = prepare(&s, arena);

    if (rc == 0)
        rc = search(&s, arena);
    if (rc == 0)
        rc = conclude(&s, arena, ret);
    gs_arena_fini(&s.scratch);
    return rc;
}
