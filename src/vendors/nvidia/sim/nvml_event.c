/* Event sets: XID errors raised by gpuslice-sim. */
#include <stdlib.h>
#include <time.h>

#include "vendors/nvidia/sim/nvml.h"

#define EVENT_XID 0x8ull /* nvmlEventTypeXidCriticalError */
#define EVENT_ALL 0x1full
#define POLL_NS   5000000
#define SET_MAGIC UINT64_C(0x4753457665537431)

struct event_set {
    uint64_t magic;
    uint64_t seen; /* sequence number of the last XID looked at */
    uint64_t types[GS_SIM_CARDS_MAX];
};

#define SET_OF(var, handle)                                                                        \
    struct event_set *var = (struct event_set *)(void *)handle;                                    \
    if (!var || var->magic != SET_MAGIC)                                                           \
    return NVML_ERROR_INVALID_ARGUMENT

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    GS_NVML_ENTER();
    if (!set)
        return NVML_ERROR_INVALID_ARGUMENT;
    struct event_set *s = calloc(1, sizeof(*s));
    if (!s)
        return NVML_ERROR_MEMORY;
    s->magic = SET_MAGIC;
    s->seen = __atomic_load_n(&gs_fault_state->n_xids, __ATOMIC_ACQUIRE);
    *set = (nvmlEventSet_t)(void *)s;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    GS_SIM_ENTRY;
    SET_OF(s, set);
    s->magic = 0;
    free(s);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes,
                                      nvmlEventSet_t set)
{
    GS_NVML_ENTER_CARD(card, device);
    SET_OF(s, set);
    if (eventTypes & ~EVENT_ALL)
        return NVML_ERROR_NOT_SUPPORTED;
    s->types[card] |= eventTypes;
    return NVML_SUCCESS;
}

/* The next XID this set asked for; 0 if there is none yet. */
static int next_event(struct event_set *s, nvmlEventData_t *ret)
{
    const struct gs_fault *f = gs_fault_state;
    uint64_t newest = __atomic_load_n(&f->n_xids, __ATOMIC_ACQUIRE);
    if (newest - s->seen > GS_FAULT_XIDS)
        s->seen = newest - GS_FAULT_XIDS; /* older ones were overwritten */
    while (s->seen < newest) {
        const struct gs_fault_xid *x = &f->xid[(s->seen + 1) % GS_FAULT_XIDS];
        /* Pairs with the release in gs_fault_raise_xid: not yet written whole means not yet there.
         */
        if (__atomic_load_n(&x->seq, __ATOMIC_ACQUIRE) != s->seen + 1)
            return 0;
        s->seen++;
        if (x->card < gs_sim_state->n_cards && (s->types[x->card] & EVENT_XID)) {
            *ret = (nvmlEventData_t){.device = gs_nvml_handle(x->card),
                                     .eventType = EVENT_XID,
                                     .eventData = x->xid,
                                     .gpuInstanceId =
                                         x->part ? gs_nvml_instance(x->part - 1) : UINT32_MAX,
                                     .computeInstanceId = x->part ? 0 : UINT32_MAX};
            return 1;
        }
    }
    return 0;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms)
{
    GS_NVML_ENTER();
    SET_OF(s, set);
    if (!data)
        return NVML_ERROR_INVALID_ARGUMENT;
    uint64_t until = gs_clock_now() + (uint64_t)timeoutms * 1000000;
    while (!next_event(s, data)) {
        nvmlReturn_t gone = gs_nvml_ready(); /* the driver may go meanwhile */
        if (gone)
            return gone;
        uint64_t now = gs_clock_now();
        if (now >= until)
            return NVML_ERROR_TIMEOUT;
        uint64_t left = until - now;
        struct timespec ts = {.tv_nsec = left < POLL_NS ? (long)left : POLL_NS};
        nanosleep(&ts, NULL);
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeoutms)
{
    GS_SIM_ENTRY;
    return nvmlEventSetWait_v2(set, data, timeoutms);
}
