#include "control/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/convert.h"
#include "control/extender.h"
#include "control/feed.h"
#include "control/refusal.h"
#include "control/shortage.h"
#include "kube/json.h"
#include "model/node.h"
#include "model/place.h"

#define NODES_AT_ONCE 64u
/** What kube-scheduler is taken to choose is kept for so long, if no bind says otherwise. */
#define GUESS_MS 2000

/** One call on its way. */
struct call {
    struct gs_books *books;
    const struct gs_filter_conf *conf;
    struct gs_moment now;
    struct gs_arena *arena;  /**< for the whole call */
    struct gs_arena scratch; /**< for one node */
    struct gs_extender_args args;
    struct gs_extender_reply reply;
    struct gs_pod pod;
    struct gs_ask ask;
    struct gs_shortage shortage;
    const struct gs_str *name;   /**< [n_names] of those that were sent */
    const struct gs_node **node; /**< [n_names] NULL: not known, or without devices */
    size_t n_names;
    struct gs_filter_note *note;
    struct gs_err *err;
};

/** A node that may do. */
struct candidate {
    const struct gs_node *node;
    yyjson_val *object; /**< where node objects came with the call */
    double score;
    size_t rank;
};

/* Is a the better one? Ties by name, so that every replica answers alike. */
static bool is_better(const struct call *c, const struct candidate *a, const struct candidate *b)
{
    if (a->score != b->score)
        return (a->score > b->score) != c->ask.is_node_spread;
    return a->rank < b->rank;
}

static void swap(struct candidate *a, struct candidate *b)
{
    struct candidate t = *a;

    *a = *b;
    *b = t;
}

/* Candidates as a heap, best first: most calls look at one or two of thousands. */
static void sift_down(const struct call *c, struct candidate *heap, size_t n, size_t i)
{
    for (;;) {
        size_t best = i, left = 2 * i + 1;

        for (size_t k = left; k < n && k < left + 2; k++)
            if (is_better(c, &heap[k], &heap[best]))
                best = k;
        if (best == i)
            return;
        swap(&heap[i], &heap[best]);
        i = best;
    }
}

static struct candidate pop(const struct call *c, struct candidate *heap, size_t *n)
{
    struct candidate top = heap[0];

    heap[0] = heap[--*n];
    sift_down(c, heap, *n, 0);
    return top;
}

/* Vendors that add to a node's score are known only after placing: place everywhere first. */
static int score_all(struct call *c, struct candidate *at, size_t *n)
{
    struct gs_placement placement;
    struct gs_reasons reasons;
    size_t kept = 0;

    for (size_t i = 0; i < *n; i++) {
        int rc;

        gs_arena_reset(&c->scratch);
        rc = gs_place(&c->ask, at[i].node, &c->scratch, &placement, &reasons);
        if (rc == -ENOMEM)
            return rc;
        if (rc < 0)
            continue;
        at[kept] = at[i];
        at[kept++].score = placement.score;
    }
    *n = kept;
    return 0;
}

/* In earnest: the placement stands in the scratch until the next node is looked at. */
static int place_on(struct call *c, const struct candidate *candidate, struct candidate *ret,
                    struct gs_placement *ret_placement)
{
    struct gs_reasons reasons;
    int rc;

    gs_arena_reset(&c->scratch);
    rc = gs_place(&c->ask, candidate->node, &c->scratch, ret_placement, &reasons);
    if (rc == 0)
        *ret = *candidate;
    c->note->n_fit -= rc == -ENOSPC;
    return rc;
}

/* The best node on which the pod really fits. 0; -ENOSPC none. */
static int choose(struct call *c, struct candidate *heap, size_t n, struct candidate *ret,
                  struct gs_placement *ret_placement)
{
    int rc = c->ask.has_scores ? score_all(c, heap, &n) : 0;

    if (rc < 0)
        return rc;
    c->note->n_fit = n;
    if (n == 0)
        return -ENOSPC;
    /* The best by a look at all: it nearly always fits. Only else they are put in order. */
    for (size_t i = 1; i < n; i++)
        if (is_better(c, &heap[i], &heap[0]))
            swap(&heap[0], &heap[i]);
    rc = place_on(c, &heap[0], ret, ret_placement);
    heap[0] = heap[--n];
    for (size_t i = rc == -ENOSPC ? n / 2 : 0; i > 0; i--)
        sift_down(c, heap, n, i - 1);
    while (rc == -ENOSPC && n > 0) {
        struct candidate next = pop(c, heap, &n);

        rc = place_on(c, &next, ret, ret_placement);
    }
    return rc;
}

static int reserve(struct call *c, const struct gs_placement *placement, int64_t lease_ms)
{
    struct gs_pairs annotations = {0};
    int rc = gs_place_annotate(&c->ask, placement, c->now.unix_ns, c->arena, &annotations);

    if (rc == 0)
        rc = gs_pod_check_room(&c->pod, gs_pod_grant_room(&annotations), c->err);
    if (rc < 0)
        return rc;
    return gs_books_reserve(c->books, &c->ask, placement, &annotations, c->now.mono_ms + lease_ms);
}

static const struct gs_node *node_of(struct call *c, yyjson_val *name)
{
    return gs_books_node(c->books, gs_kube_json_text(name));
}

static struct candidate candidate_of(const struct gs_node *node, yyjson_val *object)
{
    return (struct candidate){node, object, node->score, gs_books_rank(node)};
}

/* The names that were sent. What is none is left out. */
static int read_names(struct call *c)
{
    size_t total = yyjson_arr_size(c->args.names), i, max;
    struct gs_str *name = GS_ARENA_ARRAY(c->arena, total, struct gs_str);
    yyjson_val *val;

    if (name == NULL)
        return -ENOMEM;
    yyjson_arr_foreach(c->args.names, i, max, val)
    {
        if (yyjson_is_str(val))
            name[c->n_names++] = gs_kube_json_text(val);
    }
    c->name = name;
    return 0;
}

/* Find the nodes, and those that may do by the cheap look: some at a time, for finding them has
 * brought what is looked at near. */
static int candidates_by_name(struct call *c, struct candidate **ret, size_t *ret_n)
{
    const struct gs_node **node;
    struct candidate *at;
    size_t n = 0;
    int rc = read_names(c);

    if (rc < 0)
        return rc;
    node = GS_ARENA_ARRAY(c->arena, c->n_names, const struct gs_node *);
    at = GS_ARENA_ARRAY(c->arena, c->n_names, struct candidate);
    if (node == NULL || at == NULL)
        return -ENOMEM;
    for (size_t from = 0, end; from < c->n_names; from = end) {
        end = c->n_names - from < NODES_AT_ONCE ? c->n_names : from + NODES_AT_ONCE;
        gs_books_nodes(c->books, &c->name[from], end - from, &node[from]);
        for (size_t i = from; i < end; i++)
            if (node[i] != NULL && gs_place_may(&c->ask, node[i]))
                at[n++] = candidate_of(node[i], NULL);
    }
    c->node = node;
    *ret = at;
    *ret_n = n;
    return 0;
}

/* Every node of the call is refused: say why. */
static int refuse_names(struct call *c)
{
    struct gs_refusals refusals;
    int rc = 0;

    gs_refusals_init(&refusals, c->books, &c->ask, &c->reply, &c->shortage);
    for (size_t i = 0; rc == 0 && i < c->n_names; i++)
        rc = gs_refusals_add(&refusals, c->node[i], c->name[i]);
    gs_refusals_fini(&refusals);
    return rc;
}

static void note_choice(struct call *c, const struct candidate *best)
{
    c->note->outcome = GS_FILTER_FOUND;
    c->note->node = gs_arena_str(c->arena, best->node->name);
    c->note->text = gs_arena_printf(
        c->arena, "find fit node(%.*s), %zu nodes not fit, %zu nodes fit, by %s",
        (int)best->node->name.n, best->node->name.p, c->note->n_nodes - c->note->n_fit,
        c->note->n_fit, c->ask.is_node_spread ? "spread" : "binpack");
}

static int note_shortage(struct call *c)
{
    struct gs_buf text = {0};
    int rc;

    /* HAMi's words first, for those who search for them. */
    gs_buf_addf(&text, "no available node, %zu nodes do not meet: ", c->note->n_nodes);
    gs_shortage_write(&c->shortage, &text);
    rc = gs_buf_move(&text, c->arena, &c->note->text);
    c->note->outcome = GS_FILTER_NO_ROOM;
    c->note->n_unregistered = c->shortage.unregistered;
    for (size_t i = 0; i < GS_REASON_COUNT; i++)
        c->note->why |= (uint32_t)(c->shortage.of[i].nodes > 0) << i;
    return rc;
}

/* Every node that fits: kube-scheduler chooses. A single one it takes without another call. */
static int leave_choice(struct call *c, struct candidate *at, size_t n)
{
    struct candidate only;
    struct gs_placement placement;
    int rc = score_all(c, at, &n);

    if (rc < 0)
        return rc;
    c->note->n_fit = n;
    if (n == 0)
        return -ENOSPC;
    for (size_t i = 0; i < n; i++)
        gs_extender_reply_name(&c->reply, at[i].node->name);
    c->note->outcome = GS_FILTER_FOUND;
    c->note->text =
        gs_arena_printf(c->arena, "%zu nodes not fit, %zu nodes fit", c->note->n_nodes - n, n);
    if (n > 1)
        return 0;
    rc = place_on(c, &at[0], &only, &placement);
    return rc < 0 ? rc : reserve(c, &placement, GUESS_MS);
}

static int choose_node(struct call *c, struct candidate *heap, size_t n)
{
    struct candidate best;
    struct gs_placement placement;
    int rc = choose(c, heap, n, &best, &placement);

    if (rc < 0)
        return rc;
    note_choice(c, &best);
    rc = reserve(c, &placement, c->conf->lease_ms);
    if (rc == 0)
        gs_extender_reply_name(&c->reply, c->note->node);
    return rc;
}

static int filter_names(struct call *c)
{
    struct candidate *heap;
    size_t n;
    int rc = candidates_by_name(c, &heap, &n);

    c->note->n_nodes = yyjson_arr_size(c->args.names);
    if (rc == 0)
        rc = c->conf->leaves_node_choice ? leave_choice(c, heap, n) : choose_node(c, heap, n);
    if (rc != -ENOSPC)
        return rc;
    rc = refuse_names(c);
    return rc == 0 ? note_shortage(c) : rc;
}

/* ---- node objects came with the call: an autoscaler asks what would be ---- */

static int learn_nodes(struct call *c, struct gs_books *books)
{
    const struct gs_feed feed = {.books = books, .arena = &c->scratch};
    yyjson_val *item;
    size_t i, max;

    yyjson_arr_foreach(c->args.items, i, max, item)
    {
        struct gs_kube_node node;
        struct gs_node_view view;

        gs_arena_reset(&c->scratch);
        if (gs_feed_node(&feed, item, &node, &view, NULL) == -ENOMEM)
            return -ENOMEM; /* an unreadable node is one without devices */
    }
    return 0;
}

static struct gs_str name_of(yyjson_val *item)
{
    return gs_kube_json_text(yyjson_obj_get(yyjson_obj_get(item, "metadata"), "name"));
}

static int simulate_on(struct call *c, struct gs_books *books)
{
    size_t max = yyjson_arr_size(c->args.items), n = 0, i;
    struct candidate *heap = GS_ARENA_ARRAY(c->arena, max, struct candidate), best;
    struct gs_placement placement;
    struct gs_refusals refusals;
    yyjson_val *item;
    int rc;

    if (heap == NULL)
        return -ENOMEM;
    yyjson_arr_foreach(c->args.items, i, max, item)
    {
        const struct gs_node *node = gs_books_node(books, name_of(item));

        if (node != NULL && gs_place_may(&c->ask, node))
            heap[n++] = candidate_of(node, item);
    }
    rc = choose(c, heap, n, &best, &placement);
    if (rc == 0) {
        note_choice(c, &best);
        gs_extender_reply_node(&c->reply, best.object);
        return 0;
    }
    if (rc != -ENOSPC)
        return rc;
    gs_refusals_init(&refusals, books, &c->ask, &c->reply, &c->shortage);
    rc = 0;
    yyjson_arr_foreach(c->args.items, i, max, item)
    {
        struct gs_str name = name_of(item);

        if (rc == 0 && name.n > 0)
            rc = gs_refusals_add(&refusals, gs_books_node(books, name), name);
    }
    gs_refusals_fini(&refusals);
    return rc == 0 ? note_shortage(c) : rc;
}

static int simulate(struct call *c)
{
    struct gs_books *books;
    int rc = gs_books_new(c->ask.policies, &books);

    if (rc < 0)
        return rc;
    gs_books_ignore_claims(books);
    c->note->is_simulation = true;
    c->note->n_nodes = yyjson_arr_size(c->args.items);
    rc = learn_nodes(c, books);
    if (rc == 0)
        rc = simulate_on(c, books);
    gs_books_free(books);
    return rc;
}

/* ---- the call ---- */

static struct call call_of(const struct gs_filter_env *env, struct gs_filter_note *note)
{
    return (struct call){
        .books = env->books, .conf = env->conf, .now = env->now, .arena = env->arena, .note = note};
}

static int read_ask(struct call *c, struct gs_err *err)
{
    const struct gs_ask_flags flags = {c->conf->device_policy, c->conf->node_policy, NULL};
    int rc = gs_books_ask(c->books, &c->pod, &flags, c->arena, &c->ask, err);

    return rc == -EINVAL ? gs_err_wrap(err, rc, "calcScore failed") : rc;
}

/* The pod asks for nothing of ours: whatever was sent is right. */
static void pass(struct call *c)
{
    yyjson_val *val;
    size_t i, max;

    c->note->outcome = GS_FILTER_NOTHING_ASKED;
    if (c->args.names != NULL) {
        c->reply.names = yyjson_val_mut_copy(c->reply.doc, c->args.names);
        return;
    }
    if (c->args.items == NULL)
        return;
    c->reply.nodes = yyjson_mut_arr(c->reply.doc);
    yyjson_arr_foreach(c->args.items, i, max, val) gs_extender_reply_node(&c->reply, val);
}

/* Asked again after a Binding of the pod was sent, whose answer kube-scheduler lost: the API server
 * has bound it there though the watch does not show it yet. No other card may be given, nor this
 * one to somebody else. */
static int repeat(struct call *c, const struct gs_books_reservation *promised, struct gs_err *err)
{
    yyjson_val *name;
    size_t i, max;

    c->note->n_nodes = yyjson_arr_size(c->args.names);
    yyjson_arr_foreach(c->args.names, i, max, name)
    {
        if (!gs_str_eq(promised->node, gs_kube_json_text(name)))
            continue;
        c->note->outcome = GS_FILTER_FOUND;
        c->note->node = gs_arena_str(c->arena, promised->node);
        c->note->n_fit = 1;
        c->note->text = gs_arena_printf(c->arena, "node %.*s again: its Binding was sent",
                                        (int)promised->node.n, promised->node.p);
        gs_extender_reply_name(&c->reply, c->note->node);
        return 0;
    }
    return gs_err_set(err, -EBUSY, "a Binding of the pod to node %.*s was sent",
                      (int)promised->node.n, promised->node.p);
}

static int serve(struct call *c, struct gs_str body, struct gs_err *err)
{
    struct gs_books_reservation promised;
    struct gs_books_holder holder;
    int rc = gs_extender_read(body, c->arena, &c->args, err);

    if (rc == 0)
        rc = gs_convert_pod(&c->args.pod, c->arena, &c->pod);
    if (rc < 0)
        return rc;
    c->note->ns = gs_arena_str(c->arena, c->pod.ns);
    c->note->name = gs_arena_str(c->arena, c->pod.name);
    c->note->uid = gs_arena_str(c->arena, c->pod.uid);
    c->note->priority = c->args.pod.priority;
    c->note->may_preempt = !gs_str_eq_c(c->args.pod.preemption_policy, "Never");
    rc = read_ask(c, err);
    if (rc < 0)
        return rc;
    if (c->ask.n_lines == 0) {
        pass(c);
        return 0;
    }
    if (c->args.items != NULL || (c->args.has_nodes && c->args.names == NULL))
        return simulate(c);
    if (c->args.names == NULL)
        return gs_err_set(err, -EINVAL, "extender args: neither nodes nor nodenames");
    if (c->pod.uid.n == 0)
        return gs_err_set(err, -EINVAL, "extender args: pod without uid");
    if (gs_books_is_pinned(c->books, c->pod.uid))
        return gs_err_set(err, -EBUSY, "the pod is being bound");
    if (gs_books_holder(c->books, c->pod.uid, &holder) && !holder.is_reservation)
        return gs_err_set(err, -EEXIST, "the pod is bound already");
    if (gs_books_reserved(c->books, c->pod.uid, &promised) && promised.is_sent)
        return repeat(c, &promised, err);
    (void)gs_books_release(c->books, c->pod.uid); /* asked again: what was decided is void */
    /* Room held for this pod, or for one of lower priority, is free to it. */
    gs_books_lift(c->books, c->pod.uid, c->args.pod.priority);
    rc = filter_names(c);
    gs_books_lift(c->books, (struct gs_str){0}, INT32_MIN);
    return rc;
}

static void fail(struct call *c, int rc, struct gs_err *err)
{
    gs_extender_reply_fini(&c->reply);
    if (err->text[0] == '\0')
        (void)gs_err_set(err, rc, "%s", strerror(-rc));
    if (gs_extender_reply_init(&c->reply) == 0)
        c->reply.error = err->text;
    c->note->outcome = GS_FILTER_ERROR;
    c->note->text = gs_arena_str(c->arena, gs_str_of(err->text));
}

int gs_filter(const struct gs_filter_env *env, struct gs_str body, char **ret_reply, size_t *ret_n,
              struct gs_filter_note *ret_note)
{
    struct call c = call_of(env, ret_note);
    struct gs_err err = {0};
    int rc;

    c.err = &err;
    *ret_note = (struct gs_filter_note){0};
    rc = gs_extender_reply_init(&c.reply);
    if (rc < 0)
        return rc;
    rc = serve(&c, body, &err);
    if (rc < 0)
        fail(&c, rc, &err);
    rc = c.reply.doc == NULL ? -ENOMEM : gs_extender_reply_write(&c.reply, ret_reply, ret_n);
    if (rc == 0 && env->refused != NULL && ret_note->outcome == GS_FILTER_NO_ROOM &&
        !ret_note->is_simulation)
        env->refused(env->arg, &(struct gs_filter_refusal){ret_note, c.args.object, c.args.names});
    gs_extender_reply_fini(&c.reply);
    gs_extender_args_fini(&c.args);
    gs_arena_fini(&c.scratch);
    return rc;
}

static int refuse_unregistered(const struct gs_books *books, struct gs_str name, struct gs_err *err)
{
    const char *why = gs_books_unreadable(books, name);

    return why != NULL ? gs_err_set(err, -ENOENT, "node unregistered (%s)", why)
                       : gs_err_set(err, -ENOENT, "node unregistered");
}

int gs_filter_reserve(const struct gs_filter_env *env, const struct gs_pod *pod, int32_t priority,
                      struct gs_str name, struct gs_err *err)
{
    struct gs_filter_note note = {0};
    struct call c = call_of(env, &note);
    struct gs_books_reservation promised;
    const struct gs_node *node;
    struct gs_placement placement;
    struct gs_reasons reasons;
    int rc;

    c.pod = *pod;
    c.err = err;
    if (gs_books_reserved(env->books, pod->uid, &promised) && promised.is_sent)
        return gs_err_set(err, -EBUSY, "a Binding of the pod to node %.*s was sent",
                          (int)promised.node.n, promised.node.p);
    (void)gs_books_release(env->books, pod->uid);
    rc = read_ask(&c, err);
    if (rc < 0)
        return rc;
    if (c.ask.n_lines == 0)
        return gs_err_set(err, -ENODATA, "pod asks for no device");
    node = gs_books_node(env->books, name);
    if (node == NULL)
        return refuse_unregistered(env->books, name, err);
    memset(&reasons, 0, sizeof(reasons));
    gs_books_lift(env->books, pod->uid, priority); /* as in the filter */
    node = gs_books_node(env->books, name);
    rc = gs_place(&c.ask, node, env->arena, &placement, &reasons);
    if (rc == -ENOSPC) {
        struct gs_buf text = {0};

        gs_shortage_write_node(&reasons, &text);
        (void)gs_err_set(err, rc, "%s", gs_buf_text(&text));
        gs_buf_fini(&text);
    }
    if (rc == 0)
        rc = reserve(&c, &placement, c.conf->lease_ms);
    gs_books_lift(env->books, (struct gs_str){0}, INT32_MIN);
    return rc;
}

/* ---- prioritize ---- */

#define PRIORITY_MAX 10 /* extender/v1 MaxExtenderPriority */

/* 0 to 10 between the worst and the best of the nodes sent. */
static int64_t priority_of(const struct call *c, double score, double low, double high)
{
    double part = high > low ? (score - low) / (high - low) : 0;

    return (int64_t)((c->ask.is_node_spread ? 1 - part : part) * PRIORITY_MAX + 0.5);
}

/* May what was decided for the pod be decided anew? */
static bool is_open(const struct call *c)
{
    struct gs_books_reservation promised;
    struct gs_books_holder holder;

    return c->pod.uid.n > 0 && !gs_books_is_pinned(c->books, c->pod.uid) &&
           !(gs_books_holder(c->books, c->pod.uid, &holder) && !holder.is_reservation) &&
           !(gs_books_reserved(c->books, c->pod.uid, &promised) && promised.is_sent);
}

/* The pod that comes next is asked about before this one's bind: what is on its way counts as used
 * where it most likely goes, or all would be sent to the node that scores best. -ENOSPC: nowhere.
 */
static int guess(struct call *c, struct candidate *ret, struct gs_placement *ret_placement)
{
    struct candidate *heap;
    size_t n;
    int rc;

    (void)gs_books_release(c->books, c->pod.uid);
    rc = candidates_by_name(c, &heap, &n);
    return rc < 0 ? rc : choose(c, heap, n, ret, ret_placement);
}

/* `best`: comes before those that score the same; NULL: nobody does. */
static int write_priorities(struct call *c, const struct gs_node *best, char **ret_reply,
                            size_t *ret_n)
{
    yyjson_mut_doc *doc = c->reply.doc;
    yyjson_mut_val *list = yyjson_mut_arr(doc);
    double low = 0, high = 0;
    bool is_first = true;
    yyjson_val *name;
    size_t i, max;

    yyjson_arr_foreach(c->args.names, i, max, name)
    {
        const struct gs_node *node = node_of(c, name);

        if (node == NULL)
            continue;
        low = is_first || node->score < low ? node->score : low;
        high = is_first || node->score > high ? node->score : high;
        is_first = false;
    }
    yyjson_arr_foreach(c->args.names, i, max, name)
    {
        const struct gs_node *node = node_of(c, name);
        yyjson_mut_val *entry = yyjson_mut_obj(doc);
        int64_t score = node != NULL ? priority_of(c, node->score, low, high) : 0;

        if (best != NULL)
            score = node == best ? PRIORITY_MAX : score < PRIORITY_MAX ? score : PRIORITY_MAX - 1;
        (void)yyjson_mut_obj_add_val(doc, entry, "Host", yyjson_val_mut_copy(doc, name));
        (void)yyjson_mut_obj_add_int(doc, entry, "Score", score);
        (void)yyjson_mut_arr_append(list, entry);
    }
    yyjson_mut_doc_set_root(doc, list);
    *ret_reply = list != NULL ? yyjson_mut_write(doc, 0, ret_n) : NULL;
    return *ret_reply != NULL ? 0 : -ENOMEM;
}

static int prioritize(struct call *c, char **ret_reply, size_t *ret_n)
{
    struct candidate best = {0};
    struct gs_placement placement;
    bool is_guessed = false;
    int rc = 0;

    gs_books_lift(c->books, c->pod.uid, c->args.pod.priority); /* as in the filter */
    if (c->conf->leaves_node_choice && c->ask.n_lines > 0 && is_open(c)) {
        rc = guess(c, &best, &placement);
        is_guessed = rc == 0;
        rc = rc == -ENOSPC ? 0 : rc;
    }
    if (rc == 0)
        rc = write_priorities(c, best.node, ret_reply, ret_n);
    if (rc == 0 && is_guessed)
        (void)reserve(c, &placement, GUESS_MS); /* else bind decides, as after a wrong guess */
    gs_books_lift(c->books, (struct gs_str){0}, INT32_MIN);
    return rc;
}

int gs_filter_prioritize(const struct gs_filter_env *env, struct gs_str body, char **ret_reply,
                         size_t *ret_n, struct gs_err *err)
{
    struct gs_filter_note note = {0};
    struct call c = call_of(env, &note);
    int rc = gs_extender_reply_init(&c.reply);

    if (rc == 0)
        rc = gs_extender_read(body, env->arena, &c.args, err);
    if (rc == 0)
        rc = gs_convert_pod(&c.args.pod, env->arena, &c.pod);
    if (rc == 0)
        rc = read_ask(&c, err);
    if (rc == 0)
        rc = prioritize(&c, ret_reply, ret_n);
    gs_extender_reply_fini(&c.reply);
    gs_extender_args_fini(&c.args);
    gs_arena_fini(&c.scratch);
    return rc;
}
