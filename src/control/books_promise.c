/* Promises: reservations until a Binding, and room that is held until others have left. */

#include <errno.h>

#include "control/books_internal.h"
#include "core/size.h"
#include "model/ask.h"

/* What was decided for a pod, as a reservation or a hold of it. */
static int put_decision(struct gs_books *books, const struct gs_ask *ask,
                        const struct gs_placement *placement, struct gs_books_who who)
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
    who.is_closed = ask->pod->is_closed;
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
    return rc < 0 ? rc : gs_books_put(books, &who, &s);
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
    return put_decision(books, ask, placement,
                        (struct gs_books_who){.is_reservation = true,
                                              .until_ms = until_ms,
                                              .annotations = annotations});
}

int gs_books_hold(struct gs_books *books, const struct gs_ask *ask,
                  const struct gs_placement *placement, int32_t priority, int64_t until_ms)
{
    return put_decision(
        books, ask, placement,
        (struct gs_books_who){.is_hold = true, .priority = priority, .until_ms = until_ms});
}

bool gs_books_unhold(struct gs_books *books, struct gs_str uid)
{
    struct gs_books_pod_entry *hold = gs_map_find(&books->holds, uid);

    if (hold == NULL)
        return false;
    gs_books_drop(books, hold);
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
    gs_books_drop(books, pod);
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
                                         pod->is_closed,   pod->is_sent};
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
        gs_books_drop(books, pod);
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
            gs_books_drop(books, pod);
    }
}
