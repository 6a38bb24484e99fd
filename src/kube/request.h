#pragma once
/* What is asked of the API server, and how it ended: the words that requests (kube/client.h), their
 * URLs and their answers share. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/str.h"

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
    gs_kube_pdbs, gs_kube_core_events, gs_kube_namespaces, gs_kube_config_maps;

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
    bool did_nothing; /**< of an error: the server has not done it and will not. It said so (4xx),
                       *   or never got it */
    int status;       /**< HTTP status of the last try; 0: no answer */
    struct gs_str reason;    /**< of the Status object: "NotFound"; empty where there was none */
    struct gs_str message;   /**< of the Status object, or the first bytes of an answer in words */
    uint32_t retry_after_ms; /**< of the last answer; 0: not said */
    uint32_t tries;
    struct yyjson_val *root;  /**< the answer; NULL where it is no JSON */
    const struct gs_err *err; /**< one line for logs; never NULL; empty while rc is 0 */
};

typedef void gs_kube_fn(void *arg, const struct gs_kube_result *result);
