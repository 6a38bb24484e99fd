#pragma once
/* PodDisruptionBudgets as the API server has them, and the guests of a node that are under them. */

#include <stdbool.h>

#include "base/err.h"
#include "control/preempt_plan.h"
#include "core/cleanup.h"
#include "kube/client.h"

struct gs_budgets;

/** Starts to watch. `client` outlives it. */
GS_WUR int gs_budgets_new(struct gs_kube_client *client, struct gs_budgets **ret,
                          struct gs_err *err);
struct gs_budgets *gs_budgets_free(struct gs_budgets *budgets);
/** All have been listed once. */
bool gs_budgets_are_synced(const struct gs_budgets *budgets);
/** Which guest is under which budget. A pod under two or more cannot be evicted at all (the API
 *  server refuses): it is under one more, which allows nothing. *ret in the arena. 0 or -ENOMEM. */
GS_WUR int gs_budgets_of(const struct gs_budgets *budgets, const struct gs_books_guests *guests,
                         struct gs_arena *arena, struct gs_preempt_budgets *ret);
