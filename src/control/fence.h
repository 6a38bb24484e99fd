#pragma once
/* Making sure that a Binding which was sent, and whose end nobody knows, cannot come to pass.
 *
 * What an API server was asked it may do at any time later: a deadline counts from when it reads
 * the request, and bytes wait in a socket for as long as its machine is busy, whatever became of
 * the one who sent them. So time proves nothing. But each Binding names the resourceVersion of its
 * pod: once the pod was written to and had no node then, that Binding fails for ever. So the
 * annotation GS_NAME_FENCE is written.
 *
 * Who begins to lead does not know what the one before has sent, nor does a process that was just
 * started. But a pod says by itself whether a Binding may name it as it is: one that was never
 * refused and never fenced is open, any other is closed until it is written to with
 * GS_NAME_FENCE_OPEN. Nobody sends a Binding that names a closed version, so that those that wait
 * for room, as many as they are, cost a new leader nothing. It writes to the open ones that ask for
 * devices, and begins when the watch has shown each of them closed, bound, or gone: then it knows
 * of all that was given, and nothing can be added by another. Pods that come later are nobody
 * else's.
 *
 * Who opens a pod, or has read one, asks the API server who leads before it sends the Binding
 * (control/bind.h): where the answer was still "you", whoever leads next lists the pod after that,
 * as it was then or later, and closes it.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "control/books.h"
#include "control/filter.h"
#include "core/cleanup.h"
#include "kube/client.h"

struct gs_fence;
struct gs_kube_pod;

struct gs_fence_opt {
    const struct gs_filter_conf *filter; /**< outlives this */
    uint32_t sure_ms; /**< for pods that may not be written to: a Binding of them is taken for
                           ended so long after the beginning; 0: 30,000 */
    void (*done)(void *arg); /**< gs_fence_begin() is through; from the loop. NULL: nobody asks */
    void *arg;
};

/** `client` and `books` outlive it. 0 or -ENOMEM. */
GS_WUR int gs_fence_new(struct gs_kube_client *client, struct gs_books *books,
                        const struct gs_fence_opt *opt, struct gs_fence **ret);
/** Accepts NULL. Before the client. */
struct gs_fence *gs_fence_free(struct gs_fence *fence);

/** A pod as it is now, after the books have heard of it; one that is gone. Always, whoever leads.
 */
void gs_fence_saw_pod(struct gs_fence *fence, const struct gs_kube_pod *pod);
void gs_fence_pod_gone(struct gs_fence *fence, struct gs_str uid);

/** Everything was listed: close all that are open now. Replaces one under way. */
void gs_fence_begin(struct gs_fence *fence);
/** Another leads. */
void gs_fence_stop(struct gs_fence *fence);

/** A write to one pod. */
struct gs_fence_pod {
    struct gs_str ns, name, uid;
};
struct gs_fence_write {
    struct gs_fence_pod pod; /**< only while this is its UID */
    bool opens;              /**< else it closes */
    uint32_t timeout_ms;     /**< 0: the client's */
};
/** The answer is the pod. 0 or negative, as gs_kube_client_send(). */
GS_WUR int gs_fence_write(struct gs_fence *fence, const struct gs_fence_write *what, gs_kube_fn *fn,
                          void *arg, uint64_t *ret_ticket);
struct gs_fence_stats {
    uint64_t closed, opened; /**< writes so far */
    uint64_t refused;        /**< pods that could not be closed */
    size_t open;             /**< pods that ask for devices and may be being bound */
    size_t left;             /**< of these: to be closed before this replica leads */
};
void gs_fence_stats(const struct gs_fence *fence, struct gs_fence_stats *ret);
