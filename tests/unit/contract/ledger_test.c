#include "contract/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/owner.h"
#include "contract/quota.h"

/** A ledger in an anonymous file, made here word by word. */
struct file {
    int fd;
    struct gs_ledger *ledger;
    struct gs_ledger_device *dev;
};

static struct file make(uint32_t n_devices)
{
    struct file f = {.fd = memfd_create("ledger", MFD_CLOEXEC)};
    uint64_t bytes = gs_ledger_file_bytes(n_devices);
    char *base;

    assert_true(f.fd >= 0);
    assert_int_equal(ftruncate(f.fd, (off_t)bytes), 0);
    base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd, 0);
    assert_true(base != MAP_FAILED);
    f.ledger = (struct gs_ledger *)(void *)(base + GS_LEDGER_OFFSET);
    f.dev = (struct gs_ledger_device *)(void *)(f.ledger + 1);
    f.ledger->head.magic = GS_LEDGER_MAGIC;
    f.ledger->head.version = GS_LEDGER_VERSION;
    f.ledger->head.n_devices = n_devices;
    f.ledger->head.file_bytes = bytes;
    return f;
}

static void drop(struct file *f)
{
    (void)munmap((char *)f->ledger - GS_LEDGER_OFFSET, f->ledger->head.file_bytes);
    (void)close(f->fd);
}

static void occupy(struct file *f, uint32_t slot, const struct gs_owner *owner)
{
    f->ledger->slot[slot].owner = gs_owner_word(owner);
    f->ledger->slot[slot].start_ticks = owner->start_ticks;
    f->ledger->slot[slot].pid = owner->pid;
    if (f->ledger->head.slot_high <= slot)
        f->ledger->head.slot_high = slot + 1;
}

static struct gs_owner self(void)
{
    struct gs_owner owner;

    assert_int_equal(gs_owner_self(&owner), 0);
    return owner;
}

static struct gs_owner dead(void)
{
    struct gs_owner owner = self();

    owner.start_ticks -= 1; /* our pid, but of somebody before us */
    return owner;
}

static struct gs_ledger_snapshot *read_ok(int fd)
{
    struct gs_ledger_snapshot *snap = malloc(sizeof(*snap));

    assert_non_null(snap);
    assert_int_equal(gs_ledger_read(fd, snap), 0);
    return snap;
}

static void test_check(void **state)
{
    struct file f = make(2);
    uint32_t n = 0;
    int fd;

    (void)state;
    assert_int_equal(gs_ledger_check(f.fd, &n), 0);
    assert_int_equal(n, 2);
    f.ledger->head.version++;
    assert_int_equal(gs_ledger_check(f.fd, &n), -EPROTO);
    f.ledger->head.version--;
    f.ledger->head.n_devices = 3;
    assert_int_equal(gs_ledger_check(f.fd, &n), -EPROTO);
    f.ledger->head.n_devices = UINT32_MAX;
    assert_int_equal(gs_ledger_check(f.fd, &n), -EPROTO);
    f.ledger->head.n_devices = 2;
    f.ledger->head.magic = 0;
    assert_int_equal(gs_ledger_check(f.fd, &n), -ENODATA); /* its creator has not finished */
    f.ledger->head.magic = 0x123;
    assert_int_equal(gs_ledger_check(f.fd, &n), -EPROTO);
    f.ledger->head.magic = GS_LEDGER_MAGIC;
    assert_int_equal(ftruncate(f.fd, (off_t)f.ledger->head.file_bytes + 1), 0);
    assert_int_equal(gs_ledger_check(f.fd, &n), -EPROTO);
    assert_int_equal(ftruncate(f.fd, (off_t)gs_ledger_file_bytes(1)), 0);
    assert_int_equal(gs_ledger_check(f.fd, &n), -EPROTO);
    assert_int_equal(ftruncate(f.fd, 100), 0);
    assert_int_equal(gs_ledger_check(f.fd, &n), -EPROTO);
    assert_int_equal(ftruncate(f.fd, 0), 0);
    assert_int_equal(gs_ledger_check(f.fd, &n), -ENODATA);
    assert_int_equal(gs_ledger_check(-1, &n), -EBADF);
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    assert_int_equal(gs_ledger_check(fd, &n), -EPROTO);
    (void)close(fd);
    (void)close(f.fd);
}

static void test_sums(void **state)
{
    struct file f = make(1);
    struct gs_owner me = self(), gone = dead();
    struct gs_ledger_snapshot *snap;

    (void)state;
    occupy(&f, 0, &me);
    occupy(&f, 1, &gone);
    occupy(&f, 2, &me);
    f.ledger->slot[0].image = me.image;
    f.ledger->slot[2].image = me.image ^ 1; /* what we were before we began this program */
    memcpy(f.dev[0].uuid, "GPU-x", 6);
    f.dev[0].limit_bytes = 1000;
    f.dev[0].core_pct = 30;
    f.dev[0].policy = GS_POLICY_ELASTIC;
    f.dev[0].held[0] = 100;
    f.dev[0].extra[0] = 7;
    f.dev[0].pending[0] = 5000; /* not taken yet */
    f.dev[0].held[1] = 30;
    f.dev[0].held[2] = 10;
    snap = read_ok(f.fd);
    assert_int_equal(snap->n_devices, 1);
    assert_int_equal(snap->n_slots, 3);
    assert_int_equal(snap->is_live[0], 1);
    assert_int_equal(snap->is_live[1], 0);
    assert_int_equal(snap->is_live[2], 0);
    assert_string_equal(snap->device[0].uuid, "GPU-x");
    assert_int_equal(snap->device[0].limit_bytes, 1000);
    assert_int_equal(snap->device[0].core_pct, 30);
    assert_int_equal(snap->device[0].policy, GS_POLICY_ELASTIC);
    assert_int_equal(snap->device[0].used_bytes, 107);
    assert_int_equal(snap->device[0].slot_bytes[0], 107);
    assert_int_equal(snap->device[0].dead_bytes, 40);
    free(snap);
    drop(&f);
}

/** Meter, bucket and each live process's work; of the dead nothing is shown. */
static void test_compute(void **state)
{
    struct file f = make(2);
    struct gs_owner me = self(), gone = dead();
    struct gs_ledger_snapshot *snap;

    (void)state;
    occupy(&f, 2, &gone);
    occupy(&f, 20, &me);
    f.dev[1].bucket.tokens_ns = -5;
    f.dev[1].meter = (struct gs_ledger_meter){
        .used_ns = 100, .refunded_ns = 30, .waits = 3, .waited_ns = UINT64_MAX};
    f.dev[1].use[2] = (struct gs_ledger_use){.used_ns = 60, .managed_bytes = 9};
    f.dev[1].use[20] = (struct gs_ledger_use){
        .used_ns = 40, .waited_ns = 7, .wait_since_ns = 8, .launches = 2, .managed_bytes = 11};
    snap = read_ok(f.fd);
    assert_int_equal(snap->device[1].tokens_ns, -5);
    assert_int_equal(snap->device[1].meter.used_ns, 100);
    assert_int_equal(snap->device[1].meter.refunded_ns, 30);
    assert_int_equal(snap->device[1].meter.waits, 3);
    assert_true(snap->device[1].meter.waited_ns == UINT64_MAX);
    assert_int_equal(snap->device[1].work[2].used_ns, 0);
    assert_int_equal(snap->device[1].work[20].used_ns, 40);
    assert_int_equal(snap->device[1].work[20].waited_ns, 7);
    assert_int_equal(snap->device[1].work[20].wait_since_ns, 8);
    assert_int_equal(snap->device[1].work[20].launches, 2);
    assert_int_equal(snap->device[1].managed_bytes, 11);
    assert_int_equal(snap->device[0].work[20].used_ns, 0);
    free(snap);
    drop(&f);
}

/** 100 ms bins: the one that is being filled is left out, others' rounds do not count, and the
 * epoch's bits may have wrapped (after 155 days). */
static void test_average(void **state)
{
    static const uint64_t epochs[] = {500, (UINT64_C(1) << 27) + 3, (UINT64_C(1) << 28) - 1};
    uint64_t history[GS_LEDGER_HISTORY];

    (void)state;
    for (size_t k = 0; k < GS_ARRAY_LEN(epochs); k++) {
        uint64_t now = epochs[k] * GS_LEDGER_HISTORY_NS + 5;

        memset(history, 0, sizeof(history));
        for (uint64_t i = 0; i <= 100; i++) {
            uint64_t epoch = epochs[k] - i;

            history[epoch % GS_LEDGER_HISTORY] =
                epoch << GS_LEDGER_HISTORY_BITS | (i <= 10 ? 30000000 : 10000000);
        }
        assert_int_equal(gs_ledger_used_bp(history, now, 1000000000), 3000);
        /* 10 bins of 30 % and 90 of 10 % */
        assert_int_equal(gs_ledger_used_bp(history, now, UINT64_C(10000000000)), 1200);
        assert_int_equal(gs_ledger_used_bp(history, now, 0), 3000);
        /* an hour later */
        assert_int_equal(
            gs_ledger_used_bp(history, now + UINT64_C(3600000000000), UINT64_C(10000000000)), 0);
    }
    memset(history, 0xff, sizeof(history));
    assert_true(gs_ledger_used_bp(history, UINT64_MAX, UINT64_MAX) <= 10000);
}

static void share(struct file *f, uint32_t id, uint64_t bytes, uint32_t creator, uint64_t holders)
{
    f->ledger->share[id].state = GS_SHARE_LIVE;
    f->ledger->share[id].creator = creator;
    f->ledger->share[id].holders[0] = holders;
    f->dev[0].share_bytes[id] = bytes;
    f->ledger->head.share_high = id + 1;
}

static void test_shares(void **state)
{
    struct file f = make(1);
    struct gs_owner me = self(), gone = dead();
    struct gs_ledger_snapshot *snap;

    (void)state;
    occupy(&f, 0, &gone);
    occupy(&f, 1, &me);
    occupy(&f, 2, &me);
    share(&f, 0, 1, 2, 6);          /* creator lives: 2 */
    share(&f, 1, 10, 0, 7);         /* creator dead: lowest live holder, 1 */
    share(&f, 2, 100, 2, 2);        /* creator has let go: 1 */
    share(&f, 3, 1000, 0, 1);       /* all holders dead */
    share(&f, 4, 10000, 0xffff, 4); /* hostile creator: 2 */
    snap = read_ok(f.fd);
    assert_int_equal(snap->device[0].slot_bytes[1], 110);
    assert_int_equal(snap->device[0].slot_bytes[2], 10001);
    assert_int_equal(snap->device[0].used_bytes, 10111);
    assert_int_equal(snap->device[0].dead_bytes, 1000);
    free(snap);
    drop(&f);
}

static void test_hostile(void **state)
{
    struct file f = make(GS_LEDGER_DEVICES);
    struct gs_owner me = self();
    struct gs_ledger_snapshot *snap;

    (void)state;
    occupy(&f, 0, &me);
    occupy(&f, 1, &me);
    f.ledger->head.slot_high = UINT64_MAX;
    f.ledger->head.share_high = UINT64_MAX;
    memset(f.dev[0].uuid, 'A', sizeof(f.dev[0].uuid)); /* no NUL */
    f.dev[0].core_pct = 4000;
    f.dev[0].policy = 77;
    f.dev[0].held[0] = f.dev[0].held[1] = UINT64_MAX;
    f.dev[0].share_bytes[1023] = 5;
    memset(f.ledger->share, 0xff, sizeof(f.ledger->share));
    snap = read_ok(f.fd);
    assert_int_equal(snap->n_slots, GS_LEDGER_SLOTS);
    assert_int_equal(strlen(snap->device[0].uuid), 95);
    assert_int_equal(snap->device[0].core_pct, 100);
    assert_int_equal(snap->device[0].policy, GS_POLICY_FIXED);
    assert_true(snap->device[0].used_bytes == UINT64_MAX);
    free(snap);
    drop(&f);
}

/** A locked byte says alive even where the pid means nothing to us (another pid namespace). */
static void test_lock(void **state)
{
    struct file f = make(0);
    struct gs_owner gone = dead();
    struct gs_ledger_snapshot *snap;
    int up[2], down[2];
    char c = 0;
    pid_t pid;

    (void)state;
    occupy(&f, 3, &gone);
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    pid = fork();
    if (pid == 0) {
        struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3, .l_len = 1};

        (void)close(down[1]);
        c = fcntl(f.fd, F_SETLK, &fl) == 0;
        (void)!write(up[1], &c, 1);
        (void)!read(down[0], &c, 1);
        _exit(0);
    }
    assert_int_equal(read(up[0], &c, 1), 1);
    assert_int_equal(c, 1);
    snap = read_ok(f.fd);
    assert_int_equal(snap->is_live[3], 1);
    assert_int_equal(snap->holder_pid[3], pid);
    free(snap);
    (void)close(down[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    snap = read_ok(f.fd);
    assert_int_equal(snap->is_live[3], 0);
    free(snap);
    drop(&f);
}

static void put_event(struct file *f, uint64_t pos, uint64_t seq)
{
    struct gs_ledger_event *e = &f->ledger->ring[pos % GS_LEDGER_RING];

    memset(e, 0, sizeof(*e));
    e->seq = seq;
    e->arg[0] = pos;
}

static void test_events(void **state)
{
    struct file f = make(0);
    struct gs_ledger_event events[GS_LEDGER_RING];
    uint64_t next = 0;

    (void)state;
    assert_int_equal(gs_ledger_read_events(f.fd, 0, events, GS_LEDGER_RING, &next), 0);
    for (uint64_t pos = 0; pos < 1000; pos++)
        put_event(&f, pos, 2 * (pos + 1));
    f.ledger->head.ring_next = 1000;
    put_event(&f, 999, 2 * 999 + 1); /* its writer was killed in the middle */
    put_event(&f, 600, 2 * 88 + 2);  /* not written yet: still the one a round before */
    assert_int_equal(gs_ledger_read_events(f.fd, 0, events, GS_LEDGER_RING, &next),
                     GS_LEDGER_RING - 2);
    assert_int_equal(events[0].arg[0], 1000 - GS_LEDGER_RING);
    assert_int_equal(next, 1000);
    assert_int_equal(gs_ledger_read_events(f.fd, 990, events, 4, &next), 4);
    assert_int_equal(events[3].arg[0], 993);
    assert_int_equal(next, 994);
    f.ledger->head.ring_next = UINT64_MAX; /* hostile: no endless loop */
    assert_true(gs_ledger_read_events(f.fd, 0, events, GS_LEDGER_RING, &next) >= 0);
    assert_int_equal(ftruncate(f.fd, 10), 0);
    assert_int_equal(gs_ledger_read_events(f.fd, 0, events, 1, &next), -EPROTO);
    (void)close(f.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check),   cmocka_unit_test(test_sums),
        cmocka_unit_test(test_compute), cmocka_unit_test(test_average),
        cmocka_unit_test(test_shares),  cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_lock),    cmocka_unit_test(test_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
