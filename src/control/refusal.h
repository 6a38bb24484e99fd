#pragma once
/* Why each of thousands of nodes does not take a pod, in the answer of a filter. Most of them lack
 * the same: what one said is remembered with the node (gs_books_note_refusal()) for the next pod
 * that asks for the same, and each text is written once. */

#include <stdint.h>

#include "base/arena.h"
#include "control/books.h"
#include "control/extender.h"
#include "control/shortage.h"
#include "core/cleanup.h"
#include "model/place.h"

#define GS_REFUSAL_TEXTS 64 /* a power of two */

struct gs_refusals {
    struct gs_books *books;
    const struct gs_ask *ask;
    struct gs_extender_reply *reply;
    struct gs_shortage *shortage;
    uint64_t hash;           /**< of what is asked for */
    struct gs_arena scratch; /**< of one placing */
    struct {
        uint64_t hash;      /**< of gs_books_refusal */
        struct gs_str text; /**< kept by the reply; empty: none */
    } known[GS_REFUSAL_TEXTS];
};

/** Everything is borrowed. Release with gs_refusals_fini(). */
void gs_refusals_init(struct gs_refusals *r, struct gs_books *books, const struct gs_ask *ask,
                      struct gs_extender_reply *reply, struct gs_shortage *shortage);
void gs_refusals_fini(struct gs_refusals *r);
/** Ask a node why, and say so in the answer; NULL: it has no devices of ours. `name` lives until
 *  the answer is written. 0; -EAGAIN it takes the pod; -ENOMEM. */
GS_WUR int gs_refusals_add(struct gs_refusals *r, const struct gs_node *node, struct gs_str name);
