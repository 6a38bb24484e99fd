/* Pods in the books: what they hold by their grants, or have been promised by a reservation. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/books_internal.h"
#include "core/size.h"
#include "model/ask.h"

/* ---- lists ---- */

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

static void drop(struct gs_books *books, struct gs_books_pod_entry *pod)
{
    (void)gs_map_remove(map_of(books, pod->is_hold), pod->uid);
    mark_hold(books, pod->uid);
    unlink_pod(books, pod);
    free(pod);
}

/* ---- entries ---- */

struct who {
    struct gs_str uid, ns, name, node;
    const uint32_t *tag;
    int32_t priority;
    bool is_reservation, is_hold, is_leftover;
    int64_t until_ms, start_us, ends_us, outlives_ms;
    uint64_t version;
    const struct gs_pairs *annotations, *labels; /**< NULL: none */
};

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

static size_t entry_bytes(const struct who *who, const struct gs_books_shares *s, size_t n_tags)
{
    size_t bytes = sizeof(struct gs_books_pod_entry) + s->n * sizeof(struct gs_books_share) +
                   n_tags * sizeof(uint32_t) + who->uid.n + who->name.n + 2;

    for (size_t i = 0; i < s->n; i++)
        bytes += s->at[i].uuid.n + 1 + made_bytes(s->at[i].made);
    return bytes + pairs_bytes(who->annotations) + pairs_bytes(who->labels);
}

/* One block for the entry, its shares, notes and text: tens of thousands of them are kept. */
static struct gs_books_pod_entry *make_entry(struct gs_books *books, const struct who *who,
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
    return pod;
}

static int put_entry(struct gs_books *books, const struct who *who, const struct gs_books_shares *s)
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

/* ---- pods that are gone while their containers are not ---- */

static const struct gs_untracked_pod *named(const struct gs_books_node_entry *node,
                                            struct gs_str uid)
{
    for (size_t i = 0; node != NULL && i < node->notes.n_pods; i++)
        if (gs_str_eq(node->notes.pod[i].uid, uid))
            return &node->notes.pod[i];
    return NULL;
}

/* The API server does not have this pod (any more): count it if its node does. */
static int count_leftover(struct gs_books *books, struct gs_books_node_entry *node,
                          const struct gs_untracked_pod *note, struct gs_err *err)
{
    struct gs_books_pod_entry *old = gs_map_find(&books->pods, note->uid);
    struct gs_books_pod pod = {.grant = note->grant, .placements = note->placements};
    struct who who = {.uid = note->uid,
                      .node = node->node.name,
                      .priority = INT32_MAX,
                      .start_us = GS_BOOKS_STAYS,
                      .ends_us = GS_BOOKS_STAYS,
                      .is_leftover = true};
    struct gs_books_shares s = {0};
    int rc;

    if (old != NULL && (!old->is_leftover || old->node != node))
        return 0;
    gs_arena_reset(&books->scratch);
    rc = gs_books_shares_read(books, &pod, &s, err);
    if (rc == 0 && s.n == 0 && old != NULL)
        drop(books, old); /* it says that nothing is held */
    return rc == 0 && s.n > 0 ? put_entry(books, &who, &s) : rc;
}

int gs_books_count_leftovers(struct gs_books *books, struct gs_books_node_entry *node,
                             struct gs_err *err)
{
    struct gs_books_pod_entry *next;
    int first = 0;

    for (struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = next) {
        next = p->on_node.next;
        if (p->is_leftover && p->until_ms == 0 && named(node, p->uid) == NULL)
            drop(books, p);
    }
    for (size_t i = 0; i < node->notes.n_pods; i++) {
        int rc = count_leftover(books, node, &node->notes.pod[i], first == 0 ? err : NULL);

        first = rc < 0 && first == 0 ? rc : first;
    }
    return first;
}

/* The pod holds nothing by itself from now on. */
static void leave(struct gs_books *books, struct gs_books_pod_entry *pod)
{
    struct gs_books_node_entry *node = pod->node;
    const struct gs_untracked_pod *note = named(node, pod->uid);

    drop(books, pod);
    if (note != NULL)
        (void)count_leftover(books, node, note, NULL); /* it was read before */
}

int gs_books_pod_set(struct gs_books *books, const struct gs_books_pod *pod, struct gs_err *err)
{
    struct gs_books_pod_entry *old = gs_map_find(&books->pods, pod->uid);
    struct gs_books_shares s = {0};
    struct who who = {.uid = pod->uid,
                      .ns = pod->ns,
                      .name = pod->name,
                      .node = pod->node,
                      .tag = pod->tag,
                      .priority = pod->priority,
                      .labels = pod->labels,
                      .start_us = pod->start_us,
                      .ends_us = pod->ends_us,
                      .outlives_ms = pod->outlives_ms};
    int rc;

    if (pod->is_over || pod->node.n > 0)
        (void)gs_books_unhold(books, pod->uid);
    if (pod->is_over || pod->node.n == 0) {
        /* A reservation outlives news of a pod that is still waiting. */
        if (old != NULL && !old->is_leftover && (pod->is_over || !old->is_reservation))
            leave(books, old);
        return 0;
    }
    gs_arena_reset(&books->scratch);
    rc = gs_books_shares_read(books, pod, &s, err);
    if (rc == -ENOMEM)
        return rc;
    if (rc < 0)
        s.n = 0;
    if (s.n > 0)
        return put_entry(books, &who, &s) < 0 ? -ENOMEM : rc;
    if (old != NULL)
        drop(books, old);
    return rc;
}

void gs_books_pod_gone(struct gs_books *books, struct gs_str uid)
{
    struct gs_books_pod_entry *pod = gs_map_find(&books->pods, uid);

    (void)gs_books_unhold(books, uid);
    if (pod != NULL && !pod->is_leftover)
        leave(books, pod);
}

void gs_books_pod_deleted(struct gs_books *books, struct gs_str uid, int64_t now_ms)
{
    struct gs_books_pod_entry *pod = gs_map_find(&books->pods, uid);

    if (pod == NULL || pod->is_leftover || (pod->is_reservation && !pod->is_sent) ||
        pod->outlives_ms <= 0 || named(pod->node, uid) != NULL) {
        gs_books_pod_gone(books, uid);
        return;
    }
    if (may_expire(pod))
        unlink_lease(books, pod);
    uncount_lowest(books, pod);
    count_in_ns(books, pod, -1);
    pod->is_leftover = true;
    pod->is_reservation = pod->is_pinned = pod->is_sent = false;
    pod->until_ms = now_ms + pod->outlives_ms;
    count_in_ns(books, pod, 1);
    link_lease(books, pod);
    gs_books_mark(books, pod->node);
}

/* ---- reservations ---- */

/* What was decided for a pod, as a reservation or a hold of it. */
static int put_decision(struct gs_books *books, const struct gs_ask *ask,
                        const struct gs_placement *placement, struct who who)
{
    struct gs_books_shares s = {0};
    uint32_t *tag;
    int rc;

    who.uid = ask->pod->uid;
    who.ns = ask->pod->ns;
    who.name = ask->pod->name;
    who.node = placement->node->name;
    who.start_us = who.ends_us = GS_BOOKS_STAYS;
    who.outlives_ms = ask->pod->outlives_ms;
    if (gs_size_parse_u64(ask->pod->version, &who.version) < 0)
        who.version = 0; /* not one that can be compared: not known */
    gs_arena_reset(&books->scratch);
    tag = GS_ARENA_ARRAY(&books->scratch, books->policies->n, uint32_t);
    if (tag == NULL)
        return -ENOMEM;
    for (size_t v = 0; v < ask->n_vendors; v++) {
        tag[ask->vendor[v].policy_index] = ask->vendor[v].wish.tag;
        if (ask->vendor[v].wish.tag != 0)
            who.tag = tag;
    }
    rc = gs_books_shares_of(books, ask, placement, &s);
    return rc < 0 ? rc : put_entry(books, &who, &s);
}

int gs_books_reserve(struct gs_books *books, const struct gs_ask *ask,
                     const struct gs_placement *placement, const struct gs_pairs *annotations,
                     int64_t until_ms)
{
    const struct gs_books_pod_entry *old = gs_map_find(&books->pods, ask->pod->uid);

    if (old != NULL && !old->is_reservation)
        return -EEXIST;
    if (old != NULL && old->is_pinned)
        return -EBUSY;
    return put_decision(
        books, ask, placement,
        (struct who){.is_reservation = true, .until_ms = until_ms, .annotations = annotations});
}

int gs_books_hold(struct gs_books *books, const struct gs_ask *ask,
                  const struct gs_placement *placement, int32_t priority, int64_t until_ms)
{
    return put_decision(books, ask, placement,
                        (struct who){.is_hold = true, .priority = priority, .until_ms = until_ms});
}

bool gs_books_unhold(struct gs_books *books, struct gs_str uid)
{
    struct gs_books_pod_entry *hold = gs_map_find(&books->holds, uid);

    if (hold == NULL)
        return false;
    drop(books, hold);
    return true;
}

bool gs_books_is_held(const struct gs_books *books, struct gs_str uid)
{
    return gs_map_find(&books->holds, uid) != NULL;
}

void gs_books_lift(struct gs_books *books, struct gs_str uid, int32_t priority)
{
    struct gs_books_pod_entry *hold;
    size_t pos = 0;

    if (books->holds.n == 0)
        return;
    while ((hold = gs_map_next(&books->holds, &pos)) != NULL) {
        bool is_lifted = hold->priority < priority || (uid.n > 0 && gs_str_eq(hold->uid, uid));

        if (hold->is_lifted != is_lifted)
            gs_books_mark_dirty(books, hold->node);
        hold->is_lifted = is_lifted;
    }
}

bool gs_books_release(struct gs_books *books, struct gs_str uid)
{
    struct gs_books_pod_entry *pod = gs_map_find(&books->pods, uid);

    if (pod == NULL || !pod->is_reservation || pod->is_pinned)
        return false;
    drop(books, pod);
    return true;
}

void gs_books_pin(struct gs_books *books, struct gs_str uid, bool is_pinned)
{
    struct gs_books_pod_entry *pod = gs_map_find(&books->pods, uid);

    if (pod == NULL || !pod->is_reservation)
        return;
    pod->is_pinned = is_pinned;
    pod->is_sent |= is_pinned;
}

bool gs_books_is_pinned(const struct gs_books *books, struct gs_str uid)
{
    const struct gs_books_pod_entry *pod = gs_map_find(&books->pods, uid);

    return pod != NULL && pod->is_pinned;
}

bool gs_books_reserved(const struct gs_books *books, struct gs_str uid,
                       struct gs_books_reservation *ret)
{
    const struct gs_books_pod_entry *pod = gs_map_find(&books->pods, uid);

    if (pod == NULL || !pod->is_reservation)
        return false;
    *ret = (struct gs_books_reservation){pod->ns,          pod->name,     pod->node->node.name,
                                         pod->annotations, pod->until_ms, pod->version,
                                         pod->is_sent};
    return true;
}

void gs_books_prolong(struct gs_books *books, struct gs_str uid, int64_t until_ms)
{
    struct gs_books_pod_entry *pod = gs_map_find(&books->pods, uid);

    if (pod != NULL && pod->is_reservation && pod->until_ms < until_ms)
        pod->until_ms = until_ms;
    pod = gs_map_find(&books->holds, uid);
    if (pod != NULL && pod->until_ms < until_ms)
        pod->until_ms = until_ms;
}

size_t gs_books_expire(struct gs_books *books, int64_t now_ms, int64_t listed_ms)
{
    struct gs_books_pod_entry *pod = books->leased.first, *next;
    size_t expired = 0;

    for (; pod != NULL; pod = next) {
        next = pod->lease.next;
        if (pod->is_pinned ||
            pod->until_ms > (pod->is_sent && listed_ms < now_ms ? listed_ms : now_ms))
            continue;
        expired += !pod->is_leftover;
        drop(books, pod);
    }
    return expired;
}

bool gs_books_is_overdue(const struct gs_books *books, int64_t now_ms)
{
    const struct gs_books_pod_entry *pod = books->leased.first;

    while (pod != NULL && (!pod->is_sent || pod->is_pinned || pod->until_ms > now_ms))
        pod = pod->lease.next;
    return pod != NULL;
}

void gs_books_void(struct gs_books *books)
{
    struct gs_books_pod_entry *pod = books->leased.first, *next;

    for (; pod != NULL; pod = next) {
        next = pod->lease.next;
        if (!pod->is_pinned && !pod->is_leftover)
            drop(books, pod);
    }
}

bool gs_books_holder(const struct gs_books *books, struct gs_str uid, struct gs_books_holder *ret)
{
    const struct gs_books_pod_entry *pod = gs_map_find(&books->pods, uid);

    if (pod == NULL)
        return false;
    *ret = (struct gs_books_holder){pod->uid,
                                    pod->ns,
                                    pod->name,
                                    pod->priority,
                                    pod->is_reservation,
                                    pod->ends_us != GS_BOOKS_STAYS || pod->is_leftover,
                                    pod->is_leftover};
    return true;
}
