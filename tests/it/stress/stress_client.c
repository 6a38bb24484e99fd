/* Hammers every way to take device memory from several threads on all cards, then gives all back.
 *
 * usage: stress_client SECONDS THREADS SEED [KINDS]
 * KINDS is a mask of enum kind, to find out which of them is at fault. Each thread owns a set of
 * objects and at random takes one more or gives one back. Refusals (out of memory) are expected;
 * any other error ends the run with status 1. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "vendors/nvidia/abi/cuda_types.h"

#define CUDA_HOOK(symbol, class, body, ret, params, args) ret symbol params;
#define CUDA_CALL(symbol, ret, params, reason)            ret symbol params;
#include "vendors/nvidia/abi/api.def"

#define OBJECTS   24
#define MAX_CARDS 16

enum kind { NONE, LINEAR, SMALL, ASYNC, VMM, ARRAY, KINDS };

struct object {
    enum kind kind;
    int card;
    CUdeviceptr ptr;
    CUmemGenericAllocationHandle handle;
    CUarray array;
    size_t bytes;
};

static CUcontext context[MAX_CARDS];
static int n_cards;
static unsigned seconds, seed;
static unsigned kinds = ~0u; /* bit per enum kind */

static int refused_or_die(CUresult rc, const char *what)
{
    if (rc == CUDA_SUCCESS)
        return 0;
    if (rc == CUDA_ERROR_OUT_OF_MEMORY)
        return 1;
    fprintf(stderr, "stress_client: %s failed with %d\n", what, rc);
    exit(1);
}

static void must(CUresult rc, const char *what)
{
    if (refused_or_die(rc, what)) {
        fprintf(stderr, "stress_client: %s refused\n", what);
        exit(1);
    }
}

static int take_vmm(struct object *o)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = o->card}};
    size_t granularity;
    must(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
         "granularity");
    o->bytes = (o->bytes + granularity - 1) / granularity * granularity;
    if (refused_or_die(cuMemCreate(&o->handle, o->bytes, &prop, 0), "cuMemCreate"))
        return 1;
    must(cuMemAddressReserve(&o->ptr, o->bytes, 0, 0, 0), "cuMemAddressReserve");
    must(cuMemMap(o->ptr, o->bytes, 0, o->handle, 0), "cuMemMap");
    return 0;
}

static void take(struct object *o, unsigned *rng)
{
    enum kind kind;
    do
        kind = (enum kind)(1 + (unsigned)rand_r(rng) % (KINDS - 1));
    while (!(kinds >> kind & 1u));
    CUDA_ARRAY_DESCRIPTOR desc = {
        .Width = 1024, .Height = 512, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    int refused = 0;
    o->card = (int)((unsigned)rand_r(rng) % (unsigned)n_cards);
    o->bytes = (size_t)(1 + rand_r(rng) % 24) << 20;
    must(cuCtxSetCurrent(context[o->card]), "cuCtxSetCurrent");
    switch (kind) {
    case LINEAR:
        refused = refused_or_die(cuMemAlloc_v2(&o->ptr, o->bytes), "cuMemAlloc");
        break;
    case SMALL:
        refused = refused_or_die(cuMemAlloc_v2(&o->ptr, (o->bytes >> 10) + 1), "cuMemAlloc");
        break;
    case ASYNC:
        refused = refused_or_die(cuMemAllocAsync(&o->ptr, o->bytes, NULL), "cuMemAllocAsync");
        break;
    case VMM:
        refused = take_vmm(o);
        break;
    default:
        refused = refused_or_die(cuArrayCreate_v2(&o->array, &desc), "cuArrayCreate");
        break;
    }
    o->kind = refused ? NONE : kind;
}

static void give(struct object *o)
{
    must(cuCtxSetCurrent(context[o->card]), "cuCtxSetCurrent");
    switch (o->kind) {
    case LINEAR:
    case SMALL:
        must(cuMemFree_v2(o->ptr), "cuMemFree");
        break;
    case ASYNC:
        must(cuMemFreeAsync(o->ptr, NULL), "cuMemFreeAsync");
        break;
    case VMM:
        must(cuMemUnmap(o->ptr, o->bytes), "cuMemUnmap");
        must(cuMemRelease(o->handle), "cuMemRelease");
        must(cuMemAddressFree(o->ptr, o->bytes), "cuMemAddressFree");
        break;
    case ARRAY:
        must(cuArrayDestroy(o->array), "cuArrayDestroy");
        break;
    default:
        break;
    }
    o->kind = NONE;
}

static void *worker(void *arg)
{
    struct object set[OBJECTS] = {0};
    unsigned rng = seed + (unsigned)(uintptr_t)arg;
    time_t end = time(NULL) + (time_t)seconds;
    while (time(NULL) < end) {
        for (int i = 0; i < 200; i++) {
            struct object *o = &set[(unsigned)rand_r(&rng) % OBJECTS];
            if (o->kind == NONE)
                take(o, &rng);
            else
                give(o);
        }
    }
    for (int i = 0; i < OBJECTS; i++)
        if (set[i].kind != NONE)
            give(&set[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[64];
    if (argc < 4 || argc > 5)
        return 2;
    if (argc == 5)
        kinds = (unsigned)strtoul(argv[4], NULL, 0);
    seconds = (unsigned)strtoul(argv[1], NULL, 10);
    unsigned threads = (unsigned)strtoul(argv[2], NULL, 10);
    seed = (unsigned)strtoul(argv[3], NULL, 10);
    if (threads < 1 || threads > 64)
        return 2;
    must(cuInit(0), "cuInit");
    must(cuDeviceGetCount(&n_cards), "cuDeviceGetCount");
    if (n_cards > MAX_CARDS)
        n_cards = MAX_CARDS;
    for (int i = 0; i < n_cards; i++)
        must(cuDevicePrimaryCtxRetain(&context[i], i), "cuDevicePrimaryCtxRetain");
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, worker, (void *)(uintptr_t)i) != 0)
            return 1;
    for (unsigned i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < n_cards; i++) {
        CUmemoryPool pool;
        must(cuCtxSetCurrent(context[i]), "cuCtxSetCurrent");
        must(cuCtxSynchronize(), "cuCtxSynchronize");
        must(cuDeviceGetDefaultMemPool(&pool, i), "cuDeviceGetDefaultMemPool");
        must(cuMemPoolTrimTo(pool, 0), "cuMemPoolTrimTo");
    }
    puts("done");
    fflush(stdout);
    /* Stay, holding nothing, until told to go: the books are read now, before death clears them. */
    (void)getchar();
    return 0;
}
