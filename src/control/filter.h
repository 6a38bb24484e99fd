#pragma once
/* Answers to kube-scheduler's extender calls that decide: which nodes, and which cards of them. In
 * memory alone: no API server is asked. Wire: extender/v1, as HAMi speaks it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "control/books.h"
#include "control/moment.h"
#include "core/cleanup.h"
#include "core/str.h"

struct yyjson_val;

struct gs_filter_conf {
    struct gs_str device_policy, node_policy; /**< where the pod names none: "spread", "binpack" */
    bool leaves_node_choice; /**< answer with every node that fits, decide at bind (nodeChoice) */
    int64_t lease_ms;        /**< of a reservation */
};

enum gs_filter_outcome {
    GS_FILTER_NOTHING_ASKED, /**< the pod asks for nothing of ours: every node is right */
    GS_FILTER_FOUND,
    GS_FILTER_NO_ROOM,
    GS_FILTER_ERROR, /**< the call could not be served; the answer says why */
};

/** What happened, for events and metrics. Text is in the arena of the call. */
struct gs_filter_note {
    enum gs_filter_outcome outcome;
    bool is_simulation; /**< node objects came with the call: nothing was reserved */
    struct gs_str ns, name, uid;
    bool may_preempt; /**< the pod's class does not forbid it */
    int32_t priority;
    struct gs_str node; /**< chosen */
    struct gs_str text; /**< one sentence for people */
    size_t n_nodes, n_fit;
    uint32_t why; /**< no room: one bit for each enum gs_reason that some node gave first */
    size_t n_unregistered; /**< no room: nodes without devices of ours */
};

/** A call that found no room. Everything is valid during the callback only. */
struct gs_filter_refusal {
    const struct gs_filter_note *note;
    struct yyjson_val *pod, *names; /**< as they were sent; names: an array */
};

/** What a call works with. */
struct gs_filter_env {
    struct gs_books *books;
    const struct gs_filter_conf *conf;
    struct gs_moment now;
    struct gs_arena *arena; /**< for the whole call, its note included */
    /** Hears of each call that found no room, simulations left out. NULL: nobody. */
    void (*refused)(void *arg, const struct gs_filter_refusal *refusal);
    void *arg;
};

/** POST /filter. ret_reply: JSON from malloc(), also for errors (they travel inside it).
 *  Returns 0, or -ENOMEM when there is no reply at all. */
GS_WUR int gs_filter(const struct gs_filter_env *env, struct gs_str body, char **ret_reply,
                     size_t *ret_n, struct gs_filter_note *ret_note);

/** POST /prioritize: 0 to 10 for each node sent, by the score of the node policy. With
 *  leaves_node_choice the best one alone has 10, and is reserved for a moment: a bind that names
 *  another node moves it there. 0; -EINVAL the call is unreadable (the caller answers 400, err says
 *  why); -ENOMEM. */
GS_WUR int gs_filter_prioritize(const struct gs_filter_env *env, struct gs_str body,
                                char **ret_reply, size_t *ret_n, struct gs_err *err);

/** Decide a pod of this priority for one given node, and reserve: at bind, where a reservation was
 *  lost or was never made. What is held for others of its priority or above is not free to it. 0;
 *  -ENOSPC (err says what is lacking); -ENOENT the node has no devices; -ENODATA the pod asks for
 *  none; -EBUSY it is being bound; -EINVAL; -ENOMEM. */
GS_WUR int gs_filter_reserve(const struct gs_filter_env *env, const struct gs_pod *pod,
                             int32_t priority, struct gs_str node, struct gs_err *err);
