#include "vendors/nvidia/sim/clock.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define REAP_NS 5000000ull
#define KEEP_NS 30000ull /* no more than this is spun without offering the core */

uint64_t gs_clock_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

void gs_clock_init(struct gs_clock *c, uint64_t slice_ns)
{
    pthread_mutexattr_t attr;
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    (void)pthread_mutex_init(&c->lock, &attr);
    (void)pthread_mutexattr_destroy(&attr);
    c->slice_ns = slice_ns ? slice_ns : GS_CLOCK_SLICE_NS;
    c->current = GS_CLOCK_NONE;
}

/* ---- books of processes ---- */

/* A process that takes over a slot starts with nothing; its time starts at 1, so that tag 0 means
 * nothing at all. */
static struct gs_clock_proc *proc_of(struct gs_clock *c, const struct gs_clock_who *who)
{
    struct gs_clock_proc *p = &c->proc[who->slot % GS_CLOCK_PROCS];
    if (GS_LIKELY(p->joined))
        return p;
    p->busy_ns = p->kernels = p->sampled_ns = p->n_turns = 0;
    p->engine_ns[0] = p->engine_ns[1] = 0;
    p->first = p->n_pieces = 0;
    p->group = who->group % GS_CLOCK_GROUPS;
    p->pid = who->pid;
    p->end_ns = 1;
    __atomic_store_n(&p->v_ns, 1, __ATOMIC_RELEASE);
    p->generation++;
    p->joined = 1;
    gs_clock_set_add(&c->joined, who->slot % GS_CLOCK_PROCS);
    return p;
}

/* Also the second half of closing an account whose first half somebody died in. */
static void retire(struct gs_clock *c)
{
    struct gs_clock_retire *r = &c->retire;
    struct gs_clock_proc *p = &c->proc[r->slot % GS_CLOCK_PROCS];
    c->group[r->group % GS_CLOCK_GROUPS] = r->use;
    p->joined = 0;
    p->busy_ns = p->kernels = 0;
    p->n_pieces = 0;
    /* Whoever waits for it waits no longer. */
    __atomic_store_n(&p->v_ns, p->end_ns, __ATOMIC_RELEASE);
    gs_clock_set_remove(&c->joined, r->slot % GS_CLOCK_PROCS);
    gs_clock_turn_sort(c, r->slot % GS_CLOCK_PROCS);
    __atomic_store_n(&r->armed, 0, __ATOMIC_RELEASE);
}

/* A move counts for the process first, then for the card: a death in between is made good. */
static void count_card(struct gs_clock *c)
{
    uint64_t busy = 0;

    for (uint32_t i = 0; i < GS_CLOCK_GROUPS; i++)
        busy += c->group[i].busy_ns;
    for (uint32_t i = 0; i < GS_CLOCK_PROCS; i++)
        busy += c->proc[i].joined ? c->proc[i].busy_ns : 0;
    c->busy_ns = busy;
}

static void repair(struct gs_clock *c)
{
    if (c->retire.armed)
        retire(c);
    count_card(c);
    memset(&c->want, 0, sizeof(c->want));
    memset(&c->copying, 0, sizeof(c->copying));
    memset(&c->joined, 0, sizeof(c->joined));
    for (uint32_t i = 0; i < GS_CLOCK_PROCS; i++) {
        struct gs_clock_proc *p = &c->proc[i];
        if (!p->generation)
            continue;
        gs_clock_plan_repair(p);
        if (p->joined)
            gs_clock_set_add(&c->joined, i);
        gs_clock_turn_sort(c, i);
    }
    if (c->current != GS_CLOCK_NONE && !gs_clock_set_has(&c->want, c->current % GS_CLOCK_PROCS))
        c->current = GS_CLOCK_NONE;
}

static void enter(struct gs_clock *c)
{
    if (GS_UNLIKELY(pthread_mutex_lock(&c->lock) == EOWNERDEAD)) {
        repair(c);
        (void)pthread_mutex_consistent(&c->lock);
    }
}

static void enter_now(struct gs_clock *c)
{
    enter(c);
    gs_clock_turn_to(c, gs_clock_now());
}

static void leave(struct gs_clock *c)
{
    (void)pthread_mutex_unlock(&c->lock);
}

/* ---- work ---- */

static int submit(struct gs_clock_proc *p, const struct gs_clock_work *w, uint64_t *ret_tag)
{
    uint64_t cost = w->cost_ns ? w->cost_ns : 1;
    if (w->kind == GS_CLOCK_KERNEL || w->kind == GS_CLOCK_FILL) {
        int rc = gs_clock_plan_add(p, w->after_ns, cost, w->load ? w->load : 1, ret_tag);
        p->kernels += !rc && w->kind == GS_CLOCK_KERNEL;
        return rc;
    }
    uint64_t *engine = &p->engine_ns[w->kind == GS_CLOCK_DOWN];
    uint64_t start = w->after_ns > p->v_ns ? w->after_ns : p->v_ns;
    start = *engine > start ? *engine : start;
    *engine = *ret_tag = start + cost;
    return 0;
}

static void raise_end(struct gs_clock_proc *p, uint64_t tag)
{
    if (tag > p->end_ns)
        __atomic_store_n(&p->end_ns, tag, __ATOMIC_RELEASE);
}

int gs_clock_submit(struct gs_clock *c, const struct gs_clock_who *who,
                    const struct gs_clock_work *work, uint64_t *ret_tag)
{
    enter_now(c);
    struct gs_clock_proc *p = proc_of(c, who);
    int rc = submit(p, work, ret_tag);
    if (!rc) {
        raise_end(p, *ret_tag);
        gs_clock_turn_sort(c, who->slot % GS_CLOCK_PROCS);
        gs_clock_turn_seat(c);
    }
    leave(c);
    return rc;
}

uint64_t gs_clock_mark(struct gs_clock *c, const struct gs_clock_who *who, uint64_t after_ns,
                       int copies, uint64_t *ret_now_ns)
{
    uint32_t slot = who->slot % GS_CLOCK_PROCS;
    uint64_t tag = after_ns;
    enter_now(c);
    gs_clock_turn_seat(c);
    struct gs_clock_proc *p = proc_of(c, who);
    int served = c->current == slot || c->current == GS_CLOCK_NONE;
    if (after_ns <= p->v_ns && !copies && !served) {
        if (!gs_clock_plan_visit(p, after_ns, &tag)) {
            raise_end(p, tag);
            gs_clock_turn_sort(c, slot);
        }
    }
    *ret_now_ns = c->t_ns;
    leave(c);
    return tag;
}

static int has_reached(const struct gs_clock *c, uint32_t slot, uint64_t tag)
{
    return __atomic_load_n(&c->proc[slot % GS_CLOCK_PROCS].v_ns, __ATOMIC_ACQUIRE) >= tag;
}

int gs_clock_is_done(struct gs_clock *c, uint32_t slot, uint64_t tag)
{
    if (!tag || has_reached(c, slot, tag))
        return 1;
    (void)gs_clock_advance(c);
    return has_reached(c, slot, tag);
}

int gs_clock_is_done_of(struct gs_clock *c, uint32_t slot, uint64_t generation, uint64_t tag)
{
    enter_now(c);
    const struct gs_clock_proc *p = &c->proc[slot % GS_CLOCK_PROCS];
    int done = !p->joined || p->generation != generation || p->v_ns >= tag;
    leave(c);
    return done;
}

/* ---- waiting ---- */

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Timers are late by some ten microseconds: the last stretch is spent awake. Until the very end the
 * core goes to whoever else wants it; then a switch would cost more than it gives. */
static void sleep_until(uint64_t until, uint64_t spin_ns)
{
    uint64_t now = gs_clock_now();
    if (until > now + spin_ns) {
        uint64_t ns = until - spin_ns - now;
        struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000ull),
                              .tv_nsec = (long)(ns % 1000000000ull)};
        nanosleep(&ts, NULL);
    }
    while ((now = gs_clock_now()) < until) {
        if (until - now > KEEP_NS)
            (void)sched_yield();
        else
            relax();
    }
}

int gs_clock_wait_once(struct gs_clock *c, uint32_t slot, uint64_t tag, uint64_t spin_ns)
{
    if (!tag || has_reached(c, slot, tag))
        return 1;
    enter_now(c);
    int done = has_reached(c, slot, tag);
    uint64_t until =
        done ? 0
             : gs_clock_turn_predict(c, slot % GS_CLOCK_PROCS, tag, c->t_ns + GS_CLOCK_HORIZON_NS);
    leave(c);
    if (done)
        return 1;
    sleep_until(until, spin_ns);
    return has_reached(c, slot, tag);
}

void gs_clock_wait(struct gs_clock *c, uint32_t slot, uint64_t tag)
{
    while (!gs_clock_wait_once(c, slot, tag, 0))
        ;
}

/* Lock held; the tag has been reached. */
static uint64_t reached_at(const struct gs_clock *c, const struct gs_clock_proc *p, uint64_t tag)
{
    uint64_t kept = p->n_turns < GS_CLOCK_TURNS ? p->n_turns : GS_CLOCK_TURNS;
    uint64_t lo = p->n_turns - kept, hi = p->n_turns;
    if (!kept)
        return c->t_ns;
    /* The last turn that began before the tag. */
    while (hi - lo > 1) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (p->turn[mid % GS_CLOCK_TURNS].v_ns < tag)
            lo = mid;
        else
            hi = mid;
    }
    const struct gs_clock_turn *turn = &p->turn[lo % GS_CLOCK_TURNS];
    return tag > turn->v_ns ? turn->t_ns + (tag - turn->v_ns) : turn->t_ns;
}

uint64_t gs_clock_when(struct gs_clock *c, uint32_t slot, uint64_t tag)
{
    enter_now(c);
    const struct gs_clock_proc *p = &c->proc[slot % GS_CLOCK_PROCS];
    uint64_t when = tag <= p->v_ns
                        ? reached_at(c, p, tag)
                        : gs_clock_turn_predict(c, slot % GS_CLOCK_PROCS, tag, UINT64_MAX);
    leave(c);
    return when;
}

/* ---- sums ---- */

uint64_t gs_clock_advance(struct gs_clock *c)
{
    enter_now(c);
    uint64_t t = c->t_ns;
    leave(c);
    return t;
}

void gs_clock_drop(struct gs_clock *c, uint32_t slot)
{
    slot %= GS_CLOCK_PROCS;
    enter_now(c);
    const struct gs_clock_proc *p = &c->proc[slot];
    if (p->joined) {
        const struct gs_clock_use *had = &c->group[p->group];
        c->retire.slot = slot;
        c->retire.group = p->group;
        c->retire.use = (struct gs_clock_use){had->busy_ns + p->busy_ns, had->kernels + p->kernels};
        if (p->busy_ns != p->sampled_ns) /* its last sample ends with it */
            c->use[c->n_uses++ % GS_CLOCK_USES] = (struct gs_clock_proc_sample){
                c->next_sample_ns, p->busy_ns - p->sampled_ns, p->pid, slot};
        __atomic_store_n(&c->retire.armed, 1, __ATOMIC_RELEASE);
        retire(c);
    }
    leave(c);
}

uint64_t gs_clock_groups(struct gs_clock *c, struct gs_clock_use *ret, uint32_t n,
                         struct gs_clock_use *ret_all)
{
    struct gs_clock_use all = {0, 0};
    n = n < GS_CLOCK_GROUPS ? n : GS_CLOCK_GROUPS;
    enter_now(c);
    memcpy(ret, c->group, n * sizeof(*ret));
    for (uint32_t i = gs_clock_set_from(&c->joined, 0); i != GS_CLOCK_NONE;
         i = gs_clock_set_from(&c->joined, i + 1)) {
        const struct gs_clock_proc *p = &c->proc[i];
        if (p->group >= n)
            continue;
        ret[p->group].busy_ns += p->busy_ns;
        ret[p->group].kernels += p->kernels;
    }
    uint64_t t = c->t_ns;
    leave(c);
    for (uint32_t i = 0; i < n; i++) {
        all.busy_ns += ret[i].busy_ns;
        all.kernels += ret[i].kernels;
    }
    if (ret_all)
        *ret_all = all;
    return t;
}

uint32_t gs_clock_uses(struct gs_clock *c, uint64_t since_ns, struct gs_clock_proc_sample *ret,
                       uint32_t room)
{
    uint32_t n = 0;
    enter_now(c);
    uint64_t kept = c->n_uses < GS_CLOCK_USES ? c->n_uses : GS_CLOCK_USES;
    for (uint64_t i = 1; i <= kept; i++) {
        const struct gs_clock_proc_sample *s = &c->use[(c->n_uses - i) % GS_CLOCK_USES];
        if (s->t_ns <= since_ns)
            break;
        uint32_t k = 0;
        while (k < n && ret[k].pid != s->pid)
            k++;
        /* The last one of a process that ended stands for a period that has not. */
        if (k == n && n < room && s->t_ns <= c->t_ns)
            ret[n++] = *s;
    }
    leave(c);
    return n;
}

uint32_t gs_clock_util_pct(struct gs_clock *c)
{
    enter_now(c);
    uint64_t busy = 0;
    if (c->n_samples)
        busy = c->sample[(c->n_samples - 1) % GS_CLOCK_SAMPLES].busy_ns;
    leave(c);
    uint64_t pct = (busy * 100 + GS_CLOCK_SAMPLE_NS / 2) / GS_CLOCK_SAMPLE_NS;
    return (uint32_t)(pct > 100 ? 100 : pct);
}

int gs_clock_should_reap(struct gs_clock *c)
{
    if (GS_LIKELY(!__atomic_load_n(&c->contended, __ATOMIC_RELAXED)))
        return 0;
    uint64_t now = __atomic_load_n(&c->t_ns, __ATOMIC_RELAXED);
    uint64_t due = __atomic_load_n(&c->next_reap_ns, __ATOMIC_RELAXED);
    return now >= due && __atomic_compare_exchange_n(&c->next_reap_ns, &due, now + REAP_NS, 0,
                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
