#include "hook/attach.h"
#include "hook/self.h"

#include <errno.h>
#include <string.h>

#include "contract/owner.h"
#include "core/atomics.h"
#include "hook/engine.h"
#include "hook/file.h"
#include "hook/limits.h"
#include "hook/mirror.h"
#include "hook/resize.h"
#include "hook/ring.h"
#include "hook/slot.h"
#include "hook/suspend.h"
#include "hook/sys.h"
#include "hook/trace.h"

static int find_uuid(const struct gs_self_state *self, const char *uuid)
{
    for (uint32_t i = 0; i < self->n_mapped; i++) {
        if (strncmp(self->uuid[i], uuid, sizeof(self->uuid[i])) == 0)
            return (int)i;
    }
    return -ENODEV;
}

/** The quota counts; the ledger shows it to others. From variables the smaller of the two counts,
 * for a process can change its own. */
static void set_limit(struct gs_self_state *self, uint32_t i, const struct gs_quota_device *dev,
                      bool from_env)
{
    uint64_t shown = gs_atomic_load(&self->device[i].limit_bytes, __ATOMIC_RELAXED);

    if (from_env) {
        self->limit_bytes[i] = shown < dev->limit_bytes ? shown : dev->limit_bytes;
        return;
    }
    self->limit_bytes[i] = dev->limit_bytes;
    if (shown != dev->limit_bytes) {
        gs_atomic_store(&self->device[i].limit_bytes, dev->limit_bytes, __ATOMIC_RELAXED);
        gs_mirror_limit(i, dev->limit_bytes);
    }
}

/** Its share of compute, by the same rule. */
static void set_core(struct gs_self_state *self, uint32_t i, const struct gs_quota_device *dev,
                     bool from_env)
{
    struct gs_ledger_device *d = &self->device[i];
    uint32_t pct = __atomic_load_n(&d->core_pct, __ATOMIC_RELAXED);
    uint32_t policy = __atomic_load_n(&d->policy, __ATOMIC_RELAXED);

    if (!from_env || pct == 0 || pct > dev->core_pct)
        pct = dev->core_pct;
    if (!from_env || policy > dev->policy)
        policy = dev->policy; /* in the order of the enum each gives more */
    __atomic_store_n(&self->core_pct[i], pct, __ATOMIC_RELAXED);
    __atomic_store_n(&self->policy[i], policy, __ATOMIC_RELAXED);
    if (from_env)
        return;
    __atomic_store_n(&d->core_pct, pct, __ATOMIC_RELAXED);
    __atomic_store_n(&d->policy, policy, __ATOMIC_RELAXED);
    gs_mirror_core(i, pct);
}

/** From variables: what the process that made the ledger said counts too. */
static void set_priority(struct gs_self_state *self, const struct gs_quota *quota, bool from_env)
{
    uint32_t priority = quota->priority;

    if (from_env && priority == GS_PRIORITY_HIGH && !gs_mirror_is_high())
        priority = GS_PRIORITY_LOW;
    if (!from_env)
        gs_mirror_priority(priority == GS_PRIORITY_HIGH);
    __atomic_store_n(&self->priority, priority, __ATOMIC_RELAXED);
}

/** Find our devices in the ledger, which has a place for each. */
static void match_devices(struct gs_self_state *self, const struct gs_quota *quota, bool from_env)
{
    for (uint32_t i = 0; i < self->n_mapped; i++) {
        memcpy(self->uuid[i], self->device[i].uuid, sizeof(self->uuid[i]));
        self->uuid[i][sizeof(self->uuid[i]) - 1] = '\0';
    }
    for (uint32_t i = 0; i < quota->n_devices; i++) {
        int at = find_uuid(self, quota->device[i].uuid);

        if (at < 0)
            continue; /* a tenant has just overwritten it: not granted */
        set_limit(self, (uint32_t)at, &quota->device[i], from_env);
        set_core(self, (uint32_t)at, &quota->device[i], from_env);
    }
    set_priority(self, quota, from_env);
    __atomic_store_n(&self->oversubscribe, quota->oversubscribe, __ATOMIC_RELAXED);
    if (!from_env)
        gs_atomic_store(&self->ledger->head.quota_generation, quota->generation, __ATOMIC_RELAXED);
}

static int identify(struct gs_self_state *self)
{
    struct gs_owner owner;
    int rc = gs_owner_self(&owner);

    if (rc < 0)
        return gs_self_fail(GS_REASON_NO_PROC, "/proc", (uint64_t)-rc, 0);
    self->pid = owner.pid;
    self->start_ticks = owner.start_ticks;
    self->owner_word = gs_owner_word(&owner);
    self->image = owner.image;
    self->once = owner.once;
    return 0;
}

static int claim(struct gs_self_state *self)
{
    int rc = gs_slot_claim();

    if (rc == -EUSERS)
        return gs_self_fail(GS_REASON_SLOTS_FULL, self->path, GS_LEDGER_SLOTS, 0);
    if (rc < 0)
        return gs_self_fail(GS_REASON_LEDGER_OPEN, self->path, (uint64_t)-rc, 0);
    gs_mirror_claim();
    return 0;
}

/** Limits are no good. Where there is a ledger already, its ring can tell people. */
static void open_for_ring(void)
{
    int rc = gs_file_open(NULL);

    (void)rc; /* where there is none the reason stays in this process */
}

/** The list of cards will be there when the program has initialised the driver. */
static bool is_early(const struct gs_self_state *self)
{
    return self->reason == GS_REASON_NO_CARDS && self->reason_arg[0] == EAGAIN;
}

static int attach(struct gs_self_state *self, struct gs_quota *quota)
{
    bool from_env;
    int rc = gs_limits_read(quota, &from_env);

    self->quota.from_env = from_env;
    if (rc < 0) {
        if (!is_early(self))
            open_for_ring();
        return rc;
    }
    rc = identify(self);
    if (rc == 0)
        rc = gs_file_open(quota);
    if (rc < 0)
        return rc;
    match_devices(self, quota, from_env);
    rc = claim(self);
    gs_file_joined();
    return rc;
}

int gs_attach(void)
{
    static struct gs_quota quota; /* 7 KiB; the engine calls us once at a time */
    struct gs_self_state *self = &gs_self;
    int saved_errno = errno;
    int rc;

    gs_ring_configure();
    gs_trace_configure();
    self->reason = GS_REASON_NONE;
    rc = attach(self, &quota);
    if (rc == 0) {
        self->state = GS_SELF_READY;
        self->n_devices = self->n_mapped;
        gs_suspend_attached();
        gs_resize_attached();
    } else if (quota.fail == GS_FAIL_OPEN) {
        self->state = GS_SELF_OPEN;
        rc = 1;
    } else {
        self->state = GS_SELF_CLOSED;
        rc = -ESHUTDOWN;
    }
    if (is_early(self))
        rc = -EAGAIN;
    else if (rc != 0)
        gs_ring_log((enum gs_reason)self->reason, GS_RING_NO_DEVICE, self->reason_what,
                    self->reason_arg);
    errno = saved_errno;
    return rc;
}

void gs_attach_forget(void)
{
    struct gs_self_state *self = &gs_self;
    int saved_errno = errno;

    gs_suspend_forget();
    gs_file_close();
    memset(self, 0, sizeof(*self));
    errno = saved_errno;
}

int gs_attach_device(const char *uuid)
{
    const struct gs_self_state *self = &gs_self;
    int at;

    if (self->state == GS_SELF_OPEN)
        return -ENOENT;
    if (self->state != GS_SELF_READY)
        return -ESHUTDOWN;
    at = find_uuid(self, uuid);
    return at >= 0 && self->limit_bytes[at] == 0 ? -ENODEV : at;
}

bool gs_attach_is_closed(void)
{
    return gs_self.state == GS_SELF_CLOSED;
}

uint32_t gs_attach_n_devices(void)
{
    return gs_self.n_devices;
}

const char *gs_attach_uuid(uint32_t dev)
{
    return dev < gs_self.n_devices ? gs_self.uuid[dev] : NULL;
}

enum gs_reason gs_attach_reason(void)
{
    return (enum gs_reason)gs_self.reason;
}
