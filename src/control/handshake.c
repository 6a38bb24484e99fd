#include "control/handshake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/map.h"
#include "kube/patch.h"
#include "model/node.h"
#include "net/loop.h"

#define PENDING_MS 60000 /* HAMi's: a request older than this is not answered any more */
#define SPACING_MS 60000 /* between two answers to one plugin; they report every 30 s */
#define TURN_MS    50    /* between two answers to anybody */
/* How often a replica that does not lead looks whether it does. */
#define FOLLOW_MS 1000
#define IN_FLIGHT 4u
#define LOOK_MS   5000

/* ---- judging ---- */

/* "2006-01-02 15:04:05" in the local zone, as HAMi's scheduler writes it. */
static bool parse_time(struct gs_str text, int64_t *ret_s)
{
    char copy[32];
    struct tm tm = {.tm_isdst = -1};
    int n = 0;

    if (gs_str_to_field(text, copy, sizeof(copy)) < 0 ||
        sscanf(copy, "%4d-%2d-%2d %2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &n) != 6 ||
        copy[n] != '\0')
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *ret_s = (int64_t)mktime(&tm);
    return *ret_s != -1;
}

static bool contains(struct gs_str text, struct gs_str what)
{
    return text.n >= what.n && memmem(text.p, text.n, what.p, what.n) != NULL;
}

bool gs_handshake_judge(const struct gs_handshake_facts *f, bool *ret_answer)
{
    struct gs_str rest = f->value != NULL ? *f->value : (struct gs_str){0}, word;
    bool is_request = contains(rest, GS_STR("Requesting"));
    int64_t asked_s;

    *ret_answer = f->has_handshake && rest.n > 0 && !is_request;
    if (f->allocatable > 0)
        return true;
    if (f->capacity > 0 || f->was_offered)
        return false; /* the kubelet has lost the plugin */
    if (!f->has_handshake || *ret_answer)
        return true;
    if (rest.n == 0) /* the plugin does not use it: by the kubelet alone, which may be late */
        return f->seen_ms < PENDING_MS;
    (void)gs_str_cut(&rest, '_', &word);
    if (!parse_time(rest, &asked_s))
        return true;
    return f->seen_ms < PENDING_MS && f->now_s - asked_s < PENDING_MS / 1000;
}

/* ---- what is known ---- */

struct node;

/** One vendor on one node. */
struct entry {
    struct entry *next;
    struct node *node;
    uint32_t policy;
    char *value; /**< of the annotation; NULL: none */
    int64_t since_ms, answered_ms;
    int64_t capacity, allocatable;
    bool was_offered, is_muted, has_answered;
    struct entry *queue_next;
    bool is_queued;
};

struct node {
    struct gs_str name;
    struct entry *entry;
};

/** An answer on its way. */
struct slot {
    struct gs_handshake *handshake;
    uint64_t ticket;
    bool is_busy;
};

struct gs_handshake {
    struct gs_kube_client *client;
    struct gs_loop *loop;
    struct gs_books *books;
    struct gs_handshake_opt opt;
    struct gs_map nodes;
    struct entry *queue, **queue_last; /**< plugins that wait for their answer */
    struct gs_loop_timer look, turn;
    struct gs_handshake_stats stats;
    struct slot slot[IN_FLIGHT];
};

static const struct gs_policy *policy_of(const struct gs_handshake *h, const struct entry *e)
{
    return gs_books_policies(h->books)->at[e->policy];
}

static void unqueue(struct gs_handshake *h, struct entry *e)
{
    struct entry **at = &h->queue;

    if (!e->is_queued)
        return;
    while (*at != e)
        at = &(*at)->queue_next;
    *at = e->queue_next;
    if (h->queue_last == &e->queue_next)
        h->queue_last = at;
    e->is_queued = false;
    h->stats.waiting--;
}

static void free_node(struct gs_handshake *h, struct node *node)
{
    while (node->entry != NULL) {
        struct entry *e = node->entry;

        node->entry = e->next;
        unqueue(h, e);
        h->stats.muted -= e->is_muted;
        free(e->value);
        free(e);
    }
    free(node);
}

/* ---- answers ---- */

static void take_turn(struct gs_handshake *h);

static void on_turn(void *user)
{
    take_turn(user);
}

static void on_answered(void *arg, const struct gs_kube_result *result)
{
    struct slot *slot = arg;
    struct gs_handshake *h = slot->handshake;

    slot->is_busy = false;
    if (result->rc == 0) {
        h->stats.answers++;
    } else {
        h->stats.failed++;
        if (result->rc != -ENOENT)
            GS_LOG_WARN("handshake not answered", GS_LOG_ERR(result->err));
    }
    take_turn(h);
}

static int send_answer(struct gs_handshake *h, const struct entry *e, struct slot *slot)
{
    GS_CLEANUP(gs_buf_fini) struct gs_buf body = {0};
    struct gs_kube_merge merge;
    time_t now = (time_t)gs_loop_unix_us(h->loop) / 1000000;
    char text[64] = "";
    struct tm tm;
    int rc;

    if (localtime_r(&now, &tm) == NULL ||
        strftime(text, sizeof(text), "Requesting_%Y-%m-%d %H:%M:%S", &tm) == 0)
        return -EINVAL;
    gs_kube_merge_init(&merge);
    gs_kube_merge_annotation(&merge, policy_of(h, e)->keys.handshake, gs_str_of(text));
    rc = gs_kube_merge_text(&merge, &body);
    if (rc == 0)
        rc = gs_kube_client_send(h->client,
                                 &(struct gs_kube_req){.verb = GS_KUBE_MERGE,
                                                       .resource = &gs_kube_nodes,
                                                       .name = e->node->name,
                                                       .body = gs_buf_str(&body),
                                                       .is_single_try = true},
                                 on_answered, slot, &slot->ticket, NULL);
    gs_kube_merge_fini(&merge);
    return rc;
}

/* At most one each TURN_MS, and a few that the server has not taken yet. Those that wait while
 * another replica leads, as after a start, are answered once this one does. */
static void take_turn(struct gs_handshake *h)
{
    struct entry *e = h->queue;
    size_t slot = 0;

    if (e == NULL || gs_loop_timer_is_set(&h->turn))
        return;
    if (h->opt.leads != NULL && h->opt.leads(h->opt.arg) != GS_LEADER_YES) {
        gs_loop_timer_in(h->loop, &h->turn, FOLLOW_MS, on_turn, h);
        return;
    }
    while (slot < IN_FLIGHT && h->slot[slot].is_busy)
        slot++;
    if (slot == IN_FLIGHT)
        return;
    unqueue(h, e);
    e->has_answered = true;
    e->answered_ms = gs_loop_now_ms(h->loop);
    h->slot[slot].is_busy = send_answer(h, e, &h->slot[slot]) == 0;
    gs_loop_timer_in(h->loop, &h->turn, TURN_MS, on_turn, h);
}

static void queue_answer(struct gs_handshake *h, struct entry *e)
{
    if (e->is_queued || (e->has_answered && gs_loop_now_ms(h->loop) - e->answered_ms < SPACING_MS))
        return;
    e->is_queued = true;
    e->queue_next = NULL;
    *h->queue_last = e;
    h->queue_last = &e->queue_next;
    h->stats.waiting++;
    take_turn(h);
}

/* ---- nodes ---- */

static void judge(struct gs_handshake *h, struct entry *e)
{
    struct gs_str value = gs_str_of(e->value);
    const struct gs_policy *policy = policy_of(h, e);
    struct gs_handshake_facts facts = {
        .value = e->value != NULL ? &value : NULL,
        .has_handshake = policy->keys.handshake.n > 0,
        .seen_ms = gs_loop_now_ms(h->loop) - e->since_ms,
        .now_s = gs_loop_unix_us(h->loop) / 1000000,
        .capacity = e->capacity,
        .allocatable = e->allocatable,
        .was_offered = e->was_offered,
    };
    bool wants_answer, is_muted = !gs_handshake_judge(&facts, &wants_answer);

    if (is_muted != e->is_muted) {
        GS_LOG_INFO(is_muted ? "plugin is dead: its devices take no pods" : "plugin is back",
                    GS_LOG_STR("node", e->node->name), GS_LOG_CSTR("vendor", policy->word));
        if (is_muted)
            h->stats.muted++;
        else
            h->stats.muted--;
    }
    e->is_muted = is_muted;
    gs_books_node_mute(h->books, e->node->name, policy, is_muted);
    if (wants_answer)
        queue_answer(h, e);
    else
        unqueue(h, e); /* who leads has answered */
}

static struct node *node_of(struct gs_handshake *h, struct gs_str name)
{
    struct node *node = gs_map_find(&h->nodes, name);

    if (node != NULL)
        return node;
    node = gs_map_make(&h->nodes, name, sizeof(*node), &name);
    if (node != NULL)
        node->name = name;
    return node;
}

static struct entry *entry_of(struct gs_handshake *h, struct node *node, uint32_t policy)
{
    struct entry **at = &node->entry;

    while (*at != NULL && (*at)->policy != policy)
        at = &(*at)->next;
    if (*at == NULL && (*at = calloc(1, sizeof(**at))) != NULL) {
        (*at)->node = node;
        (*at)->policy = policy;
        (*at)->since_ms = gs_loop_now_ms(h->loop);
    }
    return *at;
}

static int64_t amount_of(const struct gs_pairs *amounts, struct gs_str name)
{
    int64_t amount;

    return gs_node_amount(amounts, name, &amount) == 1 ? amount : 0;
}

/* Does anything on the node speak of this vendor? */
static bool is_spoken_of(const struct gs_policy *policy, const struct gs_node_view *view)
{
    const struct gs_keys *k = &policy->keys;

    return (k->node_register.n > 0 && gs_pairs_find(view->annotations, k->node_register) != NULL) ||
           (k->handshake.n > 0 && gs_pairs_find(view->annotations, k->handshake) != NULL) ||
           (policy->names.count.n > 0 &&
            gs_pairs_find(view->capacity, policy->names.count) != NULL);
}

void gs_handshake_saw_node(struct gs_handshake *h, const struct gs_node_view *view)
{
    const struct gs_policies *policies = gs_books_policies(h->books);
    struct node *node = NULL;

    for (uint32_t i = 0; i < policies->n; i++) {
        const struct gs_policy *policy = policies->at[i];
        const struct gs_str *value;
        struct entry *e;

        if (!is_spoken_of(policy, view))
            continue;
        if (node == NULL && (node = node_of(h, view->name)) == NULL)
            return; /* no memory: taken for alive */
        e = entry_of(h, node, i);
        if (e == NULL)
            return;
        value = gs_pairs_find(view->annotations, policy->keys.handshake);
        if (policy->keys.handshake.n == 0)
            value = NULL;
        if ((value == NULL) != (e->value == NULL) ||
            (value != NULL && !gs_str_eq_c(*value, e->value))) {
            free(e->value);
            e->value = value != NULL ? strndup(value->p, value->n) : NULL;
            e->since_ms = gs_loop_now_ms(h->loop);
        }
        e->capacity = amount_of(view->capacity, policy->names.count);
        e->allocatable = amount_of(view->allocatable, policy->names.count);
        e->was_offered |= e->allocatable > 0;
        judge(h, e);
    }
}

void gs_handshake_node_gone(struct gs_handshake *h, struct gs_str name)
{
    struct node *node = gs_map_remove(&h->nodes, name);

    if (node != NULL)
        free_node(h, node);
}

/* What nobody answers goes bad with time, without an event. */
static void on_look(void *user)
{
    struct gs_handshake *h = user;
    struct node *node;
    size_t pos = 0;

    while ((node = gs_map_next(&h->nodes, &pos)) != NULL)
        for (struct entry *e = node->entry; e != NULL; e = e->next)
            if (e->allocatable == 0)
                judge(h, e);
    gs_loop_timer_in(h->loop, &h->look, LOOK_MS, on_look, h);
}

int gs_handshake_new(struct gs_kube_client *client, struct gs_books *books,
                     const struct gs_handshake_opt *opt, struct gs_handshake **ret)
{
    struct gs_handshake *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return -ENOMEM;
    h->client = client;
    h->loop = gs_kube_client_loop(client);
    h->books = books;
    h->opt = *opt;
    h->queue_last = &h->queue;
    for (size_t i = 0; i < IN_FLIGHT; i++)
        h->slot[i].handshake = h;
    gs_loop_timer_in(h->loop, &h->look, LOOK_MS, on_look, h);
    *ret = h;
    return 0;
}

struct gs_handshake *gs_handshake_free(struct gs_handshake *h)
{
    struct node *node;
    size_t pos = 0;

    if (h == NULL)
        return NULL;
    for (size_t i = 0; i < IN_FLIGHT; i++)
        if (h->slot[i].is_busy)
            gs_kube_client_cancel(h->client, h->slot[i].ticket);
    gs_loop_timer_cancel(h->loop, &h->look);
    gs_loop_timer_cancel(h->loop, &h->turn);
    while ((node = gs_map_next(&h->nodes, &pos)) != NULL)
        free_node(h, node);
    gs_map_fini(&h->nodes);
    free(h);
    return NULL;
}

void gs_handshake_stats(const struct gs_handshake *h, struct gs_handshake_stats *ret)
{
    *ret = h->stats;
}
