#include "hook/slot.h"

#include <errno.h>
#include <string.h>

#include "contract/owner.h"
#include "core/atomics.h"
#include "core/size.h"
#include "hook/mirror.h"
#include "hook/self.h"
#include "hook/share.h"
#include "hook/spin.h"
#include "hook/step.h"
#include "hook/sys.h"

/** Slots a pass has to look at; the ledger's word is not to be trusted with an index. */
static uint32_t slot_high(const struct gs_ledger *ledger)
{
    uint64_t n = gs_atomic_load(&ledger->head.slot_high, __ATOMIC_SEQ_CST);

    return n < GS_LEDGER_SLOTS ? (uint32_t)n : GS_LEDGER_SLOTS;
}

/** Programs close descriptors that are not theirs. Make self->fd the ledger again and take our lock
 *  anew; the old one went with the descriptor. Returns 0 or -errno. */
static int ensure_fd(struct gs_self_state *self, bool relock)
{
    struct stat st;
    int fd;

    if (gs_sys_fstat(self->fd, &st) == 0 && st.st_dev == self->file_dev &&
        st.st_ino == self->file_ino)
        return 0;
    fd = gs_sys_openat(AT_FDCWD, self->path,
                       O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    if (gs_sys_fstat(fd, &st) != 0 || st.st_dev != self->file_dev || st.st_ino != self->file_ino) {
        gs_sys_close(fd);
        return -ESTALE;
    }
    self->fd = fd;
    return relock ? gs_sys_lock_byte(fd, self->slot, F_WRLCK) : 0;
}

/** The byte lock is free, or a reaper's; ask the kernel about the process as well: a program that
 * closed our descriptor has lost its lock and lives. A slot that carries our own word is of an
 * image that was here before exec, unless another copy of the hook in this one has it. (Or of a
 * process of another pid namespace with our pid and start time: its lock says so.) */
static bool is_over(const struct gs_self_state *self, const struct gs_ledger_slot *s,
                    uint64_t owner)
{
    if (owner == self->owner_word)
        return gs_atomic_load(&s->once, __ATOMIC_RELAXED) != self->once;
    return gs_owner_has_ended(owner, gs_atomic_load(&s->image, __ATOMIC_RELAXED));
}

/** Free `slot` if what had it is over. The caller holds reap_spin. */
static void reap_one(struct gs_self_state *self, uint32_t slot, struct gs_slot_pass *pass)
{
    struct gs_ledger_slot *s = &self->ledger->slot[slot];
    uint64_t owner = gs_atomic_load(&s->owner, __ATOMIC_ACQUIRE);
    int rc;

    if (owner == 0)
        return;
    rc = gs_sys_lock_byte(self->fd, slot, F_WRLCK);
    if (rc == -EAGAIN || rc == -EACCES) {
        int holder = gs_sys_lock_holder(self->fd, slot);

        /* held by somebody else than its dead owner: another reaper is at work */
        if (holder > 0 && (uint32_t)holder != owner >> 32 && is_over(self, s, owner))
            pass->busy++;
        return;
    }
    if (rc < 0)
        return;
    GS_STEP("reap.locked");
    /* under the lock nobody else changes the owner of a dead slot, and nobody claims it */
    if (gs_atomic_load(&s->owner, __ATOMIC_ACQUIRE) == owner && is_over(self, s, owner)) {
        gs_share_reap(slot);
        GS_STEP("reap.shares_left");
        gs_mirror_wipe(slot);
        gs_slot_wipe(slot);
        GS_STEP("reap.wiped");
        pass->reaped++;
    }
    (void)gs_sys_lock_byte(self->fd, slot, F_UNLCK);
}

struct gs_slot_pass gs_slot_reap(void)
{
    struct gs_self_state *self = &gs_self;
    struct gs_slot_pass pass = {0, 0};
    uint32_t high;

    if (self->ledger == NULL)
        return pass;
    gs_spin_lock(&self->reap_spin.word);
    if (ensure_fd(self, self->state == GS_SELF_READY) == 0) {
        high = slot_high(self->ledger);
        for (uint32_t i = 0; i < high; i++) {
            /* our own byte is ours already: locking and unlocking it would give it away */
            if (i != self->slot)
                reap_one(self, i, &pass);
        }
    }
    gs_spin_unlock(&self->reap_spin.word);
    return pass;
}

static void raise_high(struct gs_ledger *ledger, uint32_t slot)
{
    uint64_t high = gs_atomic_load(&ledger->head.slot_high, __ATOMIC_RELAXED);

    while (high <= slot &&
           !gs_atomic_cas(&ledger->head.slot_high, &high, slot + 1, __ATOMIC_SEQ_CST)) {
    }
}

static void fill(struct gs_self_state *self, struct gs_ledger_slot *s)
{
    char comm[16] = {0};
    int fd = gs_sys_openat(AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC, 0);
    long n = 0;

    if (fd >= 0) {
        n = gs_sys_read(fd, comm, sizeof(comm));
        gs_sys_close(fd);
    }
    if (n > 0 && comm[n - 1] == '\n')
        comm[n - 1] = '\0';
    gs_atomic_store(&s->start_ticks, self->start_ticks, __ATOMIC_RELEASE);
    s->pid = self->pid;
    s->host_pid = 0;
    s->flags = 0;
    s->claimed_ns = gs_sys_clock_ns(CLOCK_REALTIME);
    memcpy(s->comm, comm, sizeof(comm));
    gs_atomic_store(&s->image, self->image, __ATOMIC_RELAXED);
    gs_atomic_store(&s->once, self->once, __ATOMIC_RELAXED);
}

/** 0 ours; -EBUSY not free; other -errno from the kernel. */
static int claim_one(struct gs_self_state *self, uint32_t slot)
{
    struct gs_ledger_slot *s = &self->ledger->slot[slot];
    uint64_t free_word = 0;
    int rc;

    if (gs_atomic_load(&s->owner, __ATOMIC_ACQUIRE) != 0)
        return -EBUSY;
    rc = gs_sys_lock_byte(self->fd, slot, F_WRLCK);
    if (rc == -EAGAIN || rc == -EACCES)
        return -EBUSY;
    if (rc < 0)
        return rc;
    GS_STEP("claim.locked");
    /* before the owner word, so that a claimer killed in between leaves no slot that nobody looks
     * at; and before our first announcement, so that no counter of announcements misses us */
    raise_high(self->ledger, slot);
    GS_STEP("claim.raised");
    if (!gs_atomic_cas(&s->owner, &free_word, self->owner_word, __ATOMIC_SEQ_CST)) {
        (void)gs_sys_lock_byte(self->fd, slot, F_UNLCK);
        return -EBUSY;
    }
    GS_STEP("claim.owned");
    self->slot = slot;
    fill(self, s);
    GS_STEP("claim.filled");
    return 0;
}

int gs_slot_claim(void)
{
    struct gs_self_state *self = &gs_self;

    self->slot = GS_LEDGER_SLOTS; /* none of the slots is ours to skip */
    (void)gs_slot_reap();         /* what the dead left is then not shown for longer than need be */
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < GS_LEDGER_SLOTS; i++) {
            int rc = claim_one(self, i);

            if (rc != -EBUSY)
                return rc;
        }
        if (gs_slot_reap().reaped == 0)
            break;
    }
    return -EUSERS;
}

/** Bytes that `slot` answers for on `dev`: its sums and the shares it carries. */
static uint64_t use_of(struct gs_self_state *self, uint32_t slot, uint32_t dev)
{
    struct gs_ledger_device *d = &self->device[dev];
    uint64_t n = gs_atomic_load(&self->ledger->head.share_high, __ATOMIC_ACQUIRE);
    uint64_t sum = gs_size_add(gs_atomic_load(&d->held[slot], __ATOMIC_ACQUIRE),
                               gs_atomic_load(&d->extra[slot], __ATOMIC_ACQUIRE));

    for (uint32_t i = 0; i < n && i < GS_LEDGER_SHARES; i++) {
        uint64_t bytes = gs_atomic_load(&d->share_bytes[i], __ATOMIC_ACQUIRE);

        if (bytes != 0 && gs_share_carrier(i) == slot)
            sum = gs_size_add(sum, bytes);
    }
    return sum;
}

uint32_t gs_slot_list(uint32_t dev, struct gs_slot_use *ret_uses, uint32_t max)
{
    struct gs_self_state *self = &gs_self;
    uint32_t n = 0, high;

    if (dev >= self->n_devices)
        return 0;
    (void)gs_slot_reap(); /* so that the list holds the living only */
    high = slot_high(self->ledger);
    for (uint32_t i = 0; i < high; i++) {
        const struct gs_ledger_slot *s = &self->ledger->slot[i];
        uint64_t owner = gs_atomic_load(&s->owner, __ATOMIC_ACQUIRE);

        if (owner == 0)
            continue;
        if (n < max)
            ret_uses[n] = (struct gs_slot_use){.pid = (uint32_t)(owner >> 32),
                                               .host_pid = s->host_pid,
                                               .flags = s->flags,
                                               .bytes = use_of(self, i, dev)};
        n++;
    }
    return n;
}

void gs_slot_flag(uint32_t flags)
{
    struct gs_self_state *self = &gs_self;

    if (self->n_devices > 0)
        (void)__atomic_fetch_or(&self->ledger->slot[self->slot].flags, flags, __ATOMIC_RELAXED);
}
