#include "monitor/ledgers.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/quota.h"
#include "fake_ledger.h"

#define NOW   1000000000000ull
#define OTHER 4194303ull /* a pid */

static int dir;
static struct gs_ledgers *set;
static const struct gs_ledgers_grant thirty = {.core_pct = 30, .policy = GS_POLICY_FIXED};

static int setup(void **state)
{
    (void)state;
    dir = fake_folder();
    set = malloc(sizeof(*set));
    assert_non_null(set);
    gs_ledgers_init(set, "GPU-0");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    gs_ledgers_fini(set);
    free(set);
    fake_folder_remove(dir);
    return 0;
}

/* One slice, whose slots 0 (ourselves) and 1 have had something out since `since_ns`. */
static struct fake_ledger two_with_work_out(uint64_t since_ns)
{
    struct fake_ledger f = fake_ledger(dir, "a", 1);

    fake_process(&f, 0, 1);
    f.ledger->slot[1].owner = OTHER << 32 | 1;
    f.ledger->head.slot_high = 2;
    f.device[0].use[0].unsettled_ns = f.device[0].use[1].unsettled_ns = since_ns;
    assert_int_equal(gs_ledgers_offer(set, dir, "a", &thirty), 0);
    gs_ledgers_read(set, NOW);
    return f;
}

static void assert_idle(const struct fake_ledger *f, uint32_t slot, uint64_t ns, uint64_t of_ns)
{
    assert_int_equal(f->device[0].use[slot].idle_ns, ns);
    assert_int_equal(f->device[0].use[slot].idle_of_ns, of_ns);
}

static void test_writes_who_was_idle(void **state)
{
    const struct gs_ledgers_used self = {(uint32_t)getpid(), 25};
    const struct gs_ledgers_used wild = {(uint32_t)getpid(), 101};
    const struct gs_ledgers_used both[] = {self, {1, 5}};
    const uint64_t since = NOW - 900;
    struct fake_ledger f = two_with_work_out(since);

    (void)state;
    /* the driver has not named any of them: perhaps it knows them by other pids */
    gs_ledgers_take_used(set, NULL, 0, NOW - 900, NOW - 800);
    assert_idle(&f, 0, 0, 0);
    /* what went out meanwhile may not have been sampled yet */
    gs_ledgers_take_used(set, &self, 1, NOW - 901, NOW - 800);
    assert_idle(&f, 0, 0, 0);
    gs_ledgers_take_used(set, &self, 1, NOW - 900, NOW - 800);
    assert_idle(&f, 0, 75, since);
    assert_idle(&f, 1, 100, since);
    /* a stranger may be one of them by another name; and no percentage tells nothing */
    gs_ledgers_take_used(set, both, 2, NOW - 800, NOW - 600);
    gs_ledgers_take_used(set, &wild, 1, NOW - 800, NOW - 600);
    assert_idle(&f, 0, 75, since);
    /* what overlaps counts once */
    gs_ledgers_take_used(set, NULL, 0, NOW - 900, NOW - 600);
    assert_idle(&f, 0, 275, since);

    /* something newer is out: idle for as long, but for the time between. Then something else */
    f.device[0].use[0].unsettled_ns = since + 50;
    f.device[0].use[1].unsettled_ns = 0;
    gs_ledgers_read(set, NOW);
    f.device[0].use[1].unsettled_ns = NOW - 650;
    gs_ledgers_read(set, NOW);
    gs_ledgers_take_used(set, NULL, 0, NOW - 600, NOW - 500);
    assert_idle(&f, 0, 275 - 50 + 100, since + 50);
    assert_idle(&f, 1, 100, NOW - 650);
    fake_ledger_drop(&f);
}

static void test_who_is_listed_is_named(void **state)
{
    const struct gs_ledgers_used listed[] = {{(uint32_t)getpid(), 0}, {1, 0}};
    const uint64_t since = NOW - 900;
    struct fake_ledger f = two_with_work_out(since);

    (void)state;
    /* nobody asked while it worked; the stranger on the list does nothing */
    gs_ledgers_take_used(set, listed, 2, NOW - 900, NOW - 800);
    assert_idle(&f, 0, 100, since);
    fake_ledger_drop(&f);
}

static void test_reads_what_processes_say(void **state)
{
    struct fake_ledger f = fake_ledger(dir, "a", 2);
    struct gs_ledger_use *use = &f.device[0].use[2];
    const struct gs_arbiter_process *p;

    (void)state;
    fake_process(&f, 2, 1);
    use->active_ns = NOW - 5;
    use->wait_since_ns = NOW - 4;
    use->busy_until_ns = NOW + 3;
    use->managed_bytes = 4096;
    f.device[1].use[2].active_ns = 1; /* another card's */
    f.device[0].meter.refund_seen_ns = 77;
    fake_bin(&f, 2, NOW, 1234);
    assert_int_equal(gs_ledgers_offer(set, dir, "a", &thirty), 0);
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->n, 1);
    assert_int_equal(set->slice[0]->arbiter.core_bp, 3000);
    assert_int_equal(set->slice[0]->arbiter.n_processes, 3);
    assert_int_equal(set->slice[0]->arbiter.process[0].owner, 0);
    p = &set->slice[0]->arbiter.process[2];
    assert_int_equal(p->owner, f.ledger->slot[2].owner);
    assert_int_equal(p->active_ns, NOW - 5);
    assert_int_equal(p->wait_since_ns, NOW - 4);
    assert_int_equal(p->busy_until_ns, NOW + 3);
    assert_int_equal(
        p->bin[NOW / GS_LEDGER_BIN_NS % GS_LEDGER_BINS] & ((1u << GS_LEDGER_BIN_BITS) - 1), 1234);
    assert_int_equal(set->slice[0]->refund_seen_ns, 77);
    assert_int_equal(set->slice[0]->managed_bytes, 4096);
    assert_true(gs_ledgers_knows(set, (uint32_t)getpid()));
    assert_false(gs_ledgers_knows(set, 1));
    fake_ledger_drop(&f);
}

static void test_words_of_the_dead_tell_nothing(void **state)
{
    struct fake_ledger f = fake_ledger(dir, "a", 1);

    (void)state;
    fake_process(&f, 0, 0);
    fake_process(&f, 1, 1);
    for (int i = 0; i < 2; i++) {
        f.device[0].use[i].wait_since_ns = NOW - 1;
        f.device[0].use[i].busy_until_ns = NOW + 1000;
    }
    assert_int_equal(gs_ledgers_offer(set, dir, "a", &thirty), 0);
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->slice[0]->arbiter.process[0].wait_since_ns, 0);
    assert_int_equal(set->slice[0]->arbiter.process[0].busy_until_ns, 0);
    assert_int_equal(set->slice[0]->arbiter.process[1].wait_since_ns, NOW - 1);
    assert_int_equal(set->slice[0]->arbiter.process[1].busy_until_ns, NOW + 1000);
    fake_ledger_drop(&f);
}

static void test_offers_come_and_go(void **state)
{
    struct fake_ledger a = fake_ledger(dir, "a", 1), b = fake_ledger(dir, "b", 1), c;

    (void)state;
    gs_ledgers_begin(set);
    assert_int_equal(gs_ledgers_offer(set, dir, "a", &thirty), 0);
    assert_int_equal(gs_ledgers_offer(set, dir, "b", &thirty), 0);
    gs_ledgers_end(set);
    assert_int_equal(set->n, 2);
    gs_ledgers_begin(set);
    assert_int_equal(gs_ledgers_offer(set, dir, "b", &thirty), 0);
    assert_int_equal(gs_ledgers_offer(set, dir, "none", &thirty), -ENOENT);
    gs_ledgers_end(set);
    assert_int_equal(set->n, 1);
    assert_int_equal(set->slice[0]->arbiter.ledger_ino, b.ino);
    /* another file under the name: another slice */
    c = fake_ledger(dir, "c", 1);
    assert_int_equal(renameat(dir, "c", dir, "b"), 0);
    gs_ledgers_begin(set);
    assert_int_equal(gs_ledgers_offer(set, dir, "b", &thirty), 0);
    gs_ledgers_end(set);
    assert_int_equal(set->n, 1);
    assert_int_equal(set->slice[0]->arbiter.ledger_ino, c.ino);
    fake_ledger_drop(&a);
    fake_ledger_drop(&b);
    fake_ledger_drop(&c);
}

static void test_ledger_not_made_yet(void **state)
{
    struct fake_ledger f;
    struct stat st;
    int fd = openat(dir, "a", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(gs_ledgers_offer(set, dir, "a", &thirty), 0);
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->n, 1); /* an idle slice with a promise */
    assert_int_equal(set->slice[0]->arbiter.n_processes, 0);
    assert_true(gs_ledgers_is_needed(set));
    /* its first process makes it */
    f = fake_ledger(dir, "b", 1);
    fake_process(&f, 0, 1);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(ftruncate(fd, (off_t)f.bytes), 0);
    assert_int_equal(pwrite(fd, f.ledger, f.bytes - GS_LEDGER_OFFSET, GS_LEDGER_OFFSET),
                     f.bytes - GS_LEDGER_OFFSET);
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->slice[0]->arbiter.n_processes, 1);
    (void)close(fd);
    fake_ledger_drop(&f);
}

/** Whatever is in it: no process of it, or processes within the tables; and the other slice is
 * read. */
static void test_hostile_ledgers(void **state)
{
    struct fake_ledger good = fake_ledger(dir, "good", 1), bad = fake_ledger(dir, "bad", 1);
    char path[128];

    (void)state;
    fake_process(&good, 0, 1);
    fake_process(&bad, 0, 1);
    assert_int_equal(gs_ledgers_offer(set, dir, "bad", &thirty), 0);
    assert_int_equal(gs_ledgers_offer(set, dir, "good", &thirty), 0);
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->slice[0]->arbiter.n_processes, 1);
    bad.ledger->head.slot_high = UINT64_MAX;
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->slice[0]->arbiter.n_processes, GS_LEDGER_SLOTS);
    bad.ledger->head.slot_high = 0;
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->slice[0]->arbiter.n_processes, 0);
    bad.ledger->head.slot_high = 1;
    bad.device[0].meter.refund_seen_ns = UINT64_MAX;
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->slice[0]->refund_seen_ns, 0);
    bad.ledger->head.n_devices = UINT32_MAX;
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->slice[0]->arbiter.n_processes, 0);
    bad.ledger->head.n_devices = 1;
    (void)strcpy(bad.device[0].uuid, "GPU-7"); /* found once, and looked for again after damage */
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->slice[0]->arbiter.n_processes, 0);
    (void)snprintf(path, sizeof(path), "%s/bad", fake_folder_path());
    assert_int_equal(truncate(path, 100), 0);
    gs_ledgers_read(set, NOW);
    assert_int_equal(set->slice[0]->arbiter.n_processes, 0);
    assert_int_equal(set->slice[1]->arbiter.n_processes, 1);
    fake_ledger_drop(&good);
    fake_ledger_drop(&bad);
}

static void test_not_a_ledger_file(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(dir, "folder", 0700), 0);
    assert_int_equal(gs_ledgers_offer(set, dir, "folder", &thirty), -EPROTO);
    assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
    assert_int_equal(gs_ledgers_offer(set, dir, "fifo", &thirty), -EPROTO);
    assert_int_equal(symlinkat("/etc/passwd", dir, "link"), 0);
    assert_int_equal(gs_ledgers_offer(set, dir, "link", &thirty), -ELOOP);
    assert_int_equal(set->n, 0);
}

static void test_no_more_than_a_board_holds(void **state)
{
    char name[16];

    (void)state;
    for (uint32_t i = 0; i <= GS_BOARD_SLICES; i++) {
        (void)snprintf(name, sizeof(name), "s%u", i);
        (void)close(openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        assert_int_equal(gs_ledgers_offer(set, dir, name, &thirty),
                         i < GS_BOARD_SLICES ? 0 : -E2BIG);
    }
    gs_ledgers_read(set, NOW);
}

static void test_grants(void **state)
{
    const struct gs_ledgers_grant none = {.core_pct = 100, .policy = GS_POLICY_FIXED};
    const struct gs_ledgers_grant zero = {.core_pct = 0, .policy = 99};
    const struct gs_ledgers_grant turns = {
        .core_pct = 100, .policy = GS_POLICY_FIXED, .takes_turns = true};
    struct fake_ledger f = fake_ledger(dir, "a", 1);

    (void)state;
    assert_int_equal(gs_ledgers_offer(set, dir, "a", &none), 0);
    assert_int_equal(set->slice[0]->arbiter.core_bp, GS_SHARE_ALL_BP);
    assert_false(gs_ledgers_is_needed(set));
    assert_int_equal(gs_ledgers_offer(set, dir, "a", &zero), 0);
    assert_int_equal(set->slice[0]->arbiter.core_bp, GS_SHARE_ALL_BP);
    assert_int_equal(set->slice[0]->arbiter.policy, GS_POLICY_FIXED);
    assert_int_equal(gs_ledgers_offer(set, dir, "a", &turns), 0);
    assert_true(gs_ledgers_is_needed(set));
    fake_ledger_drop(&f);
}

static void test_memory(void **state)
{
    struct fake_ledger f = fake_ledger(dir, "a", 1);

    (void)state;
    fake_process(&f, 0, 1);
    fake_process(&f, 1, 1);
    f.device[0].held[0] = 1000;
    f.device[0].held[1] = 200;
    f.device[0].extra[1] = 30;
    f.device[0].share_bytes[GS_LEDGER_SHARES - 1] = 4;
    f.device[0].use[0].managed_bytes = 900; /* of the held */
    assert_int_equal(gs_ledgers_offer(set, dir, "a", &thirty), 0);
    gs_ledgers_read(set, NOW);
    gs_ledgers_read_memory(set);
    assert_int_equal(set->slice[0]->fixed_bytes, 334);
    f.device[0].use[0].managed_bytes = UINT64_MAX;
    gs_ledgers_read(set, NOW);
    gs_ledgers_read_memory(set);
    assert_int_equal(set->slice[0]->fixed_bytes, 0);
    fake_ledger_drop(&f);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_reads_what_processes_say),
        TEST(test_writes_who_was_idle),
        TEST(test_who_is_listed_is_named),
        TEST(test_words_of_the_dead_tell_nothing),
        TEST(test_offers_come_and_go),
        TEST(test_ledger_not_made_yet),
        TEST(test_hostile_ledgers),
        TEST(test_not_a_ledger_file),
        TEST(test_no_more_than_a_board_holds),
        TEST(test_grants),
        TEST(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
