#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "contract/ledger.h"
#include "hook/slot.h"
#include "vendors/nvidia/hook/bodies.h"
#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"
#include "vendors/nvidia/hook/nvml.h"

/* NVML's lists of processes show those of the slice: the driver says who is on the card, the ledger
 * who of them belongs here, by the caller's pid and with the memory that is charged to it. A
 * process that holds ledger memory but is not on the card (no context yet) is left out. */

#define FIRST_ROOM  64u
#define MAX_ROOM    65536u
#define GROW_TRIES  8
#define DETAIL_V1   (sizeof(nvmlProcessDetailList_v1_t) | 1u << 24) /* NVML_STRUCT_VERSION */
#define PROCUTIL_V1 (sizeof(nvmlProcessesUtilizationInfo_v1_t) | 1u << 24)

/* The slice's processes on a card, in pages of our own: too much for a small stack. */
struct slice {
    struct gs_slot_use *use;
    uint32_t n;
};

static void *map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static bool slice_open(uint32_t dev, struct slice *ret_slice)
{
    ret_slice->n = 0;
    ret_slice->use = map_pages(GS_LEDGER_SLOTS * sizeof(*ret_slice->use));
    if (ret_slice->use == NULL)
        return false;
    if (dev != GS_DEVICE_NONE) {
        ret_slice->n = gs_slot_list(dev, ret_slice->use, GS_LEDGER_SLOTS);
        if (ret_slice->n > GS_LEDGER_SLOTS)
            ret_slice->n = GS_LEDGER_SLOTS;
    }
    return true;
}

static void slice_close(struct slice *slice)
{
    munmap(slice->use, GS_LEDGER_SLOTS * sizeof(*slice->use));
}

/* NVML names processes in the caller's pid namespace, or in the host's: both are known. */
static const struct gs_slot_use *find(const struct slice *slice, uint32_t pid)
{
    for (uint32_t i = 0; i < slice->n; i++)
        if (slice->use[i].pid == pid)
            return &slice->use[i];
    for (uint32_t i = 0; i < slice->n; i++)
        if (slice->use[i].host_pid == pid && pid != 0)
            return &slice->use[i];
    return NULL;
}

/* A true list, whatever the record: all begin with the pid, then the memory. */
struct true_list {
    char *records;
    unsigned int n;
    size_t mapped;
};

struct head {
    unsigned int pid;
    unsigned long long used_bytes;
};
_Static_assert(offsetof(nvmlProcessInfo_v1_t, usedGpuMemory) == offsetof(struct head, used_bytes),
               "layout");
_Static_assert(offsetof(nvmlProcessInfo_v2_t, usedGpuMemory) == offsetof(struct head, used_bytes),
               "layout");
_Static_assert(offsetof(nvmlProcessDetail_v1_t, usedGpuMemory) == offsetof(struct head, used_bytes),
               "layout");

/* One question to the driver with room for `*count` records. */
typedef nvmlReturn_t ask_fn(void *arg, unsigned int *count, void *records);

static nvmlReturn_t read_all(ask_fn *ask, void *arg, size_t stride, struct true_list *ret_list)
{
    unsigned int room = FIRST_ROOM;
    nvmlReturn_t result = NVML_ERROR_MEMORY;

    for (int i = 0; i < GROW_TRIES; i++) {
        ret_list->mapped = room * stride;
        ret_list->records = map_pages(ret_list->mapped);
        if (ret_list->records == NULL)
            return NVML_ERROR_MEMORY;
        ret_list->n = room;
        result = ask(arg, &ret_list->n, ret_list->records);
        if (result == NVML_SUCCESS && ret_list->n <= room)
            return result;
        munmap(ret_list->records, ret_list->mapped);
        ret_list->records = NULL;
        if (result != NVML_ERROR_INSUFFICIENT_SIZE || ret_list->n > MAX_ROOM)
            return result == NVML_SUCCESS ? NVML_ERROR_UNKNOWN : result;
        room = ret_list->n > room ? ret_list->n + FIRST_ROOM
                                  : room * 2; /* others may come meanwhile */
    }
    return result;
}

/* Keep the slice's records, in place. */
static unsigned int keep_ours(const struct slice *slice, char *records, unsigned int n,
                              size_t stride)
{
    unsigned int kept = 0;

    for (unsigned int i = 0; i < n; i++) {
        const struct gs_slot_use *use;
        struct head head;

        memcpy(&head, records + i * stride, sizeof(head));
        use = find(slice, head.pid);
        if (use == NULL)
            continue;
        head.pid = use->pid;
        head.used_bytes = use->bytes;
        memmove(records + kept * stride, records + i * stride, stride);
        memcpy(records + kept * stride + offsetof(struct head, pid), &head.pid, sizeof(head.pid));
        memcpy(records + kept * stride + offsetof(struct head, used_bytes), &head.used_bytes,
               sizeof(head.used_bytes));
        kept++;
    }
    return kept;
}

/* The documented protocol: *count is the room on entry, the number on return. */
static nvmlReturn_t list_ours(uint32_t dev, ask_fn *ask, void *arg, size_t stride,
                              unsigned int *count, void *records)
{
    struct true_list list = {0};
    struct slice slice;
    nvmlReturn_t result;

    if (!slice_open(dev, &slice))
        return NVML_ERROR_MEMORY;
    result = read_all(ask, arg, stride, &list);
    if (result == NVML_SUCCESS) {
        unsigned int kept = keep_ours(&slice, list.records, list.n, stride);

        if (kept > *count)
            result = NVML_ERROR_INSUFFICIENT_SIZE;
        else if (kept != 0)
            memcpy(records, list.records, kept * stride);
        *count = kept;
        munmap(list.records, list.mapped);
    }
    slice_close(&slice);
    return result;
}

struct ask_v1 {
    gs_fn_nvmlDeviceGetComputeRunningProcesses *real;
    nvmlDevice_t device;
};

static nvmlReturn_t ask_v1(void *arg, unsigned int *count, void *records)
{
    struct ask_v1 *a = arg;

    return a->real(a->device, count, records);
}

nvmlReturn_t gs_nv_nvml_processes_v1(gs_fn_nvmlDeviceGetComputeRunningProcesses *real,
                                     nvmlDevice_t device, unsigned int *infoCount,
                                     nvmlProcessInfo_v1_t *infos)
{
    struct ask_v1 a = {real, device};
    uint32_t dev;

    if (infoCount == NULL || (infos == NULL && *infoCount != 0) || gs_nvml_is_foreign(device, &dev))
        return real(device, infoCount, infos);
    return list_ours(dev, ask_v1, &a, sizeof(*infos), infoCount, infos);
}

struct ask_v2 {
    gs_fn_nvmlDeviceGetComputeRunningProcesses_v2 *real;
    nvmlDevice_t device;
};

static nvmlReturn_t ask_v2(void *arg, unsigned int *count, void *records)
{
    struct ask_v2 *a = arg;

    return a->real(a->device, count, records);
}

nvmlReturn_t gs_nv_nvml_processes_v2(gs_fn_nvmlDeviceGetComputeRunningProcesses_v2 *real,
                                     nvmlDevice_t device, unsigned int *infoCount,
                                     nvmlProcessInfo_v2_t *infos)
{
    struct ask_v2 a = {real, device};
    uint32_t dev;

    if (infoCount == NULL || (infos == NULL && *infoCount != 0) || gs_nvml_is_foreign(device, &dev))
        return real(device, infoCount, infos);
    return list_ours(dev, ask_v2, &a, sizeof(*infos), infoCount, infos);
}

struct ask_v3 {
    gs_fn_nvmlDeviceGetComputeRunningProcesses_v3 *real;
    nvmlDevice_t device;
};

static nvmlReturn_t ask_v3(void *arg, unsigned int *count, void *records)
{
    struct ask_v3 *a = arg;

    return a->real(a->device, count, records);
}

nvmlReturn_t gs_nv_nvml_processes_v3(gs_fn_nvmlDeviceGetComputeRunningProcesses_v3 *real,
                                     nvmlDevice_t device, unsigned int *infoCount,
                                     nvmlProcessInfo_t *infos)
{
    struct ask_v3 a = {real, device};
    uint32_t dev;

    if (infoCount == NULL || (infos == NULL && *infoCount != 0) || gs_nvml_is_foreign(device, &dev))
        return real(device, infoCount, infos);
    return list_ours(dev, ask_v3, &a, sizeof(*infos), infoCount, infos);
}

struct ask_detail {
    gs_fn_nvmlDeviceGetRunningProcessDetailList *real;
    nvmlDevice_t device;
    unsigned int mode;
};

static nvmlReturn_t ask_detail(void *arg, unsigned int *count, void *records)
{
    struct ask_detail *a = arg;
    nvmlProcessDetailList_t list = {
        .version = DETAIL_V1,
        .mode = a->mode,
        .numProcArrayEntries = *count,
        .procArray = records,
    };
    nvmlReturn_t result = a->real(a->device, &list);

    *count = list.numProcArrayEntries;
    return result;
}

nvmlReturn_t gs_nv_nvml_process_detail(gs_fn_nvmlDeviceGetRunningProcessDetailList *real,
                                       nvmlDevice_t device, nvmlProcessDetailList_t *plist)
{
    struct ask_detail a = {real, device, 0};
    uint32_t dev;

    /* A version that we do not know is left to a driver that may: it refuses, as of today. */
    if (plist == NULL || plist->version != DETAIL_V1 ||
        (plist->procArray == NULL && plist->numProcArrayEntries != 0) ||
        gs_nvml_is_foreign(device, &dev))
        return real(device, plist);
    a.mode = plist->mode;
    return list_ours(dev, ask_detail, &a, sizeof(*plist->procArray), &plist->numProcArrayEntries,
                     plist->procArray);
}

/* Keep the slice's samples, in place; a list that is empty then is "not found", as NVML says it. */
static nvmlReturn_t keep_samples(uint32_t dev, char *samples, size_t stride, size_t pid_offset,
                                 unsigned int *count)
{
    unsigned int kept = 0;
    struct slice slice;

    if (!slice_open(dev, &slice)) {
        *count = 0;
        return NVML_ERROR_MEMORY;
    }
    for (unsigned int i = 0; i < *count; i++) {
        const struct gs_slot_use *use;
        unsigned int pid;

        memcpy(&pid, samples + i * stride + pid_offset, sizeof(pid));
        use = find(&slice, pid);
        if (use == NULL)
            continue;
        memmove(samples + kept * stride, samples + i * stride, stride);
        memcpy(samples + kept * stride + pid_offset, &use->pid, sizeof(use->pid));
        kept++;
    }
    *count = kept;
    slice_close(&slice);
    return kept == 0 ? NVML_ERROR_NOT_FOUND : NVML_SUCCESS;
}

nvmlReturn_t gs_nv_nvml_process_utilization(gs_fn_nvmlDeviceGetProcessUtilization *real,
                                            nvmlDevice_t device,
                                            nvmlProcessUtilizationSample_t *utilization,
                                            unsigned int *processSamplesCount,
                                            unsigned long long lastSeenTimeStamp)
{
    nvmlReturn_t result = real(device, utilization, processSamplesCount, lastSeenTimeStamp);
    uint32_t dev;

    if (result != NVML_SUCCESS || utilization == NULL || processSamplesCount == NULL ||
        gs_nvml_is_foreign(device, &dev))
        return result;
    return keep_samples(dev, (char *)utilization, sizeof(*utilization),
                        offsetof(nvmlProcessUtilizationSample_t, pid), processSamplesCount);
}

nvmlReturn_t gs_nv_nvml_processes_utilization(gs_fn_nvmlDeviceGetProcessesUtilizationInfo *real,
                                              nvmlDevice_t device,
                                              nvmlProcessesUtilizationInfo_t *procesesUtilInfo)
{
    nvmlReturn_t result = real(device, procesesUtilInfo);
    uint32_t dev;

    if (result != NVML_SUCCESS || procesesUtilInfo == NULL ||
        procesesUtilInfo->version != PROCUTIL_V1 || procesesUtilInfo->procUtilArray == NULL ||
        gs_nvml_is_foreign(device, &dev))
        return result;
    return keep_samples(
        dev, (char *)procesesUtilInfo->procUtilArray, sizeof(*procesesUtilInfo->procUtilArray),
        offsetof(nvmlProcessUtilizationInfo_v1_t, pid), &procesesUtilInfo->processSamplesCount);
}
