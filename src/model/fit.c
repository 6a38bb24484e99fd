#include "model/fit.h"

#include <errno.h>

#include "model/ns_quota.h"
#include "model/policy.h"
#include "model/usage.h"

/* What the pod's containers take of one device, for the namespace's quota: the books will count the
 * larger of the init containers and the sum of the others. */
struct charge {
    int64_t mem, cores;           /* of app containers and sidecars so far */
    int64_t peak_mem, peak_cores; /* the largest at any time */
    int64_t here_mem, here_cores; /* of the init container at hand */
    size_t here;                  /* its index + 1 */
};

struct walk {
    const struct gs_policy *policy;
    const struct gs_fit_rules *rules;
    struct gs_fit *fit;
    struct gs_pick *pick;
    size_t n;
    bool collects, has_run, is_full;
    int32_t run_numa;
    struct charge *charge; /* [group->n]; NULL: no quota to look at */
    int64_t total_mem, total_cores;
};

int32_t gs_fit_mem(const struct gs_request *request, const struct gs_device *dev)
{
    if (request->mem_mib > 0)
        return request->mem_mib;
    if (request->mem_pct <= 0 || request->mem_pct >= GS_PCT_NONE)
        return 0;
    return (int32_t)((int64_t)dev->mem_mib * request->mem_pct / 100);
}

enum gs_reason gs_fit_ask(const struct gs_fit *fit, uint32_t dev)
{
    enum gs_reason why = gs_device_ask_open(&fit->node->dev[dev], &fit->use[dev]);

    if (why == GS_REASON_COUNT && !gs_select_takes_uuid(&fit->wish->select, fit->node->dev[dev].id))
        why = GS_REASON_CARD_UUID_MISMATCH;
    return why;
}

static bool is_passing(const struct walk *w)
{
    return gs_container_is_passing(&w->fit->pod->container[w->fit->container]);
}

static void charge_add(struct walk *w, struct charge *c, size_t container, bool is_gone,
                       const struct gs_pick *pick)
{
    int64_t mem = c->mem + pick->mem_mib, cores = c->cores + pick->cores;

    if (is_gone) {
        if (c->here != container + 1)
            c->here_mem = c->here_cores = 0;
        c->here = container + 1;
        c->here_mem += pick->mem_mib;
        c->here_cores += pick->cores;
        mem = c->mem + c->here_mem;
        cores = c->cores + c->here_cores;
    } else {
        c->mem = mem;
        c->cores = cores;
    }
    if (mem > c->peak_mem) {
        w->total_mem += mem - c->peak_mem;
        c->peak_mem = mem;
    }
    if (cores > c->peak_cores) {
        w->total_cores += cores - c->peak_cores;
        c->peak_cores = cores;
    }
}

/* Begin with what earlier containers took. */
static void charge_start(struct walk *w)
{
    const struct gs_group *group = w->fit->group;

    if (w->charge == NULL)
        return;
    for (uint32_t i = 0; i < group->n; i++)
        w->charge[i] = (struct charge){0};
    w->total_mem = w->total_cores = 0;
    for (size_t i = 0; i < w->fit->n_taken; i++) {
        const struct gs_taken *t = &w->fit->taken[i];

        if (t->policy == w->policy)
            charge_add(w, &w->charge[t->pick.dev - group->first], t->container, t->is_gone,
                       &t->pick);
    }
}

static bool fits_quota(const struct walk *w, const struct gs_pick *pick)
{
    struct walk would = *w;
    struct charge c;

    if (w->charge == NULL)
        return true;
    c = w->charge[pick->dev - w->fit->group->first];
    charge_add(&would, &c, w->fit->container, is_passing(w), pick);
    return gs_ns_quota_fits(w->fit->quota, w->policy, would.total_mem, would.total_cores);
}

static enum gs_reason usual_type(const struct walk *w, const struct gs_device *dev)
{
    return gs_select_takes_type(&w->fit->wish->select, dev->type) ? GS_REASON_COUNT
                                                                  : GS_REASON_CARD_TYPE_MISMATCH;
}

/* All cards of a container on one NUMA node: the order has them in groups. What was collected of
 * another group does not count. */
static void keep_run(struct walk *w, const struct gs_device *dev)
{
    if (!w->fit->wish->is_numa_bound || (w->has_run && w->run_numa == dev->numa))
        return;
    if (w->collects && w->n >= (size_t)w->fit->request->nums) {
        w->is_full = true; /* a group that serves is there: choose from it */
        return;
    }
    gs_reasons_add(w->fit->reasons, GS_REASON_NUMA_NOT_FIT, (uint32_t)w->n);
    w->n = 0;
    w->has_run = true;
    w->run_numa = dev->numa;
    charge_start(w);
}

/* Remember, for people, the card that came nearest. */
static void note_best(struct walk *w, const struct gs_pick *pick, int32_t free_mib,
                      int32_t free_cores, bool lacks_mem)
{
    struct gs_reasons *r = w->fit->reasons;
    bool had_mem = r->count[GS_REASON_CARD_INSUFFICIENT_MEMORY] > 0;
    bool had_core = r->count[GS_REASON_CARD_INSUFFICIENT_CORE] > 0;

    if (lacks_mem ? had_mem && free_mib <= r->best_free_mib
                  : had_mem || (had_core && free_cores <= r->best_free_cores))
        return;
    r->best_device = pick->dev;
    r->best_free_mib = free_mib;
    r->best_free_cores = free_cores;
    r->need_mib = pick->mem_mib;
    r->need_cores = pick->cores;
}

/* Memory and cores that are left, against the pick's. */
static enum gs_reason ask_room(struct walk *w, const struct gs_device *dev,
                               const struct gs_use *use, const struct gs_pick *pick)
{
    int32_t total = w->rules->cores != NULL ? w->rules->cores(w->policy, w->fit, dev) : dev->cores;
    int32_t free_mib = gs_usage_add(dev->mem_mib, -use->mem_mib);
    int32_t free_cores = gs_usage_add(total, -use->cores);

    if (free_mib < pick->mem_mib) {
        note_best(w, pick, free_mib, free_cores, true);
        return GS_REASON_CARD_INSUFFICIENT_MEMORY;
    }
    if (free_cores < pick->cores) {
        note_best(w, pick, free_mib, free_cores, false);
        return GS_REASON_CARD_INSUFFICIENT_CORE;
    }
    if (w->policy->is_exclusive_at_100 && total == 100 && pick->cores == 100 && use->slots > 0)
        return GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT;
    if (total != 0 && free_cores <= 0 && pick->cores == 0)
        return GS_REASON_CARD_COMPUTE_UNITS_EXHAUSTED;
    return GS_REASON_COUNT;
}

static enum gs_reason ask_amounts(const struct walk *w, const struct gs_device *dev,
                                  struct gs_pick *pick)
{
    const struct gs_request *request = w->fit->request;

    if (w->rules->amounts != NULL)
        return w->rules->amounts(w->policy, w->fit, dev, pick);
    pick->mem_mib = gs_fit_mem(request, dev);
    pick->cores = request->cores > 100 ? 100 : request->cores;
    return GS_REASON_COUNT;
}

/* HAMi's questions in HAMi's order. `use`: with what this container took of the device already. */
static enum gs_reason ask(struct walk *w, const struct gs_device *dev, const struct gs_use *use,
                          struct gs_pick *pick)
{
    const struct gs_fit_rules *rules = w->rules;
    enum gs_reason reason = gs_device_ask_open(dev, use);

    if (reason != GS_REASON_COUNT)
        return reason;
    reason = rules->type != NULL ? rules->type(w->policy, w->fit, dev) : usual_type(w, dev);
    if (reason != GS_REASON_COUNT)
        return reason;
    keep_run(w, dev);
    if (w->is_full)
        return GS_REASON_COUNT;
    if (!gs_select_takes_uuid(&w->fit->wish->select, dev->id))
        return GS_REASON_CARD_UUID_MISMATCH;
    if (dev->count <= use->slots)
        return GS_REASON_CARD_TIME_SLICING_EXHAUSTED;
    if (w->fit->policy->is_mutex && use->slots > 0)
        return GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT;
    reason = ask_amounts(w, dev, pick);
    if (reason != GS_REASON_COUNT)
        return reason;
    if (!fits_quota(w, pick))
        return GS_REASON_RESOURCE_QUOTA_NOT_FIT;
    reason = ask_room(w, dev, use, pick);
    if (reason == GS_REASON_COUNT && rules->last != NULL)
        reason = rules->last(w->policy, w->fit, dev, w->pick, w->n, pick);
    return reason;
}

static void take(struct walk *w, const struct gs_pick *pick)
{
    w->pick[w->n++] = *pick;
    if (w->charge != NULL)
        charge_add(w, &w->charge[pick->dev - w->fit->group->first], w->fit->container,
                   is_passing(w), pick);
    w->is_full = !w->collects && w->n == (size_t)w->fit->request->nums;
}

/* Ask one device until it refuses, once where it does not repeat. */
static void visit(struct walk *w, uint32_t index)
{
    const struct gs_device *dev = &w->fit->node->dev[index];
    struct gs_use use = w->fit->use[index];
    int times = w->rules->repeats != NULL && w->rules->repeats(w->policy, w->fit, dev)
                    ? GS_FIT_REPEATS_MAX
                    : 1;

    for (int i = 0; i < times && !w->is_full; i++) {
        struct gs_pick pick = {.dev = index};
        enum gs_reason reason = ask(w, dev, &use, &pick);

        if (reason != GS_REASON_COUNT) {
            gs_reasons_add(w->fit->reasons, reason, 1);
            return;
        }
        if (w->is_full)
            return;
        take(w, &pick);
        gs_usage_book(w->policy, dev, &use, &pick);
    }
}

static int finish(struct walk *w, struct gs_pick *ret_pick)
{
    size_t nums = (size_t)w->fit->request->nums;
    int n = (int)nums;

    if (w->n < nums) {
        struct gs_reasons *r = w->fit->reasons;

        if (w->n > 0)
            r->count[GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST] = (uint32_t)w->n;
        r->collected = (uint32_t)w->n;
        r->asked = (uint32_t)nums;
        return -ENOSPC;
    }
    if (w->collects && w->rules->choose != NULL)
        n = w->rules->choose(w->policy, w->fit, w->pick, w->n);
    for (int i = 0; i < n && w->pick != ret_pick; i++)
        ret_pick[i] = w->pick[i];
    return n;
}

int gs_fit_walk(const struct gs_policy *policy, const struct gs_fit_rules *rules,
                struct gs_fit *fit, struct gs_pick *ret_pick)
{
    static const struct gs_fit_rules usual = {0};
    struct walk w = {.policy = policy, .fit = fit, .pick = ret_pick};
    const struct gs_group *group = fit->group;

    w.rules = rules != NULL ? rules : &usual;
    w.collects =
        w.rules->choose != NULL && (w.rules->collects == NULL || w.rules->collects(policy, fit));
    if (w.collects) {
        size_t most = (size_t)group->n * (w.rules->repeats != NULL ? GS_FIT_REPEATS_MAX : 1);

        w.pick = GS_ARENA_ARRAY(fit->arena, most, struct gs_pick);
        if (w.pick == NULL)
            return -ENOMEM;
    }
    if (w.rules->checks_quota && fit->quota != NULL) {
        w.charge = GS_ARENA_ARRAY(fit->arena, group->n, struct charge);
        if (w.charge == NULL)
            return -ENOMEM;
        charge_start(&w);
    }
    gs_reasons_reset(fit->reasons, group->n);
    for (uint32_t i = group->n; i > 0 && !w.is_full; i--)
        visit(&w, fit->order[i - 1]);
    return finish(&w, ret_pick);
}
