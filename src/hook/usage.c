#include "hook/usage.h"

#include <stdbool.h>

#include "core/atomics.h"

/* No interval is charged more: the products below stay within 64 bits. */
#define BUSY_MAX_NS UINT64_C(100000000000)

/** A ring of bins: words of epoch << bits | ns. */
struct ring {
    uint64_t *word;
    uint32_t n;
    uint32_t bits;
    uint64_t bin_ns;
    uint64_t max_ns; /**< that a bin may hold */
};

static struct ring bins_of(struct gs_ledger_use *use)
{
    return (struct ring){use->bin, GS_LEDGER_BINS, GS_LEDGER_BIN_BITS, GS_LEDGER_BIN_NS,
                         GS_LEDGER_BIN_NS};
}

static struct ring history_of(struct gs_ledger_device *d)
{
    return (struct ring){d->history, GS_LEDGER_HISTORY, GS_LEDGER_HISTORY_BITS,
                         GS_LEDGER_HISTORY_NS, (UINT64_C(1) << GS_LEDGER_HISTORY_BITS) - 1};
}

/** Epochs of `word` behind `epoch`; epochs are cut to the bits a word has for them. */
static int64_t age(const struct ring *ring, uint64_t word, uint64_t epoch)
{
    uint64_t behind = (epoch << ring->bits) - (word >> ring->bits << ring->bits);

    return (int64_t)behind >> ring->bits;
}

static void add_bin(const struct ring *ring, uint64_t epoch, uint64_t ns)
{
    uint64_t *word = &ring->word[epoch % ring->n];
    uint64_t mask = (UINT64_C(1) << ring->bits) - 1;
    uint64_t seen = gs_atomic_load(word, __ATOMIC_RELAXED);
    uint64_t sum;

    do {
        int64_t behind = age(ring, seen, epoch);

        /* one round ahead of us: late news of a bin that has been used again. Further ahead: not
         * written by a clock of this boot */
        if (behind < 0 && behind >= -(int64_t)(4 * ring->n))
            return;
        sum = ns + (behind == 0 ? seen & mask : 0);
        if (sum > ring->max_ns)
            sum = ring->max_ns;
    } while (!gs_atomic_cas(word, &seen, epoch << ring->bits | sum, __ATOMIC_ACQUIRE));
}

/** Spread `ns` evenly over [start, end), as far as the ring reaches back from `end`. */
static void spread(const struct ring *ring, uint64_t start, uint64_t end, uint64_t ns)
{
    uint64_t reach = (ring->n - 1) * ring->bin_ns;
    uint64_t len = end - start;

    if (ns > BUSY_MAX_NS)
        ns = BUSY_MAX_NS;
    if (len > reach) {
        ns = (uint64_t)((double)ns / (double)len * (double)reach);
        start = end - reach;
        len = reach;
    }
    for (uint64_t at = start; at < end;) {
        uint64_t next = (at / ring->bin_ns + 1) * ring->bin_ns;
        uint64_t to = next < end ? next : end;

        /* from the sums up to both ends, so that no remainder is lost */
        add_bin(ring, at / ring->bin_ns,
                (uint64_t)((double)ns * (double)(to - start) / (double)len) -
                    (uint64_t)((double)ns * (double)(at - start) / (double)len));
        at = to;
    }
}

void gs_usage_outstanding(struct gs_ledger_use *use, uint64_t start_ns, uint64_t end_ns,
                          uint64_t busy_ns)
{
    struct ring bins = bins_of(use);

    if (end_ns > start_ns && busy_ns > 0)
        spread(&bins, start_ns, end_ns, busy_ns < end_ns - start_ns ? busy_ns : end_ns - start_ns);
}

/** One bin's part of what is known. */
static void add_known(uint64_t *word, uint64_t epoch, uint64_t time_ns, uint64_t own_ns)
{
    const struct ring ring = {.n = GS_LEDGER_BINS, .bits = 2 * GS_LEDGER_KNOWN_BITS};
    const uint64_t field = (UINT64_C(1) << GS_LEDGER_KNOWN_BITS) - 1;
    const uint64_t most = GS_LEDGER_BIN_NS / GS_LEDGER_KNOWN_NS;
    uint64_t seen = gs_atomic_load(word, __ATOMIC_RELAXED);
    uint64_t time, own;

    do {
        int64_t behind = age(&ring, seen, epoch);

        if (behind < 0 && behind >= -(int64_t)(4 * ring.n))
            return; /* as in add_bin */
        time = (time_ns + GS_LEDGER_KNOWN_NS / 2) / GS_LEDGER_KNOWN_NS;
        own = (own_ns + GS_LEDGER_KNOWN_NS / 2) / GS_LEDGER_KNOWN_NS;
        if (behind == 0) {
            time += seen >> GS_LEDGER_KNOWN_BITS & field;
            own += seen & field;
        }
        time = time < most ? time : most;
        own = own < most ? own : most;
    } while (!gs_atomic_cas(word, &seen, epoch << ring.bits | time << GS_LEDGER_KNOWN_BITS | own,
                            __ATOMIC_ACQUIRE));
}

void gs_usage_known(struct gs_ledger_use *use, uint64_t start_ns, uint64_t end_ns, uint64_t busy_ns,
                    uint64_t own_ns)
{
    double busy, own;

    /* what is worth knowing is short: longer pieces are left to be guessed */
    if (end_ns <= start_ns || end_ns - start_ns > (GS_LEDGER_BINS - 1) * (uint64_t)GS_LEDGER_BIN_NS)
        return;
    busy = (double)busy_ns / (double)(end_ns - start_ns);
    own = (double)own_ns / (double)(end_ns - start_ns);
    busy = busy < 1.0 ? busy : 1.0;
    own = own < 1.0 ? own : 1.0;
    for (uint64_t at = start_ns; at < end_ns;) {
        uint64_t epoch = at / GS_LEDGER_BIN_NS, next = (epoch + 1) * GS_LEDGER_BIN_NS;
        double ns = (double)((next < end_ns ? next : end_ns) - at);

        add_known(&use->known[epoch % GS_LEDGER_BINS], epoch, (uint64_t)(busy * ns),
                  (uint64_t)(own * ns));
        at = next;
    }
}

void gs_usage_charge(struct gs_ledger_device *d, struct gs_ledger_use *use, uint64_t start_ns,
                     uint64_t end_ns, uint64_t used_ns)
{
    struct ring history = history_of(d);

    if (used_ns == 0)
        return;
    if (used_ns > BUSY_MAX_NS)
        used_ns = BUSY_MAX_NS;
    (void)gs_atomic_add(&d->meter.used_ns, used_ns, __ATOMIC_RELAXED);
    (void)gs_atomic_add(&use->used_ns, used_ns, __ATOMIC_RELAXED);
    if (start_ns >= end_ns)
        start_ns = end_ns > 0 ? end_ns - 1 : 0;
    spread(&history, start_ns, end_ns > start_ns ? end_ns : start_ns + 1, used_ns);
}

/** Returns what the bin did not have. */
static uint64_t sub_bin(const struct ring *ring, uint64_t epoch, uint64_t ns)
{
    uint64_t *word = &ring->word[epoch % ring->n];
    uint64_t mask = (UINT64_C(1) << ring->bits) - 1;
    uint64_t seen = gs_atomic_load(word, __ATOMIC_RELAXED);
    uint64_t have, take;

    do {
        have = age(ring, seen, epoch) == 0 ? seen & mask : 0;
        take = ns < have ? ns : have;
    } while (take > 0 && !gs_atomic_cas(word, &seen, seen - take, __ATOMIC_ACQUIRE));
    return ns - take;
}

void gs_usage_refund(struct gs_ledger_device *d, uint64_t now_ns, uint64_t ns)
{
    struct ring history = history_of(d);
    uint64_t epoch = now_ns / history.bin_ns;

    (void)gs_atomic_add(&d->meter.refunded_ns, ns, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < history.n && i <= epoch && ns > 0; i++)
        ns = sub_bin(&history, epoch - i, ns);
}

void gs_usage_waited(struct gs_ledger_device *d, struct gs_ledger_use *use, uint64_t ns)
{
    (void)gs_atomic_add(&d->meter.waits, 1, __ATOMIC_RELAXED);
    (void)gs_atomic_add(&d->meter.waited_ns, ns, __ATOMIC_RELAXED);
    (void)gs_atomic_add(&use->waited_ns, ns, __ATOMIC_RELAXED);
}

/** Set bits of one word; counts them, and those that were not set. */
static void cover_word(struct gs_ledger_device *d, uint64_t epoch, uint64_t bits,
                       struct gs_usage_cover *cover)
{
    const struct ring ring = {.n = GS_LEDGER_COVER, .bits = GS_LEDGER_COVER_BITS};
    const struct ring crowd = {d->crowd, GS_LEDGER_COVER, GS_LEDGER_COVER_BITS, 0,
                               (UINT64_C(1) << GS_LEDGER_COVER_BITS) - 1};
    uint64_t *word = &d->cover[epoch % GS_LEDGER_COVER];
    uint64_t seen = gs_atomic_load(word, __ATOMIC_RELAXED);
    uint64_t have;

    do {
        int64_t behind = age(&ring, seen, epoch);

        if (behind < 0 && behind >= -(int64_t)(4 * ring.n))
            return; /* too long ago to be remembered */
        have = behind == 0 ? seen & ((UINT64_C(1) << GS_LEDGER_COVER_BITS) - 1) : 0;
    } while (
        !gs_atomic_cas(word, &seen, epoch << GS_LEDGER_COVER_BITS | have | bits, __ATOMIC_ACQUIRE));
    if ((bits & have) != 0)
        add_bin(&crowd, epoch, (uint64_t)__builtin_popcountll(bits & have));
    cover->steps += (uint64_t)__builtin_popcountll(bits);
    cover->fresh += (uint64_t)__builtin_popcountll(bits & ~have);
}

/** Steps, [first, end), that the cover reaches back to. */
struct steps {
    uint64_t first, end;
};

static struct steps steps_of(uint64_t start_ns, uint64_t end_ns)
{
    const uint64_t half = GS_LEDGER_COVER_NS / 2;
    const uint64_t reach = (GS_LEDGER_COVER - 1) * GS_LEDGER_COVER_BITS;
    struct steps steps = {(start_ns + half - 1) / GS_LEDGER_COVER_NS,
                          (end_ns + half - 1) / GS_LEDGER_COVER_NS};

    if (steps.end > reach && steps.first < steps.end - reach)
        steps.first = steps.end - reach;
    return steps;
}

/** Those of them in the first one's word, as bits; takes them off. */
static uint64_t take_word(struct steps *steps)
{
    uint64_t from = steps->first % GS_LEDGER_COVER_BITS, n = GS_LEDGER_COVER_BITS - from;

    if (n > steps->end - steps->first)
        n = steps->end - steps->first;
    steps->first += n;
    return ((UINT64_C(1) << n) - 1) << from;
}

void gs_usage_cover(struct gs_ledger_device *d, uint64_t start_ns, uint64_t end_ns,
                    struct gs_usage_cover *cover)
{
    struct steps steps = steps_of(start_ns, end_ns);

    while (steps.first < steps.end) {
        uint64_t epoch = steps.first / GS_LEDGER_COVER_BITS;

        cover_word(d, epoch, take_word(&steps), cover);
    }
}

uint64_t gs_usage_covered(const struct gs_ledger_device *d, uint64_t start_ns, uint64_t end_ns)
{
    struct steps steps = steps_of(start_ns, end_ns);
    uint64_t n = 0;

    while (steps.first < steps.end) {
        uint64_t epoch = steps.first / GS_LEDGER_COVER_BITS, bits = take_word(&steps);
        uint64_t word = gs_atomic_load(&d->cover[epoch % GS_LEDGER_COVER], __ATOMIC_RELAXED);

        if (((word >> GS_LEDGER_COVER_BITS) ^ epoch) << GS_LEDGER_COVER_BITS == 0)
            n += (uint64_t)__builtin_popcountll(word & bits);
    }
    return n * GS_LEDGER_COVER_NS;
}
