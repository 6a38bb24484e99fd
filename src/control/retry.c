#include "control/retry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <yyjson.h>

#include "base/map.h"
#include "control/convert.h"
#include "control/nudge.h"
#include "core/hash.h"
#include "core/list.h"
#include "kube/json.h"
#include "kube/view.h"
#include "model/place.h"
#include "net/loop.h"

/* Changes are looked at so often, and not before they are at least so old: by then kube-scheduler
 * has mostly come by itself. Two of these and a pause are less than 5 s. */
#define LOOK_MS 500
/* Nudges of one look. Whoever else fits has his turn at the next, if there still is room. */
#define NUDGES_MAX 16
/* After a nudge: so long, doubled for each that nobody followed. */
#define PAUSE_MS      2000
#define PAUSE_DOUBLES 5
/* Nodes looked at in one go of the loop. */
#define NODES_GO 256
/* A node's name is one bit of these. */
#define NAME_BITS 8192u
#define POD_MAX   (1u << 20) /* of one pod's JSON; larger ones are not remembered */
#define BYTES_MAX ((size_t)16 << 20)

/** A pod that waits. Its text is behind it. */
struct wait {
    GS_LINK(struct wait) link;
    struct gs_str uid, ns, name, pod;
    size_t bytes;
    int32_t priority;
    bool has_quota_reason;
    uint64_t looked;       /* changes of nodes up to this one have been looked at */
    uint64_t looked_quota; /* of its namespace's quota likewise */
    int64_t not_before_ms, nudged_ms;
    unsigned n_unanswered;          /* nudges since it was refused last */
    uint64_t nodes[NAME_BITS / 64]; /* names of those in question */
};

struct gs_retry {
    struct gs_kube_client *client;
    struct gs_loop *loop;
    struct gs_books *books;
    struct gs_retry_opt opt;
    struct gs_map by_uid;
    GS_LIST(struct wait) waits; /* more important ones first, then who came first */
    struct wait *at;            /* of the look that is under way; NULL: none is */
    uint64_t until;             /* it looks at changes up to this one */
    uint64_t known;             /* the books' count at the last tick */
    size_t n_nudges;            /* of this look */
    struct gs_loop_timer tick;
    struct gs_loop_task go;
    struct gs_retry_stats stats;
};

/* ---- who waits ---- */

static uint64_t *word_of(struct wait *w, struct gs_str name, uint64_t *ret_bit)
{
    uint64_t hash = gs_hash_bytes(name.p, name.n, 0);

    *ret_bit = UINT64_C(1) << (hash & 63);
    return &w->nodes[(hash >> 6) % GS_ARRAY_LEN(w->nodes)];
}

static bool has_name(struct wait *w, struct gs_str name)
{
    uint64_t bit, *word = word_of(w, name, &bit);

    return (*word & bit) != 0;
}

static void take_names(struct wait *w, yyjson_val *names)
{
    yyjson_val *name;
    size_t i, max;

    yyjson_arr_foreach(names, i, max, name)
    {
        uint64_t bit, *word;

        if (!yyjson_is_str(name))
            continue;
        word = word_of(w, gs_kube_json_text(name), &bit);
        *word |= bit;
    }
}

static void link_wait(struct gs_retry *r, struct wait *w)
{
    struct wait *before = r->waits.last;

    while (before != NULL && before->priority < w->priority)
        before = before->link.prev;
    GS_LIST_INSERT(&r->waits, before, w, link);
    r->stats.bytes += w->bytes;
}

static void unlink_wait(struct gs_retry *r, struct wait *w)
{
    if (r->at == w)
        r->at = w->link.next;
    GS_LIST_REMOVE(&r->waits, w, link);
    r->stats.bytes -= w->bytes;
}

static void drop(struct gs_retry *r, struct wait *w)
{
    if (w == NULL)
        return;
    (void)gs_map_remove(&r->by_uid, w->uid);
    unlink_wait(r, w);
    free(w);
}

/* The pod's JSON without what grows and says nothing here. NULL: no memory. */
static char *pod_text(yyjson_val *pod, size_t *ret_n)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *root = doc != NULL ? yyjson_val_mut_copy(doc, pod) : NULL;
    char *text = NULL;

    if (root != NULL) {
        (void)yyjson_mut_obj_remove_key(root, "status");
        (void)yyjson_mut_obj_remove_key(yyjson_mut_obj_get(root, "metadata"), "managedFields");
        yyjson_mut_doc_set_root(doc, root);
        text = yyjson_mut_write(doc, 0, ret_n);
    }
    yyjson_mut_doc_free(doc);
    return text;
}

static struct wait *new_wait(const struct gs_filter_note *note, struct gs_str pod)
{
    size_t bytes = sizeof(struct wait) + note->uid.n + note->ns.n + note->name.n + pod.n + 4;
    struct wait *w = calloc(1, bytes);
    char *at;

    if (w == NULL)
        return NULL;
    at = (char *)(w + 1);
    w->bytes = bytes;
    w->uid = gs_str_keep(note->uid, &at);
    w->ns = gs_str_keep(note->ns, &at);
    w->name = gs_str_keep(note->name, &at);
    w->pod = gs_str_keep(pod, &at);
    w->priority = note->priority;
    w->has_quota_reason = (note->why >> GS_REASON_RESOURCE_QUOTA_NOT_FIT & 1) != 0;
    return w;
}

static void on_tick(void *user);

/* From here on every change counts: those before were in the books that refused it. */
static void begin(struct gs_retry *r, struct wait *w, const struct wait *old)
{
    w->looked = w->looked_quota = gs_books_change(r->books);
    if (old != NULL && old->nudged_ms > 0) {
        w->nudged_ms = old->nudged_ms;
        w->not_before_ms = old->nudged_ms + PAUSE_MS;
    }
    if (gs_loop_timer_is_set(&r->tick))
        return;
    r->known = gs_books_change(r->books);
    gs_loop_timer_in(r->loop, &r->tick, LOOK_MS, on_tick, r);
}

void gs_retry_refused(struct gs_retry *r, const struct gs_filter_refusal *refusal)
{
    const struct gs_filter_note *note = refusal->note;
    struct wait *old = gs_map_find(&r->by_uid, note->uid), *w = NULL;
    struct gs_str pod = {0};
    char *text;

    if (note->uid.n == 0 || note->ns.n == 0 || note->name.n == 0)
        return;
    text = pod_text(refusal->pod, &pod.n);
    pod.p = text;
    if (text != NULL && pod.n <= POD_MAX)
        w = new_wait(note, pod);
    free(text);
    if (w != NULL &&
        r->stats.bytes - (old != NULL ? old->bytes : 0) + w->bytes <= r->opt.max_bytes &&
        gs_map_set(&r->by_uid, w->uid, w) == 0) {
        take_names(w, refusal->names);
        begin(r, w, old);
        link_wait(r, w);
        if (old != NULL) {
            unlink_wait(r, old);
            free(old);
        }
        return;
    }
    free(w); /* what was remembered of it holds: it is looked at for older changes, too */
    r->stats.dropped += old == NULL;
}

void gs_retry_forget(struct gs_retry *r, struct gs_str uid)
{
    if (r->by_uid.n > 0)
        drop(r, gs_map_find(&r->by_uid, uid));
}

void gs_retry_saw_pod(struct gs_retry *r, const struct gs_kube_pod *pod)
{
    if (pod->node_name.n > 0 || pod->meta.deletion_us != GS_KUBE_NO_TIME)
        gs_retry_forget(r, pod->meta.uid);
}

/* ---- would it fit? ---- */

struct question {
    struct gs_arena arena, scratch;
    yyjson_doc *doc;
    struct gs_pod pod;
    struct gs_ask ask;
    bool is_read;
};

static int read_question(const struct gs_retry *r, const struct wait *w, struct question *q)
{
    const struct gs_ask_flags flags = {r->opt.filter->device_policy, r->opt.filter->node_policy,
                                       NULL};
    struct gs_kube_pod seen;
    int rc;

    if (q->is_read)
        return 0;
    rc = gs_kube_json_read(w->pod, POD_MAX, &q->doc, NULL);
    if (rc == 0)
        rc = gs_kube_view_pod(yyjson_doc_get_root(q->doc), &q->arena, &seen, NULL);
    if (rc == 0)
        rc = gs_convert_pod(&seen, &q->arena, &q->pod);
    if (rc == 0)
        rc = gs_books_ask(r->books, &q->pod, &flags, &q->arena, &q->ask, NULL);
    q->is_read = rc == 0;
    return rc;
}

static void free_question(struct question *q)
{
    yyjson_doc_free(q->doc);
    gs_arena_fini(&q->arena);
    gs_arena_fini(&q->scratch);
}

static bool fits(const struct gs_retry *r, struct wait *w, struct question *q,
                 const struct gs_node *node)
{
    struct gs_placement placement;
    struct gs_reasons reasons;

    if (!has_name(w, node->name) || read_question(r, w, q) < 0 || !gs_place_may(&q->ask, node))
        return false;
    gs_arena_reset(&q->scratch);
    memset(&reasons, 0, sizeof(reasons));
    if (gs_place(&q->ask, node, &q->scratch, &placement, &reasons) == 0)
        return true;
    w->has_quota_reason |= reasons.count[GS_REASON_RESOURCE_QUOTA_NOT_FIT] > 0;
    return false;
}

/* Any node may do where it was the quota that was lacking. */
static bool fits_somewhere(const struct gs_retry *r, struct wait *w, struct question *q,
                           size_t *budget)
{
    const struct gs_node *node;
    size_t pos = 0;

    if (!w->has_quota_reason || gs_books_quota_change(r->books, w->ns) <= w->looked_quota)
        return false;
    while ((node = gs_books_next(r->books, &pos)) != NULL) {
        *budget -= *budget > 0;
        if (fits(r, w, q, node))
            return true;
    }
    w->looked_quota = gs_books_quota_change(r->books, w->ns);
    return false;
}

/* Does it fit on a node that has changed? w->looked tells how far this has come; *ret_is_done: to
 * the end. */
static bool fits_on_changed(const struct gs_retry *r, struct wait *w, struct question *q,
                            size_t *budget, bool *ret_is_done)
{
    uint64_t change;
    const struct gs_node *node = gs_books_changed(r->books, w->looked, r->until, &change);

    *ret_is_done = false;
    for (; node != NULL; node = gs_books_changed_next(r->books, node, r->until, &change)) {
        if (*budget == 0)
            return false;
        --*budget;
        if (fits(r, w, q, node))
            return true; /* not counted as looked at: if the nudge is lost it is found again */
        w->looked = change;
    }
    if (w->looked < r->until)
        w->looked = r->until;
    *ret_is_done = true;
    return false;
}

static void nudge(struct gs_retry *r, struct wait *w)
{
    unsigned doubles = w->n_unanswered < PAUSE_DOUBLES ? w->n_unanswered : PAUSE_DOUBLES;

    w->n_unanswered++;
    w->nudged_ms = gs_loop_now_ms(r->loop);
    w->not_before_ms = w->nudged_ms + ((int64_t)PAUSE_MS << doubles);
    r->n_nudges++;
    r->stats.nudged++;
    gs_nudge_send(r->client, w->ns, w->name, w->uid);
}

/* True: nothing more to be looked at for this one. */
static bool look_at(struct gs_retry *r, struct wait *w, size_t *budget)
{
    struct gs_books_holder holder;
    struct question q = {0};
    bool is_done = true, is_fit;

    if (w->looked >= r->until && !w->has_quota_reason)
        return true;
    /* With room held for it, preemption watches over it. */
    if (gs_loop_now_ms(r->loop) < w->not_before_ms || gs_books_is_held(r->books, w->uid) ||
        gs_books_holder(r->books, w->uid, &holder))
        return true;
    gs_books_lift(r->books, w->uid, w->priority);
    is_fit = fits_somewhere(r, w, &q, budget) || fits_on_changed(r, w, &q, budget, &is_done);
    gs_books_lift(r->books, (struct gs_str){0}, INT32_MIN);
    free_question(&q);
    if (is_fit)
        nudge(r, w);
    return is_fit || is_done;
}

static void on_go(void *user)
{
    struct gs_retry *r = user;
    size_t budget = NODES_GO;

    while (r->at != NULL && budget > 0 && r->n_nudges < NUDGES_MAX) {
        if (!look_at(r, r->at, &budget))
            break;
        r->at = r->at->link.next;
    }
    if (r->n_nudges >= NUDGES_MAX)
        r->at = NULL;
    if (r->at != NULL)
        gs_loop_defer(r->loop, &r->go, on_go, r);
}

static void on_tick(void *user)
{
    struct gs_retry *r = user;
    uint64_t known = r->known;

    if (r->by_uid.n == 0)
        return;
    r->known = gs_books_change(r->books);
    gs_loop_timer_in(r->loop, &r->tick, LOOK_MS, on_tick, r);
    if (r->at != NULL || (r->opt.leads != NULL && !r->opt.leads(r->opt.arg)))
        return;
    r->until = known;
    r->n_nudges = 0;
    r->at = r->waits.first;
    gs_loop_defer(r->loop, &r->go, on_go, r);
}

/* ---- life ---- */

int gs_retry_new(struct gs_kube_client *client, struct gs_books *books,
                 const struct gs_retry_opt *opt, struct gs_retry **ret)
{
    struct gs_retry *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return -ENOMEM;
    r->client = client;
    r->loop = gs_kube_client_loop(client);
    r->books = books;
    r->opt = *opt;
    if (r->opt.max_bytes == 0)
        r->opt.max_bytes = BYTES_MAX;
    *ret = r;
    return 0;
}

struct gs_retry *gs_retry_free(struct gs_retry *r)
{
    if (r == NULL)
        return NULL;
    gs_loop_timer_cancel(r->loop, &r->tick);
    gs_loop_task_cancel(r->loop, &r->go);
    while (r->waits.first != NULL)
        drop(r, r->waits.first);
    gs_map_fini(&r->by_uid);
    free(r);
    return NULL;
}

void gs_retry_stats(const struct gs_retry *r, struct gs_retry_stats *ret)
{
    *ret = r->stats;
    ret->waiting = r->by_uid.n;
}
