#pragma once
/* Are the vendors' plugins alive? By what the kubelet offers of their resource, and by HAMi's
 * handshake: the scheduler writes "Requesting_<time>" over a plugin's word, the plugin writes its
 * word again. A vendor whose plugin is dead is muted in the books.
 *
 * Everything is judged by our own count of time since a value was first seen; the time in it is
 * only looked at where a process has just started. Answers are written a few at a time, and hold up
 * nothing.
 *
 * Threads  the loop's. */

#include <stdbool.h>
#include <stdint.h>

#include "control/books.h"
#include "control/leader.h"
#include "core/cleanup.h"
#include "kube/client.h"

/** What there is to judge by. */
struct gs_handshake_facts {
    const struct gs_str *value;    /**< of the handshake annotation; NULL: none */
    bool has_handshake;            /**< the vendor has such an annotation */
    int64_t seen_ms;               /**< how long the value (or its lack) has stood, by our clock */
    int64_t now_s;                 /**< Unix time */
    int64_t capacity, allocatable; /**< of the vendor's count resource; 0: none */
    bool was_offered;              /**< allocatable was above 0 before */
};
/** Healthy? *ret_answer: the value is a plugin's word that HAMi's scheduler would answer. Pure, but
 *  for the local zone of times, as HAMi's. */
bool gs_handshake_judge(const struct gs_handshake_facts *facts, bool *ret_answer);

struct gs_handshake;
struct gs_handshake_opt {
    enum gs_leader_state (*leads)(void *arg); /**< only a leader answers; NULL: always */
    void *arg;
};
struct gs_handshake_stats {
    uint64_t answers, failed; /**< written; not taken by the server */
    size_t muted, waiting;    /**< vendors of nodes; answers that wait for their turn */
};

GS_WUR int gs_handshake_new(struct gs_kube_client *client, struct gs_books *books,
                            const struct gs_handshake_opt *opt, struct gs_handshake **ret);
struct gs_handshake *gs_handshake_free(struct gs_handshake *handshake);
/** After the books have heard of it. */
void gs_handshake_saw_node(struct gs_handshake *handshake, const struct gs_node_view *node);
void gs_handshake_node_gone(struct gs_handshake *handshake, struct gs_str name);
void gs_handshake_stats(const struct gs_handshake *handshake, struct gs_handshake_stats *ret);
