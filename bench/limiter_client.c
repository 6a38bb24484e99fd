/* Load for the limiter: launches kernels of known length in one of the ways programs do, and says
 * how it went in one line of JSON per process.
 *
 * usage: limiter_client [OPTION]...
 *   --kernels LIST    kernel names, k20us,k1ms,...: used in turn, or at random with --bursty
 *   --mode MODE       stream   events behind every batch, two batches outstanding (default)
 *                     graph    the same, a batch being one captured graph
 *                     sync     wait after each launch
 *                     poll     as stream, waiting by cuEventQuery
 *                     callback as stream, told by a host function
 *                     launching-callback   as callback; the host function tries to launch too
 *                     never    wait for nothing, ever
 *   --api NAME        kernel ex coop grid ptsz ex-ptsz
 *   --blocks N        in a grid; without it as many as fill the card, so that kernels do not
 * overlap
 *   --batch N         launches in a batch; default: about 10 ms of them
 *   --bursty SEED     random kernels, random batches, random pauses of the program
 *   --seconds S, --count N   end after so long, or so many launches of a thread
 *   --streams N --threads N --processes N   the default stream, one thread, one process
 *   --requests N --think-us T   N times: think, then a batch and wait for it; latencies are
 * printed, and by how much the card was done later than one that has nothing else to do (late_us;
 * not with sync): it does not contain when this program was woken up
 *   --seed N          of what is random
 *   --device N
 *   --no-events       make none of one's own: for sync, callback and never
 *   --forked-launch   a forked child of a process that uses the driver tries to launch
 *   --until-term      go on until SIGTERM, then report
 *   --own-waits       of the longest launch, leave out what its thread was ready to run and had no
 *                     processor; the longest such time is reported too
 *   --ready FD        write a byte there when the first launch of a process went out
 */

#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "limiter_load.h"

#define THREADS_MAX  256u
#define STREAMS_MAX  16u
#define REQUESTS_MAX 4096u
#define GRAPHS       8u
#define BATCH_NS     10000000u
#define OUTSTANDING  2u

enum mode { STREAM, GRAPH, SYNC, POLL, CALLBACK, LAUNCHING_CALLBACK, NEVER, MODE_COUNT };
static const char *const mode_names[MODE_COUNT] = {
    "stream", "graph", "sync", "poll", "callback", "launching-callback", "never"};
static const char *const api_names[API_COUNT] = {"kernel", "ex", "coop", "grid", "ptsz", "ex-ptsz"};

struct options {
    enum mode mode;
    uint32_t batch, streams, threads, processes, requests;
    uint64_t seconds_ns, count, think_us, seed;
    bool bursty, forked_launch, no_events, until_term, own_waits;
    int device, ready;
};

struct slot {
    CUevent event;
    sem_t told;
    bool used;
    struct worker *worker;
};

struct worker {
    pthread_t thread;
    uint64_t rng, launches, start_ns, end_ns, longest_ns, refused, delay_ns, longest_delay_ns;
    uint64_t due_ns; /* when a card that has nothing else to do would be done */
    int schedstat;
    uint32_t turn; /* of kernels and streams */
    double card_ms;
    CUstream stream[STREAMS_MAX];
    CUgraphExec graph[GRAPHS];
    uint32_t graph_launches[GRAPHS];
    uint64_t graph_ns[GRAPHS];
    uint32_t n_graphs;
    struct slot slot[OUTSTANDING];
    CUevent first, last;
};

static struct options opt = {.streams = 0, .threads = 1, .processes = 1, .ready = -1};
static struct load load = {.blocks = LOAD_BLOCKS};
static uint64_t deadline_ns;
static volatile sig_atomic_t is_told_to_end;
static double wall_us[REQUESTS_MAX], card_us[REQUESTS_MAX], late_us[REQUESTS_MAX];

static uint64_t rnd(struct worker *w, uint64_t n)
{
    w->rng ^= w->rng << 13;
    w->rng ^= w->rng >> 7;
    w->rng ^= w->rng << 17;
    return w->rng % n;
}

static void rest_us(uint64_t us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};

    (void)nanosleep(&t, NULL);
}

static uint32_t next_kernel(struct worker *w)
{
    return opt.bursty ? (uint32_t)rnd(w, load.n) : w->turn++ % load.n;
}

static uint64_t longest_kernel_ns(void)
{
    uint64_t longest = 0;

    for (uint32_t k = 0; k < load.n; k++)
        longest = load.ns[k] > longest ? load.ns[k] : longest;
    return longest;
}

static uint32_t batch_size(struct worker *w)
{
    if (opt.batch != 0)
        return opt.batch;
    if (opt.bursty)
        return 1 + (uint32_t)rnd(w, 8);
    if (load.ns[0] >= BATCH_NS)
        return 1;
    return (uint32_t)(BATCH_NS / load.ns[0]);
}

/* How long the thread has been ready to run without a processor, so far. */
static uint64_t delay_of(const struct worker *w)
{
    char text[96] = "";
    char *end;

    if (!opt.own_waits || pread(w->schedstat, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    (void)strtoull(text, &end, 10);
    return strtoull(end, NULL, 10);
}

static uint64_t before_launch(struct worker *w)
{
    w->delay_ns = delay_of(w);
    return load_now();
}

static void note_launch(struct worker *w, uint64_t before, uint32_t n)
{
    uint64_t took = load_now() - before, delay = delay_of(w) - w->delay_ns;

    if (delay > w->longest_delay_ns)
        w->longest_delay_ns = delay;
    took -= delay < took ? delay : took;
    if (took > w->longest_ns)
        w->longest_ns = took;
    if (w->launches == 0 && opt.ready >= 0)
        (void)!write(opt.ready, "x", 1);
    w->launches += n;
}

static void note_due(struct worker *w, uint64_t before, uint64_t length)
{
    w->due_ns = (before > w->due_ns ? before : w->due_ns) + length;
}

static void launch_one(struct worker *w, CUstream stream)
{
    uint64_t before = before_launch(w);
    uint32_t k = next_kernel(w);

    load_must(load_launch(&load, k, stream), "launch");
    note_due(w, before, load.ns[k]);
    note_launch(w, before, 1);
}

/* A graph is one launch, held as a whole: of a mix it holds no more than the longest kernel's time,
 * so that launches are of the same lengths whatever the mode. */
static void capture(struct worker *w, uint32_t g)
{
    CUgraph graph;
    uint32_t n = 0, wanted = batch_size(w);
    uint64_t left_ns = opt.bursty ? longest_kernel_ns() : UINT64_MAX, total_ns = 0;

    load_must(load.drv.capture_begin(w->stream[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "capture");
    for (; n < wanted; n++) {
        uint32_t k = next_kernel(w);

        if (load.ns[k] > left_ns)
            break;
        left_ns -= load.ns[k];
        total_ns += load.ns[k];
        load_must(load_launch(&load, k, w->stream[0]), "captured launch");
    }
    load_must(load.drv.capture_end(w->stream[0], &graph), "end of capture");
    load_must(load.drv.instantiate(&w->graph[g], graph, 0), "instantiate");
    w->graph_launches[g] = n;
    w->graph_ns[g] = total_ns;
}

/* ---- waiting as the mode has it ---- */

static void on_host(void *user)
{
    struct slot *s = user;

    if (opt.mode == LAUNCHING_CALLBACK &&
        load_launch(&load, 0, s->worker->stream[0]) != CUDA_SUCCESS)
        __atomic_fetch_add(&s->worker->refused, 1, __ATOMIC_RELAXED);
    (void)sem_post(&s->told);
}

static void mark(struct worker *w, struct slot *s, CUstream stream)
{
    s->used = true;
    s->worker = w;
    if (opt.mode == CALLBACK || opt.mode == LAUNCHING_CALLBACK)
        load_must(load.drv.host_func(stream, on_host, s), "cuLaunchHostFunc");
    else
        load_must(load.drv.event_record(s->event, stream), "cuEventRecord");
}

static void await(struct slot *s)
{
    if (!s->used)
        return;
    s->used = false;
    if (opt.mode == CALLBACK || opt.mode == LAUNCHING_CALLBACK) {
        while (sem_wait(&s->told) != 0) {
        }
    } else if (opt.mode == POLL) {
        while (load.drv.event_query(s->event) == CUDA_ERROR_NOT_READY)
            rest_us(100);
    } else {
        load_must(load.drv.event_sync(s->event), "cuEventSynchronize");
    }
}

static void drain(struct worker *w)
{
    for (uint32_t i = 0; i < OUTSTANDING; i++)
        await(&w->slot[i]);
}

/* ---- the load ---- */

static void batch(struct worker *w, CUstream stream)
{
    if (opt.mode == GRAPH) {
        uint32_t g = opt.bursty ? (uint32_t)rnd(w, w->n_graphs) : 0;
        uint64_t before = before_launch(w);

        load_must(load.drv.graph_launch(w->graph[g], stream), "cuGraphLaunch");
        note_due(w, before, w->graph_ns[g]);
        note_launch(w, before, w->graph_launches[g]);
        return;
    }
    for (uint32_t i = batch_size(w); i > 0; i--) {
        launch_one(w, stream);
        if (opt.mode == SYNC)
            load_must(load.drv.stream_sync(stream), "cuStreamSynchronize");
        if (deadline_ns != 0 && (opt.mode == SYNC || opt.mode == NEVER) &&
            load_now() >= deadline_ns)
            return;
    }
}

static bool is_over(const struct worker *w)
{
    if (is_told_to_end != 0 || (opt.count != 0 && w->launches >= opt.count))
        return true;
    return deadline_ns != 0 && load_now() >= deadline_ns;
}

static void churn(struct worker *w)
{
    uint32_t n_streams = opt.streams == 0 ? 1 : opt.streams;

    for (uint64_t i = 0; !is_over(w); i++) {
        CUstream stream = w->stream[i % n_streams];
        struct slot *s = &w->slot[i % OUTSTANDING];

        await(s);
        batch(w, stream);
        if (opt.mode != SYNC && opt.mode != NEVER)
            mark(w, s, stream);
        if (opt.bursty && rnd(w, 4) == 0) {
            drain(w);
            rest_us(rnd(w, 20000));
        }
    }
}

/* Nanoseconds of the card from one event to the other. */
static int64_t between_ns(CUevent from, CUevent to)
{
    float ms = 0;

    load_must(load.drv.event_elapsed(&ms, from, to), "cuEventElapsedTime");
    return (int64_t)((double)ms * 1e6);
}

/* Events are placed on the clock by the one that was stamped soonest after its call: where the card
 * had other things to do all of the time, late_us is too small by what that lasted at least. */
static void serve(struct worker *w)
{
    static int64_t end_ns[REQUESTS_MAX]; /* from w->first on, minus when it was due */
    int64_t first_ns = INT64_MIN;

    for (uint32_t i = 0; i < opt.requests; i++) {
        int64_t start;
        uint64_t before;

        /* uniform 0.5..1.5 of the mean */
        rest_us(opt.think_us / 2 + rnd(w, opt.think_us + 1));
        before = load_now();
        load_must(load.drv.event_record(w->slot[0].event, w->stream[0]), "cuEventRecord");
        batch(w, w->stream[0]);
        load_must(load.drv.event_record(w->slot[1].event, w->stream[0]), "cuEventRecord");
        load_must(load.drv.stream_sync(w->stream[0]), "cuStreamSynchronize");
        wall_us[i] = (double)(load_now() - before) / 1e3;
        card_us[i] = (double)between_ns(w->slot[0].event, w->slot[1].event) / 1e3;
        start = (int64_t)before - between_ns(w->first, w->slot[0].event);
        if (start > first_ns)
            first_ns = start;
        end_ns[i] = between_ns(w->first, w->slot[1].event) - (int64_t)w->due_ns;
    }
    for (uint32_t i = 0; i < opt.requests; i++)
        late_us[i] = (double)(end_ns[i] + first_ns) / 1e3;
}

static void new_event(CUevent *event)
{
    if (!opt.no_events)
        load_must(load.drv.event_new(event, 0), "cuEventCreate");
}

static void prepare(struct worker *w)
{
    for (uint32_t i = 0; i < opt.streams; i++)
        load_must(load.drv.stream_new(&w->stream[i], 1 /* non-blocking */), "cuStreamCreate");
    for (uint32_t i = 0; i < OUTSTANDING; i++) {
        new_event(&w->slot[i].event);
        (void)sem_init(&w->slot[i].told, 0, 0);
    }
    new_event(&w->first);
    new_event(&w->last);
    for (w->n_graphs = 0; opt.mode == GRAPH && w->n_graphs < (opt.bursty ? GRAPHS : 1);)
        capture(w, w->n_graphs++);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    float ms = 0;

    load_must(load.drv.set(load.ctx), "cuCtxSetCurrent");
    w->schedstat = opt.own_waits ? open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC) : -1;
    prepare(w);
    w->start_ns = load_now();
    if (!opt.no_events)
        load_must(load.drv.event_record(w->first, w->stream[0]), "cuEventRecord");
    if (opt.requests != 0)
        serve(w);
    else
        churn(w);
    if (opt.mode == NEVER) {
        w->end_ns = load_now();
        return NULL;
    }
    drain(w);
    if (!opt.no_events)
        load_must(load.drv.event_record(w->last, w->stream[0]), "cuEventRecord");
    load_must(load.drv.sync_ctx(), "cuCtxSynchronize");
    w->end_ns = load_now();
    if (!opt.no_events)
        load_must(load.drv.event_elapsed(&ms, w->first, w->last), "cuEventElapsedTime");
    w->card_ms = (double)ms;
    return NULL;
}

static void print_list(const char *key, const double *v)
{
    printf(",\"%s\":[", key);
    for (uint32_t i = 0; i < opt.requests; i++)
        printf("%s%.1f", i == 0 ? "" : ",", v[i]);
    printf("]");
}

static void print_report(const struct worker *w)
{
    uint64_t launches = 0, fewest = UINT64_MAX, start = UINT64_MAX, end = 0, longest = 0,
             refused = 0, delay = 0;
    struct timespec cpu;

    for (uint32_t i = 0; i < opt.threads; i++) {
        launches += w[i].launches;
        fewest = w[i].launches < fewest ? w[i].launches : fewest;
        refused += w[i].refused;
        start = w[i].start_ns < start ? w[i].start_ns : start;
        end = w[i].end_ns > end ? w[i].end_ns : end;
        longest = w[i].longest_ns > longest ? w[i].longest_ns : longest;
        delay = w[i].longest_delay_ns > delay ? w[i].longest_delay_ns : delay;
    }
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    printf("{\"pid\":%d,\"fewest_of_a_thread\":%llu,\"launches\":%llu,\"start_ns\":%llu,\"end_ns\":"
           "%llu,\"card_ms\":%.3f,"
           "\"longest_launch_ns\":%llu,\"longest_delay_ns\":%llu,\"refused\":%llu,\"cpu_ns\":%llu",
           getpid(), (unsigned long long)fewest, (unsigned long long)launches,
           (unsigned long long)start, (unsigned long long)end, w[0].card_ms,
           (unsigned long long)longest, (unsigned long long)delay, (unsigned long long)refused,
           (unsigned long long)cpu.tv_sec * 1000000000u + (unsigned long long)cpu.tv_nsec);
    if (opt.requests != 0) {
        print_list("wall_us", wall_us);
        print_list("card_us", card_us);
        if (opt.mode != SYNC)
            print_list("late_us", late_us);
    }
    printf("}\n");
    (void)fflush(stdout);
}

/* CUDA does not work in such a child. It must hear so, not hang. */
static void launch_in_child(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        CUresult rc = load_launch(&load, 0, NULL);
        _exit(rc == CUDA_SUCCESS ? 0 : rc == CUDA_ERROR_NOT_INITIALIZED ? 3 : 4);
    }
    (void)waitpid(pid, &status, 0);
    printf("{\"child_status\":%d}\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void on_term(int sig)
{
    (void)sig;
    is_told_to_end = 1;
}

static int run_process(uint32_t index)
{
    static struct worker worker[THREADS_MAX];

    if (opt.until_term)
        (void)signal(SIGTERM, on_term);
    load_open(&load, opt.device);
    if (opt.seconds_ns != 0)
        deadline_ns = load_now() + opt.seconds_ns;
    for (uint32_t i = 0; i < opt.threads; i++) {
        worker[i].rng = (opt.seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + index * 7919u + i * 104729u;
        worker[i].rng |= 1;
    }
    if (opt.forked_launch)
        launch_in_child();
    for (uint32_t i = 1; i < opt.threads; i++)
        if (pthread_create(&worker[i].thread, NULL, work, &worker[i]) != 0)
            return 1;
    (void)work(&worker[0]);
    for (uint32_t i = 1; i < opt.threads; i++)
        (void)pthread_join(worker[i].thread, NULL);
    print_report(worker);
    if (opt.mode == NEVER)
        _exit(0);
    return 0;
}

/* ---- options ---- */

static uint32_t name_index(const char *name, const char *const *names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    (void)fprintf(stderr, "limiter_client: what is '%s'?\n", name);
    exit(2);
}

static uint32_t small(const char *text, uint32_t max)
{
    unsigned long n = strtoul(text, NULL, 10);

    return n > max ? max : (uint32_t)n;
}

static void take_option(int c, const char *text)
{
    switch (c) {
    case 'k':
        load_name_kernels(&load, text);
        return;
    case 'm':
        opt.mode = (enum mode)name_index(text, mode_names, MODE_COUNT);
        return;
    case 'a':
        load.api = (enum load_api)name_index(text, api_names, API_COUNT);
        return;
    case 'y':
        opt.bursty = true;
        opt.seed = strtoull(text, NULL, 10);
        return;
    case 'r':
        opt.seed = strtoull(text, NULL, 10);
        return;
    case 's':
        opt.seconds_ns = (uint64_t)(strtod(text, NULL) * 1e9);
        return;
    case 'c':
        opt.count = strtoull(text, NULL, 10);
        return;
    case 't':
        opt.think_us = strtoull(text, NULL, 10);
        return;
    case 'u':
        opt.until_term = true;
        return;
    case 'w':
        opt.own_waits = true;
        return;
    case 'n':
        opt.no_events = true;
        return;
    case 'f':
        opt.forked_launch = true;
        return;
    case 'd':
        opt.device = (int)small(text, 63);
        return;
    case 'e':
        opt.ready = (int)small(text, 1023);
        return;
    default:
        exit(2);
    }
}

static void take_size(int c, const char *text)
{
    switch (c) {
    case 'b':
        opt.batch = small(text, 100000);
        return;
    case 'G':
        load.blocks = small(text, 1u << 20);
        return;
    case 'S':
        opt.streams = small(text, STREAMS_MAX);
        return;
    case 'T':
        opt.threads = small(text, THREADS_MAX);
        return;
    case 'P':
        opt.processes = small(text, 256);
        return;
    case 'R':
        opt.requests = small(text, REQUESTS_MAX);
        return;
    default:
        take_option(c, text);
    }
}

static const struct option options[] = {
    {"kernels", 1, NULL, 'k'},   {"mode", 1, NULL, 'm'},          {"api", 1, NULL, 'a'},
    {"batch", 1, NULL, 'b'},     {"bursty", 1, NULL, 'y'},        {"seconds", 1, NULL, 's'},
    {"count", 1, NULL, 'c'},     {"streams", 1, NULL, 'S'},       {"threads", 1, NULL, 'T'},
    {"processes", 1, NULL, 'P'}, {"requests", 1, NULL, 'R'},      {"think-us", 1, NULL, 't'},
    {"device", 1, NULL, 'd'},    {"forked-launch", 0, NULL, 'f'}, {"ready", 1, NULL, 'e'},
    {"blocks", 1, NULL, 'G'},    {"no-events", 0, NULL, 'n'},     {"until-term", 0, NULL, 'u'},
    {"own-waits", 0, NULL, 'w'}, {"seed", 1, NULL, 'r'},          {NULL, 0, NULL, 0}};

static int run_all(void)
{
    int rc = 0, status;

    for (uint32_t i = 0; i < opt.processes; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(run_process(i));
        }
        rc |= pid < 0;
    }
    while (wait(&status) > 0)
        rc |= status != 0;
    return rc;
}

int main(int argc, char **argv)
{
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        take_size(c, optarg);
    if (load.n == 0)
        load_name_kernels(&load, "k1ms");
    /* A graph is captured from a stream of one's own: the default stream cannot be. */
    if (opt.mode == GRAPH && opt.streams == 0)
        opt.streams = 1;
    if (opt.threads == 0 || opt.processes == 0 || (opt.requests != 0 && opt.threads > 1)) {
        (void)fprintf(stderr,
                      "limiter_client: at least one thread and process; requests need one\n");
        return 2;
    }
    return opt.processes == 1 ? run_process(0) : run_all();
}
