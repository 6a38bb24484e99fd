#include "model/ask.h"

#include <errno.h>
#include <string.h>

#include "contract/annotations.h"
#include "model/amount.h"
#include "model/order.h"
#include "model/text.h"
#include "model/usual.h"

#define NODE_POLICY_KEY GS_STR("hami.io/node-scheduler-policy")

/* ---- amounts that lead to no request ---- */

#define NAMES 7

/** A resource that a vendor's requests are made of. */
struct named {
    struct gs_str name;
    int32_t factor;
    bool is_count;
};

static void names_of(const struct gs_policy *policy, struct named ret[NAMES])
{
    const struct gs_names *n = &policy->names;
    int32_t factor = policy->mem_factor;
    const struct named all[NAMES] = {
        {n->count, 1, true},      {n->count2, 1, true}, {n->mem, factor, false},
        {n->mem2, factor, false}, {n->core, 1, false},  {n->core2, 1, false},
        {n->mem_pct, 1, false},
    };

    memcpy(ret, all, sizeof(all));
}

static bool has_name(const struct gs_policy *policy, struct gs_str name)
{
    struct named of[NAMES];

    names_of(policy, of);
    for (size_t i = 0; i < NAMES; i++)
        if (gs_str_eq(of[i].name, name))
            return true;
    return false;
}

/* 0: it is not there, or none is wanted. */
static int read_amount(const struct gs_container *c, struct gs_str name, int32_t factor)
{
    int32_t value = 0;
    int rc = gs_amount_read_i32(c, name, GS_AMOUNT_BOTH, factor, &value);

    return rc < 0 ? rc : rc > 0 && value > 0;
}

static bool is_asked(const struct gs_policy *policy, const struct gs_pod *pod, size_t container)
{
    struct gs_request request;

    policy->ops->request(policy, pod, container, &request);
    return request.nums > 0;
}

/* Some vendors share names: does another one make something of it? */
static bool is_served(const struct gs_policies *policies, const struct gs_pod *pod,
                      size_t container, struct gs_str name)
{
    for (size_t i = 0; i < policies->n; i++)
        if (has_name(policies->at[i], name) && is_asked(policies->at[i], pod, container))
            return true;
    return false;
}

static bool is_none(const struct gs_container *c, struct gs_str count)
{
    return gs_amount_is_there(c, count, GS_AMOUNT_BOTH) && read_amount(c, count, 1) == 0;
}

/* A vendor that the container makes no request to: does it name an amount all the same? */
static int check_dropped(const struct gs_policies *policies, const struct gs_policy *policy,
                         const struct gs_pod *pod, size_t container, struct gs_err *err)
{
    const struct gs_container *c = &pod->container[container];
    bool has_count = false, is_unreadable = false;
    struct gs_str culprit = {0};
    struct named of[NAMES];

    names_of(policy, of);
    if (is_none(c, policy->names.count) || is_none(c, policy->names.count2))
        return 0;
    for (size_t i = 0; i < NAMES && !is_unreadable; i++) {
        int rc = read_amount(c, of[i].name, of[i].factor);

        if (rc == 0 || is_served(policies, pod, container, of[i].name))
            continue;
        has_count |= of[i].is_count;
        is_unreadable = rc < 0;
        if (culprit.n == 0 || is_unreadable || !of[i].is_count)
            culprit = of[i].name;
    }
    if (culprit.n == 0)
        return 0;
    return gs_usual_refuse(c, culprit,
                           is_unreadable ? "must be an integer below 2^31"
                           : has_count   ? "no card can be given for it"
                                         : "it is a part of a card, and no card is asked for",
                           err);
}

int gs_ask_check(const struct gs_pod *pod, const struct gs_policies *policies, struct gs_err *err)
{
    int rc = 0;

    for (size_t c = 0; rc == 0 && c < pod->n_containers; c++) {
        if (pod->container[c].limits.n == 0 && pod->container[c].requests.n == 0)
            continue;
        for (size_t i = 0; rc == 0 && i < policies->n; i++)
            if (!is_asked(policies->at[i], pod, c))
                rc = check_dropped(policies, policies->at[i], pod, c, err);
    }
    return rc;
}

/* ---- reading ---- */

static int add_line(struct gs_ask *ask, struct gs_arena *arena, size_t *cap,
                    const struct gs_ask_line *line)
{
    if (ask->n_lines >= *cap) {
        size_t more = *cap < 4 ? 8 : *cap * 2;
        struct gs_ask_line *at = GS_ARENA_ARRAY(arena, more, struct gs_ask_line);

        if (at == NULL)
            return -ENOMEM;
        if (ask->n_lines > 0)
            memcpy(at, ask->line, ask->n_lines * sizeof(*at));
        ask->line = at;
        *cap = more;
    }
    ask->line[ask->n_lines++] = *line;
    return 0;
}

/* What would free room in place of taking it is nothing. */
static void tidy(struct gs_request *r)
{
    r->mem_mib = r->mem_mib < 0 ? 0 : r->mem_mib;
    r->cores = r->cores < 0 ? 0 : r->cores;
}

static int read_lines(struct gs_ask *ask, struct gs_arena *arena)
{
    size_t cap = 0;

    for (size_t c = 0; c < ask->pod->n_containers; c++) {
        if (ask->pod->container[c].limits.n == 0 && ask->pod->container[c].requests.n == 0)
            continue;
        for (size_t i = 0; i < ask->policies->n; i++) {
            const struct gs_policy *policy = ask->policies->at[i];
            struct gs_ask_line line = {(uint32_t)c, (uint32_t)i, {0}};
            int rc;

            policy->ops->request(policy, ask->pod, c, &line.request);
            if (line.request.nums <= 0)
                continue;
            tidy(&line.request);
            rc = add_line(ask, arena, &cap, &line);
            if (rc < 0)
                return rc;
        }
    }
    return 0;
}

int gs_ask_wish(const struct gs_pod *pod, const struct gs_policy *policy, struct gs_arena *arena,
                struct gs_wish *ret)
{
    struct gs_wish wish = {0};
    int rc = gs_select_read(pod, &policy->keys, arena, &wish.select);

    if (rc < 0)
        return rc;
    wish.is_numa_bound = gs_text_is_true(gs_pod_annotation(pod, policy->keys.numa_bind, NULL));
    wish.is_link_bound = gs_text_is_true(gs_pod_annotation(pod, policy->keys.link_bind, NULL));
    if (policy->ops->tag != NULL)
        wish.tag = policy->ops->tag(policy, pod);
    if (policy->ops->wish != NULL) {
        rc = policy->ops->wish(policy, pod, arena, &wish.own);
        if (rc < 0)
            return rc;
    }
    *ret = wish;
    return 0;
}

/* A vendor's lines together; false: it has none. */
static bool sum_up(const struct gs_ask *ask, uint32_t policy, struct gs_ask_vendor *ret)
{
    bool any = false;

    for (size_t i = 0; i < ask->n_lines; i++) {
        const struct gs_request *r = &ask->line[i].request;

        if (ask->line[i].policy != policy)
            continue;
        if (!any || r->mem_mib > ret->most.mem_mib ||
            (r->mem_mib == ret->most.mem_mib && r->nums > ret->most.nums))
            ret->most = *r;
        any = true;
    }
    return any;
}

static int read_vendors(struct gs_ask *ask, struct gs_arena *arena)
{
    ask->vendor = GS_ARENA_ARRAY(arena, ask->policies->n, struct gs_ask_vendor);
    if (ask->vendor == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < ask->policies->n; i++) {
        struct gs_ask_vendor *vendor = &ask->vendor[ask->n_vendors];
        int rc;

        if (!sum_up(ask, (uint32_t)i, vendor))
            continue;
        vendor->policy = ask->policies->at[i];
        vendor->word = gs_str_of(vendor->policy->word);
        vendor->policy_index = (uint32_t)i;
        rc = gs_ask_wish(ask->pod, vendor->policy, arena, &vendor->wish);
        if (rc < 0)
            return rc;
        ask->has_scores = ask->has_scores || vendor->policy->ops->score != NULL;
        ask->n_vendors++;
    }
    return 0;
}

bool gs_ask_wants(const struct gs_ask *ask, const struct gs_policy *policy)
{
    for (size_t i = 0; i < ask->n_vendors; i++)
        if (ask->vendor[i].policy == policy)
            return true;
    return false;
}

bool gs_ask_knows_node_policy(struct gs_str text)
{
    return gs_str_eq_c(text, "binpack") || gs_str_eq_c(text, "spread");
}

bool gs_ask_unknown_policy(const struct gs_pod *pod, struct gs_str *ret_key,
                           struct gs_str *ret_word)
{
    *ret_key = NODE_POLICY_KEY;
    *ret_word = gs_pod_annotation(pod, *ret_key, NULL);
    if (ret_word->n > 0 && !gs_ask_knows_node_policy(*ret_word))
        return true;
    *ret_key = GS_STR(GS_ORDER_POLICY_KEY);
    *ret_word = gs_pod_annotation(pod, *ret_key, NULL);
    return ret_word->n > 0 && !gs_order_knows(*ret_word, ret_word);
}

int gs_ask_read(const struct gs_pod *pod, const struct gs_policies *policies,
                const struct gs_ask_flags *flags, struct gs_arena *arena, struct gs_ask *ret,
                struct gs_err *err)
{
    struct gs_ask ask = {.pod = pod, .policies = policies, .quota = flags->quota};
    struct gs_str text = gs_pod_annotation(pod, NODE_POLICY_KEY, NULL);
    int rc = gs_order_read(pod, flags->device_policy, &ask.device_policy, err);

    if (rc < 0)
        return rc;
    rc = gs_ask_check(pod, policies, err);
    if (rc < 0)
        return rc;
    ask.is_node_spread = gs_str_eq_c(text.n > 0 ? text : flags->node_policy, "spread");
    rc = read_lines(&ask, arena);
    if (rc == 0 && ask.n_lines > 0 && pod->node_name.n == 0) { /* else its grant is there */
        rc = gs_pod_check_room(pod, GS_ANNOTATIONS_RESERVE, err);
        if (rc < 0)
            return rc;
    }
    if (rc == 0)
        rc = read_vendors(&ask, arena);
    if (rc < 0)
        return gs_err_set(err, rc, "no memory to read what a pod asks");
    *ret = ask;
    return 0;
}
