#include "base/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t id)
{
    struct timespec t = {0};

    (void)clock_gettime(id, &t); /* fails for unknown clocks only */
    return (uint64_t)t.tv_sec * GS_CLOCK_S + (uint64_t)t.tv_nsec;
}

static uint64_t machine_mono(void *user)
{
    (void)user;
    return read_ns(CLOCK_MONOTONIC);
}

static uint64_t machine_real(void *user)
{
    (void)user;
    return read_ns(CLOCK_REALTIME);
}

const struct gs_clock *gs_clock_real(void)
{
    static const struct gs_clock machine = {.mono_ns = machine_mono, .real_ns = machine_real};

    return &machine;
}

static uint64_t virtual_mono(void *user)
{
    return ((const struct gs_clock_virtual *)user)->mono_ns;
}

static uint64_t virtual_real(void *user)
{
    return ((const struct gs_clock_virtual *)user)->real_ns;
}

static bool virtual_skip(void *user, uint64_t until_ns)
{
    struct gs_clock_virtual *clock = user;

    if (!clock->skips)
        return false;
    if (until_ns > clock->mono_ns)
        gs_clock_virtual_advance(clock, until_ns - clock->mono_ns);
    return true;
}

void gs_clock_virtual_init(struct gs_clock_virtual *clock, uint64_t real_ns, bool skips)
{
    *clock = (struct gs_clock_virtual){
        .clock = {.mono_ns = virtual_mono,
                  .real_ns = virtual_real,
                  .skip = virtual_skip,
                  .user = clock},
        .mono_ns = GS_CLOCK_S, /* not 0: zero means "no time" in many places */
        .real_ns = real_ns,
        .skips = skips,
    };
}

void gs_clock_virtual_advance(struct gs_clock_virtual *clock, uint64_t ns)
{
    clock->mono_ns += ns;
    clock->real_ns += ns;
}
