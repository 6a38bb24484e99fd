/* A pod's entry: made, counted wherever it counts, and taken out again. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/books_internal.h"

/* ---- where it counts ---- */

bool gs_books_may_go(const struct gs_books_pod_entry *pod)
{
    return !pod->is_reservation && !pod->is_hold && !pod->is_leftover &&
           pod->ends_us == GS_BOOKS_STAYS;
}

/* Keep the lowest priority of those that could be evicted, and how many have it. */
static void count_lowest(struct gs_books *books, const struct gs_books_pod_entry *pod)
{
    if (!gs_books_may_go(pod))
        return;
    books->n_bound++;
    if (books->n_lowest > 0 && pod->priority == books->lowest) {
        books->n_lowest++;
    } else if (books->n_bound == 1 || (books->n_lowest > 0 && pod->priority < books->lowest)) {
        books->lowest = pod->priority;
        books->n_lowest = 1;
    }
}

static void uncount_lowest(struct gs_books *books, const struct gs_books_pod_entry *pod)
{
    if (!gs_books_may_go(pod))
        return;
    books->n_bound--;
    if (books->n_lowest > 0 && pod->priority == books->lowest)
        books->n_lowest--; /* none left: found anew when somebody asks */
}

bool gs_books_has_below(struct gs_books *books, int32_t priority)
{
    const struct gs_books_pod_entry *pod;
    size_t pos = 0;

    if (books->n_lowest == 0 && books->n_bound > 0)
        while ((pod = gs_map_next(&books->pods, &pos)) != NULL) {
            if (!gs_books_may_go(pod) || (books->n_lowest > 0 && pod->priority > books->lowest))
                continue;
            books->n_lowest =
                books->n_lowest > 0 && pod->priority == books->lowest ? books->n_lowest + 1 : 1;
            books->lowest = pod->priority;
        }
    return books->n_lowest > 0 && books->lowest < priority;
}

static void link_to_node(struct gs_books *books, struct gs_books_pod_entry *pod)
{
    GS_LIST_PUSH(&pod->node->pods, pod, on_node);
    pod->node->n_pods++;
    gs_books_mark(books, pod->node);
}

static void unlink_from_node(struct gs_books *books, struct gs_books_pod_entry *pod)
{
    GS_LIST_REMOVE(&pod->node->pods, pod, on_node);
    pod->node->n_pods--;
    gs_books_mark(books, pod->node);
    gs_books_drop_node_if_unused(books, pod->node);
}

static bool may_expire(const struct gs_books_pod_entry *pod)
{
    return pod->is_reservation || pod->is_hold || (pod->is_leftover && pod->until_ms > 0);
}

/* Sums of whole numbers: what one pod adds it takes off again, to the last unit. What is no pod of
 * the API server's (any more) is no namespace's either. */
static void count_in_ns(struct gs_books *books, const struct gs_books_pod_entry *pod, int sign)
{
    struct gs_books_ns_entry *ns = pod->in_ns;

    if (!pod->is_hold)
        ns->changed = ++books->change;

    ns->n_pods += sign > 0 ? 1 : (size_t)-1;
    for (uint32_t i = 0; i < pod->n_shares && !pod->is_hold && !pod->is_leftover; i++) {
        ns->mem_used[pod->share[i].policy] += (int64_t)sign * pod->share[i].mem_mib;
        ns->core_used[pod->share[i].policy] += (int64_t)sign * pod->share[i].cores;
    }
}

static void link_lease(struct gs_books *books, struct gs_books_pod_entry *pod)
{
    GS_LIST_PUSH(&books->leased, pod, lease);
    books->n_reservations += pod->is_reservation;
}

static void unlink_lease(struct gs_books *books, struct gs_books_pod_entry *pod)
{
    GS_LIST_REMOVE(&books->leased, pod, lease);
    books->n_reservations -= pod->is_reservation;
}

static void link_pod(struct gs_books *books, struct gs_books_pod_entry *pod)
{
    link_to_node(books, pod);
    count_in_ns(books, pod, 1);
    if (may_expire(pod))
        link_lease(books, pod);
    count_lowest(books, pod);
}

static void unlink_pod(struct gs_books *books, struct gs_books_pod_entry *pod)
{
    unlink_from_node(books, pod);
    count_in_ns(books, pod, -1);
    gs_books_drop_ns_if_unused(books, pod->in_ns);
    if (may_expire(pod))
        unlink_lease(books, pod);
    uncount_lowest(books, pod);
}

static struct gs_map *map_of(struct gs_books *books, bool is_hold)
{
    return is_hold ? &books->holds : &books->pods;
}

/* A hold counts where its pod has nothing else. */
static void mark_hold(struct gs_books *books, struct gs_str uid)
{
    const struct gs_books_pod_entry *hold = gs_map_find(&books->holds, uid);

    if (hold != NULL)
        gs_books_mark(books, hold->node);
}

void gs_books_drop(struct gs_books *books, struct gs_books_pod_entry *pod)
{
    (void)gs_map_remove(map_of(books, pod->is_hold), pod->uid);
    mark_hold(books, pod->uid);
    unlink_pod(books, pod);
    free(pod);
}

void gs_books_outlive(struct gs_books *books, struct gs_books_pod_entry *pod, int64_t until_ms)
{
    if (may_expire(pod))
        unlink_lease(books, pod);
    uncount_lowest(books, pod);
    count_in_ns(books, pod, -1);
    pod->is_leftover = true;
    pod->is_reservation = pod->is_pinned = pod->is_sent = false;
    pod->until_ms = until_ms;
    count_in_ns(books, pod, 1);
    link_lease(books, pod);
    gs_books_mark(books, pod->node);
}

/* ---- one block ---- */

static size_t pairs_bytes(const struct gs_pairs *pairs)
{
    size_t bytes = 0;

    for (size_t i = 0; pairs != NULL && i < pairs->n; i++)
        bytes += sizeof(struct gs_pair) + pairs->at[i].key.n + pairs->at[i].value.n + 2;
    return bytes;
}

/* Room for the pairs at *at, which moves on. */
static struct gs_pairs pairs_at(char **at, const struct gs_pairs *pairs)
{
    struct gs_pairs kept = {.at = (struct gs_pair *)(void *)*at};

    if (pairs == NULL)
        return (struct gs_pairs){0};
    kept.n = kept.cap = pairs->n;
    *at = (char *)(kept.at + kept.n);
    return kept;
}

static void keep_pairs(char **at, const struct gs_pairs *from, struct gs_pairs *to)
{
    for (size_t i = 0; i < to->n; i++) {
        to->at[i].key = gs_str_keep(from->at[i].key, at);
        to->at[i].value = gs_str_keep(from->at[i].value, at);
    }
}

static size_t made_bytes(const struct gs_books_instance *made)
{
    return made != NULL ? sizeof(*made) + made->mig_uuid.n + made->profile.n + 2 : 0;
}

/* Room for the instances at *at, which moves on; their text is the caller's still. */
static void keep_made(char **at, struct gs_books_share *share, size_t n)
{
    struct gs_books_instance *made = (struct gs_books_instance *)(void *)*at;

    for (size_t i = 0; i < n; i++)
        if (share[i].made != NULL) {
            *made = *share[i].made;
            share[i].made = made++;
        }
    *at = (char *)made;
}

static void keep_names(char **at, const struct gs_books_instance *kept)
{
    struct gs_books_instance *made = (struct gs_books_instance *)(uintptr_t)kept;

    if (made == NULL)
        return;
    made->mig_uuid = gs_str_keep(made->mig_uuid, at);
    made->profile = gs_str_keep(made->profile, at);
}

static size_t entry_bytes(const struct gs_books_who *who, const struct gs_books_shares *s,
                          size_t n_tags)
{
    size_t bytes = sizeof(struct gs_books_pod_entry) + s->n * sizeof(struct gs_books_share) +
                   n_tags * sizeof(uint32_t) + who->uid.n + who->name.n + 2;

    for (size_t i = 0; i < s->n; i++)
        bytes += s->at[i].uuid.n + 1 + made_bytes(s->at[i].made);
    return bytes + pairs_bytes(who->annotations) + pairs_bytes(who->labels);
}

/* One block for the entry, its shares, notes and text: tens of thousands of them are kept. */
static struct gs_books_pod_entry *make_entry(struct gs_books *books, const struct gs_books_who *who,
                                             const struct gs_books_shares *s)
{
    size_t n_tags = who->tag != NULL ? books->policies->n : 0;
    struct gs_books_pod_entry *pod = calloc(1, entry_bytes(who, s, n_tags));
    char *at;

    if (pod == NULL)
        return NULL;
    pod->in_ns = gs_books_ns_entry(books, who->ns);
    pod->node = gs_books_node_entry(books, who->node);
    if (pod->in_ns == NULL || pod->node == NULL) {
        gs_books_drop_node_if_unused(books, pod->node);
        gs_books_drop_ns_if_unused(books, pod->in_ns);
        free(pod);
        return NULL;
    }
    pod->share = (struct gs_books_share *)(void *)(pod + 1);
    if (s->n > 0)
        memcpy(pod->share, s->at, s->n * sizeof(*pod->share));
    at = (char *)(pod->share + s->n);
    keep_made(&at, pod->share, s->n);
    pod->annotations = pairs_at(&at, who->annotations);
    pod->labels = pairs_at(&at, who->labels);
    pod->tag = n_tags > 0 ? (uint32_t *)(void *)at : NULL;
    at += n_tags * sizeof(uint32_t);
    keep_pairs(&at, who->annotations, &pod->annotations);
    keep_pairs(&at, who->labels, &pod->labels);
    for (size_t i = 0; i < s->n; i++) {
        pod->share[i].uuid = gs_str_keep(s->at[i].uuid, &at);
        keep_names(&at, pod->share[i].made);
    }
    if (n_tags > 0)
        memcpy(pod->tag, who->tag, n_tags * sizeof(uint32_t));
    pod->n_shares = (uint32_t)s->n;
    pod->uid = gs_str_keep(who->uid, &at);
    pod->name = gs_str_keep(who->name, &at);
    pod->ns = pod->in_ns->name;
    pod->priority = who->priority;
    pod->is_reservation = who->is_reservation;
    pod->is_hold = who->is_hold;
    pod->is_leftover = who->is_leftover;
    pod->until_ms = who->until_ms;
    pod->start_us = who->start_us;
    pod->ends_us = who->ends_us;
    pod->outlives_ms = who->outlives_ms;
    pod->version = who->version;
    pod->is_closed = who->is_closed;
    return pod;
}

int gs_books_put(struct gs_books *books, const struct gs_books_who *who,
                 const struct gs_books_shares *s)
{
    struct gs_books_pod_entry *pod = make_entry(books, who, s);
    struct gs_map *map = map_of(books, who->is_hold);
    struct gs_books_pod_entry *old = gs_map_find(map, who->uid);
    int rc = pod == NULL ? -ENOMEM : gs_map_set(map, pod->uid, pod);

    if (rc < 0) {
        if (pod != NULL) {
            gs_books_drop_node_if_unused(books, pod->node);
            gs_books_drop_ns_if_unused(books, pod->in_ns);
        }
        free(pod);
        return rc;
    }
    link_pod(books, pod);
    mark_hold(books, pod->uid);
    if (old != NULL) {
        unlink_pod(books, old);
        free(old);
    }
    return 0;
}
