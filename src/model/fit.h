#pragma once
/* Choosing devices of one vendor on one node for one container: the walk that most vendors share,
 * with their exceptions as questions. The checks, in HAMi's order, are listed at gs_fit_walk(). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "core/cleanup.h"
#include "model/device.h"
#include "model/pod.h"
#include "model/reason.h"
#include "model/request.h"
#include "model/select.h"

struct gs_policy;
struct gs_ns_quota;

/** What the whole pod has been given so far (this node, this attempt), all vendors, in order. */
struct gs_taken {
    const struct gs_policy *policy;
    size_t container;
    bool is_gone; /**< of an init container that has ended before the later ones start: not beside
                     them on the card, though it counts for the pod's quota and its grant */
    struct gs_pick pick;
};

/** What one pod asks of one vendor beside its requests: read once per pod, used for every node. */
struct gs_wish {
    struct gs_selection select;
    bool is_numa_bound; /**< keys.numa_bind is true */
    bool is_link_bound; /**< keys.link_bind is true */
    uint32_t tag;       /**< ops->tag() of the pod */
    const void *own;    /**< of ops->wish(): annotations only this vendor reads; NULL: none */
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
    const struct gs_wish *wish;
    const struct gs_taken *taken; /**< by earlier containers of the pod, of every vendor */
    size_t n_taken;
    const struct gs_ns_quota *quota; /**< of the namespace; NULL: none */
    struct gs_arena *arena;          /**< for scratch */
    struct gs_reasons *reasons;
};

/** Exceptions of a vendor to the shared walk. NULL members: the usual rule. */
struct gs_fit_rules {
    /** May this device serve this pod at all? GS_REASON_COUNT: yes. Asked after the health check;
     *  the usual rule is gs_select_takes_type(&fit->wish->select, dev->type). */
    enum gs_reason (*type)(const struct gs_policy *p, const struct gs_fit *fit,
                           const struct gs_device *dev);
    /** MiB and cores that a pick on this device takes. The usual: memory or floor(total * pct /
     *  100), cores clamped to 100. */
    enum gs_reason (*amounts)(const struct gs_policy *p, const struct gs_fit *fit,
                              const struct gs_device *dev, struct gs_pick *pick);
    /** Last question; may refine the pick (MIG placement). */
    enum gs_reason (*last)(const struct gs_policy *p, const struct gs_fit *fit,
                           const struct gs_device *dev, const struct gs_pick *so_far, size_t n,
                           struct gs_pick *pick);
    /** Cores of the device as this pod counts them. The usual: dev->cores (Ascend: 100 for a soft
     *  split). */
    int32_t (*cores)(const struct gs_policy *p, const struct gs_fit *fit,
                     const struct gs_device *dev);
    /** Cut the collected picks down to the request. Where set, the walk collects all that fit
     *  (where `collects` is NULL or says so) and calls this when there are at least
     *  request->nums. Returns the number kept (moved to the front), or -ENOSPC (fit->reasons
     *  filled). */
    int (*choose)(const struct gs_policy *p, const struct gs_fit *fit, struct gs_pick *pick,
                  size_t n);
    bool (*collects)(const struct gs_policy *p, const struct gs_fit *fit);
    /** May one container take this device several times (MIG)? The walk stays on it until some
     *  check refuses, and a request for more cards than the node has is not refused for its
     *  number. NULL: never. */
    bool (*repeats)(const struct gs_policy *p, const struct gs_fit *fit,
                    const struct gs_device *dev);
    bool checks_quota;
};

/** Most picks of one device by one container: MIG has 7 instances. */
#define GS_FIT_REPEATS_MAX 16

/** Walk the order from its end, ask in HAMi's order, take what serves: health (a closed device
 *  counts as unhealthy), cordon, type, NUMA run, UUID, shares, mutex, amounts, quota, memory,
 *  cores, exclusive, cores exhausted, last.
 *  Returns  number of picks (= request->nums); -ENOSPC with fit->reasons filled; -ENOMEM.
 *  Threads  pure. */
GS_WUR int gs_fit_walk(const struct gs_policy *policy, const struct gs_fit_rules *rules,
                       struct gs_fit *fit, struct gs_pick *ret_pick);
/** The first questions of vendors that choose in their own way: is the device (index into
 *  gs_node.dev) open, and its UUID not excluded by the pod? GS_REASON_COUNT: yes. */
enum gs_reason gs_fit_ask(const struct gs_fit *fit, uint32_t dev);
/** Memory that the request takes of this device by the usual rule; 0 where it names none. */
int32_t gs_fit_mem(const struct gs_request *request, const struct gs_device *dev);
