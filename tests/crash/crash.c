/* Crash matrix: many processes claim, reserve, release, share and reap on one ledger while they are
 * killed, at every labelled step and at random. A card of the test's own is the witness.
 *
 *     crash [--kills N] [--workers N] [--seed N] [--reader PROGRAM]
 *
 * Checks: the card never holds more than the limit; with all workers at rest the ledger says what
 * the card says, and HAMi's mirror too (--reader: an independent program); at the end everything is
 * zero; no call takes more than 100 ms of its own CPU time or 1 s of wall time. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "contract/env.h"
#include "contract/quota.h"
#include "crash/card.h"
#include "hook/attach.h"
#include "hook/engine.h"
#include "hook/gate.h"
#include "hook/self.h"
#include "hook/share.h"
#include "hook/slot.h"
#include "hook/step.h"

#define MIB         (UINT64_C(1) << 20)
#define LIMIT       (1024 * MIB)
#define HELD_MAX    24u
#define MAX_LABELS  64u
#define CPU_MAX_NS  UINT64_C(100000000)
#define WALL_MAX_NS UINT64_C(1000000000)

const struct gs_hook_vendor gs_hook_vendor = {.name = "test"};

/* Every label in the code; the run fails if one of them never killed anybody. */
static const char *const labels[] = {
    "claim.locked",     "claim.raised",      "claim.owned",        "claim.filled",
    "reserve.before",   "reserve.announced", "reserve.withdrawn",  "reserve.counted",
    "reserve.added",    "reserve.done",      "release.before",     "release.done",
    "share.claimed",    "share.filled",      "share.before_bytes", "share.bytes",
    "share.moved",      "share.live",        "share.joining",      "share.left",
    "share.dying",      "share.zeroed",      "reap.locked",        "reap.share",
    "reap.shares_left", "wipe.pending",      "wipe.held",          "wipe.before_owner",
    "reap.wiped",
};
#define N_LABELS (sizeof(labels) / sizeof(labels[0]))

/** Shared by parent and workers. */
struct arena {
    uint32_t pause; /**< 1: stay at the end of the operation; 2: free everything and exit */
    uint32_t parked;
    uint64_t kills_at[N_LABELS];
    uint64_t max_cpu_ns, max_wall_ns;
    uint64_t granted, refused, published, joined, lost_joins;
    uint64_t errors;
    char first_error[200];
};

static struct arena *arena;
static struct card *card;
static uint64_t rng;
static uint32_t kill_label = N_LABELS, kill_countdown;

static uint64_t next_random(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

static void note_error(const char *what, uint64_t a, uint64_t b)
{
    if (__atomic_fetch_add(&arena->errors, 1, __ATOMIC_SEQ_CST) == 0)
        (void)snprintf(arena->first_error, sizeof(arena->first_error), "%s: %llu, %llu", what,
                       (unsigned long long)a, (unsigned long long)b);
}

static void step(const char *label)
{
    if (next_random() % 16 == 0)
        (void)sched_yield(); /* so that others run while we stand at a step */
    if (kill_label >= N_LABELS || strcmp(label, labels[kill_label]) != 0 || kill_countdown-- > 0)
        return;
    __atomic_fetch_add(&arena->kills_at[kill_label], 1, __ATOMIC_RELAXED);
    (void)syscall(SYS_kill, getpid(), SIGKILL);
}

static void no_step(const char *label)
{
    (void)label;
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void raise_max(uint64_t *max, uint64_t v)
{
    uint64_t old = __atomic_load_n(max, __ATOMIC_RELAXED);

    while (v > old &&
           !__atomic_compare_exchange_n(max, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/** One thing that a worker holds. */
struct holding {
    int object;
    uint64_t serial, bytes;
    uint32_t dev;
    enum gs_charge charge;
    int share;
};

struct worker {
    uint32_t index;
    uint32_t n;
    struct holding held[HELD_MAX];
    uint64_t cpu0, wall0;
};

static void begin(struct worker *w)
{
    w->cpu0 = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    w->wall0 = clock_ns(CLOCK_MONOTONIC);
}

static void end(struct worker *w)
{
    raise_max(&arena->max_cpu_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID) - w->cpu0);
    raise_max(&arena->max_wall_ns, clock_ns(CLOCK_MONOTONIC) - w->wall0);
}

static void do_alloc(struct worker *w)
{
    struct holding *h = &w->held[w->n];
    int rc;

    if (w->n == HELD_MAX)
        return;
    *h = (struct holding){.object = -1, .share = -1};
    h->dev = (uint32_t)(next_random() % CARD_DEVICES);
    h->bytes = (1 + next_random() % 40) * MIB + next_random() % 4096;
    h->charge = next_random() % 8 == 0 ? GS_CHARGE_EXTRA : GS_CHARGE_HELD;
    begin(w);
    rc = gs_gate_reserve(h->dev, h->bytes, h->charge, "crash");
    end(w);
    if (rc == -ENOMEM) {
        __atomic_fetch_add(&arena->refused, 1, __ATOMIC_RELAXED);
        return;
    }
    if (rc != 0) {
        note_error("reserve", (uint64_t)-rc, gs_attach_reason());
        return;
    }
    __atomic_fetch_add(&arena->granted, 1, __ATOMIC_RELAXED);
    if (next_random() % 16 != 0) /* else: the driver refused */
        h->object = card_alloc(card, w->index, h->dev, h->bytes, &h->serial);
    if (h->object < 0) {
        gs_gate_release(h->dev, h->bytes, h->charge);
        return;
    }
    w->n++;
}

static void do_free(struct worker *w)
{
    struct holding h;
    uint32_t at;

    if (w->n == 0)
        return;
    at = (uint32_t)(next_random() % w->n);
    h = w->held[at];
    w->held[at] = w->held[--w->n];
    card_free(card, w->index, h.object);
    begin(w);
    if (h.share >= 0)
        gs_share_leave(h.share);
    else
        gs_gate_release(h.dev, h.bytes, h.charge);
    end(w);
}

static struct gs_share_key key_of(uint64_t serial)
{
    return gs_share_key_of(&serial, sizeof(serial));
}

static void do_publish(struct worker *w)
{
    struct holding *h;
    int id;

    if (w->n == 0)
        return;
    h = &w->held[next_random() % w->n];
    if (h->share >= 0 || h->charge != GS_CHARGE_HELD)
        return;
    begin(w);
    id = gs_share_publish(h->dev, h->bytes, key_of(h->serial));
    end(w);
    if (id < 0) {
        if (id != -ENOSPC)
            note_error("publish", (uint64_t)-id, 0);
        return;
    }
    h->share = id;
    if (gs_share_publish(h->dev, h->bytes, key_of(h->serial)) != id)
        note_error("publish twice", (uint64_t)id, 0);
    card_publish(card, h->object);
    __atomic_fetch_add(&arena->published, 1, __ATOMIC_RELAXED);
}

/** Join before the driver opens, so that the exporter's death in between loses no byte. */
static void do_join(struct worker *w)
{
    struct holding h = {.charge = GS_CHARGE_HELD};

    if (w->n == HELD_MAX)
        return;
    h.object = card_find(card, w->index, next_random(), &h.serial);
    if (h.object < 0)
        return;
    begin(w);
    h.share = gs_share_join(key_of(h.serial));
    end(w);
    if (h.share < 0) {
        __atomic_fetch_add(&arena->lost_joins, 1, __ATOMIC_RELAXED);
        return;
    }
    if (!card_open(card, w->index, h.object, h.serial)) {
        gs_share_leave(h.share);
        return;
    }
    __atomic_fetch_add(&arena->joined, 1, __ATOMIC_RELAXED);
    w->held[w->n++] = h;
}

static void do_query(struct worker *w)
{
    struct gs_slot_use uses[CARD_WORKERS];
    uint32_t dev = (uint32_t)(next_random() % CARD_DEVICES);

    (void)w;
    (void)gs_gate_used(dev);
    if (gs_gate_limit(dev) != LIMIT)
        note_error("limit", gs_gate_limit(dev), LIMIT);
    (void)gs_slot_list(dev, uses, CARD_WORKERS);
}

/** At rest: wait until the parent has compared. 1: go home. */
static int park(struct worker *w)
{
    uint32_t state = __atomic_load_n(&arena->pause, __ATOMIC_ACQUIRE);

    if (state == 0)
        return 0;
    if (state == 2) {
        while (w->n > 0)
            do_free(w);
        return 1;
    }
    __atomic_fetch_add(&arena->parked, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arena->pause, __ATOMIC_ACQUIRE) == 1)
        (void)usleep(1000);
    __atomic_fetch_sub(&arena->parked, 1, __ATOMIC_SEQ_CST);
    return 0;
}

static void worker_main(uint32_t index, uint64_t seed)
{
    struct worker w = {.index = index};
    int rc;

    rng = seed | 1;
    (void)next_random();
    /* two in three die at a label, the others by the parent's hand */
    if (next_random() % 3 != 0) {
        kill_label = (uint32_t)(next_random() % N_LABELS);
        kill_countdown = (uint32_t)(next_random() % 20);
    }
    card_live(card, index);
    gs_step_hook = step;
    gs_attach_forget();
    begin(&w);
    rc = gs_attach();
    end(&w);
    if (rc != 0)
        note_error("attach", gs_attach_reason(), gs_self.reason_arg[0]);
    while (rc == 0 && !park(&w)) {
        uint64_t dice = next_random() % 100;

        if (dice < 40)
            do_alloc(&w);
        else if (dice < 70)
            do_free(&w);
        else if (dice < 82)
            do_publish(&w);
        else if (dice < 97)
            do_join(&w);
        else
            do_query(&w);
    }
    _exit(0);
}

/** The parent's view. */
struct run {
    uint64_t kills, target, seed;
    uint32_t n_workers;
    pid_t pid[CARD_WORKERS];
    char folder[64];
    char ledger[96];
    int to_reader, from_reader;
    pid_t reader;
};

static void spawn(struct run *run, uint32_t w)
{
    uint64_t seed = next_random();

    run->pid[w] = fork();
    if (run->pid[w] == 0)
        worker_main(w, seed);
    if (run->pid[w] < 0) {
        perror("fork");
        exit(1);
    }
}

/** Take in the dead; with `respawn` others follow them. */
static void collect(struct run *run, bool respawn, bool block)
{
    int status;
    pid_t pid = waitpid(-1, &status, block ? 0 : WNOHANG);

    for (; pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
        for (uint32_t w = 0; w < run->n_workers; w++) {
            if (run->pid[w] != pid)
                continue;
            if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
                run->kills++;
            else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                note_error("worker died of", (uint64_t)status, (uint64_t)pid);
            run->pid[w] = 0;
            if (respawn)
                spawn(run, w);
        }
    }
}

static uint32_t n_alive(const struct run *run)
{
    uint32_t n = 0;

    for (uint32_t w = 0; w < run->n_workers; w++)
        n += run->pid[w] > 0;
    return n;
}

static void ask_reader(struct run *run)
{
    char line[128];
    int n;

    if (run->reader <= 0)
        return;
    n = snprintf(line, sizeof(line), "expect %llu %llu\n", (unsigned long long)card->used[0],
                 (unsigned long long)card->used[1]);
    if (write(run->to_reader, line, (size_t)n) != n || read(run->from_reader, line, 3) != 3 ||
        memcmp(line, "ok\n", 3) != 0)
        note_error("HAMi reader disagrees", card->used[0], card->used[1]);
}

/** All workers at rest: ledger = card = mirror. */
static void compare(struct run *run)
{
    /* workers that are due at a label may still die on the way to the end of their operation */
    __atomic_store_n(&arena->pause, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arena->parked, __ATOMIC_SEQ_CST) < n_alive(run)) {
        (void)usleep(2000);
        collect(run, false, false);
    }
    card_sweep(card);
    (void)gs_slot_reap();
    for (uint32_t dev = 0; dev < CARD_DEVICES; dev++) {
        if (gs_gate_used(dev) != card->used[dev])
            note_error("at rest the ledger says other than the card", gs_gate_used(dev),
                       card->used[dev]);
    }
    ask_reader(run);
    __atomic_store_n(&arena->pause, 0, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arena->parked, __ATOMIC_SEQ_CST) > 0)
        (void)usleep(1000);
    for (uint32_t w = 0; w < run->n_workers; w++) {
        if (run->pid[w] == 0)
            spawn(run, w);
    }
}

static void check_zero(void)
{
    const struct gs_self_state *self = &gs_self;

    for (uint32_t dev = 0; dev < CARD_DEVICES; dev++) {
        const struct gs_ledger_device *d = &self->device[dev];

        for (uint32_t i = 0; i < GS_LEDGER_SLOTS; i++) {
            if ((d->pending[i] | d->held[i] | d->extra[i] | d->share_bytes[i]) != 0)
                note_error("not zero at the end: slot", i,
                           d->pending[i] + d->held[i] + d->extra[i]);
        }
        if (card->used[dev] != 0)
            note_error("card not empty", dev, card->used[dev]);
    }
    for (uint32_t i = 0; i < GS_LEDGER_SHARES; i++) {
        if ((self->ledger->share[i].state & 0xff) != GS_SHARE_FREE)
            note_error("share not free", i, self->ledger->share[i].state);
    }
}

static void start_reader(struct run *run, const char *program)
{
    int in[2], out[2];

    if (program == NULL)
        return;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
        perror("pipe");
        exit(1);
    }
    run->reader = fork();
    if (run->reader == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        execlp("python3", "python3", program, run->ledger, "GPU-crash-0", "GPU-crash-1",
               (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    run->to_reader = in[1];
    run->from_reader = out[0];
}

static void make_slice(struct run *run)
{
    struct gs_quota quota = {.generation = 1, .n_devices = CARD_DEVICES};
    char text[1024], path[128];
    FILE *f;
    int n;

    (void)snprintf(run->folder, sizeof(run->folder), "/dev/shm/gpuslice-crash-XXXXXX");
    if (mkdtemp(run->folder) == NULL) {
        perror("mkdtemp");
        exit(1);
    }
    for (uint32_t dev = 0; dev < CARD_DEVICES; dev++) {
        (void)snprintf(quota.device[dev].uuid, sizeof(quota.device[dev].uuid), "GPU-crash-%u", dev);
        quota.device[dev].limit_bytes = LIMIT;
        quota.device[dev].core_pct = 100;
    }
    n = gs_quota_format(&quota, text, sizeof(text));
    (void)snprintf(path, sizeof(path), "%s/%s", run->folder, GS_QUOTA_FILE);
    f = fopen(path, "w");
    if (n < 0 || f == NULL || fwrite(text, 1, (size_t)n, f) != (size_t)n || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
    (void)snprintf(run->ledger, sizeof(run->ledger), "%s/slice.cache", run->folder);
    (void)setenv(GS_ENV_QUOTA_DIR, run->folder, 1);
    (void)setenv(GS_ENV_LEDGER, run->ledger, 1);
}

static void remove_slice(struct run *run)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/%s", run->folder, GS_QUOTA_FILE);
    (void)unlink(path);
    (void)unlink(run->ledger);
    (void)rmdir(run->folder);
}

static void kill_until_done(struct run *run)
{
    uint64_t next_compare = 500;

    while (run->kills < run->target && arena->errors == 0) {
        /* now and then a random kill; most die at their labels */
        uint32_t w = (uint32_t)(next_random() % run->n_workers);

        (void)usleep((useconds_t)(next_random() % 4000));
        if (run->pid[w] > 0)
            (void)kill(run->pid[w], SIGKILL);
        collect(run, true, false);
        if (run->kills >= next_compare) {
            compare(run);
            next_compare += 500;
        }
    }
}

static void finish(struct run *run)
{
    int status;

    compare(run);
    __atomic_store_n(&arena->pause, 2, __ATOMIC_SEQ_CST);
    while (n_alive(run) > 0)
        collect(run, false, true);
    card_sweep(card);
    (void)gs_slot_reap();
    check_zero();
    if (run->reader > 0) {
        ask_reader(run);
        (void)close(run->to_reader);
        if (waitpid(run->reader, &status, 0) != run->reader || status != 0)
            note_error("HAMi reader failed", (uint64_t)status, 0);
    }
    if (card->over != 0)
        note_error("card went over the limit", card->peak[0], card->peak[1]);
    if (arena->max_cpu_ns > CPU_MAX_NS)
        note_error("a call burnt ns of CPU", arena->max_cpu_ns, CPU_MAX_NS);
    if (arena->max_wall_ns > WALL_MAX_NS)
        note_error("a call took ns of wall time", arena->max_wall_ns, WALL_MAX_NS);
    if (run->target >= 5000) {
        for (uint32_t i = 0; i < N_LABELS; i++) {
            if (arena->kills_at[i] == 0)
                note_error(labels[i], 0, 0);
        }
    }
}

static void print_report(const struct run *run, uint64_t started_ns)
{
    printf("crash matrix: %llu kills, %u workers, seed %llu, %.1f s\n",
           (unsigned long long)run->kills, run->n_workers, (unsigned long long)run->seed,
           (double)(clock_ns(CLOCK_MONOTONIC) - started_ns) / 1e9);
    printf(
        "  granted %llu, refused %llu, published %llu, joined %llu, came too late to join %llu\n",
        (unsigned long long)arena->granted, (unsigned long long)arena->refused,
        (unsigned long long)arena->published, (unsigned long long)arena->joined,
        (unsigned long long)arena->lost_joins);
    printf("  card peak %llu and %llu of %llu bytes; longest call %.3f ms CPU, %.3f ms wall\n",
           (unsigned long long)card->peak[0], (unsigned long long)card->peak[1],
           (unsigned long long)LIMIT, (double)arena->max_cpu_ns / 1e6,
           (double)arena->max_wall_ns / 1e6);
    printf("  kills at labels:");
    for (uint32_t i = 0; i < N_LABELS; i++)
        printf(" %s=%llu", labels[i], (unsigned long long)arena->kills_at[i]);
    printf("\n");
    if (arena->errors != 0)
        printf("FAILED: %llu errors, first: %s\n", (unsigned long long)arena->errors,
               arena->first_error);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"kills", required_argument, NULL, 'k'},
                                            {"workers", required_argument, NULL, 'w'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"reader", required_argument, NULL, 'r'},
                                            {NULL, 0, NULL, 0}};
    static struct run run = {.target = 10000, .n_workers = 64, .seed = 1};
    const char *reader = NULL;
    uint64_t started_ns = clock_ns(CLOCK_MONOTONIC);
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case 'k':
            run.target = strtoull(optarg, NULL, 10);
            break;
        case 'w':
            run.n_workers = (uint32_t)strtoul(optarg, NULL, 10);
            break;
        case 's':
            run.seed = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            reader = optarg;
            break;
        default:
            return 2;
        }
    }
    if (run.n_workers == 0 || run.n_workers > CARD_WORKERS)
        return 2;
    rng = run.seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    card = card_new(LIMIT);
    arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make_slice(&run);
    gs_step_hook = no_step;
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that died is an error to report */
    if (gs_attach() != 0) {
        fprintf(stderr, "cannot attach: %s\n", gs_reason_name(gs_attach_reason()));
        return 1;
    }
    start_reader(&run, reader);
    for (uint32_t w = 0; w < run.n_workers; w++)
        spawn(&run, w);
    kill_until_done(&run);
    finish(&run);
    print_report(&run, started_ns);
    remove_slice(&run);
    return arena->errors == 0 ? 0 : 1;
}
