#include "hook/attach.h"
#include "hook/self.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "contract/env.h"
#include "contract/owner.h"
#include "hook/gate.h"
#include "hook/slot.h"
#include "slice.h"

static int setup(void **state)
{
    (void)state;
    slice_setup();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    slice_teardown();
    return 0;
}

/** Attach must fail closed for this reason; allocations are refused, queries answer zero, and
 * nobody dies. */
static void assert_closed(enum gs_reason reason)
{
    int rc = gs_attach();

    if (rc != -ESHUTDOWN || gs_attach_reason() != reason)
        print_error("attach: %d, %s\n", rc, gs_reason_name(gs_attach_reason()));
    assert_int_equal(rc, -ESHUTDOWN);
    assert_int_equal(gs_attach_reason(), reason);
    assert_int_equal(gs_gate_reserve(0, 1, GS_CHARGE_HELD, "t"), -ESHUTDOWN);
    assert_int_equal(gs_gate_limit(0), 0);
    assert_int_equal(gs_attach_device("GPU-0"), -ESHUTDOWN);
    assert_int_equal(gs_attach_n_devices(), 0);
    gs_attach_forget();
}

static void write_ledger(const void *bytes, size_t n)
{
    FILE *f = fopen(slice_ledger(), "w");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_good(void **state)
{
    const struct gs_self_state *self = &gs_self;
    struct stat st;

    (void)state;
    errno = 77;
    slice_attach();
    assert_int_equal(errno, 77);
    assert_int_equal(gs_attach_reason(), GS_REASON_NONE);
    assert_int_equal(gs_attach_n_devices(), 3);
    assert_string_equal(gs_attach_uuid(1), "GPU-1");
    assert_null(gs_attach_uuid(3));
    assert_int_equal(gs_attach_device("GPU-2"), 2);
    assert_int_equal(gs_attach_device("GPU-9"), -ENODEV);
    assert_int_equal(self->slot, 0);
    assert_int_equal(self->ledger->head.quota_generation, 3);
    assert_int_equal(self->ledger->slot[0].pid, getpid());
    assert_int_equal(fcntl(self->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_true(self->fd >= 64);
    assert_int_equal(stat(slice_ledger(), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(st.st_size, gs_ledger_file_bytes(3));
    assert_true(st.st_blocks * 512 >= st.st_size); /* no holes: a store cannot run out of space */
}

static void test_quota_bad(void **state)
{
    (void)state;
    slice_write_quota("gpuslice-quota 1\ngeneration 3\nfail closed\ndevice GPU-0 memory=12zb "
                      "cores=1 policy=off\n");
    assert_closed(GS_REASON_QUOTA_BAD);
    assert_int_equal(access(slice_ledger(), F_OK), -1); /* nothing is created on bad limits */
    slice_write_quota("");
    assert_closed(GS_REASON_QUOTA_BAD);
}

static void test_quota_unreadable(void **state)
{
    char path[128];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/quota", slice_folder());
    assert_int_equal(unlink(path), 0);
    assert_closed(GS_REASON_QUOTA_UNREADABLE);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_closed(GS_REASON_QUOTA_UNREADABLE);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0); /* must not block either */
    assert_closed(GS_REASON_QUOTA_UNREADABLE);
    assert_int_equal(setenv(GS_ENV_QUOTA_DIR, "/nowhere", 1), 0);
    assert_closed(GS_REASON_QUOTA_UNREADABLE);
}

static void test_quota_long(void **state)
{
    char text[GS_QUOTA_MAX_BYTES + 100];

    (void)state;
    memset(text, '\n', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    slice_write_quota(text);
    assert_closed(GS_REASON_QUOTA_BAD);
}

static void test_fail_open(void **state)
{
    (void)state;
    slice_write_quota(
        "gpuslice-quota 1\ngeneration 3\nfail open\ndevice GPU-0 memory=1000 cores=1 policy=off\n");
    write_ledger("not a ledger", 12);
    assert_int_equal(gs_attach(), 1);
    assert_int_equal(gs_attach_reason(), GS_REASON_LEDGER_FOREIGN);
    assert_int_equal(gs_gate_reserve(0, UINT64_C(1) << 40, GS_CHARGE_HELD, "t"), 0);
    gs_gate_release(0, 1, GS_CHARGE_HELD);
    assert_true(gs_gate_limit(0) == UINT64_MAX);
    assert_int_equal(gs_attach_device("GPU-0"), -ENOENT);
}

static void test_ledger_foreign(void **state)
{
    static char zeros[5000];

    (void)state;
    write_ledger("x", 1);
    assert_closed(GS_REASON_LEDGER_FOREIGN);
    write_ledger(zeros, sizeof(zeros));
    assert_closed(GS_REASON_LEDGER_FOREIGN);
}

static void test_ledger_truncated_or_long(void **state)
{
    (void)state;
    slice_attach();
    gs_attach_forget();
    assert_int_equal(truncate(slice_ledger(), (off_t)gs_ledger_file_bytes(3) + 4096), 0);
    assert_closed(GS_REASON_LEDGER_FOREIGN);
    assert_int_equal(truncate(slice_ledger(), (off_t)gs_ledger_file_bytes(2)), 0);
    assert_closed(GS_REASON_LEDGER_FOREIGN);
    assert_int_equal(truncate(slice_ledger(), 0), 0); /* as good as new */
    slice_attach();
}

/** What `gpuslice run` wrote into a ledger that is not made yet: a debt begins the bucket. */
static void test_debt_before_the_ledger(void **state)
{
    const int64_t words[3] = {-900000000, 5000000000, -7};
    uint64_t at = offsetof(struct gs_ledger_device, bucket);
    int fd;

    (void)state;
    fd = open(slice_ledger(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)gs_ledger_file_bytes(3)), 0);
    for (uint32_t i = 0; i < 3; i++) {
        const struct gs_ledger_bucket b = {.tokens_ns = words[i], .refill_ns = 77};

        assert_int_equal(pwrite(fd, &b, sizeof(b), (off_t)(gs_ledger_file_bytes(i) + at)),
                         sizeof(b));
    }
    (void)close(fd);
    slice_attach();
    assert_int_equal(gs_self.device[0].bucket.tokens_ns, -900000000);
    assert_int_equal(gs_self.device[0].bucket.refill_ns, 77);
    assert_int_equal(gs_self.device[1].bucket.tokens_ns, 0); /* only debts are taken over */
    assert_int_equal(gs_self.device[1].bucket.refill_ns, 0);
    assert_int_equal(gs_self.device[2].bucket.tokens_ns, -7);
}

static void test_ledger_not_a_file(void **state)
{
    (void)state;
    assert_int_equal(symlink("/etc/passwd", slice_ledger()), 0);
    assert_closed(GS_REASON_LEDGER_OPEN);
    assert_int_equal(unlink(slice_ledger()), 0);
    assert_int_equal(mkdir(slice_ledger(), 0700), 0);
    assert_closed(GS_REASON_LEDGER_OPEN);
    assert_int_equal(rmdir(slice_ledger()), 0);
    assert_int_equal(mkfifo(slice_ledger(), 0600), 0);
    assert_closed(GS_REASON_LEDGER_FOREIGN);
    assert_int_equal(setenv(GS_ENV_LEDGER, "/nowhere/x.cache", 1), 0);
    assert_closed(GS_REASON_LEDGER_OPEN);
    assert_int_equal(setenv(GS_ENV_LEDGER, "/dev/null", 1), 0);
    assert_closed(GS_REASON_LEDGER_FOREIGN);
}

static void test_read_only_file_system(void **state)
{
    (void)state;
    assert_int_equal(setenv(GS_ENV_LEDGER, "/proc/gpuslice.cache", 1), 0);
    assert_closed(GS_REASON_LEDGER_OPEN);
    assert_int_equal(setenv(GS_ENV_LEDGER, "/sys/gpuslice.cache", 1), 0);
    assert_closed(GS_REASON_LEDGER_OPEN);
}

/** No room for the ledger: told, not killed by the kernel's signal; and later room is used. */
static void test_no_room(void **state)
{
    struct rlimit old, small;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 65536;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_closed(GS_REASON_LEDGER_SPACE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    slice_attach();
}

/** ... but `gpuslice run` has taken the room: the file need not get longer. What lies there is not
 * taken for a ledger's. */
static void test_room_is_taken(void **state)
{
    const uint64_t bytes = gs_ledger_file_bytes(3), junk = UINT64_MAX;
    const uint64_t at = offsetof(struct gs_ledger_device, held);
    struct rlimit old, small;
    int fd = open(slice_ledger(), O_RDWR | O_CREAT | O_EXCL, 0600);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(posix_fallocate(fd, 0, (off_t)bytes), 0);
    assert_int_equal(
        pwrite(fd, &junk, sizeof(junk), (off_t)(gs_ledger_file_bytes(0) + at + 7 * sizeof(junk))),
        sizeof(junk));
    (void)close(fd);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 65536;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    slice_attach();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(gs_self.device[0].held[7], 0);
}

static void test_long_path(void **state)
{
    char path[600];

    (void)state;
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(setenv(GS_ENV_LEDGER, path, 1), 0);
    assert_closed(GS_REASON_LEDGER_OPEN);
}

/** A creator killed in the middle leaves a file that the next one finishes. */
static void test_unfinished_creation(void **state)
{
    const struct gs_self_state *self = &gs_self;

    (void)state;
    slice_attach();
    self->ledger->head.magic = 0;
    self->ledger->head.n_devices = 99;
    gs_attach_forget();
    slice_attach();
    assert_int_equal(gs_attach_n_devices(), 3);
    assert_int_equal(self->ledger->head.n_devices, 3);
}

/** A grant for other devices needs another ledger; a smaller or larger limit does not. */
static void test_changed_quota(void **state)
{
    (void)state;
    slice_attach();
    gs_attach_forget();
    slice_write_quota("gpuslice-quota 1\ngeneration 4\nfail closed\n"
                      "device GPU-2 memory=500 cores=none policy=off\n");
    slice_attach();
    assert_int_equal(gs_attach_device("GPU-2"), 2);
    assert_int_equal(gs_attach_device("GPU-0"), -ENODEV); /* not in our grant any more */
    assert_int_equal(gs_gate_reserve(0, 1, GS_CHARGE_HELD, "t"), -ENOMEM);
    assert_int_equal(gs_gate_limit(2), 500);
    assert_int_equal(gs_self.device[2].limit_bytes, 500);
    assert_int_equal(gs_self.region->limit_bytes[2], 500);
    assert_int_equal(gs_self.ledger->head.quota_generation, 4);
    gs_attach_forget();
}

static void write_other_devices(void)
{
    slice_write_quota("gpuslice-quota 1\ngeneration 5\nfail closed\n"
                      "device GPU-7 memory=500 cores=none policy=off\n");
}

static int stay(void *arg)
{
    (void)arg;
    return 0;
}

/** A ledger that was made for other devices is refused while a process lives in it, and made anew
 * for the next one after. */
static void test_other_devices(void **state)
{
    struct stat before, after;
    int other;

    (void)state;
    other = slice_start_other(stay, NULL);
    assert_int_equal(stat(slice_ledger(), &before), 0);
    write_other_devices();
    assert_closed(GS_REASON_LEDGER_STALE);
    assert_int_equal(stat(slice_ledger(), &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    slice_end(other);
    slice_attach();
    assert_int_equal(gs_attach_n_devices(), 1);
    assert_int_equal(gs_attach_device("GPU-7"), 0);
    assert_int_equal(gs_gate_limit(0), 500);
    assert_int_equal(stat(slice_ledger(), &after), 0);
    assert_int_equal(after.st_ino, gs_self.file_ino);
    assert_int_equal(after.st_mode & 0777, 0600);
    assert_int_equal(after.st_size, gs_ledger_file_bytes(1));
}

static int closes_its_descriptor(void *arg)
{
    (void)arg;
    return close(gs_self.fd);
}

/** A program that closed our descriptor has lost its lock and lives. Who is refused holds no lock
 * on, that would keep others out. */
static void test_other_devices_lock_lost(void **state)
{
    int other;

    (void)state;
    other = slice_start_other(closes_its_descriptor, NULL);
    write_other_devices();
    assert_int_equal(gs_attach(), -ESHUTDOWN);
    assert_int_equal(gs_attach_reason(), GS_REASON_LEDGER_STALE);
    slice_write_quota("gpuslice-quota 1\ngeneration 6\nfail closed\n"
                      "device GPU-0 memory=500 cores=none policy=off\n");
    assert_int_equal(slice_in_other(stay, NULL), 0);
    gs_attach_forget();
    write_other_devices();
    slice_end(other);
    slice_attach();
}

/** Where no new file can be put in its place, the old one is refused as before, and is whole. */
static void test_other_devices_no_place(void **state)
{
    char path[160];

    (void)state;
    slice_attach();
    gs_attach_forget();
    write_other_devices();
    (void)snprintf(path, sizeof(path), "%s.new", slice_ledger());
    assert_int_equal(mkdir(path, 0700), 0);
    assert_closed(GS_REASON_LEDGER_STALE);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/etc/passwd", path), 0); /* left by anybody: goes, is not followed */
    slice_attach();
    assert_int_equal(access(path, F_OK), -1);
}

static void test_older_version(void **state)
{
    const uint64_t at = GS_LEDGER_OFFSET + offsetof(struct gs_ledger_head, version);
    const uint32_t older = GS_LEDGER_VERSION - 1, newer = GS_LEDGER_VERSION + 1;
    int fd, other;

    (void)state;
    other = slice_start_other(stay, NULL);
    fd = open(slice_ledger(), O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(fd, &older, sizeof(older), (off_t)at), sizeof(older));
    (void)close(fd);
    assert_closed(GS_REASON_LEDGER_STALE);
    slice_end(other);
    slice_attach();
    assert_int_equal(gs_self.ledger->head.version, GS_LEDGER_VERSION);
    gs_self.ledger->head.version = newer; /* whose slots we cannot know */
    gs_attach_forget();
    assert_closed(GS_REASON_LEDGER_FOREIGN);
}

#define RACERS 6

/** Attach for card `i`; answer with the file we live in, 0 refused, and stay until told. */
static void race(uint32_t i, int answers, int end)
{
    uint64_t ino = 0;
    struct stat st;
    char byte;

    gs_attach_forget();
    (void)setenv(i % 2 == 0 ? "CUDA_DEVICE_MEMORY_LIMIT_0" : "CUDA_DEVICE_MEMORY_LIMIT_1", "1m", 1);
    if (gs_attach() == 0)
        ino = gs_self.file_ino;
    if (ino != 0 && (stat(slice_ledger(), &st) != 0 || st.st_ino != ino))
        ino = UINT64_MAX;
    (void)!write(answers, &ino, sizeof(ino));
    (void)!read(end, &byte, 1);
    _exit(0);
}

/** Processes for one card and for another at the same time, in a ledger for a third: whoever is let
 * in lives in the one file that the path names, and those of the other card are refused. */
static void test_other_devices_race(void **state)
{
    (void)state;
    slice_use_env();
    for (int round = 0; round < 20; round++) {
        uint64_t ino, seen = 0;
        int answers[2], end[2];
        uint32_t n_in = 0;

        assert_int_equal(setenv("CUDA_DEVICE_MEMORY_LIMIT_2", "1m", 1), 0);
        slice_end(slice_start_other(stay, NULL));
        assert_int_equal(unsetenv("CUDA_DEVICE_MEMORY_LIMIT_2"), 0);
        assert_int_equal(pipe(answers), 0);
        assert_int_equal(pipe(end), 0);
        for (uint32_t i = 0; i < RACERS; i++) {
            pid_t pid = fork();

            assert_true(pid >= 0);
            if (pid == 0) {
                (void)close(end[1]);
                race(i, answers[1], end[0]);
            }
        }
        for (uint32_t i = 0; i < RACERS; i++) {
            assert_int_equal(read(answers[0], &ino, sizeof(ino)), sizeof(ino));
            if (ino == 0)
                continue;
            n_in++;
            if (seen == 0)
                seen = ino;
            assert_true(ino == seen);
        }
        (void)close(end[1]);
        for (uint32_t i = 0; i < RACERS; i++)
            assert_true(wait(NULL) > 0);
        (void)close(end[0]);
        (void)close(answers[0]);
        (void)close(answers[1]);
        assert_int_equal(n_in, RACERS / 2);
    }
}

/** The reason reaches the ring of a ledger that is there, and $GPUSLICE_LOG. */
static void test_reason_is_told(void **state)
{
    struct gs_ledger_event event;
    char path[128], line[400] = {0};
    uint64_t next;
    FILE *f;
    int fd;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/log", slice_folder());
    slice_attach();
    gs_attach_forget();
    assert_int_equal(setenv(GS_ENV_LOG, path, 1), 0);
    slice_write_quota("gpuslice-quota 1\ngeneration 4\nfail closed\nnonsense\n");
    assert_int_equal(gs_attach(), -ESHUTDOWN);
    fd = open(slice_ledger(), O_RDONLY | O_CLOEXEC);
    assert_int_equal(gs_ledger_read_events(fd, 0, &event, 1, &next), 1);
    (void)close(fd);
    assert_int_equal(event.reason, GS_REASON_QUOTA_BAD);
    assert_int_equal(event.arg[0], 4);
    f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof(line), f));
    assert_int_equal(fclose(f), 0);
    assert_non_null(strstr(line, "line 4 of the quota file is not valid"));
    assert_int_equal(strncmp(line, "gpuslice[", 9), 0);
}

static int child_attaches(void *arg)
{
    const struct gs_self_state *self = &gs_self;

    (void)arg;
    if (self->slot != 1 || gs_gate_own(0, GS_CHARGE_HELD) != 0 || gs_gate_used(0) != 100)
        return 1;
    return gs_gate_reserve(0, 901, GS_CHARGE_HELD, "t") == -ENOMEM &&
                   gs_gate_reserve(0, 900, GS_CHARGE_HELD, "t") == 0
               ? 0
               : 2;
}

/** A forked child starts with nothing, in a slot of its own, and its parent keeps what it has. */
static void test_fork(void **state)
{
    (void)state;
    slice_attach();
    assert_int_equal(gs_gate_reserve(0, 100, GS_CHARGE_HELD, "t"), 0);
    gs_self.spin[0].word = 1; /* another thread of ours is in the gate at this moment */
    assert_int_equal(slice_in_other(child_attaches, NULL), 0);
    gs_self.spin[0].word = 0;
    assert_int_equal(gs_gate_own(0, GS_CHARGE_HELD), 100);
    assert_int_equal(gs_gate_reserve(0, 900, GS_CHARGE_HELD, "t"), 0); /* the child is dead */
}

static int child_sees_live(void *arg)
{
    (void)arg;
    return (int)gs_slot_reap().reaped;
}

/** A program that closes our descriptor loses the lock, not the slot. */
static void test_descriptor_closed(void **state)
{
    struct gs_self_state *self = &gs_self;

    (void)state;
    slice_attach();
    assert_int_equal(gs_gate_reserve(0, 100, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(close(self->fd), 0);
    assert_int_equal(slice_in_other(child_sees_live, NULL), 0);
    assert_int_equal(gs_gate_own(0, GS_CHARGE_HELD), 100);
    (void)gs_slot_reap(); /* opens it again and takes the lock */
    assert_int_equal(fcntl(self->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(slice_in_other(child_sees_live, NULL), 0);
    assert_int_equal(dup2(1, self->fd), self->fd); /* now the number is somebody else's */
    (void)gs_slot_reap();
    assert_true(self->fd >= 0);
}

#define AGAIN "again"

/** A program in a process of its own that has 900 bytes, and then begins another program, `argv`,
 * in its place. Returns its pid when that has happened. */
static pid_t begins_another(char *const argv[])
{
    int begun[2];
    char c;
    pid_t pid;

    assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        gs_attach_forget();
        if (gs_attach() != 0 || gs_gate_reserve(0, 900, GS_CHARGE_HELD, "t") != 0)
            _exit(100);
        (void)execv(argv[0], argv);
        _exit(101);
    }
    assert_int_equal(close(begun[1]), 0);
    assert_int_equal(read(begun[0], &c, 1), 0);
    assert_int_equal(close(begun[0]), 0);
    return pid;
}

/** A program that begins another one keeps its pid, and nothing that it had: its mates need not
 * wait for the other's end. */
static void test_exec_seen_by_others(void **state)
{
    char *const argv[] = {"/bin/sleep", "1000", NULL};
    pid_t pid;

    (void)state;
    slice_attach();
    pid = begins_another(argv);
    assert_int_equal(gs_gate_reserve(0, 1000, GS_CHARGE_HELD, "t"), 0);
    assert_int_equal(kill(pid, 0), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int runs_again(void)
{
    if (gs_attach() != 0)
        return 1;
    if (gs_gate_used(0) != 0)
        return 2;
    return gs_gate_reserve(0, 900, GS_CHARGE_HELD, "t") == 0 ? 0 : 3;
}

/** ... and nor does it itself find that in its way, whatever the addresses it runs at. */
static void test_exec_seen_by_itself(void **state)
{
    char *const argv[] = {"/proc/self/exe", AGAIN, NULL};
    int before = personality(0xffffffff), status = 0;
    pid_t pid;

    (void)state;
    for (int fixed = 0; fixed < 2; fixed++) {
        if (fixed)
            (void)personality((unsigned long)before | ADDR_NO_RANDOMIZE);
        pid = begins_another(argv);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    (void)personality((unsigned long)before);
}

/** All slots taken by the living: the next process is refused device memory, not aborted. */
static void test_slots_full(void **state)
{
    struct gs_ledger *ledger;
    char *base;
    int fd;

    (void)state;
    slice_attach();
    gs_attach_forget();
    fd = open(slice_ledger(), O_RDWR | O_CLOEXEC);
    base = mmap(NULL, gs_ledger_file_bytes(3), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(base != MAP_FAILED);
    (void)close(fd);
    ledger = (struct gs_ledger *)(void *)(base + GS_LEDGER_OFFSET);
    ledger->head.slot_high = GS_LEDGER_SLOTS;
    for (uint32_t i = 0; i < GS_LEDGER_SLOTS; i++) {
        struct gs_owner owner;

        assert_int_equal(gs_owner_self(&owner), 0); /* us: alive */
        ledger->slot[i].owner = gs_owner_word(&owner);
        ledger->slot[i].once = owner.once;
    }
    assert_closed(GS_REASON_SLOTS_FULL);
    for (uint32_t i = 0; i < GS_LEDGER_SLOTS; i++)
        ledger->slot[i].owner = UINT64_C(0x7fffffff) << 32; /* no such process */
    slice_attach();
    (void)munmap(base, gs_ledger_file_bytes(3));
}

static void test_no_variables(void **state)
{
    (void)state;
    slice_use_env();
    assert_closed(GS_REASON_NO_QUOTA);
}

static void test_env_forms(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv("CUDA_DEVICE_MEMORY_LIMIT_1", "4096m", 1), 0);
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "1g", 1), 0);
    assert_int_equal(setenv(GS_ENV_CONTAINER_MEM, "garbage that does not count", 1), 0);
    assert_int_equal(setenv(GS_ENV_SM_LIMIT, "30", 1), 0);
    slice_attach();
    assert_int_equal(gs_attach_n_devices(), 3);
    assert_true(gs_gate_limit(0) == UINT64_C(1) << 30);
    assert_true(gs_gate_limit(1) == UINT64_C(4) << 30);
    assert_int_equal(gs_self.device[0].core_pct, 30);
    assert_int_equal(unsetenv("CUDA_DEVICE_MEMORY_LIMIT_1"), 0);
}

static void test_env_container(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv(GS_ENV_CONTAINER_MEM, "2Gi", 1), 0);
    slice_attach();
    assert_true(gs_gate_limit(2) == UINT64_C(2) << 30);
}

/** A share alone: memory has no limit, compute has. */
static void test_env_share_alone(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv(GS_ENV_SM_LIMIT, "30", 1), 0);
    slice_attach();
    assert_int_equal(gs_attach_n_devices(), 3);
    assert_true(gs_gate_limit(1) == UINT64_MAX);
    assert_int_equal(gs_self.core_pct[1], 30);
    gs_attach_forget();
    assert_int_equal(unlink(slice_ledger()), 0);
    assert_int_equal(unsetenv(GS_ENV_SM_LIMIT), 0);
    assert_int_equal(setenv("CUDA_DEVICE_SM_LIMIT_1", "40", 1), 0);
    slice_attach();
    assert_int_equal(gs_attach_n_devices(), 1);
    assert_int_equal(gs_attach_device("GPU-1"), 0);
    assert_int_equal(gs_self.core_pct[0], 40);
    gs_attach_forget();
    assert_int_equal(setenv("CUDA_DEVICE_SM_LIMIT_1", "300", 1), 0);
    assert_closed(GS_REASON_ENV_WORD);
    assert_int_equal(unsetenv("CUDA_DEVICE_SM_LIMIT_1"), 0);
}

/** Where memory of one card has a limit, a share does not grant the others. */
static void test_env_share_beside_memory(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv(GS_ENV_SM_LIMIT, "30", 1), 0);
    assert_int_equal(setenv("CUDA_DEVICE_MEMORY_LIMIT_2", "1g", 1), 0);
    slice_attach();
    assert_int_equal(gs_attach_n_devices(), 1);
    assert_int_equal(gs_attach_device("GPU-2"), 0);
    assert_int_equal(gs_self.core_pct[0], 30);
    assert_int_equal(unsetenv("CUDA_DEVICE_MEMORY_LIMIT_2"), 0);
}

/** A card that no variable speaks of is not granted. */
static void test_env_one_card(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv("CUDA_DEVICE_MEMORY_LIMIT_2", "none", 1), 0);
    slice_attach();
    assert_int_equal(gs_attach_n_devices(), 1);
    assert_int_equal(gs_attach_device("GPU-0"), -ENODEV);
    assert_int_equal(gs_attach_device("GPU-2"), 0);
    assert_true(gs_gate_limit(0) == UINT64_MAX);
    assert_int_equal(unsetenv("CUDA_DEVICE_MEMORY_LIMIT_2"), 0);
}

static void test_env_bad(void **state)
{
    static const char *const bad[] = {"0",    "-1",   "1e999",  "12zb", "",
                                      "010m", "0x10", "4096mb", " 1g",  "18446744073709551615"};

    (void)state;
    slice_use_env();
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        assert_int_equal(setenv(GS_ENV_MEM_LIMIT, bad[i], 1), 0);
        assert_closed(GS_REASON_ENV_BAD);
    }
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "1g", 1), 0);
    assert_int_equal(setenv(GS_ENV_SM_LIMIT, "101", 1), 0);
    assert_closed(GS_REASON_ENV_WORD);
    assert_int_equal(setenv(GS_ENV_SM_LIMIT, "0", 1), 0); /* HAMi: none */
    slice_attach();
    assert_int_equal(gs_self.device[0].core_pct, 100);
}

/** HAMi's policy, priority and per-card share; the ledger and its mirror show them. */
static void test_env_compute(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "1g", 1), 0);
    assert_int_equal(setenv(GS_ENV_SM_LIMIT, "30", 1), 0);
    assert_int_equal(setenv("CUDA_DEVICE_SM_LIMIT_1", "70", 1), 0);
    assert_int_equal(setenv(GS_ENV_CORE_POLICY, "default", 1), 0);
    assert_int_equal(setenv(GS_ENV_PRIORITY, "0", 1), 0);
    slice_attach();
    assert_int_equal(gs_self.core_pct[0], 30);
    assert_int_equal(gs_self.core_pct[1], 70);
    assert_int_equal(gs_self.policy[1], GS_POLICY_ELASTIC);
    assert_int_equal(gs_self.device[1].policy, GS_POLICY_ELASTIC);
    assert_int_equal(gs_self.region->sm_limit_pct[1], 70);
    assert_int_equal(gs_self.priority, GS_PRIORITY_HIGH);
    assert_int_equal(gs_self.region->priority, 0);
    gs_attach_forget();

    /* who comes later and says otherwise gets the smaller of the two */
    assert_int_equal(setenv("CUDA_DEVICE_SM_LIMIT_1", "90", 1), 0);
    assert_int_equal(setenv(GS_ENV_CORE_POLICY, "disable", 1), 0);
    slice_attach();
    assert_int_equal(gs_self.core_pct[1], 70);
    assert_int_equal(gs_self.policy[1], GS_POLICY_ELASTIC);
    gs_attach_forget();
    assert_int_equal(setenv(GS_ENV_CORE_POLICY, "force", 1), 0);
    assert_int_equal(setenv(GS_ENV_PRIORITY, "1", 1), 0);
    slice_attach();
    assert_int_equal(gs_self.policy[1], GS_POLICY_FIXED);
    assert_int_equal(gs_self.priority, GS_PRIORITY_LOW);
    assert_int_equal(unsetenv("CUDA_DEVICE_SM_LIMIT_1"), 0);
}

static void test_env_bad_words(void **state)
{
    static const char *const bad_policy[] = {"", "Force", "off", "default "};
    static const char *const bad_priority[] = {"", "2", "-1", "high", "0x0"};

    (void)state;
    slice_use_env();
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "1g", 1), 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad_policy); i++) {
        assert_int_equal(setenv(GS_ENV_CORE_POLICY, bad_policy[i], 1), 0);
        assert_closed(GS_REASON_ENV_WORD);
    }
    assert_int_equal(unsetenv(GS_ENV_CORE_POLICY), 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(bad_priority); i++) {
        assert_int_equal(setenv(GS_ENV_PRIORITY, bad_priority[i], 1), 0);
        assert_closed(GS_REASON_ENV_WORD);
    }
}

/** A new quota file counts for who attaches next, in both directions. */
static void test_quota_compute(void **state)
{
    (void)state;
    slice_attach();
    assert_int_equal(gs_self.core_pct[0], 30);
    assert_int_equal(gs_self.region->priority, 1);
    gs_attach_forget();
    slice_write_quota("gpuslice-quota 1\ngeneration 4\nfail closed\npriority 0\n"
                      "device GPU-0 memory=1000 cores=80 policy=elastic\n");
    slice_attach();
    assert_int_equal(gs_self.core_pct[0], 80);
    assert_int_equal(gs_self.device[0].core_pct, 80);
    assert_int_equal(gs_self.device[0].policy, GS_POLICY_ELASTIC);
    assert_int_equal(gs_self.region->sm_limit_pct[0], 80);
    assert_int_equal(gs_self.region->priority, 0);
    assert_int_equal(gs_self.priority, GS_PRIORITY_HIGH);
}

static void test_env_no_limit(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "0m", 1), 0);
    slice_attach();
    assert_true(gs_gate_limit(0) == UINT64_MAX);
    assert_int_equal(gs_self.region->limit_bytes[0], 0);
}

static void test_env_no_cards(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "1g", 1), 0);
    slice_cards = -EIO;
    assert_closed(GS_REASON_NO_CARDS);
    slice_cards = 0;
    assert_closed(GS_REASON_NO_CARDS);
}

/** A process may tighten its own variables, not loosen what the slice began with. */
static void test_env_changed(void **state)
{
    (void)state;
    slice_use_env();
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "1000", 1), 0);
    slice_attach();
    gs_attach_forget();
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "2000", 1), 0);
    slice_attach();
    assert_int_equal(gs_gate_limit(0), 1000);
    gs_attach_forget();
    assert_int_equal(setenv(GS_ENV_MEM_LIMIT, "500", 1), 0);
    slice_attach();
    assert_int_equal(gs_gate_limit(0), 500);
}

int main(int argc, char **argv)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_good),
        CASE(test_quota_bad),
        CASE(test_quota_unreadable),
        CASE(test_quota_long),
        CASE(test_fail_open),
        CASE(test_ledger_foreign),
        CASE(test_ledger_truncated_or_long),
        CASE(test_ledger_not_a_file),
        CASE(test_debt_before_the_ledger),
        CASE(test_read_only_file_system),
        CASE(test_no_room),
        CASE(test_room_is_taken),
        CASE(test_long_path),
        CASE(test_unfinished_creation),
        CASE(test_changed_quota),
        CASE(test_other_devices),
        CASE(test_other_devices_lock_lost),
        CASE(test_other_devices_no_place),
        CASE(test_older_version),
        CASE(test_other_devices_race),
        CASE(test_reason_is_told),
        CASE(test_fork),
        CASE(test_descriptor_closed),
        CASE(test_exec_seen_by_others),
        CASE(test_exec_seen_by_itself),
        CASE(test_slots_full),
        CASE(test_no_variables),
        CASE(test_env_forms),
        CASE(test_env_container),
        CASE(test_env_share_alone),
        CASE(test_env_share_beside_memory),
        CASE(test_env_one_card),
        CASE(test_env_bad),
        CASE(test_env_compute),
        CASE(test_env_bad_words),
        CASE(test_quota_compute),
        CASE(test_env_no_limit),
        CASE(test_env_no_cards),
        CASE(test_env_changed),
    };

    if (argc == 2 && strcmp(argv[1], AGAIN) == 0)
        return runs_again();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
