/* What one context costs on a card: create one, ask the driver what this process uses now. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "vendors/nvidia/node/cuda.h"
#include "vendors/nvidia/node/nvml.h"
#include "vendors/nvidia/node/probe.h"

static int find_device(const struct gs_nvml *nvml, const char *uuid, nvmlDevice_t *ret)
{
    unsigned int n = 0;
    char text[96];

    if (nvml->nvmlDeviceGetCount_v2(&n) != NVML_SUCCESS)
        return -EIO;
    for (unsigned int i = 0; i < n; i++)
        if (nvml->nvmlDeviceGetHandleByIndex_v2(i, ret) == NVML_SUCCESS &&
            nvml->nvmlDeviceGetUUID(*ret, text, sizeof(text)) == NVML_SUCCESS &&
            strcmp(text, uuid) == 0)
            return 0;
    return -ENODEV;
}

static int own_bytes(const struct gs_nvml *nvml, nvmlDevice_t device, uint64_t *ret)
{
    nvmlProcessInfo_t *list;
    unsigned int n;
    int rc = gs_nvml_processes(nvml, device, 0, &list, &n);

    if (rc == 0)
        rc = -ESRCH; /* another pid namespace, or a driver without the list */
    for (unsigned int i = 0; i < n; i++) {
        if (list[i].pid != (unsigned int)getpid() || list[i].usedGpuMemory == ~0ull)
            continue;
        *ret = list[i].usedGpuMemory;
        rc = 0;
    }
    free(list);
    return rc;
}

int gs_context_measure(const char *uuid, uint64_t *ret_bytes, struct gs_err *err)
{
    GS_CLEANUP(gs_nvml_close) struct gs_nvml nvml = {0};
    nvmlMemory_t before = {0}, after = {0};
    struct gs_cuda cuda = {0};
    CUcontext context;
    CUdevice device;
    nvmlDevice_t handle;
    CUresult r;
    int rc;

    if (setenv("CUDA_VISIBLE_DEVICES", uuid, 1) != 0)
        return gs_err_set(err, -errno, "set CUDA_VISIBLE_DEVICES: %s", strerror(errno));
    rc = gs_nvml_open(&nvml, err);
    if (rc == 0)
        rc = gs_cuda_open(&cuda, err);
    if (rc != 0 || !cuda.cuInit || !cuda.cuDeviceGet || !cuda.cuDevicePrimaryCtxRetain)
        return rc;
    rc = find_device(&nvml, uuid, &handle);
    if (rc != 0)
        return gs_err_set(err, rc, "card %s: %s", uuid, strerror(-rc));
    if (nvml.nvmlDeviceGetMemoryInfo(handle, &before) != NVML_SUCCESS)
        return gs_err_set(err, -EIO, "card %s: NVML cannot say what is used", uuid);
    r = cuda.cuInit(0);
    if (r == CUDA_SUCCESS)
        r = cuda.cuDeviceGet(&device, 0);
    if (r == CUDA_SUCCESS)
        r = cuda.cuDevicePrimaryCtxRetain(&context, device);
    if (r != CUDA_SUCCESS)
        return gs_err_set(err, -EIO, "card %s: no context can be created (CUDA error %d)", uuid,
                          (int)r);
    if (own_bytes(&nvml, handle, ret_bytes) == 0)
        return 0;
    /* what the whole card lost meanwhile: others may have added to it, so this is an upper bound */
    if (nvml.nvmlDeviceGetMemoryInfo(handle, &after) != NVML_SUCCESS)
        return gs_err_set(err, -EIO, "card %s: NVML cannot say what is used", uuid);
    *ret_bytes = after.used > before.used ? after.used - before.used : 0;
    return 0;
}
