#include "hook/order.h"

#include "core/atomics.h"
#include "hook/limiter_local.h"
#include "hook/self.h"
#include "hook/slot.h"
#include "hook/usage.h"

static uint32_t bit_of(uint32_t ticket)
{
    return 1u << ticket % 32;
}

/** Tickets wrap. */
static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* The thread's ticket that it has not handed on. A wait that was left by a jump (`siglongjmp` out
 * of a signal's handler) leaves one behind: the thread's next launch takes it up again, else each
 * would cost everybody GS_ORDER_DEAD_NS. The model's threads have none, and jump nowhere. */
struct held {
    bool is_there;
    uint32_t dev;
    uint32_t ticket;
};
static _Thread_local struct held held __attribute__((tls_model("initial-exec")));

static void hold(struct held ticket)
{
#ifndef GS_ATOMICS_SHIM
    held = ticket;
#else
    (void)ticket;
#endif
}

/** Is there one in the queue still? In a forked child the queue has begun anew. */
static bool has_left_one(uint32_t dev)
{
    const struct gs_limiter_card *card = gs_limiter_card_of(dev);

    return held.is_there && held.dev == dev &&
           !is_before(held.ticket, __atomic_load_n(&card->serving, __ATOMIC_RELAXED)) &&
           is_before(held.ticket, __atomic_load_n(&card->next, __ATOMIC_RELAXED));
}

static uint64_t *seen_of(struct gs_limiter_card *card, uint32_t ticket)
{
    return &card->seen_ns[ticket % GS_LIMITER_TICKETS];
}

/** A thread that waits says so at every look. Another one's word for it may stand there, of a
 * ticket a round of the table away: then it is taken to be alive. */
static void look(struct gs_limiter_card *card, uint32_t ticket, uint64_t now_ns)
{
    __atomic_store_n(seen_of(card, ticket), now_ns, __ATOMIC_RELAXED);
}

static bool is_gone(struct gs_limiter_card *card, uint32_t ticket, uint64_t now_ns)
{
    uint64_t seen = __atomic_load_n(seen_of(card, ticket), __ATOMIC_RELAXED);

    return now_ns > seen && now_ns - seen > GS_ORDER_DEAD_NS;
}

uint32_t gs_order_enter(uint32_t dev)
{
    uint32_t ticket;

    if (GS_UNLIKELY(has_left_one(dev)))
        return held.ticket;
    ticket = __atomic_fetch_add(&gs_limiter_card_of(dev)->next, 1, __ATOMIC_RELAXED);
    hold((struct held){true, dev, ticket});
    return ticket;
}

bool gs_order_is_empty(uint32_t dev)
{
    struct gs_limiter_card *card = gs_limiter_card_of(dev);

    return __atomic_load_n(&card->next, __ATOMIC_RELAXED) ==
           __atomic_load_n(&card->serving, __ATOMIC_RELAXED);
}

bool gs_order_is_head(uint32_t dev, uint32_t ticket)
{
    return !is_before(__atomic_load_n(&gs_limiter_card_of(dev)->serving, __ATOMIC_ACQUIRE), ticket);
}

/** From `from` to `to`; once, whoever tries. */
static void advance(struct gs_limiter_card *card, uint32_t from, uint32_t to, uint64_t now_ns)
{
    /* the new head's heart beats from here on, whether it has woken up yet or not */
    __atomic_store_n(&card->beat_ns, now_ns, __ATOMIC_RELAXED);
    /* pairs with the acquire in gs_order_is_head */
    if (__atomic_compare_exchange_n(&card->serving, &from, to, 0, __ATOMIC_RELEASE,
                                    __ATOMIC_RELAXED) &&
        is_before(to, __atomic_load_n(&card->next, __ATOMIC_RELAXED)))
        gs_limiter_wake(&card->serving, bit_of(to));
}

void gs_order_wait(uint32_t dev, uint32_t ticket, uint64_t now_ns, uint64_t until_ns)
{
    struct gs_limiter_card *card = gs_limiter_card_of(dev);
    uint32_t serving = __atomic_load_n(&card->serving, __ATOMIC_ACQUIRE);
    uint64_t beat = __atomic_load_n(&card->beat_ns, __ATOMIC_RELAXED);

    if (!is_before(serving, ticket))
        return;
    look(card, ticket, now_ns);
    if (now_ns > beat && now_ns - beat > GS_ORDER_DEAD_NS) {
        uint32_t to = serving + 1;

        /* many may have gone together: threads of a pool that was cancelled */
        while (is_before(to, ticket) && is_gone(card, to, now_ns))
            to++;
        advance(card, serving, to, now_ns);
        return;
    }
    gs_limiter_sleep(&card->serving, serving, until_ns, bit_of(ticket));
}

void gs_order_leave(uint32_t dev, uint32_t ticket, uint64_t now_ns)
{
    struct gs_limiter_card *card = gs_limiter_card_of(dev);

    hold((struct held){false, 0, 0});
    /* one that was passed over has nothing to hand on: the compare fails */
    advance(card, ticket, ticket + 1, now_ns);
}

/** Slots there are; the ledger's word is not to be trusted with an index. */
static uint32_t slot_high(const struct gs_self_state *self)
{
    uint64_t n = gs_atomic_load(&self->ledger->head.slot_high, __ATOMIC_RELAXED);

    return n < GS_LEDGER_SLOTS ? (uint32_t)n : GS_LEDGER_SLOTS;
}

bool gs_order_must_defer(uint32_t dev, uint64_t since_ns, uint64_t open_ns, uint64_t now_ns)
{
    const struct gs_self_state *self = &gs_self;
    uint32_t high = slot_high(self);

    if (open_ns != 0 && now_ns - open_ns >= GS_ORDER_GRACE_NS)
        return false;
    for (uint32_t i = 0; i < high; i++) {
        const struct gs_ledger_use *use = &self->device[dev].use[i];
        uint64_t w = gs_atomic_load(&use->wait_since_ns, __ATOMIC_RELAXED);

        /* one that waits and lives says so every quantum */
        if (w != 0 && w < since_ns && since_ns - w > GS_ORDER_AHEAD_NS && i != self->slot &&
            now_ns < gs_atomic_load(&use->active_ns, __ATOMIC_RELAXED) + GS_ORDER_STALE_NS)
            return true;
    }
    return false;
}

/** Has another slot anything at stake that its death would take from us, or charge us for? */
static bool is_mate_at_stake(const struct gs_self_state *self)
{
    uint32_t high = slot_high(self);

    for (uint32_t dev = 0; dev < self->n_devices; dev++) {
        const struct gs_ledger_use *use = self->device[dev].use;

        for (uint32_t i = 0; i < high; i++) {
            if (i != self->slot && (gs_atomic_load(&use[i].inflight_ns, __ATOMIC_RELAXED) |
                                    gs_atomic_load(&use[i].unsettled_ns, __ATOMIC_RELAXED) |
                                    gs_atomic_load(&use[i].wait_since_ns, __ATOMIC_RELAXED)) != 0)
                return true;
        }
    }
    return false;
}

static bool has_mate_work_out(uint32_t dev)
{
    const struct gs_self_state *self = &gs_self;
    uint32_t high = slot_high(self);

    for (uint32_t i = 0; i < high; i++) {
        if (i != self->slot &&
            gs_atomic_load(&self->device[dev].use[i].unsettled_ns, __ATOMIC_RELAXED) != 0)
            return true;
    }
    return false;
}

uint32_t gs_order_mates(uint32_t dev, uint64_t now_ns)
{
    const struct gs_self_state *self = &gs_self;
    uint32_t high = slot_high(self), n = 0;

    for (uint32_t i = 0; i < high; i++) {
        if (i != self->slot &&
            now_ns < gs_atomic_load(&self->device[dev].use[i].active_ns, __ATOMIC_RELAXED) +
                         GS_ORDER_MATE_NS)
            n++;
    }
    return n;
}

uint64_t gs_order_mates_ns(uint32_t dev, uint64_t start_ns, uint64_t end_ns)
{
    const struct gs_self_state *self = &gs_self;
    uint32_t high = slot_high(self);
    uint64_t out = end_ns;

    for (uint32_t i = 0; i < high; i++) {
        uint64_t since = gs_atomic_load(&self->device[dev].use[i].unsettled_ns, __ATOMIC_RELAXED);

        if (i != self->slot && since != 0 && since < out)
            out = since;
    }
    out = out > start_ns ? out : start_ns;
    return gs_usage_covered(&self->device[dev], start_ns, out) + end_ns - out;
}

uint64_t gs_order_until_reap_ns(uint32_t dev)
{
    return has_mate_work_out(dev) ? GS_ORDER_REAP_SOON_NS : GS_ORDER_REAP_NS;
}

void gs_order_reap(uint32_t dev, uint64_t now_ns)
{
    uint64_t *last = &gs_limiter_local.reap_ns;
    uint64_t seen = __atomic_load_n(last, __ATOMIC_RELAXED);

    if (now_ns - seen < GS_ORDER_REAP_SOON_NS || now_ns - seen < gs_order_until_reap_ns(dev) ||
        !__atomic_compare_exchange_n(last, &seen, now_ns, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return; /* not yet, or another thread does it now */
    if (is_mate_at_stake(&gs_self))
        (void)gs_slot_reap(); /* what is freed shows in the bucket */
}

static uint32_t trial_slot(uint64_t trial)
{
    return (uint32_t)(trial & ((1u << GS_LEDGER_TRIAL_BITS) - 1));
}

/** For how long the process that the word names has been at it; UINT64_MAX: nobody is, or it had
 * its time. Who asks may have looked at the clock before that process began: it has only begun. */
static uint64_t trial_age_us(uint64_t trial, uint64_t now_ns)
{
    uint64_t since = trial >> GS_LEDGER_TRIAL_BITS, now_us = now_ns / 1000;
    uint64_t age = since > now_us ? 0 : now_us - since;
    uint64_t ahead = since > now_us ? since - now_us : 0;

    if (trial_slot(trial) == 0 || age > GS_ORDER_TRIAL_NS / 1000 ||
        ahead > GS_ORDER_TRIAL_NS / 1000)
        return UINT64_MAX;
    return age;
}

uint64_t gs_order_trial_ns(uint32_t dev, uint64_t now_ns, bool *ret_ours)
{
    uint64_t trial = gs_atomic_load(&gs_self.device[dev].trial, __ATOMIC_RELAXED);
    uint64_t age = trial_age_us(trial, now_ns);

    *ret_ours = trial_slot(trial) == gs_self.slot + 1;
    return age == UINT64_MAX ? 0 : age * 1000 + 1;
}

bool gs_order_try_trial(uint32_t dev, uint64_t now_ns)
{
    const struct gs_self_state *self = &gs_self;
    uint64_t *word = &self->device[dev].trial;
    uint64_t seen = gs_atomic_load(word, __ATOMIC_ACQUIRE);

    for (;;) {
        /* ours keeps its time: who launches nothing but unknown kernels gives way in the end */
        if (trial_age_us(seen, now_ns) != UINT64_MAX)
            return trial_slot(seen) == self->slot + 1;
        if (gs_atomic_cas(word, &seen, now_ns / 1000 << GS_LEDGER_TRIAL_BITS | (self->slot + 1),
                          __ATOMIC_ACQ_REL))
            return true;
    }
}

void gs_order_end_trial(uint32_t dev)
{
    const struct gs_self_state *self = &gs_self;
    uint64_t *word = &self->device[dev].trial;
    uint64_t seen = gs_atomic_load(word, __ATOMIC_RELAXED);

    if (trial_slot(seen) == self->slot + 1)
        (void)gs_atomic_cas(word, &seen, 0, __ATOMIC_ACQ_REL); /* else another has taken it */
}
