#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

static void the_machines_clocks_agree_with_the_system(void **state)
{
    const struct gs_clock *clock = gs_clock_real();
    struct timespec before, after;

    (void)state;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    uint64_t now = gs_clock_mono_ns(clock);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    assert_in_range(now, (uint64_t)before.tv_sec * 1000000000u + (uint64_t)before.tv_nsec,
                    (uint64_t)after.tv_sec * 1000000000u + (uint64_t)after.tv_nsec);
    time_t s = time(NULL); /* a coarse clock of its own: it may lag by a tick */
    assert_in_range(gs_clock_real_ns(clock) / 1000000000u, (uint64_t)s, (uint64_t)s + 2);
    assert_null(clock->skip);
}

static void a_virtual_clock_moves_when_told(void **state)
{
    struct gs_clock_virtual clock;

    (void)state;
    gs_clock_virtual_init(&clock, 5 * GS_CLOCK_S, true);
    uint64_t start = gs_clock_mono_ns(&clock.clock);
    assert_true(start > 0);
    assert_int_equal(gs_clock_real_ns(&clock.clock), 5 * GS_CLOCK_S);
    gs_clock_virtual_advance(&clock, 7);
    assert_int_equal(gs_clock_mono_ns(&clock.clock), start + 7);
    assert_int_equal(gs_clock_real_ns(&clock.clock), 5 * GS_CLOCK_S + 7);
    assert_true((clock.clock.skip)(clock.clock.user, start + 100));
    assert_int_equal(gs_clock_mono_ns(&clock.clock), start + 100);
    assert_true((clock.clock.skip)(clock.clock.user, start)); /* never back */
    assert_int_equal(gs_clock_mono_ns(&clock.clock), start + 100);
    clock.skips = false;
    assert_false((clock.clock.skip)(clock.clock.user, start + 200));
    assert_int_equal(gs_clock_mono_ns(&clock.clock), start + 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_machines_clocks_agree_with_the_system),
        cmocka_unit_test(a_virtual_clock_moves_when_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
