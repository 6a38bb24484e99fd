#include "vendors/nvidia/hook/timing.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "hook/limiter.h"
#include "hook/spin.h"
#include "vendors/nvidia/hook/driver.h"

#define CLOCKS      16u /* contexts; more go without a base event */
#define BASES       4u  /* so long, in seconds, an event can be placed */
#define RENEW_NS    1000000000u
#define MOST_MS     1e9f
#define DRIFT_PART  8192 /* the clocks of card and host run apart by less: 122 us a second */
#define TIMING_ONLY 0u   /* flags of an event: CU_EVENT_DEFAULT, which is timed */

/* `lock` guards all of it but the events' own state; never held across a driver call. */
static struct clock {
    CUcontext context;
    uint32_t newest;
    bool renewing;
    struct base {
        CUevent event;
        uint64_t generation; /* 0 never recorded */
        uint64_t recorded_ns;
        int64_t earliest_ns, latest_ns; /* when the card passed it */
        uint64_t before;                /* generation of the base before it, until asked; 0 none */
    } base[BASES];
} clocks[CLOCKS];
static uint64_t lock;
static uint64_t generations;

bool gs_timing_is_there(void)
{
    const struct gs_driver *cuda = gs_driver_cuda();

    return cuda->cuEventCreate != NULL && cuda->cuEventRecord != NULL &&
           cuda->cuEventQuery != NULL && cuda->cuEventElapsedTime != NULL &&
           cuda->cuEventDestroy_v2 != NULL;
}

CUevent gs_timing_event_new(void)
{
    CUevent event = NULL;

    if (!gs_timing_is_there() ||
        gs_driver_cuda()->cuEventCreate(&event, TIMING_ONLY) != CUDA_SUCCESS)
        return NULL;
    return event;
}

void gs_timing_event_free(CUevent event)
{
    if (event != NULL)
        (void)gs_driver_cuda()->cuEventDestroy_v2(event); /* gone with its context: as good */
}

bool gs_timing_record(CUevent event, const struct gs_timing_where *where)
{
    const struct gs_driver *cuda = gs_driver_cuda();

    if (where->per_thread && cuda->cuEventRecord_ptsz != NULL)
        return cuda->cuEventRecord_ptsz(event, where->stream) == CUDA_SUCCESS;
    return cuda->cuEventRecord(event, where->stream) == CUDA_SUCCESS;
}

/* Inside a host function of a stream, where some stream is being captured, and in a thread without
 * a context, the driver may refuse to say. */
static bool is_later(CUresult result)
{
    return result == CUDA_ERROR_NOT_READY || result == CUDA_ERROR_NOT_PERMITTED ||
           result == CUDA_ERROR_INVALID_CONTEXT ||
           (result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
            result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

int gs_timing_query(CUevent event)
{
    CUresult result = gs_driver_cuda()->cuEventQuery(event);

    if (result == CUDA_SUCCESS)
        return 1;
    return is_later(result) ? 0 : -EIO;
}

int gs_timing_between(CUevent from, CUevent to, int64_t *ret_ns)
{
    float ms = 0;

    if (gs_driver_cuda()->cuEventElapsedTime(&ms, from, to) != CUDA_SUCCESS ||
        !(ms > -MOST_MS && ms < MOST_MS)) /* not a number, too */
        return -EIO;
    *ret_ns = (int64_t)((double)ms * 1e6);
    return 0;
}

static struct clock *find_clock(CUcontext context)
{
    struct clock *free_one = NULL;

    for (uint32_t i = 0; i < CLOCKS; i++) {
        if (clocks[i].context == context)
            return &clocks[i];
        if (clocks[i].context == NULL && free_one == NULL)
            free_one = &clocks[i];
    }
    if (free_one != NULL)
        *free_one = (struct clock){.context = context};
    return free_one;
}

/* Whether it is this thread that renews the base; says where. */
static struct base *begin_renewal(struct clock *c, uint64_t now_ns)
{
    const struct base *newest = &c->base[c->newest];

    if (c->renewing || (newest->generation != 0 && now_ns < newest->recorded_ns + RENEW_NS))
        return NULL;
    c->renewing = true;
    return &c->base[(c->newest + 1) % BASES];
}

static struct gs_timing_base newest_of(const struct clock *c)
{
    if (c->base[c->newest].generation == 0)
        return (struct gs_timing_base){0, 0, 0};
    return (struct gs_timing_base){(uint32_t)(c - clocks) + 1, c->newest,
                                   c->base[c->newest].generation};
}

struct gs_timing_base gs_timing_base_get(const struct gs_timing_where *where, uint64_t now_ns)
{
    struct gs_timing_base answer = {0, 0, 0};
    struct base *renew = NULL;
    struct clock *c;
    CUevent event = NULL;
    bool ok;

    gs_spin_lock(&lock);
    c = find_clock(where->context);
    if (c != NULL)
        renew = begin_renewal(c, now_ns);
    if (renew != NULL) {
        renew->generation = 0; /* what refers to it falls back on the moment it is seen */
        event = renew->event;
        renew->event = NULL;
    } else if (c != NULL) {
        answer = newest_of(c);
    }
    gs_spin_unlock(&lock);
    if (renew == NULL)
        return answer;

    if (event == NULL)
        event = gs_timing_event_new();
    ok = event != NULL && gs_timing_record(event, where);
    gs_spin_lock(&lock);
    if (c->context == where->context) { /* not purged meanwhile */
        renew->event = event;
        event = NULL;
        renew->recorded_ns = now_ns;
        renew->earliest_ns = (int64_t)now_ns;
        renew->latest_ns = INT64_MAX;
        renew->before = c->base[c->newest].generation;
        c->renewing = false;
        if (ok) {
            renew->generation = ++generations;
            c->newest = (uint32_t)(renew - c->base);
        }
        answer = newest_of(c);
    }
    gs_spin_unlock(&lock);
    gs_timing_event_free(event);
    return answer;
}

/* The event of a base that is still what it was. */
static CUevent base_event(const struct gs_timing_base *base)
{
    const struct base *b;
    CUevent event = NULL;

    if (base->clock == 0)
        return NULL;
    b = &clocks[base->clock - 1].base[base->slot];
    gs_spin_lock(&lock);
    if (b->generation == base->generation)
        event = b->event;
    gs_spin_unlock(&lock);
    return event;
}

/* The base before this one, if it is still there and nobody has asked for it yet. */
static struct gs_timing_base take_before(const struct gs_timing_base *base)
{
    struct gs_timing_base before = {0, 0, 0};
    struct base *b = &clocks[base->clock - 1].base[base->slot];

    gs_spin_lock(&lock);
    if (b->generation == base->generation) {
        before.generation = b->before;
        b->before = 0;
    }
    gs_spin_unlock(&lock);
    if (before.generation != 0) {
        before.clock = base->clock;
        before.slot = (base->slot + BASES - 1) % BASES;
    }
    return before;
}

/* What is known of the base before holds for this one, so much later. Its own events alone would
 * not do at first: a program with long kernels looks when it likes, and what it then saw would be
 * placed there, tens of milliseconds late, beside work of others that was not beside it. A bound
 * that drifted too low is corrected by the earliest of later events. */
static void inherit(const struct gs_timing_base *base, CUevent zero)
{
    struct gs_timing_base before = take_before(base);
    CUevent event = base_event(&before);
    struct base *b = &clocks[base->clock - 1].base[base->slot];
    const struct base *from = &clocks[base->clock - 1].base[before.slot];
    int64_t at, d;

    if (event == NULL || gs_timing_between(event, zero, &d) < 0)
        return;
    gs_spin_lock(&lock);
    if (b->generation == base->generation && from->generation == before.generation &&
        from->latest_ns != INT64_MAX) {
        at = d + (d < 0 ? -d : d) / DRIFT_PART +
             (from->latest_ns > from->earliest_ns ? from->latest_ns : from->earliest_ns);
        if (b->latest_ns > at)
            b->latest_ns = at;
    }
    gs_spin_unlock(&lock);
}

/* Narrow down when the card passed the base, and answer with it. 0: not known. */
static int64_t narrow(const struct gs_timing_base *base, int64_t earliest_ns, int64_t latest_ns)
{
    struct base *b = &clocks[base->clock - 1].base[base->slot];
    int64_t at = 0;

    gs_spin_lock(&lock);
    if (b->generation == base->generation) {
        if (b->earliest_ns < earliest_ns)
            b->earliest_ns = earliest_ns;
        if (b->latest_ns > latest_ns)
            b->latest_ns = latest_ns;
        at = b->latest_ns > b->earliest_ns ? b->latest_ns : b->earliest_ns;
    }
    gs_spin_unlock(&lock);
    return at;
}

struct gs_timing_span gs_timing_place(const struct gs_timing_base *base, CUevent from, CUevent to,
                                      uint64_t recorded_ns, uint64_t seen_ns)
{
    CUevent zero = base_event(base);
    int64_t start = 0, end = 0, at = 0;

    if (zero != NULL && gs_timing_between(zero, from, &start) == 0 &&
        gs_timing_between(zero, to, &end) == 0) {
        inherit(base, zero);
        at = narrow(base, (int64_t)recorded_ns - start, (int64_t)seen_ns - end);
    }
    if (at != 0) {
        start += at;
        end += at;
    } else {
        end = (int64_t)seen_ns;
        start = gs_timing_between(from, to, &at) == 0 ? end - at : end;
    }
    if (end > (int64_t)seen_ns)
        end = (int64_t)seen_ns;
    if (end < 0)
        end = 0;
    if (start > end)
        start = end;
    return (struct gs_timing_span){start < 0 ? 0 : (uint64_t)start, (uint64_t)end};
}

void gs_timing_purge(CUcontext context)
{
    CUevent events[BASES] = {NULL};

    gs_spin_lock(&lock);
    for (uint32_t i = 0; i < CLOCKS; i++) {
        if (clocks[i].context != context)
            continue;
        for (uint32_t k = 0; k < BASES; k++)
            events[k] = clocks[i].base[k].event;
        memset(&clocks[i], 0, sizeof(clocks[i]));
    }
    gs_spin_unlock(&lock);
    for (uint32_t k = 0; k < BASES; k++)
        gs_timing_event_free(events[k]);
}

void gs_timing_forget(void)
{
    memset(clocks, 0, sizeof(clocks));
    lock = 0;
}
