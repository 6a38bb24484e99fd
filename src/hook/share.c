#include "hook/share.h"

#include <errno.h>

#include "core/atomics.h"
#include "core/hash.h"
#include "core/size.h"
#include "hook/mirror.h"
#include "hook/ring.h"
#include "hook/self.h"
#include "hook/slot.h"
#include "hook/spin.h"
#include "hook/step.h"
#include "hook/sys.h"

/* An entry's life: FREE -> CLAIMED -> LIVE -> DYING -> FREE, or DYING -> LIVE when somebody joined
 * at the last moment. CLAIMED and DYING name the slot that works on it, so that its reaper can
 * finish. A LIVE entry without holders is garbage that any leaver or reaper collects. */

#define PEER_WAIT_US 4000u

static uint64_t state_of(uint64_t generation, uint32_t slot_plus1, uint64_t kind)
{
    return generation << 24 | (uint64_t)slot_plus1 << 8 | kind;
}

static uint64_t kind_of(uint64_t state)
{
    return state & 0xff;
}

static uint32_t setter_of(uint64_t state)
{
    return (uint32_t)(state >> 8) & 0xffff;
}

static uint64_t generation_of(uint64_t state)
{
    return state >> 24;
}

static uint32_t share_high(const struct gs_ledger *ledger)
{
    uint64_t n = gs_atomic_load(&ledger->head.share_high, __ATOMIC_SEQ_CST);

    return n < GS_LEDGER_SHARES ? (uint32_t)n : GS_LEDGER_SHARES;
}

static bool is_held(struct gs_ledger_share *s)
{
    uint64_t any = 0;

    for (uint32_t i = 0; i < GS_LEDGER_SLOTS / 64; i++)
        any |= gs_atomic_load(&s->holders[i], __ATOMIC_SEQ_CST);
    return any != 0;
}

static bool has_holder(struct gs_ledger_share *s, uint32_t slot)
{
    return (gs_atomic_load(&s->holders[slot / 64], __ATOMIC_SEQ_CST) >> (slot % 64) & 1) != 0;
}

static void add_holder(struct gs_ledger_share *s, uint32_t slot)
{
    (void)gs_atomic_or(&s->holders[slot / 64], UINT64_C(1) << (slot % 64), __ATOMIC_SEQ_CST);
}

static void drop_holder(struct gs_ledger_share *s, uint32_t slot)
{
    (void)gs_atomic_and(&s->holders[slot / 64], ~(UINT64_C(1) << (slot % 64)), __ATOMIC_SEQ_CST);
}

struct gs_share_key gs_share_key_of(const void *bytes, uint32_t n)
{
    return (struct gs_share_key){{gs_hash_bytes(bytes, n, 1), gs_hash_bytes(bytes, n, 2)}};
}

uint32_t gs_share_carrier(uint32_t id)
{
    struct gs_ledger_share *s = &gs_self.ledger->share[id];
    uint32_t creator = __atomic_load_n(&s->creator, __ATOMIC_RELAXED);

    if (creator < GS_LEDGER_SLOTS && has_holder(s, creator))
        return creator;
    for (uint32_t i = 0; i < GS_LEDGER_SLOTS / 64; i++) {
        uint64_t word = gs_atomic_load(&s->holders[i], __ATOMIC_RELAXED);

        if (word != 0)
            return i * 64 + (uint32_t)__builtin_ctzll(word);
    }
    return GS_LEDGER_SLOTS;
}

/** Zero the bytes and free the entry, which is CLAIMED or DYING for a slot we act for. */
static void finish(struct gs_ledger_share *s, uint32_t id, uint64_t state)
{
    struct gs_self_state *self = &gs_self;

    (void)gs_atomic_add(&self->ledger->head.share_moves, 1, __ATOMIC_SEQ_CST);
    /* all devices: a claimer killed early has not written which one */
    for (uint32_t dev = 0; dev < self->n_mapped; dev++)
        gs_atomic_store(&self->device[dev].share_bytes[id], 0, __ATOMIC_SEQ_CST);
    GS_STEP("share.zeroed");
    (void)gs_atomic_add(&self->ledger->head.share_moves, 1, __ATOMIC_SEQ_CST);
    gs_atomic_store(&s->state, state_of(generation_of(state), 0, GS_SHARE_FREE), __ATOMIC_SEQ_CST);
}

/** Free a LIVE entry that nobody holds, acting for `slot`. */
static void collect(uint32_t id, uint32_t slot)
{
    struct gs_ledger_share *s = &gs_self.ledger->share[id];
    uint64_t state = gs_atomic_load(&s->state, __ATOMIC_SEQ_CST);
    uint64_t dying;

    if (kind_of(state) != GS_SHARE_LIVE || is_held(s))
        return;
    dying = state_of(generation_of(state), slot + 1, GS_SHARE_DYING);
    if (!gs_atomic_cas(&s->state, &state, dying, __ATOMIC_SEQ_CST))
        return; /* somebody else collects it */
    GS_STEP("share.dying");
    /* a joiner sets its bit, then looks at the state; we set the state, then look at the bits */
    if (is_held(s))
        gs_atomic_store(&s->state, state, __ATOMIC_SEQ_CST);
    else
        finish(s, id, dying);
}

/** Find a key that is LIVE. Returns the id, or -ENOENT; *ret_state is the state it was found in. */
static int find(struct gs_share_key key, uint64_t *ret_state)
{
    struct gs_ledger *ledger = gs_self.ledger;
    uint32_t n = share_high(ledger);

    for (uint32_t i = 0; i < n; i++) {
        struct gs_ledger_share *s = &ledger->share[i];
        uint64_t state = gs_atomic_load(&s->state, __ATOMIC_SEQ_CST);

        /* CLAIMED is not to be joined yet; DYING may come back, the caller waits for that */
        if (kind_of(state) != GS_SHARE_LIVE && kind_of(state) != GS_SHARE_DYING)
            continue;
        if (gs_atomic_load(&s->key[0], __ATOMIC_RELAXED) == key.w[0] &&
            gs_atomic_load(&s->key[1], __ATOMIC_RELAXED) == key.w[1]) {
            *ret_state = state;
            return (int)i;
        }
    }
    return -ENOENT;
}

static void raise_high(struct gs_ledger *ledger, uint32_t id)
{
    uint64_t high = gs_atomic_load(&ledger->head.share_high, __ATOMIC_RELAXED);

    while (high <= id &&
           !gs_atomic_cas(&ledger->head.share_high, &high, id + 1, __ATOMIC_SEQ_CST)) {
    }
}

/** Take a FREE entry for ourselves. Returns the id or -ENOSPC. */
static int claim(struct gs_self_state *self, uint64_t *ret_state)
{
    struct gs_ledger *ledger = self->ledger;

    for (uint32_t i = 0; i < GS_LEDGER_SHARES; i++) {
        struct gs_ledger_share *s = &ledger->share[i];
        uint64_t state = gs_atomic_load(&s->state, __ATOMIC_SEQ_CST);
        uint64_t claimed = state_of(generation_of(state) + 1, self->slot + 1, GS_SHARE_CLAIMED);

        if (kind_of(state) != GS_SHARE_FREE)
            continue;
        raise_high(ledger, i);
        if (gs_atomic_cas(&s->state, &state, claimed, __ATOMIC_SEQ_CST)) {
            *ret_state = claimed;
            return (int)i;
        }
    }
    return -ENOSPC;
}

/** Move bytes from our `held` into entry `id`, which is CLAIMED by us: counted twice for a moment,
 *  never missed. */
static void move_bytes(struct gs_self_state *self, uint32_t dev, uint64_t bytes, uint32_t id)
{
    struct gs_ledger_device *d = &self->device[dev];
    uint64_t had;

    gs_spin_lock(&self->spin[dev].word);
    had = gs_atomic_load(&d->held[self->slot], __ATOMIC_RELAXED);
    if (bytes > had)
        bytes = had; /* never more than what is on our books */
    (void)gs_atomic_add(&self->ledger->head.share_moves, 1, __ATOMIC_SEQ_CST);
    GS_STEP("share.before_bytes");
    gs_atomic_store(&d->share_bytes[id], bytes, __ATOMIC_SEQ_CST);
    GS_STEP("share.bytes");
    /* release: whoever sees `held` without the bytes sees them in the share */
    gs_atomic_store(&d->held[self->slot], had - bytes, __ATOMIC_RELEASE);
    GS_STEP("share.moved");
    (void)gs_atomic_add(&self->ledger->head.share_moves, 1, __ATOMIC_SEQ_CST);
    gs_mirror_use(self, dev, had - bytes, gs_atomic_load(&d->extra[self->slot], __ATOMIC_RELAXED));
    gs_spin_unlock(&self->spin[dev].word);
}

/** Take an entry and fill it: CLAIMED and held by us. Returns the id or -ENOSPC. */
static int begin(struct gs_self_state *self, uint32_t device, uint32_t creator,
                 struct gs_share_key key, uint64_t *ret_state)
{
    struct gs_ledger_share *s;
    int id = claim(self, ret_state);

    if (id < 0)
        return id;
    GS_STEP("share.claimed");
    s = &self->ledger->share[id];
    __atomic_store_n(&s->device, device, __ATOMIC_RELAXED);
    __atomic_store_n(&s->creator, creator, __ATOMIC_RELAXED);
    gs_atomic_store(&s->key[0], key.w[0], __ATOMIC_RELAXED);
    gs_atomic_store(&s->key[1], key.w[1], __ATOMIC_RELAXED);
    add_holder(s, self->slot);
    GS_STEP("share.filled");
    return id;
}

static void go_live(struct gs_self_state *self, uint32_t id, uint64_t state)
{
    gs_atomic_store(&self->ledger->share[id].state,
                    state_of(generation_of(state), 0, GS_SHARE_LIVE), __ATOMIC_SEQ_CST);
    GS_STEP("share.live");
    self->share_refs[id] = 1;
}

static int publish(struct gs_self_state *self, uint32_t dev, uint64_t bytes,
                   struct gs_share_key key)
{
    uint64_t state;
    int id = find(key, &state);

    if (id >= 0 && self->share_refs[id] > 0)
        return id;
    id = begin(self, dev, self->slot, key, &state);
    if (id < 0)
        return id;
    move_bytes(self, dev, bytes, (uint32_t)id);
    go_live(self, (uint32_t)id, state);
    gs_mirror_settle(dev);
    return id;
}

int gs_share_publish(uint32_t dev, uint64_t bytes, struct gs_share_key key)
{
    struct gs_self_state *self = &gs_self;
    int id;

    if (dev >= self->n_devices)
        return -ENODEV;
    gs_spin_lock(&self->share_spin.word);
    id = publish(self, dev, bytes, key);
    gs_spin_unlock(&self->share_spin.word);
    if (id < 0)
        gs_ring_log(GS_REASON_SHARES_FULL, dev, "export", NULL);
    return id;
}

/** Take our bit off an entry that we did not get to hold. */
static void withdraw(struct gs_self_state *self, uint32_t id)
{
    if (self->share_refs[id] != 0)
        return;
    drop_holder(&self->ledger->share[id], self->slot);
    collect(id, self->slot); /* our bit may have kept a newer entry's last holder from doing it */
}

/** Each reference to a name is one to the share behind it as well, so that a share outlives its
 * names in every process. */
static int name(struct gs_self_state *self, uint32_t id, struct gs_share_key key)
{
    uint64_t behind = gs_atomic_load(&self->ledger->share[id].state, __ATOMIC_SEQ_CST);
    uint64_t state;
    int other = find(key, &state);

    if (other == (int)id)
        return other;
    if (other >= 0 && self->share_refs[other] > 0) {
        self->share_refs[other]++;
    } else {
        other = begin(self, GS_SHARE_NAME | id, (uint32_t)generation_of(behind), key, &state);
        if (other < 0)
            return other;
        go_live(self, (uint32_t)other, state);
    }
    self->share_refs[id]++;
    return other;
}

int gs_share_name(int id, struct gs_share_key key)
{
    struct gs_self_state *self = &gs_self;
    int other = -ENOENT;

    if (self->n_devices == 0 || id < 0 || (uint32_t)id >= GS_LEDGER_SHARES)
        return -ENOENT;
    gs_spin_lock(&self->share_spin.word);
    if (self->share_refs[id] > 0)
        other = name(self, (uint32_t)id, key);
    gs_spin_unlock(&self->share_spin.word);
    if (other == -ENOSPC)
        gs_ring_log(GS_REASON_SHARES_FULL, GS_RING_NO_DEVICE, "export", NULL);
    return other;
}

/** Set our bit on entry `id`, found as `state`, and see whether it stood. 0 joined; -ENOENT it is
 * gone; -EAGAIN its last holder is leaving at this moment and does not get on with it. */
static int join_found(struct gs_self_state *self, uint32_t id, uint64_t state)
{
    struct gs_ledger_share *s = &self->ledger->share[id];
    uint64_t live = state_of(generation_of(state), 0, GS_SHARE_LIVE);
    struct gs_sys_wait wait = {0, 0};
    int rc = 0;

    add_holder(s, self->slot);
    GS_STEP("share.joining");
    for (;;) {
        uint64_t now = gs_atomic_load(&s->state, __ATOMIC_SEQ_CST);

        if (now == live)
            return 0;
        if (kind_of(now) != GS_SHARE_DYING || generation_of(now) != generation_of(state))
            rc = -ENOENT;
        else if (!gs_sys_wait(&wait, PEER_WAIT_US))
            rc = -EAGAIN;
        if (rc != 0)
            break;
    }
    withdraw(self, id);
    return rc;
}

/** The share behind a name; GS_LEDGER_SHARES for an entry that has bytes of its own. */
static uint32_t behind(const struct gs_self_state *self, uint32_t id)
{
    uint32_t device = __atomic_load_n(&self->ledger->share[id].device, __ATOMIC_RELAXED);
    uint32_t other = device & ~GS_SHARE_NAME;

    return (device & GS_SHARE_NAME) != 0 && other < GS_LEDGER_SHARES ? other : GS_LEDGER_SHARES;
}

/** We hold the name `id`: hold what it names too. Returns as join_found. */
static int join_behind(struct gs_self_state *self, uint32_t id, uint32_t other)
{
    uint32_t generation = __atomic_load_n(&self->ledger->share[id].creator, __ATOMIC_RELAXED);
    uint64_t state = gs_atomic_load(&self->ledger->share[other].state, __ATOMIC_SEQ_CST);
    int rc = -ENOENT;

    if ((uint32_t)generation_of(state) == generation)
        rc = join_found(self, other, state);
    if (rc == 0)
        self->share_refs[other]++;
    else
        withdraw(self, id);
    return rc;
}

/** HAMi's figures of the card that the bytes are on. */
static void settle(struct gs_self_state *self, uint32_t id)
{
    uint32_t other = behind(self, id);

    if (other < GS_LEDGER_SHARES)
        id = other;
    gs_mirror_settle(__atomic_load_n(&self->ledger->share[id].device, __ATOMIC_RELAXED));
}

static int join(struct gs_self_state *self, struct gs_share_key key)
{
    uint64_t state;
    int id, rc = -EAGAIN;

    for (int i = 0; i < 4 && rc == -EAGAIN; i++) {
        id = find(key, &state);
        if (id < 0)
            return id;
        rc = join_found(self, (uint32_t)id, state);
        if (rc == 0 && behind(self, (uint32_t)id) < GS_LEDGER_SHARES)
            rc = join_behind(self, (uint32_t)id, behind(self, (uint32_t)id));
        if (rc == -EAGAIN)
            (void)gs_slot_reap(); /* the leaver is dead: finish for it */
    }
    if (rc < 0)
        return -ENOENT;
    if (self->share_refs[id]++ == 0)
        settle(self, (uint32_t)id);
    return id;
}

int gs_share_join(struct gs_share_key key)
{
    struct gs_self_state *self = &gs_self;
    int id;

    if (self->n_devices == 0)
        return -ENOENT;
    gs_spin_lock(&self->share_spin.word);
    id = join(self, key);
    gs_spin_unlock(&self->share_spin.word);
    return id;
}

/** Take `slot` off entry `id`, acting for it. */
static void leave(uint32_t id, uint32_t slot)
{
    drop_holder(&gs_self.ledger->share[id], slot);
    GS_STEP("share.left");
    collect(id, slot);
}

static void unref(struct gs_self_state *self, uint32_t id)
{
    uint32_t dev = __atomic_load_n(&self->ledger->share[id].device, __ATOMIC_RELAXED);

    if (self->share_refs[id] == 0 || --self->share_refs[id] > 0)
        return;
    leave(id, self->slot);
    gs_mirror_settle(dev); /* nothing for a name */
}

void gs_share_leave(int id)
{
    struct gs_self_state *self = &gs_self;

    if (self->n_devices == 0 || id < 0 || (uint32_t)id >= GS_LEDGER_SHARES)
        return;
    gs_spin_lock(&self->share_spin.word);
    if (self->share_refs[id] > 0) {
        uint32_t other = behind(self, (uint32_t)id);

        unref(self, (uint32_t)id);
        if (other < GS_LEDGER_SHARES)
            unref(self, other);
    }
    gs_spin_unlock(&self->share_spin.word);
}

void gs_share_reap(uint32_t slot)
{
    struct gs_ledger *ledger = gs_self.ledger;
    uint32_t n = share_high(ledger);

    for (uint32_t i = 0; i < n; i++) {
        struct gs_ledger_share *s = &ledger->share[i];
        uint64_t state = gs_atomic_load(&s->state, __ATOMIC_SEQ_CST);

        if (setter_of(state) == slot + 1 && kind_of(state) == GS_SHARE_CLAIMED) {
            drop_holder(s, slot);
            finish(s, i, state);
        } else if (setter_of(state) == slot + 1 && kind_of(state) == GS_SHARE_DYING) {
            drop_holder(s, slot);
            if (is_held(s))
                gs_atomic_store(&s->state, state_of(generation_of(state), 0, GS_SHARE_LIVE),
                                __ATOMIC_SEQ_CST);
            else
                finish(s, i, state);
        } else if (has_holder(s, slot)) {
            leave(i, slot);
        } else {
            collect(i, slot); /* it may have died between dropping its bit and collecting */
        }
        GS_STEP("reap.share");
    }
    for (uint32_t dev = 0; n > 0 && dev < gs_self.n_mapped; dev++)
        gs_mirror_settle(dev);
}
