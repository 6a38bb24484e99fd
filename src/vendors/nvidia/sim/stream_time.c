/* Streams in time: what a piece of work costs, what it comes behind, and waiting for it. */

#include <sched.h>
#include <stdlib.h>

#include "vendors/nvidia/sim/apictx.h"
#include "vendors/nvidia/sim/hostcall.h"
#include "vendors/nvidia/sim/stream_object.h"

/* Modelled speed: PCIe 4.0 x16 as measured on pinned memory (25 GB/s, or what GPUSLICE_SIM_BUS_MBPS
 * says), HBM2e (1.5 TB/s), 2 us to set up. */
#define SETUP_NS         2000u
#define BUS_BYTES_PER_US 25000u
#define HBM_BYTES_PER_US 1500000u

/* How a context waits (cuda.h: CU_CTX_SCHED_*), and for how long it stays awake: a wake-up costs
 * about as much as the short spin. */
#define SCHED_MASK     7u
#define SCHED_SPIN     1u
#define SCHED_BLOCKING 4u
#define SPIN_NS        60000u
#define SPIN_LONG_NS   500000u

#define BUS_LEAST 1u
#define BUS_MOST  1000000u

/* Bytes move at the host's speed, which is less than the modelled bus's on many machines: a test
 * that must keep the bus busy asks for a slow one. Read once; threads that race read the same. */
static uint64_t bus_bytes_per_us(void)
{
    static uint64_t kept;
    uint64_t rate = __atomic_load_n(&kept, __ATOMIC_RELAXED);
    const char *text;

    if (GS_LIKELY(rate != 0))
        return rate;
    text = getenv("GPUSLICE_SIM_BUS_MBPS"); /* 1 MB/s is 1 byte per microsecond */
    rate = text ? strtoull(text, NULL, 10) : 0;
    if (rate < BUS_LEAST || rate > BUS_MOST)
        rate = BUS_BYTES_PER_US;
    __atomic_store_n(&kept, rate, __ATOMIC_RELAXED);
    return rate;
}

static uint64_t cost_of(enum gs_stream_work work, uint64_t amount)
{
    switch (work) {
    case GS_STREAM_COPY:
    case GS_STREAM_DOWN:
        return SETUP_NS + amount * 1000 / bus_bytes_per_us();
    case GS_STREAM_FILL:
        return SETUP_NS + amount * 1000 / HBM_BYTES_PER_US;
    case GS_STREAM_NOTHING:
    default:
        return 0;
    }
}

static struct gs_clock_who self(void)
{
    return (struct gs_clock_who){gs_sim_self.slot, gs_sim_self.group, (int32_t)gs_sim_self.joined};
}

/* Processes that were killed must not keep the card: those who use it look after each other. */
static void look_after_others(struct gs_clock *c)
{
    if (GS_LIKELY(!gs_clock_should_reap(c)))
        return;
    gs_state_lock();
    (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 0);
    gs_state_unlock();
}

/* What the next piece of `s` comes behind: the legacy stream and those that are not NON_BLOCKING
 * wait for each other. */
uint64_t gs_stream_order_of(const struct gs_stream *s)
{
    const struct gs_apictx *a = gs_apictx_of(s->ctx);
    const struct gs_stream *legacy = __atomic_load_n(&a->legacy, __ATOMIC_ACQUIRE);
    uint64_t tag = __atomic_load_n(&s->tag, __ATOMIC_ACQUIRE), other = 0;
    if (s == legacy)
        other = __atomic_load_n(&a->blocking_tag, __ATOMIC_ACQUIRE);
    else if (legacy && !(s->flags & 1))
        other = __atomic_load_n(&legacy->tag, __ATOMIC_ACQUIRE);
    return other > tag ? other : tag;
}

void gs_stream_order(struct gs_stream *s, uint64_t tag)
{
    gs_stream_raise(&s->tag, tag);
    if (!(s->flags & 1))
        gs_stream_raise(&gs_apictx_of(s->ctx)->blocking_tag, tag);
}

static void set_tail(struct gs_stream *s, uint64_t tag, int copied)
{
    gs_stream_order(s, tag);
    __atomic_store_n(&s->copied, (uint32_t)copied, __ATOMIC_RELAXED);
}

static void add(struct gs_stream *s, struct gs_clock_work *w)
{
    struct gs_clock *c = gs_state_clock(s->card);
    const struct gs_clock_who who = self();
    uint64_t tag;
    while (__atomic_exchange_n(&s->adding, 1, __ATOMIC_ACQUIRE))
        (void)sched_yield();
    for (;;) {
        w->after_ns = gs_stream_order_of(s);
        if (!gs_clock_submit(c, &who, w, &tag))
            break;
        gs_stream_wait(s->card, tag, 0);
    }
    set_tail(s, tag, w->kind == GS_CLOCK_UP || w->kind == GS_CLOCK_DOWN);
    __atomic_store_n(&s->adding, 0, __ATOMIC_RELEASE);
    look_after_others(c);
}

void gs_stream_add(struct gs_stream *s, enum gs_stream_work work, uint64_t amount)
{
    static const enum gs_clock_kind kinds[] = {[GS_STREAM_COPY] = GS_CLOCK_UP,
                                               [GS_STREAM_DOWN] = GS_CLOCK_DOWN,
                                               [GS_STREAM_FILL] = GS_CLOCK_FILL};
    if (gs_sim_self.zero_cost || work == GS_STREAM_NOTHING)
        return;
    struct gs_clock_work w = {
        .kind = kinds[work], .load = GS_CLOCK_FULL, .cost_ns = cost_of(work, amount)};
    add(s, &w);
}

void gs_stream_add_kernel(struct gs_stream *s, uint64_t cost_ns, uint32_t load)
{
    struct gs_clock_work w = {.kind = GS_CLOCK_KERNEL, .load = load, .cost_ns = cost_ns};
    add(s, &w);
}

/* Ends of the last launches per card; each entry is raced for, which at worst lets a thread in a
 * launch too early. */
static struct queue {
    uint64_t n;
    uint64_t tag[GS_STREAM_QUEUE];
} queues[GS_SIM_CARDS_MAX];

void gs_stream_queue_wait(uint32_t card)
{
    const struct queue *q = &queues[card];
    uint64_t n = __atomic_load_n(&q->n, __ATOMIC_RELAXED);
    uint64_t tag = __atomic_load_n(&q->tag[n % GS_STREAM_QUEUE], __ATOMIC_RELAXED);
    gs_stream_wait(card, tag, 0);
}

void gs_stream_queue_note(uint32_t card, uint64_t tag)
{
    struct queue *q = &queues[card];
    uint64_t n = __atomic_fetch_add(&q->n, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&q->tag[n % GS_STREAM_QUEUE], tag, __ATOMIC_RELAXED);
}

uint64_t gs_stream_mark(struct gs_stream *s, uint64_t *ret_now_ns)
{
    const struct gs_clock_who who = self();
    struct gs_clock *c = gs_state_clock(s->card);
    int copied = (int)__atomic_load_n(&s->copied, __ATOMIC_RELAXED);
    uint64_t after = gs_stream_order_of(s);
    uint64_t tag = gs_clock_mark(c, &who, after, copied, ret_now_ns);
    if (tag > after)
        set_tail(s, tag, copied);
    look_after_others(c);
    return tag;
}

int gs_stream_reached(uint32_t card, uint64_t tag, uint64_t host_seq)
{
    if (!gs_hostcall_is_done(host_seq))
        return 0;
    return gs_sim_self.zero_cost || gs_clock_is_done(gs_state_clock(card), gs_sim_self.slot, tag);
}

uint64_t gs_stream_spin_ns(void)
{
    const struct gs_sim_ctx *ctx = gs_context_current();
    switch (ctx ? ctx->flags & SCHED_MASK : 0) {
    case SCHED_SPIN:
        return SPIN_LONG_NS;
    case SCHED_BLOCKING:
        return 0;
    default:
        return SPIN_NS;
    }
}

void gs_stream_wait(uint32_t card, uint64_t tag, uint64_t spin_ns)
{
    struct gs_clock *c = gs_state_clock(card);
    while (!gs_clock_wait_once(c, gs_sim_self.slot, tag, spin_ns))
        look_after_others(c);
}

void gs_stream_await(uint32_t card, uint64_t tag, uint64_t host_seq, uint64_t spin_ns)
{
    if (!gs_sim_self.zero_cost) {
        gs_stream_wait(card, tag, spin_ns);
        gs_event_settle();
    }
    gs_hostcall_wait(host_seq);
}
