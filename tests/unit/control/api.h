#pragma once
/* An API server in a few lines, for the binder and its locks: nodes and pods with the fields these
 * look at, resourceVersions that must match, Bindings that count once. Behind kube/client.h, in
 * virtual time (tests/unit/kube/fake_http.h). */

#include "../kube/fake_http.h"
#include "control/bind.h"
#include "control/fence.h"

struct api_node {
    char name[64], identity[32];
    char lock[2][160]; /**< hami.io/mutex.lock, cambricon.com/dsmlu.lock; empty: none */
    unsigned version;
    bool is_there;
};

struct api_pod {
    char ns[32], name[64], uid[64], node[64], phase[16], bind_phase[16], bind_time[32];
    char grant[256], seal[128]; /**< of the Binding */
    bool is_there, has_label;
    bool is_mlu, is_gcu;
    bool asks_nothing;
    const char *limits;    /**< JSON; NULL: by the members above */
    const char *scheduler; /**< spec.schedulerName; NULL: none */
    int priority;
    unsigned n_nudges; /**< times it was told that room was seen */
    unsigned version;
    char fence[64];
    bool was_refused; /**< kube-scheduler gave it up before */
};

struct api {
    struct fake fake;
    struct gs_arena arena;
    struct gs_policies policies;
    struct gs_books *books;
    struct gs_filter_conf conf;
    struct gs_fence *fence;
    struct gs_binder *binder;
    struct api_node node[2];
    struct api_pod pod[128];
    unsigned n_gets, n_patches, n_bindings, n_labels, n_fences; /**< calls served */
    unsigned n_leases;                                          /**< times it was asked who leads */
    const char *holder;                                         /**< of the lease */
    bool has_late;                                              /**< a Binding that it got, */
    char late_pod[64], late[4096];                              /**< and that is not done yet */
    bool is_deaf; /**< the binder does not hear of changes: no watch */
    /** What to do to the next call of that method on that path (part of it): an answer in place of
     *  the server's (status), or with is_lost none at all, after it took effect. */
    const char *on_method, *on_path, *with_body;
    int with_status;
    bool is_lost, is_dropped; /**< dropped: no effect either; of a Binding: not yet */
    bool is_late;             /**< with_status is a lie: it will be done */
    bool no_fences;           /**< pods may not be written to */
    bool strips_fences;       /**< a webhook takes the annotation away */
    bool is_restless;         /**< a pod changes whenever it was read */
    bool hides_version;       /**< from the filter */
};

/** Time of the server and of all, at the start. */
#define API_NOW 1700000000

void api_new(struct api *api);
void api_free(struct api *api);
/** A binder on it; opt->filter is filled in. */
void api_binder(struct api *api, struct gs_binder_opt opt);
/** Node 0 is "n1", node 1 "n2": 8 cards of 10 shares, 16384 MiB, and some of Cambricon's and
 *  Enflame's. */
struct api_pod *api_pod(struct api *api, const char *name);
/** Let kube-scheduler ask for a place for the pod, on this node. */
void api_filter(struct api *api, const struct api_pod *pod, const char *node);
/** The same of several, as JSON: "\"n1\",\"n2\"". True: one of them was answered.
 *  @refused NULL: nobody hears. */
bool api_ask(struct api *api, const struct api_pod *pod, const char *nodes,
             void (*refused)(void *arg, const struct gs_filter_refusal *refusal), void *arg);

/** What was dropped is done now. False: refused. */
bool api_land(struct api *api);
/** Something about the pod changes. */
void api_change(struct api_pod *pod);
/** Serve until `ms` have passed. */
void api_serve(struct api *api, uint64_t ms);
/** Tell the binder what a node looks like now, as a watch would. */
void api_tell(struct api *api, const struct api_node *node);
/** A lock's value, stamped so long ago; without a namespace the form of a time alone. */
void api_lock_text(const struct api *api, int64_t age_s, const char *ns, const char *pod,
                   char text[160]);
