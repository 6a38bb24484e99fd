#include "hook/board.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/env.h"
#include "slice.h"

/* A clock of our own: a file is looked for at most ten times a second of it. */
#define SECOND 1000000000u
#define START  (1000ull * SECOND)
#define TICK   (uint64_t) GS_BOARD_TICK_NS

static char path[128];

static int setup(void **state)
{
    (void)state;
    slice_setup();
    assert_int_equal(setenv(GS_ENV_BOARD_DIR, slice_folder(), 1), 0);
    (void)snprintf(path, sizeof(path), "%s/GPU-0", slice_folder());
    slice_attach();
    gs_hook_board_forget();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gs_hook_board_forget();
    slice_teardown();
    return 0;
}

static struct gs_board board_at(uint64_t beat_ns, uint32_t share_bp)
{
    struct gs_board b = {.magic = GS_BOARD_MAGIC,
                         .version = GS_BOARD_VERSION,
                         .seq = 2,
                         .beat_ns = beat_ns,
                         .n_slices = 2};
    struct stat st;

    assert_int_equal(stat(slice_ledger(), &st), 0);
    b.slice[0] = (struct gs_board_slice){.ledger_dev = 1, .ledger_ino = 1, .share_bp = 1};
    b.slice[1] = (struct gs_board_slice){
        .ledger_dev = st.st_dev, .ledger_ino = st.st_ino, .share_bp = share_bp, .refund_ns = 77};
    return b;
}

/** Write `n` bytes of a board under the card's name; `as_new`: a new file, renamed into place. */
static void put(const struct gs_board *b, size_t n, bool as_new)
{
    char temp[160];
    int fd;

    (void)snprintf(temp, sizeof(temp), "%s%s", path, as_new ? ".new" : "");
    fd = open(temp, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, b, n, 0), n);
    (void)close(fd);
    if (as_new)
        assert_int_equal(rename(temp, path), 0);
}

static void test_no_board(void **state)
{
    struct gs_board_slice got;

    (void)state;
    assert_int_equal(gs_hook_board(0, START, &got), -ENOENT);
    assert_int_equal(gs_hook_board(64, START, &got), -ENOENT); /* no such card */
}

static void test_reads_its_entry(void **state)
{
    struct gs_board b = board_at(START, 4321);
    struct gs_board_slice got;

    (void)state;
    put(&b, sizeof(b), true);
    assert_int_equal(gs_hook_board(0, START, &got), 0);
    assert_int_equal(got.share_bp, 4321);
    assert_int_equal(got.refund_ns, 77);
    assert_int_equal(gs_hook_board(1, START, &got), -ENOENT); /* another card's board is absent */
    /* the writer writes on in the same file */
    b.slice[1].share_bp = 1234;
    put(&b, sizeof(b), false);
    assert_int_equal(gs_hook_board(0, START + 1, &got), 0); /* read a moment ago */
    assert_int_equal(got.share_bp, 4321);
    assert_int_equal(gs_hook_board(0, START + TICK, &got), 0);
    assert_int_equal(got.share_bp, 1234);
    /* and is in the middle of it: what was read last counts */
    b.seq = 3;
    b.slice[1].share_bp = 1;
    put(&b, sizeof(b), false);
    assert_int_equal(gs_hook_board(0, START + 2 * TICK, &got), 0);
    assert_int_equal(got.share_bp, 1234);
}

static void test_is_cut_short(void **state)
{
    struct gs_board b = board_at(START, 4321);
    struct gs_board_slice got;

    (void)state;
    put(&b, sizeof(b), true);
    assert_int_equal(gs_hook_board(0, START, &got), 0);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(gs_hook_board(0, START + TICK, &got), 0); /* as long as its beat counts */
    assert_int_equal(gs_hook_board(0, START + SECOND, &got), -ESTALE);
}

static void test_is_not_on_it(void **state)
{
    struct gs_board b = board_at(START, 4321);
    struct gs_board_slice got;

    (void)state;
    put(&b, sizeof(b), true);
    assert_int_equal(gs_hook_board(0, START, &got), 0);
    b.n_slices = 1;
    put(&b, sizeof(b), false);
    assert_int_equal(gs_hook_board(0, START + TICK, &got), -ENOENT);
}

static void test_appears_later(void **state)
{
    struct gs_board b = board_at(START, 100);
    struct gs_board_slice got;

    (void)state;
    assert_int_equal(gs_hook_board(0, START, &got), -ENOENT);
    put(&b, sizeof(b), true);
    /* looked a moment ago: no system call per launch */
    assert_int_equal(gs_hook_board(0, START + 1, &got), -ENOENT);
    b.beat_ns = START + SECOND;
    put(&b, sizeof(b), false);
    assert_int_equal(gs_hook_board(0, START + SECOND, &got), 0);
}

static void test_is_replaced(void **state)
{
    struct gs_board b = board_at(START, 100);
    struct gs_board_slice got;

    (void)state;
    put(&b, sizeof(b), true);
    assert_int_equal(gs_hook_board(0, START, &got), 0);
    b = board_at(START + 3ull * SECOND, 200);
    put(&b, sizeof(b), true);
    /* read a moment ago; then the new one is taken */
    assert_int_equal(gs_hook_board(0, START + 1, &got), 0);
    assert_int_equal(got.share_bp, 100);
    assert_int_equal(gs_hook_board(0, START + 3ull * SECOND, &got), 0);
    assert_int_equal(got.share_bp, 200);
    /* and it may go away altogether */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(gs_hook_board(0, START + 10ull * SECOND, &got), -ESTALE);
}

static void test_short_file_is_no_board(void **state)
{
    struct gs_board b = board_at(START, 100);
    struct gs_board_slice got;
    uint64_t now = START;

    (void)state;
    for (size_t n = 0; n < sizeof(b); n += 4096, now += SECOND) {
        put(&b, n, true);
        assert_int_equal(gs_hook_board(0, now, &got), -ENOENT);
    }
    b.beat_ns = now;
    put(&b, sizeof(b) - 1, true);
    assert_int_equal(gs_hook_board(0, now, &got), -ENOENT);
}

static void test_not_a_file(void **state)
{
    struct gs_board_slice got;

    (void)state;
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(gs_hook_board(0, START, &got), -ENOENT);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* and opening it does not wait for a writer */
    assert_int_equal(gs_hook_board(0, START + SECOND, &got), -ENOENT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(slice_ledger(), path), 0);
    assert_int_equal(gs_hook_board(0, START + 2ull * SECOND, &got), -ENOENT);
}

static void test_clock_goes_back(void **state)
{
    struct gs_board b = board_at(50, 100);
    struct gs_board_slice got;

    (void)state;
    assert_int_equal(gs_hook_board(0, START, &got), -ENOENT);
    put(&b, sizeof(b), true);
    assert_int_equal(gs_hook_board(0, 60, &got), 0);
}

static int ask_in_child(void *arg)
{
    struct gs_board_slice got;

    (void)arg;
    gs_hook_board_forget();
    return gs_hook_board(0, START, &got) == 0 && got.share_bp == 555 ? 0 : 1;
}

static void test_forked_child_asks_anew(void **state)
{
    struct gs_board b = board_at(START, 555);
    struct gs_board_slice got;

    (void)state;
    put(&b, sizeof(b), true);
    assert_int_equal(gs_hook_board(0, START, &got), 0);
    assert_int_equal(slice_in_other(ask_in_child, NULL), 0);
    assert_int_equal(gs_hook_board(0, START, &got), 0);
}

static void test_folder_must_be_absolute(void **state)
{
    struct gs_board b = board_at(START, 1);
    struct gs_board_slice got;

    (void)state;
    put(&b, sizeof(b), true);
    assert_int_equal(chdir(slice_folder()), 0);
    assert_int_equal(setenv(GS_ENV_BOARD_DIR, ".", 1), 0);
    assert_int_equal(gs_hook_board(0, START, &got), -ENOENT);
    assert_int_equal(chdir("/"), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_no_board),
        TEST(test_reads_its_entry),
        TEST(test_appears_later),
        TEST(test_is_replaced),
        TEST(test_short_file_is_no_board),
        TEST(test_is_cut_short),
        TEST(test_is_not_on_it),
        TEST(test_not_a_file),
        TEST(test_clock_goes_back),
        TEST(test_forked_child_asks_anew),
        TEST(test_folder_must_be_absolute),
    };
    /* the machine's own boards would come first */
    if (access(GS_BOARD_DIR, F_OK) == 0)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
