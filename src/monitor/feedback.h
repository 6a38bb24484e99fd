#pragma once
/* What HAMi's monitor does every five seconds for priorities: it blocks and unblocks containers of
 * low priority, and has shares held where several compute. Pure.
 * Source  spec/control-plane.md 6.4. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_FEEDBACK_MS 5000u

/** One container. */
struct gs_feedback_container {
    uint64_t cards;   /**< a bit for each card it has */
    int32_t priority; /**< 0 high, 1 low; below 0: it takes no part, nor is it held */
    /** Is told (a region of HAMi's); else the two words below stay as they are, and is_active says
     *  whether it has computed lately. */
    bool is_steered;
    bool is_active;             /**< (in, out where it is steered) */
    int32_t recent_kernel;      /**< (in, out) */
    int32_t utilization_switch; /**< (out) */
};

/** One step: every GS_FEEDBACK_MS. Returns nothing; the words are changed in place. */
void gs_feedback_step(struct gs_feedback_container *c, size_t n);
