#include "monitor/board.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/quota.h"
#include "fake_ledger.h"

#define MS  1000000ull
#define NOW 1000000000000ull

static int dir;
static struct fake_ledger ledger;
static const struct gs_ledgers_grant thirty = {.core_pct = 30, .policy = GS_POLICY_FIXED};

static int setup(void **state)
{
    (void)state;
    dir = fake_folder();
    ledger = fake_ledger(dir, "ledger", 1);
    fake_process(&ledger, 0, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fake_ledger_drop(&ledger);
    fake_folder_remove(dir);
    return 0;
}

static struct gs_board_writer *new_writer(void)
{
    struct gs_board_writer *w = NULL;

    assert_int_equal(gs_board_new(dir, "GPU-0", 0600, 1 << 30, &w), 0);
    return w;
}

/** Elected, the slice offered, one tick. */
static void work(struct gs_board_writer *w, uint64_t now)
{
    int rc = gs_board_elect(w, now);

    assert_true(rc == 1 || rc == 2);
    if (rc == 2)
        assert_int_equal(gs_ledgers_offer(&w->ledgers, dir, "ledger", &thirty), 0);
    assert_int_equal(gs_board_tick(w, now), 0);
}

/** The board as a hook reads it. */
static int read_entry(uint64_t now, struct gs_board_slice *ret)
{
    int fd = openat(dir, "GPU-0", O_RDONLY | O_CLOEXEC), rc;
    struct gs_board *b;

    if (fd < 0)
        return -errno;
    b = mmap(NULL, sizeof(*b), PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    assert_true(b != MAP_FAILED);
    rc = gs_board_find(b, ledger.dev, ledger.ino, now, ret);
    (void)munmap(b, sizeof(*b));
    return rc;
}

static void test_writes_what_a_hook_finds(void **state)
{
    struct gs_board_writer *w = new_writer();
    struct gs_board_slice got;
    struct stat st;

    (void)state;
    work(w, NOW);
    assert_int_equal(read_entry(NOW + 1, &got), 0);
    assert_int_equal(got.share_bp, 3000);
    assert_int_equal(got.flags, 0);
    assert_int_equal(fstatat(dir, "GPU-0", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(st.st_size, sizeof(struct gs_board));
    assert_int_equal(read_entry(NOW + GS_BOARD_STALE_NS + 1, &got), -ESTALE);
    work(w, NOW + 20 * MS);
    assert_int_equal(read_entry(NOW + GS_BOARD_STALE_NS + 1, &got), 0);
    gs_board_free(w);
}

static void test_one_writes_at_a_time(void **state)
{
    struct gs_board_writer *a = new_writer(), *b = new_writer();

    (void)state;
    work(a, NOW);
    assert_int_equal(gs_board_elect(b, NOW), 0);
    assert_int_equal(gs_board_elect(a, NOW), 1);
    gs_board_resign(a);
    work(b, NOW);
    assert_int_equal(gs_board_elect(a, NOW), 0);
    gs_board_free(a);
    gs_board_free(b);
}

static void test_names_that_are_no_files(void **state)
{
    struct gs_board_writer *w = NULL;
    char longest[200];

    (void)state;
    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(gs_board_new(dir, "", 0600, 0, &w), -EINVAL);
    assert_int_equal(gs_board_new(dir, "../x", 0600, 0, &w), -EINVAL);
    assert_int_equal(gs_board_new(dir, "..", 0600, 0, &w), -EINVAL);
    assert_int_equal(gs_board_new(dir, longest, 0600, 0, &w), -EINVAL);
    assert_null(w);
}

/** Hold the office in another process that says so and waits. */
static pid_t start_holder(uint64_t now)
{
    int said[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(said), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct gs_board_writer *w = new_writer();

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
        if (gs_board_elect(w, now) == 2 &&
            gs_ledgers_offer(&w->ledgers, dir, "ledger", &thirty) == 0 &&
            gs_board_tick(w, now) == 0)
            (void)!write(said[1], "y", 1);
        for (;;)
            (void)pause();
    }
    (void)close(said[1]);
    assert_int_equal(read(said[0], &byte, 1), 1);
    (void)close(said[0]);
    return pid;
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_next_takes_over_at_once(void **state)
{
    struct gs_board_writer *w = new_writer();
    struct gs_board_slice got;
    pid_t pid = start_holder(NOW);

    (void)state;
    assert_int_equal(gs_board_elect(w, NOW), 0);
    end(pid);
    work(w, NOW + 20 * MS); /* its next look */
    assert_int_equal(read_entry(NOW + 21 * MS, &got), 0);
    gs_board_free(w);
}

static void test_killed_while_writing(void **state)
{
    struct gs_board_writer *w = new_writer();
    struct gs_board_slice got;
    uint64_t odd;
    int fd;

    (void)state;
    work(w, NOW);
    gs_board_resign(w);
    fd = openat(dir, "GPU-0", O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &odd, 8, offsetof(struct gs_board, seq)), 8);
    odd |= 1;
    assert_int_equal(pwrite(fd, &odd, 8, offsetof(struct gs_board, seq)), 8);
    (void)close(fd);
    assert_int_equal(read_entry(NOW, &got), -EAGAIN);
    work(w, NOW + MS);
    assert_int_equal(read_entry(NOW + MS, &got), 0);
    gs_board_free(w);
}

static void test_stopped_holder_is_deposed(void **state)
{
    struct gs_board_writer *w = new_writer(), *old = new_writer();
    struct gs_board_slice got;
    uint64_t t = NOW;

    (void)state;
    work(old, NOW); /* and then not a word, though it holds the lock */
    for (; t <= NOW + GS_BOARD_DEPOSE_NS; t += 20 * MS)
        assert_int_equal(gs_board_elect(w, t), 0);
    while (gs_board_elect(w, t) == 0) /* it looks now and then */
        assert_true((t += 20 * MS) <= NOW + GS_BOARD_DEPOSE_NS + 200 * MS);
    assert_int_equal(gs_ledgers_offer(&w->ledgers, dir, "ledger", &thirty), 0);
    work(w, t);
    assert_int_equal(read_entry(t, &got), 0);
    /* awake again, in the midst of a tick: that is written into a file nobody looks at */
    assert_int_equal(gs_board_tick(old, t + 1000 * MS), 0);
    assert_int_equal(read_entry(t, &got), 0);
    assert_int_equal(gs_board_elect(old, t), 0);
    assert_int_equal(gs_board_elect(w, t), 1);
    gs_board_free(w);
    gs_board_free(old);
}

static void test_working_holder_is_not_deposed(void **state)
{
    struct gs_board_writer *w = new_writer(), *old = new_writer();

    (void)state;
    for (uint64_t t = NOW; t <= NOW + 5 * GS_BOARD_DEPOSE_NS; t += 20 * MS) {
        work(old, t);
        assert_int_equal(gs_board_elect(w, t), 0);
    }
    gs_board_free(w);
    gs_board_free(old);
}

static void test_files_taken_away(void **state)
{
    struct gs_board_writer *w = new_writer();
    struct gs_board_slice got;

    (void)state;
    work(w, NOW);
    assert_int_equal(unlinkat(dir, "GPU-0", 0), 0);
    work(w, NOW + 20 * MS);
    assert_int_equal(read_entry(NOW + 20 * MS, &got), 0);
    assert_int_equal(unlinkat(dir, "GPU-0.lock", 0), 0);
    work(w, NOW + 40 * MS);
    assert_int_equal(read_entry(NOW + 40 * MS, &got), 0);
    gs_board_free(w);
}

static void test_damaged_board_is_replaced(void **state)
{
    static const off_t sizes[] = {0, 1, 4096, sizeof(struct gs_board) + 1};
    struct gs_board_writer *w = new_writer();
    struct gs_board_slice got;
    uint64_t t = NOW;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++, t += 20 * MS) {
        int fd;

        gs_board_resign(w);
        fd = openat(dir, "GPU-0", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_int_equal(ftruncate(fd, sizes[i]), 0);
        (void)close(fd);
        work(w, t);
        assert_int_equal(read_entry(t, &got), 0);
    }
    gs_board_free(w);
}

/** Somebody does something to the board while it is written: the next tick makes it whole. */
static void test_board_is_mended_while_written(void **state)
{
    struct gs_board_writer *w = new_writer();
    char path[128], deeper[160];
    struct gs_board_slice got;
    uint64_t t = NOW;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/GPU-0", fake_folder_path());
    (void)snprintf(deeper, sizeof(deeper), "%s/in-it", path);
    for (int i = 0; i < 8; i++, t += 20 * MS) {
        work(w, t);
        assert_int_equal(read_entry(t, &got), 0);
        switch (i) {
        case 0:
        case 1:
            assert_int_equal(truncate(path, i * 100), 0);
            break;
        case 2:
            assert_int_equal(truncate(path, 1 << 20), 0);
            break;
        case 3:
            assert_int_equal(chmod(path, 0), 0);
            break;
        case 4:
        case 5:
        case 6:
            assert_int_equal(unlink(path), 0);
            assert_int_equal(i == 6 ? symlink("/nowhere", path) : mkdir(path, 0700), 0);
            if (i == 5)
                assert_int_equal(mkdir(deeper, 0700), 0);
            break;
        default:
            break;
        }
    }
    gs_board_free(w);
    (void)rmdir(deeper); /* moved aside with what holds it */
}

/** The lock as a folder, a link, a pipe: nobody of ours made it. */
static void test_lock_that_is_no_file(void **state)
{
    struct gs_board_slice got;
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/GPU-0.lock", fake_folder_path());
    for (int i = 0; i < 3; i++) {
        struct gs_board_writer *w = new_writer(), *other = new_writer();

        (void)unlink(path);
        assert_int_equal(i == 0   ? mkdir(path, 0700)
                         : i == 1 ? symlink("/nowhere", path)
                                  : mkfifo(path, 0600),
                         0);
        work(w, NOW);
        assert_int_equal(read_entry(NOW, &got), 0);
        assert_int_equal(gs_board_elect(other, NOW), 0);
        assert_int_equal(gs_board_elect(w, NOW), 1);
        gs_board_free(other);
        gs_board_free(w);
    }
}

static void test_unusable_folder(void **state)
{
    struct gs_board_writer *w = NULL;
    int fd = openat(dir, "ledger", O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_int_equal(gs_board_new(fd, "GPU-0", 0600, 0, &w), 0);
    assert_int_equal(gs_board_elect(w, NOW), -ENOTDIR);
    gs_board_free(w);
    (void)close(fd);
}

/** Two processes, both always busy, in the bin of `at`. */
static void both_busy(uint64_t at)
{
    fake_bin(&ledger, 0, at, GS_LEDGER_BIN_NS);
    fake_bin(&ledger, 1, at, GS_LEDGER_BIN_NS);
}

static void test_refunds_go_on_where_they_were(void **state)
{
    struct gs_board_writer *a = new_writer(), *b = new_writer();
    struct gs_board_slice got;
    uint64_t t = NOW;

    (void)state;
    fake_process(&ledger, 1, 1);
    ledger.device[0].meter.refund_seen_ns = 5000; /* taken, says the slice, from an earlier board */
    for (; t < NOW + 50 * GS_LEDGER_BIN_NS; t += GS_LEDGER_BIN_NS) {
        both_busy(t);
        work(a, t);
    }
    assert_int_equal(read_entry(t, &got), 0);
    /* 50 bins of two halves each, less the lag, and the first that has no predecessor */
    assert_in_range(got.refund_ns, 5000 + 37ull * GS_LEDGER_BIN_NS,
                    5000 + 39ull * GS_LEDGER_BIN_NS);
    /* the next writer: no jump, no bin twice, none left out */
    gs_board_resign(a);
    for (; t < NOW + 60 * GS_LEDGER_BIN_NS; t += GS_LEDGER_BIN_NS) {
        uint64_t before = got.refund_ns;

        both_busy(t);
        work(b, t);
        assert_int_equal(read_entry(t, &got), 0);
        assert_int_equal(got.refund_ns - before, GS_LEDGER_BIN_NS);
    }
    gs_board_free(a);
    gs_board_free(b);
}

static void test_inode_of_an_ended_slice(void **state)
{
    struct gs_board_writer *w = new_writer();
    struct gs_board_slice got;
    uint64_t t = NOW;

    (void)state;
    fake_process(&ledger, 1, 1);
    for (; t < NOW + 100 * GS_LEDGER_BIN_NS; t += GS_LEDGER_BIN_NS) {
        both_busy(t);
        work(w, t);
    }
    assert_int_equal(read_entry(t, &got), 0);
    assert_true(got.refund_ns > 1000 * MS);
    /* a new ledger got it, whose hooks have taken nothing: they are not given what was another's */
    gs_board_resign(w);
    work(w, t);
    assert_int_equal(read_entry(t, &got), 0);
    assert_true(got.refund_ns <= GS_LEDGER_BIN_NS);
    gs_board_free(w);
}

static void test_memory_turns_are_told(void **state)
{
    struct fake_ledger other = fake_ledger(dir, "other", 1);
    struct gs_board_writer *w = new_writer();
    struct gs_board_slice got;

    (void)state;
    fake_process(&other, 0, 1);
    ledger.device[0].use[0].managed_bytes = other.device[0].use[0].managed_bytes = 1 << 30;
    ledger.device[0].held[0] = other.device[0].held[0] = 1 << 30;
    ledger.device[0].use[0].active_ns = other.device[0].use[0].active_ns = NOW;
    assert_int_equal(gs_board_elect(w, NOW), 2);
    assert_int_equal(gs_ledgers_offer(&w->ledgers, dir, "other", &thirty), 0);
    assert_int_equal(gs_ledgers_offer(&w->ledgers, dir, "ledger", &thirty), 0);
    assert_int_equal(gs_board_tick(w, NOW), 0);
    assert_int_equal(read_entry(NOW, &got), 0);
    assert_int_equal(got.flags, GS_BOARD_PARK | GS_BOARD_SHARED); /* the other came first */
    gs_board_free(w);
    fake_ledger_drop(&other);
}

/* The driver's word comes between two ticks, when a slice may have ended since: it does not compete
 * with a stranger any more, nor is its memory looked at. */
static void test_driver_after_a_slice_ended(void **state)
{
    const struct gs_ledgers_used stranger = {.pid = 4000001, .util_pct = 90};
    struct gs_board_writer *w = new_writer();

    (void)state;
    work(w, NOW);
    w->ledgers.slice[0]->arbiter.process[0].mean = 1.0;
    gs_board_take_used(w, &stranger, 1, NOW + 1);
    assert_int_equal(w->arbiter.n_foreign, 0); /* beside one that is always busy it cannot be */
    gs_ledgers_begin(&w->ledgers);
    gs_ledgers_end(&w->ledgers);
    gs_board_take_used(w, &stranger, 1, NOW + 2);
    assert_int_equal(w->arbiter.n_foreign, 1);
    gs_board_free(w);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_writes_what_a_hook_finds),      TEST(test_one_writes_at_a_time),
        TEST(test_names_that_are_no_files),       TEST(test_next_takes_over_at_once),
        TEST(test_killed_while_writing),          TEST(test_stopped_holder_is_deposed),
        TEST(test_working_holder_is_not_deposed), TEST(test_files_taken_away),
        TEST(test_damaged_board_is_replaced),     TEST(test_board_is_mended_while_written),
        TEST(test_lock_that_is_no_file),          TEST(test_unusable_folder),
        TEST(test_refunds_go_on_where_they_were), TEST(test_inode_of_an_ended_slice),
        TEST(test_memory_turns_are_told),         TEST(test_driver_after_a_slice_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
