#include "model/limiter_program.h"

#include <string.h>

#include "hook/limiter.h"
#include "model/limiter_world.h"
#include "monitor/arbiter.h"

#define LONG_NS    500000u /* measured from here on; sampled so often below */
#define PRIOR_NS   20000u
#define OWN_NS     2200000u
#define TURN_NS    750000u
#define TURNS_MOST 4u
#define HALF_NS    1000000u
#define LAUNCH_NS  1500u /* the program's own time for a launch */

/** Launches that went by their estimates. Where the last of them was out before the card had passed
 * the entry before, there was work without a break, and that is what they took; else they took no
 * longer than since the first of them went out. */
static void account_covered(struct program *p, const struct program_entry *e, uint64_t end)
{
    uint64_t from, used = e->covers_ns;

    if (p->last_end_ns != 0 && e->closed_ns < p->last_end_ns) {
        from = p->last_end_ns;
        used = end - from;
    } else {
        from = e->first_ns > p->last_end_ns ? e->first_ns : p->last_end_ns;
        if (end - from < used)
            used = end - from;
    }
    gs_limiter_credit[0].ns += (int64_t)e->covers_ns - (int64_t)used;
    gs_limiter_note(0, from, end, used, e->covers_ns);
}

/** As gs_cost_learn_shared() and gs_cost_own(): beside others a launch that took longer by a turn
 * was interrupted. Returns its own time, or that it is not known. */
static uint64_t learn(struct program *p, uint32_t type, uint64_t took)
{
    uint64_t *est = &p->cost[type].est_ns;
    bool is_turn = *est != 0 && *est <= OWN_NS && took > *est + TURN_NS &&
                   p->cost[type].turns < TURNS_MOST && gs_limiter_is_shared(0);

    p->cost[type].turns = is_turn ? p->cost[type].turns + 1 : 0;
    if (*est == 0 || (took <= OWN_NS && took + TURN_NS < *est))
        *est = took;
    else if (!is_turn)
        *est = (7 * *est + took) / 8;
    if (*est > OWN_NS)
        return GS_LIMITER_NOT_KNOWN;
    return took > *est + TURN_NS ? *est : took;
}

static void settle(struct program *p, const struct program_entry *e)
{
    uint64_t start, on, end, own;

    world_span(e->kernel, &start, &on, &end);
    p->inflight_ns -= e->paid_ns + e->covers_ns;
    p->unknown -= e->unknown;
    own = learn(p, e->type, end - (gs_limiter_is_shared(0) ? on : start));
    if (own != GS_LIMITER_NOT_KNOWN && gs_limiter_is_shared(0))
        start = on; /* else the wait for the first turn, on the average */
    else if (gs_limiter_is_shared(0) && on > start)
        start = on - HALF_NS > p->last_end_ns ? on - HALF_NS : p->last_end_ns;
    if (e->measured)
        gs_limiter_settle(0, e->paid_ns, start, end, end - start, own);
    if (e->covers_ns > 0)
        account_covered(p, e, end);
    p->last_end_ns = end;
    if (p->head + 1 == p->tail)
        gs_limiter_busy_until(0, gs_limiter_clock());
    if (p->unknown == 0)
        gs_limiter_end_unknown(0);
}

/** What the card has done by now. */
static void poll(struct program *p)
{
    while (p->head != p->tail && world_is_done(p->entry[p->head % PROGRAM_ENTRIES].kernel)) {
        settle(p, &p->entry[p->head % PROGRAM_ENTRIES]);
        p->head++;
    }
}

static struct program *by_process[WORLD_PROCESSES];

void program_reset(void)
{
    memset(by_process, 0, sizeof(by_process));
}

void program_harvest(uint32_t process)
{
    if (by_process[process] != NULL)
        poll(by_process[process]);
}

static void push(struct program *p, struct program_entry e)
{
    e.covers_ns = p->covers_ns;
    e.first_ns = p->first_ns;
    e.closed_ns = gs_limiter_clock();
    p->covers_ns = 0;
    p->first_ns = 0;
    p->inflight_ns += e.paid_ns + e.covers_ns;
    p->unknown += e.unknown;
    p->entry[p->tail++ % PROGRAM_ENTRIES] = e;
}

/** Until there is room for one more. */
static void wait_window(struct program *p, uint64_t est)
{
    poll(p);
    while (p->head != p->tail &&
           ((p->inflight_ns + est > gs_limiter_window_ns(0) &&
             (est == 0 || gs_limiter_window_ns(0) == 0 || p->tail - p->head >= 2)) ||
            (est == 0 && p->unknown >= 2))) {
        world_wait(p->entry[p->head % PROGRAM_ENTRIES].kernel);
        poll(p);
    }
}

/** One of each kind that is in flight unknown: the next waits to know. */
static void wait_known(struct program *p, uint32_t type)
{
    for (uint64_t i = p->head; i != p->tail && p->cost[type].est_ns == 0; i++) {
        struct program_entry *e = &p->entry[i % PROGRAM_ENTRIES];

        if (e->type == type) {
            world_wait(e->kernel);
            poll(p);
            i = p->head - 1;
        }
    }
}

static uint64_t launch(struct program *p, uint32_t type)
{
    uint64_t est, before, kernel;
    bool measured;

    wait_window(p, p->cost[type].est_ns);
    wait_known(p, type);
    est = p->cost[type].est_ns;
    measured = est == 0 || est >= LONG_NS;
    before = world_ns();
    if (est == 0)
        gs_limiter_admit_unknown(0, PRIOR_NS, "model");
    else if (measured || !gs_limiter_spend(0, est))
        gs_limiter_admit(0, est, measured, "model");
    if (world_ns() - before > p->longest_ns)
        p->longest_ns = world_ns() - before;
    kernel = world_launch(p->kernel_ns[type]);
    if (measured) {
        push(p, (struct program_entry){.kernel = kernel,
                                       .paid_ns = est == 0 ? PRIOR_NS : est,
                                       .type = type,
                                       .measured = true,
                                       .unknown = est == 0});
        gs_limiter_busy_until(0, gs_limiter_clock() + p->inflight_ns);
    } else {
        if (p->covers_ns == 0)
            p->first_ns = gs_limiter_clock();
        p->covers_ns += est;
        if (p->covers_ns >= LONG_NS)
            push(p, (struct program_entry){.kernel = kernel, .type = type});
    }
    return kernel;
}

void program_run(void *arg)
{
    struct program *p = arg;
    uint64_t burst = 0;
    uint32_t n = 0;

    while (n < PROGRAM_KERNELS && p->kernel_ns[n] != 0)
        n++;
    by_process[world_self()] = p;
    for (uint64_t i = 0; p->count == 0 || i < p->count; i++) {
        uint32_t type = (uint32_t)(i % n);
        uint64_t kernel = launch(p, type);

        burst += p->kernel_ns[type];
        if (p->sync || (p->pause_ns != 0 && burst >= p->burst_ns)) {
            world_wait(kernel);
            poll(p);
        }
        if (p->done < 64)
            p->end_ns[p->done] = world_ns();
        p->done++;
        if (p->pause_ns != 0 && burst >= p->burst_ns) {
            world_delay(p->pause_ns);
            burst = 0;
        }
        world_delay(LAUNCH_NS);
    }
    wait_window(p, UINT64_MAX / 2);
}

static struct gs_arbiter arbiter;
static struct gs_arbiter_slice slices[WORLD_SLICES];
static struct gs_arbiter_process processes[WORLD_SLICES][WORLD_PROCESSES];

static void observe(uint32_t i)
{
    const struct gs_ledger *ledger = world_ledger(i);
    const struct gs_ledger_device *d = world_device(i);

    slices[i].core_bp = d->core_pct * 100;
    slices[i].policy = d->policy;
    memcpy(slices[i].cover, d->cover, sizeof(d->cover));
    memcpy(slices[i].crowd, d->crowd, sizeof(d->crowd));
    slices[i].n_processes = (uint32_t)ledger->head.slot_high;
    slices[i].process = processes[i];
    for (uint32_t j = 0; j < slices[i].n_processes; j++) {
        struct gs_arbiter_process *p = &processes[i][j];

        if (p->owner != ledger->slot[j].owner && p->owner != 0)
            gs_arbiter_forget_process(&slices[i], p);
        p->owner = ledger->slot[j].owner;
        p->active_ns = d->use[j].active_ns;
        p->wait_since_ns = d->use[j].wait_since_ns;
        p->busy_until_ns = d->use[j].busy_until_ns;
        memcpy(p->bin, d->use[j].bin, sizeof(p->bin));
        memcpy(p->known, d->use[j].known, sizeof(p->known));
    }
}

void program_monitor(void *arg)
{
    uint32_t n = *(uint32_t *)arg;

    memset(&arbiter, 0, sizeof(arbiter));
    memset(slices, 0, sizeof(slices));
    memset(processes, 0, sizeof(processes));
    for (;;) {
        arbiter.n_slices = n;
        for (uint32_t i = 0; i < n; i++) {
            arbiter.slice[i] = &slices[i];
            observe(i);
        }
        gs_arbiter_step(&arbiter, gs_limiter_clock());
        for (uint32_t i = 0; i < n; i++)
            world_board[i] = (struct gs_board_slice){.share_bp = slices[i].share_bp,
                                                     .flags = slices[i].flags,
                                                     .refund_ns = slices[i].refund_ns};
        world_delay(GS_BOARD_TICK_NS);
    }
}
