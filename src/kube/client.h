#pragma once
/* Requests to one API server: verbs, typed errors, retries.
 *
 * All calls and callbacks are on the loop's thread. A call copies what it needs and returns; its
 * callback comes later, exactly once, never before the call returned. Idempotent verbs (get, list,
 * put, merge patch, delete) are tried again after transport errors, 429,
 * 500, 502, 503 and 504 with jitter, until the deadline; other verbs only where the server said
 * that it did nothing (429, or 503 with Retry-After) or no connection was made. Retry-After is
 * obeyed. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"

struct gs_kube_client;
struct gs_kube_config;
struct gs_loop;
struct yyjson_val;

/** A kind of object. */
struct gs_kube_resource {
    const char *group; /**< "" for core */
    const char *version;
    const char *plural;
    const char *kind;
    bool is_namespaced;
};

extern const struct gs_kube_resource gs_kube_pods, gs_kube_nodes, gs_kube_quotas, gs_kube_leases,
    gs_kube_pdbs, gs_kube_priority_classes, gs_kube_core_events, gs_kube_events, gs_kube_namespaces,
    gs_kube_config_maps;

enum gs_kube_verb {
    GS_KUBE_GET,
    GS_KUBE_LIST, /**< one page; kube/list.h follows the pages */
    GS_KUBE_CREATE,
    GS_KUBE_UPDATE, /**< PUT */
    GS_KUBE_MERGE,  /**< PATCH application/merge-patch+json */
    GS_KUBE_PATCH,  /**< PATCH application/json-patch+json */
    GS_KUBE_DELETE,
    GS_KUBE_VERB_COUNT,
};

struct gs_kube_req {
    enum gs_kube_verb verb;
    const struct gs_kube_resource *resource; /**< or NULL: `path` */
    const char *path;                        /**< "/version"; only without a resource */
    struct gs_str ns, name;  /**< ns empty: all namespaces (list), or not namespaced */
    const char *subresource; /**< "binding", "eviction", "status"; NULL: none */
    struct gs_str label_selector, field_selector;
    struct gs_str resource_version, resource_version_match;
    struct gs_str page;  /**< continue token */
    uint32_t limit;      /**< 0: no paging */
    struct gs_str body;  /**< JSON; copied */
    uint32_t timeout_ms; /**< for all tries together; 0: the client's */
    uint32_t try_ms;     /**< for one try; 0: the client's */
    uint32_t server_s;   /**< the server gives up on its side after so long; 0: by its own rule */
    bool
        is_idempotent; /**< repeat like a get although the verb is none (a patch to fixed values) */
    bool is_single_try; /**< never repeat, for callers with a loop of their own */
};

/** How a request ended. Everything is borrowed for the callback. */
struct gs_kube_result {
    int rc; /**< 0, or: -ENOENT 404; -EEXIST 409 AlreadyExists; -EBUSY 409 Conflict; -ESTALE 410;
                 -EACCES 401; -EPERM 403; -EINVAL 400 and 422; -EAGAIN 429 and 503; -ETIMEDOUT;
                 -EIO 5xx; -EBADMSG an answer that is no JSON; -EFBIG; what the transport said */
    int status;              /**< HTTP status of the last try; 0: no answer */
    struct gs_str reason;    /**< of the Status object: "NotFound"; empty where there was none */
    struct gs_str message;   /**< of the Status object, or the first bytes of an answer in words */
    uint32_t retry_after_ms; /**< of the last answer; 0: not said */
    uint32_t tries;
    struct yyjson_val *root;  /**< the answer; NULL where it is no JSON */
    const struct gs_err *err; /**< one line for logs; never NULL; empty while rc is 0 */
};

typedef void gs_kube_fn(void *arg, const struct gs_kube_result *result);

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
/** For GS_CLEANUP. */
void gs_kube_client_free_p(struct gs_kube_client **client);

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
 *  (-EBUSY) where the pod's UID is another or it has a node already. */
struct gs_kube_binding {
    struct gs_str ns, pod, uid, node;
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
/** Namespace of the configuration. */
struct gs_str gs_kube_client_ns(const struct gs_kube_client *client);
