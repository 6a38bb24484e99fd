#pragma once
/* Pods that were refused for lack of room, and are to be tried again when there is some.
 *
 * kube-scheduler tries a pod again when it hears of a change that may help. But it may hear of a
 * victim's end before our watch tells the books of it, and is then refused from books that are
 * behind; and some room appears without any object changing (a reservation or a hold that ends).
 * After that it would wait for the next change, or for minutes. So whoever was refused is
 * remembered, with the nodes that were in question; what changed on these since is looked at, and a
 * pod that fits by now is nudged (control/nudge.h) unless it has come by itself.
 *
 * Nothing is lost: a change counts from the refusal on, by the books' own count; a nudge that
 * nobody followed is sent again while there is room.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "control/books.h"
#include "control/filter.h"
#include "core/cleanup.h"
#include "kube/client.h"

struct gs_kube_pod;
struct gs_retry;

struct gs_retry_opt {
    const struct gs_filter_conf *filter; /**< outlives this */
    /** Does this replica lead? Others do not nudge. NULL: always. */
    bool (*leads)(void *arg);
    void *arg;
    size_t max_bytes; /**< memory for what is remembered; 0: 16 MiB */
};

/** `client` and `books` outlive it. 0 or -ENOMEM. */
GS_WUR int gs_retry_new(struct gs_kube_client *client, struct gs_books *books,
                        const struct gs_retry_opt *opt, struct gs_retry **ret);
/** Accepts NULL. Before the client. */
struct gs_retry *gs_retry_free(struct gs_retry *retry);

/** A filter call found no room; for gs_filter_env.refused. Everything is copied. */
void gs_retry_refused(struct gs_retry *retry, const struct gs_filter_refusal *refusal);
/** The pod has been promised a place, is bound or gone. */
void gs_retry_forget(struct gs_retry *retry, struct gs_str uid);
/** A pod was seen as it is now. */
void gs_retry_saw_pod(struct gs_retry *retry, const struct gs_kube_pod *pod);

struct gs_retry_stats {
    uint64_t nudged;
    uint64_t dropped; /**< refusals that were not remembered, for want of memory */
    size_t waiting, bytes;
};
void gs_retry_stats(const struct gs_retry *retry, struct gs_retry_stats *ret);
