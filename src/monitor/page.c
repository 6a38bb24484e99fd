#include "monitor/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "contract/reason.h"

#define ZONE "vGPU" /* HAMi's, on every series of its */

static struct gs_str zone_of(const char *name)
{
    return strncmp(name, "hami_", 5) == 0 ? GS_STR(ZONE) : (struct gs_str){0};
}

/* ---- cards ---- */

struct card_family {
    const char *name, *legacy, *help;
    size_t at; /* of a uint64_t in struct gs_tenants_card */
    bool has_node;
};

#define CARD(member) offsetof(struct gs_tenants_card, member)

static const struct card_family card_families[] = {
    {"hami_host_gpu_memory_used_bytes", "HostGPUMemoryUsage", "Memory of the card in use.",
     CARD(used_bytes), true},
    {"hami_host_gpu_utilization_ratio", "HostCoreUtilization", "How busy the card is, in percent.",
     CARD(util_pct), true},
    {"hami_host_gpu_memory_controller_utilization_ratio", NULL,
     "How busy the card's memory is, in percent.", CARD(memory_util_pct), false},
    {"gpuslice_host_gpu_memory_bytes", NULL, "Memory of the card.", CARD(total_bytes), true},
};

static void write_card_family(const struct gs_page_from *from, const struct card_family *f,
                              bool is_legacy, struct gs_buf *buf)
{
    const char *name = is_legacy ? f->legacy : f->name;

    gs_prom_head(buf, name, "gauge", f->help);
    for (size_t i = 0; from->driver != NULL && i < from->driver->n_cards; i++) {
        const struct gs_tenants_card *c = &from->driver->card[i];
        uint64_t value = *(const uint64_t *)(const void *)((const char *)c + f->at);
        struct gs_str uuid = gs_str_of(c->uuid), type = gs_str_of(c->type), node = {0},
                      zone = zone_of(f->name);
        char index[16];

        if (value == GS_TENANTS_UNKNOWN)
            continue;
        (void)snprintf(index, sizeof(index), "%" PRIu32, c->index);
        if (f->has_node)
            node = from->node;
        if (is_legacy)
            GS_PROM_LINE(buf, name, value, {"nodeid", node}, {"deviceidx", gs_str_of(index)},
                         {"deviceuuid", uuid}, {"devicetype", type}, {"zone", zone});
        else
            GS_PROM_LINE(buf, name, value, {"node", node}, {"device_index", gs_str_of(index)},
                         {"device_uuid", uuid}, {"device_type", type}, {"zone", zone});
    }
}

/* ---- cards of containers ---- */

/** One card of one container. */
struct row {
    const struct gs_page_from *from;
    const struct gs_tenant *tenant;
    const struct gs_tenants_device *d;
    struct gs_tenants_who who;
};

typedef bool value_fn(const struct row *row, double *ret);

static bool known(uint64_t value, double *ret)
{
    *ret = (double)value;
    return value != GS_TENANTS_UNKNOWN;
}

static bool used(const struct row *row, double *ret)
{
    return known(row->d->used_bytes, ret);
}

static bool limit(const struct row *row, double *ret)
{
    return known(row->d->limit_bytes, ret);
}

static bool util(const struct row *row, double *ret)
{
    return known(row->d->util_pct, ret);
}

static bool context(const struct row *row, double *ret)
{
    return row->d->read != NULL && known(row->d->read->context_bytes, ret);
}

static bool module(const struct row *row, double *ret)
{
    return row->d->read != NULL && known(row->d->read->module_bytes, ret);
}

static bool buffer(const struct row *row, double *ret)
{
    return row->d->read != NULL && known(row->d->read->buffer_bytes, ret);
}

static bool last_kernel(const struct row *row, double *ret)
{
    int64_t last = row->tenant->reading.words.last_kernel_unix_s;

    if (row->d->read == NULL || last <= 0 || last > row->from->unix_s)
        return false;
    *ret = (double)(row->from->unix_s - last);
    return true;
}

static bool driver_bytes(const struct row *row, double *ret)
{
    return known(row->d->driver_bytes, ret);
}

static bool core_limit(const struct row *row, double *ret)
{
    *ret = row->d->core_pct > 0 ? row->d->core_pct : 100;
    return true;
}

/* What only our ledgers tell. */
static bool is_ours(const struct row *row)
{
    return row->d->read != NULL && row->tenant->reading.kind == GS_READING_LEDGER;
}

static bool core_used(const struct row *row, double *ret)
{
    if (!is_ours(row))
        return false;
    *ret = (double)row->d->read->used_10s_bp / 100;
    return true;
}

static bool refusals(const struct row *row, double *ret)
{
    return is_ours(row) && known(row->d->read->refusals, ret);
}

static bool waits(const struct row *row, double *ret)
{
    return is_ours(row) && known(row->d->read->waits, ret);
}

static bool waited(const struct row *row, double *ret)
{
    if (!is_ours(row))
        return false;
    *ret = (double)row->d->read->waited_ns / 1e9;
    return true;
}

static bool excess(const struct row *row, double *ret)
{
    *ret = row->d->is_breach ? (double)row->d->excess_bytes : 0;
    return row->d->driver_bytes != GS_TENANTS_UNKNOWN;
}

struct family {
    const char *name, *type, *help;
    value_fn *value;
};

static const struct family hami_families[] = {
    {"hami_vgpu_memory_used_bytes", "gauge", "Device memory of a container in use.", used},
    {"hami_vgpu_memory_limit_bytes", "gauge", "Device memory that a container may use.", limit},
    {"hami_container_device_memory_bytes", "gauge", "Device memory of a container in use.", used},
    {"hami_container_device_utilization_ratio", "gauge",
     "How much of a card a container uses, in percent.", util},
    {"hami_container_last_kernel_elapsed_seconds", "gauge",
     "Time since a container launched a kernel.", last_kernel},
    {"hami_vgpu_memory_context_bytes", "gauge", "Of the memory in use: contexts.", context},
    {"hami_vgpu_memory_module_bytes", "gauge", "Of the memory in use: modules.", module},
    {"hami_vgpu_memory_buffer_bytes", "gauge", "Of the memory in use: buffers.", buffer},
};

static const struct family legacy_families[] = {
    {"vGPU_device_memory_usage_in_bytes", "gauge", "Device memory of a container in use.", used},
    {"vGPU_device_memory_limit_in_bytes", "gauge", "Device memory that a container may use.",
     limit},
    {"Device_utilization_desc_of_container", "gauge",
     "How much of a card a container uses, in percent.", util},
    {"Device_last_kernel_of_container", "gauge", "Seconds since a container launched a kernel.",
     last_kernel},
};

static const struct family own_families[] = {
    {"gpuslice_container_driver_memory_bytes", "gauge",
     "Device memory that the driver gives to a container's processes.", driver_bytes},
    {"gpuslice_container_core_limit_ratio", "gauge",
     "Share of a card's time that a container may use, in percent.", core_limit},
    {"gpuslice_container_core_used_ratio", "gauge",
     "Share of a card's time that a container used in the last ten seconds, in percent.",
     core_used},
    {"gpuslice_container_refused_allocations_total", "counter",
     "Allocations that were refused to a container.", refusals},
    {"gpuslice_container_launch_waits_total", "counter",
     "Launches that had to wait for the container's share.", waits},
    {"gpuslice_container_launch_wait_seconds_total", "counter",
     "How long launches waited for the container's share.", waited},
    {"gpuslice_container_excess_bytes", "gauge",
     "Device memory that the driver gives to a container beyond its slice; 0 within it.", excess},
};

typedef void row_fn(const struct row *row, const void *arg, struct gs_buf *buf);

/** Each card of each container that is told of. */
static void each_device(const struct gs_page_from *from, row_fn *fn, const void *arg,
                        struct gs_buf *buf)
{
    for (size_t i = 0; i < gs_tenants_count(from->tenants); i++) {
        struct row row = {.from = from, .tenant = gs_tenants_at(from->tenants, i)};

        if (!gs_tenants_who(from->tenants, row.tenant, &row.who))
            continue;
        for (size_t k = 0; k < row.tenant->n_devices; k++) {
            row.d = &row.tenant->device[k];
            fn(&row, arg, buf);
        }
    }
}

/** Each container that is told of. */
static void each_container(const struct gs_page_from *from, row_fn *fn, const void *arg,
                           struct gs_buf *buf)
{
    for (size_t i = 0; i < gs_tenants_count(from->tenants); i++) {
        struct row row = {.from = from, .tenant = gs_tenants_at(from->tenants, i)};

        if (gs_tenants_who(from->tenants, row.tenant, &row.who))
            fn(&row, arg, buf);
    }
}

#define INDEX_BYTES 16

static struct gs_str index_of(const struct row *row, char text[INDEX_BYTES])
{
    (void)snprintf(text, INDEX_BYTES, "%" PRIu32, row->d->index);
    return gs_str_of(text);
}

static void put_device(const struct row *row, const void *arg, struct gs_buf *buf)
{
    const struct family *f = arg;
    char index[INDEX_BYTES];
    double value;

    if (!f->value(row, &value))
        return;
    GS_PROM_LINE(buf, f->name, value, {"namespace", row->who.ns}, {"pod", row->who.pod},
                 {"container", row->who.container}, {"vdevice_index", index_of(row, index)},
                 {"device_uuid", gs_str_of(row->d->uuid)}, {"zone", zone_of(f->name)});
}

static void put_legacy(const struct row *row, const void *arg, struct gs_buf *buf)
{
    const struct family *f = arg;
    char index[INDEX_BYTES];
    double value;

    if (f->value(row, &value))
        GS_PROM_LINE(buf, f->name, value, {"podnamespace", row->who.ns}, {"podname", row->who.pod},
                     {"ctrname", row->who.container}, {"vdeviceid", index_of(row, index)},
                     {"deviceuuid", gs_str_of(row->d->uuid)}, {"zone", GS_STR(ZONE)});
}

/* HAMi has amounts for labels here: for those who look at them still. */
static void put_legacy_parts(const struct row *row, const void *arg, struct gs_buf *buf)
{
    const struct gs_reading_device *read = row->d->read;
    char index[INDEX_BYTES], part[4][24];

    if (read == NULL)
        return;
    (void)snprintf(part[0], sizeof(part[0]), "%" PRIu64, read->context_bytes);
    (void)snprintf(part[1], sizeof(part[1]), "%" PRIu64, read->module_bytes);
    (void)snprintf(part[2], sizeof(part[2]), "%" PRIu64, read->buffer_bytes);
    (void)snprintf(part[3], sizeof(part[3]), "%" PRIu64, read->offset_bytes);
    GS_PROM_LINE(buf, arg, read->used_bytes, {"podnamespace", row->who.ns},
                 {"podname", row->who.pod}, {"ctrname", row->who.container},
                 {"vdeviceid", index_of(row, index)}, {"deviceuuid", gs_str_of(row->d->uuid)},
                 {"context", gs_str_of(part[0])}, {"module", gs_str_of(part[1])},
                 {"data", gs_str_of(part[2])}, {"offset", gs_str_of(part[3])},
                 {"zone", GS_STR(ZONE)});
}

/* ---- partitions ---- */

static void put_part(const struct gs_page_from *from, const struct gs_pods_pod *pod,
                     const struct gs_pods_part *p, struct gs_buf *buf)
{
    const struct gs_pods_container *c = &pod->container[p->container];
    char index[16], gi[16], ci[16], instance[64];

    (void)snprintf(index, sizeof(index), "%" PRIu32, p->device);
    (void)snprintf(gi, sizeof(gi), "%" PRIu32, p->gpu_instance);
    (void)snprintf(ci, sizeof(ci), "%" PRIu32, p->compute_instance);
    (void)snprintf(instance, sizeof(instance), "%.*s-%s", (int)p->profile.n, p->profile.p, gi);
    if (from == NULL)
        GS_PROM_LINE(buf, "MigInfo", 1, {"podnamespace", pod->ns}, {"podname", pod->name},
                     {"ctrname", c->name}, {"vdeviceid", gs_str_of(index)}, {"deviceuuid", p->card},
                     {"instanceid", gs_str_of(instance)}, {"zone", GS_STR(ZONE)});
    else
        GS_PROM_LINE(buf, "hami_mig_device_info", 1, {"namespace", pod->ns}, {"pod", pod->name},
                     {"container", c->name}, {"vdevice_index", gs_str_of(index)},
                     {"device_uuid", p->card}, {"mig_uuid", p->uuid}, {"profile", p->profile},
                     {"gpu_instance_id", gs_str_of(gi)}, {"compute_instance_id", gs_str_of(ci)},
                     {"zone", GS_STR(ZONE)});
}

static void put_parts(const struct row *row, const void *arg, struct gs_buf *buf)
{
    const struct gs_pods_pod *pod = row->who.of;

    for (size_t i = 0; pod != NULL && i < pod->n_parts; i++)
        if (&pod->container[pod->part[i].container] == row->who.granted)
            put_part(arg, pod, &pod->part[i], buf);
}

/* ---- containers ---- */

static void put_held(const struct row *row, const void *arg, struct gs_buf *buf)
{
    char index[INDEX_BYTES];

    GS_PROM_LINE(buf, arg, 1, {"namespace", row->who.ns}, {"pod", row->who.pod},
                 {"container", row->who.container}, {"vdevice_index", index_of(row, index)},
                 {"device_uuid", gs_str_of(row->d->uuid)},
                 {"held", gs_str_of(gs_held_word(row->d->held))});
}

typedef double count_fn(const struct gs_tenant *tenant);

static double processes(const struct gs_tenant *tenant)
{
    return (double)tenant->reading.n_pids;
}

static double unheld(const struct gs_tenant *tenant)
{
    return tenant->n_unheld;
}

static double is_damaged(const struct gs_tenant *tenant)
{
    return tenant->reading.kind == GS_READING_DAMAGED;
}

static double lacks_ledger(const struct gs_tenant *tenant)
{
    for (size_t i = 0; i < tenant->n_devices; i++)
        if (tenant->device[i].held == GS_HELD_NONE && tenant->device[i].n_processes > 0)
            return tenant->reading.kind == GS_READING_NONE;
    return 0;
}

static double breaches(const struct gs_tenant *tenant)
{
    return (double)tenant->n_breaches;
}

struct container_family {
    const char *name, *type, *help;
    count_fn *value;
};

static const struct container_family container_families[] = {
    {"gpuslice_container_processes", "gauge", "Processes of a container that its ledger has.",
     processes},
    {"gpuslice_container_unheld_processes", "gauge",
     "Processes of a container that use a card and are in no ledger.", unheld},
    {"gpuslice_container_ledger_damaged", "gauge",
     "1: what the file of a container says counts for nothing.", is_damaged},
    {"gpuslice_container_without_ledger", "gauge",
     "1: a container uses a slice of a card and nothing holds it.", lacks_ledger},
    {"gpuslice_container_breaches_total", "counter",
     "Times that a container was found to use more device memory than its slice.", breaches},
};

static void put_count(const struct row *row, const void *arg, struct gs_buf *buf)
{
    const struct container_family *f = arg;

    GS_PROM_LINE(buf, f->name, f->value(row->tenant), {"namespace", row->who.ns},
                 {"pod", row->who.pod}, {"container", row->who.container});
}

static void put_log(const struct row *row, const void *arg, struct gs_buf *buf)
{
    for (uint32_t i = 0; i < GS_REASON_COUNT; i++)
        if (row->tenant->log.count[i] > 0)
            GS_PROM_LINE(buf, arg, row->tenant->log.count[i], {"namespace", row->who.ns},
                         {"pod", row->who.pod}, {"container", row->who.container},
                         {"reason", gs_str_of(gs_reason_name(i))});
}

/* ---- the page ---- */

static void write_devices(const struct gs_page_from *from, const struct family *f, size_t n,
                          row_fn *put, struct gs_buf *buf)
{
    for (size_t i = 0; i < n; i++) {
        gs_prom_head(buf, f[i].name, f[i].type, f[i].help);
        each_device(from, put, &f[i], buf);
    }
}

static void write_own(const struct gs_page_from *from, struct gs_buf *buf)
{
    static const char held[] = "gpuslice_container_held",
                      log[] = "gpuslice_container_log_lines_total";

    write_devices(from, own_families, GS_ARRAY_LEN(own_families), put_device, buf);
    gs_prom_head(
        buf, held, "gauge",
        "1: how a container is kept to its part of a card: hardware, hook, exclusive, none.");
    each_device(from, put_held, held, buf);
    for (size_t i = 0; i < GS_ARRAY_LEN(container_families); i++) {
        const struct container_family *f = &container_families[i];

        gs_prom_head(buf, f->name, f->type, f->help);
        each_container(from, put_count, f, buf);
    }
    gs_prom_head(buf, log, "counter",
                 "Lines of a container's log, by reason: what was refused, and why.");
    each_container(from, put_log, log, buf);
}

static void one(struct gs_buf *buf, const char *name, const char *help, double value)
{
    gs_prom_head(buf, name, "gauge", help);
    gs_prom_line(buf, name, NULL, 0, value);
}

static void write_monitor(const struct gs_page_from *from, struct gs_buf *buf)
{
    static const char board[] = "gpuslice_monitor_board_written";

    one(buf, "gpuslice_monitor_driver_up", "1: the cards' driver answers.", from->driver != NULL);
    one(buf, "gpuslice_monitor_pods_synced", "1: the pods of the node are known.", from->is_synced);
    one(buf, "gpuslice_monitor_look_seconds", "How long the last look at all containers took.",
        from->look_s);
    gs_prom_head(buf, board, "gauge", "1: the board of a card is written by this process.");
    for (size_t i = 0; i < from->n_boards; i++)
        GS_PROM_LINE(buf, board, 1, {"device_uuid", gs_str_of(from->boards[i])});
    gs_prom_process(buf, &from->process);
}

static void write_legacy(const struct gs_page_from *from, struct gs_buf *buf)
{
    static const char parts[] = "Device_memory_desc_of_container";

    for (size_t i = 0; i < GS_ARRAY_LEN(card_families); i++)
        if (card_families[i].legacy != NULL)
            write_card_family(from, &card_families[i], true, buf);
    write_devices(from, legacy_families, GS_ARRAY_LEN(legacy_families), put_legacy, buf);
    gs_prom_head(buf, parts, "gauge", "Device memory of a container in use.");
    each_device(from, put_legacy_parts, parts, buf);
    gs_prom_head(buf, "MigInfo", "gauge", "1: a partition of a card that a container has.");
    each_container(from, put_parts, NULL, buf);
}

void gs_page_write(const struct gs_page_from *from, struct gs_buf *buf)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(card_families); i++)
        write_card_family(from, &card_families[i], false, buf);
    write_devices(from, hami_families, GS_ARRAY_LEN(hami_families), put_device, buf);
    gs_prom_head(buf, "hami_mig_device_info", "gauge",
                 "1: a partition of a card that a container has.");
    each_container(from, put_parts, from, buf);
    write_own(from, buf);
    if (from->has_legacy)
        write_legacy(from, buf);
    write_monitor(from, buf);
}
