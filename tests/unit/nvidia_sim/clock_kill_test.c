/* Processes killed wherever they are in the time model: the card goes on, and its books agree. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "vendors/nvidia/sim/clock.h"

#define PROCS 4u
#define KILLS 500

/* Kernels alone and side by side, copies, time stamps, waits: until killed. */
static void work_for_ever(struct gs_clock *c, uint32_t slot)
{
    const struct gs_clock_who who = {.slot = slot, .group = slot, .pid = (int32_t)getpid()};
    uint64_t tag = 0, to, now;
    for (unsigned n = 0;; n++) {
        struct gs_clock_work w = {.kind = n % 7 ? GS_CLOCK_KERNEL : GS_CLOCK_UP,
                                  .load = n % 3 ? GS_CLOCK_FULL / 2 : GS_CLOCK_FULL,
                                  .cost_ns = n % 5 * 1000 + 1000,
                                  .after_ns = n % 2 ? tag : 0};
        if (!gs_clock_submit(c, &who, &w, &to))
            tag = to;
        else
            gs_clock_wait(c, slot, to);
        (void)gs_clock_mark(c, &who, tag, 0, &now);
        if (n % 64 == 0)
            gs_clock_wait(c, slot, tag);
    }
}

static pid_t start(struct gs_clock *c, uint32_t slot)
{
    pid_t pid = fork();
    if (!pid) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test must not leave it behind */
        work_for_ever(c, slot);
    }
    assert_true(pid > 0); /* -1 would mean everybody to kill() */
    return pid;
}

static void the_books_agree_whoever_dies_where(void **state)
{
    (void)state;
    struct gs_clock *c =
        mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(c != MAP_FAILED);
    gs_clock_init(c, 0);
    pid_t pid[PROCS];
    uint64_t begin = gs_clock_now(), before = 0;
    uint32_t seed = 7;
    for (uint32_t i = 0; i < PROCS; i++)
        pid[i] = start(c, i);
    for (int n = 0; n < KILLS; n++) {
        struct gs_clock_use use[PROCS], all;
        seed = seed * 1664525u + 1013904223u;
        uint32_t i = (seed >> 24) % PROCS;
        const struct timespec ts = {.tv_nsec = (long)(seed >> 12 & 0xfffff)};
        nanosleep(&ts, NULL); /* so that they get anywhere */
        assert_int_equal(kill(pid[i], SIGKILL), 0);
        assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
        gs_clock_drop(c, i);
        pid[i] = start(c, i);
        /* the others go on in between, however long that is */
        uint64_t card_before = __atomic_load_n(&c->busy_ns, __ATOMIC_RELAXED);
        uint64_t t = gs_clock_groups(c, use, PROCS, &all);
        uint64_t card_after = __atomic_load_n(&c->busy_ns, __ATOMIC_RELAXED);
        assert_true(all.busy_ns >= before && all.busy_ns <= t - begin);
        assert_true(card_before <= all.busy_ns && all.busy_ns <= card_after);
        before = all.busy_ns;
    }
    for (uint32_t i = 0; i < PROCS; i++) {
        (void)kill(pid[i], SIGKILL);
        (void)waitpid(pid[i], NULL, 0);
    }
    assert_true(before > 0);
    (void)munmap(c, sizeof(*c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_books_agree_whoever_dies_where)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
