#include "monitor/arbiter.h"

#include <string.h>

#include "contract/quota.h"
#include "monitor/part.h"

/* A time in the future up to this is one that was taken after ours. */
#define AHEAD_NS 1000000000u
/* A claim may exceed what the card can have given by this much: the driver's window and ours are
 * not the same. */
#define CLAIM_MARGIN 0.25
/* What a card gives a process at a time, at most. */
#define TURN_NS 2000000.0
/* Processes beside one of their slice; gs_part_each() is exact so far. */
#define MATES_MOST  31.0
#define MEAN_WEIGHT (1.0 / 16)
#define MEAN_MIN    1e-3

static uint64_t epoch_of(uint64_t ns)
{
    return ns / GS_LEDGER_BIN_NS;
}

bool gs_arbiter_is_reporting(const struct gs_arbiter_slice *s)
{
    return s->is_high || s->is_ranked ||
           (s->core_bp < GS_SHARE_ALL_BP && s->policy != GS_POLICY_OFF);
}

/** Has it a promise that it is held to, and that can be lent? */
static bool is_held(const struct gs_arbiter_slice *s)
{
    return s->core_bp < GS_SHARE_ALL_BP && s->policy != GS_POLICY_OFF;
}

static bool is_queued(const struct gs_arbiter_process *p, uint64_t now_ns)
{
    return p->busy_until_ns > now_ns && p->busy_until_ns - now_ns <= GS_ARBITER_QUEUE_NS;
}

/* Work in flight is reported when it is done. Note in which bins a process said that its queue
 * would last, so that a kernel longer than the lag counts while it runs. */
static void presume(struct gs_arbiter_process *p, uint64_t now_ns)
{
    uint64_t epoch = epoch_of(now_ns), passed = epoch - p->epoch;
    bool queued = is_queued(p, now_ns);

    if (p->epoch == 0 || epoch < p->epoch || passed >= 64) {
        uint64_t since = epoch_of(p->active_ns);

        /* the first look: its newest launch is what we know of the time before */
        p->presumed = 0;
        if (queued && p->active_ns <= now_ns)
            p->presumed = epoch - since >= 64 ? ~0ull : ((uint64_t)1 << (epoch - since)) - 1;
    } else if (passed > 0) {
        uint64_t gap = queued && (p->presumed & 1) ? ((uint64_t)1 << passed) - 1 : 0;

        p->presumed = p->presumed << passed | gap;
    }
    p->presumed |= queued;
    p->epoch = epoch;
}

/** Has it reported work of a later time? Then what came before was reported, too. */
static bool has_reported_since(const struct gs_arbiter_process *p, uint64_t bin)
{
    for (uint64_t b = bin + 1; b <= p->epoch && b < bin + GS_LEDGER_BINS; b++) {
        if (p->bin[b % GS_LEDGER_BINS] >> GS_LEDGER_BIN_BITS == b)
            return true;
    }
    return false;
}

/** Time of the bin in which the process had work outstanding, as it reported or as we presume. */
static uint64_t outstanding(const struct gs_arbiter_process *p, uint64_t bin, bool *ret_presumed)
{
    uint64_t word = p->bin[bin % GS_LEDGER_BINS];
    uint64_t ns = word & (((uint64_t)1 << GS_LEDGER_BIN_BITS) - 1);
    uint64_t age = p->epoch - bin;

    *ret_presumed = false;
    if (word >> GS_LEDGER_BIN_BITS == bin && ns != 0)
        return ns < GS_LEDGER_BIN_NS ? ns : GS_LEDGER_BIN_NS;
    if (p->epoch >= bin && age < 64 && (p->presumed >> age & 1) != 0 &&
        p->busy_until_ns / GS_LEDGER_BIN_NS > bin && !has_reported_since(p, bin)) {
        *ret_presumed = true;
        return GS_LEDGER_BIN_NS;
    }
    return 0;
}

/** What a slice's processes had outstanding in one bin, as densities. */
struct demand {
    double reported, presumed;
    double known, own; /**< of what was reported */
};

static void add_known(const struct gs_arbiter_process *p, uint64_t bin, struct demand *d)
{
    const uint64_t field = ((uint64_t)1 << GS_LEDGER_KNOWN_BITS) - 1;
    const double unit = (double)GS_LEDGER_KNOWN_NS / GS_LEDGER_BIN_NS;
    uint64_t word = p->known[bin % GS_LEDGER_BINS];

    if (((word >> 2 * GS_LEDGER_KNOWN_BITS) ^ bin) << 2 * GS_LEDGER_KNOWN_BITS != 0)
        return;
    d->known += (double)(word >> GS_LEDGER_KNOWN_BITS & field) * unit;
    d->own += (double)(word & field) * unit;
}

static void add_process(struct gs_arbiter_process *p, uint64_t bin, struct demand *d)
{
    bool presumed;
    double density = (double)outstanding(p, bin, &presumed) / GS_LEDGER_BIN_NS;

    p->mean += (density - p->mean) * MEAN_WEIGHT;
    if (presumed) {
        d->presumed += density;
    } else if (density > 0.0) {
        d->reported += density;
        add_known(p, bin, d);
    }
}

#define STEPS     (GS_LEDGER_BIN_NS / GS_LEDGER_COVER_NS)
#define ALL_STEPS (((uint64_t)1 << STEPS) - 1)
_Static_assert(STEPS == GS_LEDGER_COVER_BITS, "a word of the cover is a bin");

static void add_entry(struct gs_arbiter *a, uint32_t slice, double density, uint64_t steps,
                      uint32_t *n)
{
    if (density <= 0.0 || *n >= GS_ARBITER_ACTIVE)
        return;
    a->mean[*n] = density < 1.0 ? density : 1.0;
    a->steps[*n] = steps;
    a->mates[*n] = a->lost[*n] = a->known[*n] = a->known_lost[*n] = a->known_own[*n] = 0.0;
    a->claim[*n] = 0.0;
    a->owner[*n] = (uint16_t)slice;
    (*n)++;
}

/** Processes that had work beside one of the same slice, on the average of its steps. */
static double mates_of(const struct gs_arbiter_slice *s, uint64_t bin, uint64_t steps)
{
    const uint64_t field = ((uint64_t)1 << GS_LEDGER_COVER_BITS) - 1;
    uint64_t word = s->crowd[bin % GS_LEDGER_COVER];
    double mates, most = -1.0;

    if (((word >> GS_LEDGER_COVER_BITS) ^ bin) << GS_LEDGER_COVER_BITS != 0 || steps == 0)
        return 0.0;
    for (uint32_t i = 0; i < s->n_processes && most < MATES_MOST; i++)
        most += s->process[i].owner != 0 ? 1.0 : 0.0;
    mates = (double)(word & field) / __builtin_popcountll(steps);
    mates = mates < most ? mates : most;
    return mates > 0.0 ? mates : 0.0;
}

/* Processes of one slice are no strangers: they take turns at one bucket, and their hooks charge
 * time in which several had work once. When that was they note in steps (struct
 * gs_ledger_device.cover). Where there are none the densities add up: one at a time as far as that
 * goes, and what is only presumed fills that up. */
static void add_slice(struct gs_arbiter *a, uint32_t slice, const struct demand *d, uint64_t bin,
                      uint32_t *n)
{
    uint64_t word = a->slice[slice]->cover[bin % GS_LEDGER_COVER];
    double left = d->reported;
    uint32_t at = *n;

    if (((word >> GS_LEDGER_COVER_BITS) ^ bin) << GS_LEDGER_COVER_BITS == 0 &&
        (word & ALL_STEPS) != 0) {
        add_entry(a, slice, 1.0, d->presumed > 0.0 ? ALL_STEPS : word & ALL_STEPS, n);
        if (*n > at)
            a->mates[at] = mates_of(a->slice[slice], bin, word & ALL_STEPS);
        if (*n > at && d->known > 0.0) {
            double all = d->reported + d->presumed;

            a->known[at] = d->known < all ? d->known / all : 1.0;
            a->known_lost[at] = d->known > d->own ? (d->known - d->own) * GS_LEDGER_BIN_NS : 0.0;
            a->claim[at] = d->own * GS_LEDGER_COVER_BITS;
        }
        return;
    }
    if (left < 1.0)
        left = left + d->presumed < 1.0 ? left + d->presumed : 1.0;
    for (; left > 0.0; left -= 1.0)
        add_entry(a, slice, left, 0, n);
}

static bool is_in(const struct gs_arbiter *a, uint32_t i, uint32_t step)
{
    return a->steps[i] == 0 || (a->steps[i] >> step & 1) != 0;
}

/** Who had work in each step of a bin, and what is known of it. */
struct presence {
    double processes[STEPS];
    double taken[STEPS]; /**< of the step, by those that know their own time */
};

static bool is_shared(const struct gs_arbiter *a, uint32_t i, uint32_t step,
                      const struct presence *there)
{
    return is_in(a, i, step) && there->processes[step] > 1.0 + a->mates[i];
}

/** What is known of a slice's own time: it lost the rest in steps that it shared; a step may have
 *  been rounded away. It is not believed that this is more than even turns take, or more than
 *  others say they had, but for one turn: turns alternate, however often a slice shares. */
static void place_known(struct gs_arbiter *a, uint32_t i, const struct presence *there)
{
    struct gs_arbiter_slice *s = a->slice[a->owner[i]];
    double shared = 0.0, even = 0.0, taken = 0.0, most;

    for (uint32_t step = 0; step < STEPS; step++) {
        double all = there->processes[step];

        if (!is_shared(a, i, step, there))
            continue;
        shared += GS_LEDGER_COVER_NS;
        even += GS_LEDGER_COVER_NS * (all - 1.0 - a->mates[i]) / all;
        taken += GS_LEDGER_COVER_NS * (there->taken[step] - a->claim[i]);
    }
    if (shared <= 0.0) {
        a->known_lost[i] = 0.0;
        return;
    }
    even = a->known[i] * (even > taken ? even : taken);
    most = even + TURN_NS - s->ahead_ns;
    if (most > a->known[i] * (shared + GS_LEDGER_COVER_NS))
        most = a->known[i] * (shared + GS_LEDGER_COVER_NS);
    if (a->known_lost[i] > most)
        a->known_lost[i] = most;
    s->ahead_ns += a->known_lost[i] - even;
    if (s->ahead_ns < 0.0)
        s->ahead_ns = 0.0;
    a->known_own[i] = a->known[i] - a->known_lost[i] / shared;
    if (a->known_own[i] < 0.0)
        a->known_own[i] = 0.0;
    a->lost[i] += a->known_lost[i];
}

/** What a slice says it had of each step that it shared: of the others it had all. */
static void add_claim(struct gs_arbiter *a, uint32_t i, struct presence *there)
{
    double alone = 0.0, shared = 0.0;

    for (uint32_t step = 0; step < STEPS; step++) {
        bool is = is_shared(a, i, step, there);

        shared += is;
        alone += !is && is_in(a, i, step);
    }
    a->claim[i] = a->claim[i] > alone && shared > 0.0 ? (a->claim[i] - alone) / shared : 0.0;
    for (uint32_t step = 0; step < STEPS; step++)
        there->taken[step] += is_shared(a, i, step, there) ? a->claim[i] : 0.0;
}

static void place_all_known(struct gs_arbiter *a, uint32_t n)
{
    struct presence there = {{0.0}, {0.0}};

    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < n; i++)
            there.processes[step] += is_in(a, i, step) ? a->mean[i] + a->mates[i] : 0.0;
        for (uint32_t i = 0; i < a->n_foreign; i++)
            there.processes[step] += a->foreign[i];
    }
    for (uint32_t i = 0; i < n; i++)
        add_claim(a, i, &there);
    for (uint32_t i = 0; i < n; i++) {
        if (a->known[i] > 0.0)
            place_known(a, i, &there);
    }
}

/** Processes of an entry that begins at `at`, a part of one among them, as far as there is room. */
static uint32_t count_processes(const struct gs_arbiter *a, uint32_t i, uint32_t at)
{
    uint32_t whole = (uint32_t)a->mates[i];
    uint32_t count = 1 + whole + (a->mates[i] > whole);

    return count < GS_ARBITER_ACTIVE - at ? count : GS_ARBITER_ACTIVE - at;
}

/** Densities of the processes of one entry, of what is not known. Returns how many there are. */
static uint32_t put_processes(struct gs_arbiter *a, uint32_t i, uint32_t at)
{
    uint32_t count = count_processes(a, i, at);
    double unknown = 1.0 - a->known[i], left = a->mates[i];

    a->density[at] = a->mean[i] * unknown;
    for (uint32_t k = 1; k < count; k++, left -= 1.0)
        a->density[at + k] = (left < 1.0 ? left : 1.0) * unknown;
    return count;
}

/** What these had of a step in which nobody knew more. */
static double part_of(const struct gs_arbiter *a, uint32_t at, uint32_t n_processes)
{
    double part = 0.0;

    for (uint32_t k = at; k < at + n_processes; k++)
        part += a->density[k] * a->part[k];
    return part < a->density[at] ? part : a->density[at];
}

/** Who had work in one step, and what each lost to the others; `weight` steps are like it. What of
 *  it is known belongs to who knows it; the rest of the card is divided evenly. */
static void settle_step(struct gs_arbiter *a, uint32_t n, uint32_t step, uint32_t weight)
{
    uint32_t m = 0, n_in = 0, count;
    double taken = 0.0;

    for (uint32_t i = 0; i < n && m < GS_ARBITER_ACTIVE; i++) {
        if (!is_in(a, i, step))
            continue;
        m += put_processes(a, i, m);
        n_in++;
        taken += a->known_own[i];
    }
    if (n_in + a->n_foreign < 2)
        return; /* alone */
    memcpy(&a->density[m], a->foreign, a->n_foreign * sizeof(a->foreign[0]));
    gs_part_each(a->density, m + a->n_foreign, a->part);
    m = 0;
    for (uint32_t i = 0; i < n && m < GS_ARBITER_ACTIVE; i++) {
        double rest;

        if (!is_in(a, i, step))
            continue;
        rest = 1.0 - taken + a->known_own[i];
        if (rest < 0.0)
            rest = 0.0;
        count = count_processes(a, i, m);
        a->lost[i] += (a->density[m] - part_of(a, m, count) * rest) * weight * GS_LEDGER_COVER_NS;
        m += count;
    }
}

/** Does anybody begin or end between this step and the one before? */
static bool is_like_before(const struct gs_arbiter *a, uint32_t n, uint32_t step)
{
    for (uint32_t i = 0; i < n; i++) {
        if (((a->steps[i] >> step ^ a->steps[i] >> (step - 1)) & 1) != 0)
            return false;
    }
    return true;
}

static void settle_bin(struct gs_arbiter *a, uint64_t bin)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < a->n_slices; i++) {
        struct gs_arbiter_slice *s = a->slice[i];
        struct demand demand = {0.0, 0.0, 0.0, 0.0};

        for (uint32_t j = 0; j < s->n_processes; j++)
            add_process(&s->process[j], bin, &demand);
        for (uint32_t j = 0; j < GS_ARBITER_GHOSTS; j++)
            add_process(&s->ghost[j], bin, &demand);
        add_slice(a, i, &demand, bin, &n);
    }
    place_all_known(a, n);
    for (uint32_t step = 0, next; step < STEPS; step = next) {
        for (next = step + 1; next < STEPS && is_like_before(a, n, next);)
            next++;
        settle_step(a, n, step, next - step);
    }
    for (uint32_t i = 0; i < n; i++)
        a->slice[a->owner[i]]->refund_ns += (uint64_t)(a->lost[i] + 0.5);
}

static void settle(struct gs_arbiter *a, uint64_t now_ns)
{
    uint64_t epoch = epoch_of(now_ns), newest;

    if (epoch <= GS_LEDGER_BINS)
        return; /* the machine has just started */
    newest = epoch - 1 - GS_ARBITER_LAG_BINS;
    if (a->refund_bin == 0 || a->refund_bin > epoch + GS_LEDGER_BINS)
        a->refund_bin = newest; /* nobody before us, or by another clock */
    if (a->refund_bin < epoch - GS_LEDGER_BINS)
        a->refund_bin = epoch - GS_LEDGER_BINS; /* what is older has been written over */
    while (a->refund_bin < newest)
        settle_bin(a, ++a->refund_bin);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/** A time from a ledger that tells of demand: not after now; 0 where it cannot be true. */
static uint64_t past(uint64_t ns, uint64_t now_ns, uint64_t ahead_ns)
{
    if (ns <= now_ns)
        return ns;
    return ns - now_ns <= ahead_ns ? now_ns : 0;
}

bool gs_arbiter_is_waiting(const struct gs_arbiter_process *p, uint64_t now_ns)
{
    uint64_t active = past(p->active_ns, now_ns, AHEAD_NS);

    return p->wait_since_ns != 0 && past(p->wait_since_ns, now_ns, AHEAD_NS) != 0 && active != 0 &&
           now_ns - active <= GS_ARBITER_WAIT_NS;
}

static uint64_t demand_of(const struct gs_arbiter_process *p, uint64_t now_ns)
{
    uint64_t newest = past(p->active_ns, now_ns, AHEAD_NS);

    if (gs_arbiter_is_waiting(p, now_ns))
        return now_ns;
    newest = later(newest, past(p->busy_until_ns, now_ns, GS_ARBITER_QUEUE_NS));
    for (uint32_t i = 0; i < GS_LEDGER_BINS; i++) {
        uint64_t epoch = p->bin[i] >> GS_LEDGER_BIN_BITS;

        /* an empty bin tells nothing; the product fits: an epoch has 39 bits */
        if ((p->bin[i] & (((uint64_t)1 << GS_LEDGER_BIN_BITS) - 1)) != 0)
            newest = later(newest, past((epoch + 1) * GS_LEDGER_BIN_NS, now_ns, GS_LEDGER_BIN_NS));
    }
    return newest;
}

static bool is_within(uint64_t demand_ns, uint64_t now_ns, uint64_t ns)
{
    return demand_ns != 0 && now_ns - demand_ns <= ns;
}

/** Newest demand of the slice, and how many of its processes ask for the card. */
static void look_at(struct gs_arbiter_slice *s, uint64_t now_ns)
{
    s->demand_ns = 0;
    s->n_active = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        uint64_t demand;

        if (s->process[i].owner == 0)
            continue;
        presume(&s->process[i], now_ns);
        demand = demand_of(&s->process[i], now_ns);
        s->demand_ns = later(s->demand_ns, demand);
        s->n_active += is_within(demand, now_ns, GS_ARBITER_IDLE_NS) && !s->is_parked;
    }
}

static bool asked_within(const struct gs_arbiter_slice *s, uint64_t now_ns, uint64_t ns)
{
    return is_within(s->demand_ns, now_ns, ns);
}

/** Asks for the card, and could have it. */
static bool is_active(const struct gs_arbiter_slice *s)
{
    return s->n_active != 0;
}

/** Everything the lending needs to know of all slices together. */
struct market {
    uint32_t n_active;
    uint32_t n_processes; /**< that ask for the card */
    uint64_t idle_bp;     /**< promised to idle slices */
    uint64_t borrower_bp; /**< promised to active elastic ones */
    bool is_high_active;
};

static struct market survey(const struct gs_arbiter *a, uint64_t now_ns)
{
    struct market m = {.n_active = a->n_foreign, .n_processes = a->n_foreign};

    for (uint32_t i = 0; i < a->n_slices; i++) {
        const struct gs_arbiter_slice *s = a->slice[i];
        bool active = is_active(s);

        m.n_active += active;
        m.n_processes += s->n_active;
        if (is_held(s) && !active)
            m.idle_bp += s->core_bp;
        if (is_held(s) && active && s->policy == GS_POLICY_ELASTIC)
            m.borrower_bp += s->core_bp;
        m.is_high_active |=
            s->is_high && !s->is_parked && asked_within(s, now_ns, GS_ARBITER_PRIORITY_NS);
    }
    return m;
}

/* A slice that is idle is told what it would get if it came back now, so that its first launch
 * need not wait for us. */
static uint32_t share_of(const struct gs_arbiter_slice *s, const struct market *m)
{
    bool active = is_active(s);
    uint64_t idle_bp = m->idle_bp, borrower_bp = m->borrower_bp, share;

    if (!is_held(s))
        return GS_SHARE_ALL_BP;
    if (s->policy != GS_POLICY_ELASTIC)
        return s->core_bp;
    if (m->n_active == active)
        return GS_SHARE_ALL_BP;
    if (!active) {
        idle_bp -= s->core_bp;
        borrower_bp += s->core_bp;
    }
    share = s->core_bp;
    if (borrower_bp != 0)
        share += idle_bp * s->core_bp / borrower_bp;
    return share < GS_SHARE_ALL_BP ? (uint32_t)share : GS_SHARE_ALL_BP;
}

void gs_arbiter_step(struct gs_arbiter *a, uint64_t now_ns)
{
    struct market m;

    for (uint32_t i = 0; i < a->n_slices; i++)
        look_at(a->slice[i], now_ns);
    settle(a, now_ns);
    m = survey(a, now_ns);
    for (uint32_t i = 0; i < a->n_slices; i++) {
        struct gs_arbiter_slice *s = a->slice[i];

        s->share_bp = share_of(s, &m);
        s->flags = m.is_high_active && !s->is_high ? GS_BOARD_YIELD : 0;
        if (m.n_active > is_active(s))
            s->flags |= GS_BOARD_SHARED;
        s->others = m.n_processes - s->n_active;
    }
}

void gs_arbiter_take_foreign(struct gs_arbiter *a, const uint32_t *util_pct, uint32_t n)
{
    double used[GS_ARBITER_FOREIGN], most;
    uint32_t n_ours = 0, n_used = 0;

    for (uint32_t i = 0; i < a->n_slices; i++) {
        const struct gs_arbiter_slice *s = a->slice[i];

        for (uint32_t j = 0; j < s->n_processes && n_ours < GS_ARBITER_ACTIVE; j++) {
            if (s->process[j].mean > MEAN_MIN)
                a->density[n_ours++] = s->process[j].mean;
        }
    }
    /* what one more process gets that has work all the time */
    a->density[n_ours] = 1.0;
    gs_part_each(a->density, n_ours + 1, a->part);
    most = a->part[n_ours];
    for (uint32_t i = 0; i < n && n_used < GS_ARBITER_FOREIGN; i++) {
        double part = util_pct[i] / 100.0;

        if (util_pct[i] >= 1 && util_pct[i] <= 100 && part <= most + CLAIM_MARGIN)
            used[n_used++] = part;
    }
    gs_part_densities(a->density, n_ours, used, n_used, a->part);
    memcpy(a->foreign, &a->density[n_ours], n_used * sizeof(a->foreign[0]));
    a->n_foreign = n_used;
}

void gs_arbiter_forget_process(struct gs_arbiter_slice *slice, struct gs_arbiter_process *p)
{
    struct gs_arbiter_process *ghost = &slice->ghost[slice->n_ghosts % GS_ARBITER_GHOSTS];

    if (p->owner != 0) {
        *ghost = (struct gs_arbiter_process){.owner = p->owner};
        memcpy(ghost->bin, p->bin, sizeof(ghost->bin));
        memcpy(ghost->known, p->known, sizeof(ghost->known));
        slice->n_ghosts++;
    }
    memset(p, 0, sizeof(*p));
}
