#include "hook/resize.h"

#include <errno.h>
#include <string.h>

#include "hook/gate.h"
#include "hook/limiter.h"
#include "hook/limits.h"
#include "hook/mirror.h"
#include "hook/ring.h"
#include "hook/sys.h"

/** An event whose `what` is the quota's folder; of a long path the end says more. */
static void log_folder(enum gs_reason reason, uint64_t arg)
{
    const char *dir = gs_self.quota.dir;
    size_t n = gs_str_of(dir).n, most = sizeof(((struct gs_ledger_event *)0)->what) - 1;

    gs_ring_log(reason, GS_RING_NO_DEVICE, n > most ? dir + (n - most) : dir,
                (uint64_t[4]){arg, 0, 0, 0});
}

static const struct gs_quota_device *find(const struct gs_quota *quota, const char *uuid)
{
    for (uint32_t i = 0; i < quota->n_devices; i++) {
        if (strncmp(quota->device[i].uuid, uuid, sizeof(quota->device[i].uuid)) == 0)
            return &quota->device[i];
    }
    return NULL;
}

static bool is_known(const struct gs_self_state *self, const char *uuid)
{
    for (uint32_t i = 0; i < self->n_devices; i++) {
        if (strncmp(self->uuid[i], uuid, sizeof(self->uuid[i])) == 0)
            return true;
    }
    return false;
}

static void take_core(struct gs_self_state *self, uint32_t i, const struct gs_quota_device *dev)
{
    struct gs_ledger_device *shown = &self->device[i];

    __atomic_store_n(&self->core_pct[i], dev->core_pct, __ATOMIC_RELAXED);
    __atomic_store_n(&self->policy[i], dev->policy, __ATOMIC_RELAXED);
    if (__atomic_load_n(&shown->core_pct, __ATOMIC_RELAXED) == dev->core_pct &&
        __atomic_load_n(&shown->policy, __ATOMIC_RELAXED) == dev->policy)
        return;
    __atomic_store_n(&shown->core_pct, dev->core_pct, __ATOMIC_RELAXED);
    __atomic_store_n(&shown->policy, dev->policy, __ATOMIC_RELAXED);
    gs_mirror_core(i, dev->core_pct);
}

/** The terms of a device are about to change. */
static void tell(const struct gs_self_state *self, uint32_t i, const struct gs_quota_device *dev)
{
    if (__atomic_load_n(&self->limit_bytes[i], __ATOMIC_RELAXED) == dev->limit_bytes &&
        __atomic_load_n(&self->core_pct[i], __ATOMIC_RELAXED) == dev->core_pct &&
        __atomic_load_n(&self->policy[i], __ATOMIC_RELAXED) == dev->policy)
        return;
    gs_ring_log(GS_REASON_RESIZED_DEVICE, i, gs_quota_policy_name(dev->policy),
                (uint64_t[4]){dev->limit_bytes, dev->core_pct, 0, 0});
}

/** One device of the ledger. The quota counts; ledger and mirror show it to others.
 *  @first  no other process of the slice has come to this quota yet: we speak for all. */
static void take_device(struct gs_self_state *self, uint32_t i, const struct gs_quota_device *dev,
                        bool first)
{
    struct gs_ledger_device *shown = &self->device[i];
    uint64_t limit = dev != NULL ? dev->limit_bytes : 0, used;

    /* not granted before, and not now */
    if (dev == NULL && __atomic_load_n(&self->limit_bytes[i], __ATOMIC_RELAXED) == 0)
        return;
    if (first && dev != NULL)
        tell(self, i, dev);
    __atomic_store_n(&self->limit_bytes[i], limit, __ATOMIC_RELAXED);
    if (__atomic_load_n(&shown->limit_bytes, __ATOMIC_RELAXED) != limit) {
        __atomic_store_n(&shown->limit_bytes, limit, __ATOMIC_RELAXED);
        gs_mirror_limit(i, limit);
    }
    if (dev != NULL)
        take_core(self, i, dev);
    used = first && limit != UINT64_MAX ? gs_gate_used(i) : 0;
    if (used > limit)
        gs_ring_log(GS_REASON_RESIZE_BELOW_USE, i, NULL, (uint64_t[4]){used, limit, 0, 0});
}

static void take(struct gs_self_state *self, const struct gs_quota *quota)
{
    uint64_t *shown = &self->ledger->head.quota_generation;
    uint64_t before = __atomic_load_n(shown, __ATOMIC_RELAXED);
    bool first = before != quota->generation &&
                 __atomic_compare_exchange_n(shown, &before, quota->generation, 0, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED);

    if (first)
        log_folder(GS_REASON_RESIZED, quota->generation);
    if (first && self->priority != quota->priority)
        gs_ring_log(GS_REASON_RESIZED_PRIORITY, GS_RING_NO_DEVICE,
                    gs_quota_priority_name(quota->priority), NULL);
    for (uint32_t i = 0; i < self->n_devices; i++)
        take_device(self, i, find(quota, self->uuid[i]), first);
    __atomic_store_n(&self->priority, quota->priority, __ATOMIC_RELAXED);
    gs_mirror_priority(quota->priority == GS_PRIORITY_HIGH);
    __atomic_store_n(&self->oversubscribe, quota->oversubscribe, __ATOMIC_RELAXED);
    for (uint32_t i = 0; first && i < quota->n_devices; i++) {
        if (!is_known(self, quota->device[i].uuid))
            gs_ring_log(GS_REASON_RESIZE_NEW_DEVICE, GS_RING_NO_DEVICE, quota->device[i].uuid,
                        NULL);
    }
}

/** Read and take over. True where limits may have changed. */
static bool look(struct gs_self_state *self)
{
    static struct gs_quota quota; /* 7 KiB; one thread at a time */
    uint32_t line;
    int rc;

    if (self->quota.from_env != 0) {
        gs_ring_log(GS_REASON_RESIZE_ENV, GS_RING_NO_DEVICE, NULL, NULL);
        return false;
    }
    rc = gs_limits_reread(&quota, &line);
    if (rc == 0)
        take(self, &quota);
    else if (rc == -EBADMSG)
        log_folder(GS_REASON_RESIZE_BAD, line);
    else
        log_folder(GS_REASON_RESIZE_UNREADABLE, (uint64_t)-rc);
    return rc == 0;
}

void gs_resize_now(void)
{
    struct gs_self_state *self = &gs_self;
    uint64_t wanted;
    bool changed;

    if (self->n_devices == 0 || __atomic_exchange_n(&self->quota.busy, 1, __ATOMIC_ACQUIRE) != 0)
        return;
    /* before the file is read: who writes a newer one after that raises the word again */
    wanted = __atomic_load_n(&self->ledger->head.quota_wanted, __ATOMIC_ACQUIRE);
    changed = look(self);
    __atomic_store_n(&self->quota_seen, wanted, __ATOMIC_RELAXED);
    __atomic_store_n(&self->quota.busy, 0, __ATOMIC_RELEASE);
    if (changed)
        gs_limiter_configure();
    gs_limiter_publish(); /* whoever called for a look may have closed the straight way */
}

void gs_resize_attached(void)
{
    struct gs_self_state *self = &gs_self;

    if (self->quota.from_env == 0) {
        __atomic_store_n(&self->quota_seen,
                         __atomic_load_n(&self->ledger->head.quota_wanted, __ATOMIC_ACQUIRE),
                         __ATOMIC_RELAXED);
        /* who found no ledger to announce it in wrote it before we looked */
        if (gs_limits_changed())
            gs_resize_now();
    }
}

void gs_resize_poll(uint64_t now_ns)
{
    struct gs_self_state *self = &gs_self;
    uint64_t due = __atomic_load_n(&self->quota.due_ns, __ATOMIC_RELAXED);

    if (self->n_devices == 0)
        return;
    if (gs_resize_is_due(self)) {
        gs_resize_now();
        return;
    }
    /* a clock that has jumped back must not end the looking */
    if (now_ns < due && due - now_ns <= GS_RESIZE_POLL_NS)
        return;
    if (__atomic_compare_exchange_n(&self->quota.due_ns, &due, now_ns + GS_RESIZE_POLL_NS, 0,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
        gs_limits_changed())
        gs_resize_now();
}
