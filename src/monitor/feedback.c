#include "monitor/feedback.h"

/* A program sets the word to 2 at a launch: it counts as active until the second step after it. */
static void take_activity(struct gs_feedback_container *c)
{
    if (!c->is_steered)
        return;
    if (c->recent_kernel > 0)
        c->recent_kernel--;
    c->is_active = c->recent_kernel > 0;
}

static void steer(struct gs_feedback_container *c, const struct gs_feedback_container *all,
                  size_t n)
{
    uint64_t once = 0, twice = 0;
    bool is_blocked = false;

    for (size_t i = 0; i < n; i++) {
        uint64_t shared = all[i].cards & c->cards;

        if (!all[i].is_active || all[i].priority < 0 || shared == 0)
            continue;
        is_blocked |= all[i].priority < c->priority;
        if (all[i].priority != c->priority)
            continue;
        twice |= once & shared;
        once |= shared;
    }
    if (is_blocked && c->recent_kernel >= 0)
        c->recent_kernel = -1;
    else if (!is_blocked && c->recent_kernel < 0)
        c->recent_kernel = 0;
    c->utilization_switch = is_blocked || twice != 0;
}

void gs_feedback_step(struct gs_feedback_container *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        take_activity(&c[i]);
    for (size_t i = 0; i < n; i++)
        if (c[i].is_steered)
            steer(&c[i], c, n);
}
