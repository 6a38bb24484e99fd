#include "contract/owner.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_self(void **state)
{
    struct gs_owner self, wrong;

    (void)state;
    assert_int_equal(gs_owner_self(&self), 0);
    assert_int_equal(self.pid, getpid());
    assert_true(self.start_ticks > 0);
    assert_int_equal(gs_owner_is_alive(&self), 1);
    assert_true(gs_owner_word(&self) != 0);
    wrong = self;
    wrong.start_ticks--;
    assert_int_equal(gs_owner_is_alive(&wrong), 0); /* the pid returned as somebody else */
}

/** A command name may hold what separates fields. */
static void test_odd_name(void **state)
{
    struct gs_owner before, after;

    (void)state;
    assert_int_equal(gs_owner_self(&before), 0);
    assert_int_equal(prctl(PR_SET_NAME, ") R 1 (x)"), 0);
    assert_int_equal(gs_owner_self(&after), 0);
    assert_true(before.start_ticks == after.start_ticks);
}

static void test_dead(void **state)
{
    struct gs_owner child = {0, 0};
    siginfo_t info;
    int ready[2];
    char c;
    pid_t pid;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        (void)close(ready[1]);
        (void)!read(ready[0], &c, 1); /* until the parent has seen us alive */
        _exit(0);
    }
    child.pid = (uint32_t)pid;
    assert_int_equal(gs_owner_start(child.pid, &child.start_ticks), 0);
    assert_int_equal(gs_owner_is_alive(&child), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(gs_owner_is_alive(&child), 0); /* a zombie holds nothing */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(gs_owner_is_alive(&child), 0);
    assert_int_equal(gs_owner_start(child.pid, &child.start_ticks), -ESRCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_self), cmocka_unit_test(test_odd_name),
                                       cmocka_unit_test(test_dead)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
