/* Managed memory of the simulated driver: what lies on the card, what moves, what is remembered.
 * Expectations are the CUDA Driver API's sentences and arithmetic, not the code's. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "vendors/nvidia/sim/process.h"
#include "vendors/nvidia/sim/sim.h"

#define MIB  ((size_t)1 << 20)
#define CARD (256 * MIB)
#define CPU  (-1)
#define NONE (-2)

static char dir[] = "/dev/shm/gs-managed-XXXXXX";
static CUfunction kernel;
static CUcontext context;

static uint64_t on_card(void)
{
    size_t free_bytes = 0, total = 0;
    assert_int_equal(cuMemGetInfo_v2(&free_bytes, &total), CUDA_SUCCESS);
    assert_int_equal(total, CARD);
    return total - free_bytes;
}

static uint64_t migrated(void)
{
    return gs_sim_state->card[0].migrated_bytes;
}

static CUdeviceptr managed(size_t bytes)
{
    CUdeviceptr ptr = 0;
    assert_int_equal(cuMemAllocManaged(&ptr, bytes, 1), CUDA_SUCCESS);
    return ptr;
}

static void launch(void)
{
    assert_int_equal(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void drop(CUdeviceptr ptr)
{
    assert_int_equal(cuMemFree_v2(ptr), CUDA_SUCCESS);
}

static void untouched_takes_nothing(void **state)
{
    (void)state;
    CUdeviceptr ptr = managed(3 * CARD); /* larger than the card */
    assert_int_equal(on_card(), 0);
    memset((char *)(uintptr_t)ptr + 3 * CARD - 4, 7, 4); /* valid on the CPU */
    drop(ptr);
    assert_int_equal(on_card(), 0);
}

static void a_launch_brings_it_once(void **state)
{
    (void)state;
    uint64_t before = migrated();
    CUdeviceptr ptr = managed(60 * MIB);
    uint64_t start = now_ns();
    launch();
    /* 60 MiB at 12 GB/s; a lower bound, so that a slow machine cannot fail it */
    assert_true(now_ns() - start >= 60 * MIB / 12);
    assert_int_equal(on_card(), 60 * MIB);
    assert_int_equal(migrated() - before, 60 * MIB);
    launch();
    assert_int_equal(migrated() - before, 60 * MIB);
    drop(ptr);
    assert_int_equal(on_card(), 0);
}

static void device_memory_evicts_it_and_is_never_evicted(void **state)
{
    (void)state;
    CUdeviceptr ptr = managed(200 * MIB), device = 0, more = 0;
    launch();
    assert_int_equal(on_card(), 200 * MIB);
    assert_int_equal(cuMemAlloc_v2(&device, 100 * MIB), CUDA_SUCCESS);
    assert_int_equal(on_card(), CARD);
    /* 156 left for 200: whatever is there is gone before it is needed again, all of it moves */
    uint64_t before = migrated();
    launch();
    launch();
    assert_int_equal(migrated() - before, 400 * MIB);
    assert_int_equal(on_card(), CARD);
    assert_int_equal(cuMemAlloc_v2(&more, 156 * MIB), CUDA_SUCCESS);
    assert_int_equal(on_card(), CARD);
    assert_int_equal(cuMemFree_v2(device), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc_v2(&device, 101 * MIB), CUDA_ERROR_OUT_OF_MEMORY);
    drop(more);
    drop(ptr);
    assert_int_equal(on_card(), 0);
}

static void the_oldest_goes_first(void **state)
{
    (void)state;
    CUdeviceptr a = managed(100 * MIB), b = managed(100 * MIB), device = 0;
    assert_int_equal(cuMemPrefetchAsync(b, 100 * MIB, 0, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemPrefetchAsync(a, 100 * MIB, 0, NULL), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(cuMemAlloc_v2(&device, 76 * MIB), CUDA_SUCCESS); /* 20 too many */
    uint64_t before = migrated();
    assert_int_equal(cuMemPrefetchAsync(a, 100 * MIB, 0, NULL), CUDA_SUCCESS);
    assert_int_equal(migrated() - before, 0);
    assert_int_equal(cuMemPrefetchAsync(b, 100 * MIB, 0, NULL), CUDA_SUCCESS);
    assert_int_equal(migrated() - before, 20 * MIB);
    drop(device);
    drop(a);
    drop(b);
}

static void what_prefers_the_host_stays_there(void **state)
{
    (void)state;
    CUdeviceptr ptr = managed(64 * MIB);
    assert_int_equal(cuMemAdvise(ptr, 32 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CPU), 0);
    assert_int_equal(cuMemAdvise(ptr + 32 * MIB, 16 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0),
                     0);
    /* no preference, but mapped for the card where it is */
    assert_int_equal(cuMemAdvise(ptr + 48 * MIB, 16 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0), 0);
    launch();
    assert_int_equal(on_card(), 16 * MIB);
    assert_int_equal(cuMemAdvise(ptr, 64 * MIB, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, 0), 0);
    launch();
    assert_int_equal(on_card(), 48 * MIB);
    assert_int_equal(cuMemPrefetchAsync(ptr, 64 * MIB, CPU, NULL), CUDA_SUCCESS);
    assert_int_equal(on_card(), 0);
    drop(ptr);
}

static void what_the_card_writes_lies_there(void **state)
{
    (void)state;
    CUdeviceptr ptr = managed(20 * MIB);
    unsigned char byte = 0;
    uint64_t before = migrated();
    assert_int_equal(cuMemsetD8_v2(ptr, 9, 20 * MIB), CUDA_SUCCESS);
    assert_int_equal(on_card(), 20 * MIB);
    assert_int_equal(migrated(), before);
    assert_int_equal(cuMemPrefetchAsync(ptr, 20 * MIB, CPU, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemcpyDtoH_v2(&byte, ptr + 20 * MIB - 1, 1), CUDA_SUCCESS);
    assert_int_equal(byte, 9);
    drop(ptr);
}

static int32_t ask(CUmem_range_attribute a, CUdeviceptr ptr, size_t n)
{
    int32_t value = 12345;
    assert_int_equal(cuMemRangeGetAttribute(&value, sizeof(value), a, ptr, n), CUDA_SUCCESS);
    return value;
}

static void advice_is_told_by_range(void **state)
{
    (void)state;
    CUdeviceptr ptr = managed(8 * MIB);
    CUmemLocation numa = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
    size_t n = 8 * MIB;

    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ptr, n), 0);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr, n), NONE);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, ptr, n), NONE);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, ptr, n),
                     CU_MEM_LOCATION_TYPE_INVALID);

    assert_int_equal(cuMemAdvise(ptr + MIB, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 99), 0);
    assert_int_equal(cuMemAdvise(ptr, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0), 0);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ptr, n), 0);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ptr + MIB, MIB), 1);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr, n), 0);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, ptr, n),
                     CU_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID, ptr, n), 0);
    assert_int_equal(cuMemAdvise_v2(ptr + 4 * MIB, 1, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, numa),
                     0);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr, n), NONE);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr + 4 * MIB, 4096), CPU);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, ptr + 4 * MIB, 4096),
                     CU_MEM_LOCATION_TYPE_HOST_NUMA);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, ptr + 5 * MIB, MIB), 0);

    assert_int_equal(cuMemPrefetchAsync(ptr, n, 0, NULL), CUDA_SUCCESS);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, ptr, n), 0);
    assert_int_equal(cuMemPrefetchAsync(ptr, MIB, CPU, NULL), CUDA_SUCCESS);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, ptr, n), NONE);
    assert_int_equal(ask(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, ptr, MIB), CPU);
    drop(ptr);
}

static void who_accesses_is_a_list(void **state)
{
    (void)state;
    CUdeviceptr ptr = managed(8 * MIB);
    int32_t list[3] = {0};
    int32_t mostly = 7, prefer = 7;
    void *data[2] = {&mostly, &prefer};
    size_t sizes[2] = {4, 4};
    CUmem_range_attribute both[2] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                     CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};

    assert_int_equal(cuMemAdvise(ptr, 8 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, 0), 0);
    assert_int_equal(cuMemRangeGetAttribute(list, sizeof(list), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                            ptr, 8 * MIB),
                     0);
    assert_int_equal(list[0], 0);
    assert_int_equal(list[1], NONE);
    assert_int_equal(list[2], NONE);
    assert_int_equal(cuMemAdvise(ptr, MIB, CU_MEM_ADVISE_UNSET_ACCESSED_BY, 0), 0);
    assert_int_equal(cuMemAdvise(ptr, 8 * MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, CPU), 0);
    assert_int_equal(
        cuMemRangeGetAttribute(list, 4, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, ptr, 8 * MIB), 0);
    assert_int_equal(list[0], CPU);
    assert_int_equal(cuMemRangeGetAttributes(data, sizes, both, 2, ptr, 8 * MIB), 0);
    assert_int_equal(mostly, 0);
    assert_int_equal(prefer, NONE);
    drop(ptr);
}

static void wrong_arguments(void **state)
{
    (void)state;
    CUdeviceptr ptr = managed(8 * MIB), device = 0;
    CUmemLocation nowhere = {.type = CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN};
    int32_t value;

    assert_int_equal(cuMemAlloc_v2(&device, MIB), CUDA_SUCCESS);
    assert_int_equal(cuMemAdvise(device, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAdvise(ptr, 8 * MIB + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, 0),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAdvise(ptr, MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 5),
                     CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cuMemAdvise_v2(ptr, MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, nowhere),
                     CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAdvise(ptr, MIB, (CUmem_advise)9, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPrefetchAsync(device, MIB, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemPrefetchAsync(ptr, MIB, 3, NULL), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(
        cuMemRangeGetAttribute(&value, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, ptr, MIB),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(
        cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, device, MIB),
        CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemAllocManaged(&device, 5 * CARD, 1), CUDA_ERROR_OUT_OF_MEMORY);
    drop(ptr);
    drop(device);
    assert_int_equal(on_card(), 0);
}

static void a_context_takes_it_along(void **state)
{
    (void)state;
    CUcontext other = NULL;
    assert_int_equal(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
    CUdeviceptr ptr = managed(30 * MIB);
    assert_int_equal(cuMemPrefetchAsync(ptr, 30 * MIB, 0, NULL), CUDA_SUCCESS);
    assert_int_equal(on_card(), 30 * MIB);
    assert_int_equal(cuCtxDestroy_v2(other), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(on_card(), 0);
    launch(); /* walks what is left */
}

static int setup(void **state)
{
    static const char code[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                               ".visible .entry work()\n{\nret;\n}\n";
    CUmodule module = NULL;
    (void)state;
    if (!mkdtemp(dir) || setenv("GPUSLICE_SIM_DIR", dir, 1) ||
        setenv("GPUSLICE_SIM_MEMORY", "256Mi", 1) || gs_state_open())
        return -1;
    if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) || cuModuleLoadData(&module, code) ||
        cuModuleGetFunction(&kernel, module, "work"))
        return -1;
    return 0;
}

static int teardown(void **state)
{
    char command[64];
    (void)state;
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(untouched_takes_nothing),
        cmocka_unit_test(a_launch_brings_it_once),
        cmocka_unit_test(device_memory_evicts_it_and_is_never_evicted),
        cmocka_unit_test(the_oldest_goes_first),
        cmocka_unit_test(what_prefers_the_host_stays_there),
        cmocka_unit_test(what_the_card_writes_lies_there),
        cmocka_unit_test(advice_is_told_by_range),
        cmocka_unit_test(who_accesses_is_a_list),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(a_context_takes_it_along),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
