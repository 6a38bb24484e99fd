#pragma once
/* What a pod asks, of every vendor: read once per pod, used for every node. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "model/fit.h"
#include "model/ns_quota.h"
#include "model/policy.h"
#include "model/request.h"

/** One container's request to one vendor. */
struct gs_ask_line {
    uint32_t container, policy; /**< indexes into the pod and the table of policies */
    struct gs_request request;  /**< nums > 0 */
};

/** What a pod asks of one vendor, all containers together. */
struct gs_ask_vendor {
    const struct gs_policy *policy;
    struct gs_str word;     /**< policy->word */
    struct gs_request most; /**< of its lines the one with most memory: for gs_place_may() */
    struct gs_wish wish;
    uint32_t policy_index;
};

/** What a pod asks, read once and used for every node.
 *  Threads  one at a time. */
struct gs_ask {
    const struct gs_pod *pod;
    const struct gs_policies *policies;
    struct gs_ask_line *line;     /**< in the order of containers, then of the table */
    size_t n_lines;               /**< 0: the pod asks for nothing of ours */
    struct gs_ask_vendor *vendor; /**< those asked for, in the order of the table */
    size_t n_vendors;
    struct gs_device_policy device_policy;
    bool is_node_spread; /**< hami.io/node-scheduler-policy */
    bool has_scores;     /**< a vendor adds to node scores: they are known only after placing */
    const struct gs_ns_quota *quota;
};

struct gs_ask_flags {
    struct gs_str device_policy, node_policy; /**< of the daemon: "spread", "binpack" */
    const struct gs_ns_quota *quota;
};

/** Does a container name an amount that no vendor's request can be made of (beyond int32, a
 *  fraction, a part of a card without a card, cores that the vendor refuses)? HAMi drops such a
 *  request and lets the pod go on without a card. A count of 0 is no request at all.
 *  Returns  0, or -EINVAL with a text for the user.
 *  Threads  pure. */
GS_WUR int gs_ask_check(const struct gs_pod *pod, const struct gs_policies *policies,
                        struct gs_err *err);
/** Read a pod. Annotations beat the daemon's flags; the quota is that of the pod's namespace
 *  without the pod itself, NULL: none.
 *  Returns  0, -EINVAL (err: bad weights, as gs_ask_check(), or no room for a grant in the
 *           annotations), -ENOMEM.
 *  Owner    everything in the arena; the pod, the policies and the quota are borrowed. */
GS_WUR int gs_ask_read(const struct gs_pod *pod, const struct gs_policies *policies,
                       const struct gs_ask_flags *flags, struct gs_arena *arena, struct gs_ask *ret,
                       struct gs_err *err);
/** Is the policy over nodes known? Another counts as binpack, as in HAMi. */
bool gs_ask_knows_node_policy(struct gs_str text);
/** An annotation of the pod that names a policy which is not known, and the first such word of it.
 *  False: there is none. */
bool gs_ask_unknown_policy(const struct gs_pod *pod, struct gs_str *ret_key,
                           struct gs_str *ret_word);
/** Read what a pod's annotations say to one vendor: part of gs_ask_read(). 0 or -ENOMEM. */
GS_WUR int gs_ask_wish(const struct gs_pod *pod, const struct gs_policy *policy,
                       struct gs_arena *arena, struct gs_wish *ret);
/** Does any container ask for this vendor? */
bool gs_ask_wants(const struct gs_ask *ask, const struct gs_policy *policy);
