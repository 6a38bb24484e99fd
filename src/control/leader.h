#pragma once
/* Which replica may write Bindings: the one beside the kube-scheduler that holds the lease, since
 * only that one calls its extender.
 *
 * kube-scheduler hands its lease over at once, while a Binding of the old replica may be on its
 * way. So a new leader waits until that will have ended, lists everything anew, makes sure that
 * nothing more can come of it (control/fence.h), and only then begins. The same holds for a process
 * that has just started: the one before may have written.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/client.h"

struct gs_leader;

/** May this replica write Bindings? */
enum gs_leader_state {
    GS_LEADER_NO,      /**< another replica does */
    GS_LEADER_NOT_YET, /**< soon: what the one before wrote is not known for sure */
    GS_LEADER_YES,
};

struct gs_leader_opt {
    struct gs_str lease_ns, lease_name; /**< name empty: this is the only replica */
    struct gs_str host;                 /**< of the kube-scheduler beside us; its identity is
                                           "<host>_<anything without an underscore>" */
    uint32_t wait_ms;                   /**< until a Binding of another has ended; 0: 2,500 */
    void (*relist)(void *arg);          /**< list everything anew, then gs_leader_relisted() */
    void (*fence)(void *arg);           /**< after that; then gs_leader_fenced() */
    void (*leads)(void *arg);           /**< from now on gs_leader_state() says yes */
    void (*follows)(void *arg);         /**< another leads, whatever was asked for above */
    void *arg;
};

GS_WUR int gs_leader_new(struct gs_kube_client *client, const struct gs_leader_opt *opt,
                         struct gs_leader **ret, struct gs_err *err);
struct gs_leader *gs_leader_free(struct gs_leader *leader);
void gs_leader_relisted(struct gs_leader *leader);
void gs_leader_fenced(struct gs_leader *leader);
enum gs_leader_state gs_leader_state(const struct gs_leader *leader);

/** The request that asks the API server itself, whose watch may be behind. False: there is nobody
 *  to ask, this is the only replica. */
bool gs_leader_ask(const struct gs_leader *leader, struct gs_kube_req *ret);
/** Was this still the leader when the server answered? Then whoever leads after it lists everything
 *  later than that. */
bool gs_leader_proves(const struct gs_leader *leader, const struct gs_kube_result *result);

/** Is this the identity of a kube-scheduler on that host? Pure. */
bool gs_leader_is_on(struct gs_str holder, struct gs_str host);
