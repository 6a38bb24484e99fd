#pragma once
/* Leases: who leads, seen by watching; and leading ourselves.
 *
 * Clocks of machines differ, so a holder is taken for gone only after its lease has not changed for
 * a lease's length by our own monotonic clock; renewTime is for people. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/client.h"

struct gs_kube_lease;

#define GS_KUBE_HOLDER_MAX 254

/** What is known of a lease. */
struct gs_kube_lease_state {
    bool is_known;                   /**< the server has answered at least once */
    bool is_there;                   /**< the object exists */
    bool is_ours;                    /**< holder is our identity and our last renewal holds */
    char holder[GS_KUBE_HOLDER_MAX]; /**< empty: nobody */
    int32_t duration_s;
    int32_t transitions;
    int64_t renew_us;       /**< as its holder wrote it, or GS_KUBE_NO_TIME */
    int64_t changed_ms;     /**< loop time when we last saw the lease change */
    int64_t valid_until_ms; /**< loop time until which we lead; only while is_ours */
};

/** Called when the holder or the count of holders changes, when the lease appears or goes, and when
 *  we gain or lose it. */
typedef void gs_kube_lease_fn(void *arg, const struct gs_kube_lease_state *state);

struct gs_kube_lease_opt {
    struct gs_str ns, name;
    struct gs_str identity; /**< take and renew it under this name; empty: only look */
    uint32_t duration_s;    /**< 0: 15 */
    uint32_t renew_s;       /**< give up leading where no renewal succeeded for so long; 0: 10 */
    uint32_t retry_s;       /**< between tries; 0: 2 */
    /** It could not be looked at, and that is tried again in wait_ms. May be NULL. */
    void (*trouble)(void *arg, const struct gs_err *why, uint32_t wait_ms);
};

/** Watch the lease, and with an identity hold it whenever it is free.
 *  Owner    caller; release with gs_kube_lease_free(). */
GS_WUR int gs_kube_lease_new(struct gs_kube_client *client, const struct gs_kube_lease_opt *opt,
                             gs_kube_lease_fn *fn, void *arg, struct gs_kube_lease **ret_lease,
                             struct gs_err *err);
/** Stops; what we hold runs out by itself. Not from inside fn. */
struct gs_kube_lease *gs_kube_lease_free(struct gs_kube_lease *lease);
/** Hand the lease over at once (holder ""), as a leader that ends does. fn is told when it is done;
 *  the lease is not taken again. */
void gs_kube_lease_resign(struct gs_kube_lease *lease);
/** The state of now (is_ours is false from valid_until_ms on, whatever was heard). */
void gs_kube_lease_look(const struct gs_kube_lease *lease, struct gs_kube_lease_state *ret);
