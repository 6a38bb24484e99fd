#include "vendors/nvidia/hook/inflight.h"

#include <stddef.h>
#include <string.h>

#include "contract/ledger.h"
#include "hook/limiter.h"
#include "hook/spin.h"
#include "hook/sys.h"
#include "vendors/nvidia/hook/copy_time.h"
#include "vendors/nvidia/hook/launch_stream.h"
#include "vendors/nvidia/hook/settle.h"
#include "vendors/nvidia/hook/sight.h"
#include "vendors/nvidia/hook/span.h"
#include "vendors/nvidia/hook/window.h"

/* Neighbours may make everything some times slower. */
#define OVERDUE_NS    50000000u
#define OVERDUE_TIMES 8u

struct gs_inflight gs_inflight_entries[GS_INFLIGHT_ENTRIES];
uint64_t gs_inflight_used[GS_INFLIGHT_ENTRIES / GS_INFLIGHT_WORD_BITS];
static uint32_t harvesting; /* 1: a thread is at it, or purges */
static uint64_t next_seq;
uint32_t gs_inflight_out;

static struct {
    _Alignas(64) uint64_t ns;
    uint32_t unknown;
    uint32_t count;
    uint64_t blind_ns;      /* since when launches are out that nothing is known of; 0 none are */
    uint64_t blind_paid_ns; /* for them */
} cards[GS_LEDGER_DEVICES];
static uint64_t
    publishing; /* a spin word: whoever tells the ledger has seen all of the gs_inflight_entries */

static void set_out(struct gs_inflight *e, uint64_t since_ns)
{
    __atomic_store_n(&e->out_ns, since_ns, __ATOMIC_RELEASE);
    gs_inflight_publish(e->where.dev);
}

void gs_inflight_publish(uint32_t dev)
{
    uint64_t since;

    gs_spin_lock(&publishing);
    since = __atomic_load_n(&cards[dev].blind_ns, __ATOMIC_RELAXED);
    since = since != 0 ? since : UINT64_MAX;
    for (uint32_t i = gs_inflight_next(0); i < GS_INFLIGHT_ENTRIES; i = gs_inflight_next(i + 1)) {
        const struct gs_inflight *e = &gs_inflight_entries[i];
        /* acquire: pairs with the release in set_out, for `where` */
        uint64_t out = __atomic_load_n(&e->out_ns, __ATOMIC_ACQUIRE);

        if (out == 0 || e->where.dev != dev)
            continue;
        out = gs_span_later(out,
                            gs_settle_end_of(e->where.id)); /* of one stream one after the other */
        since = out < since ? out : since;
    }
    for (uint32_t i = 0; i < GS_LAUNCH_STREAMS; i++) {
        const struct gs_launch_stream *s = &gs_launch_streams[i];
        uint64_t first = __atomic_load_n(&s->first_ns, __ATOMIC_RELAXED);

        if (first == 0 || __atomic_load_n(&s->dev, __ATOMIC_RELAXED) != dev)
            continue;
        first = gs_span_later(first, gs_settle_end_of(__atomic_load_n(&s->id, __ATOMIC_RELAXED)));
        since = first < since ? first : since;
    }
    gs_limiter_unsettled(dev, since != UINT64_MAX ? since : 0);
    gs_spin_unlock(&publishing);
}

/* ---- taking and closing ---- */

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

static uint64_t *used_word(const struct gs_inflight *e)
{
    return &gs_inflight_used[(e - gs_inflight_entries) / GS_INFLIGHT_WORD_BITS];
}

static uint64_t used_bit(const struct gs_inflight *e)
{
    return UINT64_C(1) << (e - gs_inflight_entries) % GS_INFLIGHT_WORD_BITS;
}

static bool own(struct gs_inflight *e)
{
    uint32_t seen = GS_INFLIGHT_FREE;

    /* acquire: pairs with the release in give_back */
    if (!__atomic_compare_exchange_n(&e->state, &seen, GS_INFLIGHT_OWNED, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false;
    (void)__atomic_fetch_or(used_word(e), used_bit(e), __ATOMIC_RELEASE);
    return true;
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
    if (was_out)
        gs_inflight_publish(e->where.dev);
    (void)__atomic_fetch_and(used_word(e), ~used_bit(e), __ATOMIC_RELAXED);
    __atomic_store_n(&e->state, GS_INFLIGHT_FREE, __ATOMIC_RELEASE);
}

/* One of this context first, then one without events, then any. */
static struct gs_inflight *own_any(CUcontext context)
{
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES; i++) {
            struct gs_inflight *e = &gs_inflight_entries[i];
            CUcontext of;

            if (__atomic_load_n(&e->state, __ATOMIC_RELAXED) != GS_INFLIGHT_FREE)
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
        gs_sight_fail(where->dev, "cuEventCreate");
        return NULL;
    }
    e = own_any(where->context);
    if (e == NULL)
        return NULL;
    e->kind = kind;
    e->where = *where;
    e->tried = NULL;
    if (!make_events(e, where->context, kind != GS_INFLIGHT_MARK)) {
        gs_sight_fail(where->dev, "cuEventCreate");
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
    for (uint32_t i = gs_inflight_next(0); i < GS_INFLIGHT_ENTRIES; i = gs_inflight_next(i + 1)) {
        if (__atomic_load_n(&gs_inflight_entries[i].tried, __ATOMIC_RELAXED) == cost)
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
            e->ready_ns = gs_limiter_clock();
            e->record_ns = e->ready_ns - e->recorded_ns;
            e->host_ns = e->ready_ns - e->host_ns;
            if (e->copy_ns != 0)
                gs_copy_time_begin(&e->call, e->ready_ns);
            return true;
        }
    }
    gs_sight_fail(e->where.dev, "cuEventRecord");
    give_back(e);
    return false;
}

void gs_inflight_drop(struct gs_inflight *e)
{
    if (e != NULL)
        give_back(e);
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
    if (e->kind != GS_INFLIGHT_MARK)
        e->call_ns = gs_limiter_clock() - e->ready_ns;
    if (e->copy_ns != 0 && e->kind != GS_INFLIGHT_MARK)
        gs_copy_time_end(&e->call, gs_timing_query(e->event[1]) != 0);
    e->is_ended = gs_timing_record(e->event[2], &e->where);
}

void gs_inflight_close(struct gs_inflight *e, const struct gs_inflight_launch *launch)
{
    uint32_t dev = e->where.dev;

    e->launch = *launch;
    if (!e->is_ended) {
        gs_sight_fail(dev, "cuEventRecord");
        gs_settle_note_covered(e, gs_limiter_clock());
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
    __atomic_store_n(&e->state, GS_INFLIGHT_OPEN, __ATOMIC_RELEASE);
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

/* ---- harvesting ---- */

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

    for (uint32_t i = gs_inflight_next(0); i < GS_INFLIGHT_ENTRIES; i = gs_inflight_next(i + 1)) {
        struct gs_inflight *e = &gs_inflight_entries[i];

        if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == GS_INFLIGHT_OPEN &&
            e->seq >= after_seq && (oldest == NULL || e->seq < oldest->seq))
            oldest = e;
    }
    return oldest;
}

uint64_t gs_inflight_until(uint32_t dev, uint64_t now_ns)
{
    uint64_t from = UINT64_MAX, last = gs_settle_last_end_ns(dev);
    uint64_t ns = gs_inflight_ns(dev);

    /* what runs now has been running for a while */
    for (uint32_t i = gs_inflight_next(0); i < GS_INFLIGHT_ENTRIES; i = gs_inflight_next(i + 1)) {
        const struct gs_inflight *e = &gs_inflight_entries[i];
        uint64_t recorded;

        if (__atomic_load_n(&e->state, __ATOMIC_ACQUIRE) != GS_INFLIGHT_OPEN || e->where.dev != dev)
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

bool gs_inflight_is_at_work(uint32_t dev)
{
    bool is = false;

    if (!begin_harvest())
        return true;
    for (uint32_t i = gs_inflight_next(0); i < GS_INFLIGHT_ENTRIES && !is;
         i = gs_inflight_next(i + 1)) {
        const struct gs_inflight *e = &gs_inflight_entries[i];

        is = __atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == GS_INFLIGHT_OPEN &&
             e->where.dev == dev && e->kind != GS_INFLIGHT_MARK &&
             gs_timing_query(e->event[1]) > 0 && gs_timing_query(e->event[2]) == 0;
    }
    end_harvest();
    return is;
}

bool gs_inflight_has(CUcontext context)
{
    for (uint32_t i = gs_inflight_next(0); i < GS_INFLIGHT_ENTRIES; i = gs_inflight_next(i + 1)) {
        if (__atomic_load_n(&gs_inflight_entries[i].state, __ATOMIC_ACQUIRE) == GS_INFLIGHT_OPEN &&
            __atomic_load_n(&gs_inflight_entries[i].context, __ATOMIC_RELAXED) == context)
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
            gs_settle_entry(e, gs_limiter_clock());
        } else {
            gs_sight_lose(e->where.dev, "cuEventQuery");
            gs_settle_unseen(e, gs_limiter_clock());
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
    gs_settle_window(dev, id, (struct gs_span){from_ns, until_ns}, window);
    end_harvest();
}

void gs_inflight_purge(CUcontext context)
{
    struct gs_sys_wait wait = {0, 0};

    while (!begin_harvest()) /* whoever is at it asks the driver, which answers at once */
        (void)gs_sys_wait(&wait, UINT32_MAX);
    for (uint32_t i = 0; i < GS_INFLIGHT_ENTRIES; i++) {
        struct gs_inflight *e = &gs_inflight_entries[i];
        bool open = __atomic_load_n(&e->state, __ATOMIC_ACQUIRE) == GS_INFLIGHT_OPEN;

        if (__atomic_load_n(&e->context, __ATOMIC_RELAXED) != context || (!open && !own(e)))
            continue;
        if (open) {
            gs_settle_unseen(e, gs_limiter_clock());
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
    memset(gs_inflight_entries, 0, sizeof(gs_inflight_entries));
    memset(gs_inflight_used, 0, sizeof(gs_inflight_used));
    memset(cards, 0, sizeof(cards));
    harvesting = gs_inflight_out = 0;
    publishing = 0;
    gs_settle_forget();
    gs_window_forget();
    gs_sight_forget();
    gs_timing_forget();
}
