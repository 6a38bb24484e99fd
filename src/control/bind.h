#pragma once
/* Binding pods to nodes: one write that carries the grant (or neither happens), after HAMi's
 * node lock where the node's plugin needs it. Binds to one node that need the lock go one after the
 * other, in the order they came, and go on as soon as the lock is seen free.
 *
 * The Binding names the pod's resourceVersion: it fails where the pod has changed since, and is
 * then written anew for the pod as it is. A pod that is closed (control/fence.h) is opened first;
 * and where the version is not the one that the filter was asked with, the API server is asked who
 * leads after it was read. While a Binding is on its way, and until it is known how
 * it ended, the reservation is pinned: the cards stay taken whatever else is asked about the pod.
 * Where the answer is lost the pod is read, and where it has no node it is written to
 * (control/fence.h), so that the Binding cannot come to pass any more.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "control/books.h"
#include "control/extender.h"
#include "control/filter.h"
#include "control/leader.h"
#include "core/cleanup.h"
#include "kube/client.h"

struct gs_binder;
struct gs_fence;
struct gs_kube_pod;

struct gs_binder_opt {
    const struct gs_filter_conf *filter; /**< outlives the binder */
    int64_t lock_timeout_ms;             /**< a lock older than this is nobody's */
    int64_t lock_retry_ms;               /**< how long a bind waits for one; 0: a single try */
    uint32_t post_ms;                    /**< deadline of the Binding; 0: 2,000 */
    struct gs_fence *fence;              /**< outlives the binder */
    /** Asked when a bind comes and right before its write. NULL: always yes. */
    enum gs_leader_state (*leads)(void *arg);
    /** The request that asks the server who leads, and whether its answer says that we did. NULL,
     *  or `ask` says false: nobody else could. */
    bool (*ask)(void *arg, struct gs_kube_req *ret);
    bool (*proves)(void *arg, const struct gs_kube_result *result);
    /** Annotations more to write for this pod on this node (a signature). NULL: none. 0 or
     *  negative. */
    int (*seal)(void *arg, const struct gs_extender_binding *binding, struct gs_arena *arena,
                struct gs_pairs *annotations);
    void *arg;
};

/** `error` is empty where the pod is bound; else one sentence. From the loop, once, never before
 *  the call returned. */
typedef void gs_binder_done(void *arg, const char *error);

GS_WUR int gs_binder_new(struct gs_kube_client *client, struct gs_books *books,
                         const struct gs_binder_opt *opt, struct gs_binder **ret);
/** Binds under way are forgotten, their callbacks not made. Before the client goes. */
struct gs_binder *gs_binder_free(struct gs_binder *binder);

/** Bind as kube-scheduler asks. Without a reservation (lost, expired, never made) the pod is read
 *  and decided for this node now. Names that do not belong together change nothing, nor does a node
 *  that the filter did not choose (but for leaves_node_choice). Whose scheduler the pod names is
 * not looked at: one kube-scheduler with several profiles calls one extender for all of them, as
 * with HAMi. A second bind of a pod ends the first where that has not written yet, and is refused
 * where it has.
 *  Returns 0, or negative: then `done` is not called. */
GS_WUR int gs_binder_bind(struct gs_binder *binder, const struct gs_extender_binding *binding,
                          gs_binder_done *done, void *arg, struct gs_err *err);
/** leads() says yes now: binds that waited for that go on, decided anew. */
void gs_binder_go(struct gs_binder *binder);

/** A node was seen, in this resourceVersion: who waits for its lock may go on. */
void gs_binder_saw_node(struct gs_binder *binder, const struct gs_node_view *node,
                        struct gs_str version);
void gs_binder_node_gone(struct gs_binder *binder, struct gs_str node);
/** A pod of a reservation was seen bound: before the books hear of it. Gives it the label that API
 *  servers before 1.35 drop from a Binding. */
void gs_binder_saw_bound(struct gs_binder *binder, const struct gs_kube_pod *pod);
/** A pod is gone: a lock that it still holds is given back. */
void gs_binder_pod_gone(struct gs_binder *binder, struct gs_str ns, struct gs_str pod);

struct gs_binder_stats {
    uint64_t bound, failed, redecided; /**< redecided: without a reservation of their own */
    uint64_t superseded;               /**< ended by a second bind of their pod; also failed */
    uint64_t unsure;                   /**< answers of a Binding that were lost */
    uint64_t rewritten;                /**< Bindings that came too late for a change of their pod */
    uint64_t locks, swept;             /**< taken; given back for pods that are gone */
    size_t under_way, waiting;         /**< waiting for a node lock */
};
void gs_binder_stats(const struct gs_binder *binder, struct gs_binder_stats *ret);
