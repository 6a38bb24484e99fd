#include "vendors/nvidia/hook/inflight.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "contract/ledger.h"
#include "hook/limiter.h"
#include "hook/ring.h"
#include "hook/spin.h"
#include "hook/sys.h"
#include "vendors/nvidia/hook/copy_time.h"
#include "vendors/nvidia/hook/launch.h"
#include "vendors/nvidia/hook/span.h"

#define FAILURES_TO_TELL 8u
/* Neighbours may make everything some times slower. */
#define OVERDUE_NS    50000000u
#define OVERDUE_TIMES 8u
#define RETRY_NS      1000000000u
#define HISTORY       64u
/* Half of what the card gives a process at a time. */
#define HALF_TURN_NS 1000000u
/* From the call to the card, without any neighbour. */
#define LATENCY_NS 300000u
#define ENDS       32u
/* How much longer than the estimates of its launches a stream may seem to work before that is
 * charged: so much at all, for each launch, and where neighbours have turns, too. Below that
 * samples decide. */
#define SLACK_NS        2000000u
#define SLACK_EACH_NS   100000u
#define SLACK_SHARED_NS 10000000u
/* So much of that is remembered. */
#define SLACK_MOST_NS UINT64_C(10000000000)
/* What is forgiven of it: programs and machines have their hitches. */
#define FORGIVEN_PART     100u
#define FORGIVEN_MOST_NS  UINT64_C(50000000)
#define FORGIVEN_FIRST_NS 2000000u
/* Windows looked at closely after such a surprise; each surprise more makes it longer. */
#define ATTEND_FIRST   1024u
#define ATTEND_TIMES   8u
#define ATTEND_MOST    65536u
#define ATTEND_CALM_NS 2000000000u /* without one: begin anew */
/* What a correction may take at once. */
#define CORRECTION_MOST_NS 10000000000

/* Entry life: FREE -> OWNED (a launching thread) -> OPEN -> FREE. Only the harvester takes OPEN
 * ones. Everything but the state belongs to whoever moved it there. */
enum state { FREE, OWNED, OPEN };

struct gs_inflight {
    uint32_t state;
    uint64_t seq;
    CUcontext context; /* whose events they are; kept while FREE */
    CUevent event[3];  /* before, right before, behind */
    struct gs_timing_where where;
    enum gs_inflight_kind kind;
    bool is_ended;
    const struct gs_cost *tried; /* of unknown length, of this kind; NULL known */
    struct gs_timing_base base;
    uint64_t recorded_ns;     /* event[1] was recorded then or later; of a mark event[2] */
    uint64_t host_ns;         /* between the first record and the launch */
    uint64_t out_ns;          /* the launch may be on the card from then on; 0 not yet, or a mark */
    uint64_t copy_ns;         /* of a copy: what it takes at least; 0 a launch */
    struct gs_copy_time call; /* of a copy */
    struct gs_inflight_launch launch;
};

static struct gs_inflight entries[GS_INFLIGHT_ENTRIES];
static uint32_t harvesting; /* 1: a thread is at it, or purges */
static uint64_t next_seq;
uint32_t gs_inflight_out;
static uint32_t failures; /* in a row */
static uint32_t told;
static uint64_t retry_ns;

static struct {
    _Alignas(64) uint64_t ns;
    uint32_t unknown;
    uint32_t count;
    uint64_t last_end_ns;   /* the harvester writes */
    uint64_t blind_ns;      /* since when launches are out that nothing is known of; 0 none are */
    uint64_t blind_paid_ns; /* for them */
    uint32_t attend;        /* launches still to be measured one by one */
    uint32_t attend_next;   /* so many after the next surprise */
    uint64_t attend_ns;     /* when the last one was */
    uint64_t slack_ns;      /* the harvester's: launches by estimates were out so much longer */
    uint64_t forgiven_ns;   /* the harvester's: when nothing had been forgiven */
} cards[GS_LEDGER_DEVICES];
static uint32_t n_out;      /* entries with `out_ns` */
static uint64_t publishing; /* a spin word: whoever tells the ledger has seen all of the entries */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What follows is the harvester's. */

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

static uint64_t end_of(uint64_t id)
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

/* Time of each card that this process is charged for. */
static struct gs_span_set charged[GS_LEDGER_DEVICES];

static void set_out(struct gs_inflight *e, uint64_t since_ns)
{
    if (__atomic_exchange_n(&e->out_ns, since_ns, __ATOMIC_RELEASE) == 0)
        (void)__atomic_fetch_add(&n_out, 1, __ATOMIC_RELEASE);
    gs_inflight_publish(e->where.dev);
}

void gs_inflight_publish(uint32_t dev)
{
    uint64_t since;

    gs_spin_lock(&publishing);
    since = __atomic_load_n(&cards[dev].blind_ns, __ATOMIC_RELAXED);
    since = since != 0 ? since : UINT64_MAX;
    for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES && __atomic_load_n(&n_out, __ATOMIC_ACQUIRE) != 0;
         i++) {
        const struct gs_inflight *e = &entries[i];
        /* acquire: pairs with the release in set_out, for `where` */
        uint64_t out = __atomic_load_n(&e->out_ns, __ATOMIC_ACQUIRE);

        if (out == 0 || e->where.dev != dev)
            continue;
        out = later(out, end_of(e->where.id)); /* of one stream one after the other */
        since = out < since ? out : since;
    }
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++) {
        const struct gs_launch_stream *s = &gs_launch_streams[i];
        uint64_t first = __atomic_load_n(&s->first_ns, __ATOMIC_RELAXED);

        if (first == 0 || __atomic_load_n(&s->dev, __ATOMIC_RELAXED) != dev)
            continue;
        first = later(first, end_of(__atomic_load_n(&s->id, __ATOMIC_RELAXED)));
        since = first < since ? first : since;
    }
    gs_limiter_unsettled(dev, since != UINT64_MAX ? since : 0);
    gs_spin_unlock(&publishing);
}

/* ---- taking and closing ---- */

void gs_inflight_trouble(uint32_t dev, const char *what)
{
    if (__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED) == 0)
        gs_ring_log(GS_REASON_OPEN_LOOP, dev, what, NULL);
}

/* An event could not be made, recorded or read. */
static void fail(uint32_t dev, const char *what)
{
    if (!gs_timing_is_there())
        __atomic_store_n(&failures, FAILURES_TO_TELL, __ATOMIC_RELAXED);
    else if (__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) < FAILURES_TO_TELL)
        return;
    gs_inflight_trouble(dev, what);
}

/* No event will ever tell: from now on without, until it is time to try again. */
static void lose_sight(uint32_t dev, const char *what)
{
    __atomic_store_n(&failures, FAILURES_TO_TELL, __ATOMIC_RELAXED);
    __atomic_store_n(&retry_ns, gs_limiter_clock() + RETRY_NS, __ATOMIC_RELAXED);
    fail(dev, what);
}

bool gs_inflight_is_blind(uint64_t now_ns)
{
    if (GS_LIKELY(__atomic_load_n(&failures, __ATOMIC_RELAXED) < FAILURES_TO_TELL))
        return false;
    if (now_ns < __atomic_load_n(&retry_ns, __ATOMIC_RELAXED))
        return true;
    __atomic_store_n(&retry_ns, now_ns + RETRY_NS, __ATOMIC_RELAXED);
    return false;
}

static void free_events(struct gs_inflight *e)
{
    for (uint32_t i = 0; i < GS_ARRAY_LEN(e->event); i++) {
        gs_timing_event_free(e->event[i]);
        e->event[i] = NULL;
    }
}

static bool make_events(struct gs_inflight *e, CUcontext context, bool all)
{
    if (e->context != context)
        free_events(e);
    e->context = context;
    for (uint32_t i = all ? 0 : 2; i < GS_ARRAY_LEN(e->event); i++) {
        if (e->event[i] == NULL)
            e->event[i] = gs_timing_event_new();
        if (e->event[i] == NULL)
            return false;
    }
    return true;
}

static bool own(struct gs_inflight *e)
{
    uint32_t seen = FREE;

    /* acquire: pairs with the release in give_back */
    return __atomic_compare_exchange_n(&e->state, &seen, OWNED, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

static void end_try(struct gs_inflight *e)
{
    uint32_t dev = e->where.dev;

    if (e->tried == NULL)
        return;
    __atomic_store_n(&e->tried, NULL, __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&cards[dev].unknown, 1, __ATOMIC_RELAXED) == 0)
        gs_limiter_end_unknown(dev);
}

static void give_back(struct gs_inflight *e)
{
    bool was_out = __atomic_exchange_n(&e->out_ns, 0, __ATOMIC_RELAXED) != 0;

    end_try(e);
    if (was_out) {
        (void)__atomic_fetch_sub(&n_out, 1, __ATOMIC_RELAXED);
        gs_inflight_publish(e->where.dev);
    }
    __atomic_store_n(&e->state, FREE, __ATOMIC_RELEASE);
}

/* One of this context first, then one without events, then any. */
static struct gs_inflight *own_any(CUcontext context)
{
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES; i++) {
            struct gs_inflight *e = &entries[i];
            CUcontext of;

            if (__atomic_load_n(&e->state, __ATOMIC_RELAXED) != FREE)
                continue;
            of = __atomic_load_n(&e->context, __ATOMIC_RELAXED);
            if (round == 0 ? of != context : round == 1 && of != NULL)
                continue;
            if (own(e))
                return e;
        }
    }
    return NULL;
}

struct gs_inflight *gs_inflight_take(const struct gs_timing_where *where,
                                     enum gs_inflight_kind kind)
{
    struct gs_inflight *e;

    if (!gs_timing_is_there()) {
        fail(where->dev, "cuEventCreate");
        return NULL;
    }
    e = own_any(where->context);
    if (e == NULL)
        return NULL;
    e->kind = kind;
    e->where = *where;
    e->tried = NULL;
    if (!make_events(e, where->context, kind != GS_INFLIGHT_MARK)) {
        fail(where->dev, "cuEventCreate");
        give_back(e);
        return NULL;
    }
    return e;
}

void gs_inflight_try(struct gs_inflight *e, const struct gs_cost *cost)
{
    (void)__atomic_fetch_add(&cards[e->where.dev].unknown, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&e->tried, cost, __ATOMIC_RELAXED);
}

bool gs_inflight_is_tried(const struct gs_cost *cost)
{
    for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES; i++) {
        if (__atomic_load_n(&entries[i].tried, __ATOMIC_RELAXED) == cost)
            return true;
    }
    return false;
}

enum gs_inflight_kind gs_inflight_kind_of(const struct gs_inflight *e)
{
    return e->kind;
}

bool gs_inflight_start(struct gs_inflight *e, uint64_t copy_ns)
{
    uint64_t now = gs_limiter_clock();

    e->copy_ns = copy_ns;
    e->base = gs_timing_base_get(&e->where, now);
    e->recorded_ns = e->host_ns = gs_limiter_clock();
    if (e->kind == GS_INFLIGHT_MARK)
        return true;
    set_out(e, e->recorded_ns); /* before: an idle stream waits for whatever is done from here on */
    e->host_ns = gs_limiter_clock();
    if (gs_timing_record(e->event[0], &e->where)) {
        e->recorded_ns = gs_limiter_clock();
        if (gs_timing_record(e->event[1], &e->where)) {
            now = gs_limiter_clock();
            e->host_ns = now - e->host_ns;
            if (e->copy_ns != 0)
                gs_copy_time_begin(&e->call, now);
            return true;
        }
    }
    fail(e->where.dev, "cuEventRecord");
    give_back(e);
    return false;
}

void gs_inflight_drop(struct gs_inflight *e)
{
    if (e != NULL)
        give_back(e);
}

static void note_covered(const struct gs_inflight *e, uint64_t now_ns)
{
    const struct gs_inflight_launch *l = &e->launch;

    if (l->covers_ns != 0)
        gs_limiter_note(e->where.dev, l->since_ns < now_ns ? l->since_ns : now_ns, now_ns,
                        l->covers_ns, GS_LIMITER_NOT_KNOWN);
}

/* It will not be measured any more. By the clock it took no longer than until now; the harvester's.
 */
static void settle_unseen(const struct gs_inflight *e, uint64_t now_ns)
{
    const struct gs_inflight_launch *l = &e->launch;
    uint32_t dev = e->where.dev;
    struct gs_span span = {later(e->recorded_ns, end_of(e->where.id)), now_ns};

    note_covered(e, now_ns);
    if (l->kind == GS_INFLIGHT_MARK)
        return;
    if (span.start_ns > now_ns)
        span.start_ns = now_ns;
    gs_limiter_settle(dev, l->kind == GS_INFLIGHT_MEASURED ? l->paid_ns : 0, span.start_ns, now_ns,
                      gs_span_add(&charged[dev], span), GS_LIMITER_NOT_KNOWN);
    set_end(e->where.id, now_ns);
}

void gs_inflight_blind_out(uint32_t dev, uint64_t since_ns, uint64_t paid_ns)
{
    uint64_t none = 0;

    (void)__atomic_fetch_add(&cards[dev].blind_paid_ns, paid_ns, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&cards[dev].blind_ns, &none, since_ns, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED)) {
        (void)__atomic_fetch_add(&gs_inflight_out, 1, __ATOMIC_RELAXED);
        gs_inflight_publish(dev);
    }
}

void gs_inflight_blind_seen(uint32_t dev, uint64_t now_ns)
{
    uint64_t paid, since;

    if (GS_LIKELY(__atomic_load_n(&cards[dev].blind_ns, __ATOMIC_RELAXED) == 0))
        return;
    paid = __atomic_exchange_n(&cards[dev].blind_paid_ns, 0, __ATOMIC_RELAXED);
    since = __atomic_exchange_n(&cards[dev].blind_ns, 0, __ATOMIC_ACQ_REL);
    if (since == 0)
        return;
    (void)__atomic_fetch_sub(&gs_inflight_out, 1, __ATOMIC_RELAXED);
    gs_limiter_settle(dev, paid, since, now_ns, now_ns > since ? now_ns - since : 0,
                      GS_LIMITER_NOT_KNOWN);
    gs_inflight_publish(dev);
}

void gs_inflight_end(struct gs_inflight *e)
{
    if (e->copy_ns != 0 && e->kind != GS_INFLIGHT_MARK)
        gs_copy_time_end(&e->call, gs_timing_query(e->event[1]) != 0);
    e->is_ended = gs_timing_record(e->event[2], &e->where);
}

void gs_inflight_close(struct gs_inflight *e, const struct gs_inflight_launch *launch)
{
    uint32_t dev = e->where.dev;

    e->launch = *launch;
    if (!e->is_ended) {
        fail(dev, "cuEventRecord");
        note_covered(e, gs_limiter_clock());
        if (e->kind != GS_INFLIGHT_MARK)
            gs_inflight_blind_out(dev, e->recorded_ns,
                                  e->kind == GS_INFLIGHT_MEASURED ? launch->paid_ns : 0);
        give_back(e);
        return;
    }
    if (launch->first_ns != 0)
        set_out(e, launch->first_ns);
    e->seq = __atomic_fetch_add(&next_seq, 1, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&cards[dev].ns, launch->covers_ns + launch->paid_ns, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&cards[dev].count, 1, __ATOMIC_RELAXED);
    (void)__atomic_fetch_add(&gs_inflight_out, 1, __ATOMIC_RELAXED);
    /* pairs with the acquire in oldest_open */
    __atomic_store_n(&e->state, OPEN, __ATOMIC_RELEASE);
}

uint64_t gs_inflight_ns(uint32_t dev)
{
    return __atomic_load_n(&cards[dev].ns, __ATOMIC_RELAXED);
}

uint32_t gs_inflight_unknown(uint32_t dev)
{
    return __atomic_load_n(&cards[dev].unknown, __ATOMIC_RELAXED);
}

uint32_t gs_inflight_count(uint32_t dev)
{
    return __atomic_load_n(&cards[dev].count, __ATOMIC_RELAXED);
}

uint64_t gs_inflight_last_end_ns(uint32_t dev)
{
    return __atomic_load_n(&cards[dev].last_end_ns, __ATOMIC_RELAXED);
}

/* ---- harvesting ---- */

/* Spans of other streams that touch this one. */
static uint32_t others_of(const struct gs_inflight *e, struct gs_span span,
                          struct gs_span_stream *ret_others)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES && n < GS_SPAN_STREAMS; i++) {
        const struct gs_inflight *o = &entries[i];

        if (__atomic_load_n(&o->state, __ATOMIC_ACQUIRE) == OPEN && o->where.dev == e->where.dev &&
            o->where.id != e->where.id && o->recorded_ns < span.end_ns)
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

/* What a launch took on its stream, learnt as its cost less the part of other streams; 0: the
 * driver does not tell.
 * *ret_own: how much of that was its own whatever the neighbours did, where that can be told.
 * *ret_is_alone: the measurement is good, and no other stream of ours is in it. */
static uint64_t learn(const struct gs_inflight *e, struct gs_span span, uint64_t *ret_own,
                      bool *ret_is_alone)
{
    const struct gs_inflight_launch *l = &e->launch;
    int64_t gap = 0, length = 0;
    struct gs_span_stream others[GS_SPAN_STREAMS];
    uint64_t took, part, own;
    bool is_sound;
    uint32_t n;

    if (gs_timing_between(e->event[0], e->event[1], &gap) < 0 ||
        gs_timing_between(e->event[1], e->event[2], &length) < 0) {
        fail(e->where.dev, "cuEventElapsedTime");
        gs_inflight_trouble(e->where.dev, "cuEventElapsedTime");
        return 0;
    }
    __atomic_store_n(&failures, 0, __ATOMIC_RELAXED);
    took = gs_cost_of_sample(gap > 0 ? (uint64_t)gap : 0, length > 0 ? (uint64_t)length : 0,
                             e->host_ns, l->est_ns, &is_sound);
    if (e->copy_ns != 0)
        took = gs_copy_time_of(&e->call, took, e->copy_ns);
    n = others_of(e, span, others);
    *ret_is_alone = is_sound && n == 0;
    if (*ret_is_alone) {
        if (gs_limiter_takes_turns(e->where.dev))
            gs_cost_learn_shared(l->cost, took);
        else
            gs_cost_learn(l->cost, took);
        own = gs_cost_own(l->cost, took);
        if (own != 0)
            *ret_own = own;
    } else if (is_sound && span.end_ns > span.start_ns) {
        part = gs_span_divide(span, others, n);
        gs_cost_learn_crowded(l->cost, (uint64_t)((double)took * (double)part /
                                                  (double)(span.end_ns - span.start_ns)));
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

    (void)__atomic_add_fetch(&gs_limiter_credit[e->where.dev].ns, (int64_t)l->covers_ns - more,
                             __ATOMIC_RELAXED);
    if (l->cost != NULL && l->kind != GS_INFLIGHT_MEASURED && used_ns != 0 &&
        others_of(e, span, others) != 0)
        gs_cost_learn_ratio(l->cost, used_ns, l->covers_ns);
}

/* What may be forgiven by now, and is: the rest of `ns`. */
static uint64_t less_forgiven(uint32_t dev, uint64_t ns, uint64_t now_ns)
{
    uint64_t *full = &cards[dev].forgiven_ns, most = FORGIVEN_MOST_NS * FORGIVEN_PART;
    uint64_t have;

    if (*full == 0)
        *full = now_ns - FORGIVEN_FIRST_NS * FORGIVEN_PART;
    if (now_ns > most && *full < now_ns - most)
        *full = now_ns - most;
    have = now_ns > *full ? (now_ns - *full) / FORGIVEN_PART : 0;
    have = have < ns ? have : ns;
    *full += have * FORGIVEN_PART;
    return ns - have;
}

static void pay_attention(uint32_t dev, uint64_t now_ns)
{
    uint32_t n = cards[dev].attend_next;

    if (n == 0 || now_ns > cards[dev].attend_ns + ATTEND_CALM_NS)
        n = ATTEND_FIRST;
    cards[dev].attend_ns = now_ns;
    __atomic_store_n(&cards[dev].attend, n, __ATOMIC_RELAXED);
    n = n < ATTEND_MOST / ATTEND_TIMES ? n * ATTEND_TIMES : ATTEND_MOST;
    __atomic_store_n(&cards[dev].attend_next, n, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++)
        __atomic_store_n(&gs_launch_streams[i].want, GS_LAUNCH_MEASURE, __ATOMIC_RELAXED);
}

bool gs_inflight_is_attending(uint32_t dev)
{
    return __atomic_load_n(&cards[dev].attend, __ATOMIC_RELAXED) != 0;
}

void gs_inflight_attended(uint32_t dev)
{
    uint32_t left = __atomic_load_n(&cards[dev].attend, __ATOMIC_RELAXED);

    if (left > 0)
        __atomic_store_n(&cards[dev].attend, left - 1, __ATOMIC_RELAXED);
}

uint64_t gs_inflight_slack_ns(uint32_t dev, uint64_t launches)
{
    return SLACK_NS + launches * (gs_limiter_takes_turns(dev) ? SLACK_EACH_NS + SLACK_SHARED_NS
                                                              : SLACK_EACH_NS);
}

/* The harvester's part of gs_inflight_window(). */
static void charge_window(uint32_t dev, uint64_t id, struct gs_span span, uint64_t window)
{
    uint64_t est = GS_LAUNCH_NS(window), fresh;

    span.start_ns = later(span.start_ns, end_of(id));
    fresh = gs_span_fresh(&charged[dev], span);
    if (fresh <= est + gs_inflight_slack_ns(dev, window >> GS_LAUNCH_NS_BITS))
        return;
    pay_attention(dev, span.end_ns);
    fresh = less_forgiven(dev, gs_span_add(&charged[dev], span) - est, span.end_ns);
    if (fresh != 0)
        gs_limiter_settle(dev, 0, span.start_ns, span.end_ns, fresh, GS_LIMITER_NOT_KNOWN);
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
    uint64_t last = end_of(e->where.id);
    uint64_t used = l->covers_ns, own = l->covers_ns, from;
    struct gs_span_stream others[GS_SPAN_STREAMS];
    bool is_exact = last != 0 && l->closed_ns < last;

    if (l->covers_ns == 0)
        return false;
    if (is_exact) {
        used = gs_span_add(&charged[dev], (struct gs_span){last, until_ns});
        correct(e, (struct gs_span){last, until_ns}, used);
    } else if (l->first_ns != 0) {
        charge_window(dev, e->where.id, (struct gs_span){l->first_ns, start_ns}, l->window);
    }
    from = l->since_ns > cards[dev].last_end_ns ? l->since_ns : cards[dev].last_end_ns;
    from = from < until_ns ? from : until_ns;
    /* a stream alone: its launches' estimates are without turns of neighbours */
    if (others_of(e, (struct gs_span){from, until_ns}, others) != 0)
        own = GS_LIMITER_NOT_KNOWN;
    gs_limiter_note(dev, from, until_ns, used, own);
    return is_exact;
}

/* How long were launches out beyond what was paid for them? last_ns: end of the entry before. */
static void note_slack(const struct gs_inflight *e, uint64_t start_ns, uint64_t last_ns)
{
    const struct gs_inflight_launch *l = &e->launch;
    uint64_t first = later(l->first_ns, last_ns), out = l->seen_ns;
    uint64_t *slack = &cards[e->where.dev].slack_ns;

    if (l->first_ns != 0 && start_ns > first)
        out += start_ns - first;
    if (out > l->covers_ns)
        *slack += out - l->covers_ns;
    if (*slack > SLACK_MOST_NS)
        *slack = SLACK_MOST_NS;
}

/* A sample whose turn came by chance stands for launches that were not seen: what they took, all
 * together, is on the average what they paid and so many times what this one took more or less. But
 * launches cannot have taken longer than they were out, and what is longer than a window may be is
 * charged with the window. */
static void correct_sampled(const struct gs_inflight *e, uint64_t took_ns, uint64_t weight)
{
    uint32_t dev = e->where.dev;
    int64_t more = (int64_t)took_ns - (int64_t)e->launch.est_ns, unseen;
    int64_t most = (int64_t)gs_inflight_slack_ns(dev, weight);

    unseen = (more < most ? more : most) * (int64_t)(weight - 1);
    if (unseen > (int64_t)cards[dev].slack_ns)
        unseen = (int64_t)cards[dev].slack_ns;
    if (unseen > 0)
        cards[dev].slack_ns -= (uint64_t)unseen;
    gs_limiter_correct(dev, more + unseen);
}

/* Beside neighbours a launch onto an idle stream first waits for the rest of another's turn, in
 * which not even its event is passed. The board divides time in which work was outstanding evenly:
 * right on the average only with that wait, of half a turn where arrivals are random. The wait
 * itself is not: programs fall into step with the neighbour. Moves the start; returns by how much.
 */
static uint64_t wait_for_turn(const struct gs_inflight *e, struct gs_span *span)
{
    uint64_t last = cards[e->where.dev].last_end_ns, was = span->start_ns;

    if (later(e->recorded_ns, last) + LATENCY_NS >= was || !gs_limiter_is_shared(e->where.dev))
        return 0;
    span->start_ns = later(was - HALF_TURN_NS, last);
    return was - span->start_ns;
}

static void finish(struct gs_inflight *e, uint64_t seen_ns)
{
    const struct gs_inflight_launch *l = &e->launch;
    uint32_t dev = e->where.dev;
    struct gs_timing_span t =
        gs_timing_place(&e->base, e->event[l->kind == GS_INFLIGHT_MARK ? 2 : 1], e->event[2],
                        e->recorded_ns, seen_ns);
    struct gs_span span = {t.start_ns, t.end_ns};
    uint64_t weight = l->is_due && e->copy_ns == 0 ? gs_cost_weight(l->cost) : 1;
    uint64_t took = 0, own = GS_LIMITER_NOT_KNOWN, fresh;
    bool is_alone = false;

    if (l->kind != GS_INFLIGHT_MARK && (took = learn(e, span, &own, &is_alone)) == 0) {
        settle_unseen(e, seen_ns);
        return;
    }
    if (e->copy_ns == 0) /* between copies the host works */
        note_slack(e, span.start_ns, end_of(e->where.id));
    if (l->kind == GS_INFLIGHT_MEASURED) {
        (void)account_covered(e, span.start_ns, span.start_ns);
        if (own == GS_LIMITER_NOT_KNOWN)
            took += wait_for_turn(e, &span);
        fresh = gs_span_add(&charged[dev], span);
        gs_limiter_settle(dev, l->paid_ns, span.start_ns, span.end_ns, took < fresh ? took : fresh,
                          own);
    } else if (l->kind == GS_INFLIGHT_MARK) {
        (void)account_covered(e, span.end_ns, span.end_ns);
    } else {
        if (!account_covered(e, span.start_ns, span.end_ns) && is_alone)
            correct_sampled(e, gs_limiter_takes_turns(dev) && own < took ? own : took, weight);
        /* nobody else is to be charged for it */
        (void)gs_span_add(&charged[dev], span);
    }
    if (span.end_ns > cards[dev].last_end_ns)
        __atomic_store_n(&cards[dev].last_end_ns, span.end_ns, __ATOMIC_RELAXED);
    set_end(e->where.id, span.end_ns);
    remember(e, span.end_ns);
}

static void count_out(const struct gs_inflight *e)
{
    const struct gs_inflight_launch *l = &e->launch;
    uint32_t dev = e->where.dev;

    (void)__atomic_fetch_sub(&cards[dev].ns, l->covers_ns + l->paid_ns, __ATOMIC_RELAXED);
    (void)__atomic_fetch_sub(&cards[dev].count, 1, __ATOMIC_RELAXED);
    (void)__atomic_fetch_sub(&gs_inflight_out, 1, __ATOMIC_RELAXED);
}

static struct gs_inflight *oldest_open(uint64_t after_seq)
{
    struct gs_inflight *oldest = NULL;

    for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES; i++) {
        struct gs_inflight *e = &entries[i];

        if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == OPEN && e->seq >= after_seq &&
            (oldest == NULL || e->seq < oldest->seq))
            oldest = e;
    }
    return oldest;
}

uint64_t gs_inflight_until(uint32_t dev, uint64_t now_ns)
{
    uint64_t from = UINT64_MAX, last = __atomic_load_n(&cards[dev].last_end_ns, __ATOMIC_RELAXED);
    uint64_t ns = gs_inflight_ns(dev);

    /* what runs now has been running for a while */
    for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES; i++) {
        const struct gs_inflight *e = &entries[i];
        uint64_t recorded;

        if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) != OPEN || e->where.dev != dev)
            continue;
        recorded = __atomic_load_n(&e->recorded_ns, __ATOMIC_RELAXED);
        from = recorded < from ? recorded : from;
    }
    if (from == UINT64_MAX)
        return now_ns;
    from = from > last ? from : last;
    return from + ns > now_ns ? from + ns : now_ns;
}

static bool begin_harvest(void)
{
    /* acquire: pairs with the release in end_harvest */
    return __atomic_exchange_n(&harvesting, 1, __ATOMIC_ACQUIRE) == 0;
}

static void end_harvest(void)
{
    __atomic_store_n(&harvesting, 0, __ATOMIC_RELEASE);
}

/* What is not done by far when it should be costs more than is believed: look at everything anew.
 */
static void doubt_overdue(const struct gs_inflight *e, uint64_t now_ns)
{
    static uint64_t next_ns;

    if (now_ns < next_ns ||
        now_ns < e->recorded_ns + OVERDUE_NS + OVERDUE_TIMES * gs_inflight_ns(e->where.dev))
        return;
    next_ns = now_ns + OVERDUE_NS;
    gs_cost_doubt();
}

bool gs_inflight_has(CUcontext context)
{
    for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES; i++) {
        if (__atomic_load_n(&entries[i].state, __ATOMIC_ACQUIRE) == OPEN &&
            __atomic_load_n(&entries[i].context, __ATOMIC_RELAXED) == context)
            return true;
    }
    return false;
}

bool gs_inflight_harvest(void)
{
    uint64_t blocked[8]; /* streams whose oldest entry is not done: neither are their others */
    uint32_t n_blocked = 0, dev;
    uint64_t seq = 0;
    bool any = false;
    struct gs_inflight *e;

    if (__atomic_load_n(&gs_inflight_out, __ATOMIC_RELAXED) == 0 || !begin_harvest())
        return false;
    while (n_blocked < GS_ARRAY_LEN(blocked) && (e = oldest_open(seq)) != NULL) {
        uint32_t k = 0;
        int rc;

        seq = e->seq + 1;
        while (k < n_blocked && blocked[k] != e->where.id)
            k++;
        if (k < n_blocked)
            continue;
        rc = gs_timing_query(e->event[2]);
        if (rc == 0) {
            doubt_overdue(e, gs_limiter_clock());
            blocked[n_blocked++] = e->where.id;
            continue;
        }
        if (rc > 0) {
            finish(e, gs_limiter_clock());
        } else {
            lose_sight(e->where.dev, "cuEventQuery");
            settle_unseen(e, gs_limiter_clock());
        }
        count_out(e);
        any = true;
        dev = e->where.dev;
        give_back(e);
        gs_limiter_busy_until(dev, gs_inflight_until(dev, gs_limiter_clock()));
    }
    end_harvest();
    return any;
}

/* ---- ends ---- */

void gs_inflight_window(uint32_t dev, uint64_t id, uint64_t from_ns, uint64_t until_ns,
                        uint64_t window)
{
    struct gs_sys_wait wait = {0, 0};

    while (!begin_harvest())
        (void)gs_sys_wait(&wait, UINT32_MAX);
    charge_window(dev, id, (struct gs_span){from_ns, until_ns}, window);
    end_harvest();
}

void gs_inflight_purge(CUcontext context)
{
    struct gs_sys_wait wait = {0, 0};

    while (!begin_harvest()) /* whoever is at it asks the driver, which answers at once */
        (void)gs_sys_wait(&wait, UINT32_MAX);
    for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES; i++) {
        struct gs_inflight *e = &entries[i];
        bool open = __atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == OPEN;

        if (__atomic_load_n(&e->context, __ATOMIC_RELAXED) != context || (!open && !own(e)))
            continue;
        if (open) {
            settle_unseen(e, gs_limiter_clock());
            count_out(e);
        }
        free_events(e);
        e->context = NULL;
        give_back(e);
    }
    end_harvest();
    gs_timing_purge(context);
}

void gs_inflight_forget(void)
{
    memset(entries, 0, sizeof(entries));
    memset(cards, 0, sizeof(cards));
    memset(ends, 0, sizeof(ends));
    memset(charged, 0, sizeof(charged));
    harvesting = failures = told = n_history = gs_inflight_out = 0;
    publishing = n_out = 0;
    gs_timing_forget();
}
