#pragma once
/* Insides of the books, shared by their files; each uses those above it alone:
 *
 *   books_names.c    entries by name, and which nodes have changed
 *   books_claim.c    which nodes say that they have a device
 *   books_share.c    from a grant, or what was decided, to shares of devices
 *   books_entry.c    a pod's entry
 *   books_use.c      what the pods on a node take of its devices
 *   books_promise.c  reservations and holds
 *   books_pod.c      pods of the API server, and those that only their nodes have any more
 *   books_quota.c    namespaces' quotas
 *   books.c          the whole of them, and nodes
 *   books_change.c, books_guest.c  questions: what has changed, who has what of a node */

#include "base/arena.h"
#include "base/map.h"
#include "control/books.h"
#include "control/untracked.h"
#include "core/list.h"
#include "model/collapse.h"

/** Part of a device that a pod holds or has been promised. */
struct gs_books_share {
    uint32_t policy; /**< index into the policies */
    uint32_t dev;    /**< of its node, while the node is added up */
    struct gs_str uuid;
    int32_t slots, mem_mib, cores;
    int32_t place_start, place_size;
    const struct gs_books_instance
        *made; /**< of a place: what its node made of it; NULL: nothing */
};

/** Shares under way. */
struct gs_books_shares {
    struct gs_books_share *at; /**< in the books' scratch arena; text is borrowed */
    size_t n, cap;
};

struct gs_books_pod_entry;

/** Devices of one vendor on a node as it registered them. */
struct gs_books_part {
    struct gs_books_part *next; /**< in the order of the policies */
    uint32_t policy;
    bool is_muted; /**< the vendor's plugin is dead */
    struct gs_arena arena;
    struct gs_device *dev;
    struct gs_group group;
};

/** A pod that holds something. One block with all its text and its shares. */
struct gs_books_pod_entry {
    struct gs_str uid, ns, name;
    struct gs_books_node_entry *node;
    struct gs_books_ns_entry *in_ns;
    GS_LINK(struct gs_books_pod_entry) on_node; /**< in the node's `pods` */
    struct gs_books_share *share;
    uint32_t n_shares;
    uint32_t *tag; /**< [n policies] or NULL */
    int32_t priority;
    bool is_reservation; /**< not (yet) confirmed by the API server */
    bool is_pinned;      /**< its Binding is on its way */
    bool is_sent;        /**< a Binding of it was sent to the API server */
    bool is_hold;        /**< room kept until others have left */
    bool is_lifted;      /**< of a hold: does not count for now */
    bool is_leftover;    /**< the API server has no such pod, its node still has its containers */
    int64_t start_us, ends_us, outlives_ms;
    struct gs_pairs labels;
    int64_t until_ms;            /**< end of the lease; of a leftover: 0 while its node names it */
    struct gs_pairs annotations; /**< of a reservation: what its Binding carries */
    uint64_t version;            /**< of a reservation: of the pod that was decided upon */
    bool is_closed;              /**< that version */
    GS_LINK(struct gs_books_pod_entry) lease; /**< in the books' `leased`, if it may expire */
};

/** What a filter reads of each of thousands of nodes stands first, in two lines of cache. */
struct gs_books_node_entry {
    struct gs_node node; /**< view */
    size_t rank;
    uint64_t refused_ask; /**< of gs_books_note_refusal(), by this use; 0: none */
    struct gs_books_refusal refused;
    struct gs_books_part *part; /**< by vendor; NULL: none */
    void *view_block;           /**< the arrays behind `node` */
    struct gs_use *use;
    struct gs_room *room;
    struct gs_tenant *tenant;
    size_t cap_tenants;
    GS_LIST(struct gs_books_pod_entry) pods;
    size_t n_pods;
    struct gs_arena notes_arena;
    struct gs_untracked notes; /**< what the node says beside its devices; in the arena */
    size_t n_claimed_twice;    /**< of its devices */
    char *unreadable;          /**< what of it, and why; NULL: all could be read */
    bool is_there;             /**< the API server has it */
    bool is_dirty;
    struct gs_books_node_entry *next_dirty;
    uint64_t changed; /**< the books' count when this node changed last; 0: not yet */
    GS_LINK(struct gs_books_node_entry) change; /**< in the books' `changes`, if it has changed */
};

/** One block with its name and its limits. */
struct gs_books_quota_entry {
    struct gs_books_quota_entry *next;
    struct gs_str name;
    int64_t *mem_limit, *core_limit; /**< [n policies] */
    int64_t limits[];
};

/** One block with its name and the sums. */
struct gs_books_ns_entry {
    struct gs_str name;
    size_t n_pods;
    uint64_t changed; /**< the books' count when the quota or its use changed last */
    struct gs_books_quota_entry *quota;
    int64_t *mem_used, *core_used; /**< [n policies] what the pods' shares come to */
    int64_t sums[];
};

struct gs_books {
    const struct gs_policies *policies;
    struct gs_map nodes, pods, namespaces; /**< by name, UID, name */
    struct gs_map holds;                   /**< by UID, beside the pods */
    struct gs_map claims;                  /**< by device id: books_claim.c */
    size_t n_claimed_twice;                /**< devices */
    size_t n_unreadable;                   /**< nodes */
    bool ignores_claims;
    int32_t lowest; /**< priority of a bound pod; valid while n_lowest > 0 */
    size_t n_lowest, n_bound;
    struct gs_books_node_entry *dirty;
    uint64_t change;                             /**< changes so far, of nodes and of quotas */
    GS_LIST(struct gs_books_node_entry) changes; /**< nodes by their last change, oldest first */
    struct gs_books_node_entry *
        *by_name; /**< nodes with devices, sorted; valid while !is_unsorted */
    size_t n_by_name, cap_by_name;
    bool is_unsorted;
    GS_LIST(struct gs_books_pod_entry) leased; /**< what may expire */
    size_t n_devices, n_reservations;
    struct gs_arena scratch;
};

/** Entry of a name, made where there is none; NULL: out of memory. */
struct gs_books_node_entry *gs_books_node_entry(struct gs_books *books, struct gs_str name);
struct gs_books_ns_entry *gs_books_ns_entry(struct gs_books *books, struct gs_str name);
/** Free an entry that nothing speaks of any more. Accepts NULL. */
void gs_books_drop_node_if_unused(struct gs_books *books, struct gs_books_node_entry *node);
void gs_books_drop_ns_if_unused(struct gs_books *books, struct gs_books_ns_entry *ns);
/** Free what is in no table (any more). */
void gs_books_free_node(struct gs_books_node_entry *node);
void gs_books_free_ns(struct gs_books_ns_entry *ns);
struct gs_books_part *gs_books_free_part(struct gs_books_part *part);
/** Nothing is known of the node's devices. */
void gs_books_free_parts(struct gs_books_node_entry *node);

/** What the node has, or who is there, has changed. Accepts NULL. */
void gs_books_mark(struct gs_books *books, struct gs_books_node_entry *node);
/** Its use has to be added up anew, though nothing has changed. */
void gs_books_mark_dirty(struct gs_books *books, struct gs_books_node_entry *node);
const struct gs_books_node_entry *gs_books_entry_of(const struct gs_node *node);

/** The node says that it has these devices. Before they are in its view. 0 or -ENOMEM: then nothing
 *  has changed. */
GS_WUR int gs_books_claim(struct gs_books *books, struct gs_books_node_entry *node,
                          const struct gs_books_part *part);
/** It says so no more. */
void gs_books_unclaim(struct gs_books *books, struct gs_books_node_entry *node,
                      const struct gs_books_part *part);
/** Mark those devices of the node's view that others claim too, and no other. Has that changed? */
bool gs_books_see_claims(struct gs_books *books, struct gs_books_node_entry *node);
void gs_books_free_claims(struct gs_books *books);

/** Shares of a pod by its grants, all vendors. One that cannot be read makes the whole pod
 *  unreadable, as in HAMi. In the scratch arena. 0; -EINVAL; -E2BIG; -ENOMEM. */
int gs_books_shares_read(struct gs_books *books, const struct gs_books_pod *pod,
                         struct gs_books_shares *s, struct gs_err *err);
/** Shares of a pod by what was decided. 0; -E2BIG; -ENOMEM. */
int gs_books_shares_of(struct gs_books *books, const struct gs_ask *ask,
                       const struct gs_placement *placement, struct gs_books_shares *s);

/** What an entry is made of. Everything is copied. */
struct gs_books_who {
    struct gs_str uid, ns, name, node;
    const uint32_t *tag;
    int32_t priority;
    bool is_reservation, is_hold, is_leftover;
    int64_t until_ms, start_us, ends_us, outlives_ms;
    uint64_t version;
    bool is_closed;
    const struct gs_pairs *annotations, *labels; /**< NULL: none */
};
/** Enter a pod, in place of what was known of it. 0 or -ENOMEM: then that stays. */
int gs_books_put(struct gs_books *books, const struct gs_books_who *who,
                 const struct gs_books_shares *s);
void gs_books_drop(struct gs_books *books, struct gs_books_pod_entry *pod);
/** Its pod is gone while its containers are not: it counts until then, and is no promise. */
void gs_books_outlive(struct gs_books *books, struct gs_books_pod_entry *pod, int64_t until_ms);

/** Bound, and nobody has asked it to go: one that could be evicted. */
bool gs_books_may_go(const struct gs_books_pod_entry *pod);
/** May nobody be given this device, whoever holds it now? */
bool gs_books_is_shut(const struct gs_books_node_entry *node, const struct gs_books_part *part,
                      const struct gs_device *dev);
/** Count those pods that the node's notes name and the API server does not have; forget those that
 *  the notes do not name any more. 0; -EINVAL a grant cannot be read; -ENOMEM. */
int gs_books_count_leftovers(struct gs_books *books, struct gs_books_node_entry *node,
                             struct gs_err *err);

/** All are but a hold that is lifted, or whose pod has its reservation. */
bool gs_books_is_counted(const struct gs_books *books, const struct gs_books_pod_entry *pod);
/** A share as a device's users see it. */
struct gs_tenant gs_books_tenant(const struct gs_books_pod_entry *pod,
                                 const struct gs_books_share *share);
/** The device of a share; node->n_dev: none of this node (the card left, the pod stays). */
size_t gs_books_device(const struct gs_node *node, const struct gs_policy *policy,
                       struct gs_str uuid);

/** Bring a node's use and score up to date. 0 or -ENOMEM (then the node is closed to everybody). */
int gs_books_derive(struct gs_books *books, struct gs_books_node_entry *node);
