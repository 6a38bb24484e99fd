#include "vendors/nvidia/hook/sight.h"

#include "core/atomics.h"
#include "hook/limiter.h"
#include "hook/ring.h"
#include "vendors/nvidia/hook/timing.h"

#define FAILURES_TO_TELL 8u
#define RETRY_NS         1000000000u

static uint32_t failures; /* in a row */
static uint32_t told;
static uint64_t retry_ns;

void gs_sight_trouble(uint32_t dev, const char *what)
{
    if (__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED) == 0)
        gs_ring_log(GS_REASON_OPEN_LOOP, dev, what, NULL);
}

void gs_sight_fail(uint32_t dev, const char *what)
{
    if (!gs_timing_is_there())
        __atomic_store_n(&failures, FAILURES_TO_TELL, __ATOMIC_RELAXED);
    else if (__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) < FAILURES_TO_TELL)
        return;
    gs_sight_trouble(dev, what);
}

void gs_sight_lose(uint32_t dev, const char *what)
{
    __atomic_store_n(&failures, FAILURES_TO_TELL, __ATOMIC_RELAXED);
    __atomic_store_n(&retry_ns, gs_limiter_clock() + RETRY_NS, __ATOMIC_RELAXED);
    gs_sight_fail(dev, what);
}

bool gs_sight_is_lost(uint64_t now_ns)
{
    if (GS_LIKELY(__atomic_load_n(&failures, __ATOMIC_RELAXED) < FAILURES_TO_TELL))
        return false;
    if (now_ns < __atomic_load_n(&retry_ns, __ATOMIC_RELAXED))
        return true;
    __atomic_store_n(&retry_ns, now_ns + RETRY_NS, __ATOMIC_RELAXED);
    return false;
}

void gs_sight_good(void)
{
    __atomic_store_n(&failures, 0, __ATOMIC_RELAXED);
}

void gs_sight_forget(void)
{
    failures = told = 0;
}
