#pragma once
/* The cluster as the API server tells it, kept in the books: nodes and what they register, pods and
 * what they were given, quotas. Fed by watches: what changed is in the books within one event.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "control/books.h"
#include "core/cleanup.h"
#include "kube/client.h"

struct gs_kube_key;
struct gs_kube_node;
struct gs_kube_pod;
struct gs_registry;

struct gs_registry_opt {
    struct gs_str node_selector; /**< label selector of the nodes looked at; empty: all */
    /** May this pod's grant be believed? NULL: every one. */
    bool (*trusts)(void *arg, const struct gs_kube_pod *pod);
    /** Of a pod that is trusted: does this annotation of a grant count? NULL: all do. */
    bool (*counts)(void *arg, const struct gs_kube_pod *pod, struct gs_str key);
    /** A node as it was just read, for those who answer it (handshakes). NULL: nobody asks. */
    void (*node)(void *arg, const struct gs_kube_node *node, const struct gs_node_view *view);
    void (*node_gone)(void *arg, struct gs_str name);
    /** A reserved pod has a node by now: called before the books hear of it. */
    void (*bound)(void *arg, const struct gs_kube_pod *pod);
    /** Everything has been listed anew, as gs_registry_relist() asked. */
    void (*relisted)(void *arg);
    /** A pod as it is now, and one that is gone: the books know it. NULL: nobody asks. */
    void (*pod)(void *arg, const struct gs_kube_pod *pod);
    void (*pod_gone)(void *arg, const struct gs_kube_key *key);
    void *arg;
};

struct gs_registry_stats {
    bool is_synced;
    uint64_t node_events, pod_events, unreadable; /**< objects or annotations that cannot be read */
    uint64_t untrusted;                           /**< grants that were not believed */
    size_t untrusted_pods;                        /**< bound pods that run on such grants now */
    int64_t
        heard_ms; /**< loop time when the slowest of the watches last heard the server; -1 never */
    int64_t listed_ms; /**< loop time when the last complete list of pods began; -1 never */
};

/** Start watching. `books` and `client` outlive the registry. */
GS_WUR int gs_registry_new(struct gs_kube_client *client, struct gs_books *books,
                           const struct gs_registry_opt *opt, struct gs_registry **ret,
                           struct gs_err *err);
struct gs_registry *gs_registry_free(struct gs_registry *registry);
/** Everything has been listed once: before that the books do not know who holds what. */
bool gs_registry_is_synced(const struct gs_registry *registry);
void gs_registry_stats(const struct gs_registry *registry, struct gs_registry_stats *ret);
/** List the pods anew: for what the watch should have shown, and did not. */
void gs_registry_relist_pods(struct gs_registry *registry);
/** List everything anew: a new leader reads consistently before its first grant. */
void gs_registry_relist(struct gs_registry *registry);
