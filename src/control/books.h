#pragma once
/* What every card of the cluster has been given: the sum over the grants of live pods, and over the
 * reservations between a filter's answer and its Binding. Derived, never patched: whatever changes,
 * a node's use is added up anew from the pods on it.
 *
 * One thread. No clock and no API server: time is an argument, and what was learnt comes in by
 * calls. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "control/shortage.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "model/place.h"
#include "model/policy.h"

struct gs_books;

/** A pod as the books need it. Text is copied. */
struct gs_books_pod {
    struct gs_str uid, ns, name;
    struct gs_str node; /**< where it is bound (or, by HAMi's filter, promised); empty: nowhere */
    const struct gs_str
        *grant; /**< [policies->n] text of each vendor's allocated annotation; empty: none */
    const uint32_t *tag;             /**< [policies->n] vendors' notes; NULL: none */
    const struct gs_str *placements; /**< [policies->n] text of gs_keys.placements; NULL: none */
    size_t n_init;                   /**< of the grants' slots, how many are init containers */
    const bool *is_app; /**< [n_slots] of app containers and sidecars; NULL: of all after n_init */
    size_t n_slots;     /**< containers of the pod */
    bool inits_done;    /**< every init container has ended well */
    bool is_over;       /**< Succeeded or Failed: holds nothing */
    int32_t priority;   /**< of its PriorityClass */
    const struct gs_pairs *labels; /**< NULL: none */
    int64_t start_us;              /**< when it started, Unix time */
    int64_t ends_us; /**< when it is to be gone; GS_BOOKS_STAYS: it is not being deleted */
    /** One of its containers runs: deleted by force it may run on for so long. 0: none does. */
    int64_t outlives_ms;
};

#define GS_BOOKS_STAYS INT64_MIN

/** `policies` outlives the books. */
GS_WUR int gs_books_new(const struct gs_policies *policies, struct gs_books **ret);
struct gs_books *gs_books_free(struct gs_books *books);
const struct gs_policies *gs_books_policies(const struct gs_books *books);
/** Let nodes have devices of one id: those that an autoscaler thinks up are copies of one another.
 *  Before the first of them. */
void gs_books_ignore_claims(struct gs_books *books);

/** The node is there, with these annotations and capacities. Devices of a vendor whose annotation
 *  cannot be read stay as they were (and *err says why; the return value is then -EINVAL, all else
 *  is done). 0, -EINVAL, -ENOMEM. */
int gs_books_node_set(struct gs_books *books, const struct gs_node_view *view, struct gs_err *err);
/** What cannot be read of what the node says: its annotation and what is wrong there. NULL: all
 * can. Valid until the next change. */
const char *gs_books_unreadable(const struct gs_books *books, struct gs_str name);
/** Walk over the nodes of which something cannot be read, in no order; *pos starts at 0; NULL at
 *  the end: else as gs_books_unreadable(). */
const char *gs_books_next_unreadable(const struct gs_books *books, size_t *pos,
                                     struct gs_str *ret_name);
/** The node is gone. Its pods stay in the books until they go too. */
void gs_books_node_gone(struct gs_books *books, struct gs_str name);
/** Take the devices of a vendor off the node (its plugin is dead) or back. */
void gs_books_node_mute(struct gs_books *books, struct gs_str name, const struct gs_policy *policy,
                        bool is_muted);

/** The pod is there. Replaces what was known, and its reservation once it is bound. A grant that
 *  cannot be read counts for nothing (-EINVAL; *err says why). 0, -EINVAL, -ENOMEM. */
int gs_books_pod_set(struct gs_books *books, const struct gs_books_pod *pod, struct gs_err *err);
/** The pod is gone, and so are its containers, but for those that its node names. */
void gs_books_pod_gone(struct gs_books *books, struct gs_str uid);
/** The API server does not have the pod any more. Where one of its containers ran when it was seen
 *  last, it was deleted by force: it counts on, until its node has named it as held and then not
 *  any more, or says that it holds nothing, or (nodes that say nothing) outlives_ms have passed. So
 *  does one whose Binding was sent: nothing can come of that now, but it may have been bound, have
 *  run and been deleted by force unseen. Where it is known never to have had a node:
 *  gs_books_pod_gone(). */
void gs_books_pod_deleted(struct gs_books *books, struct gs_str uid, int64_t now_ms);

/** Remember a decision until `until_ms`, with the annotations that its Binding will carry; replaces
 *  an earlier one of this pod. 0; -EEXIST the pod is bound; -EBUSY it is being bound; -ENOMEM. */
GS_WUR int gs_books_reserve(struct gs_books *books, const struct gs_ask *ask,
                            const struct gs_placement *placement,
                            const struct gs_pairs *annotations, int64_t until_ms);
/** Give a reservation up; a bound pod keeps its grant. False: there was none, or it is pinned. */
bool gs_books_release(struct gs_books *books, struct gs_str uid);
struct gs_books_reservation {
    struct gs_str ns, name, node;
    struct gs_pairs annotations;
    int64_t until_ms;
    uint64_t version; /**< resourceVersion of the pod that was decided upon; 0: not known */
    bool is_closed;   /**< no Binding may name that version: control/fence.h */
    bool is_sent;     /**< a Binding of it was sent: it was pinned, and not given up since */
};
/** A pod's reservation; false: none. The views are valid until the next change. */
bool gs_books_reserved(const struct gs_books *books, struct gs_str uid,
                       struct gs_books_reservation *ret);
/** A Binding is on its way: the reservation lasts at least until then. A hold likewise. */
void gs_books_prolong(struct gs_books *books, struct gs_str uid, int64_t until_ms);
/** A Binding is being written: until it is known how that ended the reservation stays, whoever
 *  gives it up (gs_books_release() answers false, gs_books_reserve() -EBUSY), and does not
 *  expire. */
void gs_books_pin(struct gs_books *books, struct gs_str uid, bool is_pinned);
bool gs_books_is_pinned(const struct gs_books *books, struct gs_str uid);
/** Give up every reservation and hold whose lease has ended, and pods deleted by force whose time
 *  is over; number of reservations and holds. One whose Binding was sent may be bound without our
 *  knowing, by a watch with a backlog: it stays until the watch shows it, or a list of the pods
 * that began after the end of its lease has not. `listed_ms`: when the last list that is complete
 *  began, by the same clock. */
size_t gs_books_expire(struct gs_books *books, int64_t now_ms, int64_t listed_ms);
/** Is there one that waits for such a list? */
bool gs_books_is_overdue(const struct gs_books *books, int64_t now_ms);
/** Give up every reservation and hold at once, but for those whose Binding is being written. */
void gs_books_void(struct gs_books *books);

/** Keep room for a pod that waits until others have left: counts like a reservation, and beside one
 *  of the same pod does not count at all. Replaces an earlier one of this pod. 0 or -ENOMEM. */
GS_WUR int gs_books_hold(struct gs_books *books, const struct gs_ask *ask,
                         const struct gs_placement *placement, int32_t priority, int64_t until_ms);
/** False: there was none. */
bool gs_books_unhold(struct gs_books *books, struct gs_str uid);
bool gs_books_is_held(const struct gs_books *books, struct gs_str uid);
/** Until the next call of this: holds of lower priority than this, and the pod's own, do not count.
 *  Empty uid and INT32_MIN: all count. */
void gs_books_lift(struct gs_books *books, struct gs_str uid, int32_t priority);
/** Priority of the least important pod on a node that could be asked to leave. False: there is
 *  none. */
bool gs_books_lowest_on(const struct gs_books *books, struct gs_str name, int32_t *ret);
/** Is there a bound pod of lower priority that holds anything? A quick no. */
bool gs_books_has_below(struct gs_books *books, int32_t priority);

enum gs_books_guest_kind {
    GS_BOOKS_GUEST_POD,         /**< bound */
    GS_BOOKS_GUEST_RESERVATION, /**< decided, not bound */
    GS_BOOKS_GUEST_HOLD,        /**< waits for others to leave */
    GS_BOOKS_GUEST_LEFTOVER,    /**< its pod is gone from the API server, its containers are not */
};

/** Somebody who has a part of a node. Views of the books. */
struct gs_books_guest {
    struct gs_str uid, ns, name;
    const struct gs_pairs *labels;
    enum gs_books_guest_kind kind;
    int32_t priority;
    int64_t start_us, ends_us;
};
struct gs_books_stake {
    uint32_t dev, guest; /**< indexes into node->dev and guest */
    struct gs_tenant tenant;
};
/** Who has what of a node. */
struct gs_books_guests {
    const struct gs_node *node;
    const bool *is_shut; /**< [node->n_dev] closed, whoever is there */
    const struct gs_books_guest *guest;
    size_t n;
    const struct gs_books_stake *stake; /**< ascending by device, then guest */
    size_t n_stakes;
};
/** Arrays in the arena; valid until the next change. 0; -ENOENT no such node; -ENOMEM. */
GS_WUR int gs_books_guests(struct gs_books *books, struct gs_str name, struct gs_arena *arena,
                           struct gs_books_guests *ret);

/** A node with its use of this moment; NULL: not known, or it has no devices. Valid until the next
 *  change. */
const struct gs_node *gs_books_node(struct gs_books *books, struct gs_str name);
/** The same for many names. ret[n] */
void gs_books_nodes(struct gs_books *books, const struct gs_str *name, size_t n,
                    const struct gs_node **ret);
/** Place of the name of a node that gs_books_node() gave among all, for ties: the same on every
 *  replica. */
size_t gs_books_rank(const struct gs_node *node);
/** What a node lacked for a pod. Thousands are looked at for one answer, and mostly no further than
 *  at the first two. */
struct gs_books_refusal {
    uint64_t
        hash; /**< of the reasons, all but the device that came closest: 64 bits tell them apart */
    struct gs_shortage_lack lack; /**< of the reasons */
    struct gs_reasons reasons;
};
/** Remember what a node lacked for pods that ask for the same (`ask`: a hash of all they ask for,
 * and of the quota over it), and find it again while the node's use is as it was. One ask per node.
 * The views are valid until then. NULL: not known. */
const struct gs_books_refusal *gs_books_note_refusal(const struct gs_node *node, uint64_t ask,
                                                     const struct gs_reasons *reasons);
const struct gs_books_refusal *gs_books_refusal(const struct gs_node *node, uint64_t ask);
/** Walk over nodes with devices, by name; *pos starts at 0; NULL at the end. */
const struct gs_node *gs_books_next(struct gs_books *books, size_t *pos);

/** Changes so far: of what nodes have and of who is there, of quotas and their use. */
uint64_t gs_books_change(const struct gs_books *books);
/** The node with devices that changed earliest after the change `since`, and not after `until`;
 *  *ret_change: when. NULL: none. Costs as many steps as nodes changed after `since`. */
const struct gs_node *gs_books_changed(struct gs_books *books, uint64_t since, uint64_t until,
                                       uint64_t *ret_change);
/** The node that changed next after this one, as above. */
const struct gs_node *gs_books_changed_next(struct gs_books *books, const struct gs_node *node,
                                            uint64_t until, uint64_t *ret_change);
/** When the namespace's quota or its use changed last; where there is no quota: now. */
uint64_t gs_books_quota_change(const struct gs_books *books, struct gs_str ns);

/** Limits of one ResourceQuota: [policies->n] each, -1 none. Replaces what this quota said before.
 */
GS_WUR int gs_books_quota_set(struct gs_books *books, struct gs_str ns, struct gs_str name,
                              const int64_t *mem_limit, const int64_t *core_limit);
void gs_books_quota_gone(struct gs_books *books, struct gs_str ns, struct gs_str name);
/** Quota and its use in a namespace, without what pod `but` holds. In the arena. NULL *ret: none.
 */
GS_WUR int gs_books_quota(struct gs_books *books, struct gs_str ns, struct gs_str but,
                          struct gs_arena *arena, const struct gs_ns_quota **ret);

/** What a pod asks, under the quota of its namespace without the pod itself: gs_ask_read() with the
 *  books' policies. The daemon's `flags` come without a quota. */
GS_WUR int gs_books_ask(struct gs_books *books, const struct gs_pod *pod,
                        const struct gs_ask_flags *flags, struct gs_arena *arena,
                        struct gs_ask *ret, struct gs_err *err);

/** Walk over namespaces with quotas, in no order; *pos starts at 0; false at the end. The view is
 *  valid until the next change. */
bool gs_books_next_quota(const struct gs_books *books, size_t *pos, struct gs_str *ret_ns);

/** A MIG instance that a pod was given and its node has made. Views of the books. */
struct gs_books_instance {
    struct gs_str mig_uuid, profile;
    uint32_t gpu_instance, compute_instance;
    int32_t place_start, place_size;
};
/** Instances of a card, in no order, none twice; at most `cap`. Their number. */
size_t gs_books_instances(const struct gs_node *node, size_t dev, struct gs_books_instance *ret,
                          size_t cap);

/** Devices that take nobody because another entry claims to be them. */
size_t gs_books_claimed_twice(const struct gs_books *books);
/** A device of this node that another entry claims to be, too: on *ret_rival, or on the node
 * itself. False: there is none. Views of the books. */
bool gs_books_rival(const struct gs_books *books, struct gs_str name, struct gs_str *ret_id,
                    struct gs_str *ret_rival);

struct gs_books_counts {
    size_t nodes; /**< with devices */
    size_t bare;  /**< without */
    size_t devices, pods, reservations, holds;
};
struct gs_books_counts gs_books_counts(const struct gs_books *books);

/** One holder, for metrics and explanations. */
struct gs_books_holder {
    struct gs_str uid, ns, name;
    int32_t priority;
    bool is_reservation;
    bool is_going;    /**< it is being deleted, or is a leftover */
    bool is_leftover; /**< its pod is gone, its containers are not */
};
/** Who is `uid`? False: unknown. */
bool gs_books_holder(const struct gs_books *books, struct gs_str uid, struct gs_books_holder *ret);
