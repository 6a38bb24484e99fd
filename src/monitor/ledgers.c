#include "monitor/ledgers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "contract/owner.h"
#include "contract/quota.h"
#include "core/size.h"

/* A process that says it waits or has work queued is looked at so often: it may be dead. */
#define LOOK_NS 200000000u
/* A cumulative refund beyond this (an hour and more of card time a second, for years) is not one.
 */
#define REFUND_MAX ((uint64_t)1 << 62)

void gs_ledgers_init(struct gs_ledgers *set, const char *uuid)
{
    memset(set, 0, offsetof(struct gs_ledgers, head)); /* the rest is read into before it is used */
    memcpy(set->uuid, uuid, strnlen(uuid, sizeof(set->uuid) - 1));
}

static void close_slice(struct gs_ledgers_slice *s)
{
    (void)close(s->fd); /* what is lost makes a charge larger */
    free(s->arbiter.process);
    free(s->note);
    free(s);
}

void gs_ledgers_fini(struct gs_ledgers *set)
{
    if (!set)
        return;
    while (set->n > 0)
        close_slice(set->slice[--set->n]);
}

void gs_ledgers_begin(struct gs_ledgers *set)
{
    for (uint32_t i = 0; i < set->n; i++)
        set->slice[i]->is_offered = false;
}

void gs_ledgers_end(struct gs_ledgers *set)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < set->n; i++) {
        if (set->slice[i]->is_offered)
            set->slice[kept++] = set->slice[i];
        else
            close_slice(set->slice[i]);
    }
    set->n = kept;
}

static struct gs_ledgers_slice *find(const struct gs_ledgers *set, const struct stat *st)
{
    for (uint32_t i = 0; i < set->n; i++) {
        if (set->slice[i]->arbiter.ledger_dev == st->st_dev &&
            set->slice[i]->arbiter.ledger_ino == st->st_ino)
            return set->slice[i];
    }
    return NULL;
}

/** Put it last in the set. */
static int open_slice(struct gs_ledgers *set, int dir_fd, const char *name)
{
    const int flags = O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    struct gs_ledgers_slice *s;
    struct stat st;
    int fd;

    if (set->n >= GS_BOARD_SLICES)
        return -E2BIG;
    fd = openat(dir_fd, name, O_RDWR | flags);
    if (fd < 0)
        fd = openat(dir_fd, name, O_RDONLY | flags);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd); /* nothing was written */
        return -EPROTO;
    }
    s = calloc(1, sizeof(*s));
    if (!s) {
        (void)close(fd); /* nothing was written */
        return -ENOMEM;
    }
    s->fd = fd;
    s->device = -1;
    s->arbiter.ledger_dev = st.st_dev;
    s->arbiter.ledger_ino = st.st_ino;
    set->slice[set->n++] = s;
    return 0;
}

int gs_ledgers_offer(struct gs_ledgers *set, int dir_fd, const char *name,
                     const struct gs_ledgers_grant *grant)
{
    struct gs_ledgers_slice *s;
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    s = find(set, &st);
    if (!s) {
        int rc = open_slice(set, dir_fd, name);

        if (rc < 0)
            return rc;
        s = set->slice[set->n - 1];
    }
    s->is_offered = true;
    s->arbiter.core_bp =
        grant->core_pct > 0 && grant->core_pct < 100 ? grant->core_pct * 100 : GS_SHARE_ALL_BP;
    s->arbiter.policy = grant->policy < GS_POLICY_COUNT ? grant->policy : GS_POLICY_FIXED;
    s->arbiter.is_high = grant->priority == GS_PRIORITY_HIGH;
    s->arbiter.is_ranked = grant->priority != GS_PRIORITY_NONE;
    s->takes_turns = grant->takes_turns;
    return 0;
}

static int find_device(const struct gs_ledgers *set, struct gs_ledgers_slice *s)
{
    uint32_t n;
    int rc = gs_ledger_check(s->fd, &n);

    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        char uuid[sizeof(set->uuid)];

        rc = gs_ledger_pread(s->fd, uuid, sizeof(uuid), gs_ledger_file_bytes(i));
        if (rc == 0 && strncmp(uuid, set->uuid, sizeof(uuid)) == 0) {
            s->device = (int32_t)i;
            return 0;
        }
    }
    return rc == 0 ? -ENODEV : rc;
}

static int grow(struct gs_ledgers_slice *s, uint32_t n)
{
    uint32_t cap = s->cap ? s->cap : 4;
    struct gs_arbiter_process *process;
    struct gs_ledgers_note *note;

    while (cap < n)
        cap *= 2;
    process = realloc(s->arbiter.process, cap * sizeof(*process));
    if (process)
        s->arbiter.process = process;
    note = realloc(s->note, cap * sizeof(*note));
    if (note)
        s->note = note;
    if (!process || !note)
        return -ENOMEM;
    memset(&process[s->cap], 0, (cap - s->cap) * sizeof(*process));
    memset(&note[s->cap], 0, (cap - s->cap) * sizeof(*note));
    s->cap = cap;
    return 0;
}

/** Pid of who holds the slot's byte; 0 nobody; -1 a process that we cannot name. */
static int32_t lock_holder(int fd, uint32_t slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};

    if (fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return 0;
    return lock.l_pid > 0 ? lock.l_pid : -1;
}

/* As in every reader of ledgers: the byte's lock, or the process with that pid and start time that
 * runs the same image. */
static bool is_dead(int fd, uint32_t slot, const struct gs_ledger_slot *s)
{
    return lock_holder(fd, slot) == 0 && gs_owner_has_ended(s->owner, s->image);
}

static void set_unsettled(struct gs_ledgers_note *note, uint64_t since_ns)
{
    uint64_t before = note->unsettled_ns;

    if (since_ns == before)
        return;
    /* of what is later it was idle as long, but for the time between */
    note->idle_ns = before != 0 && since_ns > before && note->idle_ns > since_ns - before
                        ? note->idle_ns - (since_ns - before)
                        : 0;
    note->unsettled_ns = since_ns;
}

static void take_slot(struct gs_ledgers_slice *s, uint32_t slot, const struct gs_ledger_slot *of,
                      const struct gs_ledger_use *use, uint64_t now_ns)
{
    struct gs_arbiter_process *p = &s->arbiter.process[slot];
    struct gs_ledgers_note *note = &s->note[slot];
    uint64_t owner = of->owner;

    if (p->owner != owner || note->once != of->once) {
        int32_t holder = owner != 0 ? lock_holder(s->fd, slot) : 0;

        gs_arbiter_forget_process(&s->arbiter, p);
        *note = (struct gs_ledgers_note){.once = of->once,
                                         .pid = holder > 0 ? holder : (int32_t)(owner >> 32)};
    }
    p->owner = owner;
    if (owner == 0)
        return;
    set_unsettled(note, use->unsettled_ns);
    p->active_ns = use->active_ns;
    p->wait_since_ns = use->wait_since_ns;
    p->busy_until_ns = use->busy_until_ns;
    p->managed_bytes = use->managed_bytes;
    memcpy(p->bin, use->bin, sizeof(p->bin));
    memcpy(p->known, use->known, sizeof(p->known));
    s->managed_bytes = gs_size_add(s->managed_bytes, use->managed_bytes);
    if (p->wait_since_ns == 0 && p->busy_until_ns <= now_ns)
        return;
    if (now_ns - note->look_ns >= LOOK_NS) {
        note->look_ns = now_ns;
        note->is_dead = is_dead(s->fd, slot, of);
    }
    if (note->is_dead)
        p->wait_since_ns = p->busy_until_ns = 0; /* words that nobody will take back */
}

/** The head and the slots we know of in one go, and the slots that are new. */
static int read_slots(struct gs_ledgers *set, struct gs_ledgers_slice *s, uint32_t *ret_n)
{
    const struct gs_ledger_head *head = &set->head;
    uint32_t known = s->arbiter.n_processes, n;
    int rc = gs_ledger_pread(s->fd, &set->head, sizeof(set->head) + known * sizeof(set->slot[0]),
                             GS_LEDGER_OFFSET);

    if (rc < 0)
        return rc;
    if (head->magic != GS_LEDGER_MAGIC || head->version != GS_LEDGER_VERSION ||
        head->n_devices > GS_LEDGER_DEVICES || (uint32_t)s->device >= head->n_devices)
        return -EPROTO;
    n = head->slot_high < GS_LEDGER_SLOTS ? (uint32_t)head->slot_high : GS_LEDGER_SLOTS;
    if (n > s->cap)
        rc = grow(s, n);
    if (rc == 0 && n > known)
        rc = gs_ledger_pread(s->fd, &set->slot[known], (n - known) * sizeof(set->slot[0]),
                             GS_LEDGER_OFFSET + offsetof(struct gs_ledger, slot) +
                                 known * sizeof(set->slot[0]));
    *ret_n = n;
    return rc;
}

/** Where its hooks are with the board's refunds; asked for as long as nobody has used it. */
static int read_meter(struct gs_ledgers_slice *s)
{
    struct gs_ledger_meter meter;
    int rc = gs_ledger_pread(s->fd, &meter, sizeof(meter),
                             gs_ledger_file_bytes((uint32_t)s->device) +
                                 offsetof(struct gs_ledger_device, meter));

    if (rc == 0)
        s->refund_seen_ns = meter.refund_seen_ns <= REFUND_MAX ? meter.refund_seen_ns : 0;
    return rc;
}

static int read_slice(struct gs_ledgers *set, struct gs_ledgers_slice *s, uint64_t now_ns)
{
    uint32_t n = 0;
    int rc = s->device < 0 ? find_device(set, s) : 0;

    if (rc == 0)
        rc = read_slots(set, s, &n);
    if (rc == 0)
        rc = gs_ledger_pread(s->fd, set->use, n * sizeof(set->use[0]),
                             gs_ledger_file_bytes((uint32_t)s->device) +
                                 offsetof(struct gs_ledger_device, use));
    if (rc == 0)
        rc = gs_ledger_pread(s->fd, s->arbiter.cover, sizeof(s->arbiter.cover),
                             gs_ledger_file_bytes((uint32_t)s->device) +
                                 offsetof(struct gs_ledger_device, cover));
    if (rc == 0 && n > 1)
        rc = gs_ledger_pread(s->fd, s->arbiter.crowd, sizeof(s->arbiter.crowd),
                             gs_ledger_file_bytes((uint32_t)s->device) +
                                 offsetof(struct gs_ledger_device, crowd));
    if (rc == 0 && !s->has_refund)
        rc = read_meter(s);
    if (rc < 0)
        return rc;
    for (uint32_t i = 0; i < n; i++)
        take_slot(s, i, &set->slot[i], &set->use[i], now_ns);
    /* a ledger that shrinks is damaged; its processes end as far as we are concerned */
    for (uint32_t i = n; i < s->arbiter.n_processes; i++)
        gs_arbiter_forget_process(&s->arbiter, &s->arbiter.process[i]);
    s->arbiter.n_processes = n;
    return 0;
}

void gs_ledgers_read(struct gs_ledgers *set, uint64_t now_ns)
{
    for (uint32_t i = 0; i < set->n; i++) {
        struct gs_ledgers_slice *s = set->slice[i];

        s->managed_bytes = 0;
        if (read_slice(set, s, now_ns) == 0)
            continue;
        for (uint32_t j = 0; j < s->arbiter.n_processes; j++)
            gs_arbiter_forget_process(&s->arbiter, &s->arbiter.process[j]);
        s->arbiter.n_processes = 0;
        s->device = -1; /* look at all of it again next time */
    }
}

static uint64_t sum(int fd, uint64_t *buf, uint32_t n, uint64_t at)
{
    uint64_t total = 0;

    if (gs_ledger_pread(fd, buf, n * sizeof(*buf), at) != 0)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        total = gs_size_add(total, buf[i]);
    return total;
}

void gs_ledgers_read_memory(struct gs_ledgers *set)
{
    uint64_t buf[GS_LEDGER_SLOTS > GS_LEDGER_SHARES ? GS_LEDGER_SLOTS : GS_LEDGER_SHARES];

    for (uint32_t i = 0; i < set->n; i++) {
        struct gs_ledgers_slice *s = set->slice[i];
        uint32_t n = s->arbiter.n_processes;
        uint64_t at, all;

        s->fixed_bytes = 0;
        if (s->device < 0)
            continue;
        at = gs_ledger_file_bytes((uint32_t)s->device);
        all = sum(s->fd, buf, n, at + offsetof(struct gs_ledger_device, held));
        all = gs_size_add(all, sum(s->fd, buf, n, at + offsetof(struct gs_ledger_device, extra)));
        all = gs_size_add(all, sum(s->fd, buf, GS_LEDGER_SHARES,
                                   at + offsetof(struct gs_ledger_device, share_bytes)));
        s->fixed_bytes = all > s->managed_bytes ? all - s->managed_bytes : 0;
    }
}

static const struct gs_ledgers_used *find_used(const struct gs_ledgers_used *used, size_t n,
                                               uint32_t pid)
{
    for (size_t i = 0; i < n; i++)
        if (used[i].pid == pid)
            return &used[i];
    return NULL;
}

static bool is_usable(const struct gs_ledgers *set, const struct gs_ledgers_used *used, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (used[i].util_pct > 100 ||
            (used[i].util_pct != 0 && !gs_ledgers_knows(set, used[i].pid)))
            return false; /* it may be one of ours by another name */
    return true;
}

static void write_idle(const struct gs_ledgers_slice *s, uint32_t slot)
{
    const struct gs_ledgers_note *note = &s->note[slot];
    const uint64_t words[] = {note->idle_ns, note->unsettled_ns};
    const uint64_t at =
        gs_ledger_file_bytes((uint32_t)s->device) + offsetof(struct gs_ledger_device, use) +
        slot * sizeof(struct gs_ledger_use) + offsetof(struct gs_ledger_use, idle_ns);

    _Static_assert(offsetof(struct gs_ledger_use, idle_of_ns) ==
                       offsetof(struct gs_ledger_use, idle_ns) + sizeof(words[0]),
                   "both in one go");
    /* where it cannot be written the clock counts, as without it */
    (void)!pwrite(s->fd, words, sizeof(words), (off_t)at);
}

static void take_used(struct gs_ledgers_slice *s, uint32_t slot, uint32_t util_pct,
                      uint64_t from_ns, uint64_t until_ns)
{
    struct gs_ledgers_note *note = &s->note[slot];

    /* what went out since may not have been sampled yet */
    if (note->unsettled_ns == 0 || note->unsettled_ns > from_ns)
        return;
    if (from_ns < note->idle_until_ns)
        from_ns = note->idle_until_ns;
    if (from_ns >= until_ns)
        return;
    note->idle_until_ns = until_ns;
    note->idle_ns += (until_ns - from_ns) / 100 * (100 - util_pct);
    write_idle(s, slot);
}

void gs_ledgers_take_used(struct gs_ledgers *set, const struct gs_ledgers_used *used, size_t n,
                          uint64_t from_ns, uint64_t until_ns)
{
    bool usable = is_usable(set, used, n);

    for (uint32_t i = 0; i < set->n; i++) {
        struct gs_ledgers_slice *s = set->slice[i];

        for (uint32_t j = 0; s->device >= 0 && j < s->arbiter.n_processes; j++) {
            const struct gs_ledgers_used *u = find_used(used, n, (uint32_t)s->note[j].pid);

            if (s->arbiter.process[j].owner == 0 || s->note[j].pid <= 0)
                continue;
            s->is_named |= u != NULL;
            if (usable && s->is_named)
                take_used(s, j, u != NULL ? u->util_pct : 0, from_ns, until_ns);
        }
    }
}

bool gs_ledgers_knows(const struct gs_ledgers *set, uint32_t pid)
{
    for (uint32_t i = 0; i < set->n; i++) {
        const struct gs_ledgers_slice *s = set->slice[i];

        if (!gs_arbiter_is_reporting(&s->arbiter) && !s->takes_turns)
            continue;
        for (uint32_t j = 0; j < s->arbiter.n_processes; j++) {
            if (s->arbiter.process[j].owner != 0 && s->note[j].pid > 0 &&
                (uint32_t)s->note[j].pid == pid)
                return true;
        }
    }
    return false;
}

bool gs_ledgers_is_needed(const struct gs_ledgers *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        if (gs_arbiter_is_reporting(&set->slice[i]->arbiter) || set->slice[i]->takes_turns)
            return true;
    }
    return false;
}
