#include "hook/gate.h"

#include <errno.h>

#include "core/atomics.h"
#include "core/size.h"
#include "hook/mirror.h"
#include "hook/resize.h"
#include "hook/ring.h"
#include "hook/self.h"
#include "hook/slot.h"
#include "hook/spin.h"
#include "hook/step.h"
#include "hook/suspend.h"
#include "hook/sys.h"

/* How long one attempt waits for the announcement of another process before dead slots are looked
 * for, and how long all attempts of one call may take. */
#define PEER_WAIT_US 4000u
#define CALL_WAIT_US 300000u
/* How long a refusal is put off because somebody else is freeing a dead process's bytes just now.
 */
#define REAPER_WAIT_US 100000u
/* How often a query looks for dead processes whose bytes it would count. */
#define QUERY_REAP_MS 200u

/* No honest word of a ledger is as large (2 PiB), and no sum of smaller ones overflows. */
#define ABSURD_BYTES (UINT64_C(1) << 51)

/** What a pass over all announcements and sums of a device found. */
struct tally {
    uint64_t sum;  /**< UINT64_MAX where a word is absurd */
    uint64_t bits; /**< of all words, or-ed: cheaper than a check of each addition */
    bool other;    /**< another slot has announced */
    bool lower;    /**< ... one below ours */
    bool moved;    /**< bytes were moving into or out of a share: they may be counted twice */
};

static uint64_t clamp(uint64_t n, uint64_t max)
{
    return n < max ? n : max;
}

/** Sum the device. Bytes move from pending to held or extra and from there to a share, and are read
 * in that order, so that none is missed. Sequentially consistent loads: with the announcement
 * before them they are the two halves of a Dekker handshake, of two racing announcers one sees the
 * other. */
static void add_slots(const struct gs_self_state *self, uint32_t dev, struct tally *tally)
{
    struct gs_ledger_device *d = &self->device[dev];
    uint64_t n =
        clamp(gs_atomic_load(&self->ledger->head.slot_high, __ATOMIC_SEQ_CST), GS_LEDGER_SLOTS);

    for (uint32_t i = 0; i < n; i++) {
        uint64_t pending = gs_atomic_load(&d->pending[i], __ATOMIC_SEQ_CST);
        uint64_t held = gs_atomic_load(&d->held[i], __ATOMIC_SEQ_CST);
        uint64_t extra = gs_atomic_load(&d->extra[i], __ATOMIC_SEQ_CST);

        tally->sum += pending + held + extra;
        tally->bits |= pending | held | extra;
        if (pending != 0 && i != self->slot) {
            tally->other = true;
            if (i < self->slot)
                tally->lower = true;
        }
    }
}

static void add_shares(const struct gs_self_state *self, uint32_t dev, struct tally *tally)
{
    struct gs_ledger_device *d = &self->device[dev];
    uint64_t n =
        clamp(gs_atomic_load(&self->ledger->head.share_high, __ATOMIC_SEQ_CST), GS_LEDGER_SHARES);

    for (uint32_t i = 0; i < n; i++) {
        uint64_t bytes = gs_atomic_load(&d->share_bytes[i], __ATOMIC_SEQ_CST);

        tally->sum += bytes;
        tally->bits |= bytes;
    }
}

/** Announced, held, extra and shared bytes of the device. */
static struct tally add_all(const struct gs_self_state *self, uint32_t dev)
{
    struct tally tally = {0, 0, false, false, false};

    add_slots(self, dev, &tally);
    add_shares(self, dev, &tally);
    if (GS_UNLIKELY(tally.bits >= ABSURD_BYTES))
        tally.sum = UINT64_MAX;
    return tally;
}

/** A share whose bytes are on the move now. */
static bool is_share_moving(const struct gs_self_state *self)
{
    uint64_t n =
        clamp(gs_atomic_load(&self->ledger->head.share_high, __ATOMIC_SEQ_CST), GS_LEDGER_SHARES);

    for (uint32_t i = 0; i < n; i++) {
        uint64_t kind = gs_atomic_load(&self->ledger->share[i].state, __ATOMIC_SEQ_CST) & 0xff;

        if (kind == GS_SHARE_CLAIMED || kind == GS_SHARE_DYING)
            return true;
    }
    return false;
}

/** The limit may change under our hands (resize.c). */
static uint64_t limit_of(const struct gs_self_state *self, uint32_t dev)
{
    return __atomic_load_n(&self->limit_bytes[dev], __ATOMIC_RELAXED);
}

static struct tally count(const struct gs_self_state *self, uint32_t dev, uint64_t limit)
{
    uint64_t moves = gs_atomic_load(&self->ledger->head.share_moves, __ATOMIC_SEQ_CST);
    struct tally tally = add_all(self, dev);

    if (GS_UNLIKELY(tally.sum > limit)) {
        /* states first: a move that has ended by then has also raised share_moves */
        tally.moved = is_share_moving(self);
        if (gs_atomic_load(&self->ledger->head.share_moves, __ATOMIC_SEQ_CST) != moves)
            tally.moved = true;
    }
    return tally;
}

static uint64_t *charge_word(const struct gs_self_state *self, uint32_t dev, enum gs_charge charge)
{
    struct gs_ledger_device *d = &self->device[dev];

    return charge == GS_CHARGE_HELD ? &d->held[self->slot] : &d->extra[self->slot];
}

static void mirror(struct gs_self_state *self, uint32_t dev)
{
    struct gs_ledger_device *d = &self->device[dev];

    gs_mirror_use(self, dev, __atomic_load_n(&d->held[self->slot], __ATOMIC_RELAXED),
                  __atomic_load_n(&d->extra[self->slot], __ATOMIC_RELAXED));
}

/** Add to our own sum; we are its only writer and hold the device's spin. */
static void add_own(struct gs_self_state *self, uint32_t dev, uint64_t bytes, enum gs_charge charge)
{
    uint64_t *word = charge_word(self, dev, charge);

    /* release: whoever sees the announcement withdrawn afterwards sees these bytes */
    gs_atomic_store(word, gs_size_add(gs_atomic_load(word, __ATOMIC_RELAXED), bytes),
                    __ATOMIC_RELEASE);
}

/** Announce. A full barrier stands between this store and the loads of the count that follows; the
 *  exchange-like add has it (seq_cst read-modify-write). The word is 0 before: one announcer at a
 * time. */
static void announce(struct gs_self_state *self, uint32_t dev, uint64_t bytes)
{
    (void)gs_atomic_add(&self->device[dev].pending[self->slot], bytes, __ATOMIC_SEQ_CST);
}

static void withdraw(struct gs_self_state *self, uint32_t dev)
{
    /* release: pairs with the load of pending in add_slots, orders the sums before it */
    gs_atomic_store(&self->device[dev].pending[self->slot], 0, __ATOMIC_RELEASE);
}

/** Wait until no lower slot announces. 0, or -EAGAIN when one stood still. */
static int wait_lower(const struct gs_self_state *self, uint32_t dev, struct gs_sys_wait *wait)
{
    for (uint32_t i = 0; i < self->slot; i++) {
        while (gs_atomic_load(&self->device[dev].pending[i], __ATOMIC_SEQ_CST) != 0) {
            if (!gs_sys_wait(wait, PEER_WAIT_US))
                return -EAGAIN;
        }
    }
    return 0;
}

/** One attempt under the device's spin: 0 granted; -ENOMEM no room and nobody else was announcing;
 *  -EAGAIN another process stands in the way and does not move. *ret_seen: all there was, ours
 * included. */
static int attempt(struct gs_self_state *self, uint32_t dev, uint64_t bytes, uint64_t limit,
                   enum gs_charge charge, uint64_t *ret_seen)
{
    struct gs_sys_wait wait = {0, 0};
    struct tally tally;
    int rc = 0;

    GS_STEP("reserve.before");
    announce(self, dev, bytes);
    GS_STEP("reserve.announced");
    for (;;) {
        tally = count(self, dev, limit);
        *ret_seen = tally.sum;
        if (GS_LIKELY(tally.sum <= limit))
            break;
        if (!tally.other && !tally.moved) {
            rc = -ENOMEM;
            break;
        }
        if (tally.lower) {
            /* a lower slot goes first: get out of its sum */
            withdraw(self, dev);
            GS_STEP("reserve.withdrawn");
            rc = wait_lower(self, dev, &wait);
            if (rc < 0)
                return rc;
            announce(self, dev, bytes);
        } else if (!gs_sys_wait(&wait, PEER_WAIT_US)) {
            /* only higher slots, who make way for us, or a share on the move */
            rc = -EAGAIN;
            break;
        }
    }
    if (GS_LIKELY(rc == 0)) {
        GS_STEP("reserve.counted");
        add_own(self, dev, bytes, charge);
        GS_STEP("reserve.added");
    }
    withdraw(self, dev);
    GS_STEP("reserve.done");
    return rc;
}

static int reserve(struct gs_self_state *self, uint32_t dev, uint64_t bytes, enum gs_charge charge,
                   uint64_t *ret_seen)
{
    uint64_t limit = limit_of(self, dev);
    int rc = 0;

    if (GS_UNLIKELY(bytes > limit))
        return -ENOMEM;
    gs_spin_lock(&self->spin[dev].word);
    if (limit == UINT64_MAX)
        add_own(self, dev, bytes, charge);
    else
        rc = attempt(self, dev, bytes, limit, charge, ret_seen);
    if (GS_LIKELY(rc == 0))
        mirror(self, dev);
    gs_spin_unlock(&self->spin[dev].word);
    return rc;
}

static void refuse(struct gs_self_state *self, uint32_t dev, enum gs_reason reason,
                   const char *what, const uint64_t arg[4])
{
    (void)gs_atomic_add(&self->ledger->head.refusals, 1, __ATOMIC_RELAXED);
    (void)gs_atomic_add(&self->device[dev].refusals, 1, __ATOMIC_RELAXED);
    gs_ring_log(reason, dev, what, arg);
}

/** The first attempt found no room: look for dead processes and try again, once for a plain
 * refusal, for a while where another process is in the way. */
static int reserve_slow(struct gs_self_state *self, uint32_t dev, uint64_t bytes,
                        enum gs_charge charge, const char *what)
{
    struct gs_sys_wait wait = {GS_SYS_WAIT_SPINS + GS_SYS_WAIT_YIELDS, 0};
    struct gs_slot_pass pass;
    uint64_t seen = bytes;
    int rc;

    do {
        pass = gs_slot_reap();
        rc = reserve(self, dev, bytes, charge, &seen);
        if (rc == 0)
            return 0;
    } while ((rc == -EAGAIN && gs_sys_wait(&wait, CALL_WAIT_US)) ||
             (rc == -ENOMEM && pass.busy > 0 && gs_sys_wait(&wait, REAPER_WAIT_US)));
    refuse(self, dev, rc == -EAGAIN ? GS_REASON_BUSY : GS_REASON_OVER_LIMIT, what,
           (uint64_t[4]){bytes, seen - bytes, limit_of(self, dev), 0});
    return -ENOMEM;
}

/** No such device here: no grant, no ledger, or a slice that does not hold anything. */
static int reserve_unusable(struct gs_self_state *self, uint32_t dev, const char *what)
{
    if (self->state == GS_SELF_OPEN)
        return 0;
    if (self->state == GS_SELF_READY) {
        gs_ring_log(GS_REASON_NOT_GRANTED, dev, what, NULL);
        return -ENODEV;
    }
    gs_ring_log((enum gs_reason)self->reason, GS_RING_NO_DEVICE, self->reason_what,
                self->reason_arg);
    return -ESHUTDOWN;
}

/** Rare: the limits have changed, or the slice is suspended. */
static void heed(struct gs_self_state *self, uint32_t dev, const char *what)
{
    if (gs_resize_is_due(self))
        gs_resize_now();
    if (gs_suspend_is_on())
        gs_suspend_wait(dev, what, NULL);
}

int gs_gate_reserve(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what)
{
    struct gs_self_state *self = &gs_self;
    uint64_t seen;

    if (GS_UNLIKELY(dev >= self->n_devices))
        return reserve_unusable(self, dev, what);
    if (GS_UNLIKELY(gs_resize_is_due(self) || gs_suspend_is_on()))
        heed(self, dev, what);
    if (GS_LIKELY(reserve(self, dev, bytes, charge, &seen) == 0))
        return 0;
    if (bytes > limit_of(self, dev)) {
        refuse(self, dev, GS_REASON_OVER_LIMIT, what,
               (uint64_t[4]){bytes, gs_gate_used(dev), limit_of(self, dev), 0});
        return -ENOMEM;
    }
    return reserve_slow(self, dev, bytes, charge, what);
}

int gs_gate_try(uint32_t dev, uint64_t bytes, enum gs_charge charge, const char *what)
{
    struct gs_self_state *self = &gs_self;
    uint64_t seen;

    if (GS_UNLIKELY(dev >= self->n_devices))
        return self->state == GS_SELF_OPEN ? 0 : -ENODEV;
    if (GS_UNLIKELY(gs_resize_is_due(self) || gs_suspend_is_on()))
        heed(self, dev, what);
    return reserve(self, dev, bytes, charge, &seen) == 0 ? 0 : -ENOMEM;
}

void gs_gate_release(uint32_t dev, uint64_t bytes, enum gs_charge charge)
{
    struct gs_self_state *self = &gs_self;
    uint64_t *word;
    uint64_t had;

    if (GS_UNLIKELY(dev >= self->n_devices))
        return;
    gs_spin_lock(&self->spin[dev].word);
    word = charge_word(self, dev, charge);
    had = gs_atomic_load(word, __ATOMIC_RELAXED);
    GS_STEP("release.before");
    /* release: the driver's free happens before whoever is granted these bytes */
    gs_atomic_store(word, had > bytes ? had - bytes : 0, __ATOMIC_RELEASE);
    GS_STEP("release.done");
    mirror(self, dev);
    gs_spin_unlock(&self->spin[dev].word);
    if (GS_UNLIKELY(had < bytes)) {
        (void)gs_atomic_add(&self->ledger->head.unmatched, 1, __ATOMIC_RELAXED);
        gs_ring_log(GS_REASON_RELEASE_UNMATCHED, dev, "release", (uint64_t[4]){bytes, had, 0, 0});
    }
}

void gs_gate_card_full(uint32_t dev, uint64_t bytes, const char *what)
{
    struct gs_self_state *self = &gs_self;

    if (GS_LIKELY(dev < self->n_devices))
        refuse(self, dev, bytes != 0 ? GS_REASON_CARD_FULL : GS_REASON_CARD_FULL_ANY, what,
               (uint64_t[4]){bytes, gs_gate_used(dev), limit_of(self, dev), 0});
}

void gs_gate_force(uint32_t dev, uint64_t bytes, enum gs_charge charge)
{
    struct gs_self_state *self = &gs_self;

    if (GS_UNLIKELY(dev >= self->n_devices))
        return;
    gs_spin_lock(&self->spin[dev].word);
    add_own(self, dev, bytes, charge);
    mirror(self, dev);
    gs_spin_unlock(&self->spin[dev].word);
}

/** Bytes of other slots may belong to the dead, whom only a system call can tell: ask now and then.
 */
static bool is_query_reap_due(struct gs_self_state *self)
{
    uint64_t now = gs_sys_clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000;
    uint64_t due = __atomic_load_n(&self->query_reap_ms, __ATOMIC_RELAXED);

    if (now < due)
        return false;
    __atomic_store_n(&self->query_reap_ms, now + QUERY_REAP_MS, __ATOMIC_RELAXED);
    return true;
}

uint64_t gs_gate_used(uint32_t dev)
{
    struct gs_self_state *self = &gs_self;
    uint64_t own, used;

    if (GS_UNLIKELY(dev >= self->n_devices))
        return 0;
    own = gs_gate_own(dev, GS_CHARGE_HELD) + gs_gate_own(dev, GS_CHARGE_EXTRA);
    used = add_all(self, dev).sum;
    if (used > own && is_query_reap_due(self) && gs_slot_reap().reaped > 0)
        used = add_all(self, dev).sum;
    return used;
}

uint64_t gs_gate_own(uint32_t dev, enum gs_charge charge)
{
    const struct gs_self_state *self = &gs_self;

    if (GS_UNLIKELY(dev >= self->n_devices))
        return 0;
    return gs_atomic_load(charge_word(self, dev, charge), __ATOMIC_RELAXED);
}

uint64_t gs_gate_limit(uint32_t dev)
{
    const struct gs_self_state *self = &gs_self;

    if (GS_LIKELY(dev < self->n_devices)) {
        if (GS_UNLIKELY(gs_resize_is_due(self)))
            gs_resize_now();
        return limit_of(self, dev);
    }
    return self->state == GS_SELF_OPEN ? UINT64_MAX : 0;
}

bool gs_gate_is_oversubscribed(void)
{
    return __atomic_load_n(&gs_self.oversubscribe, __ATOMIC_RELAXED) != 0;
}

void gs_gate_managed(uint32_t dev, int64_t bytes)
{
    const struct gs_self_state *self = &gs_self;

    if (bytes != 0 && dev < self->n_devices)
        (void)__atomic_add_fetch(&self->device[dev].use[self->slot].managed_bytes, (uint64_t)bytes,
                                 __ATOMIC_RELAXED);
}

void gs_gate_set_context_bytes(uint32_t dev, uint64_t bytes)
{
    const struct gs_self_state *self = &gs_self;

    if (dev < self->n_devices)
        gs_atomic_store(&self->device[dev].context_bytes, bytes, __ATOMIC_RELAXED);
}

uint64_t gs_gate_context_bytes(uint32_t dev)
{
    const struct gs_self_state *self = &gs_self;

    return dev < self->n_devices
               ? gs_atomic_load(&self->device[dev].context_bytes, __ATOMIC_RELAXED)
               : 0;
}

void gs_gate_set_physical_bytes(uint32_t dev, uint64_t bytes)
{
    const struct gs_self_state *self = &gs_self;

    if (dev < self->n_devices)
        gs_atomic_store(&self->device[dev].physical_bytes, bytes, __ATOMIC_RELAXED);
}

uint64_t gs_gate_physical_bytes(uint32_t dev)
{
    const struct gs_self_state *self = &gs_self;

    return dev < self->n_devices
               ? gs_atomic_load(&self->device[dev].physical_bytes, __ATOMIC_RELAXED)
               : 0;
}
