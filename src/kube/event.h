#pragma once
/* Events on objects. Repeats of one (object, type, reason, message) become a count on one event; a
 * reason that comes with ever new messages is folded into one; an object is held to a rate. What is
 * too much is dropped and counted: events are for people and never hold up work. Those that say
 * that all went well are paced: where hundreds of pods come at once the API server has better to
 * do. */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/client.h"

struct gs_kube_events;

struct gs_kube_event {
    const struct gs_kube_resource *resource; /**< of the object */
    struct gs_str ns, name, uid;    /**< of the object; ns empty: event goes to "default" */
    struct gs_str resource_version; /**< of the object; may be empty */
    const char *type;               /**< "Normal" or "Warning" */
    const char *reason;             /**< "BindingFailed": a word in CamelCase */
    struct gs_str message;          /**< cut to 1024 bytes */
};

struct gs_kube_events_opt {
    const char *component; /**< "gpuslice-scheduler" */
    const char *host;      /**< reporting instance; NULL: none */
    uint32_t burst;        /**< events of one object at once; 0: 25 */
    uint32_t refill_s;     /**< then one per so many seconds; 0: 300 */
    uint32_t remember;     /**< distinct events remembered for counting; 0: 4,096 */
    uint32_t remember_s;   /**< and for how long; 0: 600 */
    uint32_t max_waiting;  /**< unsent ones of a type; more are dropped; 0: 1,024 */
    uint32_t normal_burst; /**< of type Normal sent at once; 0: 50 */
    uint32_t normal_per_s; /**< then so many per second; 0: 20 */
};

struct gs_kube_events_stats {
    uint64_t posted, counted, dropped, failed; /**< created; count raised; not sent; refused */
    uint32_t waiting;
};

/** Owner    caller; release with gs_kube_events_free(). */
GS_WUR int gs_kube_events_new(struct gs_kube_client *client, const struct gs_kube_events_opt *opt,
                              struct gs_kube_events **ret_events, struct gs_err *err);
struct gs_kube_events *gs_kube_events_free(struct gs_kube_events *events);

/** Post; everything is copied; never blocks, never fails. */
void gs_kube_event_post(struct gs_kube_events *events, const struct gs_kube_event *event);
void gs_kube_events_stats(const struct gs_kube_events *events, struct gs_kube_events_stats *ret);
