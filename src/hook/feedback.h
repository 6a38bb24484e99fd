#pragma once
/* HAMi's monitor and its priorities, as a state machine over the two words that it and the
 * processes of a container share (struct gs_hami_region): recent_kernel and utilization_switch.
 *
 * The monitor, every 5 s: a recent_kernel above 0 is counted down by one; above 0 still, the
 * container counts as active; a container with a more important active one on its card gets -1;
 * one that need not wait any longer gets 0. utilization_switch is 0 where it has the card for
 * itself. A monitor that dies leaves -1 for ever: so a block is probed after a while, and ends
 * where nobody renews it.
 *
 * Pure: time and words are parameters. Source: HAMi's monitor as its protocol shows. */

#include <stdbool.h>
#include <stdint.h>

enum gs_feedback_kind {
    GS_FEEDBACK_FREE,
    GS_FEEDBACK_YIELD, /**< the monitor wants us to make way */
    GS_FEEDBACK_PROBE, /**< we, or another process of the slice, asked whether it still does */
};

struct gs_feedback {
    uint32_t kind;     /**< enum gs_feedback_kind */
    int32_t last;      /**< recent_kernel as it was left */
    uint64_t since_ns; /**< when the present kind began */
    uint64_t live_ns;  /**< when the monitor was last seen to do anything; 0 never */
};

/** What we write: the mark of a launch, and of a probe (a mate can tell them apart; to the monitor
 *  both say "active"). */
#define GS_FEEDBACK_MARK  2
#define GS_FEEDBACK_ASK   3
#define GS_FEEDBACK_LEAVE INT32_MIN /**< write nothing */

/** How long a block holds without being probed, and how long the probe waits for an answer (one
 *  tick of the monitor and a little). */
#define GS_FEEDBACK_HOLD_NS UINT64_C(10000000000)
#define GS_FEEDBACK_ASK_NS  UINT64_C(6000000000)
/** Silent for longer than this, two ticks and a little, the monitor counts as dead. */
#define GS_FEEDBACK_DEAD_NS UINT64_C(12000000000)

/** A launch comes by and finds `recent`. Returns what to write there, or GS_FEEDBACK_LEAVE. */
int32_t gs_feedback_step(struct gs_feedback *f, int32_t recent, uint64_t now_ns);

/** Has the slice to make way now? */
static inline bool gs_feedback_is_yielding(const struct gs_feedback *f)
{
    return f->kind != GS_FEEDBACK_FREE;
}

/** Does the monitor live, so that its utilization_switch means something? */
bool gs_feedback_is_live(const struct gs_feedback *f, uint64_t now_ns);
