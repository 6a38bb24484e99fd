#include "vendors/nvidia/node/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/** Give up asking again after the list has grown this often in between. */
#define LIST_TRIES 8
/** More entries than any card has; a larger count is nonsense. */
#define LIST_MAX 65536u

static int find(struct gs_nvml *nvml, const char **ret_missing)
{
    /* ISO C has no cast from an object pointer to a function pointer; POSIX defines this one */
#define FIND(name, params)                                                                         \
    *(void **)(void *)&nvml->name = dlsym(nvml->handle, #name);                                    \
    if (!nvml->name)                                                                               \
        missing = #name;
    const char *missing = NULL;

    GS_NVML_WANTED(FIND)
    missing = NULL;
    GS_NVML_NEEDED(FIND)
#undef FIND
    *(void **)(void *)&nvml->nvmlErrorString = dlsym(nvml->handle, "nvmlErrorString");
    if (!missing)
        return 0;
    *ret_missing = missing;
    return -ELIBBAD;
}

const char *gs_nvml_text(const struct gs_nvml *nvml, nvmlReturn_t result)
{
    const char *text = nvml->nvmlErrorString ? nvml->nvmlErrorString(result) : NULL;

    return text ? text : "unknown error";
}

int gs_nvml_open(struct gs_nvml *ret_nvml, struct gs_err *err)
{
    struct gs_nvml nvml = {0};
    const char *missing = NULL;
    nvmlReturn_t r;

    nvml.handle = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!nvml.handle)
        return gs_err_set(err, -ENODEV, "NVML (libnvidia-ml.so.1) cannot be loaded");
    if (find(&nvml, &missing) != 0) {
        gs_nvml_close(&nvml);
        return gs_err_set(err, -ELIBBAD, "libnvidia-ml.so.1 has no %s; update the NVIDIA driver",
                          missing);
    }
    r = nvml.nvmlInit_v2();
    if (r != NVML_SUCCESS) {
        int rc = gs_err_set(err, -EIO, "NVML does not start: %s (error %d)", gs_nvml_text(&nvml, r),
                            (int)r);

        (void)dlclose(nvml.handle); /* not initialised: nothing to shut down */
        return rc;
    }
    *ret_nvml = nvml;
    return 0;
}

void gs_nvml_close(struct gs_nvml *nvml)
{
    if (!nvml || !nvml->handle)
        return;
    if (nvml->nvmlShutdown && nvml->nvmlInit_v2)
        (void)nvml->nvmlShutdown(); /* nothing to do about a driver that will not stop */
    (void)dlclose(nvml->handle);
    *nvml = (struct gs_nvml){0};
}

typedef nvmlReturn_t (*list_fn)(nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *);

static list_fn list_function(const struct gs_nvml *nvml, int graphics)
{
    if (graphics)
        return nvml->nvmlDeviceGetGraphicsRunningProcesses_v3
                   ? nvml->nvmlDeviceGetGraphicsRunningProcesses_v3
                   : nvml->nvmlDeviceGetGraphicsRunningProcesses_v2;
    return nvml->nvmlDeviceGetComputeRunningProcesses_v3
               ? nvml->nvmlDeviceGetComputeRunningProcesses_v3
               : nvml->nvmlDeviceGetComputeRunningProcesses_v2;
}

int gs_nvml_processes(const struct gs_nvml *nvml, nvmlDevice_t device, int graphics,
                      nvmlProcessInfo_t **ret_list, unsigned int *ret_n)
{
    list_fn list = list_function(nvml, graphics);
    nvmlProcessInfo_t *p = NULL;
    unsigned int n = 32;

    *ret_list = NULL;
    *ret_n = 0;
    for (int i = 0; list && i < LIST_TRIES && n <= LIST_MAX; i++) {
        unsigned int room = n;
        nvmlReturn_t r;

        free(p);
        p = calloc(room, sizeof(*p));
        if (!p)
            return -ENOMEM;
        r = list(device, &n, p);
        if (r == NVML_SUCCESS && n <= room) {
            *ret_list = p;
            *ret_n = n;
            return 0;
        }
        if (r != NVML_ERROR_INSUFFICIENT_SIZE)
            break;
        n = n > room ? n + 16 : room * 2; /* more may start before we ask again */
    }
    free(p);
    return 0;
}
