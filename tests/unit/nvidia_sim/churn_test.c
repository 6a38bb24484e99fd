/* The simulated driver under many threads, many processes, and kills at any moment. */

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/sim.h"

#define MIB      ((size_t)1 << 20)
#define LIVE_MAX 64
#define CHILDREN 8
#define THREADS  4
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 60 /* ten times slower here, and the tools need no repetition to see an error */
#define KILLS  30
#else
#define ROUNDS 400
#define KILLS  150
#endif
#define MEMORY     "256Mi"
#define MUST(call) must(#call, call)

static char dir[] = "/dev/shm/gs-churn-XXXXXX";

static void must(const char *what, CUresult rc)
{
    if (rc) {
        (void)fprintf(stderr, "%s: %d\n", what, rc);
        abort();
    }
}

static uint32_t next(uint32_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

struct thing {
    enum { LINEAR, POOLED, HANDLE, ARRAY, MANAGED } kind;
    CUdeviceptr ptr;
    CUmemGenericAllocationHandle handle;
    CUarray array;
};

static CUresult make_handle(struct thing *t, size_t granularity)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    return cuMemCreate(&t->handle, granularity * 2, &prop, 0);
}

static CUresult make(struct thing *t, uint32_t *seed)
{
    static const size_t sizes[] = {1, 512, 4000, 70000, 1 << 20, (1 << 20) + 1, 5 << 20};
    size_t size = sizes[next(seed) % GS_ARRAY_LEN(sizes)];
    CUDA_ARRAY_DESCRIPTOR array = {
        .Width = 1000, .Height = 1000, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 4};
    CUresult rc;
    t->kind = next(seed) % 8;
    switch ((unsigned)t->kind) {
    case POOLED:
        return cuMemAllocAsync(&t->ptr, size, NULL);
    case HANDLE:
        return make_handle(t, 2 * MIB);
    case ARRAY:
        return cuArrayCreate_v2(&t->array, &array);
    case MANAGED:
        rc = cuMemAllocManaged(&t->ptr, 3 * size, 1);
        if (!rc)
            MUST(cuMemPrefetchAsync(t->ptr, 2 * size, 0, NULL));
        return rc;
    default:
        t->kind = LINEAR;
        rc = cuMemAlloc_v2(&t->ptr, size);
        if (!rc)
            MUST(cuMemsetD8_v2(t->ptr, (unsigned char)size, size < 4096 ? size : 4096));
        return rc;
    }
}

static void end(const struct thing *t)
{
    switch (t->kind) {
    case POOLED:
        MUST(cuMemFreeAsync(t->ptr, NULL));
        MUST(cuStreamSynchronize(NULL));
        return;
    case HANDLE:
        MUST(cuMemRelease(t->handle));
        return;
    case ARRAY:
        MUST(cuArrayDestroy(t->array));
        return;
    default:
        MUST(cuMemFree_v2(t->ptr));
    }
}

/* rounds 0: until killed. */
static void churn(uint32_t seed, unsigned rounds)
{
    struct thing live[LIVE_MAX];
    unsigned n = 0;
    for (unsigned i = 0; !rounds || i < rounds; i++) {
        if (n == LIVE_MAX || (n && next(&seed) % 2)) {
            unsigned at = next(&seed) % n;
            end(&live[at]);
            live[at] = live[--n];
            continue;
        }
        CUresult rc = make(&live[n], &seed);
        if (!rc)
            n++;
        else if (rc != CUDA_ERROR_OUT_OF_MEMORY)
            must("make", rc);
        else if (n)
            end(&live[--n]);
    }
    while (n)
        end(&live[--n]);
}

static void *thread_main(void *arg)
{
    CUcontext ctx = NULL;
    MUST(cuCtxCreate_v2(&ctx, 0, 0));
    churn(*(uint32_t *)arg, ROUNDS);
    size_t ignored, total;
    MUST(cuMemGetInfo_v2(&ignored, &total));
    MUST(cuCtxDestroy_v2(ctx));
    return NULL;
}

static void threads(uint32_t seed)
{
    pthread_t thread[THREADS];
    uint32_t seeds[THREADS];
    MUST(cuInit(0));
    for (uint32_t i = 0; i < THREADS; i++) {
        seeds[i] = seed * 7919 + i + 1;
        if (pthread_create(&thread[i], NULL, thread_main, &seeds[i]))
            abort();
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(thread[i], NULL);
}

static void endless(uint32_t seed)
{
    CUcontext ctx = NULL;
    MUST(cuInit(0));
    CUresult rc = cuCtxCreate_v2(&ctx, 0, 0);
    if (rc == CUDA_SUCCESS)
        churn(seed, 0);
    must("context", rc);
}

static pid_t start(void (*run)(uint32_t), uint32_t seed)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run(seed);
        exit(0); /* with the destructors */
    }
    return pid;
}

/* What the tables say must be what the sums say. */
static void check_books(void)
{
    gs_state_lock();
    const struct gs_sim_state *s = gs_sim_state;
    uint64_t card = 0, group[4] = {0};
    for (uint32_t i = 0; i < s->object_top; i++)
        if (s->object[i].kind != GS_SIM_FREE) {
            card += s->object[i].bytes;
            group[s->object[i].group] += s->object[i].bytes;
        }
    assert_int_equal(card, s->card[0].used_bytes);
    assert_true(card <= s->card[0].memory_bytes);
    for (uint32_t g = 0; g < s->n_groups; g++) {
        assert_int_equal(group[g], s->group[g].card[0].used_bytes);
        assert_true(s->group[g].card[0].peak_bytes >= group[g]);
        assert_true(s->group[g].card[0].peak_bytes <= s->card[0].memory_bytes);
    }
    gs_state_unlock();
}

static void check_empty(void)
{
    gs_state_lock();
    (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 1);
    uint64_t used = gs_sim_state->card[0].used_bytes;
    gs_state_unlock();
    assert_int_equal(used, 0);
    check_books();
}

static void test_threads_and_processes(void **state)
{
    (void)state;
    pid_t pid[CHILDREN];
    int status;
    for (uint32_t i = 0; i < CHILDREN; i++)
        pid[i] = start(threads, i + 1);
    for (int i = 0; i < CHILDREN; i++) {
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    check_empty();
}

static void test_kills(void **state)
{
    (void)state;
    pid_t pid[CHILDREN] = {0};
    uint32_t seed = 12345;
    for (uint32_t i = 0; i < CHILDREN; i++)
        pid[i] = start(endless, i + 100);
    for (uint32_t i = 0; i < KILLS; i++) {
        uint32_t at = next(&seed) % CHILDREN;
        /* Not a wait for anything: spreads the kills over the churn. */
        (void)usleep(next(&seed) % 4000);
        assert_int_equal(kill(pid[at], SIGKILL), 0);
        assert_int_equal(waitpid(pid[at], NULL, 0), pid[at]);
        check_books();
        pid[at] = start(endless, 1000 + i);
    }
    for (int i = 0; i < CHILDREN; i++) {
        assert_int_equal(kill(pid[i], SIGKILL), 0);
        assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
    }
    check_empty();
    printf("  %llu repairs, %llu processes cleaned up\n", (unsigned long long)gs_sim_state->repairs,
           (unsigned long long)gs_sim_state->reaped);
}

static void test_repair_keeps_the_books(void **state)
{
    (void)state;
    gs_state_lock();
    gs_state_repair();
    gs_state_unlock();
    check_books();
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir) || setenv("GPUSLICE_SIM_DIR", dir, 1) ||
        setenv("GPUSLICE_SIM_MEMORY", MEMORY, 1) || setenv("GPUSLICE_SIM_GROUP", "churn", 1))
        return -1;
    return gs_state_open();
}

static int teardown(void **state)
{
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_and_processes),
        cmocka_unit_test(test_kills),
        cmocka_unit_test(test_repair_keeps_the_books),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
