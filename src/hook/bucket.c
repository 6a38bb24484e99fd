#include "hook/bucket.h"

#include <string.h>

#include "contract/board.h"
#include "core/atomics.h"
#include "hook/limiter.h"
#include "hook/self.h"
#include "hook/step.h"
#include "hook/usage.h"

/* A share in basis points of a multiple of this is a whole number of nanoseconds. */
#define GRAIN_NS 10000u
/* What a bucket starts with: the first launch of a slice does not wait for its first grain. */
#define HEAD_START_NS 2000000u
/* Clocks of two cores differ by less; what is further ahead is of another boot, or made up. */
#define FUTURE_NS 1000000000u
/* What is forgiven, of time, at once, and at first. */
#define FORGIVEN_PART     UINT64_C(200)
#define FORGIVEN_MOST_NS  UINT64_C(50000000)
#define FORGIVEN_FIRST_NS UINT64_C(2000000)
/* Nobody is believed to have had work on the card for longer before he died. */
#define UNSETTLED_MOST_NS UINT64_C(3600000000000)

static uint64_t *tokens_word(struct gs_ledger_bucket *bucket)
{
    return (uint64_t *)&bucket->tokens_ns;
}

static int64_t burst_of(uint32_t share_bp)
{
    return (int64_t)(GS_BUCKET_BURST_NS / GS_SHARE_ALL_BP) * share_bp;
}

/** What a word means: nothing at hand where it is absurd. */
static int64_t sane(uint64_t word)
{
    int64_t tokens = (int64_t)word;

    if (tokens > GS_BUCKET_ABSURD_NS || tokens < -GS_BUCKET_ABSURD_NS)
        return 0;
    return tokens < GS_LEDGER_FLOOR_NS ? GS_LEDGER_FLOOR_NS : tokens;
}

/** tokens = min(tokens + ns, cap); what is above the cap already is cut only if `cut`. */
static int64_t add(struct gs_ledger_bucket *bucket, uint64_t ns, int64_t cap, bool cut)
{
    uint64_t *word = tokens_word(bucket);
    uint64_t seen = gs_atomic_load(word, __ATOMIC_RELAXED);
    int64_t next;

    if (ns > (uint64_t)GS_BUCKET_ABSURD_NS)
        ns = (uint64_t)GS_BUCKET_ABSURD_NS;
    do {
        int64_t now = sane(seen), high = cut || now < cap ? cap : now;

        next = now + (int64_t)ns;
        if (next > high)
            next = high;
        /* the words carry amounts, nothing is published by them: any order would do */
    } while ((uint64_t)next != seen &&
             !gs_atomic_cas(word, &seen, (uint64_t)next, __ATOMIC_ACQUIRE));
    return next;
}

/** tokens = max(tokens - ns, floor), or as they are where they are below the floor already. */
static void sub(struct gs_ledger_bucket *bucket, uint64_t ns, int64_t floor)
{
    uint64_t *word = tokens_word(bucket);
    uint64_t seen = gs_atomic_load(word, __ATOMIC_RELAXED);
    int64_t next;

    if (ns > GS_LEDGER_CHARGE_NS)
        ns = GS_LEDGER_CHARGE_NS;
    do {
        int64_t now = sane(seen), low = now < floor ? now : floor;

        next = now - (int64_t)ns;
        if (next < low)
            next = low;
    } while ((uint64_t)next != seen &&
             !gs_atomic_cas(word, &seen, (uint64_t)next, __ATOMIC_ACQUIRE));
}

/** Claim the time since the last refill, a whole number of grains. Returns its length. */
static uint64_t claim_time(struct gs_ledger_bucket *bucket, uint64_t now_ns)
{
    uint64_t seen = gs_atomic_load(&bucket->refill_ns, __ATOMIC_RELAXED);

    for (;;) {
        uint64_t from = seen, span;

        if (from == 0 || (from > now_ns && from - now_ns > FUTURE_NS))
            from = now_ns > HEAD_START_NS ? now_ns - HEAD_START_NS : 0;
        if (from >= now_ns)
            return 0;
        span = now_ns - from;
        span -= span % GRAIN_NS;
        if (span == 0 && from == seen)
            return 0;
        if (gs_atomic_cas(&bucket->refill_ns, &seen, from + span, __ATOMIC_ACQUIRE))
            return span;
    }
}

int64_t gs_bucket_refill(struct gs_ledger_bucket *bucket, uint32_t share_bp, uint64_t now_ns,
                         uint64_t owed_ns)
{
    uint64_t span = claim_time(bucket, now_ns);

    if (owed_ns > GS_LEDGER_CHARGE_NS)
        owed_ns = GS_LEDGER_CHARGE_NS;
    /* Killed here the slice loses this one refill: at most the time since the last one, and a
     * waiting slice refills every quantum. Adding first would be worse: the next comer would add
     * the same time again. */
    GS_STEP("bucket.claimed");
    return add(bucket, span / GRAIN_NS * share_bp, burst_of(share_bp) + (int64_t)owed_ns, true);
}

bool gs_bucket_take(struct gs_ledger_bucket *bucket, uint64_t ns)
{
    uint64_t *word = tokens_word(bucket);
    uint64_t seen = gs_atomic_load(word, __ATOMIC_RELAXED);

    if (ns > GS_LEDGER_CHARGE_NS)
        ns = GS_LEDGER_CHARGE_NS;
    do {
        if (sane(seen) <= 0)
            return false;
    } while (!gs_atomic_cas(word, &seen, seen - ns, __ATOMIC_ACQUIRE));
    return true;
}

void gs_bucket_drain(struct gs_ledger_bucket *bucket, uint64_t ns)
{
    sub(bucket, ns, 0);
}

void gs_bucket_charge(struct gs_ledger_bucket *bucket, uint64_t ns)
{
    sub(bucket, ns, GS_LEDGER_FLOOR_NS);
}

void gs_bucket_return(struct gs_ledger_bucket *bucket, uint64_t ns, uint32_t share_bp)
{
    (void)add(bucket, ns, burst_of(share_bp), false);
}

uint64_t gs_bucket_wait_ns(int64_t tokens_ns, uint32_t share_bp)
{
    uint64_t debt;

    if (tokens_ns > 0)
        return 0;
    debt = (uint64_t)-tokens_ns + 1;
    /* whole grains, rounded up, and one that may have begun */
    return (debt / share_bp + 2) * GRAIN_NS;
}

void gs_bucket_cut(struct gs_ledger_device *d, uint64_t now_ns)
{
    const uint64_t first = FORGIVEN_FIRST_NS * FORGIVEN_PART;
    uint64_t seen = gs_atomic_load(&d->forgiven_ns, __ATOMIC_RELAXED);

    (void)add(&d->bucket, 0, HEAD_START_NS, true);
    while (seen != 0 && seen < now_ns && now_ns - seen > first &&
           !gs_atomic_cas(&d->forgiven_ns, &seen, now_ns - first, __ATOMIC_ACQUIRE)) {
    }
}

uint64_t gs_bucket_less_forgiven(struct gs_ledger_device *d, uint64_t ns, uint64_t now_ns)
{
    const uint64_t most = FORGIVEN_MOST_NS * FORGIVEN_PART,
                   first = FORGIVEN_FIRST_NS * FORGIVEN_PART;
    uint64_t seen = gs_atomic_load(&d->forgiven_ns, __ATOMIC_RELAXED), from, have;

    do {
        from = seen == 0 || seen > now_ns ? now_ns - (now_ns > first ? first : now_ns) : seen;
        if (now_ns - from > most)
            from = now_ns - most;
        have = (now_ns - from) / FORGIVEN_PART;
        have = have < ns ? have : ns;
    } while (!gs_atomic_cas(&d->forgiven_ns, &seen, from + have * FORGIVEN_PART, __ATOMIC_ACQUIRE));
    return ns - have;
}

/** What the slice may pile up, from the ledger: the process buried may have run under another
 * quota than we do. */
static uint32_t ledger_share_bp(const struct gs_ledger_device *d)
{
    uint32_t pct = __atomic_load_n(&d->core_pct, __ATOMIC_RELAXED);

    return pct == 0 || pct > 100 ? GS_SHARE_ALL_BP : pct * 100;
}

/** Of a time since then in which a slot's work was out, when the driver says it was not worked on.
 */
static uint64_t idle_of(const struct gs_ledger_use *use, uint64_t since)
{
    return gs_atomic_load(&use->idle_of_ns, __ATOMIC_ACQUIRE) == since
               ? gs_atomic_load(&use->idle_ns, __ATOMIC_RELAXED)
               : 0;
}

/** Card time that a dead slot may have used and was not charged for: from the start of its oldest
 * unsettled work until now, less what living mates have noted for themselves; where the driver has
 * been asked meanwhile, no more than it leaves. */
static uint64_t unsettled_of(struct gs_ledger_device *d, struct gs_ledger_use *use)
{
    /* Taken first, then charged: a reaper killed in between has it forgiven, once. Charged first it
     * would be charged again by the next one. */
    uint64_t since = __atomic_exchange_n(&use->unsettled_ns, 0, __ATOMIC_ACQ_REL);
    uint64_t now = gs_limiter_clock(), idle = idle_of(use, since), ns, covered;
    struct gs_usage_cover cover = {0, 0};

    GS_STEP("bury.taken");
    if (since == 0 || since >= now || now - since > UNSETTLED_MOST_NS)
        return 0; /* of another boot, or made up */
    ns = now - since;
    if (idle != 0) { /* when that was, nobody knows: what mates had out then is theirs to note */
        covered = gs_usage_covered(d, since, now);
        idle = idle > covered ? idle : covered;
        ns = idle < ns ? ns - idle : 0;
    } else {
        gs_usage_cover(d, since, now, &cover);
        if (cover.steps > 0)
            ns = (uint64_t)((double)ns * (double)cover.fresh / (double)cover.steps);
    }
    return ns < GS_LEDGER_CHARGE_NS ? ns : GS_LEDGER_CHARGE_NS;
}

/** Before anything is refilled for the time since it died: a slice that had nobody to refill it
 * meanwhile has paid by waiting. */
static void charge_dead(struct gs_ledger_device *d, struct gs_ledger_use *use)
{
    uint64_t ns = unsettled_of(d, use);

    if (ns == 0)
        return;
    if (ledger_share_bp(d) == GS_SHARE_ALL_BP)
        gs_bucket_drain(&d->bucket, ns);
    else
        gs_bucket_charge(&d->bucket, ns);
    GS_STEP("bury.charged");
}

/** Nothing of the slot's is in flight any more. */
static void settle_dead(uint32_t slot)
{
    struct gs_self_state *self = &gs_self;

    for (uint32_t dev = 0; dev < self->n_mapped; dev++) {
        struct gs_ledger_device *d = &self->device[dev];
        struct gs_ledger_use *use = &d->use[slot];
        uint64_t inflight = gs_atomic_load(&use->inflight_ns, __ATOMIC_ACQUIRE);

        charge_dead(d, use);
        /* Back first, then cleared: a reaper killed in between has it returned twice, which the
         * burst bounds; the other way round the living would wait for what the dead had taken. */
        if (inflight != 0)
            gs_bucket_return(&d->bucket, inflight, ledger_share_bp(d));
        GS_STEP("bury.returned");
        gs_atomic_store(&use->inflight_ns, 0, __ATOMIC_RELEASE);
        GS_STEP("bury.cleared");
    }
}

void gs_bucket_bury(uint32_t slot)
{
    struct gs_self_state *self = &gs_self;

    settle_dead(slot);
    for (uint32_t dev = 0; dev < self->n_mapped; dev++) {
        struct gs_ledger_device *d = &self->device[dev];
        struct gs_ledger_use *use = &d->use[slot];

        if ((d->trial & ((1u << GS_LEDGER_TRIAL_BITS) - 1)) == slot + 1)
            gs_atomic_store(&d->trial, 0, __ATOMIC_RELAXED);
        for (uint32_t i = 0; i < sizeof(*use) / sizeof(uint64_t); i++)
            gs_atomic_store((uint64_t *)use + i, 0, __ATOMIC_RELAXED);
    }
}
