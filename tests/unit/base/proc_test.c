#include "base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"

/* A child that waits for its end; its name is hostile to naive parsers of /proc/pid/stat. */
static pid_t start_child(void)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_NAME, "a) R 1 (b", 0, 0, 0);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    return pid;
}

static void reads_a_process_with_a_hostile_name(void **state)
{
    pid_t pid = start_child();
    struct gs_proc p;

    (void)state;
    assert_int_equal(gs_proc_read(pid, &p), 0);
    assert_int_equal(p.pid, pid);
    assert_int_equal(p.ppid, getpid());
    assert_string_equal(p.comm, "a) R 1 (b");
    assert_true(gs_proc_is_alive(pid, p.start_ticks));
    assert_false(gs_proc_is_alive(pid, p.start_ticks + 1)); /* a later process of that pid */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    assert_false(gs_proc_is_alive(pid, p.start_ticks)); /* a zombie */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(gs_proc_read(pid, &p), -ESRCH);
    assert_false(gs_proc_is_alive(0, 0));
}

static void lists_and_climbs(void **state)
{
    pid_t pid = start_child();
    struct gs_proc_table t;

    (void)state;
    assert_int_equal(gs_proc_list(&t), 0);
    assert_non_null(gs_proc_find(&t, pid));
    assert_null(gs_proc_find(&t, 0));
    assert_true(gs_proc_descends(&t, pid, getpid()));
    assert_true(gs_proc_descends(&t, pid, getppid()));
    assert_false(gs_proc_descends(&t, getpid(), pid));
    gs_proc_fini(&t);
    gs_proc_fini(NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void a_cycle_of_parents_ends(void **state)
{
    struct gs_proc rows[] = {{.pid = 5, .ppid = 6}, {.pid = 6, .ppid = 5}};
    struct gs_proc_table t = {rows, 2};

    (void)state;
    assert_false(gs_proc_descends(&t, 5, 9));
}

static void reads_one_variable_of_another_process(void **state)
{
    char *const argv[] = {"sleep", "1000", NULL};
    char *const envp[] = {"GS_TESTX=no", "GS_TEST=a=b c", "GS_EMPTY=", NULL};
    struct gs_buf buf = {0};
    int started[2]; /* closed by exec: then the new environment is in place */
    char byte;
    pid_t pid;
    uid_t uid;

    (void)state;
    assert_int_equal(pipe2(started, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        (void)execve("/bin/sleep", argv, envp);
        _exit(127);
    }
    (void)close(started[1]);
    assert_int_equal(read(started[0], &byte, 1), 0);
    (void)close(started[0]);
    assert_int_equal(gs_proc_env(pid, "GS_TEST", &buf), 0);
    assert_string_equal(gs_buf_text(&buf), "a=b c");
    gs_buf_clear(&buf);
    assert_int_equal(gs_proc_env(pid, "GS_EMPTY", &buf), 0);
    assert_int_equal(buf.n, 0);
    assert_int_equal(gs_proc_env(pid, "GS_TES", &buf), -ENOENT);
    assert_int_equal(gs_proc_uid(pid, &uid), 0);
    assert_int_equal(uid, geteuid());
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(gs_proc_env(pid, "GS_TEST", &buf), -ENOENT);
    assert_true(gs_proc_uid(pid, &uid) < 0);
    gs_buf_fini(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_process_with_a_hostile_name),
        cmocka_unit_test(lists_and_climbs),
        cmocka_unit_test(a_cycle_of_parents_ends),
        cmocka_unit_test(reads_one_variable_of_another_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
