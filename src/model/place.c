#include "model/place.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/fit.h"
#include "model/node.h"
#include "model/order.h"
#include "model/request.h"
#include "model/usage.h"

#define FEW 24 /* cards that a plain insertion orders faster than a sort with calls */

/* One pod on one node, under way. */
struct placing {
    const struct gs_ask *ask;
    const struct gs_node *node;
    struct gs_arena *arena;
    struct gs_reasons *reasons;
    struct gs_use *use;     /* [n_dev] with app containers and sidecars so far */
    struct gs_use *passing; /* [n_dev] for an init container; NULL: the pod has none */
    struct gs_ranked *ranked;
    uint32_t *order;
    struct gs_pick *pick; /* [of the largest request] */
    struct gs_taken *taken;
    size_t n_taken;
    size_t most, sum, widest; /* sizes of the above: picks of a line, of all, cards of a group */
};

static bool is_passing(const struct gs_ask *ask, size_t container)
{
    return gs_container_is_passing(&ask->pod->container[container]);
}

static const struct gs_ask_vendor *vendor_of(const struct gs_ask *ask, uint32_t policy_index)
{
    for (size_t i = 0; i < ask->n_vendors; i++)
        if (ask->vendor[i].policy_index == policy_index)
            return &ask->vendor[i];
    return NULL;
}

static int by_rank(const struct gs_ranked *a, const struct gs_ranked *b,
                   const struct gs_device_policy *p, bool is_numa_bound)
{
    if (gs_order_less(p, is_numa_bound, a, b))
        return -1;
    if (gs_order_less(p, is_numa_bound, b, a))
        return 1;
    return (a->dev > b->dev) - (a->dev < b->dev);
}

struct sort_by {
    const struct gs_device_policy *policy;
    bool is_numa_bound;
};

static int by_rank_of(const void *a, const void *b, void *user)
{
    const struct sort_by *by = user;

    return by_rank(a, b, by->policy, by->is_numa_bound);
}

static void sort(struct gs_ranked *ranked, size_t n, const struct sort_by *by)
{
    if (n > FEW) {
        qsort_r(ranked, n, sizeof(*ranked), by_rank_of, (void *)(uintptr_t)by);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        struct gs_ranked moved = ranked[i];
        size_t to = i;

        for (; to > 0 && gs_order_less(by->policy, by->is_numa_bound, &moved, &ranked[to - 1]);
             to--)
            ranked[to] = ranked[to - 1];
        ranked[to] = moved;
    }
}

/* HAMi counts the request into a device's score only where the device's type is the vendor's word
 * to the letter: never for model names. */
static float score(const struct gs_ask *ask, const struct gs_ask_vendor *vendor,
                   const struct gs_request *request, const struct gs_device *dev,
                   const struct gs_use *use)
{
    if (!gs_str_eq(dev->type, vendor->word))
        return gs_order_score(&ask->device_policy, dev, use, 0, 0, 0);
    return gs_order_score(&ask->device_policy, dev, use, 1, request->cores,
                          request->mem_pct != 0 && request->mem_pct != GS_PCT_NONE
                              ? (int32_t)((int64_t)dev->mem_mib * request->mem_pct / 100)
                              : request->mem_mib);
}

/* Are there `nums` open cards with the memory and the cores of the request? A necessary condition
 * before anything of the pod was placed, from the sums of the node alone. */
static bool may_serve(const struct gs_policy *policy, const struct gs_request *request,
                      const struct gs_node *node)
{
    const struct gs_fit_rules *rules = policy->ops->rules;
    size_t nums = rules != NULL && rules->repeats != NULL ? 1 : (size_t)request->nums;
    size_t last = nums < GS_ROOM_CARDS ? nums - 1 : GS_ROOM_CARDS - 1, i = 0;
    const struct gs_room *room = node->room;
    int64_t mem = request->mem_mib;

    while (i < node->n_groups && room->policy != policy) {
        room++;
        i++;
    }
    if (i == node->n_groups || room->n_open == 0)
        return false;
    if (policy->ops->fit != NULL)
        return true; /* such vendors count in their own way */
    if (room->n_open < nums)
        return false;
    if (rules != NULL && rules->amounts != NULL)
        return true;
    if (mem <= 0 && request->mem_pct > 0 && request->mem_pct < GS_PCT_NONE)
        mem = (int64_t)room->min_mem_mib * request->mem_pct / 100;
    if (mem > room->free_mib[last])
        return false;
    if (rules != NULL && rules->cores != NULL)
        return true;
    return (request->cores > 100 ? 100 : request->cores) <= room->free_cores[last];
}

static void put_in_order(struct placing *p, const struct gs_ask_vendor *vendor,
                         const struct gs_request *request, const struct gs_group *group,
                         const struct gs_use *use)
{
    const struct sort_by by = {&p->ask->device_policy, vendor->wish.is_numa_bound};
    struct gs_ranked *ranked = p->ranked;

    if (p->node->room != NULL && !by.is_numa_bound &&
        !may_serve(vendor->policy, request, p->node)) {
        /* It cannot serve, and the counts of reasons are the same in any order. */
        for (uint32_t i = 0; i < group->n; i++)
            p->order[i] = group->first + i;
        return;
    }
    for (uint32_t i = 0; i < group->n; i++) {
        const struct gs_device *dev = &p->node->dev[group->first + i];

        ranked[i] = (struct gs_ranked){dev, &use[group->first + i], 0};
        ranked[i].score = score(p->ask, vendor, request, dev, ranked[i].use);
    }
    sort(ranked, group->n, &by);
    for (uint32_t i = 0; i < group->n; i++)
        p->order[i] = (uint32_t)(ranked[i].dev - p->node->dev);
}

/* More cards than the node has, where none may be taken twice. */
static bool has_too_few(const struct gs_policy *policy, const struct gs_fit *fit)
{
    const struct gs_fit_rules *rules = policy->ops->rules;
    uint32_t n = fit->group != NULL ? fit->group->n : 0;

    if (n > 0 && fit->request->nums <= (int64_t)n)
        return false;
    if (rules == NULL || rules->repeats == NULL ||
        fit->request->nums > (int64_t)n * GS_FIT_REPEATS_MAX)
        return true;
    for (uint32_t i = 0; i < n; i++)
        if (rules->repeats(policy, fit, &fit->node->dev[fit->group->first + i]))
            return false;
    return true;
}

static void take(struct placing *p, const struct gs_policy *policy, const struct gs_fit *fit, int n)
{
    bool is_gone = is_passing(p->ask, fit->container);

    assert(n >= 0 && (size_t)n <= p->most);
    for (int i = 0; i < n; i++) {
        const struct gs_pick *pick = &p->pick[i];

        assert(pick->dev - fit->group->first < fit->group->n);
        gs_usage_book(policy, &p->node->dev[pick->dev], &fit->use[pick->dev], pick);
        p->taken[p->n_taken++] = (struct gs_taken){policy, fit->container, is_gone, *pick};
    }
}

static int place_line(struct placing *p, const struct gs_ask_line *line)
{
    const struct gs_ask_vendor *vendor = vendor_of(p->ask, line->policy);
    const struct gs_policy *policy = vendor->policy;
    const struct gs_group *group = gs_node_group(p->node, policy);
    bool passing = is_passing(p->ask, line->container);
    struct gs_fit fit = {
        .pod = p->ask->pod,
        .container = line->container,
        .request = &line->request,
        .node = p->node,
        .group = group,
        .use = passing ? p->passing : p->use,
        .order = p->order,
        .policy = &p->ask->device_policy,
        .wish = &vendor->wish,
        .taken = p->taken,
        .n_taken = p->n_taken,
        .quota = p->ask->quota,
        .arena = p->arena,
        .reasons = p->reasons,
    };
    int n;

    gs_reasons_reset(p->reasons, group != NULL ? group->n : 0);
    if (has_too_few(policy, &fit)) {
        gs_reasons_add(p->reasons, GS_REASON_NODE_INSUFFICIENT_DEVICE, 1);
        p->reasons->asked = (uint32_t)line->request.nums;
        return -ENOSPC;
    }
    if (passing)
        memcpy(&p->passing[group->first], &p->use[group->first], group->n * sizeof(*p->use));
    put_in_order(p, vendor, &line->request, group, fit.use);
    n = policy->ops->fit != NULL ? policy->ops->fit(policy, &fit, p->pick)
                                 : gs_fit_walk(policy, policy->ops->rules, &fit, p->pick);
    if (n < 0)
        return n;
    take(p, policy, &fit, n);
    return 0;
}

static int prepare(struct placing *p)
{
    bool has_passing = false;

    for (size_t i = 0; i < p->ask->n_lines; i++) {
        const struct gs_ask_line *line = &p->ask->line[i];
        const struct gs_group *group = gs_node_group(p->node, p->ask->policies->at[line->policy]);
        size_t n = group != NULL ? (size_t)group->n * GS_FIT_REPEATS_MAX : 0;

        n = (size_t)line->request.nums < n ? (size_t)line->request.nums : n;
        has_passing = has_passing || is_passing(p->ask, line->container);
        p->sum += n;
        p->most = n > p->most ? n : p->most;
        p->widest = group != NULL && group->n > p->widest ? group->n : p->widest;
    }
    p->use = GS_ARENA_ARRAY(p->arena, p->node->n_dev, struct gs_use);
    if (has_passing)
        p->passing = GS_ARENA_ARRAY(p->arena, p->node->n_dev, struct gs_use);
    p->ranked = GS_ARENA_ARRAY(p->arena, p->widest, struct gs_ranked);
    p->order = GS_ARENA_ARRAY(p->arena, p->widest, uint32_t);
    p->pick = GS_ARENA_ARRAY(p->arena, p->most, struct gs_pick);
    p->taken = GS_ARENA_ARRAY(p->arena, p->sum, struct gs_taken);
    if (gs_arena_check(p->arena) < 0)
        return -ENOMEM;
    if (p->node->n_dev > 0)
        memcpy(p->use, p->node->use, p->node->n_dev * sizeof(*p->use));
    return 0;
}

/* The pod's picks of one vendor, container by container. */
static int assign(const struct gs_ask *ask, const struct gs_placement *placement,
                  const struct gs_ask_vendor *vendor, struct gs_arena *arena,
                  struct gs_assignment *ret)
{
    size_t n = ask->pod->n_containers, at = 0;
    struct gs_pick *pick = GS_ARENA_ARRAY(arena, placement->n, struct gs_pick);
    const struct gs_pick **picks = GS_ARENA_ARRAY(arena, n, const struct gs_pick *);
    size_t *n_picks = GS_ARENA_ARRAY(arena, n, size_t);
    struct gs_request *request = GS_ARENA_ARRAY(arena, n, struct gs_request);

    if (gs_arena_check(arena) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        picks[i] = pick;
    for (size_t i = 0; i < placement->n; i++) {
        const struct gs_taken *t = &placement->taken[i];

        if (t->policy != vendor->policy)
            continue;
        if (n_picks[t->container]++ == 0)
            picks[t->container] = &pick[at];
        pick[at++] = t->pick;
    }
    for (size_t i = 0; i < ask->n_lines; i++)
        if (ask->line[i].policy == vendor->policy_index)
            request[ask->line[i].container] = ask->line[i].request;
    *ret = (struct gs_assignment){
        .pod = ask->pod,
        .node = placement->node,
        .group = gs_node_group(placement->node, vendor->policy),
        .wish = &vendor->wish,
        .pick = picks,
        .n_picks = n_picks,
        .request = request,
    };
    return 0;
}

static int add_scores(const struct gs_ask *ask, struct gs_arena *arena, struct gs_placement *to)
{
    for (size_t i = 0; i < ask->n_vendors; i++) {
        const struct gs_ask_vendor *vendor = &ask->vendor[i];
        struct gs_assignment a;
        int rc;

        if (vendor->policy->ops->score == NULL)
            continue;
        rc = assign(ask, to, vendor, arena, &a);
        if (rc < 0)
            return rc;
        to->score += vendor->policy->ops->score(vendor->policy, &a, ask->is_node_spread);
    }
    return 0;
}

int gs_place(const struct gs_ask *ask, const struct gs_node *node, struct gs_arena *arena,
             struct gs_placement *ret, struct gs_reasons *reasons)
{
    struct placing p = {.ask = ask, .node = node, .arena = arena, .reasons = reasons};
    struct gs_placement placement;
    int rc = prepare(&p);

    for (size_t i = 0; i < ask->n_lines && rc == 0; i++)
        rc = place_line(&p, &ask->line[i]);
    if (rc < 0)
        return rc;
    placement = (struct gs_placement){node, p.taken, p.n_taken, node->score};
    if (ask->has_scores) {
        rc = add_scores(ask, arena, &placement);
        if (rc < 0)
            return rc;
    }
    *ret = placement;
    return 0;
}

static bool has_open_card(const struct gs_node *node, const struct gs_policy *policy)
{
    const struct gs_group *group = gs_node_group(node, policy);

    for (uint32_t i = 0; group != NULL && i < group->n; i++) {
        const struct gs_device *dev = &node->dev[group->first + i];
        const struct gs_use *use = &node->use[group->first + i];

        if (gs_device_ask_open(dev, use) == GS_REASON_COUNT && dev->count > use->slots)
            return true;
    }
    return false;
}

bool gs_place_may(const struct gs_ask *ask, const struct gs_node *node)
{
    for (size_t i = 0; i < ask->n_vendors; i++) {
        const struct gs_ask_vendor *vendor = &ask->vendor[i];

        if (node->room != NULL ? !may_serve(vendor->policy, &vendor->most, node)
                               : !has_open_card(node, vendor->policy))
            return false;
    }
    return true;
}

/* Text of a grant's second field; a type that would break the grant is not written. */
static struct gs_str type_text(const struct gs_policy *policy, const struct gs_device *dev)
{
    for (size_t i = 0; policy->writes_own_type && i < dev->type.n; i++)
        if (strchr(",:;", dev->type.p[i]) != NULL)
            return gs_str_of(policy->word);
    return policy->writes_own_type && dev->type.n > 0 ? dev->type : gs_str_of(policy->word);
}

int gs_place_grant(const struct gs_ask *ask, const struct gs_placement *placement,
                   const struct gs_policy *policy, struct gs_arena *arena, struct gs_grant *ret)
{
    struct gs_grant grant = {.n = ask->pod->n_containers};
    struct gs_grant_dev *dev = GS_ARENA_ARRAY(arena, placement->n, struct gs_grant_dev);

    grant.slot = GS_ARENA_ARRAY(arena, grant.n, struct gs_grant_slot);
    if (gs_arena_check(arena) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < placement->n; i++) {
        const struct gs_taken *t = &placement->taken[i];
        const struct gs_device *from = &placement->node->dev[t->pick.dev];
        struct gs_grant_slot *slot = &grant.slot[t->container];

        if (t->policy != policy)
            continue;
        if (slot->n++ == 0)
            slot->dev = dev;
        *dev++ = (struct gs_grant_dev){from->id, type_text(policy, from), t->pick.mem_mib,
                                       t->pick.cores};
    }
    *ret = grant;
    return 0;
}

static int annotate_grant(const struct gs_ask *ask, const struct gs_placement *placement,
                          const struct gs_policy *policy, struct gs_arena *arena,
                          struct gs_pairs *to)
{
    struct gs_buf buf = {0};
    struct gs_grant grant;
    struct gs_str text;
    int rc = gs_place_grant(ask, placement, policy, arena, &grant);

    if (rc < 0)
        return rc;
    gs_grant_write(&grant, &buf);
    rc = gs_buf_move(&buf, arena, &text);
    if (rc == 0 && policy->keys.to_allocate.n > 0)
        rc = gs_pairs_set(to, arena, policy->keys.to_allocate, text);
    if (rc == 0 && policy->keys.allocated.n > 0)
        rc = gs_pairs_set(to, arena, policy->keys.allocated, text);
    return rc;
}

static int annotate_vendor(const struct gs_ask *ask, const struct gs_placement *placement,
                           const struct gs_ask_vendor *vendor, int64_t now_ns,
                           struct gs_arena *arena, struct gs_pairs *to)
{
    struct gs_assignment a;
    int rc = annotate_grant(ask, placement, vendor->policy, arena, to);

    if (rc < 0 || vendor->policy->ops->annotate == NULL)
        return rc;
    rc = assign(ask, placement, vendor, arena, &a);
    if (rc < 0)
        return rc;
    a.now_ns = now_ns;
    a.now_s = now_ns / 1000000000;
    return vendor->policy->ops->annotate(vendor->policy, &a, arena, to);
}

int gs_place_annotate(const struct gs_ask *ask, const struct gs_placement *placement,
                      int64_t now_ns, struct gs_arena *arena, struct gs_pairs *ret)
{
    struct gs_pairs pairs = {0};
    int rc = gs_pairs_set(&pairs, arena, GS_STR("hami.io/vgpu-node"), placement->node->name);

    if (rc == 0)
        rc = gs_pairs_set(&pairs, arena, GS_STR("hami.io/vgpu-time"),
                          gs_arena_printf(arena, "%lld", (long long)(now_ns / 1000000000)));
    for (size_t i = 0; i < ask->n_vendors && rc == 0; i++)
        rc = annotate_vendor(ask, placement, &ask->vendor[i], now_ns, arena, &pairs);
    if (rc == 0)
        rc = gs_arena_check(arena);
    if (rc < 0)
        return rc;
    *ret = pairs;
    return 0;
}
