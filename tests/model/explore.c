#include "model/explore.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "core/hash.h"

#define STACK_BYTES 16384u
#define MOVES       (2u * EXPLORE_PROCESSES) /* step p, or kill p */

struct explore_shared explore_shared;

static _Alignas(64) unsigned char stacks[EXPLORE_PROCESSES][STACK_BYTES];
static ucontext_t contexts[EXPLORE_PROCESSES];
static ucontext_t scheduler;
static uint32_t running;
static const struct explore_model *model;
static struct explore_result result;

/** Registers a suspended coroutine needs: those a call preserves, stack pointer and program
 * counter. */
#if defined(__x86_64__)
static const int kept[] = {REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15, REG_RSP, REG_RIP};
#define N_KEPT 8u
static uint64_t get_register(const ucontext_t *uc, uint32_t i)
{
    return (uint64_t)uc->uc_mcontext.gregs[kept[i]];
}
static void set_register(ucontext_t *uc, uint32_t i, uint64_t v)
{
    uc->uc_mcontext.gregs[kept[i]] = (greg_t)v;
}
#define SP_INDEX 6u
#elif defined(__aarch64__)
#define N_KEPT   14u /* x19..x30, sp, pc */
static uint64_t get_register(const ucontext_t *uc, uint32_t i)
{
    return i < 12    ? uc->uc_mcontext.regs[19 + i]
           : i == 12 ? uc->uc_mcontext.sp
                     : uc->uc_mcontext.pc;
}
static void set_register(ucontext_t *uc, uint32_t i, uint64_t v)
{
    if (i < 12)
        uc->uc_mcontext.regs[19 + i] = v;
    else if (i == 12)
        uc->uc_mcontext.sp = v;
    else
        uc->uc_mcontext.pc = v;
}
#define SP_INDEX 12u
#else
#error "name the registers that a call preserves"
#endif

/** A state, packed: the shared part, then per running process its registers and the used stack. */
struct snapshot {
    struct explore_shared shared;
    uint64_t registers[EXPLORE_PROCESSES][N_KEPT];
    uint32_t used[EXPLORE_PROCESSES]; /**< bytes of stack */
    unsigned char stack[];
};

struct frame {
    struct snapshot *snap;
    uint32_t state; /**< number of the state */
    uint32_t next;  /**< next move to try */
    char move;      /**< that led here */
};

static struct frame *frames;
static uint32_t n_frames, cap_frames;

/* Visited states: open addressing on a 128-bit hash; the value is the state's number. */
struct seen {
    uint64_t h[2];
    uint32_t number;
};
static struct seen *seen;
static uint64_t cap_seen;
static uint32_t n_states;

/* Edges for the question whether an end can be reached. */
static uint32_t (*edges)[2];
static uint64_t n_edges, cap_edges;
static uint8_t *is_end;
static uint64_t cap_end;

static void *grow(void *p, uint64_t n, size_t size)
{
    void *bigger = realloc(p, n * size);

    if (bigger == NULL) {
        fprintf(stderr, "explorer: out of memory at %u states\n", n_states);
        exit(1);
    }
    return bigger;
}

uint32_t explore_self(void)
{
    return running;
}

void explore_point(void)
{
    if (swapcontext(&contexts[running], &scheduler) != 0)
        abort();
}

void explore_violate(const char *what)
{
    if (result.violation == NULL)
        result.violation = what;
}

static uint32_t stack_used(uint32_t p)
{
    uintptr_t sp = (uintptr_t)get_register(&contexts[p], SP_INDEX);

    return (uint32_t)((uintptr_t)(stacks[p] + STACK_BYTES) - sp);
}

static struct snapshot *take(void)
{
    size_t bytes = 0;
    struct snapshot *snap;

    for (uint32_t p = 0; p < model->n_processes; p++)
        bytes += explore_shared.life[p] == EXPLORE_RUNS ? stack_used(p) : 0;
    snap = grow(NULL, 1, sizeof(*snap) + bytes);
    memset(snap, 0, sizeof(*snap));
    snap->shared = explore_shared;
    bytes = 0;
    for (uint32_t p = 0; p < model->n_processes; p++) {
        if (explore_shared.life[p] != EXPLORE_RUNS)
            continue;
        snap->used[p] = stack_used(p);
        for (uint32_t i = 0; i < N_KEPT; i++)
            snap->registers[p][i] = get_register(&contexts[p], i);
        memcpy(snap->stack + bytes, stacks[p] + STACK_BYTES - snap->used[p], snap->used[p]);
        bytes += snap->used[p];
    }
    return snap;
}

static void restore(const struct snapshot *snap)
{
    size_t at = 0;

    explore_shared = snap->shared;
    for (uint32_t p = 0; p < model->n_processes; p++) {
        if (snap->used[p] == 0)
            continue;
        for (uint32_t i = 0; i < N_KEPT; i++)
            set_register(&contexts[p], i, snap->registers[p][i]);
        memcpy(stacks[p] + STACK_BYTES - snap->used[p], snap->stack + at, snap->used[p]);
        at += snap->used[p];
    }
}

static void hash_state(const struct snapshot *snap, uint64_t ret[2])
{
    size_t bytes = sizeof(*snap);

    for (uint32_t p = 0; p < EXPLORE_PROCESSES; p++)
        bytes += snap->used[p];
    ret[0] = gs_hash_bytes(snap, bytes, 1);
    ret[1] = gs_hash_bytes(snap, bytes, 2);
}

static void rehash(void)
{
    struct seen *old = seen;
    uint64_t cap_old = cap_seen;

    cap_seen = cap_old == 0 ? 1u << 16 : cap_old * 2;
    seen = calloc(cap_seen, sizeof(*seen));
    if (seen == NULL)
        exit(1);
    for (uint64_t i = 0; i < cap_old; i++) {
        uint64_t at = old[i].h[0] & (cap_seen - 1);

        if (old[i].number == 0)
            continue;
        while (seen[at].number != 0)
            at = (at + 1) & (cap_seen - 1);
        seen[at] = old[i];
    }
    free(old);
}

/** Number of a state, from 1; *ret_new when it was not known. */
static uint32_t number_of(const struct snapshot *snap, bool *ret_new)
{
    uint64_t h[2], at;

    if (2 * (uint64_t)n_states >= cap_seen)
        rehash();
    hash_state(snap, h);
    for (at = h[0] & (cap_seen - 1); seen[at].number != 0; at = (at + 1) & (cap_seen - 1)) {
        if (seen[at].h[0] == h[0] && seen[at].h[1] == h[1]) {
            *ret_new = false;
            return seen[at].number;
        }
    }
    *ret_new = true;
    seen[at] = (struct seen){{h[0], h[1]}, ++n_states};
    return n_states;
}

static void add_edge(uint32_t from, uint32_t to)
{
    if (n_edges == cap_edges) {
        cap_edges = cap_edges == 0 ? 1u << 16 : cap_edges * 2;
        edges = grow(edges, cap_edges, sizeof(*edges));
    }
    edges[n_edges][0] = from;
    edges[n_edges++][1] = to;
}

static void mark_end(uint32_t state)
{
    if (state >= cap_end) {
        uint64_t cap = ((uint64_t)state + 1) * 2;

        is_end = grow(is_end, cap, 1);
        memset(is_end + cap_end, 0, cap - cap_end);
        cap_end = cap;
    }
    is_end[state] = 1;
}

static void entry(void)
{
    model->body(running);
    explore_shared.life[running] = EXPLORE_DONE;
    (void)setcontext(&scheduler);
}

/** One step of p, from the state that is in place. */
static void step(uint32_t p)
{
    running = p;
    if (swapcontext(&scheduler, &contexts[p]) != 0)
        abort();
}

static void start(void)
{
    memset(&explore_shared, 0, sizeof(explore_shared));
    for (uint32_t p = 0; p < EXPLORE_PROCESSES; p++)
        explore_shared.life[p] = p < model->n_processes ? EXPLORE_RUNS : EXPLORE_DONE;
    for (uint32_t p = 0; p < model->n_processes; p++) {
        memset(stacks[p], 0, STACK_BYTES);
        if (getcontext(&contexts[p]) != 0)
            abort();
        contexts[p].uc_stack.ss_sp = stacks[p];
        contexts[p].uc_stack.ss_size = STACK_BYTES;
        contexts[p].uc_link = NULL;
        makecontext(&contexts[p], entry, 0);
        step(p); /* up to its first shared operation: nobody can tell the order */
    }
}

static bool can_move(uint32_t move)
{
    uint32_t p = move % EXPLORE_PROCESSES;

    if (p >= model->n_processes || explore_shared.life[p] != EXPLORE_RUNS)
        return false;
    return move < EXPLORE_PROCESSES || explore_shared.kills < model->max_kills;
}

static void make_move(uint32_t move)
{
    uint32_t p = move % EXPLORE_PROCESSES;

    if (move < EXPLORE_PROCESSES) {
        step(p);
        return;
    }
    explore_shared.kills++;
    explore_shared.life[p] = EXPLORE_DEAD;
    model->killed(p);
}

static void push(struct snapshot *snap, uint32_t state, char move)
{
    if (n_frames == cap_frames) {
        cap_frames = cap_frames == 0 ? 1024 : cap_frames * 2;
        frames = grow(frames, cap_frames, sizeof(*frames));
    }
    frames[n_frames++] = (struct frame){.snap = snap, .state = state, .move = move};
}

static bool is_over(void)
{
    for (uint32_t p = 0; p < model->n_processes; p++) {
        if (explore_shared.life[p] == EXPLORE_RUNS)
            return false;
    }
    return true;
}

static void write_schedule(void)
{
    uint32_t from = n_frames > sizeof(result.schedule) - 1
                        ? n_frames - (uint32_t)sizeof(result.schedule) + 1
                        : 0;
    uint32_t n = 0;

    for (uint32_t i = from; i < n_frames; i++) {
        if (frames[i].move != '\0')
            result.schedule[n++] = frames[i].move;
    }
    result.schedule[n] = '\0';
}

/** Arrive in the state that is in place. */
static void arrive(uint32_t from, char move)
{
    struct snapshot *snap = take();
    bool is_new;
    uint32_t state = number_of(snap, &is_new);

    if (from != 0)
        add_edge(from, state);
    if (!is_new) {
        free(snap);
        return;
    }
    if (is_over()) {
        const char *wrong = model->check_end();

        mark_end(state);
        result.ends++;
        if (wrong != NULL)
            explore_violate(wrong);
    }
    push(snap, state, move);
    if (result.violation != NULL)
        write_schedule();
}

/** States from which no end can be reached, by walking the edges backwards until nothing changes.
 */
static uint64_t count_stuck(void)
{
    uint64_t stuck = 0;
    bool changed = true;

    if (n_states > 0 && n_states >= cap_end) {
        mark_end(n_states);
        is_end[n_states] = 0;
    }
    while (changed) {
        changed = false;
        for (uint64_t i = n_edges; i-- > 0;) {
            if (is_end[edges[i][1]] != 0 && is_end[edges[i][0]] == 0) {
                is_end[edges[i][0]] = 1;
                changed = true;
            }
        }
    }
    for (uint32_t i = 1; i <= n_states; i++)
        stuck += is_end[i] == 0;
    return stuck;
}

static void forget(void)
{
    while (n_frames > 0)
        free(frames[--n_frames].snap);
    free(seen);
    free(is_end);
    seen = NULL;
    is_end = NULL;
    cap_seen = cap_end = n_edges = 0;
    n_states = 0;
}

struct explore_result explore_run(const struct explore_model *m)
{
    model = m;
    memset(&result, 0, sizeof(result));
    start();
    arrive(0, '\0');
    while (n_frames > 0 && result.violation == NULL) {
        struct frame *top = &frames[n_frames - 1];
        uint32_t move = top->next++;

        if (move >= MOVES) {
            free(top->snap);
            n_frames--;
            continue;
        }
        restore(top->snap);
        if (!can_move(move))
            continue;
        make_move(move);
        arrive(top->state,
               (char)((move < EXPLORE_PROCESSES ? '0' : 'a' - (int)EXPLORE_PROCESSES) + (int)move));
    }
    result.states = n_states;
    if (result.violation == NULL)
        result.stuck = count_stuck();
    forget();
    return result;
}
