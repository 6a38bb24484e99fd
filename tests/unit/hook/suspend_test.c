#include "hook/suspend.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/env.h"
#include "hook/attach.h"
#include "hook/gate.h"
#include "slice.h"

static int setup(void **state)
{
    (void)state;
    slice_setup();
    assert_true(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
    assert_true(signal(SIGUSR2, SIG_DFL) != SIG_ERR);
    (void)unsetenv(GS_ENV_SIGNALS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slice_teardown();
    return 0;
}

static bool is_default(int signo)
{
    struct sigaction now;

    assert_int_equal(sigaction(signo, NULL, &now), 0);
    return now.sa_handler == SIG_DFL;
}

static uint32_t flags(void)
{
    return gs_self.ledger->slot[gs_self.slot].flags;
}

static void own_handler(int signo)
{
    (void)signo;
}

static void signals_set_the_status(void **state)
{
    struct sigaction now;

    (void)state;
    slice_attach();
    assert_int_equal(flags(), GS_SLOT_SIGNALS);
    assert_int_equal(sigaction(SIGUSR2, NULL, &now), 0);
    assert_int_equal(now.sa_flags & SA_RESTART, SA_RESTART);
    assert_false(gs_suspend_is_on());
    errno = 77;
    assert_int_equal(raise(SIGUSR2), 0);
    assert_int_equal(errno, 77);
    assert_true(gs_suspend_is_on());
    assert_int_equal(gs_self.region->slot[0].status, 2);
    assert_int_equal(raise(SIGUSR1), 0);
    assert_false(gs_suspend_is_on());
    assert_int_equal(gs_self.region->slot[0].status, 1);
}

static void a_program_with_a_handler_keeps_both(void **state)
{
    struct sigaction now;

    (void)state;
    assert_true(signal(SIGUSR1, own_handler) != SIG_ERR);
    slice_attach();
    assert_int_equal(flags(), 0);
    assert_true(is_default(SIGUSR2));
    assert_int_equal(sigaction(SIGUSR1, NULL, &now), 0);
    assert_true(now.sa_handler == own_handler);
}

static void ignored_is_used(void **state)
{
    (void)state;
    assert_true(signal(SIGUSR2, SIG_IGN) != SIG_ERR);
    slice_attach();
    assert_int_equal(flags(), 0);
    assert_true(is_default(SIGUSR1));
}

/** Blocked: somebody waits for it with sigwait or a descriptor. */
static void blocked_is_used(void **state)
{
    sigset_t set;

    (void)state;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &set, NULL), 0);
    slice_attach();
    assert_int_equal(sigprocmask(SIG_UNBLOCK, &set, NULL), 0);
    assert_int_equal(flags(), 0);
    assert_true(is_default(SIGUSR1) && is_default(SIGUSR2));
}

static void off_is_off(void **state)
{
    (void)state;
    assert_int_equal(setenv(GS_ENV_SIGNALS, "off", 1), 0);
    slice_attach();
    assert_int_equal(flags(), 0);
    assert_true(is_default(SIGUSR1) && is_default(SIGUSR2));
}

static void who_attaches_to_a_suspended_slice_begins_so(void **state)
{
    (void)state;
    slice_attach();
    gs_self.ledger->head.suspended = 1;
    gs_attach_forget();
    slice_attach();
    assert_true(gs_suspend_is_on());
    gs_self.ledger->head.suspended = 0;
    gs_attach_forget();
    slice_attach();
    assert_false(gs_suspend_is_on());
}

/** The parent's slot is out of a child's reach; what a child is told before it attaches counts. */
static void a_child_that_has_not_attached(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    slice_attach();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)raise(SIGUSR2);
        if (gs_self.region->slot[0].status != GS_HAMI_RUNNING)
            _exit(1);
        gs_attach_forget();
        if (gs_attach() != 0 || gs_self.slot != 1 || !gs_suspend_is_on() ||
            (flags() & GS_SLOT_SIGNALS) == 0)
            _exit(2);
        (void)raise(SIGUSR1);
        _exit(gs_suspend_is_on() ? 3 : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_false(gs_suspend_is_on());
}

static void *allocate(void *arg)
{
    *(int *)arg = gs_gate_reserve(0, 10, GS_CHARGE_HELD, "cuMemAlloc");
    return NULL;
}

/** Has anybody told that he waits? */
static bool is_told(void)
{
    static struct gs_ledger_event events[GS_LEDGER_RING];
    uint64_t next;
    int n = gs_ledger_read_events(gs_self.fd, 0, events, GS_LEDGER_RING, &next);

    return n > 0 && events[n - 1].reason == GS_REASON_SUSPENDED;
}

static void an_allocation_waits(void **state)
{
    pthread_t thread;
    int rc = 1;

    (void)state;
    slice_attach();
    assert_int_equal(raise(SIGUSR2), 0);
    assert_int_equal(pthread_create(&thread, NULL, allocate, &rc), 0);
    while (!is_told())
        (void)usleep(1000);
    assert_int_equal(gs_gate_used(0), 0);
    gs_gate_release(0, 0, GS_CHARGE_HELD); /* does not wait */
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(rc, 0);
    assert_int_equal(gs_gate_used(0), 10);
}

static void not_attached_is_harmless(void **state)
{
    (void)state;
    assert_false(gs_suspend_is_on());
    gs_suspend_wait(0, "t", NULL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(signals_set_the_status),
        CASE(a_program_with_a_handler_keeps_both),
        CASE(ignored_is_used),
        CASE(blocked_is_used),
        CASE(off_is_off),
        CASE(who_attaches_to_a_suspended_slice_begins_so),
        CASE(a_child_that_has_not_attached),
        CASE(an_allocation_waits),
        CASE(not_attached_is_harmless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
