#include "vendors/nvidia/sim/clock.h"

#include <errno.h>
#include <time.h>

#include "core/cleanup.h"

uint64_t gs_clock_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void gs_clock_init(struct gs_clock *c)
{
    pthread_mutexattr_t attr;
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    (void)pthread_mutex_init(&c->lock, &attr);
    (void)pthread_mutexattr_destroy(&attr);
}

/* A holder that died left the books late by one step at worst: nothing to make good. */
static void enter(struct gs_clock *c)
{
    if (pthread_mutex_lock(&c->lock) == EOWNERDEAD)
        (void)pthread_mutex_consistent(&c->lock);
}

static void leave(struct gs_clock *c)
{
    (void)pthread_mutex_unlock(&c->lock);
}

/* Virtual time is also read without the lock (gs_clock_is_done). */
static void move_on(struct gs_clock *c, uint64_t dv, uint64_t dt)
{
    __atomic_store_n(&c->v_ns, c->v_ns + dv, __ATOMIC_RELAXED);
    c->t_ns += dt;
    c->busy_ns += dt;
}

/* Number of processes with work left, and the tag at which the first of them runs dry. */
static uint32_t busy_procs(const struct gs_clock *c, uint64_t *ret_first)
{
    uint32_t n = 0;
    uint64_t first = UINT64_MAX;
    for (uint32_t w = 0; w < GS_CLOCK_PROCS / 64; w++)
        for (uint64_t bits = c->active[w]; bits; bits &= bits - 1) {
            uint32_t slot = w * 64 + (uint32_t)__builtin_ctzll(bits);
            n++;
            if (c->proc[slot].tail_v_ns < first)
                first = c->proc[slot].tail_v_ns;
        }
    *ret_first = first;
    return n;
}

static void add_segment(struct gs_clock *c, uint32_t n_busy)
{
    struct gs_clock_segment *s = &c->segment[c->n_segments % GS_CLOCK_SEGMENTS];
    *s = (struct gs_clock_segment){.t_ns = c->t_ns, .v_ns = c->v_ns, .n_busy = n_busy};
    c->n_segments++;
}

/* Give every busy process its share of `dv` virtual nanoseconds; retire those that ran dry. */
static void account(struct gs_clock *c, uint64_t dv)
{
    for (uint32_t w = 0; w < GS_CLOCK_PROCS / 64; w++)
        for (uint64_t bits = c->active[w]; bits; bits &= bits - 1) {
            uint32_t slot = w * 64 + (uint32_t)__builtin_ctzll(bits);
            c->proc[slot].busy_ns += dv;
            if (c->proc[slot].tail_v_ns <= c->v_ns)
                c->active[w] &= ~(1ull << (slot % 64));
        }
}

static void close_samples(struct gs_clock *c)
{
    if (!c->sample_t_ns)
        c->sample_t_ns = c->t_ns;
    while (c->t_ns - c->sample_t_ns >= GS_CLOCK_SAMPLE_NS) {
        /* After a long silence one sample stands for all the time nobody looked. */
        uint64_t periods = (c->t_ns - c->sample_t_ns) / GS_CLOCK_SAMPLE_NS;
        uint64_t skip = periods > GS_CLOCK_SAMPLES ? periods - GS_CLOCK_SAMPLES : 0;
        uint64_t busy = (c->busy_ns - c->sample_busy_ns) / periods;
        c->sample_t_ns += GS_CLOCK_SAMPLE_NS * (skip + 1);
        c->sample_busy_ns += busy * (skip + 1);
        c->sample[c->n_samples++ % GS_CLOCK_SAMPLES] =
            (struct gs_clock_sample){.t_ns = c->sample_t_ns, .busy_ns = busy};
    }
}

/* Caller holds the lock. */
static void advance(struct gs_clock *c, uint64_t now)
{
    if (now <= c->t_ns)
        return;
    for (;;) {
        uint64_t first;
        uint32_t n = busy_procs(c, &first);
        if (!n) {
            c->t_ns = now;
            break;
        }
        uint64_t dv = first > c->v_ns ? first - c->v_ns : 0;
        uint64_t dt = now - c->t_ns;
        if (dt / n < dv) {
            /* Keep what the division loses: time moves only by whole steps of n. */
            dv = dt / n;
            dt = dv * n;
            move_on(c, dv, dt);
            account(c, dv);
            break;
        }
        move_on(c, dv, dv * n);
        account(c, dv);
        add_segment(c, busy_procs(c, &first));
    }
    close_samples(c);
}

void gs_clock_advance(struct gs_clock *c)
{
    enter(c);
    advance(c, gs_clock_now());
    leave(c);
}

uint64_t gs_clock_submit(struct gs_clock *c, uint32_t slot, uint64_t cost_ns)
{
    struct gs_clock_proc *p = &c->proc[slot % GS_CLOCK_PROCS];
    uint64_t *word = &c->active[(slot % GS_CLOCK_PROCS) / 64];
    uint64_t bit = 1ull << (slot % 64);
    enter(c);
    advance(c, gs_clock_now());
    if (p->tail_v_ns < c->v_ns)
        p->tail_v_ns = c->v_ns;
    p->tail_v_ns += cost_ns;
    uint64_t tag = p->tail_v_ns;
    if (!(*word & bit) && tag > c->v_ns) {
        uint64_t first;
        *word |= bit;
        add_segment(c, busy_procs(c, &first));
    }
    leave(c);
    return tag;
}

int gs_clock_is_done(struct gs_clock *c, uint64_t tag)
{
    if (__atomic_load_n(&c->v_ns, __ATOMIC_RELAXED) >= tag)
        return 1;
    gs_clock_advance(c);
    return __atomic_load_n(&c->v_ns, __ATOMIC_RELAXED) >= tag;
}

void gs_clock_wait(struct gs_clock *c, uint64_t tag)
{
    while (!gs_clock_is_done(c, tag)) {
        uint64_t v = __atomic_load_n(&c->v_ns, __ATOMIC_RELAXED);
        /* With nobody else busy it takes exactly this long; with others we come back and ask again.
         */
        uint64_t left = tag > v ? tag - v : 0;
        if (left < 20000)
            left = 20000;
        struct timespec ts = {.tv_sec = (time_t)(left / 1000000000ull),
                              .tv_nsec = (long)(left % 1000000000ull)};
        nanosleep(&ts, NULL);
    }
}

uint64_t gs_clock_when(struct gs_clock *c, uint64_t tag)
{
    uint64_t when = 0, first;
    enter(c);
    advance(c, gs_clock_now());
    if (tag > c->v_ns) {
        uint32_t n = busy_procs(c, &first);
        when = c->t_ns + (tag - c->v_ns) * (n ? n : 1);
    } else {
        uint64_t kept = c->n_segments < GS_CLOCK_SEGMENTS ? c->n_segments : GS_CLOCK_SEGMENTS;
        when = c->t_ns;
        for (uint64_t i = 1; i <= kept; i++) {
            const struct gs_clock_segment *s = &c->segment[(c->n_segments - i) % GS_CLOCK_SEGMENTS];
            when = s->t_ns;
            if (s->v_ns < tag) {
                when += (tag - s->v_ns) * (s->n_busy ? s->n_busy : 1);
                break;
            }
        }
    }
    leave(c);
    return when;
}

void gs_clock_drop(struct gs_clock *c, uint32_t slot)
{
    uint64_t first;
    enter(c);
    advance(c, gs_clock_now());
    c->active[(slot % GS_CLOCK_PROCS) / 64] &= ~(1ull << (slot % 64));
    c->proc[slot % GS_CLOCK_PROCS] = (struct gs_clock_proc){.tail_v_ns = 0};
    add_segment(c, busy_procs(c, &first));
    leave(c);
}

uint32_t gs_clock_util_pct(struct gs_clock *c)
{
    enter(c);
    advance(c, gs_clock_now());
    uint64_t busy = 0;
    if (c->n_samples)
        busy = c->sample[(c->n_samples - 1) % GS_CLOCK_SAMPLES].busy_ns;
    leave(c);
    uint64_t pct = busy * 100 / GS_CLOCK_SAMPLE_NS;
    return (uint32_t)(pct > 100 ? 100 : pct);
}
