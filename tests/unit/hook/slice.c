#include "slice.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/env.h"
#include "hook/attach.h"

int slice_cards = 3;

static char folder[64];
static char ledger[128];

static int enumerate(struct gs_hook_card *ret_cards, uint32_t max)
{
    if (slice_cards < 0)
        return slice_cards;
    for (uint32_t i = 0; i < (uint32_t)slice_cards && i < max; i++) {
        memset(&ret_cards[i], 0, sizeof(ret_cards[i]));
        (void)snprintf(ret_cards[i].uuid, sizeof(ret_cards[i].uuid), "GPU-%u", i);
        ret_cards[i].physical_bytes = 1 << 20;
    }
    return slice_cards;
}

const struct gs_hook_vendor gs_hook_vendor = {.name = "test", .enumerate = enumerate};

void slice_write_quota(const char *text)
{
    char path[128];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, GS_QUOTA_FILE);
    f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

void slice_setup(void)
{
    (void)strcpy(folder, "/tmp/gpuslice-unit-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(ledger, sizeof(ledger), "%s/slice.cache", folder);
    slice_write_quota("gpuslice-quota 1\ngeneration 3\nfail closed\n"
                      "device GPU-0 memory=1000 cores=30 policy=fixed\n"
                      "device GPU-1 memory=none cores=none policy=off\n"
                      "device GPU-2 memory=1000 cores=none policy=elastic\n");
    slice_cards = 3;
    assert_int_equal(setenv(GS_ENV_QUOTA_DIR, folder, 1), 0);
    assert_int_equal(setenv(GS_ENV_LEDGER, ledger, 1), 0);
    (void)unsetenv(GS_ENV_LOG);
    (void)unsetenv(GS_ENV_MEM_LIMIT);
    (void)unsetenv(GS_ENV_CONTAINER_MEM);
    (void)unsetenv(GS_ENV_SM_LIMIT);
    (void)unsetenv(GS_ENV_CORE_POLICY);
    (void)unsetenv(GS_ENV_PRIORITY);
}

void slice_use_env(void)
{
    assert_int_equal(unsetenv(GS_ENV_QUOTA_DIR), 0);
}

const char *slice_folder(void)
{
    return folder;
}

const char *slice_ledger(void)
{
    return ledger;
}

void slice_teardown(void)
{
    char command[128];

    gs_attach_forget();
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

void slice_attach(void)
{
    int rc = gs_attach();

    if (rc != 0)
        print_error("attach: %s\n", gs_reason_name(gs_attach_reason()));
    assert_int_equal(rc, 0);
}

int slice_start_other(int (*fn)(void *arg), void *arg)
{
    int done[2];
    char answer = 0;
    pid_t pid;

    assert_int_equal(pipe(done), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
        gs_attach_forget();
        answer = gs_attach() == 0 ? (char)fn(arg) : 101;
        (void)!write(done[1], &answer, 1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(done[0], &answer, 1), 1);
    (void)close(done[0]);
    (void)close(done[1]);
    assert_int_equal(answer, 0);
    return pid;
}

void slice_end(int pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int slice_in_other(int (*fn)(void *arg), void *arg)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
        gs_attach_forget();
        _exit(gs_attach() == 0 ? fn(arg) : 101);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}
