#pragma once
/* One object of the API server into the books, wherever it came from: a watch, a list, a dump. */

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "control/books.h"
#include "core/cleanup.h"
#include "kube/view.h"
#include "model/pod.h"

struct yyjson_val;

struct gs_feed {
    struct gs_books *books;
    struct gs_arena *arena; /**< of one object: the caller resets it */
    /** May this pod's grant be believed? NULL: every one. */
    bool (*trusts)(void *arg, const struct gs_kube_pod *pod);
    void *arg;
    /** Of a pod that is trusted: does this annotation of a grant count? NULL: all do. */
    bool (*counts)(void *arg, const struct gs_kube_pod *pod, struct gs_str key);
    /** A reserved pod has a node by now: called before the books hear of it. NULL: nobody asks. */
    void (*bound)(void *arg, const struct gs_kube_pod *pod);
};

/** What was read of a pod. Views of the object and of the arena. */
struct gs_feed_pod {
    struct gs_kube_pod pod;
    struct gs_pod model;
    bool is_over;      /**< Succeeded or Failed */
    bool is_untrusted; /**< it has a node and a grant, and `trusts` says no: what the books knew of
                          it stays (nobody frees a card by spoiling his grant), else it counts for
                          nothing */
};

/** ret_node and ret_view are set where the result is 0 or -EINVAL by the books alone (then ret_view
 *  has a name): devices of one vendor cannot be read, the rest is in.
 *  Returns  0; -EINVAL; -E2BIG; -ENOMEM. */
GS_WUR int gs_feed_node(const struct gs_feed *feed, struct yyjson_val *object,
                        struct gs_kube_node *ret_node, struct gs_node_view *ret_view,
                        struct gs_err *err);
/** *ret is set where the result is 0. 0; -EINVAL; -E2BIG; -ENOMEM. */
GS_WUR int gs_feed_pod(const struct gs_feed *feed, struct yyjson_val *object,
                       struct gs_feed_pod *ret, struct gs_err *err);
/** A ResourceQuota: its limits on slices. 0; -EINVAL; -E2BIG; -ENOMEM. */
GS_WUR int gs_feed_quota(const struct gs_feed *feed, struct yyjson_val *object, struct gs_err *err);
