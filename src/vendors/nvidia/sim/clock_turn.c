/* Turns: who is on the card when, and what everybody has had of it. */

#include "vendors/nvidia/sim/clock.h"

#define PREDICT_MAX 64

/* Processes at a kernel want the card; at a copy they move without it. */
enum state { IDLE, WANT, COPYING };

static enum state state_of(const struct gs_clock_proc *p)
{
    if (p->n_pieces && p->piece[p->first].start_ns <= p->v_ns)
        return WANT;
    return p->v_ns < p->end_ns ? COPYING : IDLE;
}

/* The process's time runs from here on. Where it never stopped nothing is to be noted. */
static void note(const struct gs_clock *c, struct gs_clock_proc *p)
{
    const struct gs_clock_turn *last =
        p->n_turns ? &p->turn[(p->n_turns - 1) % GS_CLOCK_TURNS] : NULL;
    if (last && c->t_ns - last->t_ns == p->v_ns - last->v_ns)
        return;
    p->turn[p->n_turns % GS_CLOCK_TURNS] = (struct gs_clock_turn){c->t_ns, p->v_ns};
    p->n_turns++;
}

static int is_contended(const struct gs_clock *c)
{
    uint64_t top = c->want.top;
    if (!top)
        return 0;
    uint64_t word = c->want.word[(uint32_t)__builtin_ctzll(top)];
    return (top & (top - 1)) || (word & (word - 1));
}

void gs_clock_turn_sort(struct gs_clock *c, uint32_t slot)
{
    struct gs_clock_proc *p = &c->proc[slot];
    enum state s = p->joined ? state_of(p) : IDLE;
    if (s == WANT)
        gs_clock_set_add(&c->want, slot);
    else
        gs_clock_set_remove(&c->want, slot);
    if (s == COPYING) {
        if (!gs_clock_set_has(&c->copying, slot))
            note(c, p);
        gs_clock_set_add(&c->copying, slot);
    } else {
        gs_clock_set_remove(&c->copying, slot);
    }
    if (s != WANT && c->current == slot) {
        c->last = slot;
        c->current = GS_CLOCK_NONE;
    }
    __atomic_store_n(&c->contended, (uint32_t)is_contended(c), __ATOMIC_RELAXED);
}

/* A turn ends with its slice if somebody else waits, else another slice is added to it. */
void gs_clock_turn_seat(struct gs_clock *c)
{
    if (c->current != GS_CLOCK_NONE && c->t_ns >= c->slice_end_ns) {
        if (is_contended(c)) {
            c->last = c->current;
            c->current = GS_CLOCK_NONE;
        } else {
            c->slice_end_ns += ((c->t_ns - c->slice_end_ns) / c->slice_ns + 1) * c->slice_ns;
        }
    }
    if (c->current != GS_CLOCK_NONE)
        return;
    c->current = gs_clock_set_after(&c->want, c->last);
    if (c->current == GS_CLOCK_NONE)
        return;
    c->slice_end_ns = c->t_ns + c->slice_ns;
    note(c, &c->proc[c->current]);
}

/* Close the sample period that ends at t. */
static void close_sample(struct gs_clock *c)
{
    c->sample[c->n_samples++ % GS_CLOCK_SAMPLES] =
        (struct gs_clock_sample){c->next_sample_ns, c->busy_ns - c->sampled_ns};
    for (uint32_t i = gs_clock_set_from(&c->joined, 0);
         c->busy_ns != c->sampled_ns && i != GS_CLOCK_NONE;
         i = gs_clock_set_from(&c->joined, i + 1)) {
        struct gs_clock_proc *p = &c->proc[i];
        if (p->busy_ns == p->sampled_ns)
            continue;
        c->use[c->n_uses++ % GS_CLOCK_USES] =
            (struct gs_clock_proc_sample){c->next_sample_ns, p->busy_ns - p->sampled_ns, p->pid, i};
        p->sampled_ns = p->busy_ns;
    }
    c->sampled_ns = c->busy_ns;
    c->next_sample_ns += GS_CLOCK_SAMPLE_NS;
}

/* Nobody moves: only samples are due, and of a long silence only the last ones matter. */
static void idle_to(struct gs_clock *c, uint64_t now)
{
    while (c->next_sample_ns <= now) {
        close_sample(c);
        uint64_t due = now < c->next_sample_ns ? 0 : (now - c->next_sample_ns) / GS_CLOCK_SAMPLE_NS;
        if (due > GS_CLOCK_SAMPLES)
            c->next_sample_ns += (due - GS_CLOCK_SAMPLES) * GS_CLOCK_SAMPLE_NS;
    }
    __atomic_store_n(&c->t_ns, now, __ATOMIC_RELAXED);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Where the current state of affairs ends at the earliest. */
static uint64_t step_end(const struct gs_clock *c, uint64_t now)
{
    uint64_t end = earlier(now, c->next_sample_ns);
    if (c->current != GS_CLOCK_NONE) {
        const struct gs_clock_proc *p = &c->proc[c->current];
        end = earlier(end, c->t_ns + (p->piece[p->first].end_ns - p->v_ns));
        if (is_contended(c))
            end = earlier(end, c->slice_end_ns);
    }
    for (uint32_t i = gs_clock_set_from(&c->copying, 0); i != GS_CLOCK_NONE;
         i = gs_clock_set_from(&c->copying, i + 1)) {
        const struct gs_clock_proc *p = &c->proc[i];
        uint64_t until = p->n_pieces ? p->piece[p->first].start_ns : p->end_ns;
        end = earlier(end, c->t_ns + (until - p->v_ns));
    }
    return end;
}

static void move(struct gs_clock *c, uint32_t slot, uint64_t dt)
{
    struct gs_clock_proc *p = &c->proc[slot];
    __atomic_store_n(&p->v_ns, p->v_ns + dt, __ATOMIC_RELEASE);
    gs_clock_plan_trim(p);
    gs_clock_turn_sort(c, slot);
}

void gs_clock_turn_to(struct gs_clock *c, uint64_t now)
{
    if (!c->t_ns) {
        c->t_ns = now;
        c->next_sample_ns = now + GS_CLOCK_SAMPLE_NS;
    }
    while (c->t_ns < now) {
        gs_clock_turn_seat(c);
        if (c->current == GS_CLOCK_NONE && !c->copying.top) {
            idle_to(c, now);
            return;
        }
        uint64_t end = step_end(c, now), dt = end - c->t_ns;
        uint32_t current = c->current;
        /* Time first: a death in between costs the process a moment, it does not get it twice. */
        __atomic_store_n(&c->t_ns, end, __ATOMIC_RELAXED);
        uint32_t next = GS_CLOCK_NONE;
        for (uint32_t i = gs_clock_set_from(&c->copying, 0); i != GS_CLOCK_NONE; i = next) {
            next = gs_clock_set_from(&c->copying, i + 1);
            move(c, i, dt);
        }
        if (current != GS_CLOCK_NONE) {
            c->proc[current].busy_ns += dt;
            __atomic_signal_fence(__ATOMIC_RELEASE); /* in this order, for who is killed between */
            c->busy_ns += dt;
            move(c, current, dt);
        }
        if (c->t_ns == c->next_sample_ns)
            close_sample(c);
    }
    /* A turn that nobody contested goes on with its slice in step. */
    if (c->current != GS_CLOCK_NONE)
        gs_clock_turn_seat(c);
}

/* Somebody else in the queue for the card. */
struct rival {
    uint64_t left_ns;
};

/* Rivals in the order of their turns behind `slot`. Returns their number, or -1: too many. */
static int list_rivals(const struct gs_clock *c, uint32_t slot, struct rival *ret)
{
    int n = 0;
    for (uint32_t i = gs_clock_set_after(&c->want, slot); i != slot;
         i = gs_clock_set_after(&c->want, i)) {
        if (n == PREDICT_MAX)
            return -1;
        ret[n++] = (struct rival){c->proc[i].end_ns - c->proc[i].v_ns};
    }
    return n;
}

/* Position in that list of the one on the card, or whose turn is next; -1: the process itself. */
static int first_rival(const struct gs_clock *c, uint32_t slot)
{
    uint32_t at = c->current != GS_CLOCK_NONE ? c->current : gs_clock_set_after(&c->want, c->last);
    int n = -1;
    for (uint32_t i = slot; i != at; i = gs_clock_set_after(&c->want, i))
        n++;
    return n;
}

uint64_t gs_clock_turn_predict(const struct gs_clock *c, uint32_t slot, uint64_t tag,
                               uint64_t horizon)
{
    struct rival rival[PREDICT_MAX];
    const struct gs_clock_proc *p = &c->proc[slot];
    uint64_t t = c->t_ns, left = tag > p->v_ns ? tag - p->v_ns : 0;
    if (!gs_clock_set_has(&c->want, slot)) {
        /* A copy; at the next kernel there may be a queue. */
        uint64_t until = p->n_pieces ? p->piece[p->first].start_ns - p->v_ns : left;
        return earlier(horizon, t + earlier(left, until));
    }
    int n = list_rivals(c, slot, rival);
    if (n <= 0)
        return n ? horizon : t + left;
    uint64_t slice = c->slice_ns;
    if (c->current != GS_CLOCK_NONE)
        slice = c->slice_end_ns > t ? c->slice_end_ns - t : 0;
    for (int at = first_rival(c, slot); t < horizon; at = at + 1 < n ? at + 1 : -1) {
        uint64_t *work = at < 0 ? &left : &rival[at].left_ns;
        uint64_t run = earlier(*work, slice);
        *work -= run;
        t += run;
        slice = c->slice_ns;
        if (!left)
            return t;
    }
    return horizon;
}
