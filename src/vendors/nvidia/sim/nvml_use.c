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
    GS_NVML_ENTER_PART(card, part, device);
    if (!memory)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (part == GS_NVML_WHOLE) {
        memory->total = gs_sim_state->card[card].memory_bytes;
        memory->used = used_bytes(card);
    } else {
        memory->total = (uint64_t)gs_sim_state->seat[card].part[part].memory_mb << 20;
        memory->used = 0;
    }
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
    utilization->gpu = gs_fault_pct(gs_clock_util_pct(gs_state_clock(card)));
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

/* From the card's time to NVML's. Fixed, so that a sample keeps its stamp. */
static unsigned long long epoch_us(void)
{
    static unsigned long long offset;
    unsigned long long known = __atomic_load_n(&offset, __ATOMIC_RELAXED), none = 0;
    if (known)
        return known;
    known = stamp() - gs_clock_now() / 1000;
    if (__atomic_compare_exchange_n(&offset, &none, known, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return known;
    return none;
}

static uint64_t since_ns(unsigned long long last_seen_us)
{
    unsigned long long offset = epoch_us();
    return last_seen_us > offset ? (last_seen_us - offset) * 1000 + 999 : 0;
}

static unsigned int percent(uint64_t busy_ns)
{
    uint64_t pct = busy_ns * 100 / GS_CLOCK_SAMPLE_NS;
    return gs_fault_pct((uint32_t)(pct > 100 ? 100 : pct));
}

/* Newest sample of each process that used the card: "one structure per process that had some
 * non-zero utilization during the last sample period" (nvmlDeviceGetProcessUtilization). */
static struct gs_clock_proc_sample samples_of[GS_CLOCK_USES]; /* guard: uses_lock */

static unsigned int list_samples(uint32_t card, unsigned long long last_seen_us)
{
    struct gs_clock_proc_sample *s = samples_of;
    uint32_t n = gs_clock_uses(gs_state_clock(card), since_ns(last_seen_us), s, GS_CLOCK_USES);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (percent(s[i].busy_ns))
            s[kept++] = s[i];
    return kept;
}

static nvmlReturn_t sample_result(unsigned int n, const void *room, unsigned int count)
{
    if (!n)
        return NVML_ERROR_NOT_FOUND;
    return room && n <= count ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t *utilization,
                                             unsigned int *processSamplesCount,
                                             unsigned long long lastSeenTimeStamp)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!processSamplesCount)
        return NVML_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&uses_lock);
    unsigned int n = list_samples(card, lastSeenTimeStamp);
    nvmlReturn_t r = sample_result(n, utilization, *processSamplesCount);
    *processSamplesCount = n;
    for (unsigned int i = 0; !r && i < n; i++) {
        unsigned int pct = percent(samples_of[i].busy_ns);
        utilization[i] =
            (nvmlProcessUtilizationSample_t){.pid = (unsigned int)samples_of[i].pid,
                                             .timeStamp = samples_of[i].t_ns / 1000 + epoch_us(),
                                             .smUtil = pct,
                                             .memUtil = pct / 2};
    }
    pthread_mutex_unlock(&uses_lock);
    return r;
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                   nvmlProcessesUtilizationInfo_t *info)
{
    GS_NVML_ENTER_CARD(card, device);
    if (!info)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (info->version != STRUCT_VERSION(nvmlProcessesUtilizationInfo_v1_t, 1))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    pthread_mutex_lock(&uses_lock);
    unsigned int n = list_samples(card, info->lastSeenTimeStamp);
    nvmlReturn_t r = sample_result(n, info->procUtilArray, info->processSamplesCount);
    info->processSamplesCount = n;
    for (unsigned int i = 0; !r && i < n; i++) {
        unsigned int pct = percent(samples_of[i].busy_ns);
        info->procUtilArray[i] =
            (nvmlProcessUtilizationInfo_v1_t){.pid = (unsigned int)samples_of[i].pid,
                                              .timeStamp = samples_of[i].t_ns / 1000 + epoch_us(),
                                              .smUtil = pct,
                                              .memUtil = pct / 2};
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
    (void)gs_clock_advance(c);
    *sampleValType = NVML_VALUE_TYPE_UNSIGNED_INT;
    uint64_t kept = c->n_samples < GS_CLOCK_SAMPLES ? c->n_samples : GS_CLOCK_SAMPLES;
    if (!samples) {
        *sampleCount = GS_CLOCK_SAMPLES;
        return NVML_SUCCESS;
    }
    unsigned int n = 0;
    for (uint64_t i = c->n_samples - kept; i < c->n_samples && n < *sampleCount; i++) {
        const struct gs_clock_sample *s = &c->sample[i % GS_CLOCK_SAMPLES];
        unsigned long long t = s->t_ns / 1000 + epoch_us();
        unsigned int pct = percent(s->busy_ns);
        if (t <= lastSeenTimeStamp)
            continue;
        samples[n].timeStamp = t;
        samples[n++].sampleValue.uiVal = type == NVML_GPU_UTILIZATION_SAMPLES ? pct : pct / 2;
    }
    *sampleCount = n;
    return n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}
