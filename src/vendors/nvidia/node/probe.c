#include "vendors/nvidia/node/probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "node/probe.h"
#include "vendors/nvidia/node/cuda.h"
#include "vendors/nvidia/node/health.h"
#include "vendors/nvidia/node/inventory.h"
#include "vendors/nvidia/node/nodes.h"
#include "vendors/nvidia/node/nvml.h"
#include "vendors/nvidia/node/watch.h"

/** How far back a process's utilisation is averaged. */
#define UTIL_WINDOW_US 1000000ull
/** NVML_VALUE_NOT_AVAILABLE for a process's memory (nvml.h, 11.0 and later). */
#define MEMORY_UNKNOWN (~0ull)

static int add_processes(const struct gs_nvml *nvml, nvmlDevice_t device, int graphics,
                         uint32_t card, struct gs_probe *probe)
{
    nvmlProcessInfo_t *list;
    unsigned int n;
    int rc = gs_nvml_processes(nvml, device, graphics, &list, &n);

    for (unsigned int i = 0; rc == 0 && i < n; i++) {
        struct gs_card_process p = {card, list[i].pid, list[i].usedGpuMemory, GS_PROBE_UNKNOWN};

        if (list[i].usedGpuMemory == MEMORY_UNKNOWN)
            p.used_bytes = GS_PROBE_UNKNOWN;
        rc = gs_probe_add_process(probe, &p);
    }
    free(list);
    return rc;
}

/* Who is on the card and has no sample in the window was idle in it. */
static void fill_idle(uint32_t card, struct gs_probe *probe)
{
    for (size_t i = 0; i < probe->n_processes; i++) {
        struct gs_card_process *p = &probe->process[i];

        if (p->card == card && p->util_pct == GS_PROBE_UNKNOWN)
            p->util_pct = 0;
    }
}

/* Samples name processes that may have ended: only those on the card count. */
static int add_utilisation(const struct gs_nvml *nvml, nvmlDevice_t device, uint32_t card,
                           struct gs_probe *probe)
{
    nvmlProcessUtilizationSample_t sample[256];
    unsigned int n = GS_ARRAY_LEN(sample);
    struct timespec now;
    unsigned long long now_us;
    nvmlReturn_t r;
    int rc = 0;

    if (!nvml->nvmlDeviceGetProcessUtilization)
        return 0;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with this clock */
    now_us = (unsigned long long)now.tv_sec * 1000000u + (unsigned long long)now.tv_nsec / 1000u;
    r = nvml->nvmlDeviceGetProcessUtilization(device, sample, &n, now_us - UTIL_WINDOW_US);
    if (r == NVML_ERROR_NOT_FOUND)
        n = 0; /* no sample in the window */
    else if (r != NVML_SUCCESS || n > GS_ARRAY_LEN(sample))
        return 0;
    for (unsigned int i = 0; rc == 0 && i < n; i++) {
        struct gs_card_process p = {card, sample[i].pid, GS_PROBE_UNKNOWN, sample[i].smUtil};

        if (sample[i].smUtil <= 100 && gs_probe_find_process(probe, card, p.pid))
            rc = gs_probe_add_process(probe, &p);
    }
    fill_idle(card, probe);
    return rc;
}

static int read_card(const struct gs_nvml *nvml, unsigned int index, struct gs_probe *probe,
                     struct gs_err *err)
{
    struct gs_card *card;
    nvmlUtilization_t util = {0};
    nvmlMemory_t memory = {0};
    nvmlDevice_t device;
    uint32_t at = (uint32_t)probe->n_cards;
    nvmlReturn_t r = nvml->nvmlDeviceGetHandleByIndex_v2(index, &device);
    int rc;

    if (r == NVML_ERROR_NO_PERMISSION || r == NVML_ERROR_GPU_IS_LOST)
        return 0; /* a card that is not for us, or gone, does not hide the others */
    card = gs_probe_add_card(probe);
    if (!card)
        return gs_err_set(err, -E2BIG, "more than %d cards", GS_PROBE_CARDS);
    *card = (struct gs_card){
        .vendor = &gs_nvidia_probe_vendor,
        .index = index,
        .util_pct = GS_PROBE_UNKNOWN,
        .memory_util_pct = GS_PROBE_UNKNOWN,
    };
    if (r == NVML_SUCCESS)
        r = nvml->nvmlDeviceGetUUID(device, card->uuid, sizeof(card->uuid));
    if (r == NVML_SUCCESS)
        r = nvml->nvmlDeviceGetName(device, card->name, sizeof(card->name));
    if (r == NVML_SUCCESS)
        r = nvml->nvmlDeviceGetMemoryInfo(device, &memory);
    if (r != NVML_SUCCESS) {
        probe->n_cards--;
        return gs_err_set(err, -EIO, "card %u: NVML says: %s", index, gs_nvml_text(nvml, r));
    }
    card->uuid[sizeof(card->uuid) - 1] = '\0';
    card->name[sizeof(card->name) - 1] = '\0';
    card->total_bytes = memory.total;
    card->used_bytes = memory.used;
    if (nvml->nvmlDeviceGetUtilizationRates &&
        nvml->nvmlDeviceGetUtilizationRates(device, &util) == NVML_SUCCESS && util.gpu <= 100 &&
        util.memory <= 100) {
        card->util_pct = util.gpu;
        card->memory_util_pct = util.memory;
    }
    rc = add_processes(nvml, device, 0, at, probe);
    if (rc == 0)
        rc = add_processes(nvml, device, 1, at, probe);
    if (rc == 0)
        rc = add_utilisation(nvml, device, at, probe);
    return rc == 0 ? 0 : gs_err_set(err, rc, "card %u: %s", index, strerror(-rc));
}

/* -ENXIO: NVML answers, and there is none. */
static int read_from_nvml(struct gs_probe *probe, struct gs_err *err)
{
    GS_CLEANUP(gs_nvml_close) struct gs_nvml nvml = {0};
    size_t before = probe->n_cards;
    unsigned int n = 0;
    nvmlReturn_t r;
    int rc = gs_nvml_open(&nvml, err);

    if (rc != 0)
        return rc;
    r = nvml.nvmlDeviceGetCount_v2(&n);
    if (r != NVML_SUCCESS)
        return gs_err_set(err, -EIO, "NVML cannot count the cards: %s", gs_nvml_text(&nvml, r));
    for (unsigned int i = 0; i < n && rc == 0; i++)
        rc = read_card(&nvml, i, probe, err);
    if (rc == 0 && probe->n_cards == before)
        rc = gs_err_set(err, -ENXIO, "the NVIDIA driver finds no card");
    if (rc != 0) {
        probe->n_cards = before;
        while (probe->n_processes > 0 &&
               probe->process[probe->n_processes - 1].card >= (uint32_t)before)
            probe->n_processes--;
    }
    return rc;
}

/* NVML tells all; without it there is what programs themselves use. */
static int read_cards(struct gs_probe *probe, struct gs_err *err)
{
    struct gs_err nvml = {0}, cuda = {0};
    int rc = read_from_nvml(probe, &nvml), fallback;

    if (rc == 0)
        return 0;
    if (rc == -ENXIO)
        return gs_err_set(err, -ENODEV, "%s", nvml.text);
    fallback = gs_cuda_add_cards(&gs_nvidia_probe_vendor, probe, &cuda);
    if (fallback == -ENODEV && rc == -ENODEV)
        return gs_err_set(err, rc,
                          "no NVIDIA driver found (neither libnvidia-ml.so.1 nor libcuda.so.1 can "
                          "be loaded); install the driver, or run under simulated cards with "
                          "'./dev sim -- ...'");
    if (fallback != 0)
        return gs_err_set(err, rc, "%.200s, and %.200s", nvml.text, cuda.text);
    (void)snprintf(
        probe->lost, sizeof(probe->lost),
        "%.200s: the cards are as libcuda.so.1 has them. Limits and shares are held. Not "
        "known are what is in use on a card, how busy it is, and programs outside slices, "
        "beside which a slice gets less than its share",
        nvml.text);
    return 0;
}

const struct gs_probe_vendor gs_nvidia_probe_vendor = {
    .name = "NVIDIA",
    .room = "nvidia",
    .visible_env = "CUDA_VISIBLE_DEVICES",
    .hook = "libvgpu.so",
    .read = read_cards,
    .context_bytes = gs_context_measure,
    .watch_new = gs_watch_new,
    .watch_read = gs_watch_read,
    .watch_free = gs_watch_free,
    .inventory = &gs_nvidia_inventory,
    .health = &gs_nvidia_health,
    .nodes = gs_nvidia_nodes,
};
