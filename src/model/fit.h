#pragma once
/* Choosing devices of one vendor on one node for one container: the walk that most vendors share,
 * with their exceptions as questions. HAMi's order of checks; spec of the checks in
 * docs/scheduler.md. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/cleanup.h"
#include "model/device.h"
#include "model/pod.h"
#include "model/reason.h"
#include "model/request.h"

struct gs_policy;
struct gs_quota;

/** One device given to one container. */
struct gs_pick {
    uint32_t dev; /**< index into gs_node.dev */
    int32_t mem_mib, cores;
    int32_t place_start, place_size; /**< MIG; size 0: none */
    struct gs_str profile;           /**< MIG profile, vNPU template; empty: none */
};

/** What the whole pod has been given so far (this node, this attempt), all vendors, in order. */
struct gs_taken {
    const struct gs_policy *policy;
    size_t container;
    struct gs_pick pick;
};

enum gs_device_order {
    GS_ORDER_BINPACK = 1,
    GS_ORDER_SPREAD,
    GS_ORDER_NUMA,
};

/** How devices are to be ordered: hami.io/gpu-scheduler-policy, else the daemon's flag. */
struct gs_device_policy {
    enum gs_device_order chain[4];
    size_t n_chain;
    bool is_chain;    /**< a list was given: tie by index; else HAMi's single-policy rules */
    bool is_mutex;    /**< only devices that nobody uses */
    bool is_topology; /**< topology-aware: look at all that fit */
    double w_slot, w_core, w_mem; /**< hami.io/device-scoring-weights; 1 each by default */
};

struct gs_fit {
    const struct gs_pod *pod;
    size_t container;
    const struct gs_request *request;
    const struct gs_node *node;
    const struct gs_group *group; /**< of this vendor on the node */
    struct gs_use *use;    /**< [node->n_dev] with what this pod took so far; a scratch copy */
    const uint32_t *order; /**< [group->n] indexes into node->dev, worst first: walk from the end */
    const struct gs_device_policy *policy;
    bool is_numa_bound;           /**< the vendor's numa-bind annotation holds */
    const struct gs_taken *taken; /**< by earlier containers of the pod */
    size_t n_taken;
    const struct gs_quota *quota; /**< of the namespace; NULL: none */
    struct gs_arena *arena;       /**< for scratch */
    struct gs_reasons *reasons;
};

/** Exceptions of a vendor to the shared walk. NULL members: the usual rule. */
struct gs_fit_rules {
    /** May this device serve this pod at all? GS_REASON_COUNT: yes. Asked after the health check;
     *  the usual rule is use/nouse type (gs_select_type). */
    enum gs_reason (*type)(const struct gs_policy *p, const struct gs_fit *fit,
                           const struct gs_device *dev);
    /** MiB and cores that a pick on this device takes. The usual: memory or floor(total * pct /
     * 100), cores clamped to 100. */
    enum gs_reason (*amounts)(const struct gs_policy *p, const struct gs_fit *fit,
                              const struct gs_device *dev, struct gs_pick *pick);
    /** Last question; may refine the pick (MIG placement). */
    enum gs_reason (*last)(const struct gs_policy *p, const struct gs_fit *fit,
                           const struct gs_device *dev, const struct gs_pick *so_far, size_t n,
                           struct gs_pick *pick);
    /** Cut the collected picks down to the request. Where set the walk collects all that fit and
     *  then calls this. Returns the number kept, or -ENOSPC (fit->reasons filled). */
    int (*choose)(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                  size_t n);
    /** May one container take this device several times (a card in MIG mode beside whole ones on
     *  the same node)? The walk then stays on it until a question says no. NULL: never. */
    bool (*takes_again)(const struct gs_device *dev);
    bool checks_quota;
};

/** Walk the order from its end, ask in HAMi's order, take what serves.
 *  Returns  number of picks (= request->nums); -ENOSPC with fit->reasons filled; -ENOMEM.
 *  Threads  pure. */
GS_WUR int gs_fit_walk(const struct gs_policy *policy, const struct gs_fit_rules *rules,
                       struct gs_fit *fit, struct gs_pick *ret_pick);
