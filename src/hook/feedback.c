#include "hook/feedback.h"

static void enter(struct gs_feedback *f, enum gs_feedback_kind kind, uint64_t now_ns)
{
    f->kind = (uint32_t)kind;
    f->since_ns = now_ns;
}

/** Nobody but the monitor counts down, blocks or unblocks. */
static bool is_by_monitor(int32_t before, int32_t now)
{
    return now != before && (now < 0 || (now < before && now < GS_FEEDBACK_MARK) ||
                             (before == GS_FEEDBACK_ASK && now == GS_FEEDBACK_MARK));
}

static int32_t act(struct gs_feedback *f, int32_t recent, uint64_t now_ns)
{
    uint64_t spent = now_ns - f->since_ns;

    switch (f->kind) {
    case GS_FEEDBACK_YIELD:
        if (recent < 0 && spent < GS_FEEDBACK_HOLD_NS)
            return GS_FEEDBACK_LEAVE;
        if (recent < 0 || recent == GS_FEEDBACK_ASK) {
            enter(f, GS_FEEDBACK_PROBE, now_ns);
            return recent < 0 ? GS_FEEDBACK_ASK : GS_FEEDBACK_LEAVE;
        }
        break;
    case GS_FEEDBACK_PROBE:
        if (recent < 0) {
            enter(f, GS_FEEDBACK_YIELD, now_ns);
            return GS_FEEDBACK_LEAVE;
        }
        if (recent >= GS_FEEDBACK_ASK && spent < GS_FEEDBACK_ASK_NS)
            return GS_FEEDBACK_LEAVE;
        break; /* a probe's mark is left for the monitor to count down: only it takes it away */
    default:
        if (recent < 0) {
            enter(f, GS_FEEDBACK_YIELD, now_ns);
            return GS_FEEDBACK_LEAVE;
        }
        break;
    }
    if (f->kind != GS_FEEDBACK_FREE)
        enter(f, GS_FEEDBACK_FREE, now_ns);
    return recent < GS_FEEDBACK_MARK ? GS_FEEDBACK_MARK : GS_FEEDBACK_LEAVE;
}

int32_t gs_feedback_step(struct gs_feedback *f, int32_t recent, uint64_t now_ns)
{
    int32_t write;

    if (is_by_monitor(f->last, recent))
        f->live_ns = now_ns;
    write = act(f, recent, now_ns);
    f->last = write == GS_FEEDBACK_LEAVE ? recent : write;
    return write;
}

bool gs_feedback_is_live(const struct gs_feedback *f, uint64_t now_ns)
{
    return f->live_ns != 0 && now_ns - f->live_ns <= GS_FEEDBACK_DEAD_NS;
}
