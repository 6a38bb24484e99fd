#pragma once
/* Why a pod waits, in full: every node, what it lacks, who holds the card that comes closest, and
 * which pods would have to end. By the same books and the same placing as the daemon's filter. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "control/books.h"
#include "core/cleanup.h"
#include "model/place.h"

/** Somebody who holds a part of a card, or of a node. */
struct gs_explain_holder {
    struct gs_str ns, name; /**< empty: nobody knows who */
    int32_t mem_mib, cores, slots;
    int32_t priority;
    bool is_reservation; /**< promised, not bound yet */
};

struct gs_explain_node {
    struct gs_str name;
    bool fits;
    struct gs_str cards;   /**< fits: what would be given, "GPU-a, GPU-b" */
    struct gs_str reasons; /**< else: as the filter's answer has it, "2/8 CardTypeMismatch" */
    struct gs_str words;   /**< and for people */
    struct gs_str closest; /**< card that comes closest; empty: no card does */
    const struct gs_explain_holder *holder; /**< of that card */
    size_t n_holders;
    const struct gs_explain_holder *end; /**< a small set of pods whose end would make room */
    size_t n_ends;                       /**< 0: no end of others would */
};

/** Something of what a node says cannot be read; what was known before of its cards holds. */
struct gs_explain_trouble {
    struct gs_str node;
    const char *text;
};

/** Nodes are counted as a filter that is asked for all of them counts them. */
struct gs_explanation {
    struct gs_ask ask;                  /**< n_lines 0: the pod asks for nothing of ours */
    const struct gs_explain_node *node; /**< those that fit first, then by how few would have to
                                           end, then by name */
    size_t n_nodes, n_fit;
    const struct gs_explain_trouble *trouble; /**< by name */
    size_t n_troubles;
    struct gs_str sentence; /**< as the event has it; empty where some node fits */
};

struct gs_explain_opt {
    struct gs_str device_policy, node_policy; /**< as the daemon's flags */
};

/** What the pod itself holds is to be out of the books (gs_books_pod_gone()).
 *  Returns  0; -EINVAL an annotation of the pod is wrong; -ENOMEM.
 *  Owner    all in the arena, or views of books and pod. */
GS_WUR int gs_explain(struct gs_books *books, const struct gs_pod *pod,
                      const struct gs_explain_opt *opt, struct gs_arena *arena,
                      struct gs_explanation *ret, struct gs_err *err);
