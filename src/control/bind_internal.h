#pragma once
/* Insides of the binder, shared by its files: bind.c (life of a bind), bind_lock.c (node locks),
 * bind_write.c (the Binding and how it ended). They call each other in a circle, for a bind goes
 * from one to the next and back, and may end in each: stages of one life, told apart by
 * gs_bind_step. */

#include "base/arena.h"
#include "base/map.h"
#include "cluster/lock.h"
#include "control/bind.h"
#include "core/list.h"
#include "net/loop.h"

/** Distinct lock annotations of all vendors. */
#define GS_BIND_LOCKS 4u

struct gs_bind_op;

/** What a lock annotation of a node says, by the watch. */
struct gs_bind_seen {
    char *text; /**< NULL: free */
    int64_t since_ms;
};

/** A node that is there, or that somebody waits for. */
struct gs_bind_node {
    struct gs_str name;
    bool is_there;
    bool needs_lock;
    struct gs_bind_seen seen[GS_BIND_LOCKS];
    char version[24];                    /**< as it was last seen */
    GS_LINK(struct gs_bind_node) locked; /**< while the first of its locks is not free */
    GS_LIST(struct gs_bind_op) queue;    /**< those that want its lock, in the order they came */
    struct gs_loop_task lead;            /**< the first of them is to go on */
    struct gs_lock_op *sweep;            /**< giving back the lock of a pod that is gone */
    struct gs_binder *binder;
};

enum gs_bind_step {
    GS_BIND_GATED,   /**< this replica does not lead yet */
    GS_BIND_READING, /**< the pod is being read */
    GS_BIND_QUEUED,  /**< for the node's lock */
    GS_BIND_LOCKING, /**< first in the queue: trying */
    GS_BIND_WAITING, /**< first in the queue: somebody else has the lock */
    GS_BIND_OPENING, /**< the pod is written to */
    GS_BIND_PROVING, /**< the server is asked who leads */
    GS_BIND_POSTING,
    GS_BIND_LOOKING, /**< was it bound? */
    GS_BIND_ENDING,  /**< locks go back, if any; the caller is told */
};

struct gs_bind_op {
    struct gs_binder *binder;
    GS_LINK(struct gs_bind_op) all;    /**< in the binder's `ops` */
    GS_LINK(struct gs_bind_op) queued; /**< in the node's `queue` */
    struct gs_bind_node *node;         /**< in whose queue it is */
    struct gs_arena arena;             /**< everything below that is text */
    struct gs_extender_binding what;
    struct gs_pairs annotations;
    enum gs_bind_step step;
    bool is_plain;     /**< the pod asks for no device: bound without a grant */
    bool is_posted;    /**< it sent its Binding */
    bool is_resent;    /**< and so had an earlier bind of the pod, the same */
    bool is_refused;   /**< the server answered: a conflict */
    bool is_fencing;   /**< the look that is under way writes to the pod */
    bool cannot_fence; /**< such a write was refused for good */
    bool is_certain;   /**< no Binding sent for it so far can come to pass any more */
    unsigned n_posts;
    char version[24];      /**< of the pod, in the Binding */
    bool is_read;          /**< by us; else it is the one that the filter was asked with */
    bool is_closed;        /**< no Binding may name it */
    bool is_proven;        /**< we led after it was read */
    bool keeps_decision;   /**< also when it fails: the watch will tell how it ended */
    uint32_t wants, holds; /**< locks, by bit */
    uint32_t trying;       /**< the lock it tries for, or waits for */
    struct gs_str held[GS_BIND_LOCKS];
    int64_t give_up_ms, posted_ms;
    struct gs_lock_op *lock;
    struct gs_loop_timer timer;
    uint64_t ticket;
    gs_binder_done *done;
    void *arg;
    struct gs_loop_task tell; /**< the caller, from the loop */
    const char *error;        /**< what it is told; NULL: not known yet */
    bool is_told, is_over;    /**< both: it can go */
};

struct gs_binder {
    struct gs_kube_client *client;
    struct gs_loop *loop;
    struct gs_books *books;
    struct gs_binder_opt opt;
    struct gs_str lock_key[GS_BIND_LOCKS]; /**< the first is GS_NAME_LOCK */
    uint32_t n_locks;
    struct gs_map nodes, by_uid;         /**< by_uid: the latest bind of a pod */
    GS_LIST(struct gs_bind_node) locked; /**< nodes that are locked for a pod */
    GS_LIST(struct gs_bind_op) ops;      /**< all that are under way */
    struct gs_binder_stats stats;
};

enum gs_leader_state gs_bind_leads(const struct gs_binder *b);

/** It will not be bound by us now: what was decided is void where the op has come so far that it
 *  is its own, locks go back, the caller is told. */
void gs_bind_fail(struct gs_bind_op *op, const char *text);
/** Tell the caller from the loop; the first word counts. */
void gs_bind_tell(struct gs_bind_op *op, const char *error);
/** Nothing is left to do but to tell the caller. */
void gs_bind_over(struct gs_bind_op *op);

/** Locks: get what the pod's grant needs, then gs_bind_post(). */
void gs_bind_lock(struct gs_bind_op *op);
/** Give back what it holds, leave the queue, gs_bind_over(). */
void gs_bind_unlock(struct gs_bind_op *op);
/** Leave the queue; who is next goes on. */
void gs_bind_leave(struct gs_bind_op *op);
void gs_bind_free_nodes(struct gs_binder *b);

/** Is there such a node, as far as the watch has told? */
bool gs_bind_has_node(const struct gs_binder *b, struct gs_str name);
/** HAMi's words where there is none. In the op's arena. */
const char *gs_bind_no_node(struct gs_bind_op *op);

/** Write the Binding. */
void gs_bind_post(struct gs_bind_op *op);
/** Take the pod as it is now, in `root`, and decide where nothing is decided. False: it is not to
 * be bound, and the op has failed. */
bool gs_bind_take(struct gs_bind_op *op, struct yyjson_val *root);
