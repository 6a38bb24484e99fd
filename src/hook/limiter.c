#include "hook/limiter.h"

#include <string.h>

#include "contract/quota.h"
#include "core/atomics.h"
#include "hook/bucket.h"
#include "hook/engine.h"
#include "hook/limiter_local.h"
#include "hook/limiter_look.h"
#include "hook/order.h"
#include "hook/resize.h"
#include "hook/self.h"
#include "hook/spin.h"
#include "hook/step.h"
#include "hook/suspend.h"
#include "hook/trace.h"
#include "hook/usage.h"

/* Card time that a slow path takes for the fast path to spend: so long a stretch of the share, and
 * at least so much. */
#define CHUNK_SPAN_NS 10000000u
#define CHUNK_MIN_NS  300000u
/* Work in flight. */
#define WINDOW_NS 20000000u
/* A waiter that lets another process go first looks again so soon. */
#define DEFER_NS 1000000u
/* A wait of its own that was computed: not shorter. */
#define NAP_MIN_NS 20000u

/* Corrections are left to the credit at hand, so far. */
#define CORRECT_AT_HAND_NS 1000000

/* So long processes that begin are told of unlike launches; how often that is renewed. */
#define UNLIKE_NS      UINT64_C(2000000000)
#define UNLIKE_EACH_NS UINT64_C(100000000)

/* Parts are of this. */
#define ALONE 1024u

struct gs_limiter_credit gs_limiter_credit[GS_LEDGER_DEVICES];

#ifndef GS_ATOMICS_SHIM
struct gs_limiter_state gs_limiter_local;
#endif

/** One launch on its way. */
struct launch {
    uint32_t dev;
    bool measured;
    bool unknown; /**< nobody knows how long it will take */
    uint64_t cost_ns;
    const char *what;
    uint64_t start_ns;
    uint64_t open_ns; /**< since when something is at hand that is left to others; 0 nothing is */
    bool waited;
    enum gs_wait_reason reason; /**< of the wait that began at reason_ns */
    uint64_t reason_ns;
    uint64_t counted_ns; /**< of the wait, what the meter has already */
};

static struct gs_ledger_use *use_of(uint32_t dev)
{
    return &gs_self.device[dev].use[gs_self.slot];
}

bool gs_limiter_is_on(void)
{
    const struct gs_self_state *self = &gs_self;

    if (self->n_devices == 0)
        return false;
    if (__atomic_load_n(&self->priority, __ATOMIC_RELAXED) != GS_PRIORITY_NONE ||
        gs_suspend_is_on())
        return true;
    if (__atomic_load_n(&self->oversubscribe, __ATOMIC_RELAXED) != 0)
        return true; /* it tells the board when it works, and takes its turn in memory */
    for (uint32_t i = 0; i < self->n_devices; i++) {
        uint32_t bp = __atomic_load_n(&gs_limiter_card_of(i)->share_bp, __ATOMIC_RELAXED);

        if (bp != 0 && bp < GS_SHARE_ALL_BP)
            return true;
    }
    return false;
}

/** What threads took from the credit before is void: in their own hands, where nobody else reaches
 * it, it carries the number it was taken under. In a forked child the numbers go on. */
static void set_epoch(void)
{
    static uint64_t last;
    uint64_t epoch = 0;

    if (__atomic_load_n(&gs_engine.ready, __ATOMIC_RELAXED) != 0)
        epoch = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
    /* release: who sees it sees the credit emptied (pairs with the acquire in gs_launch_refill) */
    __atomic_store_n(&gs_engine.launch_epoch, epoch, __ATOMIC_RELEASE);
}

void gs_limiter_publish(void)
{
    uint32_t ready = __atomic_load_n(&gs_engine.ready, __ATOMIC_RELAXED) != 0;
    uint32_t is_free = ready && !gs_limiter_is_on();

    /* release: pairs with the load in the launch rows, which then go by it alone */
    __atomic_store_n(&gs_engine.launch_free, is_free, __ATOMIC_RELEASE);
    __atomic_store_n(&gs_engine.copies_free, is_free || (ready && gs_self.limit_copies == 0),
                     __ATOMIC_RELEASE);
    set_epoch();
}

void gs_limiter_recall(void)
{
    for (uint32_t i = 0; i < GS_LEDGER_DEVICES; i++) {
        int64_t *credit = &gs_limiter_credit[i].ns;

        if (__atomic_load_n(credit, __ATOMIC_RELAXED) > 0)
            __atomic_store_n(credit, 0, __ATOMIC_RELAXED);
    }
    set_epoch();
}

/* Who sleeps on a card: for want of card time, or of something else. There may be hundreds of the
 * second kind, and launches are settled a thousand times a second. */
#define SLEEPS_FOR_TIME  1u
#define SLEEPS_FOR_OTHER 2u

/** Those that sleep on this card look again. */
static void poke(struct gs_limiter_card *card, uint32_t who)
{
    (void)__atomic_add_fetch(&card->poke, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&card->sleepers, __ATOMIC_SEQ_CST) != 0)
        gs_limiter_wake(&card->poke, who);
}

static uint32_t quota_bp(const struct gs_self_state *self, uint32_t dev)
{
    uint32_t pct = __atomic_load_n(&self->core_pct[dev], __ATOMIC_RELAXED);

    if (pct == 0 || pct >= 100 ||
        __atomic_load_n(&self->policy[dev], __ATOMIC_RELAXED) == GS_POLICY_OFF)
        return GS_SHARE_ALL_BP;
    return pct * 100;
}

void gs_limiter_configure(void)
{
    const struct gs_self_state *self = &gs_self;
    bool changed = false;

    for (uint32_t i = 0; i < self->n_mapped && i < GS_LEDGER_DEVICES; i++) {
        struct gs_limiter_card *card = gs_limiter_card_of(i);
        uint32_t bp = quota_bp(self, i);
        uint32_t elastic = __atomic_load_n(&self->policy[i], __ATOMIC_RELAXED) == GS_POLICY_ELASTIC;

        changed |= __atomic_exchange_n(&card->share_bp, bp, __ATOMIC_RELAXED) != bp;
        changed |= __atomic_exchange_n(&card->is_elastic, elastic, __ATOMIC_RELAXED) != elastic;
    }
    if (changed) {
        gs_limiter_recall();
        for (uint32_t i = 0; i < self->n_mapped && i < GS_LEDGER_DEVICES; i++)
            poke(gs_limiter_card_of(i), SLEEPS_FOR_TIME | SLEEPS_FOR_OTHER);
    }
    gs_limiter_publish();
}

void gs_limiter_forget(void)
{
    memset(&gs_limiter_local, 0, sizeof(gs_limiter_local));
    memset(gs_limiter_credit, 0, sizeof(gs_limiter_credit));
}

static uint64_t chunk_ns(uint32_t share_bp)
{
    uint64_t chunk = CHUNK_SPAN_NS / GS_SHARE_ALL_BP * share_bp;

    return chunk > CHUNK_MIN_NS ? chunk : CHUNK_MIN_NS;
}

static void lower_inflight(struct gs_ledger_use *use, uint64_t ns)
{
    uint64_t seen = gs_atomic_load(&use->inflight_ns, __ATOMIC_RELAXED);

    /* release: the bucket was settled before */
    while (!gs_atomic_cas(&use->inflight_ns, &seen, seen > ns ? seen - ns : 0, __ATOMIC_ACQ_REL)) {
    }
}

/** Pay, if anything is at hand. The charge stands in `inflight_ns` before it leaves the bucket: a
 * process killed in between has it returned, not lost. */
static bool pay(const struct launch *l, const struct gs_limiter_view *view)
{
    struct gs_ledger_bucket *bucket = &gs_self.device[l->dev].bucket;
    struct gs_ledger_use *use = use_of(l->dev);
    uint64_t chunk = l->measured ? 0 : chunk_ns(view->share_bp);
    bool paid = true;

    if (l->measured)
        (void)gs_atomic_add(&use->inflight_ns, l->cost_ns, __ATOMIC_ACQ_REL);
    GS_STEP("pay.announced");
    if (view->share_bp == GS_SHARE_ALL_BP)
        gs_bucket_drain(bucket, l->cost_ns + chunk);
    else
        paid = gs_bucket_take(bucket, l->cost_ns + chunk);
    GS_STEP("pay.taken");
    if (l->measured && !paid)
        lower_inflight(use, l->cost_ns);
    if (paid && chunk > 0)
        (void)__atomic_add_fetch(&gs_limiter_credit[l->dev].ns, (int64_t)chunk, __ATOMIC_RELAXED);
    return paid;
}

/** When to look again for the end of something that has lasted `ns`: at most a sixteenth late. */
static uint64_t look_again_ns(uint64_t ns)
{
    return ns / 16 < DEFER_NS ? DEFER_NS : ns / 16;
}

/** May the launch go, at the head of its process? False: why not, and when to look again. */
static bool attempt(struct launch *l, uint64_t now, enum gs_wait_reason *ret_why, uint64_t *ret_ns)
{
    struct gs_limiter_view view = gs_limiter_look(l->dev, now);
    int64_t tokens;
    uint64_t owed;
    bool ours;

    *ret_ns = GS_LIMITER_QUANTUM_NS;
    *ret_why = GS_WAIT_SUSPEND;
    if (GS_UNLIKELY(gs_suspend_is_on()))
        return false;
    *ret_why = GS_WAIT_MEMORY;
    if (GS_UNLIKELY((view.flags & GS_BOARD_PARK) != 0)) {
        *ret_ns = GS_BOARD_TICK_NS / 4;
        return false;
    }
    owed = gs_order_trial_ns(l->dev, now, &ours);
    tokens = gs_bucket_refill(&gs_self.device[l->dev].bucket, view.share_bp, now, owed);
    if (view.share_bp == GS_SHARE_ALL_BP)
        return pay(l, &view);
    /* Nobody goes into debt beside a launch of unknown length: what it owes so far and the whole of
     * this one must be at hand. Our own is bounded by the vendor. */
    if (owed > 0 && !ours)
        tokens -= (int64_t)(owed + l->cost_ns);
    if (tokens > 0 && gs_order_must_defer(l->dev, l->start_ns, l->open_ns, now)) {
        if (l->open_ns == 0)
            l->open_ns = now;
        *ret_why = GS_WAIT_TURN;
        *ret_ns = DEFER_NS;
        return false;
    }
    if (tokens > 0 && l->unknown && !gs_order_try_trial(l->dev, now)) {
        *ret_why = GS_WAIT_QUEUE;
        *ret_ns = look_again_ns(owed);
        return false;
    }
    if (tokens > 0 && pay(l, &view))
        return true;
    l->open_ns = 0;
    *ret_why = (view.flags & GS_BOARD_YIELD) != 0 ? GS_WAIT_PRIORITY : GS_WAIT_SHARE;
    *ret_ns = owed > 0 && !ours ? look_again_ns(owed)
                                : gs_bucket_wait_ns(tokens > 0 ? 0 : tokens, view.share_bp);
    return false;
}

/** The reason of the wait changes: tell the trace what it was up to now. */
static void set_reason(struct launch *l, enum gs_wait_reason why, uint64_t now)
{
    if (l->waited && l->reason == why)
        return;
    if (l->waited)
        gs_trace_wait(l->dev, l->reason, l->what, l->reason_ns, now);
    l->waited = true;
    l->reason = why;
    l->reason_ns = now;
}

/** What every round of a wait does: show that we live and want something, look after the dead and
 * after new limits. */
static void keep_house(uint32_t dev, uint64_t now)
{
    gs_atomic_store(&use_of(dev)->active_ns, now, __ATOMIC_RELAXED);
    if (gs_hook_vendor.harvest != NULL)
        gs_hook_vendor.harvest();
    gs_order_reap(dev, now);
    gs_resize_poll(now);
}

static void count_suspended(uint32_t dev, uint64_t ns)
{
    (void)gs_atomic_add(&gs_self.device[dev].meter.waited_ns, ns, __ATOMIC_RELAXED);
    (void)gs_atomic_add(&use_of(dev)->waited_ns, ns, __ATOMIC_RELAXED);
    /* whoever is the head of the queue stands still, and is not dead */
    __atomic_store_n(&gs_limiter_card_of(dev)->beat_ns, gs_limiter_clock(), __ATOMIC_RELAXED);
}

/** The process's wait is over, in whatever way. */
static void stop_waiting(uint32_t dev)
{
    uint64_t *since = &use_of(dev)->wait_since_ns;

    if (GS_UNLIKELY(gs_atomic_load(since, __ATOMIC_RELAXED) != 0))
        gs_atomic_store(since, 0, __ATOMIC_RELAXED);
}

/** The whole process stands still, from the beginning of a launch or from the middle of its wait
 * on. Other processes are not to wait for us meanwhile, nor is the wait a demand that the board
 * would keep the share for: the meter has it as it passes. */
static void wait_suspended(struct launch *l, uint64_t now)
{
    set_reason(l, GS_WAIT_SUSPEND, now);
    stop_waiting(l->dev);
    gs_suspend_wait(l->dev, l->what, count_suspended); /* this tells the log and the trace */
    l->reason_ns = gs_limiter_clock();
    l->counted_ns += l->reason_ns - now;
}

/** Until our ticket is served. */
static void wait_turn(struct launch *l, uint32_t ticket)
{
    while (!gs_order_is_head(l->dev, ticket)) {
        uint64_t now = gs_limiter_clock();

        if (GS_UNLIKELY(gs_suspend_is_on())) {
            wait_suspended(l, now);
            continue;
        }
        set_reason(l, GS_WAIT_TURN, now);
        keep_house(l->dev, now);
        gs_order_wait(l->dev, ticket, now, now + GS_LIMITER_QUANTUM_NS);
    }
}

/** How long to sleep: a quantum at most, and not beyond the end of our own work on the card, which
 * the board is to hear of. */
static uint64_t until_look(uint32_t dev, uint64_t now, uint64_t ns)
{
    uint64_t end = gs_atomic_load(&use_of(dev)->busy_until_ns, __ATOMIC_RELAXED);
    uint64_t most = gs_order_until_reap_ns(dev);

    if (end > now && end - now < ns)
        ns = end - now;
    return ns < most ? ns : most;
}

/** At the head, or past the queue: until the bucket gives. */
static void wait_share(struct launch *l)
{
    struct gs_limiter_card *card = gs_limiter_card_of(l->dev);
    uint64_t *since = &use_of(l->dev)->wait_since_ns;
    enum gs_wait_reason why;
    uint64_t ns;

    for (;;) {
        uint32_t seen = __atomic_load_n(&card->poke, __ATOMIC_ACQUIRE);
        uint64_t now = gs_limiter_clock();

        if (!l->unknown)
            __atomic_store_n(&card->beat_ns, now, __ATOMIC_RELAXED);
        /* the thread before us may have taken more than it needed */
        if ((!l->measured && !gs_suspend_is_on() && gs_limiter_spend(l->dev, l->cost_ns)) ||
            attempt(l, now, &why, &ns))
            break;
        if (GS_UNLIKELY(why == GS_WAIT_SUSPEND)) {
            wait_suspended(l, now);
            continue;
        }
        set_reason(l, why, now);
        gs_atomic_store(since, l->start_ns, __ATOMIC_RELAXED);
        keep_house(l->dev, now);
        ns = until_look(l->dev, now, ns);
        (void)__atomic_add_fetch(&card->sleepers, 1, __ATOMIC_SEQ_CST);
        gs_limiter_sleep(&card->poke, seen, now + (ns > NAP_MIN_NS ? ns : NAP_MIN_NS),
                         SLEEPS_FOR_TIME);
        (void)__atomic_sub_fetch(&card->sleepers, 1, __ATOMIC_SEQ_CST);
    }
    gs_atomic_store(since, 0, __ATOMIC_RELAXED);
}

static void account_wait(struct launch *l, uint64_t now)
{
    if (!l->waited)
        return;
    gs_trace_wait(l->dev, l->reason, l->what, l->reason_ns, now);
    gs_usage_waited(&gs_self.device[l->dev], use_of(l->dev), now - l->start_ns - l->counted_ns);
}

static void admit(struct launch *l)
{
    enum gs_wait_reason why;
    uint32_t ticket;
    uint64_t ns;

    if (l->cost_ns > GS_LEDGER_CHARGE_NS)
        l->cost_ns = GS_LEDGER_CHARGE_NS;
    l->start_ns = gs_limiter_clock();
    gs_resize_poll(l->start_ns);
    (void)gs_atomic_add(&use_of(l->dev)->launches, 1, __ATOMIC_RELAXED);
    gs_atomic_store(&use_of(l->dev)->active_ns, l->start_ns, __ATOMIC_RELAXED);
    if (GS_UNLIKELY(gs_suspend_is_on()))
        wait_suspended(l, l->start_ns);
    if (gs_order_is_empty(l->dev)) /* nobody waits here: one that did has left it by a jump */
        stop_waiting(l->dev);
    if (gs_order_is_empty(l->dev) &&
        attempt(l, l->waited ? l->reason_ns : l->start_ns, &why, &ns)) {
        account_wait(l, l->reason_ns);
        return;
    }
    /* The vendor lets few launches of unknown length come here at a time, and others like them wait
     * for that. In the queue each would wait for all whose launches are known, again and again. */
    if (l->unknown) {
        wait_share(l);
    } else {
        ticket = gs_order_enter(l->dev);
        wait_turn(l, ticket);
        wait_share(l);
        gs_order_leave(l->dev, ticket, gs_limiter_clock());
    }
    account_wait(l, gs_limiter_clock());
}

void gs_limiter_admit(uint32_t dev, uint64_t cost_ns, bool measured, const char *what)
{
    struct launch l = {.dev = dev, .measured = measured, .cost_ns = cost_ns, .what = what};

    if (GS_LIKELY(dev < gs_self.n_devices))
        admit(&l);
}

void gs_limiter_admit_unknown(uint32_t dev, uint64_t cost_ns, const char *what)
{
    struct launch l = {
        .dev = dev, .measured = true, .unknown = true, .cost_ns = cost_ns, .what = what};

    if (GS_LIKELY(dev < gs_self.n_devices))
        admit(&l);
}

/** Put card time back; who sleeps for want of it looks again. */
static void give_back(uint32_t dev, uint64_t ns)
{
    struct gs_limiter_card *card = gs_limiter_card_of(dev);
    uint32_t bp = __atomic_load_n(&card->now_bp, __ATOMIC_RELAXED);

    gs_bucket_return(&gs_self.device[dev].bucket, ns, bp != 0 ? bp : GS_SHARE_ALL_BP);
    poke(card, SLEEPS_FOR_TIME);
}

/** A measured launch took other than it had paid. */
static void settle_difference(uint32_t dev, uint64_t cost_ns, uint64_t used_ns)
{
    struct gs_ledger_bucket *bucket = &gs_self.device[dev].bucket;

    if (used_ns < cost_ns)
        give_back(dev, cost_ns - used_ns);
    else if (__atomic_load_n(&gs_limiter_card_of(dev)->now_bp, __ATOMIC_RELAXED) == GS_SHARE_ALL_BP)
        gs_bucket_drain(bucket, used_ns - cost_ns);
    else
        gs_bucket_charge(bucket, used_ns - cost_ns);
}

void gs_limiter_leave(void)
{
    for (uint32_t dev = 0; dev < gs_self.n_devices && dev < GS_LEDGER_DEVICES; dev++) {
        /* Taken first: killed in between it is lost once. Threads that still launch take anew. */
        int64_t left = __atomic_exchange_n(&gs_limiter_credit[dev].ns, 0, __ATOMIC_RELAXED);

        GS_STEP("leave.taken");
        if (left > 0)
            give_back(dev, (uint64_t)left);
        else if (left < 0)
            settle_difference(dev, 0, (uint64_t)-left);
    }
}

void gs_limiter_cancel(uint32_t dev, uint64_t cost_ns, bool measured)
{
    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return;
    if (cost_ns > GS_LEDGER_CHARGE_NS)
        cost_ns = GS_LEDGER_CHARGE_NS;
    if (!measured) {
        (void)__atomic_add_fetch(&gs_limiter_credit[dev].ns, (int64_t)cost_ns, __ATOMIC_RELAXED);
        return;
    }
    give_back(dev, cost_ns);
    GS_STEP("cancel.returned");
    lower_inflight(use_of(dev), cost_ns);
}

/** Note a stretch that is news to this process; `own` of ALONE was its own for sure, or
 * GS_LIMITER_NOT_KNOWN. */
static void note_piece(uint32_t dev, uint64_t start, uint64_t end, uint64_t own,
                       struct gs_usage_cover *sum)
{
    uint64_t busy;
    struct gs_usage_cover cover = {0, 0};
    uint64_t alone = gs_limiter_card_of(dev)->run_alone;

    gs_usage_cover(&gs_self.device[dev], start, end, &cover);
    if (cover.steps > 0)
        alone = cover.fresh * ALONE / cover.steps;
    /* the rest stands in a mate's bins already */
    busy = (end - start) * alone / ALONE;
    gs_usage_outstanding(use_of(dev), start, end, busy);
    if (own != GS_LIMITER_NOT_KNOWN)
        gs_usage_known(use_of(dev), start, end, busy, (end - start) * own / ALONE);
    sum->steps += cover.steps;
    sum->fresh += cover.fresh;
}

/** Note outstanding work, each moment once however many streams had work then: what overlaps the
 * newest stretch adds only what sticks out of it. Returns the part, of ALONE, in which no mate had
 * work: that is the process's to pay, the rest is paid for. */
static uint64_t note_outstanding(uint32_t dev, uint64_t start, uint64_t end, uint64_t own_ns)
{
    uint64_t own = own_ns;
    struct gs_limiter_card *card = gs_limiter_card_of(dev);
    struct gs_usage_cover cover = {0, 0};
    uint64_t alone;

    if (own_ns != GS_LIMITER_NOT_KNOWN)
        own = own_ns < end - start ? own_ns * ALONE / (end - start) : ALONE;
    gs_spin_lock(&card->spin);
    if (card->run_until_ns == 0)
        card->run_alone = ALONE;
    if (start > card->run_until_ns || end < card->run_from_ns) {
        note_piece(dev, start, end, own, &cover);
        if (end > card->run_until_ns) {
            card->run_from_ns = start;
            card->run_until_ns = end;
        }
    } else {
        if (start < card->run_from_ns) {
            note_piece(dev, start, card->run_from_ns, own, &cover);
            card->run_from_ns = start;
        }
        if (end > card->run_until_ns) {
            note_piece(dev, card->run_until_ns, end, own, &cover);
            card->run_until_ns = end;
        }
    }
    if (cover.steps > 0)
        card->run_alone = cover.fresh * ALONE / cover.steps;
    alone = card->run_alone;
    gs_spin_unlock(&card->spin);
    return alone;
}

void gs_limiter_settle(uint32_t dev, uint64_t cost_ns, uint64_t start_ns, uint64_t end_ns,
                       uint64_t used_ns, uint64_t own_ns)
{
    struct gs_ledger_use *use;

    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return;
    use = use_of(dev);
    if (cost_ns > GS_LEDGER_CHARGE_NS)
        cost_ns = GS_LEDGER_CHARGE_NS;
    if (used_ns > GS_LEDGER_CHARGE_NS)
        used_ns = GS_LEDGER_CHARGE_NS;
    if (end_ns > start_ns)
        used_ns = used_ns * note_outstanding(dev, start_ns, end_ns, own_ns) / ALONE;
    settle_difference(dev, cost_ns, used_ns);
    GS_STEP("settle.charged");
    lower_inflight(use, cost_ns);
    gs_usage_charge(&gs_self.device[dev], use, start_ns, end_ns, used_ns);
}

void gs_limiter_note(uint32_t dev, uint64_t start_ns, uint64_t end_ns, uint64_t used_ns,
                     uint64_t own_ns)
{
    struct gs_ledger_use *use;
    uint64_t paid = used_ns, alone;

    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return;
    use = use_of(dev);
    gs_atomic_store(&use->active_ns, gs_limiter_clock(), __ATOMIC_RELAXED);
    if (end_ns <= start_ns)
        return;
    if (used_ns > GS_LEDGER_CHARGE_NS)
        used_ns = GS_LEDGER_CHARGE_NS;
    /* launches come in bursts: the work was in one piece before its end, the pause before that */
    if (used_ns < end_ns - start_ns)
        start_ns = end_ns - used_ns;
    alone = note_outstanding(dev, start_ns, end_ns, own_ns);
    if (own_ns != used_ns) /* else mates' turns are not in it */
        used_ns = used_ns * alone / ALONE;
    if (used_ns < paid)
        give_back(dev, paid - used_ns);
    gs_usage_charge(&gs_self.device[dev], use, start_ns, end_ns, used_ns);
}

void gs_limiter_correct(uint32_t dev, int64_t more_ns)
{
    int64_t *credit, left;

    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return;
    if (more_ns <= -CORRECT_AT_HAND_NS) {
        settle_difference(dev, (uint64_t)-more_ns, 0);
        return;
    }
    credit = &gs_limiter_credit[dev].ns;
    left = __atomic_sub_fetch(credit, more_ns, __ATOMIC_RELAXED);
    /* measured launches do not pay into the credit: what is owed there would never be paid */
    while (left < -CORRECT_AT_HAND_NS) {
        if (!__atomic_compare_exchange_n(credit, &left, 0, false, __ATOMIC_RELAXED,
                                         __ATOMIC_RELAXED))
            continue;
        settle_difference(dev, 0, (uint64_t)-left);
        return;
    }
}

/** The time since when work is out gets shorter, and the driver's word on it with it. */
static void carry_idle(struct gs_ledger_use *use, uint64_t before, uint64_t since)
{
    uint64_t idle = gs_atomic_load(&use->idle_ns, __ATOMIC_RELAXED);

    if (gs_atomic_load(&use->idle_of_ns, __ATOMIC_RELAXED) != before || since <= before ||
        idle <= since - before)
        return;
    gs_atomic_store(&use->idle_ns, idle - (since - before), __ATOMIC_RELAXED);
    gs_atomic_store(&use->idle_of_ns, since, __ATOMIC_RELEASE);
}

void gs_limiter_unsettled(uint32_t dev, uint64_t since_ns)
{
    struct gs_ledger_use *use;
    uint64_t before;

    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return;
    use = use_of(dev);
    before = gs_atomic_load(&use->unsettled_ns, __ATOMIC_RELAXED);
    if (before != 0)
        carry_idle(use, before, since_ns);
    gs_atomic_store(&use->unsettled_ns, since_ns, __ATOMIC_RELEASE);
}

void gs_limiter_first_out(uint32_t dev, uint64_t since_ns)
{
    uint64_t none = 0;

    if (GS_LIKELY(dev < gs_self.n_devices))
        (void)gs_atomic_cas(&use_of(dev)->unsettled_ns, &none, since_ns, __ATOMIC_RELEASE);
}

void gs_limiter_busy_until(uint32_t dev, uint64_t until_ns)
{
    if (GS_LIKELY(dev < gs_self.n_devices))
        gs_atomic_store(&use_of(dev)->busy_until_ns, until_ns, __ATOMIC_RELAXED);
}

/** Sleep about `ns`, at most a quantum, and do what every wait does meanwhile. */
static void nap(uint32_t dev, uint64_t ns)
{
    struct gs_limiter_card *card = gs_limiter_card_of(dev);
    uint32_t seen = __atomic_load_n(&card->poke, __ATOMIC_ACQUIRE);
    uint64_t now = gs_limiter_clock();

    keep_house(dev, now);
    if (ns > GS_LIMITER_QUANTUM_NS)
        ns = GS_LIMITER_QUANTUM_NS;
    (void)__atomic_add_fetch(&card->sleepers, 1, __ATOMIC_SEQ_CST);
    gs_limiter_sleep(&card->poke, seen, now + ns, SLEEPS_FOR_OTHER);
    (void)__atomic_sub_fetch(&card->sleepers, 1, __ATOMIC_SEQ_CST);
    (void)gs_limiter_look(dev, gs_limiter_clock());
}

static void account_nap(uint32_t dev, uint64_t start, enum gs_wait_reason why, const char *what)
{
    uint64_t end = gs_limiter_clock();

    gs_trace_wait(dev, why, what, start, end);
    gs_usage_waited(&gs_self.device[dev], use_of(dev), end - start);
}

void gs_limiter_pause(uint32_t dev, uint64_t ns, enum gs_wait_reason why, const char *what)
{
    uint64_t start = gs_limiter_clock();

    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return;
    nap(dev, ns);
    account_nap(dev, start, why, what);
}

void gs_limiter_end_unknown(uint32_t dev)
{
    if (GS_LIKELY(dev < gs_self.n_devices))
        gs_order_end_trial(dev);
}

bool gs_limiter_is_shared(uint32_t dev)
{
    return GS_LIKELY(dev < gs_self.n_devices) &&
           (__atomic_load_n(&gs_limiter_card_of(dev)->now_flags, __ATOMIC_RELAXED) &
            GS_BOARD_SHARED) != 0;
}

uint32_t gs_limiter_others(uint32_t dev)
{
    uint32_t others = 0;

    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return 0;
    if (gs_limiter_is_shared(dev)) {
        others = __atomic_load_n(&gs_limiter_card_of(dev)->now_others, __ATOMIC_RELAXED);
        if (others == 0 || others > GS_LEDGER_SLOTS * GS_BOARD_SLICES)
            return GS_LIMITER_MANY;
    }
    return others + gs_order_mates(dev, gs_limiter_clock());
}

uint64_t gs_limiter_others_ns(uint32_t dev, uint64_t start_ns, uint64_t end_ns)
{
    if (GS_UNLIKELY(dev >= gs_self.n_devices) || end_ns <= start_ns)
        return 0;
    return gs_limiter_is_shared(dev) ? UINT64_MAX : gs_order_mates_ns(dev, start_ns, end_ns);
}

void gs_limiter_note_unlike(uint32_t dev, uint64_t now_ns)
{
    uint64_t *word;

    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return;
    word = &gs_self.device[dev].unlike_ns;
    /* others read the line: not with each launch */
    if (gs_atomic_load(word, __ATOMIC_RELAXED) - (now_ns + UNLIKE_NS - UNLIKE_EACH_NS) >
        2 * UNLIKE_EACH_NS)
        gs_atomic_store(word, now_ns + UNLIKE_NS, __ATOMIC_RELAXED);
}

bool gs_limiter_is_unlike(uint32_t dev, uint64_t now_ns)
{
    /* further ahead than anybody says: of another boot, or made up */
    return GS_LIKELY(dev < gs_self.n_devices) &&
           gs_atomic_load(&gs_self.device[dev].unlike_ns, __ATOMIC_RELAXED) - now_ns <=
               UNLIKE_NS + UNLIKE_EACH_NS;
}

uint64_t gs_limiter_less_forgiven(uint32_t dev, uint64_t ns)
{
    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return ns;
    return gs_bucket_less_forgiven(&gs_self.device[dev], ns, gs_limiter_clock());
}

uint64_t gs_limiter_window_ns(uint32_t dev)
{
    if (GS_UNLIKELY(dev >= gs_self.n_devices))
        return WINDOW_NS;
    return (__atomic_load_n(&gs_limiter_card_of(dev)->now_flags, __ATOMIC_RELAXED) &
            GS_BOARD_YIELD) != 0
               ? 0
               : WINDOW_NS;
}
