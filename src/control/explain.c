#include "control/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/shortage.h"
#include "model/usage.h"

#define CANDIDATES_MAX 256 /* pods of one node that are thought away one by one */

struct explaining {
    struct gs_books *books;
    struct gs_arena *arena;  /**< of the result */
    struct gs_arena scratch; /**< of one try */
    struct gs_explanation *to;
    struct gs_shortage shortage;
};

/** A pod on a node that might end. */
struct candidate {
    struct gs_str uid;
    struct gs_explain_holder holder; /**< on all cards together */
    bool is_kept;
};

struct node_try {
    const struct gs_node *node;
    struct candidate *at;
    size_t n;
};

static struct gs_explain_holder holder_of(const struct explaining *e, const struct gs_tenant *t)
{
    struct gs_explain_holder h = {.mem_mib = t->mem_mib, .cores = t->cores, .slots = t->slots};
    struct gs_books_holder who;

    if (t->uid.n > 0 && gs_books_holder(e->books, t->uid, &who)) {
        h.ns = who.ns;
        h.name = who.name;
        h.priority = who.priority;
        h.is_reservation = who.is_reservation;
    }
    return h;
}

/* ---- what would make room ---- */

static bool is_candidate_gone(const struct node_try *try, struct gs_str uid)
{
    for (size_t i = 0; i < try->n; i++)
        if (gs_str_eq(try->at[i].uid, uid))
            return !try->at[i].is_kept;
    return false;
}

/* The node without those who are thought away. 0 or -ENOMEM. */
static int without(const struct node_try *try, struct gs_arena *arena, struct gs_node *ret)
{
    const struct gs_node *node = try->node;
    struct gs_use *use = GS_ARENA_ARRAY(arena, node->n_dev, struct gs_use);

    if (use == NULL)
        return -ENOMEM;
    memcpy(use, node->use, node->n_dev * sizeof(*use));
    for (size_t g = 0; g < node->n_groups; g++)
        for (uint32_t i = node->group[g].first; i < node->group[g].first + node->group[g].n; i++) {
            struct gs_tenant *left = GS_ARENA_ARRAY(arena, use[i].n_tenants, struct gs_tenant);
            size_t n = 0;

            if (left == NULL)
                return -ENOMEM;
            for (size_t t = 0; t < use[i].n_tenants; t++)
                if (!is_candidate_gone(try, use[i].tenant[t].uid))
                    left[n++] = use[i].tenant[t];
            if (n == use[i].n_tenants)
                continue;
            use[i].tenant = left;
            use[i].n_tenants = n;
            gs_usage_sum(node->group[g].policy, &node->dev[i], &use[i]);
        }
    *ret = *node;
    ret->use = use;
    ret->room = NULL;
    return 0;
}

/* 1: there is room without those who are thought away; 0: there is not; -ENOMEM. */
static int has_room(struct explaining *e, const struct node_try *try)
{
    struct gs_placement placement;
    struct gs_reasons reasons;
    struct gs_node node;
    int rc;

    gs_arena_reset(&e->scratch);
    rc = without(try, &e->scratch, &node);
    if (rc == 0)
        rc = gs_place(&e->to->ask, &node, &e->scratch, &placement, &reasons);
    return rc == 0 ? 1 : rc == -ENOSPC ? 0 : rc;
}

/* Who is least missed: low priority, then little memory; then the same at each call. */
static int by_worth(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->holder.priority != y->holder.priority)
        return x->holder.priority < y->holder.priority ? -1 : 1;
    if (x->holder.mem_mib != y->holder.mem_mib)
        return x->holder.mem_mib < y->holder.mem_mib ? -1 : 1;
    return gs_str_cmp(x->uid, y->uid);
}

static int add_candidate(const struct explaining *e, struct node_try *try,
                         const struct gs_tenant *t)
{
    size_t i = 0;

    if (t->uid.n == 0)
        return 0; /* whoever that is, it cannot be told to end */
    while (i < try->n && !gs_str_eq(try->at[i].uid, t->uid))
        i++;
    if (i == CANDIDATES_MAX)
        return -E2BIG;
    if (i == try->n) {
        try->at[try->n++] = (struct candidate){t->uid, holder_of(e, t), true};
        return 0;
    }
    try->at[i].holder.mem_mib = gs_usage_add(try->at[i].holder.mem_mib, t->mem_mib);
    try->at[i].holder.cores = gs_usage_add(try->at[i].holder.cores, t->cores);
    try->at[i].holder.slots = gs_usage_add(try->at[i].holder.slots, t->slots);
    return 0;
}

static int list_candidates(const struct explaining *e, struct node_try *try)
{
    const struct gs_node *node = try->node;
    int rc = 0;

    try->at = GS_ARENA_ARRAY(e->arena, CANDIDATES_MAX, struct candidate);
    if (try->at == NULL)
        return -ENOMEM;
    for (size_t g = 0; g < node->n_groups; g++) {
        const struct gs_group *group = &node->group[g];

        if (!gs_ask_wants(&e->to->ask, group->policy))
            continue;
        for (uint32_t i = group->first; i < group->first + group->n; i++)
            for (size_t t = 0; rc == 0 && t < node->use[i].n_tenants; t++)
                rc = add_candidate(e, try, &node->use[i].tenant[t]);
    }
    qsort(try->at, try->n, sizeof(*try->at), by_worth);
    return rc == -E2BIG ? 0 : rc; /* the first of so many are enough */
}

/* One alone, the least missed of those who would do; else more and more, then back those who are
 * not needed. 0: the ones that are not kept would have to end; -ENOSPC: no end of others helps. */
static int choose_ends(struct explaining *e, struct node_try *try)
{
    size_t n = 0;
    int rc = 0;

    for (size_t i = 0; i < try->n; i++) {
        try->at[i].is_kept = false;
        rc = has_room(e, try);
        if (rc != 0)
            return rc < 0 ? rc : 0;
        try->at[i].is_kept = true;
    }
    while (rc == 0 && n < try->n) {
        try->at[n++].is_kept = false;
        rc = has_room(e, try);
    }
    if (rc <= 0)
        return rc < 0 ? rc : -ENOSPC;
    for (size_t i = n; i-- > 0;) {
        try->at[i].is_kept = true;
        rc = has_room(e, try);
        if (rc < 0)
            return rc;
        try->at[i].is_kept = rc > 0;
    }
    return 0;
}

static int find_ends(struct explaining *e, const struct gs_node *node, struct gs_explain_node *to)
{
    struct node_try try = {.node = node};
    struct gs_explain_holder *end;
    int rc = list_candidates(e, &try);

    if (rc == 0)
        rc = choose_ends(e, &try);
    if (rc < 0)
        return rc == -ENOSPC ? 0 : rc;
    end = GS_ARENA_ARRAY(e->arena, try.n, struct gs_explain_holder);
    if (end == NULL)
        return -ENOMEM;
    to->end = end;
    for (size_t i = 0; i < try.n; i++)
        if (!try.at[i].is_kept)
            end[to->n_ends++] = try.at[i].holder;
    return 0;
}

/* ---- one node ---- */

/* The card with fewest tenants, where the lack is one of shares or of an unused card. */
static bool find_emptiest(const struct gs_ask *ask, const struct gs_node *node, uint32_t *ret)
{
    bool found = false;

    for (size_t g = 0; g < node->n_groups; g++) {
        const struct gs_group *group = &node->group[g];

        if (!gs_ask_wants(ask, group->policy))
            continue;
        for (uint32_t i = group->first; i < group->first + group->n; i++)
            if (node->dev[i].is_healthy &&
                (!found || node->use[i].n_tenants < node->use[*ret].n_tenants)) {
                *ret = i;
                found = true;
            }
    }
    return found;
}

static bool find_closest(const struct gs_ask *ask, const struct gs_node *node,
                         const struct gs_reasons *reasons, uint32_t *ret)
{
    switch (gs_shortage_lack(reasons).reason) {
    case GS_REASON_CARD_INSUFFICIENT_MEMORY:
    case GS_REASON_CARD_INSUFFICIENT_CORE:
        *ret = reasons->best_device;
        return *ret < node->n_dev;
    case GS_REASON_CARD_TIME_SLICING_EXHAUSTED:
    case GS_REASON_CARD_COMPUTE_UNITS_EXHAUSTED:
    case GS_REASON_EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT:
    case GS_REASON_CARD_MIG_TOPOLOGY_INFEASIBLE:
    case GS_REASON_CARD_QOS_POLICY_MISMATCH:
    case GS_REASON_CARD_APP_CLASS_MISMATCH:
    case GS_REASON_ALLOCATED_CARDS_INSUFFICIENT_REQUEST:
        return find_emptiest(ask, node, ret);
    default:
        return false;
    }
}

static int tell_holders(struct explaining *e, const struct gs_node *node, uint32_t card,
                        struct gs_explain_node *to)
{
    const struct gs_use *use = &node->use[card];
    struct gs_explain_holder *holder =
        GS_ARENA_ARRAY(e->arena, use->n_tenants, struct gs_explain_holder);

    if (holder == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < use->n_tenants; i++)
        holder[i] = holder_of(e, &use->tenant[i]);
    to->closest = node->dev[card].id;
    to->holder = holder;
    to->n_holders = use->n_tenants;
    return 0;
}

static int tell_refused(struct explaining *e, const struct gs_node *node,
                        const struct gs_reasons *reasons, struct gs_explain_node *to)
{
    const struct gs_shortage_lack lack = gs_shortage_lack(reasons);
    struct gs_buf text = {0}, words = {0};
    struct gs_str claimed, rival;
    uint32_t card = 0;
    int rc;

    gs_shortage_add(&e->shortage, node, &lack);
    gs_reasons_write(reasons, &text);
    rc = gs_buf_move(&text, e->arena, &to->reasons);
    if (rc < 0)
        return rc;
    if (lack.reason == GS_REASON_CARD_CLAIMED_TWICE &&
        gs_books_rival(e->books, node->name, &claimed, &rival)) {
        gs_shortage_claim(&e->shortage, node->name, claimed, rival);
        gs_shortage_write_claim(node->name, claimed, rival, &words);
    } else {
        gs_shortage_write_words(node, reasons, &words);
    }
    rc = gs_buf_move(&words, e->arena, &to->words);
    if (rc == 0 && find_closest(&e->to->ask, node, reasons, &card))
        rc = tell_holders(e, node, card, to);
    return rc == 0 ? find_ends(e, node, to) : rc;
}

static int tell_fit(struct explaining *e, const struct gs_placement *placement,
                    struct gs_explain_node *to)
{
    struct gs_buf cards = {0};

    for (size_t i = 0; i < placement->n; i++) {
        struct gs_str id = placement->node->dev[placement->taken[i].pick.dev].id;

        gs_buf_addf(&cards, "%s%.*s", i > 0 ? ", " : "", (int)id.n, id.p);
    }
    to->fits = true;
    return gs_buf_move(&cards, e->arena, &to->cards);
}

static int explain_node(struct explaining *e, const struct gs_node *node,
                        struct gs_explain_node *to)
{
    struct gs_placement placement;
    struct gs_reasons reasons;
    int rc;

    *to = (struct gs_explain_node){.name = node->name};
    memset(&reasons, 0, sizeof(reasons));
    gs_arena_reset(&e->scratch);
    rc = gs_place(&e->to->ask, node, &e->scratch, &placement, &reasons);
    if (rc == 0)
        rc = tell_fit(e, &placement, to);
    else if (rc == -ENOSPC)
        rc = tell_refused(e, node, &reasons, to);
    e->to->n_fit += to->fits;
    return rc;
}

/* ---- all of them ---- */

static int by_hope(const void *a, const void *b)
{
    const struct gs_explain_node *x = a, *y = b;

    if (x->fits != y->fits)
        return x->fits ? -1 : 1;
    if ((x->n_ends > 0) != (y->n_ends > 0))
        return x->n_ends > 0 ? -1 : 1;
    if (x->n_ends != y->n_ends)
        return x->n_ends < y->n_ends ? -1 : 1;
    return gs_str_cmp(x->name, y->name);
}

static int by_node(const void *a, const void *b)
{
    const struct gs_explain_trouble *x = a, *y = b;

    return gs_str_cmp(x->node, y->node);
}

static int tell_troubles(struct explaining *e)
{
    struct gs_explain_trouble *at;
    struct gs_str name;
    size_t pos = 0, n = 0;

    while (gs_books_next_unreadable(e->books, &pos, &name) != NULL)
        n++;
    at = GS_ARENA_ARRAY(e->arena, n, struct gs_explain_trouble);
    if (at == NULL)
        return -ENOMEM;
    for (size_t i = pos = 0; i < n; i++)
        at[i].text = gs_books_next_unreadable(e->books, &pos, &at[i].node);
    if (n > 1)
        qsort(at, n, sizeof(*at), by_node);
    for (size_t i = 0; i < n; i++)
        gs_shortage_unreadable(&e->shortage, at[i].node, at[i].text);
    e->to->trouble = at;
    e->to->n_troubles = n;
    return 0;
}

static int explain_nodes(struct explaining *e)
{
    size_t pos = 0, n = gs_books_counts(e->books).nodes;
    struct gs_explain_node *at = GS_ARENA_ARRAY(e->arena, n, struct gs_explain_node);
    struct gs_buf sentence = {0};
    const struct gs_node *node;
    int rc = at != NULL ? 0 : -ENOMEM;

    if (rc == 0)
        rc = tell_troubles(e);
    while (rc == 0 && e->to->n_nodes < n && (node = gs_books_next(e->books, &pos)) != NULL)
        rc = explain_node(e, node, &at[e->to->n_nodes++]);
    if (rc < 0)
        return rc;
    qsort(at, e->to->n_nodes, sizeof(*at), by_hope);
    e->to->node = at;
    if (e->to->n_fit > 0)
        return 0;
    e->shortage.unregistered = gs_books_counts(e->books).bare;
    if (e->to->n_nodes + e->shortage.unregistered == 0)
        gs_buf_adds(&sentence, "there is no node");
    gs_shortage_write(&e->shortage, &sentence);
    return gs_buf_move(&sentence, e->arena, &e->to->sentence);
}

int gs_explain(struct gs_books *books, const struct gs_pod *pod, const struct gs_explain_opt *opt,
               struct gs_arena *arena, struct gs_explanation *ret, struct gs_err *err)
{
    const struct gs_ask_flags flags = {opt->device_policy, opt->node_policy, NULL};
    struct explaining e = {.books = books, .arena = arena, .to = ret};
    int rc;

    *ret = (struct gs_explanation){0};
    rc = gs_books_ask(books, pod, &flags, arena, &ret->ask, err);
    if (rc == 0 && ret->ask.n_lines > 0)
        rc = explain_nodes(&e);
    gs_arena_fini(&e.scratch);
    return rc;
}
