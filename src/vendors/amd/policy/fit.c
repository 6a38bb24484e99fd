#include "vendors/amd/policy/fit.h"

#include <errno.h>
#include <string.h>

#include "vendors/amd/policy/node.h"

/* --- what a pick takes of a card --- */

int32_t gs_amd_units(int32_t total, int32_t pct, int32_t unit)
{
    int64_t units = (int64_t)total * pct / 100;

    if (units < 1)
        units = 1;
    units = (units + unit - 1) / unit * unit;
    return units > total ? total : (int32_t)units;
}

static int32_t memory(const struct gs_request *request, const struct gs_device *dev)
{
    int64_t part;

    if (request->mem_mib > 0)
        return request->mem_mib;
    if (request->mem_pct == 0)
        return dev->mem_mib;
    part = (int64_t)dev->mem_mib * request->mem_pct / 100;
    return part < 1 ? 1 : (int32_t)part;
}

/* Memory that is named takes no compute unit of its own: a request without cores (which the usual
 * default of 100 does not leave) holds those of a whole card only. */
static enum gs_reason amounts(const struct gs_policy *p, const struct gs_fit *fit,
                              const struct gs_device *dev, struct gs_pick *pick)
{
    const struct gs_amd_device *own = dev->custom;
    int32_t unit = own != NULL ? own->cu_per_wgp : 1;

    (void)p;
    pick->mem_mib = memory(fit->request, dev);
    if (fit->request->cores == 0) {
        pick->cores = pick->mem_mib >= dev->mem_mib ? dev->cores : 0;
        return GS_REASON_COUNT;
    }
    if (dev->cores <= 0)
        return GS_REASON_CARD_INSUFFICIENT_CORE;
    pick->cores = gs_amd_units(dev->cores, fit->request->cores, unit);
    return GS_REASON_COUNT;
}

/* --- sets of cards that belong together --- */

/* A search over sets of many cards stops after so many looks at pairs (a tenth of a millisecond a
 * node), and the answer is "no". Cards that fall into islands never come near: 64 partitions in two
 * hives take some thousand looks. */
#define LOOKS_MAX 50000

struct search {
    const struct gs_fit *fit;
    const struct gs_pick *pick;
    size_t n;
    bool by_numa, by_link;
    long looks;
};

static bool go_together(struct search *s, size_t a, size_t b)
{
    uint32_t x = s->pick[a].dev, y = s->pick[b].dev;
    const struct gs_amd_facts *facts = s->fit->group->facts;
    uint32_t first = s->fit->group->first;

    s->looks++;
    if (s->by_numa && s->fit->node->dev[x].numa != s->fit->node->dev[y].numa)
        return false;
    return !s->by_link || (facts != NULL && facts->is_linked != NULL &&
                           facts->is_linked[(x - first) * facts->n + (y - first)]);
}

static bool goes_with(struct search *s, const size_t *set, size_t n_set, size_t one)
{
    for (size_t i = 0; i < n_set; i++)
        if (!go_together(s, set[i], one))
            return false;
    return true;
}

/* Are there enough behind the last of the set that go with all of it? */
static bool may_grow_to(struct search *s, const size_t *set, size_t n_set, size_t want)
{
    size_t n = n_set;

    for (size_t i = set[n_set - 1] + 1; i < s->n && n < want; i++)
        n += goes_with(s, set, n_set, i);
    return n >= want;
}

/* The first set of `want` in the order of picks in which each goes with each: depth first, without
 * recursion. `set` has room for `want` >= 1. */
static bool find_set(struct search *s, size_t want, size_t *set)
{
    size_t depth = 0, next = 0;

    while (s->looks < LOOKS_MAX) {
        while (next < s->n && !goes_with(s, set, depth, next))
            next++;
        if (next == s->n) { /* no more here: another one a level up */
            if (depth == 0)
                return false;
            next = set[--depth] + 1;
            continue;
        }
        set[depth++] = next;
        if (depth == want)
            return true;
        if (may_grow_to(s, set, depth, want))
            next++;
        else
            next = set[--depth] + 1;
    }
    return false;
}

static int choose(const struct gs_fit *fit, struct gs_pick *pick, size_t n, bool by_numa,
                  bool by_link)
{
    struct search s = {fit, pick, n, by_numa, by_link, 0};
    size_t want = (size_t)fit->request->nums;
    size_t *set = GS_ARENA_ARRAY(fit->arena, want, size_t);

    if (set == NULL)
        return -ENOMEM;
    if (find_set(&s, want, set)) {
        for (size_t i = 0; i < want; i++) /* ascending: none is overwritten before it is moved */
            pick[i] = pick[set[i]];
        return (int)want;
    }
    s = (struct search){fit, pick, n, by_numa, false, 0};
    gs_reasons_add(fit->reasons,
                   by_link && find_set(&s, want, set) ? GS_REASON_LINK_NOT_FIT
                                                      : GS_REASON_NUMA_NOT_FIT,
                   (uint32_t)n);
    return -ENOSPC;
}

static int choose_numa(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                       size_t n)
{
    (void)p;
    return choose(fit, pick, n, true, false);
}

static int choose_link(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                       size_t n)
{
    (void)p;
    return choose(fit, pick, n, false, true);
}

static int choose_both(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                       size_t n)
{
    (void)p;
    return choose(fit, pick, n, true, true);
}

static const struct gs_fit_rules rules[] = {
    {.amounts = amounts, .checks_quota = true},
    {.amounts = amounts, .checks_quota = true, .choose = choose_numa},
    {.amounts = amounts, .checks_quota = true, .choose = choose_link},
    {.amounts = amounts, .checks_quota = true, .choose = choose_both},
};

int gs_amd_fit(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick)
{
    bool is_set = fit->request->nums > 1;
    unsigned by_numa = is_set && fit->wish->is_numa_bound;
    unsigned by_link = is_set && fit->wish->is_link_bound;
    struct gs_wish wish = *fit->wish;
    struct gs_fit ours = *fit;

    /* Whole sets are looked at here, so that the walk must not cut them at each change of node. */
    wish.is_numa_bound = false;
    ours.wish = &wish;
    return gs_fit_walk(policy, &rules[by_numa + 2 * by_link], &ours, ret_pick);
}
