#include "vendors/nvidia/hook/window.h"

#include <string.h>

#include "contract/ledger.h"
#include "hook/limiter.h"
#include "vendors/nvidia/hook/launch_stream.h"

/* How much longer than the estimates of its launches a stream may seem to work before that is
 * charged: so much at all, for each launch, and where others have turns, too. Below that
 * samples decide. */
#define SLACK_NS       2000000u
#define SLACK_EACH_NS  100000u
#define SLACK_TURNS_NS 10000000u
/* So much of that is remembered. */
#define SLACK_MOST_NS UINT64_C(10000000000)
/* What is forgiven of it: programs and machines have their hitches. */
#define FORGIVEN_PART     100u
#define FORGIVEN_MOST_NS  UINT64_C(50000000)
#define FORGIVEN_FIRST_NS 2000000u
/* Windows looked at closely after such a surprise; each surprise more makes it longer. */
#define ATTEND_FIRST   1024u
#define ATTEND_TIMES   8u
#define ATTEND_MOST    65536u
#define ATTEND_CALM_NS 2000000000u /* without one: begin anew */

static struct {
    _Alignas(64) uint32_t attend; /* launches still to be measured one by one */
    uint32_t attend_next;         /* so many after the next surprise */
    uint64_t attend_ns;           /* when the last one was */
    uint64_t slack_ns;            /* the harvester's: out so much longer than paid */
    uint64_t forgiven_ns;         /* the harvester's: when nothing had been forgiven */
} windows[GS_LEDGER_DEVICES];

static uint64_t slack_ns(uint64_t launches, bool has_turns)
{
    return SLACK_NS + launches * (has_turns ? SLACK_EACH_NS + SLACK_TURNS_NS : SLACK_EACH_NS);
}

bool gs_window_is_surprise(uint32_t dev, uint64_t out_ns, uint64_t window)
{
    uint64_t launches = window >> GS_LAUNCH_NS_BITS, paid = GS_LAUNCH_NS(window);

    /* whether others take turns is not asked after each wait of a program */
    return out_ns > paid + slack_ns(launches, false) &&
           out_ns > paid + slack_ns(launches, gs_limiter_takes_turns(dev));
}

/* What may be forgiven by now, and is: the rest of `ns`. */
static uint64_t less_forgiven(uint32_t dev, uint64_t ns, uint64_t now_ns)
{
    uint64_t *full = &windows[dev].forgiven_ns, most = FORGIVEN_MOST_NS * FORGIVEN_PART;
    uint64_t have;

    if (*full == 0)
        *full = now_ns - FORGIVEN_FIRST_NS * FORGIVEN_PART;
    if (now_ns > most && *full < now_ns - most)
        *full = now_ns - most;
    have = now_ns > *full ? (now_ns - *full) / FORGIVEN_PART : 0;
    have = have < ns ? have : ns;
    *full += have * FORGIVEN_PART;
    return ns - have;
}

static void pay_attention(uint32_t dev, uint64_t now_ns)
{
    uint32_t n = windows[dev].attend_next;

    if (n == 0 || now_ns > windows[dev].attend_ns + ATTEND_CALM_NS)
        n = ATTEND_FIRST;
    windows[dev].attend_ns = now_ns;
    __atomic_store_n(&windows[dev].attend, n, __ATOMIC_RELAXED);
    n = n < ATTEND_MOST / ATTEND_TIMES ? n * ATTEND_TIMES : ATTEND_MOST;
    __atomic_store_n(&windows[dev].attend_next, n, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++)
        __atomic_store_n(&gs_launch_streams[i].want, GS_LAUNCH_MEASURE, __ATOMIC_RELAXED);
}

bool gs_window_is_attending(uint32_t dev)
{
    return __atomic_load_n(&windows[dev].attend, __ATOMIC_RELAXED) != 0;
}

void gs_window_attended(uint32_t dev)
{
    uint32_t left = __atomic_load_n(&windows[dev].attend, __ATOMIC_RELAXED);

    if (left > 0)
        __atomic_store_n(&windows[dev].attend, left - 1, __ATOMIC_RELAXED);
}

uint64_t gs_window_surprise(uint32_t dev, uint64_t ns, uint64_t now_ns)
{
    pay_attention(dev, now_ns);
    return less_forgiven(dev, ns, now_ns);
}

void gs_window_slack(uint32_t dev, uint64_t more_ns)
{
    uint64_t *slack = &windows[dev].slack_ns;

    more_ns = more_ns < SLACK_MOST_NS ? more_ns : SLACK_MOST_NS;
    *slack = *slack + more_ns < SLACK_MOST_NS ? *slack + more_ns : SLACK_MOST_NS;
}

int64_t gs_window_unseen(uint32_t dev, int64_t more_ns, uint64_t launches)
{
    uint64_t *slack = &windows[dev].slack_ns;
    /* what is longer is charged with its window */
    int64_t most = (int64_t)slack_ns(launches + 1, gs_limiter_takes_turns(dev)), unseen;

    unseen = (more_ns < most ? more_ns : most) * (int64_t)launches;
    if (unseen > (int64_t)*slack)
        unseen = (int64_t)*slack;
    if (unseen > 0)
        *slack -= (uint64_t)unseen;
    return unseen;
}

void gs_window_forget(void)
{
    memset(windows, 0, sizeof(windows));
}
