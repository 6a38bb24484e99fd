#include "vendors/nvidia/hook/settle.h"

#include <string.h>

#include "contract/ledger.h"
#include "hook/limiter.h"
#include "vendors/nvidia/hook/copy_time.h"
#include "vendors/nvidia/hook/cost.h"
#include "vendors/nvidia/hook/fresh.h"
#include "vendors/nvidia/hook/launch_stream.h"
#include "vendors/nvidia/hook/sight.h"
#include "vendors/nvidia/hook/span.h"
#include "vendors/nvidia/hook/window.h"

#define HISTORY 64u
#define ENDS    32u
/* Half of what the card gives a process at a time. */
#define HALF_TURN_NS 1000000u
/* Beyond what was believed: doubt goes on. */
#define LONG_NS (GS_COST_TURN_NS / 3)
/* From the call to the card, without any neighbour. */
#define LATENCY_NS 300000u
/* An idle stream's events are apart by what a record's call takes, or so. */
#define IDLE_PART 2u
/* Of a launch's time, what its call may have taken without the card at work. */
#define CALL_PART 32u
/* A launch's part among other streams that no guess is so far off by. */
#define CROWDED_UNLIKE    3u
#define CROWDED_UNLIKE_NS 50000u
/* What a correction may take at once. */
#define CORRECTION_MOST_NS 10000000000

/* Streams' spans of work, newest HISTORY. */
static struct {
    uint32_t dev;
    struct gs_span_stream span;
} history[HISTORY];
static uint32_t n_history;

/* When the newest settled entry of a stream was passed. Others read it. */
static struct {
    uint64_t id;
    uint64_t end_ns;
} ends[ENDS];

/* Time of each card that this process is charged for. */
static struct gs_span_set charged[GS_LEDGER_DEVICES];

static uint64_t last_end_ns[GS_LEDGER_DEVICES];

uint64_t gs_settle_end_of(uint64_t id)
{
    uint32_t at = (uint32_t)(id >> 4) % ENDS;

    return __atomic_load_n(&ends[at].id, __ATOMIC_RELAXED) == id
               ? __atomic_load_n(&ends[at].end_ns, __ATOMIC_RELAXED)
               : 0;
}

static void set_end(uint64_t id, uint64_t end_ns)
{
    uint32_t at = (uint32_t)(id >> 4) % ENDS;

    __atomic_store_n(&ends[at].id, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&ends[at].end_ns, end_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&ends[at].id, id, __ATOMIC_RELEASE);
}

uint64_t gs_settle_last_end_ns(uint32_t dev)
{
    return __atomic_load_n(&last_end_ns[dev], __ATOMIC_RELAXED);
}

void gs_settle_note_covered(const struct gs_inflight *e, uint64_t now_ns)
{
    const struct gs_inflight_launch *l = &e->launch;

    if (l->covers_ns != 0)
        gs_limiter_note(e->where.dev, l->since_ns < now_ns ? l->since_ns : now_ns, now_ns,
                        l->covers_ns, GS_LIMITER_NOT_KNOWN);
}

void gs_settle_unseen(const struct gs_inflight *e, uint64_t now_ns)
{
    const struct gs_inflight_launch *l = &e->launch;
    uint32_t dev = e->where.dev;
    struct gs_span span = {gs_span_later(e->recorded_ns, gs_settle_end_of(e->where.id)), now_ns};

    gs_settle_note_covered(e, now_ns);
    if (l->kind == GS_INFLIGHT_MARK)
        return;
    if (span.start_ns > now_ns)
        span.start_ns = now_ns;
    gs_limiter_settle(dev, l->kind == GS_INFLIGHT_MEASURED ? l->paid_ns : 0, span.start_ns, now_ns,
                      gs_span_add(&charged[dev], span), GS_LIMITER_NOT_KNOWN);
    set_end(e->where.id, now_ns);
}

/* Spans of other streams that touch this one. */
static uint32_t others_of(const struct gs_inflight *e, struct gs_span span,
                          struct gs_span_stream *ret_others)
{
    uint32_t n = 0;

    for (uint32_t i = gs_inflight_next(0); i < GS_INFLIGHT_ENTRIES && n < GS_SPAN_STREAMS;
         i = gs_inflight_next(i + 1)) {
        const struct gs_inflight *o = &gs_inflight_entries[i];

        if (__atomic_load_n(&o->state, __ATOMIC_ACQUIRE) == GS_INFLIGHT_OPEN &&
            o->where.dev == e->where.dev && o->where.id != e->where.id &&
            o->recorded_ns < span.end_ns)
            ret_others[n++] = (struct gs_span_stream){o->where.id, {o->recorded_ns, UINT64_MAX}};
    }
    for (uint32_t i = 0; i < HISTORY && i < n_history && n < GS_SPAN_STREAMS; i++) {
        const struct gs_span_stream *s = &history[i].span;

        if (history[i].dev == e->where.dev && s->id != e->where.id &&
            s->span.start_ns < span.end_ns && s->span.end_ns > span.start_ns)
            ret_others[n++] = *s;
    }
    return n;
}

/* What an idle stream waited for the launch, behind the event before it: as long as between the two
 * events, and by as much longer as the launch's call took the host longer than a record's. Where
 * calls wait for the card that says nothing, so it counts for little. */
static uint64_t idle_gap(const struct gs_inflight *e, uint64_t gap_ns, uint64_t span_ns)
{
    uint64_t more = e->call_ns > e->record_ns ? e->call_ns - e->record_ns : 0;

    if (gap_ns < e->record_ns / IDLE_PART) /* it had work */
        return gap_ns;
    return gap_ns + (more < span_ns / CALL_PART ? more : span_ns / CALL_PART);
}

/* Among other streams a sample says little: its part of them is a guess, and what is learnt of it
 * is clipped. But one so long that neither they nor mates of the slice explain it is of a kind that
 * is none, and then clocks and marks decide. Beside other slices those could not tell, either. */
static bool is_unlike_crowded(const struct gs_inflight *e, struct gs_span span, uint64_t part_ns)
{
    uint64_t est = e->launch.est_ns;

    return est != 0 && part_ns > CROWDED_UNLIKE * est + CROWDED_UNLIKE_NS &&
           !gs_limiter_is_shared(e->where.dev) &&
           part_ns - est > gs_window_turns_ns(e->where.dev, span, gs_cost_turns(est));
}

/* What a launch took on its stream, learnt as its cost less the part of other streams; 0: the
 * driver does not tell.
 * *ret_own: how much of that was its own whatever the neighbours did, where that can be told.
 * *ret_is_alone: the measurement is good, and no other stream of ours is in it. */
static uint64_t learn(const struct gs_inflight *e, struct gs_span span, uint64_t seen_ns,
                      uint64_t *ret_own, bool *ret_is_alone)
{
    const struct gs_inflight_launch *l = &e->launch;
    int64_t gap = 0, length = 0;
    struct gs_span_stream others[GS_SPAN_STREAMS];
    uint64_t took, part, own, turns;
    bool is_sound;
    uint32_t n;

    if (gs_timing_between(e->event[0], e->event[1], &gap) < 0 ||
        gs_timing_between(e->event[1], e->event[2], &length) < 0) {
        gs_sight_fail(e->where.dev, "cuEventElapsedTime");
        gs_sight_trouble(e->where.dev, "cuEventElapsedTime");
        return 0;
    }
    gs_sight_good();
    gap = gap > 0 ? gap : 0;
    length = length > 0 ? length : 0;
    took = gs_cost_of_sample(idle_gap(e, (uint64_t)gap, (uint64_t)length), (uint64_t)length,
                             e->host_ns, l->est_ns, &is_sound);
    if (e->copy_ns != 0)
        took = gs_copy_time_of(&e->call, took, e->copy_ns);
    n = others_of(e, span, others);
    *ret_is_alone = is_sound && n == 0;
    if (*ret_is_alone) {
        turns = gs_window_turns_ns(e->where.dev, span, gs_cost_turns(l->est_ns));
        if (turns != 0)
            gs_cost_learn_shared(l->cost, took, turns);
        else
            gs_cost_learn(l->cost, took);
        own = gs_cost_own(l->cost, took, turns);
        if (own != 0)
            *ret_own = own;
    } else if (is_sound && span.end_ns > span.start_ns) {
        part = (uint64_t)((double)took * (double)gs_span_divide(span, others, n) /
                          (double)(span.end_ns - span.start_ns));
        if (is_unlike_crowded(e, span, part))
            gs_window_doubt(e->where.dev, seen_ns);
        gs_cost_learn_crowded(l->cost, part);
    }
    return took;
}

static void remember(const struct gs_inflight *e, uint64_t end_ns)
{
    uint32_t at = n_history++ % HISTORY;

    if (n_history == 2 * HISTORY)
        n_history = HISTORY;
    history[at].dev = e->where.dev;
    history[at].span = (struct gs_span_stream){e->where.id, {e->recorded_ns, end_ns}};
}

/* Launches that were paid by their estimates took other than that. Where samples of single launches
 * say little, because other streams are in between, the last of them stands for all (a mark alone
 * is of no kind). */
static void correct(const struct gs_inflight *e, struct gs_span span, uint64_t used_ns)
{
    const struct gs_inflight_launch *l = &e->launch;
    struct gs_span_stream others[GS_SPAN_STREAMS];
    int64_t more = used_ns > CORRECTION_MOST_NS ? CORRECTION_MOST_NS : (int64_t)used_ns;

    gs_limiter_correct(e->where.dev, more - (int64_t)l->covers_ns);
    if (l->cost != NULL && l->kind != GS_INFLIGHT_MEASURED && used_ns != 0 &&
        others_of(e, span, others) != 0)
        gs_cost_learn_ratio(l->cost, used_ns, l->covers_ns);
}

void gs_settle_window(uint32_t dev, uint64_t id, struct gs_span span, uint64_t window)
{
    uint64_t paid = GS_LAUNCH_NS(window), more;

    span.start_ns = gs_span_later(span.start_ns, gs_settle_end_of(id));
    if (!gs_window_judge(dev, span, gs_span_fresh(&charged[dev], span), window))
        return;
    more = gs_window_surprise(dev, gs_span_add(&charged[dev], span) - paid, span.end_ns);
    if (more != 0)
        gs_limiter_settle(dev, 0, span.start_ns, span.end_ns, more, GS_LIMITER_NOT_KNOWN);
}

/* In doubt, with nobody else on the card: processes of the slice pay by the clock, for each moment
 * once, and whose launch it was does not matter. */
static bool is_for_the_clock(uint32_t dev)
{
    return gs_window_is_doubtful(dev) && !gs_limiter_is_shared(dev);
}

/* Do an entry's launches by estimates? The stream had work from the first of them to the last. */
static bool is_by_clock(const struct gs_inflight *e)
{
    return e->launch.is_whole && e->launch.first_ns != 0 && is_for_the_clock(e->where.dev);
}

static uint64_t pay_by_clock(const struct gs_inflight *e, struct gs_span span)
{
    const struct gs_inflight_launch *l = &e->launch;
    uint64_t used = gs_span_add(&charged[e->where.dev], span), paid = GS_LAUNCH_NS(l->window);

    paid = paid < l->covers_ns ? paid : l->covers_ns;
    gs_limiter_correct(e->where.dev, (int64_t)used - (int64_t)paid);
    if (used > paid + LONG_NS)
        gs_window_doubt(e->where.dev, span.end_ns); /* it goes on */
    return l->covers_ns - paid + used;
}

/* Account for the launches that went by their estimates since the stream's last entry. When the
 * last of them was out before the card had passed that entry, the stream had work without a break
 * from there to here, and that is what they took, all together and however many streams there are:
 * true. Else they took no longer than since the first of them went out, until `start_ns`.
 */
static bool account_covered(const struct gs_inflight *e, uint64_t start_ns, uint64_t until_ns)
{
    const struct gs_inflight_launch *l = &e->launch;
    uint32_t dev = e->where.dev;
    uint64_t last = gs_settle_end_of(e->where.id);
    uint64_t used = l->covers_ns, own = l->covers_ns, from;
    struct gs_span_stream others[GS_SPAN_STREAMS];
    bool is_exact = last != 0 && l->closed_ns < last;

    if (l->covers_ns == 0)
        return false;
    if (is_exact) {
        used = gs_span_add(&charged[dev], (struct gs_span){last, until_ns});
        correct(e, (struct gs_span){last, until_ns}, used);
    } else if (is_by_clock(e)) {
        used = pay_by_clock(e, (struct gs_span){gs_span_later(l->first_ns, last), start_ns});
    } else if (l->first_ns != 0) {
        gs_settle_window(dev, e->where.id, (struct gs_span){l->first_ns, start_ns}, l->window);
    }
    from = l->since_ns > last_end_ns[dev] ? l->since_ns : last_end_ns[dev];
    from = from < until_ns ? from : until_ns;
    /* a stream alone: its launches' estimates are without turns of neighbours */
    if (is_for_the_clock(dev) || others_of(e, (struct gs_span){from, until_ns}, others) != 0)
        own = GS_LIMITER_NOT_KNOWN;
    gs_limiter_note(dev, from, until_ns, used, own);
    return is_exact;
}

/* How long were launches out beyond what was paid for them? last_ns: end of the entry before. */
static void note_slack(const struct gs_inflight *e, uint64_t start_ns, uint64_t last_ns)
{
    const struct gs_inflight_launch *l = &e->launch;
    uint64_t first = gs_span_later(l->first_ns, last_ns), out = l->seen_ns;

    if (l->first_ns != 0 && start_ns > first)
        out += start_ns - first;
    if (out > l->covers_ns)
        gs_window_slack(e->where.dev, out - l->covers_ns);
}

/* A sample whose turn came by chance stands for launches that were not seen: what they took, all
 * together, is on the average what they paid and so many times what this one took more or less. */
static void correct_sampled(const struct gs_inflight *e, uint64_t took_ns, uint64_t weight)
{
    uint32_t dev = e->where.dev;
    int64_t more = (int64_t)took_ns - (int64_t)e->launch.est_ns;

    gs_limiter_correct(dev, more + gs_window_unseen(dev, more, weight - 1));
}

/* Short ones of that kind were believed in, and this one took longer than the turns of other slices
 * explain: it was long itself, or its kind is not one. */
static bool is_unlike(const struct gs_inflight *e, uint64_t took_ns, uint64_t own_ns)
{
    return own_ns == GS_LIMITER_NOT_KNOWN && e->launch.est_ns <= GS_COST_TURN_NS &&
           took_ns > e->launch.est_ns + GS_COST_TURN_NS / 2 && gs_limiter_is_shared(e->where.dev);
}

/* A sample is done. Where it was one unlike its kind, beside other slices, what it took more
 * contains their turns: that is charged as what a measured launch took, so that the board gives it
 * back, and all are measured for a while; it stands for no other. */
static void settle_sample(const struct gs_inflight *e, struct gs_span span, uint64_t took_ns,
                          uint64_t own_ns, uint64_t seen_ns)
{
    uint32_t dev = e->where.dev;
    uint64_t weight = e->launch.is_due && e->copy_ns == 0 ? gs_cost_weight(e->launch.cost) : 1;

    if (is_unlike(e, took_ns, own_ns)) {
        gs_limiter_settle(dev, 0, span.start_ns, span.end_ns, took_ns - e->launch.est_ns,
                          GS_LIMITER_NOT_KNOWN);
        gs_window_doubt(dev, seen_ns);
        return;
    }
    if (own_ns < took_ns && !gs_limiter_is_shared(dev))
        gs_window_doubt(dev, seen_ns);
    correct_sampled(e, own_ns < took_ns ? own_ns : took_ns, weight);
}

/* Beside neighbours a launch onto an idle stream first waits for the rest of another's turn, in
 * which not even its event is passed. The board divides time in which work was outstanding evenly:
 * right on the average only with that wait, of half a turn where arrivals are random. The wait
 * itself is not: programs fall into step with the neighbour. Moves the start; returns by how much.
 */
static uint64_t wait_for_turn(const struct gs_inflight *e, struct gs_span *span)
{
    uint64_t last = last_end_ns[e->where.dev], was = span->start_ns;

    if (gs_span_later(e->recorded_ns, last) + LATENCY_NS >= was ||
        !gs_limiter_is_shared(e->where.dev))
        return 0;
    span->start_ns = gs_span_later(was - HALF_TURN_NS, last);
    return was - span->start_ns;
}

/* Has a measured launch shown that doubt was right? */
static bool goes_on(const struct gs_inflight *e, uint64_t took_ns, uint64_t own_ns)
{
    uint32_t dev = e->where.dev;

    if (!gs_window_is_doubtful(dev))
        return false;
    return gs_limiter_is_shared(dev) ? is_unlike(e, took_ns, own_ns)
                                     : took_ns > e->launch.est_ns + LONG_NS;
}

/* Processes of the slice that begin need not find out anew that launches of a kind differ. */
static void tell_mates(const struct gs_inflight *e, uint64_t own_ns, uint64_t seen_ns)
{
    uint64_t est = e->launch.est_ns;

    if (est != 0 && gs_cost_is_unlike(est, own_ns) &&
        (own_ns > est ? own_ns - est : est - own_ns) >= GS_COST_SPREAD_NS)
        gs_limiter_note_unlike(e->where.dev, seen_ns);
}

void gs_settle_entry(const struct gs_inflight *e, uint64_t seen_ns)
{
    const struct gs_inflight_launch *l = &e->launch;
    uint32_t dev = e->where.dev;
    struct gs_timing_span t =
        gs_timing_place(&e->base, e->event[l->kind == GS_INFLIGHT_MARK ? 2 : 1], e->event[2],
                        e->recorded_ns, seen_ns);
    struct gs_span span = {t.start_ns, t.end_ns};
    uint64_t took = 0, own = GS_LIMITER_NOT_KNOWN, fresh;
    bool is_alone = false;

    if (l->kind != GS_INFLIGHT_MARK && (took = learn(e, span, seen_ns, &own, &is_alone)) == 0) {
        gs_settle_unseen(e, seen_ns);
        return;
    }
    if (e->copy_ns == 0 && e->tried != NULL)
        gs_fresh_learn(dev, l->is_graph, took, seen_ns);
    if (e->copy_ns == 0 && is_alone)
        tell_mates(e, took < own ? took : own, seen_ns);
    if (e->copy_ns == 0 && !is_by_clock(e)) /* between copies the host works */
        note_slack(e, span.start_ns, gs_settle_end_of(e->where.id));
    if (l->kind == GS_INFLIGHT_MEASURED) {
        (void)account_covered(e, span.start_ns, span.start_ns);
        if (own == GS_LIMITER_NOT_KNOWN)
            took += wait_for_turn(e, &span);
        if (is_alone && goes_on(e, took, own))
            gs_window_doubt(dev, seen_ns);
        if (is_for_the_clock(dev))
            own = GS_LIMITER_NOT_KNOWN; /* else the board would give something back */
        fresh = gs_span_add(&charged[dev], span);
        gs_limiter_settle(dev, l->paid_ns, span.start_ns, span.end_ns, took < fresh ? took : fresh,
                          own);
    } else if (l->kind == GS_INFLIGHT_MARK) {
        (void)account_covered(e, span.end_ns, span.end_ns);
    } else {
        if (!account_covered(e, span.start_ns, span.end_ns) && is_alone)
            settle_sample(e, span, took, own, seen_ns);
        /* nobody else is to be charged for it */
        (void)gs_span_add(&charged[dev], span);
    }
    if (span.end_ns > last_end_ns[dev])
        __atomic_store_n(&last_end_ns[dev], span.end_ns, __ATOMIC_RELAXED);
    set_end(e->where.id, span.end_ns);
    remember(e, span.end_ns);
}

void gs_settle_forget(void)
{
    memset(ends, 0, sizeof(ends));
    memset(charged, 0, sizeof(charged));
    memset(last_end_ns, 0, sizeof(last_end_ns));
    n_history = 0;
}
