#include "vendors/nvidia/hook/window.h"

#include <string.h>

#include "contract/ledger.h"
#include "hook/limiter.h"
#include "vendors/nvidia/hook/cost.h"
#include "vendors/nvidia/hook/launch_stream.h"

/* How much longer than the estimates of its launches a stream may seem to work before that is
 * charged: so much at all, and for each launch, others' turns not counted. Below that samples
 * decide. */
#define SLACK_NS      2000000u
#define SLACK_EACH_NS 100000u
/* Of others' turns so much at most. */
#define SLACK_TURNS_NS UINT64_C(10000000)
/* So much of that is remembered. */
#define SLACK_MOST_NS INT64_C(10000000000)
/* Windows looked at closely after such a surprise; each surprise more makes it longer. */
#define ATTEND_FIRST   1024u
#define ATTEND_TIMES   8u
#define ATTEND_MOST    65536u
#define ATTEND_CALM_NS 2000000000u /* without one: begin anew */

static struct {
    _Alignas(64) uint32_t attend; /* launches still to be measured one by one */
    uint32_t attend_next;         /* so many after the next surprise */
    uint32_t doubtful;            /* 1: whether the program takes its time or not */
    uint32_t has_begun;           /* 1: it has launched something */
    uint64_t attend_ns;           /* when the last one was */
    int64_t slack_ns;             /* the harvester's: out so much longer than paid */
} windows[GS_LEDGER_DEVICES];

uint64_t gs_window_turns_ns(uint32_t dev, struct gs_span span, uint64_t turns)
{
    uint64_t others = gs_limiter_others(dev), at_work, each;

    if (others == 0 || others == GS_LIMITER_MANY)
        return others == 0 ? 0 : UINT64_MAX;
    at_work = gs_limiter_others_ns(dev, span.start_ns, span.end_ns);
    if (__builtin_mul_overflow(others * GS_COST_TURN_NS, turns, &each) || at_work < each)
        return at_work;
    return each;
}

static uint64_t slack_ns(uint64_t launches, uint64_t turns_ns)
{
    uint64_t most = launches * SLACK_TURNS_NS;

    return SLACK_NS + launches * SLACK_EACH_NS + (turns_ns < most ? turns_ns : most);
}

static void attend(uint32_t dev, uint32_t n)
{
    __atomic_store_n(&windows[dev].attend, n, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++)
        __atomic_store_n(&gs_launch_streams[i].want, GS_LAUNCH_WATCH, __ATOMIC_RELAXED);
}

static void pay_attention(uint32_t dev, uint64_t now_ns)
{
    uint32_t n = windows[dev].attend_next;

    if (n == 0 || now_ns > windows[dev].attend_ns + ATTEND_CALM_NS)
        n = ATTEND_FIRST;
    windows[dev].attend_ns = now_ns;
    attend(dev, n);
    n = n < ATTEND_MOST / ATTEND_TIMES ? n * ATTEND_TIMES : ATTEND_MOST;
    __atomic_store_n(&windows[dev].attend_next, n, __ATOMIC_RELAXED);
}

void gs_window_begin(uint32_t dev)
{
    if (GS_LIKELY(__atomic_load_n(&windows[dev].has_begun, __ATOMIC_RELAXED) != 0))
        return;
    __atomic_store_n(&windows[dev].has_begun, 1, __ATOMIC_RELAXED);
    if (!gs_limiter_is_unlike(dev, gs_limiter_clock()))
        return;
    attend(dev, ATTEND_FIRST);
    __atomic_store_n(&windows[dev].doubtful, 1, __ATOMIC_RELAXED);
}

bool gs_window_is_attending(uint32_t dev)
{
    return __atomic_load_n(&windows[dev].attend, __ATOMIC_RELAXED) != 0;
}

void gs_window_doubt(uint32_t dev, uint64_t now_ns)
{
    pay_attention(dev, now_ns);
    __atomic_store_n(&windows[dev].doubtful, 1, __ATOMIC_RELAXED);
    gs_limiter_note_unlike(dev, now_ns);
}

bool gs_window_is_doubtful(uint32_t dev)
{
    return __atomic_load_n(&windows[dev].doubtful, __ATOMIC_RELAXED) != 0;
}

bool gs_window_judge(uint32_t dev, struct gs_span span, uint64_t out_ns, uint64_t window)
{
    uint64_t launches = window >> GS_LAUNCH_NS_BITS, paid = GS_LAUNCH_NS(window), turns;

    /* whether others take turns is not asked after each wait of a program */
    if (out_ns <= paid + slack_ns(launches, 0))
        return false;
    turns = gs_window_turns_ns(dev, span, launches);
    if (turns == 0 || out_ns > paid + slack_ns(launches, UINT64_MAX))
        return true;
    /* not charged: where processors are scarce programs see the end of their work late */
    if (out_ns > paid + slack_ns(launches, turns) && !gs_window_is_doubtful(dev)) {
        if (__atomic_load_n(&windows[dev].attend, __ATOMIC_RELAXED) < ATTEND_FIRST)
            attend(dev, ATTEND_FIRST); /* no longer than that, unless launches renew the doubt */
        __atomic_store_n(&windows[dev].doubtful, 1, __ATOMIC_RELAXED);
    }
    return false;
}

void gs_window_attended(uint32_t dev)
{
    uint32_t left = __atomic_load_n(&windows[dev].attend, __ATOMIC_RELAXED);

    if (left > 0)
        __atomic_store_n(&windows[dev].attend, left - 1, __ATOMIC_RELAXED);
    if (left <= 1)
        __atomic_store_n(&windows[dev].doubtful, 0, __ATOMIC_RELAXED);
}

static void add_slack(uint32_t dev, int64_t ns)
{
    int64_t next = windows[dev].slack_ns + ns;

    windows[dev].slack_ns = next > SLACK_MOST_NS    ? SLACK_MOST_NS
                            : next < -SLACK_MOST_NS ? -SLACK_MOST_NS
                                                    : next;
}

uint64_t gs_window_surprise(uint32_t dev, uint64_t ns, uint64_t now_ns)
{
    pay_attention(dev, now_ns);
    add_slack(dev, -(int64_t)(ns < SLACK_MOST_NS ? ns : SLACK_MOST_NS)); /* samples need not */
    return gs_limiter_less_forgiven(dev, ns);
}

void gs_window_slack(uint32_t dev, uint64_t more_ns)
{
    add_slack(dev, (int64_t)(more_ns < SLACK_MOST_NS ? more_ns : SLACK_MOST_NS));
}

int64_t gs_window_unseen(uint32_t dev, int64_t more_ns, uint64_t launches)
{
    uint64_t turns = gs_limiter_is_shared(dev) ? UINT64_MAX : 0;
    int64_t most = (int64_t)slack_ns(launches + 1, turns);
    int64_t have = windows[dev].slack_ns > 0 ? windows[dev].slack_ns : 0, unseen;

    /* what is longer is charged with its window */
    unseen = more_ns < most ? more_ns * (int64_t)launches : 0;
    if (unseen > have)
        unseen = have;
    if (unseen > 0)
        add_slack(dev, -unseen);
    return unseen;
}

void gs_window_forget(void)
{
    memset(windows, 0, sizeof(windows));
}
