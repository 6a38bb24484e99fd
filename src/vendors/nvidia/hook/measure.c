#include "vendors/nvidia/hook/measure.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vendors/nvidia/hook/device.h"
#include "vendors/nvidia/hook/driver.h"

#define MAX_PROCESSES 4096u

/* Own use from the list of processes; -ENOENT when we are not on it, or it does not say how much.
 */
static int own_use(const struct gs_driver *nvml, nvmlDevice_t handle, uint64_t *ret_bytes)
{
    const size_t size = MAX_PROCESSES * sizeof(nvmlProcessInfo_t);
    unsigned int count = MAX_PROCESSES;
    unsigned int pid = (unsigned int)getpid();
    nvmlProcessInfo_t *list;
    int rc = -ENOENT;

    if (nvml->nvmlDeviceGetComputeRunningProcesses_v3 == NULL)
        return -ENOENT;
    /* too large for a stranger's stack; pages that are not written cost nothing */
    list = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (list == MAP_FAILED)
        return -ENOENT;
    if (nvml->nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, list) == NVML_SUCCESS) {
        for (unsigned int i = 0; i < count && i < MAX_PROCESSES; i++) {
            if (list[i].pid == pid && list[i].usedGpuMemory != UINT64_MAX) {
                *ret_bytes = list[i].usedGpuMemory;
                rc = 0;
            }
        }
    }
    (void)munmap(list, size); /* cannot fail on a mapping of ours */
    return rc;
}

int gs_measure_take(const struct gs_device *device, struct gs_measure *ret_measure)
{
    const struct gs_driver *nvml = gs_driver_nvml_begin();
    nvmlDevice_t handle = NULL;
    nvmlMemory_t memory = {0};
    uint64_t bytes = 0;
    int rc = -ENOTSUP;

    if (nvml == NULL)
        return -ENOTSUP;
    if (nvml->nvmlDeviceGetHandleByUUID != NULL &&
        nvml->nvmlDeviceGetHandleByUUID(device->uuid, &handle) == NVML_SUCCESS) {
        if (own_use(nvml, handle, &bytes) == 0) {
            *ret_measure = (struct gs_measure){bytes, true};
            rc = 0;
        } else if (nvml->nvmlDeviceGetMemoryInfo != NULL &&
                   nvml->nvmlDeviceGetMemoryInfo(handle, &memory) == NVML_SUCCESS) {
            *ret_measure = (struct gs_measure){memory.used, false};
            rc = 0;
        }
    }
    gs_driver_nvml_end();
    return rc;
}

int gs_measure_free(uint64_t *ret_bytes)
{
    const struct gs_driver *cuda = gs_driver_cuda();
    size_t free_bytes = 0;
    size_t total = 0;

    if (cuda->cuMemGetInfo_v2 == NULL || cuda->cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS)
        return -ENOTSUP;
    *ret_bytes = free_bytes;
    return 0;
}
