#pragma once
/* Preemption: a pod that found no room asks pods of lower priority to leave, those and only those
 * without whom it fits. kube-scheduler cannot see what is on a card (the resources are ignored
 * there), so the victims are chosen here, by its own order, and asked by the Eviction API:
 * disruption budgets are kept. What becomes free is held for the pod. docs/preemption.md.
 *
 * One pod at a time goes through: planning (a node at a time, between requests), the nomination
 * (status.nominatedNodeName), evictions one after the other, waiting. A pod that is refused again
 * meanwhile changes nothing.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "control/books.h"
#include "control/filter.h"
#include "core/cleanup.h"
#include "kube/client.h"

struct gs_kube_events;
struct gs_kube_pod;
struct gs_preempt;

struct gs_preempt_opt {
    const struct gs_filter_conf *filter; /**< outlives this */
    struct gs_kube_events *events;       /**< hears of evictions; NULL: nobody */
    /** Does this replica lead? Asked before each eviction. NULL: always. */
    bool (*leads)(void *arg);
    void *arg;
};

/** Watches disruption budgets from now on. `client` and `books` outlive it. */
GS_WUR int gs_preempt_new(struct gs_kube_client *client, struct gs_books *books,
                          const struct gs_preempt_opt *opt, struct gs_preempt **ret,
                          struct gs_err *err);
/** Accepts NULL. Before the client. */
struct gs_preempt *gs_preempt_free(struct gs_preempt *preempt);

/** A filter call ended with this note: where it found no room for a pod that may preempt, others
 *  may have to go. Cheap: work is done later. `body` is the call's and is copied. */
void gs_preempt_refused(struct gs_preempt *preempt, struct gs_str body,
                        const struct gs_filter_note *note);
/** POST /preempt: victims that kube-scheduler has chosen for what it sees itself, node by node. The
 *  answer keeps those nodes on which the pod fits without them, with the pods more that have to
 *  leave for its cards; none at all while victims are asked for this pod from here.
 *  Source: extender/v1, ExtenderPreemptionArgs and ExtenderPreemptionResult.
 *  @ret     JSON from malloc(). 0; -EINVAL not understood; -ENOMEM. */
GS_WUR int gs_preempt_answer(struct gs_preempt *preempt, struct gs_str body, struct gs_arena *arena,
                             char **ret, size_t *ret_n, struct gs_err *err);
/** A pod was seen as it is now, or is gone: it may be one that waits. */
void gs_preempt_saw_pod(struct gs_preempt *preempt, const struct gs_kube_pod *pod);
void gs_preempt_pod_gone(struct gs_preempt *preempt, struct gs_str uid);

struct gs_preempt_stats {
    uint64_t plans, helpless;          /**< made; ended with nobody whose leaving would help */
    uint64_t evicted, refused, failed; /**< pods; by a budget; for other reasons */
    uint64_t lost;                     /**< pods that were not bound where room was made */
    size_t waiting;                    /**< pods for which something is under way */
};
void gs_preempt_stats(const struct gs_preempt *preempt, struct gs_preempt_stats *ret);
