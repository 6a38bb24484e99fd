#include "contract/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "contract/owner.h"
#include "contract/quota.h"
#include "core/size.h"

#define HEAD_BYTES offsetof(struct gs_ledger_head, reserved)

/* Raw system calls: the hook uses gs_ledger_check, and libc's pread is a cancellation point. */
int gs_ledger_pread(int fd, void *buf, size_t n, uint64_t at)
{
    char *p = buf;

    while (n > 0) {
        long part = syscall(SYS_pread64, fd, p, n, (off_t)at);

        if (part < 0 && errno == EINTR)
            continue;
        if (part < 0)
            return -errno;
        if (part == 0)
            return -EPROTO; /* shorter than a moment ago */
        p += part;
        n -= (size_t)part;
        at += (uint64_t)part;
    }
    return 0;
}

/** All zero so far: its creator has not come to the magic words. */
static int is_unfinished(int fd, const struct stat *st, const struct gs_ledger_head *head)
{
    int32_t hami;

    if (st->st_size == 0)
        return 1;
    return head->magic == 0 && gs_ledger_pread(fd, &hami, sizeof(hami), 0) == 0 &&
           (hami == 0 || hami == GS_HAMI_MAGIC) &&
           (uint64_t)st->st_size >= gs_ledger_file_bytes(0) &&
           (uint64_t)st->st_size <= gs_ledger_file_bytes(GS_LEDGER_DEVICES) &&
           ((uint64_t)st->st_size - gs_ledger_file_bytes(0)) % sizeof(struct gs_ledger_device) == 0;
}

static int read_head(int fd, struct gs_ledger_head *ret)
{
    struct stat st;
    int rc;

    if (syscall(SYS_fstat, fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EPROTO;
    if (st.st_size == 0)
        return -ENODATA;
    if ((uint64_t)st.st_size < gs_ledger_file_bytes(0))
        return -EPROTO;
    rc = gs_ledger_pread(fd, ret, HEAD_BYTES, GS_LEDGER_OFFSET);
    if (rc < 0)
        return rc;
    if (is_unfinished(fd, &st, ret))
        return -ENODATA;
    if (ret->magic != GS_LEDGER_MAGIC || ret->version != GS_LEDGER_VERSION ||
        ret->n_devices > GS_LEDGER_DEVICES || ret->file_bytes != (uint64_t)st.st_size ||
        ret->file_bytes != gs_ledger_file_bytes(ret->n_devices))
        return -EPROTO;
    return 0;
}

int gs_ledger_check(int fd, uint32_t *ret_n_devices)
{
    struct gs_ledger_head head;
    int rc = read_head(fd, &head);

    if (rc == 0)
        *ret_n_devices = head.n_devices;
    return rc;
}

static int32_t lock_holder(int fd, uint32_t slot)
{
    struct flock fl = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)slot, .l_len = 1};

    if (syscall(SYS_fcntl, fd, F_GETLK, &fl) != 0 || fl.l_type == F_UNLCK)
        return 0;
    return fl.l_pid > 0 ? (int32_t)fl.l_pid : -1;
}

/** The status word of HAMi's region, which anybody of the slice may write. */
static void read_status(int fd, struct gs_ledger_snapshot *snap, uint32_t slot)
{
    int32_t status;

    if (gs_ledger_pread(fd, &status, sizeof(status),
                        offsetof(struct gs_hami_region, slot) + slot * sizeof(struct gs_hami_slot) +
                            offsetof(struct gs_hami_slot, status)) == 0)
        snap->is_suspended[slot] = status == GS_HAMI_SUSPENDED;
}

static void test_slots(int fd, struct gs_ledger_snapshot *snap)
{
    for (uint32_t i = 0; i < snap->n_slots; i++) {
        uint64_t owner = snap->slot[i].owner;

        if (owner == 0)
            continue;
        snap->holder_pid[i] = lock_holder(fd, i);
        snap->is_live[i] =
            snap->holder_pid[i] != 0 || !gs_owner_has_ended(owner, snap->slot[i].image);
        if (snap->is_live[i])
            read_status(fd, snap, i);
    }
}

/** Slot that a share is charged to; GS_LEDGER_SLOTS where all its holders are dead. */
static uint32_t carrier_of(const struct gs_ledger_snapshot *snap, const struct gs_ledger_share *s)
{
    if (s->creator < snap->n_slots && snap->is_live[s->creator] != 0 &&
        (s->holders[s->creator / 64] >> (s->creator % 64) & 1) != 0)
        return s->creator;
    for (uint32_t i = 0; i < snap->n_slots; i++) {
        if (snap->is_live[i] != 0 && (s->holders[i / 64] >> (i % 64) & 1) != 0)
            return i;
    }
    return GS_LEDGER_SLOTS;
}

static void count_slots(struct gs_ledger_snapshot *snap, struct gs_ledger_books *books,
                        const uint64_t *held, const uint64_t *extra)
{
    for (uint32_t i = 0; i < snap->n_slots; i++) {
        uint64_t sum = gs_size_add(held[i], extra[i]);

        if (snap->is_live[i] == 0) {
            books->dead_bytes = gs_size_add(books->dead_bytes, sum);
            continue;
        }
        books->slot_bytes[i] = sum;
        books->used_bytes = gs_size_add(books->used_bytes, sum);
    }
}

static void count_shares(const struct gs_ledger_snapshot *snap, struct gs_ledger_books *books,
                         const uint64_t *bytes)
{
    for (uint32_t i = 0; i < GS_LEDGER_SHARES; i++) {
        uint32_t carrier;

        if (bytes[i] == 0)
            continue;
        carrier = i < snap->n_shares ? carrier_of(snap, &snap->share[i]) : GS_LEDGER_SLOTS;
        if (carrier == GS_LEDGER_SLOTS) {
            books->dead_bytes = gs_size_add(books->dead_bytes, bytes[i]);
            continue;
        }
        books->slot_bytes[carrier] = gs_size_add(books->slot_bytes[carrier], bytes[i]);
        books->used_bytes = gs_size_add(books->used_bytes, bytes[i]);
    }
}

/** Each process's work, a few slots at a time: the whole table is 320 KiB. */
static int read_work(int fd, uint64_t at, const struct gs_ledger_snapshot *snap,
                     struct gs_ledger_books *books)
{
    struct gs_ledger_use use[16];

    for (uint32_t from = 0; from < snap->n_slots; from += GS_ARRAY_LEN(use)) {
        uint32_t n = snap->n_slots - from;
        int rc;

        if (n > GS_ARRAY_LEN(use))
            n = GS_ARRAY_LEN(use);
        rc = gs_ledger_pread(fd, use, n * sizeof(use[0]), at + from * sizeof(use[0]));
        if (rc < 0)
            return rc;
        for (uint32_t i = 0; i < n; i++) {
            if (snap->is_live[from + i] == 0)
                continue;
            books->work[from + i] = (struct gs_ledger_work){
                .used_ns = use[i].used_ns,
                .waited_ns = use[i].waited_ns,
                .wait_since_ns = use[i].wait_since_ns,
                .launches = use[i].launches,
                .managed_bytes = use[i].managed_bytes,
            };
            books->managed_bytes = gs_size_add(books->managed_bytes, use[i].managed_bytes);
        }
    }
    return 0;
}

uint32_t gs_ledger_used_bp(const uint64_t history[GS_LEDGER_HISTORY], uint64_t now_ns,
                           uint64_t span_ns)
{
    const uint64_t mask = (UINT64_C(1) << GS_LEDGER_HISTORY_BITS) - 1;
    uint64_t epoch = now_ns / GS_LEDGER_HISTORY_NS, n = span_ns / GS_LEDGER_HISTORY_NS, sum = 0;

    if (n == 0)
        n = 1;
    if (n > GS_LEDGER_HISTORY - 8)
        n = GS_LEDGER_HISTORY - 8; /* the newest bins may be written over while they are read */
    for (uint64_t i = 1; i <= n && i <= epoch; i++) {
        uint64_t word = history[(epoch - i) % GS_LEDGER_HISTORY];

        /* epochs are cut to the bits that a word has for them */
        if (((word >> GS_LEDGER_HISTORY_BITS) ^ (epoch - i)) << GS_LEDGER_HISTORY_BITS == 0)
            sum = gs_size_add(sum, word & mask);
    }
    sum /= n * (GS_LEDGER_HISTORY_NS / 10000);
    return sum < 10000 ? (uint32_t)sum : 10000;
}

static int read_device(int fd, uint32_t dev, struct gs_ledger_snapshot *snap)
{
    struct gs_ledger_books *books = &snap->device[dev];
    uint64_t at = gs_ledger_file_bytes(dev);
    struct gs_ledger_device head;
    uint64_t words[GS_LEDGER_SLOTS * 3];
    int rc = gs_ledger_pread(fd, &head, offsetof(struct gs_ledger_device, trial), at);

    memset(books, 0, sizeof(*books));
    /* held and extra before shares, as bytes move */
    if (rc == 0)
        rc =
            gs_ledger_pread(fd, words, sizeof(words), at + offsetof(struct gs_ledger_device, held));
    if (rc < 0)
        return rc;
    memcpy(books->uuid, head.uuid, sizeof(books->uuid) - 1);
    books->limit_bytes = head.limit_bytes;
    books->physical_bytes = head.physical_bytes;
    books->context_bytes = head.context_bytes;
    books->refusals = head.refusals;
    books->core_pct = head.core_pct <= 100 ? head.core_pct : 100;
    books->policy = head.policy < GS_POLICY_COUNT ? head.policy : GS_POLICY_FIXED;
    books->tokens_ns = head.bucket.tokens_ns;
    books->meter = head.meter;
    memcpy(books->history, head.history, sizeof(books->history));
    count_slots(snap, books, words, words + GS_LEDGER_SLOTS);
    count_shares(snap, books, words + 2 * GS_LEDGER_SLOTS);
    return read_work(fd, at + offsetof(struct gs_ledger_device, use), snap, books);
}

int gs_ledger_read(int fd, struct gs_ledger_snapshot *ret)
{
    struct gs_ledger_head head;
    int rc = read_head(fd, &head);

    if (rc < 0)
        return rc;
    memset(ret, 0, offsetof(struct gs_ledger_snapshot, slot));
    ret->n_devices = head.n_devices;
    ret->n_slots = head.slot_high < GS_LEDGER_SLOTS ? (uint32_t)head.slot_high : GS_LEDGER_SLOTS;
    ret->n_shares =
        head.share_high < GS_LEDGER_SHARES ? (uint32_t)head.share_high : GS_LEDGER_SHARES;
    ret->quota_generation = head.quota_generation;
    ret->refusals = head.refusals;
    ret->unmatched = head.unmatched;
    ret->created_ns = head.created_ns;
    ret->suspended = head.suspended;
    /* the tables are 300 KiB and all but empty: their used parts */
    rc = gs_ledger_pread(fd, ret->slot, ret->n_slots * sizeof(ret->slot[0]),
                         GS_LEDGER_OFFSET + offsetof(struct gs_ledger, slot));
    if (rc == 0)
        rc = gs_ledger_pread(fd, ret->share, ret->n_shares * sizeof(ret->share[0]),
                             GS_LEDGER_OFFSET + offsetof(struct gs_ledger, share));
    if (rc < 0)
        return rc;
    test_slots(fd, ret);
    for (uint32_t dev = 0; dev < ret->n_devices; dev++) {
        rc = read_device(fd, dev, ret);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int gs_ledger_read_events(int fd, uint64_t from, struct gs_ledger_event *ret_events, uint32_t max,
                          uint64_t *ret_next)
{
    struct gs_ledger_head head;
    uint64_t at = GS_LEDGER_OFFSET + offsetof(struct gs_ledger, ring);
    int n = 0, rc = read_head(fd, &head);

    if (rc < 0)
        return rc;
    if (head.ring_next > GS_LEDGER_RING && from < head.ring_next - GS_LEDGER_RING)
        from = head.ring_next - GS_LEDGER_RING;
    for (; from < head.ring_next && (uint32_t)n < max; from++) {
        struct gs_ledger_event *e = &ret_events[n];

        rc = gs_ledger_pread(fd, e, sizeof(*e), at + from % GS_LEDGER_RING * sizeof(*e));
        if (rc < 0)
            return rc;
        /* one that is being written, or was overwritten, or whose writer died, is left out */
        if (e->seq == 2 * (from + 1))
            n++;
    }
    *ret_next = from;
    return n;
}
