#include "contract/owner.h"

#include <errno.h>
#include <fcntl.h>
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
    struct gs_owner child = {0};
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

/** exec keeps the pid and the start time. */
static void test_image(void **state)
{
    struct gs_owner self, wrong;
    int begun[2];
    char c;
    pid_t pid;

    (void)state;
    assert_int_equal(gs_owner_self(&self), 0);
    assert_true(self.image != 0 && self.once != 0);
    assert_false(gs_owner_has_ended(gs_owner_word(&self), self.image));
    assert_false(gs_owner_has_ended(gs_owner_word(&self), 0)); /* not known */
    wrong = self;
    wrong.start_ticks--;
    assert_true(gs_owner_has_ended(gs_owner_word(&wrong), self.image));
    assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        (void)execl("/bin/sleep", "sleep", "1000", (char *)NULL);
        _exit(1);
    }
    (void)close(begun[1]);
    assert_int_equal(read(begun[0], &c, 1), 0);
    (void)close(begun[0]);
    wrong.pid = (uint32_t)pid;
    assert_int_equal(gs_owner_start(wrong.pid, &wrong.start_ticks), 0);
    assert_true(gs_owner_has_ended(gs_owner_word(&wrong), self.image)); /* what it was as a fork */
    assert_false(gs_owner_has_ended(gs_owner_word(&wrong), gs_owner_image(wrong.pid)));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_true(gs_owner_has_ended(gs_owner_word(&wrong), 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_self), cmocka_unit_test(test_odd_name),
                                       cmocka_unit_test(test_dead), cmocka_unit_test(test_image)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
