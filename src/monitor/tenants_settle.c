#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "core/size.h"
#include "monitor/cgroup.h"
#include "monitor/tenants_internal.h"

/* What a driver may take for a process beside what it was asked for: code loaded late, rounding. */
#define SLACK_BYTES ((uint64_t)64 << 20)
/* Memory is given back a moment after a process ended: one look alone is no proof. */
#define BREACH_LOOKS  2u
#define PROCESSES_MAX 4096u

const char *gs_held_word(enum gs_held held)
{
    static const char *const word[GS_HELD_COUNT] = {
        [GS_HELD_HARDWARE] = "hardware",
        [GS_HELD_HOOK] = "hook",
        [GS_HELD_EXCLUSIVE] = "exclusive",
        [GS_HELD_NONE] = "none",
    };

    return word[held];
}

static const struct gs_tenants_card *find_card(const struct gs_tenants_driver *driver,
                                               const char *uuid)
{
    for (size_t i = 0; driver != NULL && i < driver->n_cards; i++)
        if (strcmp(driver->card[i].uuid, uuid) == 0)
            return &driver->card[i];
    return NULL;
}

/* ---- which cards a container has ---- */

static struct gs_reading_device *find_read(const struct gs_reading *reading, struct gs_str uuid)
{
    for (size_t i = 0; i < reading->n_devices; i++)
        if (uuid.n > 0 && gs_str_eq_c(uuid, reading->device[i].uuid))
            return &reading->device[i];
    return NULL;
}

static void put_uuid(struct gs_tenants_device *d, struct gs_str uuid)
{
    memset(d->uuid, 0, sizeof(d->uuid));
    memcpy(d->uuid, uuid.p, uuid.n < sizeof(d->uuid) ? uuid.n : sizeof(d->uuid) - 1);
}

/** The card at a place of the grant. HAMi's plugin may have given another one of this machine in
 *  its place: then the file says which. */
static void take_granted(const struct gs_tenant *tenant, const struct gs_pods_container *granted,
                         size_t i, const struct gs_tenants_driver *driver,
                         struct gs_tenants_device *ret)
{
    const struct gs_reading *reading = &tenant->reading;
    const struct gs_pods_device *g = &granted->device[i];

    *ret = (struct gs_tenants_device){.index = (uint32_t)i, .core_pct = g->core_pct};
    put_uuid(ret, g->uuid);
    ret->read = find_read(reading, g->uuid);
    if (ret->read != NULL || i >= reading->n_devices ||
        find_card(driver, reading->device[i].uuid) == NULL)
        return;
    for (size_t j = 0; j < granted->n_devices; j++)
        if (gs_str_eq_c(granted->device[j].uuid, reading->device[i].uuid))
            return;
    ret->read = &reading->device[i];
    put_uuid(ret, gs_str_of(ret->read->uuid));
}

/** Make the list anew; what the watchdog knew of a card is kept. Returns 0 or -ENOMEM. */
static int list_devices(struct gs_tenant *tenant, const struct gs_pods_container *granted,
                        const struct gs_tenants_driver *driver)
{
    bool is_granted = granted != NULL && granted->n_devices > 0;
    size_t most = is_granted ? granted->n_devices : tenant->reading.n_devices, n = 0;
    struct gs_tenants_device *list;

    if (most > GS_TENANTS_CARDS)
        most = GS_TENANTS_CARDS;
    list = calloc(most + 1, sizeof(*list));
    if (list == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < most; i++) {
        const struct gs_reading_device *read = &tenant->reading.device[i];

        if (is_granted) {
            take_granted(tenant, granted, i, driver, &list[n++]);
        } else if (read->uuid[0] != '\0' &&
                   (driver == NULL || driver->n_cards == 0 || find_card(driver, read->uuid))) {
            list[n] = (struct gs_tenants_device){
                .index = (uint32_t)i, .read = read, .core_pct = read->core_pct};
            put_uuid(&list[n++], gs_str_of(read->uuid));
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < tenant->n_devices; k++)
            if (strcmp(list[i].uuid, tenant->device[k].uuid) == 0) {
                list[i].n_looks = tenant->device[k].n_looks;
                list[i].is_breach = tenant->device[k].is_breach;
            }
    free(tenant->device);
    tenant->device = list;
    tenant->n_devices = n;
    return 0;
}

/* ---- whose a process is ---- */

static bool has_pid(const struct gs_tenant *tenant, uint32_t pid)
{
    for (size_t i = 0; i < tenant->reading.n_pids; i++)
        if (tenant->reading.pid[i] > 0 && (uint32_t)tenant->reading.pid[i] == pid)
            return true;
    return false;
}

/** By the container's cgroup; where there is none by the lock that the kernel says it holds on a
 *  ledger. HAMi's region has pids, too, but they are its tenant's word: they count where there is
 *  nothing better. */
static struct gs_tenant *find_owner(const struct gs_tenants *t, int proc_fd, uint32_t pid)
{
    struct gs_cgroup group;

    if (t->opt.pods != NULL && proc_fd >= 0 && gs_cgroup_read(proc_fd, pid, &group) == 0) {
        const struct gs_pods_pod *pod = gs_pods_find(t->opt.pods, gs_str_of(group.pod_uid));
        const struct gs_pods_container *c =
            pod != NULL ? gs_pods_find_id(pod, gs_str_of(group.container_id)) : NULL;

        return c != NULL ? gs_tenants_find(t, pod->uid, c->name) : NULL;
    }
    for (size_t i = 0; i < t->n; i++)
        if (t->at[i]->reading.kind == GS_READING_LEDGER && has_pid(t->at[i], pid))
            return t->at[i];
    for (size_t i = 0; i < t->n; i++)
        if (t->opt.pods == NULL && has_pid(t->at[i], pid))
            return t->at[i];
    return NULL;
}

static uint64_t add_known(uint64_t sum, uint64_t more)
{
    if (more == GS_TENANTS_UNKNOWN)
        return sum;
    return sum == GS_TENANTS_UNKNOWN ? more : gs_size_add(sum, more);
}

static void place(struct gs_tenants *t, int proc_fd, const struct gs_tenants_driver *driver,
                  const struct gs_tenants_process *p)
{
    struct gs_tenant *tenant = find_owner(t, proc_fd, p->pid);
    const char *uuid = driver->card[p->card].uuid;

    if (tenant == NULL)
        return;
    if (!has_pid(tenant, p->pid) && tenant->reading.kind != GS_READING_REGION)
        tenant->n_unheld++;
    for (size_t i = 0; i < tenant->n_devices; i++) {
        struct gs_tenants_device *d = &tenant->device[i];

        if (strcmp(d->uuid, uuid) != 0)
            continue;
        d->n_processes++;
        d->driver_bytes = add_known(d->driver_bytes, p->used_bytes);
        d->util_pct = add_known(d->util_pct, p->util_pct);
        return;
    }
}

static void place_all(struct gs_tenants *t, const struct gs_tenants_driver *driver)
{
    GS_CLEANUP(gs_file_close)
    int proc_fd = open(t->opt.proc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    for (size_t i = 0; i < t->n; i++) {
        t->at[i]->n_unheld = 0;
        for (size_t k = 0; k < t->at[i]->n_devices; k++) {
            /* the driver lists all processes: who is not there has nothing */
            t->at[i]->device[k].driver_bytes = driver != NULL ? 0 : GS_TENANTS_UNKNOWN;
            t->at[i]->device[k].util_pct = driver != NULL ? 0 : GS_TENANTS_UNKNOWN;
        }
    }
    for (size_t i = 0; driver != NULL && i < driver->n_processes && i < PROCESSES_MAX; i++)
        if (driver->process[i].card < driver->n_cards)
            place(t, proc_fd, driver, &driver->process[i]);
}

/* ---- what is told of a card ---- */

static enum gs_held held_of(const struct gs_tenant *tenant, const struct gs_tenants_device *d,
                            const struct gs_pods_container *c, const struct gs_tenants_card *card)
{
    const struct gs_pods_device *g =
        c != NULL && d->index < c->n_devices ? &c->device[d->index] : NULL;

    if (g != NULL && g->is_part)
        return GS_HELD_HARDWARE;
    if (tenant->reading.kind == GS_READING_DAMAGED)
        return GS_HELD_NONE;
    if (tenant->reading.kind != GS_READING_NONE)
        return d->read != NULL ? GS_HELD_HOOK : GS_HELD_NONE;
    if (g != NULL && g->core_pct == 100 &&
        (g->mem_bytes == 0 ||
         (card != NULL && gs_size_add(g->mem_bytes, 1u << 20) > card->total_bytes)))
        return GS_HELD_EXCLUSIVE;
    if (tenant->has_folder && d->n_processes == 0 && (c == NULL || !c->is_uncontrolled))
        return GS_HELD_HOOK; /* no program has used the card yet */
    return GS_HELD_NONE;
}

/** What the slice may have by its grant; a file's word where there is none. */
static uint64_t slice_bytes(const struct gs_tenants_device *d, const struct gs_pods_container *c)
{
    const struct gs_pods_device *g =
        c != NULL && d->index < c->n_devices ? &c->device[d->index] : NULL;

    if (g != NULL)
        return g->mem_bytes != 0 && !g->is_part ? g->mem_bytes : GS_TENANTS_UNKNOWN;
    return d->read != NULL ? d->read->limit_bytes : GS_TENANTS_UNKNOWN;
}

static void settle_device(const struct gs_tenant *tenant, struct gs_tenants_device *d,
                          const struct gs_pods_container *c, const struct gs_tenants_driver *driver)
{
    const struct gs_tenants_card *card = find_card(driver, d->uuid);
    const struct gs_reading_device *read = d->read;

    d->held = held_of(tenant, d, c, card);
    d->limit_bytes = read != NULL ? read->limit_bytes : GS_TENANTS_UNKNOWN;
    if (d->limit_bytes == GS_TENANTS_UNKNOWN && c != NULL && d->index < c->n_devices &&
        c->device[d->index].mem_bytes != 0)
        d->limit_bytes = c->device[d->index].mem_bytes;
    if (d->limit_bytes == GS_TENANTS_UNKNOWN && card != NULL)
        d->limit_bytes = card->total_bytes;
    d->used_bytes = read != NULL ? read->used_bytes : d->driver_bytes;
    if (read != NULL && read->sm_pct != GS_READING_UNKNOWN)
        d->util_pct = read->sm_pct;
}

/* ---- the watchdog ---- */

static void tell_breach(const struct gs_tenants_who *who, const struct gs_tenants_device *d,
                        uint64_t slice)
{
    if (d->is_breach)
        GS_LOG_WARN("a container uses more of a card than its slice",
                    GS_LOG_STR("namespace", who->ns), GS_LOG_STR("pod", who->pod),
                    GS_LOG_STR("container", who->container), GS_LOG_CSTR("device", d->uuid),
                    GS_LOG_UINT("used_bytes", d->driver_bytes), GS_LOG_UINT("slice_bytes", slice));
    else
        GS_LOG_INFO("a container is within its slice again", GS_LOG_STR("namespace", who->ns),
                    GS_LOG_STR("pod", who->pod), GS_LOG_STR("container", who->container),
                    GS_LOG_CSTR("device", d->uuid));
}

static void watch(struct gs_tenants *t, struct gs_tenant *tenant, struct gs_tenants_device *d,
                  const struct gs_pods_container *c)
{
    uint64_t slice = slice_bytes(d, c), slack = d->n_processes * SLACK_BYTES;
    struct gs_tenants_who who = {
        .pod = tenant->uid, .container = tenant->container, .ns = GS_STR("")};
    bool is_over = slice != GS_TENANTS_UNKNOWN && d->driver_bytes > gs_size_add(slice, slack);
    bool is_told;

    if (d->driver_bytes == GS_TENANTS_UNKNOWN)
        return; /* nothing is known now: what was found stays */
    d->n_looks = is_over ? d->n_looks + 1 : 0;
    d->excess_bytes = is_over ? d->driver_bytes - slice : 0;
    is_told = gs_tenants_who(t, tenant, &who); /* of one that is gone its names as they were */
    if (is_over != d->is_breach && (!is_over || d->n_looks >= BREACH_LOOKS)) {
        d->is_breach = is_over;
        tenant->n_breaches += is_over;
        tell_breach(&who, d, slice);
    }
    if (d->is_breach && d->n_looks % GS_TENANTS_AGAIN == BREACH_LOOKS && is_told &&
        who.of != NULL && t->opt.breach != NULL)
        t->opt.breach(t->opt.arg, &who, d, slice);
}

void gs_tenants_end(struct gs_tenants *t, const struct gs_tenants_driver *driver)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct gs_pods_pod *pod =
            t->opt.pods != NULL ? gs_pods_find(t->opt.pods, t->at[i]->uid) : NULL;

        if (list_devices(t->at[i],
                         pod != NULL ? gs_pods_find_container(pod, t->at[i]->container) : NULL,
                         driver) < 0)
            t->at[i]->n_devices = 0; /* no memory: nothing is told of it until the next look */
    }
    place_all(t, driver);
    for (size_t i = 0; i < t->n; i++) {
        struct gs_tenant *tenant = t->at[i];
        const struct gs_pods_pod *pod =
            t->opt.pods != NULL ? gs_pods_find(t->opt.pods, tenant->uid) : NULL;
        const struct gs_pods_container *c =
            pod != NULL ? gs_pods_find_container(pod, tenant->container) : NULL;

        for (size_t k = 0; k < tenant->n_devices; k++) {
            settle_device(tenant, &tenant->device[k], c, driver);
            watch(t, tenant, &tenant->device[k], c);
        }
    }
}
