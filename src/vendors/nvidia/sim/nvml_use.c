/* How a card is used: memory, processes, utilisation. */
#include <string.h>
#include <time.h>

#include "vendors/nvidia/sim/nvml.h"
#include "vendors/nvidia/sim/process.h"

#define STRUCT_VERSION(type, version) ((unsigned int)(sizeof(type) | (version) << 24))

/* One process with a context or memory on a card. */
struct use {
    uint32_t slot;
    unsigned int pid;
    uint64_t bytes;
};

/* Where each process stood when somebody last looked, and what came out of that. Guard: the state's
 * lock. */
struct account {
    uint64_t t_ns;
    uint64_t busy_ns[GS_CLOCK_PROCS];
    uint32_t pct[GS_CLOCK_PROCS];
};
static struct account accounts[GS_SIM_CARDS_MAX];

static void start_account(uint32_t card)
{
    struct gs_clock *c = gs_state_clock(card);
    gs_clock_advance(c);
    accounts[card].t_ns = gs_clock_now();
    for (uint32_t i = 0; i < GS_CLOCK_PROCS && i < gs_sim_state->proc_top; i++)
        accounts[card].busy_ns[i] = c->proc[i].busy_ns;
}

void gs_nvml_start_accounts(void)
{
    for (uint32_t i = 0; i < gs_sim_state->n_cards; i++)
        start_account(i);
}

/* Processes of a card, dead ones freed first; at most `room` are written. Returns how many there
 * are. */
static unsigned int list_uses(uint32_t card, struct use *ret, unsigned int room)
{
    const struct gs_sim_state *s = gs_sim_state;
    unsigned int n = 0;
    gs_state_lock();
    (void)gs_process_reap(GS_SIM_NONE, GS_SIM_NONE, 1);
    for (uint32_t i = 0; i < s->proc_top; i++) {
        const struct gs_sim_proc *p = &s->proc[i];
        uint64_t bytes = gs_process_used(i, card);
        if (p->state != 1 || (!bytes && !(p->card_mask >> card & 1)))
            continue;
        if (n < room)
            ret[n] = (struct use){.slot = i, .pid = (unsigned int)p->pid, .bytes = bytes};
        n++;
    }
    gs_state_unlock();
    return n;
}

static uint64_t used_bytes(uint32_t card)
{
    gs_state_lock();
    (void)gs_process_reap(GS_SIM_NONE, card, 1);
    uint64_t used = gs_sim_state->card[card].used_bytes;
    gs_state_unlock();
    return used;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    memory->total = gs_sim_state->card[card].memory_bytes;
    memory->used = used_bytes(card);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (memory->version != STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = gs_sim_state->card[card].memory_bytes;
    memory->reserved = 0;
    memory->used = used_bytes(card);
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!bar1Memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t total = 1;
    while (total < gs_sim_state->card[card].memory_bytes)
        total *= 2;
    *bar1Memory = (nvmlBAR1Memory_t){
        .bar1Total = total, .bar1Free = total - (1u << 20), .bar1Used = 1u << 20};
    return NVML_SUCCESS;
}

/* ---- process lists ---- */

static struct use uses[GS_SIM_PROCS_MAX];
static pthread_mutex_t uses_lock = PTHREAD_MUTEX_INITIALIZER;

/* The two record forms that exist: 16 bytes (v1), and 24 bytes (v2 and v3). */
static nvmlReturn_t processes(uint32_t card, unsigned int *count, void *infos, size_t record)
{
    if (!count || (*count && !infos))
        return NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&uses_lock);
    unsigned int n = list_uses(card, uses, GS_SIM_PROCS_MAX);
    nvmlReturn_t r = n > *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    *count = n;
    for (unsigned int i = 0; !r && i < n; i++) {
        nvmlProcessInfo_t full = {.pid = uses[i].pid,
                                  .usedGpuMemory = uses[i].bytes,
                                  .gpuInstanceId = UINT32_MAX,
                                  .computeInstanceId = UINT32_MAX};
        memcpy((char *)infos + i * record, &full, record);
    }
    pthread_mutex_unlock(&uses_lock);
    return r;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
                                                  nvmlProcessInfo_v1_t *infos)
{
    GS_NVML_ENTER_CARD(card, device);
    return processes(card, infoCount, infos, sizeof(*infos));
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
                                                     nvmlProcessInfo_v2_t *infos)
{
    GS_NVML_ENTER_CARD(card, device);
    return processes(card, infoCount, infos, sizeof(*infos));
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                     nvmlProcessInfo_t *infos)
{
    GS_NVML_ENTER_CARD(card, device);
    return processes(card, infoCount, infos, sizeof(*infos));
}

/* Nothing draws here and there is no MPS. */
#define EMPTY_LIST(name, record)                                                                   \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *infoCount, record *infos)                 \
    {                                                                                              \
        GS_NVML_ENTER_CARD(card, device);                                                          \
        (void)card;                                                                                \
        (void)infos;                                                                               \
        if (!infoCount)                                                                            \
            return NVML_ERROR_INVALID_ARGUMENT;                                                    \
        *infoCount = 0;                                                                            \
        return NVML_SUCCESS;                                                                       \
    }

EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                   nvmlProcessDetailList_t *plist)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!plist)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (plist->version != STRUCT_VERSION(nvmlProcessDetailList_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    pthread_mutex_lock(&uses_lock);
    unsigned int n = plist->mode ? 0 : list_uses(card, uses, GS_SIM_PROCS_MAX);
    nvmlReturn_t r = n > plist->numProcArrayEntries ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
    if (!r && n && !plist->procArray)
        r = NVML_ERROR_INVALID_ARGUMENT;
    plist->numProcArrayEntries = n;
    for (unsigned int i = 0; !r && i < n; i++)
        plist->procArray[i] = (nvmlProcessDetail_v1_t){.pid = uses[i].pid,
                                                       .usedGpuMemory = uses[i].bytes,
                                                       .gpuInstanceId = UINT32_MAX,
                                                       .computeInstanceId = UINT32_MAX};
    pthread_mutex_unlock(&uses_lock);
    return r;
}

/* ---- utilisation ---- */

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!utilization)
        return NVML_ERROR_INVALID_ARGUMENT;
    utilization->gpu = gs_clock_util_pct(gs_state_clock(card));
    utilization->memory = utilization->gpu / 2;
    return NVML_SUCCESS;
}

/* Engines nobody drives. */
#define IDLE_ENGINE(name)                                                                          \
    nvmlReturn_t name(nvmlDevice_t device, unsigned int *utilization,                              \
                      unsigned int *samplingPeriodUs)                                              \
    {                                                                                              \
        GS_NVML_ENTER_CARD(card, device);                                                          \
        (void)card;                                                                                \
        if (!utilization || !samplingPeriodUs)                                                     \
            return NVML_ERROR_INVALID_ARGUMENT;                                                    \
        *utilization = 0;                                                                          \
        *samplingPeriodUs = GS_CLOCK_SAMPLE_NS / 1000;                                             \
        return NVML_SUCCESS;                                                                       \
    }

IDLE_ENGINE(nvmlDeviceGetEncoderUtilization)
IDLE_ENGINE(nvmlDeviceGetDecoderUtilization)
IDLE_ENGINE(nvmlDeviceGetJpgUtilization)
IDLE_ENGINE(nvmlDeviceGetOfaUtilization)

/* Microseconds since 1970, as NVML stamps its samples. */
static unsigned long long stamp(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (unsigned long long)ts.tv_sec * 1000000ull + (unsigned long long)ts.tv_nsec / 1000;
}

/* Share of each process since somebody last asked; a new period starts after one sample length.
 * uses_lock held. */
static void share(uint32_t card, unsigned int n)
{
    struct gs_clock *c = gs_state_clock(card);
    struct account *a = &accounts[card];
    uint64_t now = gs_clock_now();
    gs_clock_advance(c);
    if (now - a->t_ns < GS_CLOCK_SAMPLE_NS)
        return;
    for (unsigned int i = 0; i < n; i++) {
        uint32_t slot = uses[i].slot % GS_CLOCK_PROCS;
        uint64_t busy = c->proc[slot].busy_ns;
        uint64_t d = busy >= a->busy_ns[slot] ? busy - a->busy_ns[slot] : busy;
        uint64_t pct = d * 100 / (now - a->t_ns);
        a->pct[slot] = (uint32_t)(pct > 100 ? 100 : pct);
        a->busy_ns[slot] = busy;
    }
    a->t_ns = now;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t *utilization,
                                             unsigned int *processSamplesCount,
                                             unsigned long long lastSeenTimeStamp)
{
    GS_NVML_ENTER_CARD(card, device);
    unsigned long long now = stamp();
    if (!processSamplesCount)
        return NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&uses_lock);
    unsigned int n = lastSeenTimeStamp < now ? list_uses(card, uses, GS_SIM_PROCS_MAX) : 0;
    nvmlReturn_t r = NVML_SUCCESS;
    if (!n)
        r = NVML_ERROR_NOT_FOUND;
    else if (!utilization || n > *processSamplesCount)
        r = NVML_ERROR_INSUFFICIENT_SIZE;
    *processSamplesCount = n;
    if (!r)
        share(card, n);
    for (unsigned int i = 0; !r && i < n; i++) {
        uint32_t pct = accounts[card].pct[uses[i].slot % GS_CLOCK_PROCS];
        utilization[i] = (nvmlProcessUtilizationSample_t){
            .pid = uses[i].pid, .timeStamp = now, .smUtil = pct, .memUtil = pct / 2};
    }
    pthread_mutex_unlock(&uses_lock);
    return r;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   nvmlProcessesUtilizationInfo_t *info)
{
    GS_NVML_ENTER_CARD(card, device);
    unsigned long long now = stamp();
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != STRUCT_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    pthread_mutex_lock(&uses_lock);
    unsigned int n = list_uses(card, uses, GS_SIM_PROCS_MAX);
    nvmlReturn_t r = NVML_SUCCESS;
    if (!n)
        r = NVML_ERROR_NOT_FOUND;
    else if (!info->procUtilArray || n > info->processSamplesCount)
        r = NVML_ERROR_INSUFFICIENT_SIZE;
    info->processSamplesCount = n;
    if (!r)
        share(card, n);
    for (unsigned int i = 0; !r && i < n; i++) {
        uint32_t pct = accounts[card].pct[uses[i].slot % GS_CLOCK_PROCS];
        info->procUtilArray[i] = (nvmlProcessUtilizationInfo_v1_t){
            .pid = uses[i].pid, .timeStamp = now, .smUtil = pct, .memUtil = pct / 2};
    }
    pthread_mutex_unlock(&uses_lock);
    return r;
}

nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
                                  unsigned long long lastSeenTimeStamp,
                                  nvmlValueType_t *sampleValType, unsigned int *sampleCount,
                                  nvmlSample_t *samples)
{
    GS_NVML_ENTER_CARD(card, device);
    struct gs_clock *c = gs_state_clock(card);
    if (!sampleValType || !sampleCount)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (type != NVML_GPU_UTILIZATION_SAMPLES && type != NVML_MEMORY_UTILIZATION_SAMPLES)
        return NVML_ERROR_NOT_SUPPORTED;
    gs_clock_advance(c);
    *sampleValType = NVML_VALUE_TYPE_UNSIGNED_INT;
    uint64_t kept = c->n_samples < GS_CLOCK_SAMPLES ? c->n_samples : GS_CLOCK_SAMPLES;
    if (!samples) {
        *sampleCount = GS_CLOCK_SAMPLES;
        return NVML_SUCCESS;
    }
    unsigned long long to_epoch = stamp() - gs_clock_now() / 1000;
    unsigned int n = 0;
    for (uint64_t i = c->n_samples - kept; i < c->n_samples && n < *sampleCount; i++) {
        const struct gs_clock_sample *s = &c->sample[i % GS_CLOCK_SAMPLES];
        unsigned long long t = s->t_ns / 1000 + to_epoch;
        unsigned int pct = (unsigned int)(s->busy_ns * 100 / GS_CLOCK_SAMPLE_NS);
        if (t <= lastSeenTimeStamp)
            continue;
        samples[n].timeStamp = t;
        samples[n++].sampleValue.uiVal = type == NVML_GPU_UTILIZATION_SAMPLES ? pct : pct / 2;
    }
    *sampleCount = n;
    return n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
