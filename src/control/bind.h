#pragma once
/* Binding pods to nodes: one write that carries the grant (or none of both happens), after HAMi's
 * node lock where the node's plugin needs it. Binds to one node that need the lock go one after the
 * other, in the order they came, and go on as soon as the lock is seen free.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "control/books.h"
#include "control/extender.h"
#include "control/filter.h"
#include "core/cleanup.h"
#include "kube/client.h"

struct gs_binder;

struct gs_binder_opt {
    const struct gs_filter_conf *filter; /**< outlives the binder */
    int64_t lock_timeout_ms;             /**< a lock older than this is nobody's */
    int64_t lock_retry_ms;               /**< how long a bind waits for one; 0: a single try */
    uint32_t post_ms;                    /**< deadline of the Binding; 0: 2,000 */
    bool patches_label; /**< the server drops a Binding's labels (before 1.35): one patch follows */
    /** Does this replica still lead? Asked right before the write. NULL: always. */
    bool (*leads)(void *arg);
    /** Annotations more to write for this pod on this node (a signature). NULL: none. 0 or
     * negative. */
    int (*seal)(void *arg, const struct gs_extender_binding *binding, struct gs_arena *arena,
                struct gs_pairs *annotations);
    void *arg;
};

/** `error` is empty where the pod is bound; else one sentence. From the loop, once, never before
 * the call returned. */
typedef void gs_binder_done(void *arg, const char *error);

GS_WUR int gs_binder_new(struct gs_kube_client *client, struct gs_books *books,
                         const struct gs_binder_opt *opt, struct gs_binder **ret);
/** Binds under way are forgotten, their callbacks not made. */
struct gs_binder *gs_binder_free(struct gs_binder *binder);

/** Bind as kube-scheduler asks. Without a reservation (lost, expired, never made) the pod is read
 *  and decided for this node now. Names that do not belong together change nothing.
 *  Returns 0, or negative: then `done` is not called. */
GS_WUR int gs_binder_bind(struct gs_binder *binder, const struct gs_extender_binding *binding,
                          gs_binder_done *done, void *arg, struct gs_err *err);
/** A node was seen, with its lock (empty: free): who waits for it may go on. */
void gs_binder_saw_node(struct gs_binder *binder, struct gs_str node, struct gs_str lock,
                        bool needs_lock);

struct gs_binder_stats {
    uint64_t bound, failed, redecided; /**< redecided: without a reservation of their own */
    size_t under_way, waiting;         /**< waiting for a node lock */
};
void gs_binder_stats(const struct gs_binder *binder, struct gs_binder_stats *ret);
