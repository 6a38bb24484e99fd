/* Programs that do not wait for their kernels, or whose kernels are unlike each other: what the
 * limiter must charge all the same. On simulated cards.
 *
 * usage: ways_client WHAT ARGUMENTS... SECONDS
 *
 * - ends HOW KERNEL: process after process: one launch, then copy | query | event | leave | die
 * - moment KERNEL COUNT: so many launches, waits now and then, and a good end
 * - contexts KERNEL: a context for each launch, destroyed at once
 * - unlike LONG_US PERCENT HOW SHORT_US: one kernel, now long, now short, at random: waited for
 * each (sync, poll), in a queue (stream), in batches (host, event, nap); in a queue beside waits
 * that say nothing of it: they fail (failing), or are for an idle context (elsewhere)
 * - streams LONG_US PERCENT HOW SHORT_US: the same on two streams in turn; after each pair the
 * program waits for both (context), or never does (never)
 * - pauses: short kernels in bursts, and nobody waits for them
 * - phases LONG_US: 150 times 20 us, 20 times long, wait for each
 * - graph: a graph of 20 us that is updated to 100 ms, and back
 * - fresh WHAT KERNEL: a graph | a module for each launch, made before and destroyed after it;
 * turns: graphs, 100 of the first kernel, then 4 of the second
 * - many KERNEL: 48 kernels on 48 streams at once
 * - captures KERNEL: two threads launch while the third records; fails where a recording does
 */

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "limiter_load.h"

#define EVENTS 8u
#define QUEUED 16u
#define BATCH  8u
#define MANY   48u

static struct load load = {.blocks = LOAD_BLOCKS};
static uint64_t deadline_ns;
static volatile bool is_over;

static void must(CUresult rc, const char *what)
{
    load_must(rc, what);
}

static void find(const char *name, void *slot)
{
    void *p = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);

    if (p == NULL) {
        (void)fprintf(stderr, "%s: not in the driver\n", name);
        exit(1);
    }
    memcpy(slot, &p, sizeof(p));
}

static void rest_us(uint64_t us)
{
    struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};

    (void)nanosleep(&t, NULL);
}

static void begin(const char *seconds)
{
    deadline_ns = load_now() + (uint64_t)(strtod(seconds, NULL) * 1e9);
}

static bool over(void)
{
    return load_now() >= deadline_ns;
}

static void open_kernels(const char *names)
{
    load_name_kernels(&load, names);
    load_open(&load, 0);
}

/* ---- programs that end ---- */

static void copy_back(void)
{
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*copy)(void *, CUdeviceptr, size_t);
    CUdeviceptr p = 0;
    char bytes[64];

    find("cuMemAlloc_v2", &alloc);
    find("cuMemcpyDtoH_v2", &copy);
    must(alloc(&p, 4096), "cuMemAlloc");
    must(load_launch(&load, 0, NULL), "launch");
    must(copy(bytes, p, sizeof(bytes)), "cuMemcpyDtoH");
}

static void launch_and_end(const char *how)
{
    CUevent event = NULL;

    if (strcmp(how, "copy") == 0) {
        copy_back();
        return;
    }
    must(load.drv.event_new(&event, 0), "cuEventCreate");
    must(load_launch(&load, 0, NULL), "launch");
    must(load.drv.event_record(event, NULL), "cuEventRecord");
    if (strcmp(how, "query") == 0) {
        while (load.drv.stream_query(NULL) == CUDA_ERROR_NOT_READY)
            rest_us(500);
    } else if (strcmp(how, "event") == 0) {
        while (load.drv.event_query(event) == CUDA_ERROR_NOT_READY)
            rest_us(500);
    } else {
        rest_us(load.ns[0] / 1000 + 3000);
        if (strcmp(how, "die") == 0)
            (void)kill(getpid(), SIGKILL);
    }
}

static int ends(const char *how, const char *kernel, const char *seconds)
{
    begin(seconds);
    while (!over()) {
        pid_t pid = fork();
        int status = 0;

        if (pid == 0) {
            (void)execl("/proc/self/exe", "ways_client", "end", how, kernel, (char *)NULL);
            _exit(9);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid ||
            (WIFEXITED(status) && WEXITSTATUS(status) != 0))
            return 1;
    }
    return 0;
}

static int moment(const char *kernel, uint32_t count)
{
    open_kernels(kernel);
    for (uint32_t i = 0; i < count; i++) {
        must(load_launch(&load, 0, NULL), "launch");
        if (i % 10 == 0 || i + 1 == count)
            must(load.drv.stream_sync(NULL), "cuStreamSynchronize");
    }
    return 0;
}

static int contexts(const char *kernel, const char *seconds)
{
    CUresult (*create)(CUcontext *, unsigned, CUdevice);
    CUresult (*destroy)(CUcontext);
    char ptx[256];

    open_kernels(kernel);
    find("cuCtxCreate_v2", &create);
    find("cuCtxDestroy_v2", &destroy);
    begin(seconds);
    (void)snprintf(
        ptx, sizeof(ptx),
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry %s()\n{\n\tret;\n}\n",
        kernel);
    while (!over()) {
        CUcontext context = NULL;
        CUmodule module = NULL;

        must(create(&context, 0, 0), "cuCtxCreate");
        must(load.drv.load(&module, ptx), "cuModuleLoadData");
        must(load.drv.function(&load.fn[0], module, kernel), "cuModuleGetFunction");
        must(load_launch(&load, 0, NULL), "launch");
        must(destroy(context), "cuCtxDestroy");
    }
    return 0;
}

/* ---- kernels that are unlike each other ---- */

/* The simulated card looks up a kernel's length at each launch: it is written over in place. */
static void set_length(uint64_t ns)
{
    char text[16], *at = getenv("GPUSLICE_SIM_KERNEL_NS");

    (void)snprintf(text, sizeof(text), "%010llu", (unsigned long long)ns);
    memcpy(strchr(at, '=') + 1, text, 10);
}

static void open_elastic(void)
{
    (void)setenv("GPUSLICE_SIM_KERNEL_NS", "k20us=0000020000", 1);
    (void)strcpy(load.name[0], "k20us");
    load.n = 1;
    load_open(&load, 0);
}

static void launch_of(uint64_t ns)
{
    set_length(ns);
    must(load_launch(&load, 0, NULL), "launch");
}

static sem_t told;

static void tell(void *user)
{
    (void)user;
    (void)sem_post(&told);
}

static bool is_queue(const char *how)
{
    return strcmp(how, "stream") == 0 || strcmp(how, "failing") == 0 ||
           strcmp(how, "elsewhere") == 0;
}

/* A wait that no context is there for. */
static void fail_to_wait(void)
{
    must(load.drv.set(NULL), "cuCtxSetCurrent");
    if (load.drv.sync_ctx() == CUDA_SUCCESS)
        exit(1);
    must(load.drv.set(load.ctx), "cuCtxSetCurrent");
}

/* A thread that waits for a context in which nothing happens. */
static void *wait_elsewhere(void *unused)
{
    CUresult (*create)(CUcontext *, unsigned, CUdevice);
    CUcontext idle;

    (void)unused;
    find("cuCtxCreate_v2", &create);
    must(create(&idle, 0, 0), "cuCtxCreate");
    while (!over()) {
        must(load.drv.sync_ctx(), "cuCtxSynchronize");
        rest_us(20);
    }
    return NULL;
}

/* How the program learns that what it launched is done. */
static void await_end(const char *how, CUevent event)
{
    if (strcmp(how, "sync") == 0) {
        must(load.drv.stream_sync(NULL), "cuStreamSynchronize");
    } else if (strcmp(how, "poll") == 0) {
        while (load.drv.stream_query(NULL) == CUDA_ERROR_NOT_READY)
            rest_us(50);
    } else if (is_queue(how)) { /* it waits before it uses the event again */
        must(load.drv.event_record(event, NULL), "cuEventRecord");
    } else if (strcmp(how, "host") == 0) {
        must(load.drv.host_func(NULL, tell, NULL), "cuLaunchHostFunc");
        while (sem_wait(&told) != 0)
            ;
    } else if (strcmp(how, "event") == 0) {
        must(load.drv.event_record(event, NULL), "cuEventRecord");
        while (load.drv.event_query(event) == CUDA_ERROR_NOT_READY)
            rest_us(50);
    } else { /* in no way */
        rest_us(200);
    }
}

static int streams(uint64_t long_ns, uint32_t permille, const char *how, uint64_t short_ns,
                   const char *seconds)
{
    bool waits = strcmp(how, "context") == 0;
    uint32_t random = (uint32_t)getpid();
    CUstream stream[2];

    open_elastic();
    for (uint32_t i = 0; i < 2; i++)
        must(load.drv.stream_new(&stream[i], 1), "cuStreamCreate");
    begin(seconds);
    while (!over()) {
        for (uint32_t i = 0; i < 2; i++) {
            random = random * 1103515245u + 12345u;
            set_length((random >> 16) % 1000 < permille ? long_ns : short_ns);
            must(load_launch(&load, 0, stream[i]), "launch");
        }
        if (waits)
            must(load.drv.sync_ctx(), "cuCtxSynchronize");
    }
    return 0;
}

static int unlike(uint64_t long_ns, uint32_t permille, const char *how, uint64_t short_ns,
                  const char *seconds)
{
    bool alone = strcmp(how, "sync") == 0 || strcmp(how, "poll") == 0;
    bool queues = is_queue(how), fails = strcmp(how, "failing") == 0;
    uint32_t batch = alone ? 1 : queues ? QUEUED : BATCH;
    uint32_t n_events = strcmp(how, "elsewhere") == 0 ? 2 : EVENTS;
    CUevent event[EVENTS];
    uint32_t random = (uint32_t)getpid(); /* each process another order */

    open_elastic();
    (void)sem_init(&told, 0, 0);
    for (uint32_t i = 0; i < EVENTS; i++)
        must(load.drv.event_new(&event[i], 0), "cuEventCreate");
    begin(seconds);
    if (strcmp(how, "elsewhere") == 0 &&
        pthread_create(&(pthread_t){0}, NULL, wait_elsewhere, NULL) != 0)
        return 1;
    for (uint32_t n = 0; !over(); n++) {
        if (queues)
            must(load.drv.event_sync(event[n % n_events]), "cuEventSynchronize");
        for (uint32_t i = 0; i < batch; i++) {
            random = random * 1103515245u + 12345u;
            launch_of((random >> 16) % 1000 < permille ? long_ns : short_ns);
            if (fails)
                fail_to_wait();
        }
        await_end(how, event[n % n_events]);
    }
    return 0;
}

static int pauses(const char *seconds)
{
    uint32_t random = 1;

    open_kernels("k20us");
    begin(seconds);
    while (!over()) {
        random = random * 1103515245u + 12345u;
        for (uint32_t i = (random >> 16) % 200; i > 0; i--)
            must(load_launch(&load, 0, NULL), "launch");
        random = random * 1103515245u + 12345u;
        rest_us((random >> 16) % 20000);
    }
    _exit(0);
}

static int phases(uint64_t long_ns, const char *seconds)
{
    open_elastic();
    begin(seconds);
    while (!over()) {
        for (uint32_t i = 0; i < 170 && !over(); i++) {
            launch_of(i < 150 ? 20000 : long_ns);
            must(load.drv.stream_sync(NULL), "cuStreamSynchronize");
        }
    }
    return 0;
}

static CUgraph record(uint32_t kernel, CUstream stream)
{
    CUgraph graph = NULL;

    must(load.drv.capture_begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED), "cuStreamBeginCapture");
    must(load_launch(&load, kernel, stream), "launch");
    must(load.drv.capture_end(stream, &graph), "cuStreamEndCapture");
    return graph;
}

static int graphs(const char *seconds)
{
    CUresult (*update)(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *);
    CUgraphExecUpdateResultInfo info;
    CUgraphExec exec = NULL;
    CUstream stream = NULL;
    CUgraph graph[2];

    open_kernels("k20us,k100ms");
    find("cuGraphExecUpdate_v2", &update);
    must(load.drv.stream_new(&stream, 1), "cuStreamCreate");
    graph[0] = record(0, stream);
    graph[1] = record(1, stream);
    must(load.drv.instantiate(&exec, graph[0], 0), "cuGraphInstantiate");
    begin(seconds);
    for (uint32_t which = 0; !over(); which ^= 1) {
        memset(&info, 0, sizeof(info));
        must(update(exec, graph[which], &info), "cuGraphExecUpdate");
        for (uint32_t i = 0; i < (which == 0 ? 150 : 5) && !over(); i++) {
            must(load.drv.graph_launch(exec, stream), "cuGraphLaunch");
            must(load.drv.stream_sync(stream), "cuStreamSynchronize");
        }
    }
    return 0;
}

static void load_module(CUmodule *module, const char *kernel)
{
    char ptx[256];

    (void)snprintf(
        ptx, sizeof(ptx),
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry %s()\n{\n\tret;\n}\n",
        kernel);
    must(load.drv.load(module, ptx), "cuModuleLoadData");
    must(load.drv.function(&load.fn[0], *module, kernel), "cuModuleGetFunction");
}

static CUresult (*destroy_exec)(CUgraphExec);
static CUresult (*destroy)(CUgraph);
static CUresult (*unload)(CUmodule);

static void launch_fresh_graph(uint32_t kernel, CUstream stream)
{
    CUgraph graph = record(kernel, stream);
    CUgraphExec exec = NULL;

    must(load.drv.instantiate(&exec, graph, 0), "cuGraphInstantiate");
    must(load.drv.graph_launch(exec, stream), "cuGraphLaunch");
    must(load.drv.stream_sync(stream), "cuStreamSynchronize");
    must(destroy_exec(exec), "cuGraphExecDestroy");
    must(destroy(graph), "cuGraphDestroy");
}

static void launch_fresh_module(const char *kernel)
{
    CUmodule module = NULL;

    load_module(&module, kernel);
    must(load_launch(&load, 0, NULL), "launch");
    must(load.drv.stream_sync(NULL), "cuStreamSynchronize");
    must(unload(module), "cuModuleUnload");
}

static int fresh(const char *what, const char *kernel, const char *seconds)
{
    CUstream stream = NULL;

    open_kernels(kernel);
    find("cuGraphExecDestroy", &destroy_exec);
    find("cuGraphDestroy", &destroy);
    find("cuModuleUnload", &unload);
    must(load.drv.stream_new(&stream, 1), "cuStreamCreate");
    begin(seconds);
    for (uint32_t n = 0; !over(); n++) {
        if (strcmp(what, "module") == 0)
            launch_fresh_module(kernel);
        else
            launch_fresh_graph(strcmp(what, "turns") == 0 && n % 104 >= 100, stream);
    }
    return 0;
}

/* ---- launches that do not wait for each other ---- */

static int many(const char *kernel, const char *seconds)
{
    open_kernels(kernel);
    begin(seconds);
    for (uint32_t i = 0; i < MANY && !over(); i++) {
        CUstream stream = NULL;
        CUmodule module = NULL;

        must(load.drv.stream_new(&stream, 1), "cuStreamCreate");
        load_module(&module, kernel);
        must(load_launch(&load, 0, stream), "launch");
    }
    _exit(0); /* whatever is still out */
}

static void *launch_on(void *arg)
{
    CUstream stream = NULL;

    (void)arg;
    must(load.drv.set(load.ctx), "cuCtxSetCurrent");
    must(load.drv.stream_new(&stream, 1), "cuStreamCreate");
    while (!is_over) {
        must(load_launch(&load, 0, stream), "launch");
        rest_us(2000);
    }
    return NULL;
}

static int captures(const char *kernel, const char *seconds)
{
    pthread_t thread[2];
    CUstream stream = NULL;
    uint32_t n = 0;

    open_kernels(kernel);
    begin(seconds);
    for (uint32_t i = 0; i < 2; i++)
        (void)pthread_create(&thread[i], NULL, launch_on, NULL);
    must(load.drv.stream_new(&stream, 1), "cuStreamCreate");
    for (; !over(); n++) {
        CUgraph graph = NULL;

        must(load.drv.capture_begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
        for (uint32_t i = 0; i < 20; i++) {
            must(load_launch(&load, 0, stream), "recorded launch");
            rest_us(100);
        }
        must(load.drv.capture_end(stream, &graph), "cuStreamEndCapture");
    }
    is_over = true;
    (void)printf("%u recorded\n", n);
    (void)fflush(stdout);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    if (strcmp(what, "end") == 0 && argc == 4) {
        open_kernels(argv[3]);
        launch_and_end(argv[2]);
        return 0;
    }
    if (strcmp(what, "ends") == 0 && argc == 5)
        return ends(argv[2], argv[3], argv[4]);
    if (strcmp(what, "contexts") == 0 && argc == 4)
        return contexts(argv[2], argv[3]);
    if (strcmp(what, "unlike") == 0 && argc == 7)
        return unlike(strtoull(argv[2], NULL, 10) * 1000, (uint32_t)(strtod(argv[3], NULL) * 10),
                      argv[4], strtoull(argv[5], NULL, 10) * 1000, argv[6]);
    if (strcmp(what, "streams") == 0 && argc == 7)
        return streams(strtoull(argv[2], NULL, 10) * 1000, (uint32_t)(strtod(argv[3], NULL) * 10),
                       argv[4], strtoull(argv[5], NULL, 10) * 1000, argv[6]);
    if (strcmp(what, "pauses") == 0 && argc == 3)
        return pauses(argv[2]);
    if (strcmp(what, "phases") == 0 && argc == 4)
        return phases(strtoull(argv[2], NULL, 10) * 1000, argv[3]);
    if (strcmp(what, "graph") == 0 && argc == 3)
        return graphs(argv[2]);
    if (strcmp(what, "fresh") == 0 && argc == 5)
        return fresh(argv[2], argv[3], argv[4]);
    if (strcmp(what, "many") == 0 && argc == 4)
        return many(argv[2], argv[3]);
    if (argc == 5 && strcmp(what, "moment") == 0)
        return moment(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
    if (strcmp(what, "captures") == 0 && argc == 4)
        return captures(argv[2], argv[3]);
    (void)fprintf(stderr, "usage: see ways_client.c\n");
    return 2;
}
