#pragma once
/* The pods of one node and what each of their containers was granted, as the watch shows them.
 *
 * A grant is what the signed annotation says (cluster/sign.h); slots are those of the containers in
 * the pod's order, init containers first. HAMi's scheduler v2.10 leaves slots out where a
 * container without cards comes first: then the slots that are not empty are those of the
 * containers that ask for the resource, in order.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/client.h"
#include "kube/view.h"
#include "model/grant.h"
#include "model/pod.h"

struct gs_grants;
struct gs_sign;

struct gs_grants_container {
    struct gs_str name;
    struct gs_pairs
        env;   /**< of the variables asked for, those the container's spec gives as text */
    bool asks; /**< for the resource */
};

struct gs_grants_pod {
    struct gs_arena arena; /**< of everything here */
    struct gs_str uid, ns, name;
    struct gs_grants_container *container; /**< init containers first */
    size_t n_containers;
    bool has_grant;        /**< the annotation is there */
    bool is_trusted;       /**< and is signed, or needs no signature */
    struct gs_grant grant; /**< by slot; n == 0 where the text cannot be read */
    struct gs_grant left;  /**< to-allocate: what HAMi's protocol has not handed out yet */
    struct gs_str phase;   /**< bind-phase */
    int64_t bind_s;        /**< bind-time; 0: not said */
    bool is_over;          /**< succeeded or failed */
    bool is_pending;       /**< its containers have not all begun */
    uint64_t seen;         /**< counts the pods as they came */
};

struct gs_grants_opt {
    struct gs_str node;
    struct gs_str resource;               /**< the count resource */
    struct gs_str allocated, to_allocate; /**< annotations of the vendor */
    const char *const *env;               /**< variables worth keeping; ended by NULL */
    struct gs_sign *sign;                 /**< borrowed; NULL: every grant is believed */
    /** A pod is new or has changed. */
    void (*changed)(void *arg, const struct gs_grants_pod *pod);
    void (*gone)(void *arg, struct gs_str uid);
    /** The first list is complete. */
    void (*synced)(void *arg);
    void *arg;
};

/** Watch the node's pods. Texts of `opt` are borrowed. */
GS_WUR int gs_grants_new(struct gs_kube_client *client, const struct gs_grants_opt *opt,
                         struct gs_grants **ret, struct gs_err *err);
struct gs_grants *gs_grants_free(struct gs_grants *grants);

/** All pods that there are are known. */
bool gs_grants_is_synced(const struct gs_grants *grants);
size_t gs_grants_count(const struct gs_grants *grants);
/** NULL: not known. Valid until the pod changes. */
const struct gs_grants_pod *gs_grants_find(const struct gs_grants *grants, struct gs_str uid);
/** Walk, as gs_map_next(). */
const struct gs_grants_pod *gs_grants_next(const struct gs_grants *grants, size_t *pos);

/** Read a pod by the same rules from somewhere else (an answer to GET). The result owns an arena;
 *  gs_grants_pod_fini(), also after failure. 0; -ENOMEM. */
GS_WUR int gs_grants_read(const struct gs_grants *grants, const struct gs_kube_pod *view,
                          struct gs_grants_pod *ret);
void gs_grants_pod_fini(struct gs_grants_pod *pod);

/** What a container was given, and its place in the pod.
 *  Returns  0; -ENOENT the pod has no such container; -ENODATA no grant (not shown yet, or it never
 *           gets one); -EPERM the grant is not signed; -EINVAL it cannot be read, or its slots are
 *           not those of the pod's containers; -ENODEV it gives nothing to this container. */
GS_WUR int gs_grants_slot(const struct gs_grants_pod *pod, struct gs_str container,
                          const struct gs_grant_slot **ret_slot, struct gs_err *err);
/** Position of the container that a slot of the grant belongs to; -EINVAL. Pure. */
int gs_grants_owner(const struct gs_grants_pod *pod, size_t slot);
