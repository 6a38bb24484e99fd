#pragma once
/* The objects of one kind, kept up to date: list, then watch, then watch again from where it broke;
 * list anew where the server has forgotten that place (410).
 *
 * Objects are handed over once and not kept: per object stay its name, UID and resourceVersion, so
 * that a new list can tell what disappeared meanwhile. All on the loop's thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "kube/client.h"
#include "kube/key.h"

struct gs_kube_watch;
struct yyjson_val;

struct gs_kube_watch_fns {
    /** An object is new (or returned under another UID, after `deleted` for the old one), or has
     *  changed. Not called for what a new list shows unchanged. */
    void (*added)(void *arg, const struct gs_kube_key *key, struct yyjson_val *object);
    void (*modified)(void *arg, const struct gs_kube_key *key, struct yyjson_val *object);
    /** It is gone, or no longer fits the selectors. last: its last state; NULL where that was
     *  missed (found gone by a new list). */
    void (*deleted)(void *arg, const struct gs_kube_key *key, struct yyjson_val *last);
    /** The first list is complete: once. */
    void (*synced)(void *arg);
    /** A later list is complete, and everything it found has been told; none is asked for that had
     *  to begin later. May be NULL. */
    void (*relisted)(void *arg);
    /** Something failed and will be tried again in wait_ms. May be NULL. */
    void (*trouble)(void *arg, const struct gs_err *why, uint32_t wait_ms);
};

struct gs_kube_watch_opt {
    const struct gs_kube_resource *resource;
    struct gs_str ns; /**< empty: all */
    struct gs_str label_selector, field_selector;
    uint32_t page;      /**< objects per list page; 0: 500 */
    uint32_t timeout_s; /**< of one watch request, spread over 1x..2x; 0: 300 */
    size_t max_object;  /**< a longer line of a watch breaks it: list anew; 0: 16 MiB */
};

struct gs_kube_watch_stats {
    uint64_t lists, relists,
        watches; /**< lists completed, of these after the first; streams opened */
    uint64_t events, bookmarks, gone, broken, bad; /**< 410s; broken streams; unreadable objects */
    uint64_t objects;                              /**< known now */
    size_t bytes;                                  /**< memory held for them */
    bool is_synced;
    int64_t heard_ms;  /**< loop time when the server was last heard on this; -1 never. What was
                        *   heard may be long past: a stream that was held up has a backlog */
    int64_t listed_ms; /**< loop time when the last list that is complete began: whatever had been
                        *   written by then is known; -1 never */
};

/** Start. Selectors are copied; callbacks come from the loop, after this returned.
 *  Owner    caller; release with gs_kube_watch_free(), which is allowed in any callback. */
GS_WUR int gs_kube_watch_new(struct gs_kube_client *client, const struct gs_kube_watch_opt *opt,
                             const struct gs_kube_watch_fns *fns, void *arg,
                             struct gs_kube_watch **ret_watch, struct gs_err *err);
struct gs_kube_watch *gs_kube_watch_free(struct gs_kube_watch *watch);

/** Ask for a new list now: for readers who must be sure. `relisted` tells its end. */
void gs_kube_watch_relist(struct gs_kube_watch *watch);
void gs_kube_watch_stats(const struct gs_kube_watch *watch, struct gs_kube_watch_stats *ret);
