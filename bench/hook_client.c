/* One measured client of the driver: times one operation and prints one line of numbers.
 *
 * usage: hook_client OP [LIVE] [ITERATIONS]
 *
 *   alloc            cuMemAlloc + cuMemFree of 1 MiB with LIVE other allocations alive:
 *                    "wall_ns cpu_ns slept" a pair; slept: how often it gave the processor away
 *   launch           cuLaunchKernel of an empty kernel: the same, a call
 *   meminfo          cuMemGetInfo: the same, a call
 *   start            from exec to the first allocation: "wall_ns cpu_ns" of the process so far
 *   syscalls         system calls made by ITERATIONS rounds of alloc, free, meminfo, launch after
 *                    warm-up
 *   launch-syscalls  the same of ITERATIONS launches alone
 *
 * With the variable GS_BENCH_GATE set to a descriptor, waits for its end-of-file before measuring,
 * so that many clients start together. The driver is found as programs find it: dlopen, dlsym. */

#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vendors/nvidia/abi/cuda_types.h"

struct driver {
    CUresult (*init)(unsigned int);
    CUresult (*retain)(CUcontext *, CUdevice);
    CUresult (*set)(CUcontext);
    CUresult (*alloc)(CUdeviceptr *, size_t);
    CUresult (*free)(CUdeviceptr);
    CUresult (*info)(size_t *, size_t *);
    CUresult (*load)(CUmodule *, const void *);
    CUresult (*function)(CUfunction *, CUmodule, const char *);
    CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       unsigned, CUstream, void **, void **);
};

/* Enough PTX for a driver to find an entry in it. */
static const char empty_kernel[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                                   ".visible .entry empty()\n{\n\tret;\n}\n";

static volatile sig_atomic_t trapped;

static void check(CUresult rc, const char *what)
{
    if (rc == CUDA_SUCCESS)
        return;
    fprintf(stderr, "hook_client: %s failed with %d\n", what, rc);
    exit(1);
}

static void load_symbol(void *lib, const char *name, void *slot)
{
    void *p = dlsym(lib, name);
    if (!p) {
        fprintf(stderr, "hook_client: the driver lacks %s\n", name);
        exit(1);
    }
    memcpy(slot, &p, sizeof p);
}

static void open_driver(struct driver *d)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        fprintf(stderr, "hook_client: %s\n", dlerror());
        exit(1);
    }
    load_symbol(lib, "cuInit", &d->init);
    load_symbol(lib, "cuDevicePrimaryCtxRetain", &d->retain);
    load_symbol(lib, "cuCtxSetCurrent", &d->set);
    load_symbol(lib, "cuMemAlloc_v2", &d->alloc);
    load_symbol(lib, "cuMemFree_v2", &d->free);
    load_symbol(lib, "cuMemGetInfo_v2", &d->info);
    load_symbol(lib, "cuModuleLoadData", &d->load);
    load_symbol(lib, "cuModuleGetFunction", &d->function);
    load_symbol(lib, "cuLaunchKernel", &d->launch);
    CUcontext ctx;
    check(d->init(0), "cuInit");
    check(d->retain(&ctx, 0), "cuDevicePrimaryCtxRetain");
    check(d->set(ctx), "cuCtxSetCurrent");
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pair(const struct driver *d)
{
    CUdeviceptr p;
    check(d->alloc(&p, 1u << 20), "cuMemAlloc");
    check(d->free(p), "cuMemFree");
}

static CUfunction empty_function(const struct driver *d)
{
    CUmodule module;
    CUfunction f;
    check(d->load(&module, empty_kernel), "cuModuleLoadData");
    check(d->function(&f, module, "empty"), "cuModuleGetFunction");
    return f;
}

enum op { ALLOC, MEMINFO, LAUNCH };

static void once(const struct driver *d, enum op op, CUfunction f)
{
    size_t free_bytes, total;
    if (op == ALLOC)
        pair(d);
    else if (op == MEMINFO)
        check(d->info(&free_bytes, &total), "cuMemGetInfo");
    else
        check(d->launch(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), "cuLaunchKernel");
}

static void wait_for_gate(void)
{
    const char *gate = getenv("GS_BENCH_GATE");
    char c;
    if (gate)
        while (read((int)strtol(gate, NULL, 10), &c, 1) > 0) {
        }
}

/* Under a limit: so long without work that the slice has enough card time at hand for the launches
 * that follow. */
static void rest(void)
{
    struct timespec t = {.tv_nsec = 200000000};
    nanosleep(&t, NULL);
}

static long times_slept(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return use.ru_nvcsw;
}

static void measure(const struct driver *d, enum op op, long live, long iterations)
{
    CUfunction f = op == LAUNCH ? empty_function(d) : NULL;
    for (long i = 0; i < live; i++) {
        CUdeviceptr p;
        check(d->alloc(&p, 4096), "cuMemAlloc (live)");
    }
    for (long i = 0; i < 2000; i++)
        once(d, op, f);
    if (op == LAUNCH) {
        rest();
        for (long i = 0; i < 2000; i++)
            once(d, op, f);
    }
    wait_for_gate();
    long slept = times_slept();
    uint64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID), wall = now_ns(CLOCK_MONOTONIC);
    for (long i = 0; i < iterations; i++)
        once(d, op, f);
    wall = now_ns(CLOCK_MONOTONIC) - wall;
    cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%.2f %.2f %ld\n", (double)wall / (double)iterations, (double)cpu / (double)iterations,
           times_slept() - slept);
}

static void on_trap(int sig)
{
    (void)sig;
    trapped++;
}

/* From here on each system call but write, exit and the return from the handler raises SIGSYS. */
static void trap_system_calls(void)
{
    struct sigaction sa = {.sa_handler = on_trap};
    sigaction(SIGSYS, &sa, NULL);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) != 0) {
        perror("hook_client: seccomp");
        exit(1);
    }
}

static void count_system_calls(const struct driver *d, long iterations, bool launches_only)
{
    CUfunction f = empty_function(d);
    char line[64];
    for (int round = 0; round < 2; round++) {
        if (round == 1) {
            rest();
            trap_system_calls();
        }
        for (long i = 0; i < iterations; i++) {
            once(d, LAUNCH, f);
            if (launches_only)
                continue;
            once(d, ALLOC, f);
            once(d, MEMINFO, f);
        }
    }
    int n = snprintf(line, sizeof line, "%ld\n", (long)trapped);
    (void)!write(STDOUT_FILENO, line, (size_t)n);
    _exit(0);
}

int main(int argc, char **argv)
{
    const char *op = argc > 1 ? argv[1] : "";
    long live = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    long iterations = argc > 3 ? strtol(argv[3], NULL, 10) : 100000;
    struct driver d;
    if (strcmp(op, "start") == 0) {
        uint64_t wall = 0;
        wait_for_gate();
        wall = now_ns(CLOCK_MONOTONIC);
        open_driver(&d);
        pair(&d);
        printf("%llu %llu\n", (unsigned long long)(now_ns(CLOCK_MONOTONIC) - wall),
               (unsigned long long)now_ns(CLOCK_PROCESS_CPUTIME_ID));
        return 0;
    }
    open_driver(&d);
    if (strcmp(op, "syscalls") == 0)
        count_system_calls(&d, iterations, false);
    else if (strcmp(op, "launch-syscalls") == 0)
        count_system_calls(&d, iterations, true);
    else if (strcmp(op, "alloc") == 0)
        measure(&d, ALLOC, live, iterations);
    else if (strcmp(op, "meminfo") == 0)
        measure(&d, MEMINFO, live, iterations);
    else if (strcmp(op, "launch") == 0)
        measure(&d, LAUNCH, live, iterations);
    else {
        fprintf(stderr, "usage: hook_client alloc|launch|meminfo|start|syscalls|launch-syscalls "
                        "[LIVE] [ITERATIONS]\n");
        return 2;
    }
    return 0;
}
