#pragma once
/* HAMi's node lock: one annotation on a node, taken by a scheduler for one pod, given back by the
 * node's plugin when that pod has been served. Needed where a plugin finds its pod by the lock.
 *
 * hami.io/mutex.lock names its pod: "<RFC3339>,<namespace>,<pod>", or holds a bare time (HAMi's
 * older form), which is nobody's after the timeout. Any other key (Cambricon's) holds a bare time,
 * which is nobody's after two minutes. A bare time that is further ahead of our clock than that is
 * nobody's either; a nearer one, and an owner's, is believed for no longer than the timeout by our
 * own count.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/client.h"

enum gs_lock_state {
    GS_LOCK_FREE,    /**< no annotation */
    GS_LOCK_OURS,    /**< this pod has it */
    GS_LOCK_EXPIRED, /**< older than the timeout: anybody's */
    GS_LOCK_HELD,    /**< another pod has it */
    GS_LOCK_BAD,     /**< not understood: nobody touches it before it is repaired */
};

struct gs_lock_view {
    enum gs_lock_state state;
    struct gs_str owner_ns, owner_pod; /**< of the form with an owner; empty: a time alone */
    size_t parts;                      /**< 0: no lock */
};

/** What a lock's value means to a pod. Pure. */
struct gs_lock_view gs_lock_look(const struct gs_str *value, struct gs_str ns, struct gs_str pod,
                                 int64_t now_us, int64_t timeout_us);

struct gs_lock_want {
    struct gs_str node, ns, pod;
    struct gs_str key;  /**< annotation; empty: hami.io/mutex.lock */
    int64_t timeout_ms; /**< a lock older than this is nobody's; other keys: two minutes */
    /** To take: a value that the caller has seen unchanged for seen_ms, by its own clock: clocks of
     *  machines differ, and an owner that needs its lock no more is told by that. To give back a
     *  bare time: the value that was written. Empty: nothing is known. */
    struct gs_str seen;
    int64_t seen_ms;
    struct gs_str
        version; /**< of the node as it was last seen, with the lock free: saves the GET */
};

struct gs_lock_op;
/** rc 0: held, `value` is what the annotation says; -EBUSY: another pod has it (err says which; try
 *  again when the node changes); other: of the API. From the loop, once. */
typedef void gs_lock_fn(void *arg, int rc, struct gs_str value, const struct gs_err *err);

/** One try to take it: a GET and a PATCH with the version read (or the PATCH alone, where a version
 *  is given). It is taken over where it has expired; where its pod is gone or over; where its pod
 *  is bound elsewhere, or has been served (bind-phase), and the lock stood so for ten seconds; and
 *  where its pod was not bound for 20: its scheduler ended between lock and Binding. A8.1: any
 * other live owner's is contention. Text is copied. */
GS_WUR int gs_lock_take(struct gs_kube_client *client, const struct gs_lock_want *want,
                        gs_lock_fn *fn, void *arg, struct gs_lock_op **ret, struct gs_err *err);
/** Give it back if it is this pod's (or, as HAMi does, a legacy one that names nobody). rc 0: it is
 *  not there, or somebody else's. */
GS_WUR int gs_lock_give(struct gs_kube_client *client, const struct gs_lock_want *want,
                        gs_lock_fn *fn, void *arg, struct gs_lock_op **ret, struct gs_err *err);
/** The callback will not come. Accepts NULL. */
struct gs_lock_op *gs_lock_cancel(struct gs_lock_op *op);
