/* Pods as the API server has them, and those that only their nodes have any more. */

#include <errno.h>

#include "control/books_internal.h"

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
    struct gs_books_who who = {.uid = note->uid,
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
        gs_books_drop(books, old); /* it says that nothing is held */
    return rc == 0 && s.n > 0 ? gs_books_put(books, &who, &s) : rc;
}

int gs_books_count_leftovers(struct gs_books *books, struct gs_books_node_entry *node,
                             struct gs_err *err)
{
    struct gs_books_pod_entry *next;
    int first = 0;

    for (struct gs_books_pod_entry *p = node->pods.first; p != NULL; p = next) {
        next = p->on_node.next;
        if (p->is_leftover && p->until_ms == 0 && named(node, p->uid) == NULL)
            gs_books_drop(books, p);
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

    gs_books_drop(books, pod);
    if (note != NULL)
        (void)count_leftover(books, node, note, NULL); /* it was read before */
}

int gs_books_pod_set(struct gs_books *books, const struct gs_books_pod *pod, struct gs_err *err)
{
    struct gs_books_pod_entry *old = gs_map_find(&books->pods, pod->uid);
    struct gs_books_shares s = {0};
    struct gs_books_who who = {.uid = pod->uid,
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
        return gs_books_put(books, &who, &s) < 0 ? -ENOMEM : rc;
    if (old != NULL)
        gs_books_drop(books, old);
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
    gs_books_outlive(books, pod, now_ms + pod->outlives_ms);
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
