#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/fit.h"
#include "model/island.h"
#include "model/json.h"
#include "model/node.h"
#include "model/request.h"
#include "model/usual.h"
#include "vendors/ascend/policy/vnpu.h"

/* gs_device.custom: only where the plugin names the card's network. */
struct network {
    int32_t id;
};

/* gs_group.facts */
struct facts {
    bool is_soft;
    bool has_networks; /* every card's is known */
};

static bool network_of(const struct gs_device *dev, int32_t *ret)
{
    const struct network *network = dev->custom;

    if (network == NULL)
        return false;
    *ret = network->id;
    return true;
}

int gs_vnpu_read_device(void *user, struct yyjson_val *element, struct gs_arena *arena,
                        struct gs_device *dev, struct gs_err *err)
{
    yyjson_val *id = yyjson_obj_get(gs_json_get(element, "custominfo"), "NetworkID");
    struct network *network;
    double number = yyjson_get_num(id); /* 0 where it is none */

    (void)user;
    (void)err;
    if (!yyjson_is_num(id) || !(number >= INT32_MIN && number <= INT32_MAX))
        return 0;
    network = GS_ARENA_NEW(arena, struct network);
    if (network == NULL)
        return -ENOMEM;
    network->id = (int32_t)number;
    dev->custom = network;
    return 0;
}

int gs_vnpu_read_node(const struct gs_policy *policy, const struct gs_node_view *node,
                      struct gs_arena *arena, struct gs_device **ret_dev, struct gs_group *ret,
                      struct gs_err *err)
{
    const struct gs_vnpu_chip *chip = policy->conf;
    const struct gs_str *mode = gs_pairs_find(node->annotations, GS_STR("hami-vnpu-core"));
    struct facts *facts = GS_ARENA_NEW(arena, struct facts);
    int32_t id;
    int rc;

    if (facts == NULL)
        return -ENOMEM;
    rc = gs_usual_read_register(policy, node, arena, ret_dev, ret, err);
    if (rc < 0)
        return rc;
    facts->is_soft = mode != NULL ? gs_str_eq_c(*mode, "true") : chip->is_soft;
    facts->has_networks = true;
    for (uint32_t i = 0; i < ret->n; i++) {
        struct gs_device *dev = &(*ret_dev)[i];

        facts->has_networks = facts->has_networks && network_of(dev, &id);
        if (facts->is_soft)
            dev->cores = 100; /* percent, also where the plugin still counts AI cores */
    }
    ret->facts = facts;
    return 0;
}

int gs_vnpu_wish(const struct gs_policy *policy, const struct gs_pod *pod, struct gs_arena *arena,
                 const void **ret)
{
    (void)policy;
    (void)arena;
    *ret = gs_vnpu_is_soft(pod) ? "hami-core" : NULL;
    return 0;
}

/* Hard mode gives what the driver can cut, also to pods that admission never saw. */
static enum gs_reason amounts(const struct gs_policy *p, const struct gs_fit *fit,
                              const struct gs_device *dev, struct gs_pick *pick)
{
    const struct gs_request *r = fit->request;
    const struct gs_vnpu_template *templ = NULL;
    int32_t mib;

    pick->cores = r->cores > 100 ? 100 : r->cores;
    pick->mem_mib = r->mem_mib > 0 ? r->mem_mib : dev->mem_mib;
    pick->profile = (struct gs_str){0};
    if (r->mem_mib == 0 || fit->wish->own != NULL)
        return GS_REASON_COUNT;
    mib = gs_vnpu_trim(p->conf, r->mem_mib, &templ);
    if (mib < 0)
        return GS_REASON_CARD_INSUFFICIENT_MEMORY;
    pick->mem_mib = mib;
    if (templ != NULL)
        pick->profile = templ->name;
    return GS_REASON_COUNT;
}

static int choose_near(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                       size_t n)
{
    int rc = gs_island_sort(fit->node, network_of, pick, n, fit->arena);

    (void)p;
    return rc < 0 ? rc : fit->request->nums;
}

/* A walk that collects all that fit cannot ask the quota: it would charge cards that are not taken.
 * So walk once more, the chosen ones first. Returns n, -ENOSPC or -ENOMEM. */
static int check_quota(const struct gs_policy *policy, const struct gs_fit *fit,
                       const struct gs_pick *pick, int n)
{
    static const struct gs_fit_rules rules = {.amounts = amounts, .checks_quota = true};
    const struct gs_group *group = fit->group;
    struct gs_fit again = *fit;
    uint32_t *order, at = 0;
    struct gs_pick *got;
    bool *is_chosen;

    if (fit->quota == NULL)
        return n;
    order = GS_ARENA_ARRAY(fit->arena, group->n, uint32_t);
    is_chosen = GS_ARENA_ARRAY(fit->arena, group->n, bool);
    got = GS_ARENA_ARRAY(fit->arena, (size_t)n, struct gs_pick);
    if (gs_arena_check(fit->arena) < 0)
        return -ENOMEM;
    for (int i = 0; i < n; i++)
        is_chosen[pick[i].dev - group->first] = true;
    for (uint32_t i = 0; i < group->n; i++)
        if (!is_chosen[i])
            order[at++] = group->first + i;
    for (int i = n; i > 0; i--)
        order[at++] = pick[i - 1].dev;
    again.order = order;
    n = gs_fit_walk(policy, &rules, &again, got);
    for (int i = 0; i < n; i++)
        if (got[i].dev != pick[i].dev) {
            gs_reasons_add(fit->reasons, GS_REASON_RESOURCE_QUOTA_NOT_FIT, 1);
            return -ENOSPC;
        }
    return n;
}

struct die {
    uint32_t index; /* of the card as registered */
    size_t at;      /* in the list of picks */
};

static int by_index(const void *a, const void *b)
{
    const struct die *x = a, *y = b;

    if (x->index != y->index)
        return x->index < y->index ? -1 : 1;
    return x->at < y->at ? -1 : 1;
}

struct pair {
    size_t a, b; /* of the even and of the odd die, in the list of picks */
};

/* A pair is as good as its better die. */
static int by_best(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    size_t best_x = x->a < x->b ? x->a : x->b, best_y = y->a < y->b ? y->a : y->b;

    return best_x < best_y ? -1 : best_x > best_y;
}

/* Whole modules among the picks, the best first. Their number, or -ENOMEM. */
static int find_pairs(const struct gs_fit *fit, const struct gs_pick *pick, size_t n,
                      struct pair **ret)
{
    struct die *die = GS_ARENA_ARRAY(fit->arena, n, struct die);
    struct pair *pair = GS_ARENA_ARRAY(fit->arena, n / 2, struct pair);
    int n_pairs = 0;

    if (die == NULL || pair == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        die[i] = (struct die){fit->node->dev[pick[i].dev].index, i};
    qsort(die, n, sizeof(die[0]), by_index);
    for (size_t i = 0; i + 1 < n; i++)
        if (die[i].index % 2 == 0 && die[i + 1].index == die[i].index + 1)
            pair[n_pairs++] = (struct pair){die[i].at, die[i + 1].at};
    qsort(pair, (size_t)n_pairs, sizeof(pair[0]), by_best);
    *ret = pair;
    return n_pairs;
}

static int keep_all(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                    size_t n)
{
    (void)p;
    (void)fit;
    (void)pick;
    return (int)n;
}

/* HAMi's text names the dies of whole modules alone, against the request. Where there is no module
 * at all, say what became of the dies. */
static void too_few(const struct gs_fit *fit, int n_pairs, int n)
{
    int nums = fit->request->nums;
    int got = n_pairs < nums / 2 ? 2 * n_pairs : nums - 1;

    if (got > 0)
        fit->reasons->few_of = (uint32_t)nums;
    fit->reasons->collected = (uint32_t)(got > 0 ? got : n);
    fit->reasons->asked = (uint32_t)nums;
    gs_reasons_add(fit->reasons, GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST,
                   fit->reasons->collected);
}

/* Dies 2i and 2i+1 are one module: only whole modules go to a container of several dies. */
static int fit_pairs(const struct gs_policy *policy, const struct gs_fit *fit,
                     struct gs_pick *ret_pick)
{
    static const struct gs_fit_rules all = {.amounts = amounts, .choose = keep_all};
    struct gs_request one = *fit->request;
    struct gs_fit look = *fit;
    struct gs_pick *pick = GS_ARENA_ARRAY(fit->arena, fit->group->n, struct gs_pick);
    int nums = fit->request->nums, n, n_pairs;
    struct pair *pair;

    if (pick == NULL)
        return -ENOMEM;
    one.nums = 1; /* of whatever fits the modules are chosen */
    look.request = &one;
    n = gs_fit_walk(policy, &all, &look, pick);
    if (n < 0)
        return n;
    n_pairs = find_pairs(fit, pick, (size_t)n, &pair);
    if (n_pairs < 0)
        return n_pairs;
    if (n_pairs < nums / 2 || nums % 2 != 0) {
        too_few(fit, n_pairs, n);
        return -ENOSPC;
    }
    for (int i = 0; i < nums / 2; i++) {
        ret_pick[2 * i] = pick[pair[i].a];
        ret_pick[2 * i + 1] = pick[pair[i].b];
    }
    return check_quota(policy, fit, ret_pick, nums);
}

/* Whether the node's way of sharing suits the pod. */
static bool suits(const struct gs_vnpu_chip *chip, const struct gs_fit *fit)
{
    const struct facts *facts = fit->group->facts;
    const struct gs_vnpu_template *templ = NULL;

    if (fit->wish->own != NULL)
        return facts->is_soft;
    if (!facts->is_soft || chip->mixes_on_soft || fit->request->mem_mib == 0)
        return true;
    /* A whole card may go anywhere; the driver cuts no templates on a node in soft mode. */
    return gs_vnpu_trim(chip, fit->request->mem_mib, &templ) < 0 || templ == NULL;
}

int gs_vnpu_fit(const struct gs_policy *policy, struct gs_fit *fit, struct gs_pick *ret_pick)
{
    static const struct gs_fit_rules plain = {.amounts = amounts, .checks_quota = true};
    static const struct gs_fit_rules near = {.amounts = amounts, .choose = choose_near};
    const struct gs_vnpu_chip *chip = policy->conf;
    const struct facts *facts = fit->group->facts;
    int n;

    if (!suits(chip, fit)) {
        gs_reasons_add(fit->reasons, GS_REASON_MODE_NOT_FIT, fit->group->n);
        return -ENOSPC;
    }
    if (fit->request->nums > 1 && (chip->is_super_pod || strcmp(policy->word, "Ascend910C") == 0))
        return fit_pairs(policy, fit, ret_pick);
    if (fit->request->nums <= 1 || strncmp(policy->word, "Ascend910", 9) != 0 ||
        !facts->has_networks)
        return gs_fit_walk(policy, &plain, fit, ret_pick);
    n = gs_fit_walk(policy, &near, fit, ret_pick);
    return n < 0 ? n : check_quota(policy, fit, ret_pick, n);
}

double gs_vnpu_score(const struct gs_policy *policy, const struct gs_assignment *a, bool is_spread)
{
    double sum = 0;

    (void)is_spread;
    if (strncmp(policy->word, "Ascend910", 9) != 0)
        return 0;
    for (size_t c = 0; c < a->pod->n_containers; c++) {
        double share = gs_island_share(a->node, network_of, a->pick[c], a->n_picks[c]);

        if (a->n_picks[c] > 0 && share <= 0)
            return 0; /* a card without a network: nothing is known of this node */
        sum += share;
    }
    return 10 * sum;
}
