/* All interleavings of the shipped gate (src/hook/gate.c, wipe.c) for two and three processes, with
 * SIGKILL at any step.
 *
 *     gate_model            explore; fails on a violation
 *     gate_model --broken   the gate is built with a known fault: fails unless that is found
 *
 * Witness: `on_card`, which takes the bytes the moment a reserve succeeds and lets go just before
 * the release; a killed process's are gone at once, as the driver's are before its locks. */

#include <stdio.h>
#include <string.h>

#include "core/atomics.h"
#include "core/cleanup.h"
#include "hook/bucket.h"
#include "hook/gate.h"
#include "hook/resize.h"
#include "hook/ring.h"
#include "hook/self.h"
#include "hook/slot.h"
#include "hook/suspend.h"
#include "hook/sys.h"
#include "model/explore.h"

#define LIMIT 10u
#define OPS   2u

/* Words of the shared state. The ledger itself lies outside; its few words that count are kept
 * here. */
enum word {
    W_PENDING = 0,
    W_HELD = 4,
    W_OWNER = 8,
    W_REAPER = 12, /**< who holds the slot's byte as a reaper: process + 1 */
    W_ON_CARD = 16,
    W_SPIN = 20,
    W_GRANTED = 24, /**< bit per operation */
    W_IDLE = 28,
};

struct scenario {
    const char *name;
    uint32_t n;
    uint32_t max_kills;
    uint32_t size[EXPLORE_PROCESSES][OPS]; /**< reserves in order; 0 none */
    bool frees;                            /**< each reserve is released again */
};

static const struct scenario *scenario;
static struct gs_ledger ledger;
static struct gs_ledger_device device;
static struct gs_hami_slot hami[EXPLORE_PROCESSES];
static struct gs_self_state selves[EXPLORE_PROCESSES];
struct gs_self_state *gs_self_shim;

/** Card time is another model's. */
void gs_bucket_bury(uint32_t slot)
{
    (void)slot;
}

/** The state's word for an address of the ledger; -1 for counters that decide nothing. */
static int word_of(const uint64_t *p)
{
    if (p >= device.pending && p < device.pending + EXPLORE_PROCESSES)
        return W_PENDING + (int)(p - device.pending);
    if (p >= device.held && p < device.held + EXPLORE_PROCESSES)
        return W_HELD + (int)(p - device.held);
    for (uint32_t i = 0; i < EXPLORE_PROCESSES; i++) {
        if (p == &ledger.slot[i].owner)
            return W_OWNER + (int)i;
    }
    return -1;
}

/** Only what somebody else may write, or read, at this moment needs a choice before it. */
static void choose(int word, bool is_store)
{
    uint32_t me = explore_self();

    if (is_store || (word != W_PENDING + (int)me && word != W_HELD + (int)me))
        explore_point();
    gs_self_shim = &selves[me];
}

uint64_t gs_shim_load(const uint64_t *p, int order)
{
    int word = word_of(p);

    (void)order;
    if (word < 0)
        return *p; /* slot_high and the like: the same in all states */
    choose(word, false);
    return explore_shared.word[word];
}

void gs_shim_store(uint64_t *p, uint64_t v, int order)
{
    int word = word_of(p);

    (void)order;
    if (word < 0)
        return;
    choose(word, true);
    explore_shared.word[word] = v;
}

uint64_t gs_shim_add(uint64_t *p, uint64_t v, int order)
{
    int word = word_of(p);
    uint64_t old;

    (void)order;
    if (word < 0)
        return 0;
    choose(word, true);
    old = explore_shared.word[word];
    explore_shared.word[word] = old + v;
    return old;
}

uint64_t gs_shim_and(uint64_t *p, uint64_t v, int order);
uint64_t gs_shim_or(uint64_t *p, uint64_t v, int order);
int gs_shim_cas(uint64_t *p, uint64_t *expected, uint64_t desired, int order);

static bool is_dead_unreaped(void)
{
    for (uint32_t i = 0; i < scenario->n; i++) {
        if (explore_shared.life[i] == EXPLORE_DEAD && explore_shared.word[W_OWNER + i] != 0)
            return true;
    }
    return false;
}

/* Time does not exist here: a wait is over when it waits for the dead. Waits for the living end by
 * themselves, or the state is counted as stuck. */
int gs_shim_wait(void)
{
    explore_point();
    gs_self_shim = &selves[explore_self()];
    return !is_dead_unreaped();
}

void gs_ring_log(enum gs_reason reason, uint32_t dev, const char *what, const uint64_t arg[4])
{
    (void)reason, (void)dev, (void)what, (void)arg;
}

/** The byte locks of slot.c, one step each; what is done under them is the shipped gs_slot_wipe. */
/* never called: nothing is announced and nobody is suspended here */
void gs_resize_now(void)
{
}

void gs_suspend_wait(uint32_t dev, const char *what, void (*tick)(uint32_t dev, uint64_t ns))
{
    (void)tick;
    (void)dev;
    (void)what;
}

struct gs_slot_pass gs_slot_reap(void)
{
    struct gs_slot_pass pass = {0, 0};
    uint32_t me = explore_self();

    for (uint32_t i = 0; i < scenario->n; i++) {
        uint64_t *reaper = &explore_shared.word[W_REAPER + i];

        if (i == me)
            continue;
        explore_point();
        if (explore_shared.word[W_OWNER + i] == 0 || explore_shared.life[i] != EXPLORE_DEAD)
            continue;
        if (*reaper != 0) {
            pass.busy++;
            continue;
        }
        *reaper = me + 1;
        gs_self_shim = &selves[me];
        gs_slot_wipe(i);
        pass.reaped++;
        explore_point();
        *reaper = 0;
    }
    gs_self_shim = &selves[me];
    return pass;
}

static uint64_t on_card(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < scenario->n; i++)
        sum += explore_shared.word[W_ON_CARD + i];
    return sum;
}

static void body(uint32_t p)
{
    for (uint32_t op = 0; op < OPS && scenario->size[p][op] != 0; op++) {
        uint32_t bytes = scenario->size[p][op];

        gs_self_shim = &selves[p];
        if (gs_gate_reserve(0, bytes, GS_CHARGE_HELD, "model") != 0)
            continue;
        explore_shared.word[W_GRANTED + p] |= 1u << op;
        explore_shared.word[W_ON_CARD + p] += bytes;
        if (on_card() > LIMIT)
            explore_violate("the card holds more than the limit");
        if (!scenario->frees)
            continue;
        explore_point();
        explore_shared.word[W_ON_CARD + p] -= bytes;
        gs_self_shim = &selves[p];
        gs_gate_release(0, bytes, GS_CHARGE_HELD);
    }
}

static void killed(uint32_t p)
{
    explore_shared.word[W_ON_CARD + p] = 0;
    for (uint32_t i = 0; i < scenario->n; i++) {
        if (explore_shared.word[W_REAPER + i] == p + 1)
            explore_shared.word[W_REAPER + i] = 0; /* the kernel drops its locks */
    }
}

/** Nobody left behind an announcement, books agree with the card, and without kills and frees
 * nobody was refused what would have fitted. */
static const char *check_end(void)
{
    uint64_t sum = on_card();

    for (uint32_t p = 0; p < scenario->n; p++) {
        uint64_t held = explore_shared.word[W_HELD + p];

        if (explore_shared.life[p] == EXPLORE_DEAD)
            continue;
        if (explore_shared.word[W_PENDING + p] != 0)
            return "an announcement was left behind";
        if (held != explore_shared.word[W_ON_CARD + p])
            return "the books differ from the card";
        for (uint32_t op = 0; op < OPS && !scenario->frees && explore_shared.kills == 0; op++) {
            uint32_t bytes = scenario->size[p][op];

            if (bytes != 0 && (explore_shared.word[W_GRANTED + p] >> op & 1) == 0 &&
                sum + bytes <= LIMIT)
                return "refused what would have fitted";
        }
    }
    return NULL;
}

/* The sheet's sizes (docs: hook library, ledger), with and without frees and kills. */
static const struct scenario scenarios[] = {
    {"6+6", 2, 0, {{6}, {6}}, false},
    {"6+6, kills", 2, 1, {{6}, {6}}, false},
    {"6+6, again after freeing", 2, 0, {{6, 6}, {6, 6}}, true},
    {"6+6, again after freeing, kills", 2, 1, {{6, 6}, {6, 6}}, true},
    {"10+10, kills", 2, 1, {{10}, {10}}, false},
    {"6+6+4", 3, 0, {{6}, {6}, {4}}, false},
    {"4+6+6", 3, 0, {{4}, {6}, {6}}, false},
    {"6+5+5", 3, 0, {{6}, {5}, {5}}, false},
    {"10+10+10", 3, 0, {{10}, {10}, {10}}, false},
    {"6+6+4, frees", 3, 0, {{6}, {6}, {4}}, true},
    {"10+10+10, frees", 3, 0, {{10}, {10}, {10}}, true},
    {"6+6+4, a kill", 3, 1, {{6}, {6}, {4}}, false},
    {"6+5+5, a kill", 3, 1, {{6}, {5}, {5}}, false},
    {"10+10+10, two kills", 3, 2, {{10}, {10}, {10}}, false},
    {"6+6+4, frees, a kill", 3, 1, {{6}, {6}, {4}}, true},
};

static void set_up(void)
{
    ledger.head.slot_high = scenario->n;
    for (uint32_t p = 0; p < scenario->n; p++) {
        memset(&selves[p], 0, sizeof(selves[p]));
        selves[p].n_devices = selves[p].n_mapped = 1;
        selves[p].slot = p;
        selves[p].ledger = &ledger;
        selves[p].device = &device;
        selves[p].mirror = &hami[p];
        selves[p].limit_bytes[0] = LIMIT;
        selves[p].state = GS_SELF_READY;
    }
}

static void body_with_owner(uint32_t p)
{
    explore_shared.word[W_OWNER + p] = p + 1;
    body(p);
}

int main(int argc, char **argv)
{
    bool want_broken = argc > 1 && strcmp(argv[1], "--broken") == 0;
    bool found = false;
    uint64_t states = 0;

    for (size_t i = 0; i < GS_ARRAY_LEN(scenarios) && !found; i++) {
        struct explore_model model = {
            .body = body_with_owner, .killed = killed, .check_end = check_end};
        struct explore_result r;

        scenario = &scenarios[i];
        model.n_processes = scenario->n;
        model.max_kills = scenario->max_kills;
        set_up();
        r = explore_run(&model);
        states += r.states;
        found = r.violation != NULL || r.stuck > 0;
        printf("%-32s %9llu states, %6llu ends, %llu stuck%s%s%s%s\n", scenario->name,
               (unsigned long long)r.states, (unsigned long long)r.ends,
               (unsigned long long)r.stuck, r.violation != NULL ? ": " : "",
               r.violation != NULL ? r.violation : "", r.violation != NULL ? "; schedule " : "",
               r.schedule);
        (void)fflush(stdout);
    }
    printf("%llu states in all\n", (unsigned long long)states);
    return found == want_broken ? 0 : 1;
}
