#include "hook/limiter.h"

#include "hook/engine.h"
#include "hook/sys.h"

struct gs_limiter_credit gs_limiter_credit[GS_LEDGER_DEVICES];

bool gs_limiter_is_on(void)
{
    return false;
}

void gs_limiter_configure(void)
{
}

void gs_limiter_publish(void)
{
    __atomic_store_n(&gs_engine.launch_free, gs_engine.ready != 0 && !gs_limiter_is_on(),
                     __ATOMIC_RELEASE);
}

void gs_limiter_recall(void)
{
}

void gs_limiter_forget(void)
{
}

void gs_limiter_admit(uint32_t dev, uint64_t cost_ns, bool measured, const char *what)
{
    (void)dev;
    (void)cost_ns;
    (void)measured;
    (void)what;
}

void gs_limiter_cancel(uint32_t dev, uint64_t cost_ns, bool measured)
{
    (void)dev;
    (void)cost_ns;
    (void)measured;
}

void gs_limiter_settle(uint32_t dev, uint64_t cost_ns, uint64_t start_ns, uint64_t end_ns,
                       uint64_t used_ns)
{
    (void)dev;
    (void)cost_ns;
    (void)start_ns;
    (void)end_ns;
    (void)used_ns;
}

void gs_limiter_note(uint32_t dev, uint64_t start_ns, uint64_t end_ns, uint64_t used_ns)
{
    (void)dev;
    (void)start_ns;
    (void)end_ns;
    (void)used_ns;
}

void gs_limiter_busy_until(uint32_t dev, uint64_t until_ns)
{
    (void)dev;
    (void)until_ns;
}

void gs_limiter_pause(uint32_t dev, uint64_t ns, enum gs_wait_reason why, const char *what)
{
    (void)dev;
    (void)ns;
    (void)why;
    (void)what;
}

uint64_t gs_limiter_window_ns(uint32_t dev)
{
    (void)dev;
    return 20000000;
}

uint64_t gs_limiter_clock(void)
{
    return gs_sys_clock_ns(CLOCK_MONOTONIC);
}
