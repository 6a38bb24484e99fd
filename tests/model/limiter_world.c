#include "model/limiter_world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "contract/quota.h"
#include "core/atomics.h"
#include "hook/board.h"
#include "hook/bucket.h"
#include "hook/engine.h"
#include "hook/limiter_local.h"
#include "hook/resize.h"
#include "hook/self.h"
#include "hook/slot.h"
#include "hook/step.h"
#include "hook/suspend.h"
#include "hook/trace.h"

#define EPOCH   UINT64_C(1000000000000)
#define KERNELS 4096u
#define STACK   (64u << 10)
#define TURN_NS 2000000u
#define NOBODY  UINT32_MAX
#define NEVER   UINT64_MAX
#define LATE_NS 100000u /* at most: a sleep of a busy machine ends so much later */

struct kernel {
    uint64_t ns, start_ns, end_ns;
    uint64_t on_ns; /* the card came to it */
};

struct thread {
    ucontext_t context;
    char *stack;
    uint32_t process;
    void (*body)(void *arg);
    void *arg;
    bool is_used, is_over;
    uint64_t wake_ns; /* NEVER: only by what it waits for */
    uint32_t *word;   /* sleeps on it */
    uint32_t bits;
    uint64_t kernel; /* waits for it; NEVER none */
};

struct process {
    uint32_t slice;
    bool is_dead, is_stopped;
    struct gs_self_state self;
    struct gs_limiter_state local;
    struct gs_limiter_credit credit;
    struct kernel kernel[KERNELS];
    uint64_t n_launched, n_done;
    uint64_t left; /* of the kernel on the card */
    bool is_on;    /* it has begun */
    uint64_t longest_ns;
    uint32_t core_pct; /* taken over last */
};

struct slice {
    struct gs_ledger *ledger;
    struct gs_ledger_device *device;
    uint64_t used;
    uint32_t core_pct, policy, n;
};

static struct {
    uint64_t now, random;
    uint32_t n_slices, n_processes, n_threads, current;
    struct slice slice[WORLD_SLICES];
    struct process process[WORLD_PROCESSES];
    struct thread thread[WORLD_THREADS];
    ucontext_t scheduler;
    uint32_t turn_of;
    uint64_t turn_end;
    uint64_t kill_at, steps;
} w;

void (*world_harvest)(uint32_t process);

static void harvest(void)
{
    if (world_harvest != NULL)
        world_harvest(world_self());
}
const struct gs_hook_vendor gs_hook_vendor = {.name = "model", .harvest = harvest};

struct gs_board_slice world_board[WORLD_SLICES];
struct gs_engine_state gs_engine = {.ready = 1};
struct gs_self_state *gs_self_shim;
struct gs_limiter_state *gs_limiter_shim;

/* ---- what the core wants of the machine ---- */

uint64_t gs_shim_load(const uint64_t *p, int order)
{
    (void)order;
    return *p;
}

void gs_shim_store(uint64_t *p, uint64_t v, int order)
{
    (void)order;
    *p = v;
}

uint64_t gs_shim_add(uint64_t *p, uint64_t v, int order)
{
    uint64_t before = *p;

    (void)order;
    *p += v;
    return before;
}

int gs_shim_cas(uint64_t *p, uint64_t *expected, uint64_t desired, int order)
{
    uint64_t found = *p;

    (void)order;
    if (found == *expected) {
        *p = desired;
        return 1;
    }
    *expected = found;
    return 0;
}

static struct thread *me(void)
{
    return &w.thread[w.current];
}

/** Let the scheduler choose. */
static void give_up(void)
{
    (void)swapcontext(&me()->context, &w.scheduler);
}

uint64_t gs_limiter_clock(void)
{
    return w.now;
}

void gs_limiter_sleep(uint32_t *word, uint32_t seen, uint64_t until_ns, uint32_t bits)
{
    struct thread *t = me();

    if (*word != seen || until_ns <= w.now)
        return;
    t->word = word;
    t->bits = bits;
    t->wake_ns = until_ns + world_random(LATE_NS);
    give_up();
}

void gs_limiter_wake(uint32_t *word, uint32_t bits)
{
    for (uint32_t i = 0; i < w.n_threads; i++) {
        struct thread *t = &w.thread[i];

        if (t->word == word && (t->bits & bits) != 0)
            t->wake_ns = w.now + world_random(LATE_NS);
    }
}

struct gs_slot_pass gs_slot_reap(void)
{
    struct gs_slot_pass pass = {0, 0};

    for (uint32_t i = 0; i < w.n_processes; i++) {
        struct process *p = &w.process[i];
        uint64_t *owner = &gs_self_shim->ledger->slot[p->self.slot].owner;

        if (p->slice != w.process[me()->process].slice || !p->is_dead || *owner == 0)
            continue;
        gs_bucket_bury(p->self.slot);
        *owner = 0;
        pass.reaped++;
    }
    return pass;
}

int gs_hook_board(uint32_t dev, uint64_t now_ns, struct gs_board_slice *ret)
{
    uint32_t slice = w.process[me()->process].slice;

    (void)dev;
    (void)now_ns;
    if (world_board[slice].share_bp == 0)
        return -ENOENT;
    *ret = world_board[slice];
    return 0;
}

void gs_resize_poll(uint64_t now_ns)
{
    struct process *p = &w.process[me()->process];

    (void)now_ns;
    if (p->core_pct == w.slice[p->slice].core_pct)
        return;
    p->core_pct = w.slice[p->slice].core_pct;
    p->self.core_pct[0] = p->core_pct;
    gs_limiter_configure();
}

void gs_suspend_wait(uint32_t dev, const char *what, void (*tick)(uint32_t dev, uint64_t ns))
{
    (void)tick;
    (void)dev;
    (void)what;
}

void gs_trace_wait(uint32_t dev, enum gs_wait_reason reason, const char *what, uint64_t start_ns,
                   uint64_t end_ns)
{
    (void)dev;
    (void)reason;
    (void)what;
    (void)start_ns;
    (void)end_ns;
}

static void step(const char *label)
{
    (void)label;
    if (w.kill_at == 0 || ++w.steps != w.kill_at)
        return;
    w.kill_at = 0;
    world_kill(me()->process);
    give_up(); /* for good */
}
void (*gs_step_hook)(const char *label) = step;

/* ---- the card ---- */

static bool is_busy(const struct process *p)
{
    return !p->is_dead && p->n_done < p->n_launched;
}

/* Round robin, as the simulated card: a turn ends with its length or with the process's work; a
 * newcomer waits for it; a turn that nobody else wants is followed by another one. */
static uint32_t next_busy(uint32_t after)
{
    for (uint32_t i = 1; i <= w.n_processes; i++) {
        uint32_t k = (after + i) % w.n_processes;

        if (is_busy(&w.process[k]))
            return k;
    }
    return NOBODY;
}

/** Whose turn it is now; begins one where the last is over. */
static uint32_t turn(void)
{
    if (w.n_processes == 0)
        return NOBODY;
    if (w.turn_of == NOBODY || !is_busy(&w.process[w.turn_of]) || w.turn_end <= w.now) {
        uint32_t was = w.turn_of == NOBODY ? w.n_processes - 1 : w.turn_of;

        w.turn_of = next_busy(was);
        w.turn_end = w.now + TURN_NS;
    }
    return w.turn_of;
}

/** When the next kernel or the turn ends if nothing changes. */
static uint64_t next_end(void)
{
    uint32_t i = turn();
    uint64_t end;

    if (i == NOBODY)
        return NEVER;
    end = w.now + w.process[i].left;
    return end < w.turn_end ? end : w.turn_end;
}

static void end_kernel(uint32_t i)
{
    struct process *p = &w.process[i];

    p->kernel[p->n_done % KERNELS].end_ns = w.now;
    for (uint32_t t = 0; t < w.n_threads; t++) {
        if (w.thread[t].process == i && w.thread[t].kernel == p->n_done)
            w.thread[t].wake_ns = w.now;
    }
    p->n_done++;
    p->is_on = false;
    if (p->n_done < p->n_launched) {
        p->kernel[p->n_done % KERNELS].start_ns = w.now;
        p->left = p->kernel[p->n_done % KERNELS].ns;
    }
}

/** Move the clock, not beyond next_end(); the card works meanwhile. */
static void advance(uint64_t to)
{
    uint32_t i = turn();
    struct process *p = &w.process[i == NOBODY ? 0 : i];
    uint64_t did = to - w.now;

    w.now = to;
    if (i == NOBODY)
        return;
    if (!p->is_on) { /* a kernel begins when the card comes to it */
        p->is_on = did > 0 || p->left == 0;
        p->kernel[p->n_done % KERNELS].on_ns = to - did;
    }
    p->left -= did < p->left ? did : p->left;
    w.slice[p->slice].used += did;
    if (p->left == 0)
        end_kernel(i);
}

/* ---- threads ---- */

static void start(void)
{
    struct thread *t = me();

    t->body(t->arg);
    t->is_over = true;
    t->wake_ns = NEVER;
    for (;;)
        give_up();
}

static void resume(uint32_t i)
{
    struct thread *t = &w.thread[i];
    struct process *p = &w.process[t->process];

    w.current = i;
    t->wake_ns = NEVER;
    t->word = NULL;
    t->kernel = NEVER;
    gs_self_shim = &p->self;
    gs_limiter_shim = &p->local;
    gs_limiter_credit[0] = p->credit;
    (void)swapcontext(&w.scheduler, &t->context);
    p->credit = gs_limiter_credit[0];
}

/** The thread that is to run next; w.n_threads: none ever. */
static uint32_t next_thread(void)
{
    uint32_t best = w.n_threads;

    for (uint32_t i = 0; i < w.n_threads; i++) {
        const struct thread *t = &w.thread[i];
        const struct process *p = &w.process[t->process];

        if (t->is_over || p->is_dead || p->is_stopped || t->wake_ns == NEVER)
            continue;
        if (best == w.n_threads || t->wake_ns < w.thread[best].wake_ns)
            best = i;
    }
    return best;
}

void world_run(uint64_t until_ns)
{
    uint64_t until = EPOCH + until_ns;

    for (;;) {
        uint32_t i = next_thread();
        uint64_t wake = i < w.n_threads ? w.thread[i].wake_ns : NEVER;
        uint64_t end = next_end();

        if (wake > until && end > until)
            break;
        if (end <= wake) {
            advance(end);
        } else {
            if (wake > w.now)
                advance(wake);
            resume(i);
        }
    }
    advance(until);
}

/* ---- the world ---- */

static void *fresh(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        abort();
    return p;
}

void world_reset(uint64_t seed)
{
    for (uint32_t i = 0; i < w.n_threads; i++)
        (void)munmap(w.thread[i].stack, STACK);
    for (uint32_t i = 0; i < w.n_slices; i++) {
        (void)munmap(w.slice[i].ledger, sizeof(struct gs_ledger));
        (void)munmap(w.slice[i].device, sizeof(struct gs_ledger_device));
    }
    memset(&w, 0, sizeof(w));
    memset(world_board, 0, sizeof(world_board));
    w.now = EPOCH;
    w.turn_of = NOBODY;
    w.random = seed;
}

uint32_t world_slice(uint32_t core_pct, uint32_t policy)
{
    struct slice *s = &w.slice[w.n_slices];

    s->ledger = fresh(sizeof(struct gs_ledger));
    s->device = fresh(sizeof(struct gs_ledger_device));
    s->device->core_pct = core_pct;
    s->device->policy = policy;
    s->core_pct = core_pct;
    s->policy = policy;
    return w.n_slices++;
}

uint32_t world_process(uint32_t slice, void (*body)(void *arg), void *arg)
{
    struct slice *s = &w.slice[slice];
    struct process *p = &w.process[w.n_processes];

    p->slice = slice;
    p->core_pct = s->core_pct;
    p->self = (struct gs_self_state){.n_devices = 1,
                                     .n_mapped = 1,
                                     .slot = s->n++,
                                     .ledger = s->ledger,
                                     .device = s->device,
                                     .state = GS_SELF_READY};
    p->self.core_pct[0] = s->core_pct;
    p->self.policy[0] = s->policy;
    s->ledger->slot[p->self.slot].owner = w.n_processes + 1;
    s->ledger->head.slot_high = s->n;
    gs_self_shim = &p->self;
    gs_limiter_shim = &p->local;
    gs_limiter_configure();
    world_thread(w.n_processes, body, arg);
    return w.n_processes++;
}

void world_thread(uint32_t process, void (*body)(void *arg), void *arg)
{
    struct thread *t = &w.thread[w.n_threads++];

    t->process = process;
    t->body = body;
    t->arg = arg;
    t->wake_ns = w.now;
    t->kernel = NEVER;
    t->stack = fresh(STACK);
    if (getcontext(&t->context) != 0)
        abort();
    t->context.uc_stack.ss_sp = t->stack;
    t->context.uc_stack.ss_size = STACK;
    makecontext(&t->context, start, 0);
}

void world_kill(uint32_t process)
{
    w.process[process].is_dead = true;
}

void world_kill_at_step(uint64_t n)
{
    w.steps = 0;
    w.kill_at = n;
}

bool world_is_dead(uint32_t process)
{
    return w.process[process].is_dead;
}

void world_stop(uint32_t process, bool stopped)
{
    w.process[process].is_stopped = stopped;
}

uint64_t world_ns(void)
{
    return w.now - EPOCH;
}

uint64_t world_used(uint32_t slice)
{
    return w.slice[slice].used;
}

struct gs_ledger *world_ledger(uint32_t slice)
{
    return w.slice[slice].ledger;
}

struct gs_ledger_device *world_device(uint32_t slice)
{
    return w.slice[slice].device;
}

void world_resize(uint32_t slice, uint32_t core_pct)
{
    w.slice[slice].core_pct = core_pct;
    w.slice[slice].device->core_pct = core_pct;
}

/* ---- in a thread ---- */

void world_delay(uint64_t ns)
{
    me()->wake_ns = w.now + ns;
    give_up();
}

uint64_t world_launch(uint64_t ns)
{
    struct process *p = &w.process[me()->process];

    if (p->n_launched - p->n_done >= KERNELS)
        abort(); /* a window that does not hold */
    p->kernel[p->n_launched % KERNELS] = (struct kernel){.ns = ns, .start_ns = w.now};
    if (p->n_done == p->n_launched)
        p->left = ns;
    return p->n_launched++;
}

bool world_is_done(uint64_t kernel)
{
    return kernel < w.process[me()->process].n_done;
}

void world_wait(uint64_t kernel)
{
    while (!world_is_done(kernel)) {
        me()->kernel = kernel;
        give_up();
    }
}

void world_span(uint64_t kernel, uint64_t *ret_start, uint64_t *ret_on, uint64_t *ret_end)
{
    const struct kernel *k = &w.process[me()->process].kernel[kernel % KERNELS];

    *ret_start = k->start_ns;
    *ret_on = k->on_ns;
    *ret_end = k->end_ns;
}

uint64_t world_random(uint64_t n)
{
    w.random = w.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (w.random >> 33) % n;
}

uint32_t world_self(void)
{
    return me()->process;
}
