#include "vendors/nvidia/hook/copy_time.h"

#include <sys/resource.h>
#include <time.h>

#include "hook/limiter.h"
#include "hook/sys.h"

/* An event is passed so late after a call that had nothing left to do, at most. */
#define BEHIND_NS 3000u

void gs_copy_time_begin(struct gs_copy_time *ret, uint64_t recorded_ns)
{
    struct rusage use = {0};

    (void)GS_SYS(SYS_getrusage, RUSAGE_THREAD, &use); /* cannot fail */
    *ret = (struct gs_copy_time){.host_ns = recorded_ns,
                                 .wall_ns = gs_limiter_clock(),
                                 .cpu_ns = gs_sys_clock_ns(CLOCK_THREAD_CPUTIME_ID),
                                 .sleeps = (uint64_t)use.ru_nvcsw};
}

void gs_copy_time_end(struct gs_copy_time *t, bool was_idle)
{
    struct gs_copy_time now;

    gs_copy_time_begin(&now, 0);
    t->wall_ns = now.wall_ns - t->wall_ns;
    t->cpu_ns = now.cpu_ns - t->cpu_ns;
    t->sleeps = now.sleeps - t->sleeps;
    /* with work before it on the stream nothing of the call lies between the copy's events */
    t->host_ns = was_idle ? gs_limiter_clock() - t->host_ns : 0;
}

/* Where the card is still at it behind the call, it was all the time. Else its own for sure is what
 * the thread slept through (one that did not go to sleep by itself was only pushed aside). */
uint64_t gs_copy_time_of(const struct gs_copy_time *t, uint64_t took_ns, uint64_t least_ns)
{
    uint64_t slept = t->sleeps != 0 && t->wall_ns > t->cpu_ns ? t->wall_ns - t->cpu_ns : 0;
    uint64_t behind = took_ns > t->host_ns ? took_ns - t->host_ns : 0;
    uint64_t card = slept + behind;

    if (behind > BEHIND_NS + t->host_ns / 8)
        return took_ns;
    card = card > least_ns ? card : least_ns;
    return card < took_ns ? card : took_ns;
}
