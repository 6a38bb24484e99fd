#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "hook/attach.h"
#include "hook/gate.h"
#include "hook/slot.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/oversub.h"
#include "vendors/nvidia/hook/pool.h"

/* NVML's rows against a card with five processes, two of which are the slice's: 100 by its own
 * number, 200 by the host's. */

#define GIB     (1ull << 30)
#define GRANTED ((nvmlDevice_t)(uintptr_t)1)
#define FOREIGN ((nvmlDevice_t)(uintptr_t)2)

static uint64_t limit, used;
static uint32_t n_granted;
static unsigned int n_on_card;
static uint32_t lookups;
static bool beyond;

/* ---- ledger ---- */

uint32_t gs_device_by_nvml(nvmlDevice_t device)
{
    lookups++;
    return device == GRANTED && n_granted != 0 ? 0 : GS_DEVICE_NONE;
}

uint32_t gs_attach_n_devices(void)
{
    return n_granted;
}

uint64_t gs_gate_limit(uint32_t dev)
{
    return dev == 0 && n_granted != 0 ? limit : 0;
}

uint64_t gs_gate_used(uint32_t dev)
{
    (void)dev;
    return used;
}

bool gs_oversub_is_on(uint32_t ledger, CUdevice ordinal)
{
    assert_int_equal(ordinal, -1);
    return ledger == 0 && beyond;
}

void gs_pool_reconcile(uint32_t dev)
{
    (void)dev;
}

uint32_t gs_slot_list(uint32_t dev, struct gs_slot_use *ret_uses, uint32_t max)
{
    const struct gs_slot_use uses[] = {
        {.pid = 7, .bytes = 5}, /* in the slice, not on the card */
        {.pid = 100, .bytes = 3 * GIB},
        {.pid = 12, .host_pid = 200, .bytes = 1 * GIB},
    };

    assert_int_equal(dev, 0);
    assert_true(max >= 3);
    memcpy(ret_uses, uses, sizeof(uses));
    return 3;
}

/* ---- driver ---- */

static nvmlReturn_t memory(nvmlDevice_t device, nvmlMemory_t *m)
{
    (void)device;
    if (m == NULL)
        return NVML_ERROR_INVALID_ARGUMENT;
    *m = (nvmlMemory_t){.total = 80 * GIB, .free = 50 * GIB, .used = 30 * GIB};
    return NVML_SUCCESS;
}

static nvmlReturn_t memory_v2(nvmlDevice_t device, nvmlMemory_v2_t *m)
{
    (void)device;
    if (m->version != (sizeof(*m) | 2u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    m->total = 80 * GIB;
    m->free = 50 * GIB;
    m->used = 29 * GIB;
    m->reserved = 1 * GIB;
    return NVML_SUCCESS;
}

static unsigned int pid_of(unsigned int i)
{
    static const unsigned int pids[] = {99, 100, 101, 200, 300};

    return i < 5 ? pids[i] : 1000 + i;
}

static nvmlReturn_t list_v1(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)
{
    unsigned int room = *count;

    (void)device;
    *count = n_on_card;
    if (room < n_on_card)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < n_on_card; i++)
        infos[i] = (nvmlProcessInfo_v1_t){.pid = pid_of(i), .usedGpuMemory = i};
    return NVML_SUCCESS;
}

static nvmlReturn_t list_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    unsigned int room = *count;

    (void)device;
    if (infos == NULL && room != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = n_on_card;
    if (room < n_on_card)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < n_on_card; i++)
        infos[i] =
            (nvmlProcessInfo_t){.pid = pid_of(i), .usedGpuMemory = i, .gpuInstanceId = 40 + i};
    return NVML_SUCCESS;
}

static nvmlReturn_t details(nvmlDevice_t device, nvmlProcessDetailList_t *list)
{
    unsigned int room = list->numProcArrayEntries;

    (void)device;
    if (list->version != (sizeof(*list) | 1u << 24))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    assert_int_equal(list->mode, 3);
    list->numProcArrayEntries = n_on_card;
    if (room < n_on_card)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < n_on_card; i++)
        list->procArray[i] =
            (nvmlProcessDetail_v1_t){.pid = pid_of(i), .usedGpuCcProtectedMemory = i};
    return NVML_SUCCESS;
}

static nvmlReturn_t utilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                unsigned int *count, unsigned long long since)
{
    (void)device, (void)since;
    if (samples == NULL) {
        *count = n_on_card;
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned int i = 0; i < n_on_card; i++)
        samples[i] = (nvmlProcessUtilizationSample_t){.pid = pid_of(i), .smUtil = 10 + i};
    *count = n_on_card;
    return NVML_SUCCESS;
}

static nvmlReturn_t utilization_info(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *info)
{
    (void)device;
    for (unsigned int i = 0; i < n_on_card; i++)
        info->procUtilArray[i] =
            (nvmlProcessUtilizationInfo_v1_t){.pid = pid_of(i), .smUtil = 10 + i};
    info->processSamplesCount = n_on_card;
    return NVML_SUCCESS;
}

static int setup(void **state)
{
    (void)state;
    limit = 8 * GIB;
    used = 5 * GIB;
    n_granted = 1;
    n_on_card = 5;
    return 0;
}

/* ---- tests ---- */

static void memory_is_the_slices(void **state)
{
    nvmlMemory_t m;
    nvmlMemory_v2_t m2 = {.version = sizeof(m2) | 2u << 24};

    (void)state;
    assert_int_equal(gs_nv_nvml_memory_info(memory, GRANTED, &m), NVML_SUCCESS);
    assert_int_equal(m.total, 8 * GIB);
    assert_int_equal(m.used, 5 * GIB);
    assert_int_equal(m.free, 3 * GIB);
    assert_int_equal(gs_nv_nvml_memory_info_v2(memory_v2, GRANTED, &m2), NVML_SUCCESS);
    assert_int_equal(m2.used + m2.free, m2.total);
    assert_int_equal(m2.total, 8 * GIB);
    assert_int_equal(m2.reserved, 0);
    m2.version = 3;
    assert_int_equal(gs_nv_nvml_memory_info_v2(memory_v2, GRANTED, &m2),
                     NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    assert_int_equal(gs_nv_nvml_memory_info(memory, GRANTED, NULL), NVML_ERROR_INVALID_ARGUMENT);
}

static void memory_never_wraps(void **state)
{
    nvmlMemory_t m;

    (void)state;
    used = 9 * GIB; /* beyond the limit */
    assert_int_equal(gs_nv_nvml_memory_info(memory, GRANTED, &m), NVML_SUCCESS);
    assert_int_equal(m.free, 0);
    assert_int_equal(m.used, 8 * GIB);
    limit = UINT64_MAX;
    used = 1 * GIB;
    assert_int_equal(gs_nv_nvml_memory_info(memory, GRANTED, &m), NVML_SUCCESS);
    assert_int_equal(m.total, 80 * GIB);
    assert_int_equal(m.free, 50 * GIB); /* no more than the card has */
    assert_int_equal(m.used, 30 * GIB);
}

static void beyond_the_card_the_limit_is_the_total(void **state)
{
    nvmlMemory_v2_t m = {.version = sizeof(m) | 2u << 24};

    (void)state;
    limit = 200 * GIB; /* of 80, 50 of them free */
    used = 90 * GIB;
    beyond = true;
    assert_int_equal(gs_nv_nvml_memory_info_v2(memory_v2, GRANTED, &m), NVML_SUCCESS);
    assert_int_equal(m.total, 200 * GIB);
    assert_int_equal(m.used, 90 * GIB);
    assert_int_equal(m.free, 110 * GIB);
    beyond = false;
    assert_int_equal(gs_nv_nvml_memory_info_v2(memory_v2, GRANTED, &m), NVML_SUCCESS);
    assert_int_equal(m.total, 80 * GIB);
    assert_int_equal(m.free, 0);
}

static void other_cards_stay_true_unless_the_grant_is_unusable(void **state)
{
    nvmlMemory_t m;

    (void)state;
    assert_int_equal(gs_nv_nvml_memory_info(memory, FOREIGN, &m), NVML_SUCCESS);
    assert_int_equal(m.total, 80 * GIB);
    assert_int_equal(m.used, 30 * GIB);
    n_granted = 0;
    assert_int_equal(gs_nv_nvml_memory_info(memory, FOREIGN, &m), NVML_SUCCESS);
    assert_int_equal(m.total, 0);
    assert_int_equal(m.free, 0);
    assert_int_equal(m.used, 0);
}

static void the_handle_is_looked_up_once(void **state)
{
    nvmlMemory_t m;

    (void)state;
    assert_int_equal(gs_nv_nvml_memory_info(memory, GRANTED, &m), NVML_SUCCESS);
    lookups = 0;
    assert_int_equal(gs_nv_nvml_memory_info(memory, GRANTED, &m), NVML_SUCCESS);
    assert_int_equal(lookups, 0);
}

static void lists_show_the_slice_only(void **state)
{
    nvmlProcessInfo_t v3[8];
    nvmlProcessInfo_v1_t v1[8];
    unsigned int n = 8;

    (void)state;
    assert_int_equal(gs_nv_nvml_processes_v3(list_v3, GRANTED, &n, v3), NVML_SUCCESS);
    assert_int_equal(n, 2);
    assert_int_equal(v3[0].pid, 100);
    assert_int_equal(v3[0].usedGpuMemory, 3 * GIB);
    assert_int_equal(v3[0].gpuInstanceId, 41); /* the rest of the record is the driver's */
    assert_int_equal(v3[1].pid, 12);           /* as the caller knows it */
    assert_int_equal(v3[1].usedGpuMemory, 1 * GIB);
    n = 8;
    memset(v1, 0x55, sizeof(v1));
    assert_int_equal(gs_nv_nvml_processes_v1(list_v1, GRANTED, &n, v1), NVML_SUCCESS);
    assert_int_equal(n, 2);
    assert_int_equal(v1[1].pid, 12);
    assert_int_equal(v1[2].pid, 0x55555555); /* 16-byte records, and no more than two */
    n = 5;
    assert_int_equal(gs_nv_nvml_processes_v3(list_v3, FOREIGN, &n, v3), NVML_SUCCESS);
    assert_int_equal(n, 5);
}

static void sizes_follow_the_protocol(void **state)
{
    nvmlProcessInfo_t v3[8];
    unsigned int n = 0;

    (void)state;
    assert_int_equal(gs_nv_nvml_processes_v3(list_v3, GRANTED, &n, NULL),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 2);
    n = 1;
    assert_int_equal(gs_nv_nvml_processes_v3(list_v3, GRANTED, &n, v3),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 2);
    assert_int_equal(gs_nv_nvml_processes_v3(list_v3, GRANTED, &n, v3), NVML_SUCCESS);
    n = 3;
    assert_int_equal(gs_nv_nvml_processes_v3(list_v3, GRANTED, &n, NULL),
                     NVML_ERROR_INVALID_ARGUMENT);
    n_on_card = 1; /* only a stranger */
    n = 0;
    assert_int_equal(gs_nv_nvml_processes_v3(list_v3, GRANTED, &n, NULL), NVML_SUCCESS);
    assert_int_equal(n, 0);
    n_on_card = 3000; /* more than the first guess has room for */
    n = 8;
    assert_int_equal(gs_nv_nvml_processes_v3(list_v3, GRANTED, &n, v3), NVML_SUCCESS);
    assert_int_equal(n, 2);
}

static void details_and_samples_are_filtered(void **state)
{
    nvmlProcessDetail_v1_t detail[4];
    nvmlProcessDetailList_t list = {sizeof(list) | 1u << 24, 3, 0, NULL};
    nvmlProcessUtilizationSample_t sample[8];
    nvmlProcessUtilizationInfo_v1_t info[8];
    nvmlProcessesUtilizationInfo_t infos = {sizeof(infos) | 1u << 24, 8, 0, info};
    unsigned int n = 8;

    (void)state;
    assert_int_equal(gs_nv_nvml_process_detail(details, GRANTED, &list),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(list.numProcArrayEntries, 2);
    list.procArray = detail;
    assert_int_equal(gs_nv_nvml_process_detail(details, GRANTED, &list), NVML_SUCCESS);
    assert_int_equal(detail[0].pid, 100);
    assert_int_equal(detail[0].usedGpuMemory, 3 * GIB);
    assert_int_equal(detail[1].usedGpuCcProtectedMemory, 3);
    list.version = 77;
    assert_int_equal(gs_nv_nvml_process_detail(details, GRANTED, &list),
                     NVML_ERROR_ARGUMENT_VERSION_MISMATCH);

    assert_int_equal(gs_nv_nvml_process_utilization(utilization, GRANTED, sample, &n, 0),
                     NVML_SUCCESS);
    assert_int_equal(n, 2);
    assert_int_equal(sample[0].smUtil, 11);
    assert_int_equal(sample[1].pid, 12);
    assert_int_equal(gs_nv_nvml_processes_utilization(utilization_info, GRANTED, &infos),
                     NVML_SUCCESS);
    assert_int_equal(infos.processSamplesCount, 2);
    assert_int_equal(info[1].smUtil, 13);
    n_on_card = 1;
    n = 8;
    assert_int_equal(gs_nv_nvml_process_utilization(utilization, GRANTED, sample, &n, 0),
                     NVML_ERROR_NOT_FOUND);
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(other_cards_stay_true_unless_the_grant_is_unusable, setup),
        cmocka_unit_test_setup(memory_is_the_slices, setup),
        cmocka_unit_test_setup(memory_never_wraps, setup),
        cmocka_unit_test_setup(beyond_the_card_the_limit_is_the_total, setup),
        cmocka_unit_test_setup(the_handle_is_looked_up_once, setup),
        cmocka_unit_test_setup(lists_show_the_slice_only, setup),
        cmocka_unit_test_setup(sizes_follow_the_protocol, setup),
        cmocka_unit_test_setup(details_and_samples_are_filtered, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
