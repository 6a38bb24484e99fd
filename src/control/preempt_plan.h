#pragma once
/* Who would have to go for a pod to fit on a node: the cheapest set, by kube-scheduler's own order.
 * Pure: looks at what it is given, and tries gs_place() on what would be left. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "control/books.h"
#include "core/cleanup.h"
#include "model/place.h"

/** Guests that were asked to go, and are to be gone by now, are waited for so much longer. */
#define GS_PREEMPT_PLAN_PATIENCE_US INT64_C(60000000)

struct gs_preempt_question {
    const struct gs_ask *ask;
    int32_t priority; /**< of the pod that asks */
    int64_t now_us;   /**< Unix time */
};

/** Disruption budgets of the guests of one node. */
struct gs_preempt_budgets {
    const int32_t *allowed; /**< [n] disruptions that each allows now */
    size_t n;
    const uint32_t *const *of; /**< [guests] indexes of those that a guest is under */
    const size_t *n_of;        /**< [guests] */
};

/** What kube-scheduler compares, in this order: less is better, but a later start is.
 *  Source: Kubernetes 1.36, pkg/scheduler/framework/preemption, pickOneNodeForPreemption. */
struct gs_preempt_cost {
    uint32_t violations; /**< victims beyond what their budgets allow */
    int32_t highest;     /**< priority */
    int64_t sum;         /**< of (priority + 2^31): a victim more always counts */
    uint32_t n;
    int64_t start_us; /**< the earliest among those of the highest priority */
};

struct gs_preempt_plan {
    struct gs_preempt_cost cost;
    const uint32_t *victim; /**< [n] guests; those beyond their budgets first; n = 0: wait for
                               those that are going already */
    size_t n;
    struct gs_placement placement; /**< of the pod, on the node as it would be */
    size_t n_tries;                /**< of gs_place(), for metrics */
};

/** The cheapest set of guests of lower priority on one node without which the pod fits there. Exact
 *  where few guests come into question (up to some hundred tries); else no member of the set could
 *  stay, but another set might be cheaper. Guests that are going count as gone, holds of lower
 *  priority as nothing; reservations, leftovers and equals stay.
 *  @budgets NULL: there are none.
 *  Returns  0; -ENOSPC nothing helps; -ENOMEM.
 *  Owner    everything in the arena; borrows from the guests. */
GS_WUR int gs_preempt_plan_node(const struct gs_preempt_question *question,
                                const struct gs_books_guests *guests,
                                const struct gs_preempt_budgets *budgets, struct gs_arena *arena,
                                struct gs_preempt_plan *ret);
/** Is a cheaper than b? */
bool gs_preempt_plan_is_cheaper(const struct gs_preempt_cost *a, const struct gs_preempt_cost *b);
