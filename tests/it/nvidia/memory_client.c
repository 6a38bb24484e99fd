/* A program that does what its standard input says, one driver call per line, and answers with the
 * driver's result and outputs, one line each. Linked plainly against libcuda.so.1, as programs are.
 */

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/abi/nvml_types.h"

#define CUDA_HOOK(symbol, class, body, ret, params, args) ret symbol params;
#define CUDA_CALL(symbol, ret, params, reason)            ret symbol params;
#define NVML_HOOK(symbol, class, body, ret, params, args) typedef ret fn_##symbol params;
#define NVML_CALL(symbol, ret, params, reason)            typedef ret fn_##symbol params;
#include "vendors/nvidia/abi/api.def"

#define NAMES 20000

static uint64_t named[NAMES];

static uint64_t number(const char *text)
{
    return text == NULL ? 0 : strtoull(text, NULL, 0);
}

/* "fill FIRST SIZE": allocate until the driver refuses, under the names from FIRST on. */
static void fill(uint64_t first, size_t bytes)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t n = 0;

    while (first + n < NAMES) {
        CUdeviceptr ptr = 0;

        result = cuMemAlloc_v2(&ptr, bytes);
        if (result != CUDA_SUCCESS)
            break;
        named[first + n++] = ptr;
    }
    printf("%d %" PRIu64 "\n", result, n);
}

/* "unfill FIRST COUNT": free them; the answer is the first failure. */
static void unfill(uint64_t first, uint64_t count)
{
    CUresult result = CUDA_SUCCESS;

    for (uint64_t i = first; i < first + count && i < NAMES; i++) {
        CUresult one = cuMemFree_v2(named[i]);

        result = result == CUDA_SUCCESS ? one : result;
    }
    printf("%d\n", result);
}

static void array(uint64_t name, size_t width, size_t height, unsigned int levels)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {width, height, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
    CUarray one = NULL;
    CUmipmappedArray many = NULL;
    CUresult result = levels == 0 ? cuArray3DCreate_v2(&one, &desc)
                                  : cuMipmappedArrayCreate(&many, &desc, levels);

    if (result == CUDA_SUCCESS)
        named[name] = levels == 0 ? (uintptr_t)one : (uintptr_t)many;
    printf("%d\n", result);
}

/* "nvml INDEX", "nvml2 INDEX": total, used and free of a card as NVML counts cards, by each version
 * of the query. */
static void nvml(unsigned int index, bool second)
{
    void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    nvmlDevice_t device = NULL;
    nvmlMemory_t memory = {0, 0, 0};
    nvmlMemory_v2_t memory2 = {.version = sizeof(memory2) | 2u << 24};
    nvmlReturn_t result = NVML_ERROR_LIBRARY_NOT_FOUND;

    if (lib != NULL) {
        fn_nvmlInit_v2 *init = (fn_nvmlInit_v2 *)(uintptr_t)dlsym(lib, "nvmlInit_v2");
        fn_nvmlDeviceGetHandleByIndex_v2 *by_index =
            (fn_nvmlDeviceGetHandleByIndex_v2 *)(uintptr_t)dlsym(lib,
                                                                 "nvmlDeviceGetHandleByIndex_v2");
        fn_nvmlDeviceGetMemoryInfo *info =
            (fn_nvmlDeviceGetMemoryInfo *)(uintptr_t)dlsym(lib, "nvmlDeviceGetMemoryInfo");

        result = init();
        if (result == NVML_SUCCESS)
            result = by_index(index, &device);
        fn_nvmlDeviceGetMemoryInfo_v2 *info2 =
            (fn_nvmlDeviceGetMemoryInfo_v2 *)(uintptr_t)dlsym(lib, "nvmlDeviceGetMemoryInfo_v2");
        if (result == NVML_SUCCESS && second) {
            result = info2(device, &memory2);
            memory = (nvmlMemory_t){memory2.total, memory2.free, memory2.used};
        } else if (result == NVML_SUCCESS) {
            result = info(device, &memory);
        }
    }
    printf("%d %llu %llu %llu\n", result, memory.total, memory.used, memory.free);
}

/* The calls of a context. Returns 0 when `verb` is none of them. */
static int context_verb(const char *verb, uint64_t a, uint64_t b)
{
    CUcontext context = NULL;
    CUresult result;

    if (strcmp(verb, "ctx") == 0 || strcmp(verb, "retain") == 0) {
        result = verb[0] == 'c' ? cuCtxCreate_v2(&context, 0, (CUdevice)b)
                                : cuDevicePrimaryCtxRetain(&context, (CUdevice)b);
        if (result == CUDA_SUCCESS)
            named[a] = (uintptr_t)context;
        printf("%d\n", result);
    } else if (strcmp(verb, "use") == 0) {
        printf("%d\n", cuCtxSetCurrent((CUcontext)(uintptr_t)named[a]));
    } else if (strcmp(verb, "nouse") == 0) {
        printf("%d\n", cuCtxSetCurrent(NULL));
    } else if (strcmp(verb, "destroy") == 0) {
        printf("%d\n", cuCtxDestroy_v2((CUcontext)(uintptr_t)named[a]));
    } else if (strcmp(verb, "release") == 0) {
        printf("%d\n", cuDevicePrimaryCtxRelease_v2((CUdevice)a));
    } else if (strcmp(verb, "reset") == 0) {
        printf("%d\n", cuDevicePrimaryCtxReset_v2((CUdevice)a));
    } else if (strcmp(verb, "heap") == 0) {
        printf("%d\n", cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, a));
    } else {
        return 0;
    }
    return 1;
}

struct churn {
    pthread_t thread;
    pthread_barrier_t *phase;
    CUcontext context;
    unsigned int seed;
    uint64_t steps;
    uint64_t granted;
    uint64_t refused;
    uint64_t wrong; /* any other answer */
};

static void churn_alloc(struct churn *me, CUdeviceptr *one)
{
    size_t bytes = 1 + (size_t)rand_r(&me->seed) % (rand_r(&me->seed) % 4 ? 200000 : 5000000);
    CUresult result = cuMemAlloc_v2(one, bytes);

    me->granted += result == CUDA_SUCCESS;
    me->refused += result == CUDA_ERROR_OUT_OF_MEMORY;
    me->wrong += result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS)
        *one = 0;
}

/* Allocate 48 times, small and large; wait for all; then free and allocate at random. */
static void *churn(void *arg)
{
    struct churn *me = arg;
    CUdeviceptr ptr[48] = {0};

    me->wrong += cuCtxSetCurrent(me->context) != CUDA_SUCCESS;
    for (int i = 0; i < 48; i++)
        churn_alloc(me, &ptr[i]);
    (void)pthread_barrier_wait(me->phase);
    (void)pthread_barrier_wait(me->phase);
    for (uint64_t i = 0; i < me->steps; i++) {
        CUdeviceptr *one = &ptr[rand_r(&me->seed) % 48];

        if (*one == 0) {
            churn_alloc(me, one);
            continue;
        }
        me->wrong += cuMemFree_v2(*one) != CUDA_SUCCESS;
        *one = 0;
    }
    for (int i = 0; i < 48; i++)
        me->wrong += ptr[i] != 0 && cuMemFree_v2(ptr[i]) != CUDA_SUCCESS;
    return NULL;
}

/* "churn STEPS SEED": four threads; answers 0 when all hold what they got at first and goes on at
 * the next line, whatever it says; answers how many were granted, refused and wrong. */
static void churn_all(uint64_t steps, unsigned int seed)
{
    struct churn thread[4];
    uint64_t sum[3] = {0, 0, 0};
    CUcontext context = NULL;
    pthread_barrier_t phase;
    char go[16];

    (void)cuCtxGetCurrent(&context);
    if (pthread_barrier_init(&phase, NULL, 5) != 0)
        abort();
    for (unsigned int i = 0; i < 4; i++) {
        thread[i] =
            (struct churn){.phase = &phase, .context = context, .seed = seed + i, .steps = steps};
        if (pthread_create(&thread[i].thread, NULL, churn, &thread[i]) != 0)
            abort();
    }
    (void)pthread_barrier_wait(&phase);
    printf("0\n");
    (void)fflush(stdout);
    if (fgets(go, sizeof(go), stdin) == NULL)
        abort();
    (void)pthread_barrier_wait(&phase);
    for (int i = 0; i < 4; i++) {
        if (pthread_join(thread[i].thread, NULL) != 0)
            abort();
        sum[0] += thread[i].granted;
        sum[1] += thread[i].refused;
        sum[2] += thread[i].wrong;
    }
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", sum[0], sum[1], sum[2]);
}

/* The calls that take or give memory. */
static int memory_verb(const char *verb, uint64_t a, uint64_t b, uint64_t c)
{
    CUdeviceptr ptr = 0;
    size_t pitch = 0;
    CUresult result;

    if (strcmp(verb, "alloc") == 0 || strcmp(verb, "managed") == 0 || strcmp(verb, "pitch") == 0) {
        result = verb[0] == 'a'   ? cuMemAlloc_v2(&ptr, b)
                 : verb[0] == 'm' ? cuMemAllocManaged(&ptr, b, 1)
                                  : cuMemAllocPitch_v2(&ptr, &pitch, b, c, 4);
        if (result == CUDA_SUCCESS)
            named[a] = ptr;
        printf("%d %zu\n", result, pitch);
    } else if (strcmp(verb, "allocnull") == 0) {
        printf("%d\n", cuMemAlloc_v2(NULL, a));
    } else if (strcmp(verb, "free") == 0) {
        printf("%d\n", cuMemFree_v2(named[a]));
    } else if (strcmp(verb, "freeptr") == 0) {
        printf("%d\n", cuMemFree_v2(a));
    } else if (strcmp(verb, "fill") == 0) {
        fill(a, b);
    } else if (strcmp(verb, "unfill") == 0) {
        unfill(a, b);
    } else if (strcmp(verb, "churn") == 0) {
        churn_all(a, (unsigned int)b);
    } else if (strcmp(verb, "array") == 0) {
        array(a, b, c, 0);
    } else if (strcmp(verb, "mipmap") == 0) {
        array(a, b, c, 4);
    } else if (strcmp(verb, "unarray") == 0) {
        printf("%d\n", cuArrayDestroy((CUarray)(uintptr_t)named[a]));
    } else if (strcmp(verb, "unmipmap") == 0) {
        printf("%d\n", cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)named[a]));
    } else {
        return 0;
    }
    return 1;
}

/* "check NAME BYTES VALUE": copies all of it back in pieces; how many bytes differ. */
static void check(CUdeviceptr ptr, uint64_t bytes, unsigned char value)
{
    static unsigned char piece[1 << 20];
    uint64_t wrong = 0;

    for (uint64_t at = 0; at < bytes; at += sizeof(piece)) {
        size_t n = bytes - at < sizeof(piece) ? (size_t)(bytes - at) : sizeof(piece);
        CUresult result = cuMemcpyDtoH_v2(piece, ptr + at, n);

        for (size_t i = 0; i < n; i++)
            wrong += result != CUDA_SUCCESS || piece[i] != value;
    }
    printf("%" PRIu64 "\n", wrong);
}

/* "launch TIMES": a kernel, waited for, so many times. */
static CUresult launch(uint64_t times)
{
    static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                              ".visible .entry work()\n{\nret;\n}\n";
    static CUfunction work;
    CUmodule module = NULL;
    CUresult result = work == NULL ? cuModuleLoadData(&module, ptx) : CUDA_SUCCESS;

    if (result == CUDA_SUCCESS && work == NULL)
        result = cuModuleGetFunction(&work, module, "work");
    for (uint64_t i = 0; i < times && result == CUDA_SUCCESS; i++) {
        result = cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        if (result == CUDA_SUCCESS)
            result = cuCtxSynchronize();
    }
    return result;
}

/* "work MS": kernels, each waited for, for so long; the last result and how many they were. */
static void work(uint64_t ms)
{
    struct timespec ts;
    uint64_t n = 0, end_ns = 0, now_ns = 0;
    CUresult result = CUDA_SUCCESS;

    while (result == CUDA_SUCCESS && now_ns <= end_ns) {
        result = launch(1);
        n++;
        (void)clock_gettime(CLOCK_MONOTONIC, &ts);
        now_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
        if (end_ns == 0)
            end_ns = now_ns + ms * 1000000;
    }
    printf("%d %" PRIu64 "\n", result, n);
}

/* The calls that use memory. */
static int use_verb(const char *verb, uint64_t a, uint64_t b, uint64_t c)
{
    if (strcmp(verb, "set") == 0)
        printf("%d\n", cuMemsetD8_v2(named[a], (unsigned char)c, b));
    else if (strcmp(verb, "check") == 0)
        check(named[a], b, (unsigned char)c);
    else if (strcmp(verb, "launch") == 0)
        printf("%d\n", launch(a));
    else if (strcmp(verb, "work") == 0)
        work(a);
    else
        return 0;
    return 1;
}

/* Code whose global variable has `bytes` bytes. */
static int code_verb(const char *verb, uint64_t a, uint64_t bytes)
{
    char ptx[256];
    CUmodule module = NULL;
    CUresult result;

    if (strcmp(verb, "module") == 0) {
        (void)snprintf(ptx, sizeof(ptx),
                       ".version 7.0\n.target sm_70\n.address_size 64\n"
                       ".visible .global .align 4 .b8 big[%" PRIu64 "];\n",
                       bytes);
        result = cuModuleLoadData(&module, ptx);
        if (result == CUDA_SUCCESS)
            named[a] = (uintptr_t)module;
        printf("%d\n", result);
    } else if (strcmp(verb, "unmodule") == 0) {
        printf("%d\n", cuModuleUnload((CUmodule)(uintptr_t)named[a]));
    } else {
        return 0;
    }
    return 1;
}

static void query_verb(const char *verb, uint64_t a)
{
    size_t free_bytes = 0;
    size_t total = 0;

    if (strcmp(verb, "init") == 0) {
        printf("%d\n", cuInit(0));
    } else if (strcmp(verb, "info") == 0) {
        CUresult result = cuMemGetInfo_v2(&free_bytes, &total);

        printf("%d %zu %zu\n", result, free_bytes, total);
    } else if (strcmp(verb, "total") == 0) {
        CUresult result = cuDeviceTotalMem_v2(&total, (CUdevice)a);

        printf("%d %zu\n", result, total);
    } else if (strcmp(verb, "uuid") == 0) {
        CUuuid uuid;
        CUresult result = cuDeviceGetUuid_v2(&uuid, (CUdevice)a);

        printf("%d ", result);
        for (int i = 0; i < 16 && result == CUDA_SUCCESS; i++)
            printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                   (unsigned int)(unsigned char)uuid.bytes[i]);
        printf("\n");
    } else if (strcmp(verb, "nvml") == 0 || strcmp(verb, "nvml2") == 0) {
        nvml((unsigned int)a, verb[4] == '2');
    } else {
        printf("unknown %s\n", verb);
    }
}

int main(void)
{
    char line[256];

    while (fgets(line, sizeof(line), stdin) != NULL) {
        const char *verb = strtok(line, " \n");
        uint64_t a = number(strtok(NULL, " \n"));
        uint64_t b = number(strtok(NULL, " \n"));
        uint64_t c = number(strtok(NULL, " \n"));

        if (verb != NULL && !context_verb(verb, a, b) && !memory_verb(verb, a, b, c) &&
            !code_verb(verb, a, b) && !use_verb(verb, a, b, c))
            query_verb(verb, a);
        (void)fflush(stdout);
    }
    return 0;
}
