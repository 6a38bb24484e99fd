#pragma once
/* Requests to one API server: verbs, typed errors, retries.
 *
 * All calls and callbacks are on the loop's thread. A call copies what it needs and returns; its
 * callback comes later, exactly once, never before the call returned. Idempotent verbs (get, list,
 * put, merge patch, delete) are tried again after transport errors, 429, 500, 502, 503 and 504,
 * with jitter, until the deadline; other verbs only where the server said that it did nothing (429,
 * or 503 with Retry-After) or no connection was made: they are on no wire twice. Retry-After is
 * obeyed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/request.h"

struct gs_kube_client;
struct gs_kube_config;
struct gs_loop;

struct gs_kube_client_opt {
    const char *user_agent; /**< NULL: "gpuslice" */
    uint32_t timeout_ms;    /**< 0: 30,000 */
    uint32_t try_ms;        /**< 0: 10,000 */
    uint32_t max_in_flight; /**< more wait their turn; 0: 64 */
    size_t max_body;        /**< 0: 64 MiB */
    uint64_t seed;          /**< of the jitter; 0: random */
};

struct gs_kube_client_stats {
    uint64_t requests, answers, retries, throttled; /**< tries sent; answered; repeated; 429 seen */
    uint64_t errors;                                /**< requests that ended with rc != 0 */
    uint32_t in_flight, waiting;
};

/** @config_take  handed over on success (the caller's is zeroed then).
 *  @opt     NULL: all by default.
 *  Owner    caller; release with gs_kube_client_free(): outstanding callbacks are not called.
 *           Not from inside one. */
GS_WUR int gs_kube_client_new(struct gs_kube_config *config_take, struct gs_loop *loop,
                              const struct gs_kube_client_opt *opt,
                              struct gs_kube_client **ret_client, struct gs_err *err);
struct gs_kube_client *gs_kube_client_free(struct gs_kube_client *client);

/** Send any request.
 *  @ret_ticket  for gs_kube_client_cancel(); may be NULL.
 *  Returns  0; -EINVAL not a valid request (name missing or with a slash, ...); -ENOMEM. Then fn is
 *           not called. */
GS_WUR int gs_kube_client_send(struct gs_kube_client *client, const struct gs_kube_req *req,
                               gs_kube_fn *fn, void *arg, uint64_t *ret_ticket, struct gs_err *err);
/** fn will not be called. What was sent may still have its effect. Unknown tickets are ignored. */
void gs_kube_client_cancel(struct gs_kube_client *client, uint64_t ticket);

/** Bytes of a 2xx answer as they come. False: end the call with -ECANCELED. */
typedef bool gs_kube_chunk_fn(void *arg, const char *bytes, size_t n);

/** As gs_kube_client_send(), but the body of a 2xx answer goes to `chunk` and the call may last as
 *  long as it likes: timeout_ms 0 means none. One try, and it does not count as in flight. For
 *  watches and logs.
 *  @query   more of the query string, for instance "watch=1&allowWatchBookmarks=true"; or NULL.
 *  @idle_ms end with -ETIMEDOUT after so long a silence; 0: never. */
struct gs_kube_stream {
    const char *query;
    uint32_t idle_ms;
    gs_kube_chunk_fn *chunk;
    gs_kube_fn *done;
};
GS_WUR int gs_kube_client_stream(struct gs_kube_client *client, const struct gs_kube_req *req,
                                 const struct gs_kube_stream *stream, void *arg,
                                 uint64_t *ret_ticket, struct gs_err *err);

/** Bind a pod: one write gives it the node, the annotations and (from 1.35 on) the labels; refused
 *  (-EBUSY) where the pod's UID or resourceVersion is another, or it has a node already.
 *  But -EBUSY does not say that nothing was or will be written: the API server calls every error of
 *  its store a conflict, one whose end it does not know, too. Only the pod can tell.
 *  Source: Kubernetes 1.36, pkg/registry/core/pod/storage/storage.go, assignPod. */
struct gs_kube_binding {
    struct gs_str ns, pod, uid, node;
    struct gs_str version; /**< empty: whichever it is */
    const struct gs_str *annotation_key, *annotation_value;
    size_t n_annotations;
    const struct gs_str *label_key, *label_value;
    size_t n_labels;
    uint32_t timeout_ms; /**< 0: the client's */
};
GS_WUR int gs_kube_client_bind(struct gs_kube_client *client, const struct gs_kube_binding *binding,
                               gs_kube_fn *fn, void *arg, uint64_t *ret_ticket, struct gs_err *err);

/** An object that is to go. */
struct gs_kube_end {
    struct gs_str ns, name;
    struct gs_str uid; /**< refused (-EBUSY) where it is another by now; empty: whichever it is */
    bool has_grace;    /**< else the object's own */
    int64_t grace_s;
};
/** Evict a pod (policy/v1). -EAGAIN with status 429: a disruption budget does not allow it now;
 *  never repeated by itself. */
GS_WUR int gs_kube_client_evict(struct gs_kube_client *client, const struct gs_kube_end *end,
                                gs_kube_fn *fn, void *arg, struct gs_err *err);
GS_WUR int gs_kube_client_delete(struct gs_kube_client *client,
                                 const struct gs_kube_resource *resource,
                                 const struct gs_kube_end *end, gs_kube_fn *fn, void *arg,
                                 struct gs_err *err);

void gs_kube_client_stats(const struct gs_kube_client *client, struct gs_kube_client_stats *ret);
struct gs_loop *gs_kube_client_loop(const struct gs_kube_client *client);
/** A number of the client's random sequence, 0 .. below-1: jitter for those above. */
uint32_t gs_kube_client_jitter(struct gs_kube_client *client, uint32_t below);
