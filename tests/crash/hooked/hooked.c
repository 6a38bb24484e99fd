/* Crash matrix of whole programs: CUDA processes under the hook on simulated cards are killed at
 * every labelled step of the ledger and at random. The cards are the witness.
 *
 *     hooked --worker PROGRAM --hook LIBVGPU --sim FOLDER --ctl GPUSLICE-SIM
 *            [--kills N] [--workers N] [--seed N] [--seconds N] [--overhead SIZE]
 *            [--reader PROGRAM]
 *
 * Checks: the slice's own peak on each card, contexts included, never exceeds the limit; with all
 * workers at rest the ledger says what the card says, and HAMi's mirror too; with everything given
 * back both are zero; no driver call takes more than 100 ms of its own CPU time or 1 s of wall
 * time. Of wall time, what the thread was ready to run and had no processor is left out, and the
 * longest such wait of any worker is allowed for on top: a peer that holds a lock may stand in it.
 */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "contract/env.h"
#include "contract/ledger.h"
#include "contract/quota.h"
#include "crash/hooked/arena.h"

#define CPU_MAX_NS  UINT64_C(100000000)
#define WALL_MAX_NS UINT64_C(1000000000)
#define REST_EVERY  250u /* kills between two rests */
#define PATIENCE_NS UINT64_C(3000000000)
#define NO_LABEL    UINT32_MAX

extern char **environ;

/* Every label that a worker can pass, and how often at most before it dies there: rare ones die
 * early. */
static const struct label {
    const char *name;
    uint32_t passes;
} labels[] = {
    {"claim.locked", 1},      {"claim.raised", 1},     {"claim.owned", 1},
    {"claim.filled", 1},      {"reserve.before", 25},  {"reserve.announced", 25},
    {"reserve.withdrawn", 3}, {"reserve.counted", 25}, {"reserve.added", 25},
    {"reserve.done", 25},     {"release.before", 25},  {"release.done", 25},
    {"share.claimed", 3},     {"share.filled", 3},     {"share.before_bytes", 3},
    {"share.bytes", 3},       {"share.moved", 3},      {"share.live", 3},
    {"share.joining", 3},     {"share.left", 3},       {"share.dying", 3},
    {"share.zeroed", 3},      {"reap.locked", 2},      {"reap.share", 20},
    {"reap.shares_left", 1},  {"wipe.pending", 1},     {"wipe.held", 1},
    {"wipe.before_owner", 1}, {"reap.wiped", 1},
};
#define N_LABELS (sizeof(labels) / sizeof(labels[0]))

/* Passed once in a slice: by whoever makes the ledger's file, and by who learns what a context
 * costs. */
static const char *const once[] = {"create.locked", "create.allocated", "create.filled",
                                   "create.done", "learn.turn"};
#define N_ONCE (sizeof(once) / sizeof(once[0]))

struct child {
    pid_t pid;
    uint32_t label; /* NO_LABEL: dies by our hand */
    bool shot;      /* by us */
    uint64_t born_ns;
};

struct run {
    uint64_t target, seed, kills, random_kills, starts, rests;
    uint64_t kills_at[N_LABELS];
    uint32_t n_workers, next_label;
    uint64_t started_ns, deadline_ns;
    const char *worker, *hook, *sim, *ctl, *reader, *overhead;
    char folder[64], arena_path[96], ledger[96];
    char uuid[ARENA_CARDS][48];
    uint64_t used[ARENA_CARDS], peak[ARENA_CARDS]; /* as the cards last said */
    unsigned long long repairs, reaped;
    struct child child[ARENA_WORKERS];
    int to_reader, from_reader;
    pid_t reader_pid;
};

static struct run run = {.target = 1500, .n_workers = ARENA_WORKERS, .seed = 1, .overhead = "3Mi"};
static struct arena *arena;
static uint64_t rng;

static uint64_t rnd(uint64_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng % n;
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void give_up(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- what the cards say ---- */

/* The number after `key` at or after *at; moves *at behind it. */
static uint64_t number_after(const char **at, const char *key)
{
    const char *p = *at == NULL ? NULL : strstr(*at, key);

    if (p == NULL) {
        arena_fail(arena, "gpuslice-sim status says nothing of", 0, 0);
        return 0;
    }
    *at = p + strlen(key);
    return strtoull(*at, NULL, 10);
}

static void read_uuids(const char *text)
{
    const char *key = "\"uuid\":\"";

    for (uint32_t i = 0; i < ARENA_CARDS; i++) {
        text = strstr(text, key);
        if (text == NULL) {
            fputs("no cards\n", stderr);
            exit(1);
        }
        text += strlen(key);
        (void)snprintf(run.uuid[i], sizeof(run.uuid[i]), "%.*s", (int)strcspn(text, "\""), text);
    }
}

/* Run `gpuslice-sim status --json`; it frees what the dead held first. */
static void ask_cards(void)
{
    static char text[256 * 1024];
    char command[600];
    const char *at;
    FILE *f;
    size_t n;

    (void)snprintf(command, sizeof(command), "'%s' status --json", run.ctl);
    f = popen(command, "r");
    if (f == NULL)
        give_up("gpuslice-sim");
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    if (pclose(f) != 0)
        give_up("gpuslice-sim");
    if (run.uuid[0][0] == '\0') {
        read_uuids(text);
        return;
    }
    at = strstr(text, "{\"name\":\"" ARENA_GROUP "\"");
    for (uint32_t i = 0; i < ARENA_CARDS; i++) {
        run.used[i] = number_after(&at, "\"used_bytes\":");
        run.peak[i] = number_after(&at, "\"peak_bytes\":");
        if (run.peak[i] > ARENA_LIMIT)
            arena_fail(arena, "the card's peak exceeds the limit", (int64_t)run.peak[i],
                       (int64_t)ARENA_LIMIT);
    }
    run.reaped = number_after(&at, "\"reaped\":");
    run.repairs = number_after(&at, "\"repairs\":");
}

/* ---- workers ---- */

static char **environment(const char *kill_at)
{
    static char *env[512];
    static char preload[600], label[64];
    size_t n = 0;

    for (char **e = environ; *e != NULL && n < 500; e++)
        if (strncmp(*e, "LD_PRELOAD=", 11) != 0)
            env[n++] = *e;
    (void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", run.hook);
    env[n++] = preload;
    if (kill_at != NULL) {
        (void)snprintf(label, sizeof(label), "GPUSLICE_KILL_AT=%s", kill_at);
        env[n++] = label;
    }
    env[n] = NULL;
    return env;
}

static pid_t start_worker(uint32_t index, const char *how, const char *kill_at)
{
    char number[16], seed[24];
    char *argv[] = {
        (char *)(uintptr_t)run.worker, run.arena_path, number, seed, (char *)(uintptr_t)how, NULL};
    pid_t pid;
    int rc;

    (void)snprintf(number, sizeof(number), "%u", index);
    (void)snprintf(seed, sizeof(seed), "%llu", (unsigned long long)rnd(UINT64_MAX));
    rc = posix_spawn(&pid, run.worker, NULL, NULL, argv, environment(kill_at));
    if (rc != 0) {
        errno = rc;
        give_up(run.worker);
    }
    run.starts++;
    return pid;
}

static void spawn(uint32_t w)
{
    struct child *c = &run.child[w];
    char kill_at[64];

    *c = (struct child){.label = NO_LABEL, .born_ns = now_ns()};
    /* two in three die at a label, the others, who export descriptors, by our hand */
    if (w % 3 != 0) {
        c->label = run.next_label++ % N_LABELS;
        (void)snprintf(kill_at, sizeof(kill_at), "%s:%u", labels[c->label].name,
                       1 + (unsigned)rnd(labels[c->label].passes));
    }
    c->pid =
        start_worker(w, c->label == NO_LABEL ? "1" : "0", c->label == NO_LABEL ? NULL : kill_at);
}

static void bury(uint32_t w, int status)
{
    struct child *c = &run.child[w];

    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        run.kills++;
        if (c->shot)
            run.random_kills++;
        else if (c->label != NO_LABEL)
            run.kills_at[c->label]++;
        else
            arena_fail(arena, "killed by somebody else", c->pid, 0);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        arena_fail(arena, "worker died of", status, c->pid);
    }
    c->pid = 0;
}

/* Take in the dead; with `again` others follow them. */
static void collect(bool again)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (uint32_t w = 0; w < run.n_workers; w++) {
            if (run.child[w].pid != pid)
                continue;
            bury(w, status);
            if (again)
                spawn(w);
        }
    }
}

static uint32_t n_alive(void)
{
    uint32_t n = 0;

    for (uint32_t w = 0; w < run.n_workers; w++)
        n += run.child[w].pid > 0;
    return n;
}

static void shoot(uint32_t w)
{
    struct child *c = &run.child[w];

    /* one that is to die at a label gets its time to come there */
    if (c->pid <= 0 || c->shot || (c->label != NO_LABEL && now_ns() - c->born_ns < PATIENCE_NS))
        return;
    arena_lock(&arena->offer[w]);
    c->shot = kill(c->pid, SIGKILL) == 0;
    arena_unlock(&arena->offer[w]);
}

/* A process that attaches and so frees the slots of the dead; it must end well. */
static void visit(void)
{
    int status = -1;
    pid_t pid = start_worker(0, "visit", NULL);

    if (waitpid(pid, &status, 0) != pid || status != 0)
        arena_fail(arena, "visitor", status, 0);
}

/* ---- rests ---- */

static void ask_reader(void)
{
    char line[128];
    int n;

    if (run.reader_pid <= 0)
        return;
    n = snprintf(line, sizeof(line), "expect %llu %llu\n", (unsigned long long)run.used[0],
                 (unsigned long long)run.used[1]);
    if (write(run.to_reader, line, (size_t)n) != n || read(run.from_reader, line, 3) != 3 ||
        memcmp(line, "ok\n", 3) != 0)
        arena_fail(arena, "HAMi reader disagrees", (int64_t)run.used[0], (int64_t)run.used[1]);
}

/* Nobody moves: ledger = card = mirror. */
static void compare(const char *when)
{
    static struct gs_ledger_snapshot snapshot;
    int fd, rc;

    visit();
    ask_cards();
    fd = open(run.ledger, O_RDONLY | O_CLOEXEC);
    rc = fd < 0 ? -errno : gs_ledger_read(fd, &snapshot);
    if (fd >= 0)
        (void)close(fd);
    if (rc != 0) {
        arena_fail(arena, "ledger unreadable", rc, 0);
        return;
    }
    for (uint32_t i = 0; i < ARENA_CARDS; i++) {
        uint64_t books = snapshot.device[i].used_bytes + snapshot.device[i].dead_bytes;

        if (books != run.used[i])
            arena_fail(arena, when, (int64_t)books, (int64_t)run.used[i]);
    }
    ask_reader();
}

/* Wait until all that live stand still; those due at a label may still die on the way. */
static void halt(enum arena_phase phase)
{
    uint64_t give_up_ns = now_ns() + 60 * WALL_MAX_NS;

    __atomic_store_n(&arena->phase, phase, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arena->parked, __ATOMIC_SEQ_CST) < n_alive() && arena->errors == 0) {
        (void)usleep(2000);
        collect(false);
        if (now_ns() > give_up_ns)
            arena_fail(arena, "workers do not come to rest", arena->parked, n_alive());
    }
}

static void resume(enum arena_phase phase)
{
    __atomic_store_n(&arena->phase, phase, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arena->parked, __ATOMIC_SEQ_CST) > 0)
        (void)usleep(1000);
}

static void rest(void)
{
    halt(ARENA_REST);
    if (arena->errors == 0)
        compare("at rest the ledger says other than the card");
    run.rests++;
    resume(ARENA_RUN);
    for (uint32_t w = 0; w < run.n_workers; w++)
        if (run.child[w].pid == 0)
            spawn(w);
}

static void finish(void)
{
    int status;

    rest();
    halt(ARENA_EMPTY);
    if (arena->errors == 0)
        compare("emptied, the ledger says other than the card");
    if (run.used[0] + run.used[1] != 0)
        arena_fail(arena, "not zero at the end", (int64_t)run.used[0], (int64_t)run.used[1]);
    resume(ARENA_LEAVE);
    while (n_alive() > 0 && arena->errors == 0) {
        (void)usleep(2000);
        collect(false);
    }
    if (arena->errors == 0)
        compare("with all gone the ledger says other than the card");
    if (run.reader_pid > 0) {
        (void)close(run.to_reader);
        if (waitpid(run.reader_pid, &status, 0) != run.reader_pid || status != 0)
            arena_fail(arena, "HAMi reader failed", status, 0);
    }
    if (arena->cpu.ns > CPU_MAX_NS)
        arena_fail(arena, arena->cpu.call, (int64_t)arena->cpu.ns, (int64_t)CPU_MAX_NS);
    /* who has what we wait for may be without a processor himself */
    if (arena->waited.ns > WALL_MAX_NS + arena->delay.ns)
        arena_fail(arena, arena->waited.call, (int64_t)arena->waited.ns, (int64_t)WALL_MAX_NS);
    for (uint32_t i = 0; i < N_LABELS && run.target >= 1000; i++)
        if (run.kills_at[i] == 0)
            arena_fail(arena, labels[i].name, 0, 0);
}

/* ---- setup ---- */

static void make_arena(void)
{
    pthread_mutexattr_t attr;
    int fd;

    (void)snprintf(run.arena_path, sizeof(run.arena_path), "%s/arena", run.folder);
    fd = open(run.arena_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)sizeof(*arena)) != 0)
        give_up(run.arena_path);
    arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (arena == MAP_FAILED)
        give_up("mmap");
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    for (uint32_t i = 0; i < ARENA_WORKERS; i++) {
        arena->offer[i].fd = -1;
        (void)pthread_mutex_init(&arena->offer[i].lock, &attr);
    }
}

static void set_environment(void)
{
    (void)snprintf(run.ledger, sizeof(run.ledger), "%s/slice.cache", run.folder);
    (void)setenv(GS_ENV_QUOTA_DIR, run.folder, 1);
    (void)setenv(GS_ENV_LEDGER, run.ledger, 1);
    (void)setenv("LD_LIBRARY_PATH", run.sim, 1);
    (void)setenv("GPUSLICE_SIM_DIR", run.folder, 1);
    (void)setenv("GPUSLICE_SIM_CARDS", "2", 1);
    (void)setenv("GPUSLICE_SIM_MEMORY", "4Gi", 1);
    (void)setenv("GPUSLICE_SIM_OVERHEAD", run.overhead, 1);
    (void)setenv("GPUSLICE_SIM_MODE", "zero-cost", 1);
    (void)setenv("GPUSLICE_SIM_GROUP", ARENA_GROUP, 1);
    (void)setenv("GPUSLICE_STEP_YIELD", "1", 1);
    (void)unsetenv("GPUSLICE_SIM_GRANULARITY");
    (void)unsetenv("CUDA_VISIBLE_DEVICES");
}

static void write_quota(void)
{
    struct gs_quota quota = {.generation = 1, .n_devices = ARENA_CARDS};
    char text[1024], path[128];
    FILE *f;
    int n;

    for (uint32_t i = 0; i < ARENA_CARDS; i++) {
        (void)snprintf(quota.device[i].uuid, sizeof(quota.device[i].uuid), "%s", run.uuid[i]);
        quota.device[i].limit_bytes = ARENA_LIMIT;
        quota.device[i].core_pct = 100;
    }
    n = gs_quota_format(&quota, text, sizeof(text));
    (void)snprintf(path, sizeof(path), "%s/%s", run.folder, GS_QUOTA_FILE);
    f = fopen(path, "w");
    if (n < 0 || f == NULL || fwrite(text, 1, (size_t)n, f) != (size_t)n || fclose(f) != 0)
        give_up(path);
}

static void start_reader(void)
{
    int in[2], out[2];

    if (run.reader == NULL)
        return;
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        give_up("pipe");
    run.reader_pid = fork();
    if (run.reader_pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        (void)unsetenv("LD_LIBRARY_PATH");
        execlp("python3", "python3", run.reader, run.ledger, run.uuid[0], run.uuid[1],
               (char *)NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    run.to_reader = in[1];
    run.from_reader = out[0];
}

/* One process dies at each step that a slice passes once, and the next one takes over. */
static void kill_first_ones(void)
{
    for (size_t i = 0; i < N_ONCE; i++) {
        int status = 0;
        bool learns = strncmp(once[i], "learn", 5) == 0;
        pid_t pid = start_worker(0, learns ? "0" : "visit", once[i]);

        if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            arena_fail(arena, once[i], status, 0);
        run.kills++;
    }
    visit();
}

static void remove_folder(void)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", run.folder);
    if (system(command) != 0)
        perror(run.folder);
}

/* ---- the run ---- */

static void kill_until_done(void)
{
    uint64_t next_rest = REST_EVERY;

    while (run.kills < run.target && arena->errors == 0 &&
           (run.deadline_ns == 0 || now_ns() < run.deadline_ns)) {
        (void)usleep((useconds_t)rnd(20000));
        shoot((uint32_t)rnd(run.n_workers));
        collect(true);
        if (run.kills >= next_rest) {
            rest();
            next_rest = run.kills + REST_EVERY;
        }
    }
}

static void print_worst(const char *what, const struct arena_worst *worst)
{
    printf("  longest call, %s: %.3f ms in %.47s\n", what, (double)worst->ns / 1e6, worst->call);
}

static void print_report(void)
{
    printf("hooked crash matrix: %llu kills (%llu at random), %u workers, %llu starts, %llu rests, "
           "seed %llu, %.1f s\n",
           (unsigned long long)run.kills, (unsigned long long)run.random_kills, run.n_workers,
           (unsigned long long)run.starts, (unsigned long long)run.rests,
           (unsigned long long)run.seed, (double)(now_ns() - run.started_ns) / 1e9);
    printf("  %llu calls: granted %llu, refused %llu, contexts %llu, opened %llu, imported %llu, "
           "exporter gone %llu, descriptor not to be had %llu\n",
           (unsigned long long)arena->calls, (unsigned long long)arena->granted,
           (unsigned long long)arena->refused, (unsigned long long)arena->contexts,
           (unsigned long long)arena->opened, (unsigned long long)arena->imported,
           (unsigned long long)arena->came_late, (unsigned long long)arena->no_import);
    printf("  peaks on the cards %llu and %llu of %llu bytes; the cards freed %llu dead, repaired "
           "%llu times\n",
           (unsigned long long)run.peak[0], (unsigned long long)run.peak[1],
           (unsigned long long)ARENA_LIMIT, run.reaped, run.repairs);
    print_worst("CPU", &arena->cpu);
    print_worst("wall without time off the processor", &arena->waited);
    print_worst("wall", &arena->wall);
    print_worst("time off the processor", &arena->delay);
    printf("  kills at labels:");
    for (uint32_t i = 0; i < N_LABELS; i++)
        printf(" %s=%llu", labels[i].name, (unsigned long long)run.kills_at[i]);
    for (size_t i = 0; i < N_ONCE; i++)
        printf(" %s=1", once[i]);
    printf("\n");
    if (arena->errors != 0)
        printf("FAILED: %llu errors, first: %s\n", (unsigned long long)arena->errors,
               arena->first_error);
}

static int parse(int argc, char **argv)
{
    static const struct option options[] = {{"kills", required_argument, NULL, 'k'},
                                            {"workers", required_argument, NULL, 'w'},
                                            {"seed", required_argument, NULL, 's'},
                                            {"seconds", required_argument, NULL, 't'},
                                            {"reader", required_argument, NULL, 'r'},
                                            {"worker", required_argument, NULL, 'p'},
                                            {"hook", required_argument, NULL, 'h'},
                                            {"sim", required_argument, NULL, 'l'},
                                            {"ctl", required_argument, NULL, 'c'},
                                            {"overhead", required_argument, NULL, 'o'},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (c == 'k')
            run.target = strtoull(optarg, NULL, 10);
        else if (c == 'w')
            run.n_workers = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 's')
            run.seed = strtoull(optarg, NULL, 10);
        else if (c == 't')
            run.deadline_ns = strtoull(optarg, NULL, 10) * WALL_MAX_NS;
        else if (c == 'r')
            run.reader = optarg;
        else if (c == 'p')
            run.worker = optarg;
        else if (c == 'h')
            run.hook = optarg;
        else if (c == 'l')
            run.sim = optarg;
        else if (c == 'c')
            run.ctl = optarg;
        else if (c == 'o')
            run.overhead = optarg;
        else
            return -1;
    }
    return run.worker != NULL && run.hook != NULL && run.sim != NULL && run.ctl != NULL &&
                   run.n_workers > 0 && run.n_workers <= ARENA_WORKERS
               ? 0
               : -1;
}

int main(int argc, char **argv)
{
    if (parse(argc, argv) != 0)
        return 2;
    rng = run.seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    run.started_ns = now_ns();
    if (run.deadline_ns != 0)
        run.deadline_ns += run.started_ns;
    (void)signal(SIGPIPE, SIG_IGN); /* a reader that died is an error to report */
    (void)snprintf(run.folder, sizeof(run.folder), "/dev/shm/gpuslice-hooked-XXXXXX");
    if (mkdtemp(run.folder) == NULL)
        give_up("mkdtemp");
    make_arena();
    set_environment();
    ask_cards();
    write_quota();
    kill_first_ones();
    start_reader();
    for (uint32_t w = 0; w < run.n_workers && arena->errors == 0; w++)
        spawn(w);
    kill_until_done();
    if (arena->errors == 0)
        finish();
    for (uint32_t w = 0; w < run.n_workers; w++)
        if (run.child[w].pid > 0)
            (void)kill(run.child[w].pid, SIGKILL);
    print_report();
    remove_folder();
    return arena->errors == 0 ? 0 : 1;
}
