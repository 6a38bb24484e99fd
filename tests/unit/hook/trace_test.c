#include "hook/trace.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/env.h"
#include "contract/trace.h"
#include "hook/attach.h"
#include "hook/self.h"
#include "slice.h"

static char file[128];
static char text[65536];

static int setup(void **state)
{
    (void)state;
    slice_setup();
    (void)snprintf(file, sizeof(file), "%s/trace.json", slice_folder());
    assert_int_equal(setenv(GS_ENV_TRACE, file, 1), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unsetenv(GS_ENV_TRACE);
    slice_teardown();
    return 0;
}

static const char *read_trace(void)
{
    FILE *f = fopen(file, "r");
    size_t n;

    if (f == NULL)
        return NULL;
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    assert_int_equal(fclose(f), 0);
    return text;
}

static void a_wait_is_a_line(void **state)
{
    char expected[512];

    (void)state;
    slice_attach();
    assert_null(read_trace()); /* nothing happened yet */
    errno = 77;
    gs_trace_wait(1, GS_WAIT_SHARE, "cuLaunchKernel", 5000000123, 5000100123);
    assert_int_equal(errno, 77);
    (void)snprintf(expected, sizeof(expected),
                   GS_TRACE_HEAD
                   ",{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{"
                   "\"name\":\"%.15s\"}}\n"
                   ",{\"name\":\"wait: share\",\"cat\":\"gpuslice\",\"ph\":\"X\","
                   "\"ts\":5000000.123,\"dur\":100.000,\"pid\":%d,\"tid\":%d,\"args\":{"
                   "\"what\":\"cuLaunchKernel\",\"device\":\"GPU-1\"}}\n",
                   getpid(), program_invocation_short_name, getpid(), getpid());
    assert_string_equal(read_trace(), expected);
}

static void short_and_absurd_waits_are_not_written(void **state)
{
    (void)state;
    slice_attach();
    gs_trace_wait(0, GS_WAIT_SHARE, "t", 1000, 1000 + GS_TRACE_MIN_NS - 1);
    gs_trace_wait(0, GS_WAIT_SHARE, "t", 1000000000, 1000);
    gs_trace_wait(0, GS_WAIT_COUNT, "t", 0, 1000000000);
    assert_null(read_trace());
    gs_trace_wait(99, GS_WAIT_TURN, NULL, 0, 1000000000); /* no such device: the rest is told */
    assert_non_null(strstr(read_trace(), "\"args\":{\"what\":\"\"}}\n"));
}

static void names_from_a_hostile_ledger_stay_between_their_quotes(void **state)
{
    (void)state;
    slice_attach();
    memcpy(gs_self.uuid[0], "GPU-\"\n\\x", 9);
    gs_trace_wait(0, GS_WAIT_QUEUE, "t", 0, 1000000000);
    assert_non_null(strstr(read_trace(), "\"device\":\"GPU-???x\"}}\n"));
}

static void only_absolute_paths(void **state)
{
    (void)state;
    assert_int_equal(setenv(GS_ENV_TRACE, "trace.json", 1), 0);
    slice_attach();
    gs_trace_wait(0, GS_WAIT_SHARE, "t", 0, 1000000000);
    assert_int_equal(access("trace.json", F_OK), -1);
    assert_int_equal(unsetenv(GS_ENV_TRACE), 0);
    gs_trace_configure();
    gs_trace_wait(0, GS_WAIT_SHARE, "t", 0, 1000000000);
}

static void a_file_that_goes_begins_anew(void **state)
{
    (void)state;
    slice_attach();
    gs_trace_wait(0, GS_WAIT_SHARE, "t", 0, 1000000000);
    assert_int_equal(unlink(file), 0);
    gs_trace_wait(0, GS_WAIT_SHARE, "t", 0, 1000000000);
    assert_memory_equal(read_trace(), GS_TRACE_HEAD, sizeof(GS_TRACE_HEAD) - 1);
}

static int append(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++)
        gs_trace_wait(0, GS_WAIT_SHARE, "t", 0, 1000000000);
    return 0;
}

/** Many processes, from the first event on: one beginning, whole lines. */
static void processes_append_whole_lines(void **state)
{
    size_t lines = 0, names = 0;
    pid_t pid[4];

    (void)state;
    slice_attach();
    for (size_t i = 0; i < GS_ARRAY_LEN(pid); i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0)
            _exit(append(NULL));
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(pid); i++)
        assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
    assert_memory_equal(read_trace(), GS_TRACE_HEAD, sizeof(GS_TRACE_HEAD) - 1);
    for (char *line = text + sizeof(GS_TRACE_HEAD) - 1; *line; lines++) {
        char *end = strchr(line, '\n');

        assert_non_null(end);
        if (memcmp(line, ",{\"name\":\"process_name\"", 23) == 0)
            names++;
        else
            assert_memory_equal(line, ",{\"name\":\"wait: share\"", 22);
        assert_memory_equal(end - 2, "}}", 2);
        line = end + 1;
    }
    assert_int_equal(names, GS_ARRAY_LEN(pid)); /* a forked child has its own */
    assert_int_equal(lines, 200 + names);
}

/** A limit of file size must not end the program, nor leave half a line that others go on from. */
static void a_full_disk_ends_the_trace_alone(void **state)
{
    struct rlimit limit = {sizeof(GS_TRACE_HEAD) + 20, RLIM_INFINITY};
    int status;
    pid_t pid;

    (void)state;
    slice_attach();
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
            _exit(1);
        gs_trace_wait(0, GS_WAIT_SHARE, "t", 0, 1000000000);
        gs_trace_wait(0, GS_WAIT_SHARE, "t", 0, 1000000000);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_wait_is_a_line),
        CASE(short_and_absurd_waits_are_not_written),
        CASE(names_from_a_hostile_ledger_stay_between_their_quotes),
        CASE(only_absolute_paths),
        CASE(a_file_that_goes_begins_anew),
        CASE(processes_append_whole_lines),
        CASE(a_full_disk_ends_the_trace_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
