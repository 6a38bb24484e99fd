#include "base/aside.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"

#define PATIENCE_MS 30000u

static void say(const void *arg, int out_fd)
{
    (void)setenv("GS_ASIDE_TEST", "1", 1);
    (void)printf("not to be seen\n");
    (void)fflush(stdout);
    for (const char *c = arg; *c; c++)
        if (write(out_fd, c, 1) != 1)
            _exit(1);
}

static void hang(const void *arg, int out_fd)
{
    if (write(out_fd, arg, 1) == 1)
        for (;;)
            (void)pause();
}

static void die(const void *arg, int out_fd)
{
    if (write(out_fd, arg, 1) == 1)
        (void)raise(SIGKILL);
}

static void assert_no_child_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void test_answer(void **state)
{
    char text[16] = "";

    (void)state;
    assert_int_equal(gs_aside_ask(say, "answer", PATIENCE_MS, text, sizeof(text), NULL), 6);
    assert_string_equal(text, "answer");
    assert_null(getenv("GS_ASIDE_TEST"));
    assert_no_child_is_left();
}

static void test_more_than_asked_for(void **state)
{
    char text[4] = "";

    (void)state;
    assert_int_equal(gs_aside_ask(say, "answer", PATIENCE_MS, text, 3, NULL), 3);
    assert_string_equal(text, "ans");
    assert_no_child_is_left();
}

static void test_one_that_hangs(void **state)
{
    struct gs_err err = {0};
    char text[4];

    (void)state;
    assert_int_equal(gs_aside_ask(hang, "a", 50, text, sizeof(text), &err), -ETIMEDOUT);
    assert_int_equal(err.code, -ETIMEDOUT);
    assert_no_child_is_left();
}

static void test_one_that_dies(void **state)
{
    char text[4];

    (void)state;
    assert_int_equal(gs_aside_ask(die, "a", PATIENCE_MS, text, sizeof(text), NULL), 1);
    assert_no_child_is_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_more_than_asked_for),
        cmocka_unit_test(test_one_that_hangs),
        cmocka_unit_test(test_one_that_dies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
