#pragma once
/* Which cards, how much of each: from options, cards and the promises made already. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "contract/quota.h"
#include "core/cleanup.h"
#include "node/probe.h"

struct gs_err;
struct gs_slices;

/** Options as given; NULL where absent. */
struct gs_plan_request {
    const char *memory;
    const char *cores;
    const char *policy;
    const char *priority;
    const char *device;
    const char *visible; /**< value of the vendor's variable: which cards to choose from */
    bool oversubscribe;
};

struct gs_plan {
    uint32_t card[GS_PROBE_CARDS]; /**< positions in the probe, in the order of the request */
    size_t n_cards;
    bool all; /**< `--device all` */
    struct gs_quota quota;
};

/** Find what is wrong with the options on any machine: nothing is known of cards yet.
 *  Returns  0; -EINVAL.
 *  Threads  pure. */
GS_WUR int gs_plan_check(const struct gs_plan_request *request, struct gs_err *err);

/** Decide.
 *  Returns  0; -EINVAL an option that makes no sense; -ENODEV an unknown card; -ENOSPC more than
 * a card has left of memory or compute; err is one line that names the numbers and the way out.
 * Threads  pure. */
GS_WUR int gs_plan_make(const struct gs_plan_request *request, const struct gs_probe *probe,
                        const struct gs_slices *slices, struct gs_plan *ret_plan,
                        struct gs_err *err);
