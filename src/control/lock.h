#pragma once
/* HAMi's node lock: one annotation on a node, taken by a scheduler for one pod, given back by the
 * node's plugin when that pod has been served. Needed where a plugin finds its pod by the lock. */

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
    struct gs_str owner_ns, owner_pod; /**< of HELD; empty in the legacy form (a time alone) */
    size_t parts;                      /**< of a BAD value */
};

/** What a lock's value means to a pod. Pure. */
struct gs_lock_view gs_lock_look(const struct gs_str *value, struct gs_str ns, struct gs_str pod,
                                 int64_t now_us, int64_t timeout_us);

struct gs_lock_want {
    struct gs_str node, ns, pod; /**< copied */
    int64_t timeout_ms;          /**< a lock older than this is nobody's */
};

struct gs_lock_op;
/** rc 0: held; -EBUSY: another pod has it (err says which; try again when the node changes); other:
 *  of the API. */
typedef void gs_lock_fn(void *arg, int rc, const struct gs_err *err);

/** One try to take it: a GET and a PATCH with the version read; where the owner's pod is gone or
 * the lock has expired it is taken over. The callback comes from the loop, once. */
GS_WUR int gs_lock_take(struct gs_kube_client *client, const struct gs_lock_want *want,
                        gs_lock_fn *fn, void *arg, struct gs_lock_op **ret, struct gs_err *err);
/** The callback will not come. */
struct gs_lock_op *gs_lock_cancel(struct gs_lock_op *op);
/** Give it back if it is this pod's; tried a few times, nobody is told. */
void gs_lock_release(struct gs_kube_client *client, struct gs_str node, struct gs_str ns,
                     struct gs_str pod);
