#include "vendors/nvidia/sim/fault.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "vendors/nvidia/abi/cuda_types.h"
#include "vendors/nvidia/abi/nvml_types.h"

static struct gs_fault no_faults;
struct gs_fault *gs_fault_state = &no_faults;

void gs_fault_attach(struct gs_fault *f)
{
    gs_fault_state = f ? f : &no_faults;
}

/* Length without the suffix of the per-thread twins: a rule holds for all forms of one function. */
static size_t base_length(const char *name)
{
    size_t n = strlen(name);
    if (n > 5 && (!strcmp(name + n - 5, "_ptds") || !strcmp(name + n - 5, "_ptsz")))
        n -= 5;
    return n;
}

static void sleep_ns(uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000ull),
                          .tv_nsec = (long)(ns % 1000000000ull)};
    nanosleep(&ts, NULL);
}

int gs_fault_hit(const char *name)
{
    struct gs_fault *f = gs_fault_state;
    size_t n = base_length(name);
    for (int i = 0; i < GS_FAULT_RULES; i++) {
        struct gs_fault_rule *r = &f->rule[i];
        if (!__atomic_load_n(&r->used, __ATOMIC_ACQUIRE) || n >= GS_FAULT_NAME_MAX ||
            strncmp(r->name, name, n) != 0 || r->name[n])
            continue;
        uint64_t call = __atomic_add_fetch(&r->calls, 1, __ATOMIC_RELAXED);
        if (r->slow_ns)
            sleep_ns(r->slow_ns);
        if (r->code && (!r->nth || call == r->nth))
            return r->code;
    }
    if (__atomic_load_n(&f->driver_stopped, __ATOMIC_RELAXED))
        return strncmp(name, "nvml", 4) ? CUDA_ERROR_NO_DEVICE : NVML_ERROR_DRIVER_NOT_LOADED;
    if (__atomic_load_n(&f->nvml_absent, __ATOMIC_RELAXED) && !strncmp(name, "nvml", 4))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    int card = gs_fault_current_card();
    if (card >= 0 && gs_fault_is_lost((uint32_t)card) && !strncmp(name, "cu", 2))
        return CUDA_ERROR_DEVICE_UNAVAILABLE;
    return 0;
}

int gs_fault_set(struct gs_fault *f, const char *name, uint64_t nth, int32_t code, uint64_t slow_ns)
{
    size_t n = base_length(name);
    if (!n || n >= GS_FAULT_NAME_MAX)
        return -EINVAL;
    for (int i = 0; i < GS_FAULT_RULES; i++) {
        struct gs_fault_rule *r = &f->rule[i];
        uint32_t unused = 0;
        /* 2 = being written: readers look for 1. */
        if (!__atomic_compare_exchange_n(&r->used, &unused, 2, 0, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        memset(r->name, 0, sizeof(r->name));
        memcpy(r->name, name, n);
        r->nth = nth;
        r->calls = 0;
        r->slow_ns = slow_ns;
        r->code = code;
        /* Pairs with the acquire in gs_fault_hit. */
        __atomic_store_n(&r->used, 1, __ATOMIC_RELEASE);
        __atomic_add_fetch(&f->armed, 1, __ATOMIC_RELEASE);
        return 0;
    }
    return -ENOSPC;
}

int gs_fault_lose(struct gs_fault *f, uint32_t card)
{
    if (card > 63)
        return -EINVAL;
    uint64_t bit = 1ull << card;
    if (!(__atomic_fetch_or(&f->lost_mask, bit, __ATOMIC_RELEASE) & bit))
        __atomic_add_fetch(&f->armed, 1, __ATOMIC_RELEASE);
    return 0;
}

int gs_fault_return(struct gs_fault *f, uint32_t card)
{
    if (card > 63)
        return -EINVAL;
    uint64_t bit = 1ull << card;
    if (__atomic_fetch_and(&f->lost_mask, ~bit, __ATOMIC_RELEASE) & bit)
        __atomic_sub_fetch(&f->armed, 1, __ATOMIC_RELEASE);
    return 0;
}

void gs_fault_driver_stop(struct gs_fault *f)
{
    if (!__atomic_exchange_n(&f->driver_stopped, 1, __ATOMIC_RELEASE))
        __atomic_add_fetch(&f->armed, 1, __ATOMIC_RELEASE);
}

void gs_fault_driver_start(struct gs_fault *f)
{
    __atomic_add_fetch(&f->driver_starts, 1, __ATOMIC_RELEASE);
    if (__atomic_exchange_n(&f->driver_stopped, 0, __ATOMIC_RELEASE))
        __atomic_sub_fetch(&f->armed, 1, __ATOMIC_RELEASE);
}

int gs_fault_nvml_absent(struct gs_fault *f)
{
    if (!__atomic_exchange_n(&f->nvml_absent, 1, __ATOMIC_RELEASE))
        __atomic_add_fetch(&f->armed, 1, __ATOMIC_RELEASE);
    return 0;
}

int gs_fault_nvml_lies(struct gs_fault *f, uint32_t pct)
{
    if (pct > 100)
        return -EINVAL;
    __atomic_store_n(&f->nvml_lies, pct + 1, __ATOMIC_RELAXED);
    return 0;
}

int gs_fault_raise_xid(struct gs_fault *f, uint32_t card, uint64_t xid, uint32_t part)
{
    if (card > 63)
        return -EINVAL;
    uint64_t seq = __atomic_add_fetch(&f->n_xids, 1, __ATOMIC_RELAXED);
    struct gs_fault_xid *x = &f->xid[seq % GS_FAULT_XIDS];
    x->card = card;
    x->xid = xid;
    x->part = part;
    /* Pairs with the acquire of NVML's event wait. */
    __atomic_store_n(&x->seq, seq, __ATOMIC_RELEASE);
    return 0;
}

void gs_fault_reset(struct gs_fault *f)
{
    __atomic_store_n(&f->armed, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&f->lost_mask, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&f->nvml_absent, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&f->nvml_lies, 0, __ATOMIC_RELEASE);
    if (__atomic_exchange_n(&f->driver_stopped, 0, __ATOMIC_RELEASE))
        __atomic_add_fetch(&f->driver_starts, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < GS_FAULT_RULES; i++)
        __atomic_store_n(&f->rule[i].used, 0, __ATOMIC_RELEASE);
}
