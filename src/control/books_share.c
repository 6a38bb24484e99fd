/* From what a pod was given, or has been promised, to its shares of devices. */

#include <errno.h>
#include <string.h>

#include "control/books_internal.h"

#define SHARES_MAX     4096u
#define NAME_MAX_BYTES 80u /* "MIG-GPU-<36>/<gi>/<ci>" of drivers before 470 is the longest */

static int push(struct gs_books *books, struct gs_books_shares *s,
                const struct gs_books_share *share)
{
    if (s->n == SHARES_MAX)
        return -E2BIG;
    if (s->n == s->cap) {
        size_t cap = s->cap == 0 ? 16 : s->cap * 2;
        struct gs_books_share *at = GS_ARENA_ARRAY(&books->scratch, cap, struct gs_books_share);

        if (at == NULL)
            return -ENOMEM;
        if (s->n > 0)
            memcpy(at, s->at, s->n * sizeof(*at));
        s->at = at;
        s->cap = cap;
    }
    s->at[s->n++] = *share;
    return 0;
}

static int push_grant(struct gs_books *books, uint32_t policy, const struct gs_grant *grant,
                      const struct gs_slots *slots, struct gs_books_shares *s)
{
    struct gs_share_of *of;
    size_t n;
    int rc = gs_collapse(grant, slots, &books->scratch, &of, &n);

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = push(books, s,
                  &(struct gs_books_share){.policy = policy,
                                           .uuid = of[i].uuid,
                                           .slots = of[i].slots,
                                           .mem_mib = of[i].mem_mib,
                                           .cores = of[i].cores});
    return rc;
}

/* What an instance is called comes from the annotation of a pod: names that no driver gives are not
 * kept. */
static bool is_nameable(const struct gs_mig_grant *mig)
{
    return mig->is_realised && mig->mig_uuid.n <= NAME_MAX_BYTES &&
           mig->profile.n <= NAME_MAX_BYTES;
}

static int push_placements(struct gs_books *books, uint32_t policy, struct gs_str text,
                           struct gs_books_shares *s, struct gs_err *err)
{
    struct gs_mig_grant *mig;
    struct gs_books_instance *made = NULL;
    size_t n;
    int rc = gs_grant_mig_read(text, &books->scratch, &mig, &n, err);

    if (rc == 0 && (made = GS_ARENA_ARRAY(&books->scratch, n, struct gs_books_instance)) == NULL)
        rc = -ENOMEM;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        made[i] =
            (struct gs_books_instance){mig[i].mig_uuid,         mig[i].profile, mig[i].gpu_instance,
                                       mig[i].compute_instance, mig[i].start,   mig[i].size};
        rc = push(books, s,
                  &(struct gs_books_share){.policy = policy,
                                           .uuid = mig[i].gpu_uuid,
                                           .place_start = mig[i].start,
                                           .place_size = mig[i].size,
                                           .made = is_nameable(&mig[i]) ? &made[i] : NULL});
    }
    return rc;
}

int gs_books_shares_read(struct gs_books *books, const struct gs_books_pod *pod,
                         struct gs_books_shares *s, struct gs_err *err)
{
    struct gs_slots slots = {pod->n_init, NULL, pod->inits_done};
    bool *is_app;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < books->policies->n; i++) {
        struct gs_grant grant;

        if (pod->grant[i].n > 0) {
            rc = gs_grant_read(pod->grant[i], &books->scratch, &grant, err);
            if (rc == 0 && pod->is_app != NULL) {
                /* A grant may have more slots than the pod has containers: those count as app. */
                is_app = GS_ARENA_ARRAY(&books->scratch, grant.n + 1, bool);
                if (is_app == NULL)
                    return -ENOMEM;
                for (size_t c = 0; c < grant.n; c++)
                    is_app[c] = c < pod->n_slots ? pod->is_app[c] : true;
                slots.is_app = is_app;
            }
            if (rc == 0)
                rc = push_grant(books, i, &grant, &slots, s);
        }
        if (rc == 0 && pod->placements != NULL && pod->placements[i].n > 0)
            rc = push_placements(books, i, pod->placements[i], s, err);
    }
    return rc;
}

int gs_books_shares_of(struct gs_books *books, const struct gs_ask *ask,
                       const struct gs_placement *placement, struct gs_books_shares *s)
{
    bool *is_app = GS_ARENA_ARRAY(&books->scratch, ask->pod->n_containers + 1, bool);
    struct gs_slots slots = {ask->pod->n_init, is_app, false};
    int rc = is_app == NULL ? -ENOMEM : 0;

    for (size_t c = 0; rc == 0 && c < ask->pod->n_containers; c++)
        is_app[c] = !gs_container_is_passing(&ask->pod->container[c]);
    for (size_t v = 0; rc == 0 && v < ask->n_vendors; v++) {
        uint32_t index = ask->vendor[v].policy_index;
        struct gs_grant grant;

        rc = gs_place_grant(ask, placement, ask->vendor[v].policy, &books->scratch, &grant);
        if (rc == 0)
            rc = push_grant(books, index, &grant, &slots, s);
        for (size_t t = 0; rc == 0 && t < placement->n; t++) {
            const struct gs_taken *taken = &placement->taken[t];

            if (taken->policy == ask->vendor[v].policy && taken->pick.place_size > 0)
                rc = push(books, s,
                          &(struct gs_books_share){.policy = index,
                                                   .uuid = placement->node->dev[taken->pick.dev].id,
                                                   .place_start = taken->pick.place_start,
                                                   .place_size = taken->pick.place_size});
        }
    }
    return rc;
}
