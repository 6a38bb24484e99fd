#include "vendors/nvidia/node/watch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "node/probe.h"
#include "vendors/nvidia/node/nvml.h"

/** How far back a process's use is averaged; the driver itself samples every second or less. */
#define WINDOW_US 1000000ull
#define SAMPLES   1024u

struct gs_probe_watch {
    struct gs_nvml nvml;
    nvmlDevice_t device;
    nvmlProcessUtilizationSample_t sample[SAMPLES];
};

static int find_card(struct gs_probe_watch *watch, const char *uuid)
{
    unsigned int n = 0;
    char text[96];

    if (watch->nvml.nvmlDeviceGetCount_v2(&n) != NVML_SUCCESS)
        return -EIO;
    for (unsigned int i = 0; i < n; i++)
        if (watch->nvml.nvmlDeviceGetHandleByIndex_v2(i, &watch->device) == NVML_SUCCESS &&
            watch->nvml.nvmlDeviceGetUUID(watch->device, text, sizeof(text)) == NVML_SUCCESS &&
            strcmp(text, uuid) == 0)
            return 0;
    return -ENODEV;
}

int gs_watch_new(const char *uuid, struct gs_probe_watch **ret_watch, struct gs_err *err)
{
    struct gs_probe_watch *watch = calloc(1, sizeof(*watch));
    int rc;

    if (!watch)
        return gs_err_set(err, -ENOMEM, "out of memory");
    rc = gs_nvml_open(&watch->nvml, err);
    if (rc == 0) {
        rc = find_card(watch, uuid);
        if (rc != 0)
            (void)gs_err_set(err, rc, "card %s: %s", uuid, strerror(-rc));
    }
    if (rc == 0 && !watch->nvml.nvmlDeviceGetProcessUtilization)
        rc = gs_err_set(err, -ENOTSUP, "this NVIDIA driver does not tell processes' use");
    if (rc != 0) {
        gs_watch_free(watch);
        return rc;
    }
    *ret_watch = watch;
    return 0;
}

struct gs_probe_watch *gs_watch_free(struct gs_probe_watch *watch)
{
    if (watch) {
        gs_nvml_close(&watch->nvml);
        free(watch);
    }
    return NULL;
}

/** Samples name processes that may have ended; the lists do not. */
static int list_running(struct gs_probe_watch *watch, struct gs_probe_use *ret_use, size_t max)
{
    size_t n = 0;

    for (int graphics = 0; graphics < 2; graphics++) {
        nvmlProcessInfo_t *list;
        unsigned int n_list;
        int rc = gs_nvml_processes(&watch->nvml, watch->device, graphics, &list, &n_list);

        if (rc != 0)
            return rc;
        for (unsigned int i = 0; i < n_list && n < max; i++) {
            bool is_new = true;

            for (size_t j = 0; j < n; j++)
                is_new &= ret_use[j].pid != list[i].pid;
            if (is_new)
                ret_use[n++] = (struct gs_probe_use){.pid = list[i].pid};
        }
        free(list);
    }
    return (int)n;
}

/** Mean of the samples of one process, rounded up: a trace of use is use. A single one that is no
 * percentage spoils the answer, and the caller is to see that. */
static uint32_t mean_of(const struct gs_probe_watch *watch, unsigned int n, uint32_t pid)
{
    uint64_t sum = 0, count = 0;

    for (unsigned int i = 0; i < n; i++) {
        if (watch->sample[i].pid != pid)
            continue;
        if (watch->sample[i].smUtil > 100)
            return watch->sample[i].smUtil;
        sum += watch->sample[i].smUtil;
        count++;
    }
    return count ? (uint32_t)((sum + count - 1) / count) : 0;
}

int gs_watch_read(struct gs_probe_watch *watch, struct gs_probe_use *ret_use, size_t max)
{
    unsigned int n_samples = SAMPLES;
    struct timespec now;
    unsigned long long now_us;
    nvmlReturn_t r;
    int n = list_running(watch, ret_use, max);

    if (n <= 0 || !watch->nvml.nvmlDeviceGetProcessUtilization)
        return n;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
    now_us = (unsigned long long)now.tv_sec * 1000000u + (unsigned long long)now.tv_nsec / 1000u;
    r = watch->nvml.nvmlDeviceGetProcessUtilization(watch->device, watch->sample, &n_samples,
                                                    now_us - WINDOW_US);
    if (r == NVML_ERROR_NOT_FOUND) /* no process was sampled within the window */
        return n;
    if (r != NVML_SUCCESS || n_samples > SAMPLES)
        return -EIO;
    for (int i = 0; i < n; i++)
        ret_use[i].util_pct = mean_of(watch, n_samples, ret_use[i].pid);
    return n;
}
